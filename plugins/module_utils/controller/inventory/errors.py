# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an inventory."""

from __future__ import annotations

from collections.abc import Sequence

from ...node.errors import FlexNodeError, counted

NOTHING_CHANGED = "This run changed nothing."
IN_INVENTORY = "in the inventory or on the command line, then run the playbook again"
CORRECT, CORRECT_SETTINGS = f"correct this {IN_INVENTORY}", f"correct these settings {IN_INVENTORY}"


class Stopped:
    """Of an error: the run ends before anything is changed, on the machines or in Azure, and says so."""

    unchanged = NOTHING_CHANGED


class InventoryInvalid(Stopped, FlexNodeError):
    code, title = "FLEX-1106", "The inventory can't be used as it is"
    remedy = CORRECT


class NoTargets(Stopped, FlexNodeError):
    code, title = "FLEX-1107", "No machine of this run has a source that this playbook writes to"


class MachinesNotNamed(Stopped, FlexNodeError):
    code, title = "FLEX-1108", "A playbook that removes machines needs their names on the command line"

    def __init__(self, playbook: str, hosts: Sequence[str], pattern: str = "") -> None:
        """pattern: what was typed, if it only leaves machines out."""
        act, end = {
            "config_delete": ("delete the configuration of", ""),
            "vpn_gateway": ("revoke the VPN certificates of", ""),
        }.get(playbook, ("remove", " from the cluster"))
        some = ", ".join(hosts[:5]) + (", ..." if len(hosts) > 5 else "")
        why = f"{pattern} only leaves machines out: with it" if pattern else "Without one of them"
        super().__init__(
            f"{playbook} needs --limit or flexnode_hosts. {why} this run would {act} "
            f"{counted(len(hosts), 'machine')}{end}: {some}",
            # HOST, not the name of a machine: that would be pasted and run.
            fix="name the machines, in one of these ways:"
            f"\n  ansible-playbook -i INVENTORY aks.flexnode.{playbook} --limit HOST1,HOST2"
            f"\n  ansible-playbook -i INVENTORY aks.flexnode.{playbook} -e flexnode_hosts=HOST1,GROUP1"
            "\n  in AWX: set Limit in the job template",
        )
