# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's document as the properties of its flexNodeConfig, and whether two of those differ. All pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ....node.config.choices import choices_of
from ....node.config.document import as_read, merge
from ....node.config.parse import parse
from ....node.config.types.labels import taints
from ....node.config.types.setting import Refused
from ....node.errors import ConfigInvalid, Problem
from ....node.secret import REDACTED

Json = dict[str, Any]
Kind = Literal["created", "updated", "regenerated", "unchanged", "refused", "deleted"]

IDENTITIES = ("servicePrincipal", "managedIdentity", "arc")
VERSIONS = ("kubernetes", "containerd", "runc", "cni", "npd")
NODE = ("maxPods", "labels", "taints", "kubelet")
KUBERNETES_AUTH = ("method", "useAzureAuth")  # a profile is the node's own choice
SECRETS = ("clientSecret",)
PARTS = ("continuousMonitoring", "azureAuth", "kubernetesAuth", "versions", "nodeConfig")
# The provider adds labels of its own, which no document may set.
AKS_PREFIX = "kubernetes.azure.com/"
# What the provider fills in: the cluster's version and region; it creates the bootstrap token, too.
FILLED_IN: Json = {
    "kubernetes": {"version": "1.34.4"},
    "azure": {"targetCluster": {"location": "westeurope"}},
}
# Why a Node is not Ready, where there is none: the machine has left, and its last status is history.
GONE = ("NodeNotFound", "NotJoined")


def properties_of(document: Mapping[str, Any]) -> Json:
    """What is PUT for a document. The rest of it (mirrors, proxy, paths, ...) is not part of the resource."""
    plain = as_read(merge({}, document))  # one spelling, no nulls
    azure, auth = _part(plain, "azure"), _part(plain, "kubernetesAuth")
    there = {name: _part(azure, name) for name in IDENTITIES if name in azure}
    if there.get("arc", {}).get("enabled") is not True:
        there.pop("arc", None)
    chosen = _part(plain, "azureAuth").get("method")
    if auth.get("method") in IDENTITIES:
        chosen = chosen or auth["method"]
    # With Arc, a principal only registers the machine; afterwards the Arc identity is used.
    method = chosen or next((name for name in ("arc", *IDENTITIES) if name in there), None)
    parts: Json = {
        "continuousMonitoring": plain.get("continuousMonitoring") is True,
        "azureAuth": {"method": method, **there} if method else {},
        "kubernetesAuth": {name: auth[name] for name in KUBERNETES_AUTH if name in auth},
        "versions": {
            name: str(_part(plain, name)["version"]) for name in VERSIONS if "version" in _part(plain, name)
        },
        "nodeConfig": {name: value for name, value in _part(plain, "node").items() if name in NODE},
    }
    if "taints" in parts["nodeConfig"]:
        parts["nodeConfig"]["taints"] = taints_of(parts["nodeConfig"]["taints"])
    return {name: part for name, part in parts.items() if part != {}}


