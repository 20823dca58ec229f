# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one proof, from creating its objects to removing them."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import signal
import socket
import string
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from ....node.errors import FlexNodeError, Forbidden, NodeNotReady
from ....node.machine.clock import Clock
from ....node.node_object.conditions import ready_condition
from ..targets import Target, require_machine
from . import objects, verdict
from .cluster import Cluster
from .objects import MARK, PROBE, ROLE_LABEL, SERVER, Run
from .verdict import Answer, Check, Evidence, PodState, Seen

AT_ONCE = 16
LOOK_EVERY = 0.5
LOG_SECONDS = 5
ACCOUNT_SECONDS = 15
REMOVE_SECONDS = 60
# What follows the wait for a node's pods: log, command, and what the cluster shows about a failure.
AFTER_SECONDS = 120
# These do not get better by waiting.
HOPELESS = (
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "report ended",
    "probe ended",
)


@dataclass(frozen=True)
class NodeProof:
    """The result for one node."""

    name: str
    checks: Sequence[Check]
    seconds: float
    cluster: str = ""  # its API server, where nodes of several are proven

    @property
    def error(self) -> FlexNodeError | None:
        """The first thing that failed."""
        return verdict.first_error(self.checks)

    def as_dict(self) -> dict[str, Any]:
        """As a module returns it."""
        checks = [check.as_dict() for check in self.checks]
        found = {
            "name": self.name,
            "passed": self.error is None,
            "checks": checks,
            "seconds": round(self.seconds, 1),
            "summary": self.summary,
            **({"cluster": self.cluster} if self.cluster else {}),
        }
        return {**found, "error": self.error.as_dict()} if self.error else found

    @property
    def summary(self) -> str:
        """One line of text."""
        node = f"{self.name} ({self.cluster})" if self.cluster else self.name
        if self.error:
            return f"{node}  FAILED  {self.error}"
        passed = ", ".join(check.name for check in self.checks)
        return f"{node}  proven  {passed}  in {self.seconds:.1f} s"


def new_run(image: str, timeout: int, namespace: str, clock: Clock, nodes: int) -> Run:
    """A proof of so many nodes, with unique names."""
    identifier = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _count in range(6))
    return Run(
        identifier=identifier,
        namespace=namespace or f"flexnode-proof-{identifier}",
        image=image,
        timeout=timeout,
        owner=f"{socket.gethostname()}/{os.getpid()}",
        expires=int(clock.now())
        + math.ceil(nodes / AT_ONCE) * (timeout + AFTER_SECONDS)
        + 2 * REMOVE_SECONDS,
    )


def prove(
    connect: Callable[[], Cluster], run: Run, nodes: Sequence[Target], own_namespace: bool, clock: Clock
) -> tuple[list[NodeProof], list[str]]:
    """Test nodes at the same time, AT_ONCE of them, each for as long as `run.timeout`.

    Returns the results and what could not be removed afterwards.
    """
    cluster = connect()
    remove_leftovers(cluster, run, clock)
    with interrupted_by_signals():
        try:
            if own_namespace:
                cluster.create_namespace(objects.namespace(run))
            proofs = _all(connect, run, nodes, clock)
        except BaseException:
            with contextlib.suppress(FlexNodeError):  # the first failure is the one to report
                remove(cluster, run, own_namespace, clock, seconds=0)
            raise
        return proofs, remove(cluster, run, own_namespace, clock)


def _all(connect: Callable[[], Cluster], run: Run, nodes: Sequence[Target], clock: Clock) -> list[NodeProof]:
    stop = threading.Event()

    def one(index: int) -> NodeProof:
        start = clock.monotonic()  # of this node: the others may have taken all of their time
        try:
            wait = _Wait(clock, start + run.timeout, stop)
            seen = _observe(connect(), run, index, nodes[index], wait)
            checks = verdict.judge(seen)
        except FlexNodeError as error:
            checks = [Check("pod", "failed", error=error)]
        return NodeProof(nodes[index].name, checks, clock.monotonic() - start)

    with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(nodes))) as pool:
        futures = [pool.submit(one, index) for index in range(len(nodes))]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass(frozen=True)
