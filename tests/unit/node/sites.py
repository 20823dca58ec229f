# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A whole site for tests: a machine, an artifact mirror and an API server, the latter two behind real TLS."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.cni import PLUGINS
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import obtain
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.outcome import Reconciled
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    reconcile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline
from tests.unit.node.config.test_samples import CLUSTER
from tests.unit.node.engine.test_fetch import archive
from tests.unit.node.fake_api import FakeApi, a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, Pki, Request, Server, serving

TOKEN = "fedcba.fedcba9876543210"
IDENTITY = "/var/lib/kubelet/pki/kubelet-client-current.pem"
KUBELET, CONTAINERD, NPD = "kubelet.service", "containerd.service", "node-problem-detector.service"
PROBLEMS = (
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "FrequentKubeletRestart",
    "FrequentContainerdRestart",
    "FlexNodeProblem",
)
FILES = {
    **{name: name.encode() for name in ("kubelet", "kubectl", "kubeadm", "runc")},
    "containerd": archive(
        *((f"bin/{name}", b"x") for name in ("containerd", "containerd-shim-runc-v2", "ctr"))
    ),
    "cni-plugins": archive(*((name, b"x") for name in PLUGINS)),
    "npd": archive(("bin/node-problem-detector", b"x"), ("config/kernel-monitor.json", b"{}")),
}
VERSIONS = {
    "kubelet": "1.34.4",
    "kubectl": "1.34.4",
    "kubeadm": "1.34.4",
    "runc": "1.4.3",
    "containerd": "2.3.4",
    "cni-plugins": "1.9.1",
    "npd": "1.36.0",
}
NAMED = {"npd": "node-problem-detector"}  # files whose names do not begin with that of their artifact
MORE = {"node": {"maxPods": 50}}
SHORT = {"upgrade": {"gateSeconds": 10}}
DRAINED = {**MORE, "upgrade": {"drain": "always", "drainSeconds": 30}}
CONFIG = "/etc/default/kubeletconfig.json"


def catalogue() -> dict[str, Any]:
    """The mirror's own digests."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    return {name: {VERSIONS[name]: {"amd64": digest, "arm64": digest}} for name, digest in digests.items()}


def mirrored(request: Request) -> Answer:
    """A file of the mirror, by what its address names."""
    last = request.path.rpartition("/")[2]
    for name in sorted(FILES, key=len, reverse=True):
        if last.startswith(NAMED.get(name, name)):
            return Answer(FILES[name])
    return Answer(status=404)


KUBECONFIG = "/var/lib/kubelet/kubeconfig"
WRITTEN = """apiVersion: v1
clusters:
- cluster:
{cluster}  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
preferences: {{}}
users:
- name: default-auth
  user:
    client-certificate: {identity}
    client-key: {identity}
