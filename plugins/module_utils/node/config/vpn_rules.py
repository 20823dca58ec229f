# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rules about the VPN."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import NOT_SET, Problem
from .model import NodeConfig
from .types.openvpn import profile_problems

PROFILE = "azure.vpn.profile"
ACCEPTED = "one complete OpenVPN client profile"


def vpn_has_a_profile(config: NodeConfig) -> Iterator[Problem]:
    """A VPN client needs a profile, or permission to create one."""
    vpn = config.azure.vpn
    if vpn.enabled and not vpn.auto_provision and vpn.profile is None:
        yield Problem(PROFILE, NOT_SET, "a profile, or azure.vpn.autoProvision: true")


def profile_is_usable(config: NodeConfig) -> Iterator[Problem]:
    """A profile can be used as it is: complete, and without programs to run. Its content is not shown."""
    vpn = config.azure.vpn
    if not vpn.enabled or vpn.profile is None or vpn.profile.redacted:
        return
    text = vpn.profile.reveal()
    if "\n" not in text.strip():
        hint = "put its content here, not its path: lookup('ansible.builtin.file', PATH) reads a file"
        yield Problem(PROFILE, "one line", ACCEPTED, hint)
        return
    for problem in profile_problems(text):
        yield Problem(PROFILE, f"not usable: {problem}", ACCEPTED)
