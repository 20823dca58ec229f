# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of getting a token."""

from __future__ import annotations

from ..errors import FlexNodeError


class CredentialUnusable(FlexNodeError):
    code, title = "FLEX-1801", "The credential of the service principal can't be used"


class IdentityRefused(FlexNodeError):
    code, title = "FLEX-1802", "Azure refuses this identity"


class IdentityMissing(FlexNodeError):
    code, title = "FLEX-1803", "The Azure identity that is needed is not configured, or not on this machine"


class TokenSourceUnreachable(FlexNodeError):
    code, title = "FLEX-1804", "No token can be obtained at the moment"


class ChallengeInvalid(FlexNodeError):
    code, title = "FLEX-1805", "The Arc agent's challenge is not valid"
    remedy = (
        "check that himds, the agent's process, listens on port 40342 (ss -ltnp), then: systemctl restart "
        "himdsd"
    )
