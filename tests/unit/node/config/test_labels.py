# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Labels and taints: Kubernetes' syntax, and prefixes that belong to someone else."""
# ruff: noqa: E501 - a table reads best with one case a line

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import Taint
from tests.unit.node.config.test_samples import at, joining, problems_of


@pytest.mark.parametrize(
    "key",
    [
        "site",
        "Site_1.a-b",
        "example.com/site",
        "a" * 63,
        f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/x",
        "node.kubernetes.io/instance-type",
        "sub.node.kubernetes.io/x",
        "kubelet.kubernetes.io/x",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "notkubernetes.io/x",
    ],
)
def test_label_key_is_accepted(key: str) -> None:
    assert parse(joining(at("node.labels", {key: "v"}))).node.labels == {key: "v"}


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "1-63"),
        ("a" * 64, "1-63"),
        ("-site", "1-63"),
        ("site-", "1-63"),
        ("a/b/c", "DNS name"),
        ("Example.com/site", "DNS name"),
        ("/site", "DNS name"),
        (f"{'a.' * 127}a/x", "DNS name"),
        ("kubernetes.azure.com/managed", "belongs to AKS"),
        ("a.kubernetes.azure.com/x", "belongs to AKS"),
        ("kubernetes.io/role", "Kubernetes"),
        ("node-role.kubernetes.io/worker", "Kubernetes"),
        ("k8s.io/x", "Kubernetes"),
        ("a.k8s.io/x", "Kubernetes"),
        ("topology.kubernetes.io/rack", "Kubernetes"),
    ],
)
def test_label_key_is_refused_with_a_reason(key: str, why: str) -> None:
    (problem,) = problems_of(joining(at("node.labels", {key: "v"}))).values()
    assert problem.path.startswith("node.labels[")
    assert why in problem.hint


@pytest.mark.parametrize("value", ["a b", "a" * 64, "-a", "a-", "ä", True, 1])
def test_label_value_is_refused(value: object) -> None:
    assert list(problems_of(joining(at("node.labels", {"x": value})))) == ['node.labels["x"]']


def test_every_bad_label_is_reported() -> None:
    assert len(problems_of(joining(at("node.labels", {"a b": "v", "c d": "v", "ok": "not ok"})))) == 3


def test_labels_are_sorted_so_that_plans_are_stable() -> None:
    assert list(parse(joining(at("node.labels", {"b": "", "a": ""}))).node.labels) == ["a", "b"]


@pytest.mark.parametrize(
    ("raw", "expected", "text"),
    [
        ("edge=true:NoSchedule", Taint("edge", "true", "NoSchedule"), "edge=true:NoSchedule"),
        ("edge:NoExecute", Taint("edge", "", "NoExecute"), "edge:NoExecute"),
        ("edge=:NoExecute", Taint("edge", "", "NoExecute"), "edge:NoExecute"),
        ("a.io/edge=x:PreferNoSchedule", Taint("a.io/edge", "x", "PreferNoSchedule"), "a.io/edge=x:PreferNoSchedule"),
        ({"key": "edge", "effect": "NoSchedule"}, Taint("edge", "", "NoSchedule"), "edge:NoSchedule"),
        ({"key": "edge", "value": "x", "effect": "NoSchedule"}, Taint("edge", "x", "NoSchedule"), "edge=x:NoSchedule"),
        ("node-role.kubernetes.io/edge:NoSchedule", Taint("node-role.kubernetes.io/edge", "", "NoSchedule"), "node-role.kubernetes.io/edge:NoSchedule"),
    ],
)  # fmt: skip
def test_taint_is_read_in_both_forms(raw: object, expected: Taint, text: str) -> None:
    (taint,) = parse(joining(at("node.taints", [raw]))).node.taints
    assert taint == expected
    assert str(taint) == text


@pytest.mark.parametrize(
    "raw",
    [
        "edge",
        "edge=true",
        "edge:Never",
        "edge:noschedule",
        ":NoSchedule",
        "edge=a b:NoSchedule",
        "kubernetes.azure.com/scalesetpriority=spot:NoSchedule",
        "node.kubernetes.io/not-ready:NoExecute",
        {"key": "edge"},
        {"key": "edge", "effect": "NoSchedule", "operator": "Exists"},
        {"key": "edge", "value": 1, "effect": "NoSchedule"},
        7,
    ],
)
def test_taint_is_refused(raw: object) -> None:
    assert list(problems_of(joining(at("node.taints", ["ok:NoSchedule", raw])))) == ["node.taints[1]"]
