# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what a proof observed, with causes and fixes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....node.errors import FlexNodeError
from .errors import DnsBroken, ExecUnavailable, LogsUnavailable, ProofPodFailed, ServicesUnreachable
from .objects import MARK, REPORT

ORDER = ("pod", "dns", "service", "logs", "exec")
DNS_LABEL = "k8s-app=kube-dns"
PROXY_LABELS = ("k8s-app", "component")  # kubeadm's and AKS's way to mark kube-proxy
PROXY = "kube-proxy"
WAITING = ("ContainerCreating", "PodInitializing", "")


@dataclass(frozen=True)
class Answer:
    """The answer of the API server to a request that it forwards to the kubelet."""

    text: str = ""
    error: str = ""


@dataclass(frozen=True)
class Report:
    """What the pod on the node reported about its network."""

    service: bool
    dns: bool
    nameserver: str
    name: str
    said: str


@dataclass(frozen=True)
class PodState:
    """The state of a pod, as far as it matters here."""

    name: str
    node: str = ""
    address: str = ""
    running: bool = False
    trouble: str = ""


@dataclass(frozen=True)
class Evidence:
    """State of kube-proxy and DNS, collected only after a failure. None: not known."""

    proxies: Sequence[PodState] | None = None
    dns_address: str | None = None
    dns_pods: Sequence[PodState] | None = None


@dataclass(frozen=True)
class Seen:
    """Everything a proof observed on one node."""

    node: str
    kubelet: str
    """Address and port at which the cluster reaches the kubelet."""
    probe: PodState
    service_address: str = ""
    report: Report | None = None
    log: Answer | None = None
    exec: Answer | None = None
    evidence: Evidence = field(default_factory=Evidence)


@dataclass(frozen=True)
class Check:
    """One check and its outcome: passed, failed or skipped."""

    name: str
    status: str
    detail: str = ""
    error: FlexNodeError | None = None

    def as_dict(self) -> dict[str, Any]:
        """As a module returns it."""
        found = {"name": self.name, "status": self.status, "detail": self.detail}
        return {**found, "error": self.error.as_dict()} if self.error else found


def parse_report(text: str) -> Report:
    """Parse the termination message of the reporting container."""
    lines = text.splitlines()
    words = dict(line.partition(" ")[::2] for line in lines[:4])
    return Report(
        service=words.get("service") == "passed",
        dns=words.get("dns") == "passed",
        nameserver=words.get("nameserver", ""),
        name=words.get("name", ""),
        said="\n".join(lines[4:]),
    )


def pod_state(pod: Mapping[str, Any]) -> PodState:
    """A pod as the API server has it."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    containers = status.get("containerStatuses") or []
    ready = bool(containers) and all("running" in (one.get("state") or {}) for one in containers)
    return PodState(
        name=pod["metadata"]["name"],
        node=str(spec.get("nodeName", "")),
        address=str(status.get("podIP", "")),
        running=status.get("phase") == "Running" and ready and not pod["metadata"].get("deletionTimestamp"),
        trouble=pod_trouble(status),
    )


def pod_trouble(status: Mapping[str, Any]) -> str:
    """Why a pod does not run, according to its status."""
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        state = one.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting.get("reason", "") not in WAITING:
            return _joined(waiting["reason"], waiting.get("message", ""))
        ended = state.get("terminated") or {}
        if ended and ended.get("exitCode") != 0:
            return _joined(
                f"{one['name']} ended with {ended.get('exitCode')}",
                ended.get("message") or ended.get("reason", ""),
            )
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message", "it can't be scheduled"))
    return _joined(str(status.get("reason", "")), str(status.get("message", "")))


def report_of(pod: Mapping[str, Any]) -> Report | None:
    """The report in a pod's status; None while it is not finished."""
    for one in (pod.get("status") or {}).get("initContainerStatuses") or ():
        ended = (one.get("state") or {}).get("terminated")
        if one["name"] == REPORT and ended and ended.get("exitCode") == 0:
            return parse_report(str(ended.get("message", "")))
    return None


