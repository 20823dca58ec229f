# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines of a run reach their cluster through a VPN gateway that this collection keeps. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...node.config.document import merge
from ...node.secret import REDACTED
from ..inventory.checks import Finding
from ..inventory.machines import Machine, alike, section
from ..inventory.secrets import OTHER_SECRETS
from ..inventory.variables import VPN_OPTIONS, listed

Json = Mapping[str, Any]
OF_PLACE = ("vnet_id", "gateway_id", "name", "resource_group")
DIRECTORY = "flexnode_vpn"  # beside the inventory
HIDDEN = (*OTHER_SECRETS, "flexnode_vpn_ca_certificate")  # secrets, and what is too long for a table


@dataclass(frozen=True, slots=True)
class Site:
    """One gateway and the machines behind it. The options hold secrets."""

    cluster_id: str
    options: Json = field(repr=False)
    machines: Sequence[Machine]

    @property
    def gateway(self) -> str:
        """Which gateway it is: two clusters may share one."""
        return gateway_of(self.options) or _place(self.cluster_id, self.options).lower()

    def request(self, directory: str, **more: Any) -> dict[str, Any]:
        """The options of flexnode_vpn_gateway."""
        others = list(dict.fromkeys(text for one in self.machines for text in _others(one)))
        found = {
            "cluster_id": self.cluster_id or None,
            "directory": directory,
            **settings_of(self.machines[0].document),
            **{name: value for name, value in self.options.items() if value not in (None, "")},
            **({"other_cidrs": others} if others else {}),
            **more,
        }
        return {name: value for name, value in found.items() if value is not None}


def _others(machine: Machine) -> list[str]:
    """The networks of a machine that the addresses of clients must not overlap."""
    return [*(machine.vpn.get("other_cidrs") or ()), *filter(None, [machine.pod_cidr])]


def is_provisioned(machine: Machine) -> bool:
    """Whether the controller gets the profile of a machine."""
    vpn = vpn_of(machine.document)
    return vpn.get("enabled") is True and vpn.get("autoProvision") is True


def client_name(machine: Machine) -> str:
    """The name of its certificate: that of the Node, as far as the inventory knows it."""
    return machine.node or machine.host


def names_of(machine: Machine, reported: str = "", taken: Container[str] = ()) -> list[str]:
    """All names under which a machine may have got a certificate: it may have been renamed since.

    reported: the name that the machine itself says. taken: names of other machines, whose certificates stay.
    """
    own = client_name(machine)
    others = (name for name in (reported, machine.host) if name not in taken)
    return list(dict.fromkeys(name for name in (own, *others) if name))


def named_nodes(value: Any) -> list[str]:
    """The names in flexnode_vpn_revoke, a list or a text with commas; none for true: the hosts of the run."""
    if value is True or str(value).lower() in ("true", "yes"):
        return []
    return list(dict.fromkeys(name for part in listed(value) if (name := str(part).strip())))


def has_place(machine: Machine) -> bool:
    """Whether it is known where its gateway is."""
    return bool(machine.cluster_id or machine.vpn.get("vnet_id"))


def sites(machines: Iterable[Machine], chosen: Callable[[Machine], bool] = is_provisioned) -> list[Site]:
    """The gateways of a run: machines of one cluster and one place share theirs."""
    found: dict[str, list[Machine]] = {}
    for machine in machines:
        if chosen(machine):
            found.setdefault(_place(machine.cluster_id, machine.vpn), []).append(machine)
    return [Site(group[0].cluster_id, group[0].vpn, group) for group in found.values()]


def gateway_of(options: Json) -> str:
    """What names a gateway whatever cluster it is for: a VNet has one. Empty: that of the cluster's VNet."""
    return str(options.get("gateway_id") or options.get("vnet_id") or "").lower()


def _place(cluster_id: str, options: Json) -> str:
    return json.dumps([cluster_id.lower(), {name: options.get(name) for name in OF_PLACE}])


def settings_of(document: Json) -> dict[str, Any]:
    """The options that the document sets."""
    vpn = vpn_of(document)
    named = {"address_pool": vpn.get("p2sGatewayCIDR"), "sku": vpn.get("gatewaySKU")}
    return {name: value for name, value in named.items() if value}


