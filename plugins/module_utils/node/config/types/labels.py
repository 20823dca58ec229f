# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kubernetes' rules for labels and taints, and which prefixes are reserved."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .formats import DNS_SUBDOMAIN
from .kinds import list_of, map_of, parsed
from .setting import Kind
from .values import EFFECTS, Taint

_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_AZURE = "kubernetes.azure.com"
_KUBERNETES = ("kubernetes.io", "k8s.io")
# What a kubelet may set on its own Node: k8s.io/kubelet/pkg/apis/well_known_labels.go.
_KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    )
)


def _within(prefix: str, domains: tuple[str, ...]) -> bool:
    return any(prefix == domain or prefix.endswith("." + domain) for domain in domains)


def _qualified_name(raw: str) -> tuple[str, str]:
    """Return (prefix, name) of a key by Kubernetes' syntax."""
    prefix, slash, name = raw.rpartition("/")
    if not re.fullmatch(_NAME, name):
        raise ValueError(
            "the name must have 1-63 letters, digits, - _ . and begin and end with a letter or digit"
        )
    if slash and (len(prefix) > 253 or not re.fullmatch(DNS_SUBDOMAIN, prefix)):
        raise ValueError("the prefix before / must be a DNS name in lower case, at most 253 characters")
    return prefix, name


def _not_of_aks(prefix: str) -> None:
    if _within(prefix, (_AZURE,)):
        raise ValueError(f"{_AZURE}/ belongs to AKS; the labels that a flex node needs are set automatically")


def _label_key(raw: str) -> str:
    prefix, _name = _qualified_name(raw)
    _not_of_aks(prefix)
    if _within(prefix, _KUBERNETES) and raw not in _KUBELET_LABELS and not _within(prefix, _KUBELET_PREFIXES):
        raise ValueError(
            "kubernetes.io and k8s.io belong to Kubernetes; a kubelet may set only node.kubernetes.io/, "
            "kubelet.kubernetes.io/ and a few well-known labels; use a prefix of your own"
        )
    return raw


def _label_value(raw: str) -> str:
    if raw and not re.fullmatch(_NAME, raw):
        raise ValueError(
            "it may have 63 letters, digits, - _ . and must begin and end with a letter or digit"
        )
    return raw


def _taint_key(raw: str) -> str:
    prefix, _name = _qualified_name(raw)
    _not_of_aks(prefix)
    if _within(prefix, _KUBERNETES) and prefix != "node-role.kubernetes.io":
        raise ValueError(
            "taints of kubernetes.io and k8s.io are set by Kubernetes itself; use a prefix of your own"
        )
    return raw


def _taint(raw: str) -> Taint:
    stem, _colon, effect = raw.rpartition(":")
    key, _equals, value = stem.partition("=")
    for known in EFFECTS:
        if effect == known:
            return Taint(_taint_key(key), _label_value(value), known)
    raise ValueError(f"the effect must be one of {', '.join(EFFECTS)}")


_taint_text = parsed("KEY[=VALUE]:EFFECT or {key, value, effect}", _taint)


def _read_taint(raw: object) -> Taint:
    if not isinstance(raw, Mapping):
        return _taint_text.read(raw)
    key, value, effect = raw.get("key"), raw.get("value") or "", raw.get("effect")
    if set(raw) - {"key", "value", "effect"} or not (
        isinstance(key, str) and isinstance(value, str) and isinstance(effect, str)
    ):
        raise _taint_text.refuse(raw, "key, value and effect must be texts, without other keys")
    return _taint_text.read(f"{key}={value}:{effect}")


label_value = parsed("a label value", _label_value)
label_key = parsed("a label key: [PREFIX/]NAME", _label_key)
labels = map_of("a mapping of label keys to values", label_value, name=label_key)
taints = list_of(Kind(_taint_text.accepts, _read_taint))