def is_kube_proxy(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is the cluster's kube-proxy."""
    labels = pod["metadata"].get("labels") or {}
    return any(labels.get(key) == PROXY for key in PROXY_LABELS)


def judge(seen: Seen) -> list[Check]:
    """Every check in order; checks that depend on a failed one are skipped, so that a cause is named once."""
    if seen.report is None:
        failed = Check("pod", "failed", error=_no_pod(seen))
        return [failed, *(_skipped(name, "no pod runs") for name in ORDER[1:])]
    return [
        Check("pod", "passed", f"{seen.probe.address} on {seen.node}"),
        _dns(seen, seen.report),
        _service(seen, seen.report),
        *_kubelet(seen),
    ]


def first_error(checks: Sequence[Check]) -> FlexNodeError | None:
    """The first failure."""
    return next((check.error for check in checks if check.error), None)


def _skipped(name: str, why: str) -> Check:
    return Check(name, "skipped", why)


def _no_pod(seen: Seen) -> ProofPodFailed:
    return ProofPodFailed(
        "Joined, but a pod does not run on this node",
        why=seen.probe.trouble or "the kubelet has not started it in time",
        fix=_pod_fix(seen),
    )


def _pod_fix(seen: Seen) -> str:
    trouble = seen.probe.trouble.lower()
    if "image" in trouble or "pull" in trouble:
        return "use an image that this node can pull: option image (flexnode_proof_image)"
    if "cni" in trouble or "network" in trouble:
        return "check the CNI of this node: cni.mode, /etc/cni/net.d, journalctl -u containerd"
    return f"check `kubectl describe node {seen.node}` and `journalctl -u kubelet -n 50` on the machine"


def _service(seen: Seen, report: Report) -> Check:
    if report.service:
        return Check("service", "passed", seen.service_address)
    why, fix = _service_cause(seen)
    what = "Joined, but Services are not reachable from this node"
    return Check("service", "failed", error=ServicesUnreachable(what, why=why, fix=fix))


def _service_cause(seen: Seen) -> tuple[str, str]:
    silent = f"{seen.service_address} does not answer"
    proxies = seen.evidence.proxies
    if proxies is None:
        return silent, ""
    if not proxies:
        return (
            f"{silent}, and kube-proxy does not run on it (no pod of {PROXY} on {seen.node})",
            "see which nodes its DaemonSet selects: kubectl get daemonset --all-namespaces "
            "(AKS's selects by the label kubernetes.azure.com/cluster)",
        )
    stopped = [proxy for proxy in proxies if not proxy.running]
    if stopped:
        trouble = f": {stopped[0].trouble}" if stopped[0].trouble else ""
        return f"{silent}, and kube-proxy on it does not run (pod {stopped[0].name}{trouble})", ""
    return f"{silent}, although kube-proxy runs on it (pod {proxies[0].name})", (
        f"check its log, and whether pods on {seen.node} reach each other"
    )


def _dns(seen: Seen, report: Report) -> Check:
    if report.dns and _resolved_to(report.said, seen.service_address.rpartition(":")[0]):
        return Check("dns", "passed", f"{report.name} by {report.nameserver}")
    if not report.service:
        return _skipped("dns", "the cluster's DNS is a Service, and Services are not reachable")
    why, fix = _dns_cause(seen.evidence, report)
    return Check(
        "dns", "failed", error=DnsBroken("Joined, but names are not resolved on this node", why=why, fix=fix)
    )


def _resolved_to(said: str, address: str) -> bool:
    """Whether an answer names an address; the name server's own address comes before the name."""
    answer = said[said.find("Name:") :] if "Name:" in said else said
    return address in re.findall(r"[0-9a-fA-F.:]+", answer)


def _dns_cause(evidence: Evidence, report: Report) -> tuple[str, str]:
    address, pods = evidence.dns_address, evidence.dns_pods
    if address and report.nameserver != address:
        return (
            f"pods ask {report.nameserver or 'no name server'}, but the cluster's DNS is at {address}",
            f"set node.kubelet.dnsServiceIP to {address} and run playbook aks.flexnode.bootstrap again",
        )
    if address == "":
        return f"the cluster has no DNS Service (label {DNS_LABEL} in kube-system)", "install CoreDNS"
    running = [pod for pod in pods or () if pod.running]
    if pods is not None and not running:
        reason = next((f": {pod.trouble}" for pod in pods if pod.trouble), "")
        return (
            f"no pod of the cluster's DNS runs (label {DNS_LABEL} in kube-system){reason}",
            "see why: kubectl --namespace kube-system get pods --selector " + DNS_LABEL,
        )
    refused = re.search(r"NXDOMAIN|SERVFAIL|REFUSED", report.said)
    if refused or report.dns:
        outcome = refused[0] if refused else "a wrong address"
        return (
            f"the cluster's DNS at {report.nameserver} answers {outcome} for {report.name}",
            "check its log: kubectl --namespace kube-system logs --selector " + DNS_LABEL,
        )
    places = ", ".join(f"{pod.name} at {pod.address} on {pod.node}" for pod in running)
    place = f"; it runs as {places}" if places else ""
    return (
        f"the cluster's DNS at {report.nameserver} does not answer{place}",
        "open port 53 (UDP and TCP) between nodes, and check the routes to the pods of other nodes",
    )


def _kubelet(seen: Seen) -> list[Check]:
    """Logs and exec go the same way: from the API server to the kubelet's port."""
    log, ran = seen.log or Answer(), seen.exec
    if MARK not in log.text:
        why, fix = kubelet_fault(log.error or "the log is empty", seen.kubelet)
        failed = LogsUnavailable("Joined, but logs are not available", why=why, fix=fix)
        return [Check("logs", "failed", error=failed), _skipped("exec", "it goes the way that logs go")]
    passed = Check("logs", "passed", f"through the API server from {seen.kubelet}")
    if ran is not None and MARK in ran.text:
        return [passed, Check("exec", "passed", f"through the API server at {seen.kubelet}")]
    why, fix = kubelet_fault((ran or Answer()).error or "the command printed nothing", seen.kubelet)
    return [
        passed,
        Check("exec", "failed", error=ExecUnavailable("Joined, but exec does not work", why=why, fix=fix)),
    ]


def kubelet_fault(said: str, kubelet: str) -> tuple[str, str]:
    """Why the API server gets nothing from a kubelet, from its error message; and what to do."""
    text = said.lower()
    open_port = f"open TCP port {kubelet.rpartition(':')[2]} of this node to the cluster (firewall, NAT, VPN)"
    reasons = {
        "connection refused": "connection refused",
        # One that was open before a firewall closed the port.
        "connection reset": "connection reset",
        "connection lost": "connection lost",
        "broken pipe": "connection lost",
        "eof": "connection lost",
        "no route to host": "no route",
        "network is unreachable": "no route",
        "i/o timeout": "no answer",
        "deadline exceeded": "no answer",
        "timed out": "no answer",
        "timeout": "no answer",
        "no agent available": "no tunnel agent",
        "error dialing backend": "no connection",
    }
    if "x509" in text or "tls:" in text:
        return f"the cluster does not trust the kubelet's certificate at {kubelet}: {_short(said)}", ""
    for phrase, reason in reasons.items():
        if phrase in text:
            return f"the cluster cannot reach {kubelet} ({reason})", open_port
    if "unauthorized" in text or "provide credentials" in text:
        return (
            f"the kubelet at {kubelet} does not accept the cluster's certificate",
            "set node.kubelet.clientCAData to the cluster's CA and run playbook aks.flexnode.bootstrap again",
        )
    if "cannot get resource" in text or "cannot create resource" in text:
        return f"the kubeconfig's user is not allowed to: {_short(said)}", "grant pods/log and pods/exec"
    return _short(said), ""


def _short(text: str) -> str:
    return " ".join(text.split())[:300]


def _joined(*parts: str) -> str:
    return ": ".join(_short(part) for part in parts if part)