class _Wait:
    """How long to wait for a node, and whether the run was stopped."""

    clock: Clock
    deadline: float
    stop: threading.Event

    def over(self) -> bool:
        return self.stop.is_set() or self.clock.monotonic() >= self.deadline

    def pause(self) -> None:
        self.clock.sleep(LOOK_EVERY)


def _observe(cluster: Cluster, run: Run, index: int, target: Target, wait: _Wait) -> Seen:
    name, kubelet = target.name, _kubelet_of(cluster, target)
    service = cluster.create_service(run.namespace, objects.service(run, index))
    address = str(service["spec"]["clusterIP"])
    here = replace(run, image=target.image or run.image)
    for pod in (objects.server_pod(here, index, name), objects.probe_pod(here, index, name, address)):
        _create_pod(cluster, run, pod, wait)
    seen = _watch(cluster, run, index, Seen(name, kubelet, PodState(""), f"{address}:{objects.PORT}"), wait)
    if seen.report is None:
        return seen
    log = _log(cluster, run, index, wait)
    ran = None
    if MARK in log.text:
        command = ["/bin/sh", "-c", f"echo {MARK}"]
        ran = cluster.run(run.namespace, run.pod_name(index, PROBE), PROBE, command)
    evidence = Evidence() if seen.report.service and seen.report.dns else _evidence(cluster, name)
    return replace(seen, log=log, exec=ran, evidence=evidence)


def _kubelet_of(cluster: Cluster, target: Target) -> str:
    """Where the cluster reaches a node's kubelet. Pods on a Node of another machine prove nothing."""
    name = target.name
    node = cluster.node(name)
    if node is None:
        raise NodeNotReady(f"there is no Node {name}", where=name, fix="check the name: kubectl get nodes")
    require_machine(target, node, cluster.server)
    ready, message = ready_condition(node)
    if not ready:
        raise NodeNotReady(f"Node {name} is not Ready", where=name, why=message)
    status = node["status"]
    addresses = {one["type"]: one["address"] for one in reversed(status.get("addresses") or [])}
    address = addresses.get("InternalIP") or addresses.get("Hostname") or name
    return f"{address}:{status.get('daemonEndpoints', {}).get('kubeletEndpoint', {}).get('Port', 10250)}"


def _create_pod(cluster: Cluster, run: Run, pod: objects.Json, wait: _Wait) -> None:
    """Create a pod; a new namespace gets its service account a moment later."""
    patience = wait.clock.monotonic() + ACCOUNT_SECONDS
    while True:
        try:
            cluster.create_pod(run.namespace, pod)
        except Forbidden as error:
            if "service account" not in error.why or wait.over() or wait.clock.monotonic() >= patience:
                raise
            wait.pause()
        else:
            return


def _watch(cluster: Cluster, run: Run, index: int, seen: Seen, wait: _Wait) -> Seen:
    """Wait until the probe has reported and runs; its report and state, or what prevents it."""
    roles = f"{ROLE_LABEL} in ({SERVER}-{index},{PROBE}-{index})"
    while True:
        pods = {
            pod["metadata"]["name"]: pod for pod in cluster.pods(run.namespace, f"{run.selector},{roles}")
        }
        probe = pods.get(run.pod_name(index, PROBE))
        server = pods.get(run.pod_name(index, SERVER))
        if probe is None or server is None:
            trouble = "another user or process removed it"
            return replace(seen, probe=PodState("", trouble=trouble))
        state, report = verdict.pod_state(probe), verdict.report_of(probe)
        if report and state.running:
            return replace(seen, probe=state, report=report)
        trouble = state.trouble or verdict.pod_state(server).trouble
        if wait.over() or trouble.startswith(HOPELESS):
            noted = cluster.warnings(run.namespace, state.name)[-1:]
            return replace(seen, probe=replace(state, trouble=trouble or "".join(noted)))
        wait.pause()


