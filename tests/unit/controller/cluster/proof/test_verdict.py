# SPDX-License-Identifier: GPL-3.0-or-later
"""What a proof says about what it saw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof import verdict
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.verdict import (
    Answer,
    Evidence,
    PodState,
    Report,
    Seen,
)

ANSWER = (
    "Server:\t\t10.0.0.10\nAddress:\t10.0.0.10:53\n\nName:\tproof.ns.svc.cluster.local\nAddress: 10.0.7.7\n"
)
REPORT = Report(True, True, "10.0.0.10", "proof.ns.svc.cluster.local", ANSWER)
PROXY = PodState("kube-proxy-abc", "edge-1", "10.1.2.3", running=True)
COREDNS = PodState("coredns-xyz", "edge-2", "10.244.21.2", running=True)
HEALTHY = Evidence([PROXY], "10.0.0.10", [COREDNS])
FINE = Seen(
    "edge-1",
    "10.1.2.3:10250",
    PodState("probe", "edge-1", "10.244.20.5", running=True),
    "10.0.7.7:8080",
    REPORT,
    Answer("flexnode-proof\n"),
    Answer("flexnode-proof\n"),
    HEALTHY,
)


def statuses(seen: Seen) -> dict[str, str]:
    return {check.name: check.status for check in verdict.judge(seen)}


def sentence(seen: Seen) -> str:
    error = verdict.first_error(verdict.judge(seen))
    assert error is not None
    return str(error)


def test_everything_works() -> None:
    assert statuses(FINE) == dict.fromkeys(verdict.ORDER, "passed")
    assert verdict.first_error(verdict.judge(FINE)) is None


def test_no_pod_runs() -> None:
    trouble = "ErrImagePull: failed to pull image"
    seen = replace(FINE, report=None, probe=PodState("probe", "edge-1", trouble=trouble))
    assert statuses(seen) == {"pod": "failed", **dict.fromkeys(verdict.ORDER[1:], "skipped")}
    assert f"FLEX-1601: Joined, but a pod does not run on this node: {trouble}" in sentence(seen)
    assert "flexnode_proof_image" in sentence(seen)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (
            replace(HEALTHY, proxies=[]),
            "kube-proxy does not run on it (no pod of kube-proxy on edge-1)",
        ),
        (
            replace(HEALTHY, proxies=[PodState("kube-proxy-abc", trouble="CrashLoopBackOff")]),
            "kube-proxy on it does not run (pod kube-proxy-abc: CrashLoopBackOff)",
        ),
        (HEALTHY, "although kube-proxy runs on it (pod kube-proxy-abc)"),
        (Evidence(), "10.0.7.7:8080 does not answer"),
    ],
)
def test_services_are_not_reachable(evidence: Evidence, expected: str) -> None:
    seen = replace(FINE, report=replace(REPORT, service=False, dns=False, said=""), evidence=evidence)
    assert "FLEX-1603: Joined, but Services are not reachable from this node: " in sentence(seen)
    assert expected in sentence(seen)
    # DNS is a Service itself: the cause is named once
    assert statuses(seen) == {
        "pod": "passed",
        "dns": "skipped",
        "service": "failed",
        "logs": "passed",
        "exec": "passed",
    }


NOT_FOUND = "Server:\t\t10.0.0.10\n\n** server can't find proof.ns.svc.cluster.local: NXDOMAIN\n"
SILENT = ";; connection timed out; no servers could be reached\n"


@pytest.mark.parametrize(
    ("change", "evidence", "expected"),
    [
        (
            {"nameserver": "10.0.0.99", "said": SILENT},
            HEALTHY,
            "pods ask 10.0.0.99, but the cluster's DNS is at 10.0.0.10",
        ),
        ({"said": SILENT}, replace(HEALTHY, dns_pods=[]), "no pod of the cluster's DNS runs"),
        (
            {"said": SILENT},
            replace(HEALTHY, dns_pods=[PodState("coredns-xyz", trouble="0/1 nodes are available")]),
            "DNS runs (label k8s-app=kube-dns in kube-system): 0/1 nodes are available",
        ),
        ({"said": SILENT}, replace(HEALTHY, dns_address=""), "the cluster has no DNS Service"),
        ({"said": NOT_FOUND}, HEALTHY, "answers NXDOMAIN for proof.ns.svc.cluster.local"),
        ({"dns": True, "said": ANSWER.replace("10.0.7.7", "10.0.7.70")}, HEALTHY, "answers a wrong address"),
        (
            {"said": SILENT},
            HEALTHY,
            "the cluster's DNS at 10.0.0.10 does not answer; it runs as coredns-xyz at 10.244.21.2 on edge-2",
        ),
        ({"said": SILENT}, Evidence(), "the cluster's DNS at 10.0.0.10 does not answer"),
    ],
)
def test_names_are_not_resolved(change: dict[str, Any], evidence: Evidence, expected: str) -> None:
    seen = replace(FINE, report=replace(REPORT, **{"dns": False, **change}), evidence=evidence)
    assert "FLEX-1602: Joined, but names are not resolved on this node: " in sentence(seen)
    assert expected in sentence(seen)
    assert statuses(seen)["service"] == "passed"


GET = 'Get "https://10.1.2.3:10250/containerLogs/ns/probe/probe": '


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            f"{GET}dial tcp 10.1.2.3:10250: connect: connection refused",
            "the cluster cannot reach 10.1.2.3:10250",
        ),
        (f"{GET}dial tcp 10.1.2.3:10250: i/o timeout", "the cluster cannot reach 10.1.2.3:10250 (no answer)"),
        ("error dialing backend: No agent available", "the cluster cannot reach 10.1.2.3:10250"),
        (
            f"{GET}read tcp 10.0.0.1:5->10.1.2.3:10250: read: connection reset by peer",
            "the cluster cannot reach 10.1.2.3:10250 (connection reset)",
        ),
        (f"{GET}http2: client connection lost", "the cluster cannot reach 10.1.2.3:10250 (connection lost)"),
        (
            f"{GET}tls: failed to verify certificate: x509: certificate has expired",
            "the cluster does not trust the kubelet's certificate",
        ),
        ("Unauthorized", "the kubelet at 10.1.2.3:10250 does not accept the cluster's certificate"),
        (
            'pods "probe" is forbidden: User "jane" cannot get resource "pods/log" in API group ""',
            "the kubeconfig's user is not allowed to",
        ),
        ("something new", "Joined, but logs are not available: something new"),
    ],
)
def test_logs_are_not_available(error: str, expected: str) -> None:
    seen = replace(FINE, log=Answer(error=error), exec=None)
    assert "FLEX-1604: Joined, but logs are not available: " in sentence(seen)
    assert expected in sentence(seen)
    assert statuses(seen)["exec"] == "skipped"


def test_exec_does_not_work() -> None:
    seen = replace(FINE, exec=Answer(error="error dialing backend: EOF"))
    assert "FLEX-1605: Joined, but exec does not work: the cluster cannot reach" in sentence(seen)
    assert statuses(seen)["logs"] == "passed"


def test_report_is_read_from_the_status_of_a_pod() -> None:
    text = "service passed\ndns failed\nnameserver 10.0.0.10\nname proof.ns.svc.cluster.local\n" + NOT_FOUND
    ended = {"name": "report", "state": {"terminated": {"exitCode": 0, "message": text}}}
    pod = {"metadata": {"name": "probe"}, "status": {"initContainerStatuses": [ended]}}
    report = verdict.report_of(pod)
    assert report == Report(True, False, "10.0.0.10", "proof.ns.svc.cluster.local", NOT_FOUND.rstrip("\n"))
    looking = {"name": "report", "state": {"running": {}}}
    assert verdict.report_of({**pod, "status": {"initContainerStatuses": [looking]}}) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {
                "containerStatuses": [
                    {"name": "a", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}
                ]
            },
            "ErrImagePull: no such host",
        ),
        (
            {
                "containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}}],
                "conditions": [{"type": "PodScheduled", "status": "True"}],
            },
            "",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes fit"}]},
            "0/2 nodes fit",
        ),
        (
            {"initContainerStatuses": [{"name": "report", "state": {"terminated": {"exitCode": 127}}}]},
            "report ended with 127",
        ),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}, "Evicted: low on disk"),
    ],
)
def test_trouble_of_a_pod(status: dict[str, Any], expected: str) -> None:
    assert verdict.pod_trouble(status) == expected


@pytest.mark.parametrize("labels", [{"k8s-app": "kube-proxy"}, {"component": "kube-proxy", "tier": "node"}])
def test_kube_proxy_is_known_by_its_labels(labels: dict[str, str]) -> None:
    assert verdict.is_kube_proxy({"metadata": {"name": "x", "labels": labels}})
    assert not verdict.is_kube_proxy({"metadata": {"name": "kube-proxy"}})
