# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of a run, as the inventory describes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...node.config.choices import choices_of
from ...node.config.document import as_read, merge, unwrap
from ...node.config.types.values import ArmId
from .secrets import secrets_document
from .variables import DOCUMENTS, VARIABLES, VPN_OPTIONS, is_true, listed

Document = Mapping[str, Any]
Value = TypeVar("Value", bound=Hashable)
# Sources that the controller asks for all machines at once. The others are read by the machine itself.
RESOLVED = ("rp", "cluster", "blob", "machines")
POOLS = "machines"  # the source whose machines belong to FlexNodes pools
TOKEN_HOURS, ON_CREATE = 24, "on_create"


@dataclass(frozen=True, slots=True)
class Machine:
    """One host of the inventory. `node` is empty where the machine's own host name decides."""

    host: str
    source: str = "inline"
    node: str = ""
    cluster_id: str = ""
    document: Document = field(default_factory=dict)
    url: str = ""
    durable: bool = False
    storage: tuple[tuple[str, str], ...] = ()  # options of the storage account of its blob
    token_hours: int = TOKEN_HOURS  # lifetime of a bootstrap token that is created for it
    update_secret: str = ON_CREATE  # when its flexNodeConfig gets the secrets that Azure never returns
    url_directory: str = ""  # on the controller, for its configuration URL
    hooks: tuple[tuple[str, str], ...] = ()  # task files before and after an update
    arc_kubeconfig: str = ""  # on the controller, of its cluster: what grants rights to its Arc identity
    proof: bool = False  # a test pod is wanted once it has joined
    pool: str = ""  # its FlexNodes pool
    pool_api: str = ""  # version of the API of FlexNodes pools; empty: the default
    vpn: Document = field(default_factory=dict, repr=False)  # options of the VPN gateway; they hold secrets
    vpn_renew: bool = False  # a new VPN certificate is asked for
    vpn_force: bool = False  # the VPN gateway may be removed although machines use it

    @property
    def key(self) -> tuple[str, str]:
        """What tells its Node from all others: two clusters may have Nodes of one name."""
        return self.node, self.cluster_id.lower()

    @property
    def wants_token(self) -> bool:
        """Whether it joins with a bootstrap token: it has no Azure identity, or chooses the token."""
        return choices_of(self.document).wants_token

    @property
    def takes_turns(self) -> bool:
        """Whether it takes part in rollouts, which need a record in the cluster."""
        return section(self.document, "upgrade").get("maxUnavailable") is not None

    @property
    def pod_cidr(self) -> str:
        """The range of its pods, with cni.mode bridge."""
        cni = section(self.document, "cni")
        return str(cni.get("podCIDR") or "") if cni.get("mode") == "bridge" else ""

    def request(self, **more: Any) -> dict[str, Any]:
        """The item that the controller's modules take in their `nodes` option."""
        return {"name": self.node, "cluster_id": self.cluster_id, **more}


def machine_of(host: str, variables: Mapping[str, Any], read_file: Callable[[str], Document]) -> Machine:
    """One host: its file, the group's settings over it, the host's own over those, secrets over all."""
    source = str(variables.get("flexnode_config_source") or "inline")
    path = str(variables.get("flexnode_config_file") or "")
    document: Document = unwrap(read_file(path))[0] if path else {}
    for layer in DOCUMENTS:
        document = combined(document, variables.get(layer) or {})
    document = combined(document, secrets_document(variables))
    name = str(section(document, "agent").get("nodeName") or "")
    pool = str(variables.get("flexnode_pool") or section(document, "azure").get("targetAgentPoolName") or "")
    pool_api = str(variables.get("flexnode_machines_api_version") or "")
    if source in RESOLVED:
        name = name or host
        if source == POOLS:
            name = name.lower()  # the name of the machine in Azure, which is that of the Node
            document = merge(document, {"azure": _pool_settings(pool, pool_api)})
        document = merge(document, {"agent": {"nodeName": name}})
    target = section(section(document, "azure"), "targetCluster")
    return Machine(
        host=host,
        source=source,
        node=name,
        cluster_id=_canonical(str(variables.get("flexnode_cluster_id") or target.get("resourceId") or "")),
        document=as_read(document),
        url=str(variables.get("flexnode_config_url") or ""),
        durable=is_true(variables.get("flexnode_config_url_durable")) is True,
        storage=tuple(
            (option, str(value))
            for option in ("account_url", "account_key", "connection_string")
            if (value := variables.get(f"flexnode_blob_{option}"))
        ),
        token_hours=int(variables.get("flexnode_token_hours") or TOKEN_HOURS),
        update_secret=str(variables.get("flexnode_update_secret") or ON_CREATE),
        url_directory=str(variables.get("flexnode_url_directory") or ""),
        hooks=tuple(
            (hook, str(file))
            for hook in ("before", "after")
            if (file := variables.get(f"flexnode_update_{hook}"))
        ),
        arc_kubeconfig=str(variables.get("flexnode_arc_kubeconfig") or ""),
        proof=is_true(variables.get("flexnode_proof")) is True,
        pool=pool,
        pool_api=pool_api,
        vpn={
            option: _one_spelling(VARIABLES[name].type, value)
            for name, option in VPN_OPTIONS.items()
            if (value := variables.get(name)) not in (None, "")
        },
        vpn_renew=is_true(variables.get("flexnode_vpn_renew")) is True,
        vpn_force=is_true(variables.get("flexnode_vpn_force")) is True,
    )


def _one_spelling(kind: str, value: Any) -> Any:
    """A value of a variable of this type in one spelling, as machines of one gateway are compared."""
    if kind == "list":
        return [str(part) for part in listed(value)]
    return is_true(value) if kind == "bool" else value


def _pool_settings(pool: str, api: str) -> dict[str, Any]:
    """What the document of a machine in a pool says of it; a missing name is reported as a finding."""
    named = {"targetAgentPoolName": pool} if pool else {}
    return {**named, **({"machines": {"apiVersion": api}} if api else {})}


def _canonical(cluster_id: str) -> str:
    """One spelling of an id, so that answers about the cluster are found; a wrong id is refused later."""
    try:
        return ArmId.parse(cluster_id).canonical()
    except ValueError:
        return cluster_id


def combined(base: Document, over: Document) -> dict[str, Any]:
    """One layer of settings over another, as the filter `combine(recursive=true)` does.

    A null stays: it removes a key of the source's document, which only the machine may know.
    """
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = combined(dict(below or {}), value) if both else value
    return result


def alike(machines: Iterable[Machine], setting: Callable[[Machine], Value]) -> dict[Value, list[Machine]]:
    """Machines with the same value of a setting: one call of a module is for one value."""
    found: dict[Value, list[Machine]] = {}
    for machine in machines:
        found.setdefault(setting(machine), []).append(machine)
    return found


def of_sources(machines: Iterable[Machine], *sources: str) -> list[Machine]:
    """Those of the machines whose configuration comes from these sources."""
    return [machine for machine in machines if machine.source in sources]


def section(parent: Document, key: str) -> Document:
    """A section of a document; empty if it is absent, or no mapping."""
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}
