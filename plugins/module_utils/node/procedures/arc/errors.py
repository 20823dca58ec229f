# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of Azure Arc."""

from __future__ import annotations

from ...errors import FlexNodeError


class ArcMissing(FlexNodeError):
    code, title = "FLEX-1811", "The Azure Arc agent is not installed"
    remedy = (
        "install azcmagent, or set flexnode_arc_package_url and flexnode_arc_package_sha256 (module options "
        "package_url and package_sha256)"
    )


class ArcPackageFailed(FlexNodeError):
    code, title = "FLEX-1812", "The Azure Arc agent can't be installed or removed"


class ArcElsewhere(FlexNodeError):
    code, title = "FLEX-1813", "This machine is registered with Azure Arc as something else"


class ArcFailed(FlexNodeError):
    code, title = "FLEX-1814", "The Azure Arc agent reports an error"


class ArcUnhealthy(FlexNodeError):
    code, title = "FLEX-1815", "The Azure Arc agent does not work"


class RolesMissing(FlexNodeError):
    code, title = "FLEX-1816", "The machine's identity lacks permissions"


class ArmUnusable(FlexNodeError):
    code, title = "FLEX-1817", "Azure Resource Manager does not return a usable answer"
