# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the variables of all hosts to machines and findings; the variables of each host are read once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ...node.config.document import misshapen, unwrap
from ...node.errors import FlexNodeError, counted
from .checks import Finding, check_fleet, check_source, check_variables, lines_of
from .errors import InventoryInvalid
from .machines import Document, Machine, machine_of
from .variables import DOCUMENTS, PREFIX, kind_of

Hostvars = Mapping[str, Mapping[str, Any]]
# What names, pod ranges and VPN certificates follow from. No secrets: who runs this for some machines may not
# be able to read those of the others, and a lookup of each would take its time.
COMPARED = (
    *DOCUMENTS,
    "flexnode_config_source",
    "flexnode_cluster_id",
    "flexnode_pool",
    "flexnode_vpn_gateway_id",
    "flexnode_vpn_vnet_id",
)
PARTS: Mapping[str, Any] = {
    "agent": {"nodeName": {}},
    "azure": {
        "targetAgentPoolName": {},
        "targetCluster": {"resourceId": {}},
        "vpn": {"enabled": {}, "autoProvision": {}},
    },
    "cni": {"mode": {}, "podCIDR": {}},
}


@dataclass(slots=True)
class Inventory:
    """The machines of a run, and everything in the inventory that contradicts itself."""

    machines: list[Machine] = field(default_factory=list)
    others: list[Machine] = field(default_factory=list)  # outside the run, where it was compared with them
    findings: list[Finding] = field(default_factory=list)

    names: set[str] = field(default_factory=set)  # of all variables with our prefix
    filled: dict[str, set[str]] = field(default_factory=dict)  # by host, those that are not blank

    @property
    def warnings(self) -> list[str]:
        """The findings that do not stop a run."""
        return [
            f"{found.some}: {found.what}. {found.fix}" for found in self.findings if found.severity != "error"
        ]

    def require(self) -> None:
        """Stop where there is an error; then all findings are shown, in one list."""
        if any(found.severity == "error" for found in self.findings):
            what = f"{counted(len(self.findings), 'problem')} in the inventory variables"
            raise InventoryInvalid(what, why="\n  " + "\n  ".join(lines_of(self.findings)))


def read_inventory(
    run: Sequence[str],
    hostvars: Hostvars,
    read_file: Callable[[str, str], Document],
    *,
    others: Hostvars = MappingProxyType({}),
    joins: bool = True,
) -> Inventory:
    """Read the hosts of a run. `joins`: they are about to join, so that all must be there and fit together.

    others: the variables of all hosts of the inventory, where names and pod ranges are compared with those
    outside this run; of documents, the parts that are `compared` suffice.
    """
    inventory, of_hosts = Inventory(), {}
    for host in run:
        try:
            of_hosts[host] = ours(hostvars[host])
        except InventoryInvalid as error:
            inventory.findings.append(Finding((host,), f"{error.what}: {error.why}", error.fix))
    inventory.names = {name for variables in of_hosts.values() for name in variables}
    inventory.filled = {
        host: {name for name, value in variables.items() if value} for host, variables in of_hosts.items()
    }
    inventory.findings += check_variables(of_hosts)
    if any(found.severity == "error" for found in inventory.findings):
        return inventory
    for host, variables in of_hosts.items():
        try:
            machine = machine_of(host, variables, lambda path, host=host: read_file(path, host))  # type: ignore[misc]
        except FlexNodeError as error:
            what = f"{error.what}: {error.why}".strip(": ")
            inventory.findings.append(Finding((host,), what, error.fix))
            continue
        inventory.machines.append(machine)
        if joins:
            chosen = bool(variables.get("flexnode_config_source"))
            inventory.findings += check_source(machine, chosen=chosen)
    if joins:
        # One that can't be read may have any name; its own is not given to another.
        outside = [host for host in others if host not in of_hosts]
        inventory.others = [outside_run(host, others) or Machine(host) for host in outside]
        inventory.findings += check_fleet(inventory.machines, inventory.others)
    return inventory


def ours(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a host that have our prefix."""
    return {name: variables[name] for name in variables if name.startswith(PREFIX)}


def outside_run(host: str, hostvars: Hostvars) -> Machine | None:
    """A machine outside this run, with nothing but what is compared.

    One that can't be read is no reason to stop this run.
    """
    try:
        variables = hostvars[host]
        read = {name: variables[name] for name in COMPARED if name in variables}
        return machine_of(host, read, lambda _path: {})
    except Exception:  # noqa: BLE001 - for example a template that needs facts of that host
        return None


def compared(value: Any, parts: Mapping[str, Any] | None = None) -> Any:
    """Of a document, what is compared between machines; of anything else, such as a template, all."""
    if not isinstance(value, Mapping):
        return value
    wanted = PARTS if parts is None else parts
    return {name: compared(value[name], below) for name, below in wanted.items() if name in value}


def _candidates(path: str, places: Iterable[str | None]) -> list[str]:
    """The files that a path may mean, from several places in turn."""
    return list(dict.fromkeys(os.path.join(place, os.path.expanduser(path)) for place in places if place))


def find_file(path: str, places: Iterable[str | None]) -> str | None:
    """The first of those files that exists."""
    return next((one for one in _candidates(path, places) if os.path.isfile(one)), None)


def config_file(path: str, places: Sequence[str | None], load: Callable[[str], Any]) -> Document:
    """Read a configuration file, sought from several places in turn. `load` reads and parses a file."""
    found = find_file(path, places)
    if found is None:
        raise InventoryInvalid(
            "flexnode_config_file does not exist",
            why=f"tried {', '.join(_candidates(path, places))}",
            fix="correct the path; a relative one starts at the current directory or beside the inventory",
        )
    try:
        document = load(found)
    except (ValueError, OSError) as error:
        why = " ".join(str(error).split())
        raise InventoryInvalid(
            f"{found} can't be read", why=why, fix="correct the file; JSON or YAML"
        ) from error
    if not isinstance(document, Mapping):
        raise InventoryInvalid(f"{found} is no configuration document", why="a mapping is expected")
    if wrong := misshapen(unwrap(document)[0]):
        why = ", ".join(f"{path} is {kind_of(part)}, not a mapping" for path, part in wrong)
        raise InventoryInvalid(f"{found} is no configuration document", why=why, fix="correct the file")
    return document