def _log(cluster: Cluster, run: Run, index: int, wait: _Wait) -> Answer:
    """The probe's log; the last output of a container can take a moment to appear."""
    patience = wait.clock.monotonic() + LOG_SECONDS
    while True:
        answer = cluster.log(run.namespace, run.pod_name(index, PROBE), PROBE)
        late = wait.stop.is_set() or wait.clock.monotonic() >= patience
        if MARK in answer.text or answer.error or late:
            return answer
        wait.pause()


def _evidence(cluster: Cluster, node: str) -> Evidence:
    """What the cluster shows about kube-proxy and DNS; nothing if the user may not read it."""
    try:
        proxies = [verdict.pod_state(pod) for pod in cluster.pods_on(node) if verdict.is_kube_proxy(pod)]
        dns_pods = [verdict.pod_state(pod) for pod in cluster.dns_pods()]
        return Evidence(proxies, cluster.dns_address(), dns_pods)
    except Forbidden:
        return Evidence()


def remove(
    cluster: Cluster, run: Run, own_namespace: bool, clock: Clock, seconds: float = REMOVE_SECONDS
) -> list[str]:
    """Remove everything of a proof; returns what is still there when the time is up.

    Pods are deleted before their namespace: its deletion waits long if it finds any.
    """
    start, forced = clock.monotonic(), False
    _delete(cluster, run)
    if own_namespace:
        cluster.delete_namespace(run.namespace)
    while seconds:
        remains = _remains(cluster, run, own_namespace)
        waited = clock.monotonic() - start
        if not remains or waited >= seconds:
            return remains
        if waited >= seconds / 2 and not forced:  # the kubelet does not confirm: delete without it
            forced = True
            _delete(cluster, run, grace=0)
        clock.sleep(LOOK_EVERY)
    return []


def _delete(cluster: Cluster, run: Run, grace: int | None = None) -> None:
    for kind, found in cluster.objects(run.namespace, run.selector):
        cluster.delete(kind, run.namespace, found["metadata"]["name"], grace=grace)


def _remains(cluster: Cluster, run: Run, own_namespace: bool) -> list[str]:
    if own_namespace:
        return [f"Namespace {run.namespace}"] if cluster.namespace(run.namespace) is not None else []
    left = cluster.objects(run.namespace, run.selector)
    return [f"{kind} {run.namespace}/{found['metadata']['name']}" for kind, found in left]


def remove_leftovers(cluster: Cluster, run: Run, clock: Clock) -> None:
    """Remove what a killed proof left: by its label, and only if its process is gone or it has expired."""
    found: list[tuple[str, objects.Json]] = cluster.objects(run.namespace, objects.LABEL)
    with contextlib.suppress(Forbidden):  # a user of one namespace only has created none
        found += [("Namespace", namespace) for namespace in cluster.proofs()]
    owners = {str((one["metadata"].get("annotations") or {}).get(objects.OWNER, "")) for _kind, one in found}
    alive = {owner: _running(owner) for owner in owners if owner.startswith(f"{socket.gethostname()}/")}
    for kind, one in found:
        metadata = one["metadata"]
        if not objects.is_leftover(metadata, clock.now(), alive):
            continue
        if kind == "Namespace":
            cluster.delete_namespace(metadata["name"])
        else:
            cluster.delete(kind, run.namespace, metadata["name"])


def _running(owner: str) -> bool:
    """Whether a process of this controller still runs."""
    try:
        os.kill(int(owner.rpartition("/")[2]), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Turn signals into an exception, so that what was created is removed."""

    def interrupt(number: int, _frame: Any) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    chosen = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in chosen}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
