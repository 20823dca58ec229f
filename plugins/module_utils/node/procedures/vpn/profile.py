# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The OpenVPN profile of a machine. It is part of the configuration, so that it is read and checked there."""

from __future__ import annotations

from ...config.types.openvpn import Profile, ProfileRefused, Remote, profile_problems, read_profile

__all__ = ["Profile", "ProfileRefused", "Remote", "profile_problems", "read_profile"]