def vpn_of(document: Json) -> Json:
    """The section azure.vpn."""
    return section(section(document, "azure"), "vpn")


def vpn_findings(machines: Iterable[Machine], *, ephemeral: bool) -> Iterator[Finding]:
    """What keeps the controller from getting profiles, found before anything is made.

    ephemeral: the run's files are gone after it, as in AWX.
    """
    found = sites(machines)
    for site in found:
        hosts = tuple(one.host for one in site.machines)
        if not site.cluster_id and not site.options.get("vnet_id"):
            fix = "set flexnode_cluster_id, or flexnode_vpn_vnet_id"
            yield Finding(hosts, "azure.vpn.autoProvision needs to know the cluster or its VNet", fix)
        if len(str(site.options.get("passphrase") or "")) < 12:
            what = "azure.vpn.autoProvision needs flexnode_vpn_passphrase, which encrypts stored keys"
            yield Finding(hosts, what, "set it, from a vault or an AWX credential; at least 12 characters")
        if ephemeral and not site.options.get("directory"):
            what = "the record of VPN certificates would be lost with this job"
            fix = "set flexnode_vpn_directory to a directory that outlives it (docs/vpn_gateway.md)"
            yield Finding(hosts, what, fix)
        given = tuple(one.host for one in site.machines if vpn_of(one.document).get("profile"))
        if given:
            what = "azure.vpn.profile and azure.vpn.autoProvision are both set"
            yield Finding(given, what, "remove one of them")
    behind: dict[str, list[Machine]] = {}
    for site in found:
        behind.setdefault(site.gateway, []).extend(site.machines)
    for members in behind.values():
        yield from _contradictions(members)


def shared_certificates(machines: Iterable[Machine], others: Iterable[Machine]) -> Iterator[Finding]:
    """Machines of several clusters that would get one certificate: a gateway knows them by this name alone.

    others: machines outside this run. Machines of one cluster with one name are refused in any case.
    """
    run = {one.host: one for one in machines if is_provisioned(one)}
    outside = (one for one in others if one.host not in run and is_provisioned(one))

    def certificate(machine: Machine) -> tuple[str, str]:
        return client_name(machine), gateway_of(machine.vpn) or machine.cluster_id.lower()

    for (name, _gateway), found in alike([*run.values(), *outside], certificate).items():
        hosts = tuple(one.host for one in found)
        if len({one.key for one in found}) > 1 and run.keys() & set(hosts):
            what = f"these machines of one VPN gateway would share the certificate of {name}"
            yield Finding(hosts, what, "set a different agent.nodeName for each (in flexnode_host_config)")


def _contradictions(machines: Sequence[Machine]) -> Iterator[Finding]:
    """Settings of a gateway that differ among the machines behind it."""
    for name, values in _different(machines):
        shown = "values are not shown" if name in HIDDEN else ", ".join(values)
        what = f"machines of one VPN gateway have different {name}: {shown}"
        yield Finding(
            tuple(one.host for one in machines), what, "set it once for all machines of the gateway"
        )


def _different(machines: Sequence[Machine]) -> Iterator[tuple[str, list[str]]]:
    for key in ("p2sGatewayCIDR", "gatewaySKU"):
        values = list(dict.fromkeys(str(vpn_of(one.document).get(key) or "the default") for one in machines))
        if len(values) > 1:
            yield f"azure.vpn.{key}", values
    for variable, option in VPN_OPTIONS.items():
        if option in OF_PLACE or option == "other_cidrs":  # another gateway, or a list that is merged
            continue
        values = list(dict.fromkeys(_text(one.vpn.get(option)) for one in machines))
        if len(values) > 1:
            yield variable, values


def _text(value: Any) -> str:
    """A value to compare: -e makes texts of numbers and switches."""
    if value in (None, ""):
        return "the default"
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_profile(machine: Machine, profile: str, gateway: Json) -> Machine:
    """The machine with its profile, a secret of its document; without one, what it has stays.

    The addresses of clients of another owner's gateway are not what the document says: the machine's checks
    need the real ones.
    """
    pool = [] if gateway.get("created_by_collection") else gateway.get("address_pool") or []
    part = {"profile": profile or REDACTED, **({"p2sGatewayCIDR": pool[0]} if pool else {})}
    return replace(machine, document=merge(machine.document, {"azure": {"vpn": part}}))