def checked(name: str, document: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a part of a document, before Azure is asked; paths start with the node's name."""
    filled = merge(FILLED_IN, document)
    if choices_of(document).wants_token:
        filled = merge({"azure": {"bootstrapToken": {"token": REDACTED}}}, filled)
    try:
        parse(filled, purpose="prepare", pollable=True)
    except ConfigInvalid as invalid:
        return [problem.under(name) for problem in invalid.problems]
    return []


def taints_of(raw: Any) -> list[str]:
    """Taints in one form, KEY=VALUE:EFFECT; what is not a taint is left for Azure to refuse."""
    try:
        return [str(taint) for taint in taints.read(raw)]
    except Refused:
        return list(raw) if isinstance(raw, list) else [str(raw)]


def without_secrets(properties: Any, mark: str = "") -> Any:
    """The same without its secrets, or with a mark in their place."""
    if not isinstance(properties, Mapping):
        return properties
    return {
        key: mark if key in SECRETS else without_secrets(value, mark)
        for key, value in properties.items()
        if mark or key not in SECRETS
    }


def has_secret(properties: Any) -> bool:
    """Whether there is a secret, which Azure never returns, so that a difference can't be seen."""
    return isinstance(properties, Mapping) and any(
        (key in SECRETS and bool(value)) or has_secret(value) for key, value in properties.items()
    )


def known_properties(resource: Mapping[str, Any]) -> Json | None:
    """What Azure returns of a node's configuration, as properties; None if it returned the status only.

    A PUT is echoed as it was sent; a GET answers with the whole `config`, defaults included.
    """
    properties = _part(resource, "properties")
    if echoed := {name: properties[name] for name in PARTS if name in properties}:
        return echoed
    config = properties.get("config")
    return properties_of(config) if isinstance(config, Mapping) else None


def differences(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """Paths at which what is wanted is not what is known.

    What is not wanted explicitly may be anything, as the provider fills in defaults; but labels and taints
    are all ours, so one too many counts.
    """
    return sorted(_differences("", without_secrets(wanted), without_secrets(known)))


def _differences(path: str, wanted: Any, known: Any) -> Iterator[str]:
    if path.endswith("labels"):
        if _own_labels(wanted) != _own_labels(known):
            yield path
    elif path.endswith("taints"):
        if sorted(taints_of(wanted or [])) != sorted(taints_of(known or [])):
            yield path
    elif isinstance(wanted, Mapping):
        below = known if isinstance(known, Mapping) else {}
        names = set(wanted)
        if path == "nodeConfig":
            names |= {"labels", "taints"} & set(below)
        elif not path and "nodeConfig" in below:
            wanted = {"nodeConfig": {}, **wanted}  # without the last label or taint, the part is left out
            names.add("nodeConfig")
        for name in names:
            yield from _differences(f"{path}.{name}" if path else name, wanted.get(name), below.get(name))
    elif path.startswith("versions."):
        if str(wanted).lstrip("v") != str(known).lstrip("v"):
            yield path
    elif str(wanted).lower() != str(known).lower() and not (wanted is False and known is None):
        yield path


def _own_labels(raw: Any) -> dict[str, str]:
    labels = raw if isinstance(raw, Mapping) else {}
    return {str(key): str(value) for key, value in labels.items() if not str(key).startswith(AKS_PREFIX)}


@dataclass(frozen=True, slots=True)
class FlexNode:
    """A flexNodeConfig as Azure returns it; `known` is None if only the status was returned."""

    name: str
    config_version: str = ""
    provisioning_state: str = ""
    joined: bool = False
    known: Mapping[str, Any] | None = None
    ready: bool = False

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> FlexNode:
        """Read an entry of a list, or one resource."""
        properties = _part(resource, "properties")
        status = _part(properties, "status")
        return cls(
            name=str(resource.get("name", "")).rpartition("/")[2],
            config_version=str(properties.get("configVersion", "")),
            provisioning_state=str(properties.get("provisioningState", "")),
            joined=has_joined(status),
            known=known_properties(resource),
            ready=is_ready(status),
        )


def is_ready(status: Mapping[str, Any]) -> bool:
    """Whether its Node is Ready."""
    return any(str(condition.get("status")).lower() == "true" for condition in _readiness(status))


def has_joined(status: Mapping[str, Any]) -> bool:
    """Whether a node has joined and not left: one that is not Ready now has its credentials all the same."""
    if any(condition.get("reason") in GONE for condition in _readiness(status)):
        return False
    return is_ready(status) or bool(status.get("appliedConfigVersion") or status.get("lastSeen"))


def _readiness(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [condition for condition in status.get("conditions") or () if condition.get("type") == "Ready"]


@dataclass(frozen=True, slots=True)
class Action:
    """What to do for a node, and why."""

    kind: Kind
    reasons: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether Azure is asked for a change."""
        return self.kind not in ("unchanged", "refused")


def decide(
    wanted: Mapping[str, Any],
    existing: FlexNode | None,
    *,
    secret_anyway: bool,
    need_url: bool,
    joined: bool | None = None,
    by_token: bool = True,
) -> Action:
    """What `present` does for one node. A PUT always issues a token, so it needs a reason.

    A secret is never returned, so a changed one can't be seen; `secret_anyway` sends it every time.
    joined: what the machine says of itself, if it was asked. A Node that is Ready without it is on another
    machine; a token would let both be this Node.
    """
    if existing is None:
        return Action("created", ("it does not exist",))
    if joined is False and by_token and existing.ready:
        return Action("refused", ("its Node is Ready, and this machine has not joined",))
    reasons = differences(wanted, existing.known or {})
    if secret_anyway and has_secret(wanted):
        reasons.append("update_secret is always")
    if existing.provisioning_state.lower() == "failed":
        reasons.append("its last change failed")
    if reasons:
        return Action("updated", tuple(reasons))
    if need_url and (joined is False or not existing.joined):
        return Action("regenerated", ("it has not joined",))
    return Action("unchanged")


def decide_absent(existing: FlexNode | None) -> Action:
    """What `absent` does for one node."""
    return Action("deleted", ("it exists",)) if existing else Action("unchanged")


def shown(properties: Mapping[str, Any]) -> Json:
    """Properties as a diff may show them."""
    found: Json = without_secrets(properties, REDACTED)
    return found


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}