"""


def kubelet_writes_kubeconfig(machine: Machine) -> None:
    """At its first start a kubelet copies the cluster of its bootstrap kubeconfig, and never again."""
    if machine.path(KUBECONFIG).exists():
        return
    cluster = json.loads(machine.text("/var/lib/kubelet/bootstrap-kubeconfig"))["clusters"][0]["cluster"]
    lines = "".join(f"    {key}: {value}\n" for key, value in sorted(cluster.items()))
    machine.put(KUBECONFIG, WRITTEN.format(cluster=lines, identity=IDENTITY), 0o600)


def registered_labels(machine: Machine) -> dict[str, str]:
    """The labels with which a kubelet registers its Node."""
    found = re.search(r"--node-labels=([^ \"]*)", machine.text("/etc/default/kubelet-registration"))
    return dict(pair.split("=") for pair in found[1].split(",")) if found else {}


@dataclass
class Site:
    """Everything that a join needs."""

    machine: Machine
    mirror: Server
    api: FakeApi
    document: dict[str, Any]

    def join(self, *changes: dict[str, Any], components: Any = EVERYTHING, **options: Any) -> Reconciled:
        """Store the document, with changes, and follow it."""
        document = self.document
        for change in changes:
            document = merge(document, change)
        obtained = obtain(self.machine.host, Inline(document), {})
        return reconcile(obtained, components, machine="x86_64", **options)

    def kubelet_starts(self, pki: Pki) -> None:
        """What a kubelet does: it gets its certificate and registers its Node, once."""
        self.machine.put(IDENTITY, pki.client.read_bytes(), 0o600)
        kubelet_writes_kubeconfig(self.machine)
        self.api.nodes.setdefault("edge-1", a_node(labels=registered_labels(self.machine)))

    def detector_starts(self) -> None:
        """What node-problem-detector does: it reports, and goes on doing so."""
        conditions = self.api.nodes["edge-1"]["status"]["conditions"]
        known = {one["type"] for one in conditions}
        conditions += [
            {"type": name, "status": "False", "lastHeartbeatTime": ""}
            for name in PROBLEMS
            if name not in known
        ]


def also(version: str, of: str = "kubernetes") -> dict[str, Any]:
    """A document that wants another version, of which the mirror has a file."""
    digests = catalogue()
    names = ("kubelet", "kubectl", "kubeadm") if of == "kubernetes" else (of,)
    for name in names:
        digests[name][version] = digests[name][VERSIONS[name]]
    return {of: {"version": version}, "mirror": {"catalogue": digests}}


def exits_from_now_on(site: Site) -> None:
    """The kubelet exits a second after each start; systemd starts it again."""
    commands, clock = site.machine.commands, site.machine.clock
    commands.logs[KUBELET] = "E1115 failed to parse eviction threshold\n"

    def starts() -> None:
        bad = '"maxPods": 50' in site.machine.text(CONFIG)
        began = clock.time

        def passes() -> None:
            commands.started[KUBELET] = clock.time
            commands.restarts[KUBELET] = int(clock.time - began)

        clock.then = passes if bad else lambda: None
        if not bad:
            commands.restarts[KUBELET] = 0

    commands.on_start[KUBELET] = starts


class Killed(BaseException):
    """kill -9: nothing catches it."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> Iterator[None]:
    """The process dies at the first call of a method."""

    def dies(*_arguments: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(owner, method, dies)
        with pytest.raises(Killed):
            yield


@contextmanager
def distrusted(site: Site, monkeypatch: pytest.MonkeyPatch, verify_code: int, why: str) -> Iterator[None]:
    """Whatever answers at the API server's address has a certificate that is not trusted for this reason."""
    connect, port = http.client.HTTPSConnection.connect, int(site.api.server.url.rpartition(":")[2])

    def distrusts(connection: http.client.HTTPSConnection) -> None:
        if connection.port != port:
            return connect(connection)
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_code, error.verify_message = verify_code, why
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(http.client.HTTPSConnection, "connect", distrusts)
        yield


@contextmanager
def a_site(machine: Machine, pki: Pki) -> Iterator[Site]:
    """A site that works."""
    with serving(mirrored, pki.server_context()) as mirror, FakeApi().running(pki) as api:
        document = {
            "azure": {"targetCluster": {"resourceId": CLUSTER}, "bootstrapToken": {"token": TOKEN}},
            "kubernetes": {"version": "1.34.4"},
            "mirror": {"url": mirror.url, "caCert": pki.ca_pem, "catalogue": catalogue()},
            "node": {
                "labels": {"site": "lab-1"},
                "kubelet": {
                    "serverURL": api.server.url,
                    "caCertData": b64encode(pki.ca_pem.encode()).decode(),
                },
            },
        }
        site = Site(machine, mirror, api, document)
        api.now = machine.clock.now
        machine.commands.on_start[KUBELET] = lambda: site.kubelet_starts(pki)
        machine.commands.on_start[NPD] = site.detector_starts
        yield site
