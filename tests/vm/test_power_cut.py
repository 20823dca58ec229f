# SPDX-License-Identifier: GPL-3.0-or-later
"""The power is cut in every phase of join, update, rollback and uninstall; what was not synced is lost.

After the boot nothing is empty or half-written, the journal can be read, and the next run of the same command
completes. FLEXNODE_VM_COMMIT=COMMIT runs the program of another commit, to see what it did in the same cases.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from scripts import build_agent
from testbed import Testbed
from testbed.basics import paths
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from tests.e2e import fleet, updating
from tests.e2e.photograph import differences
from tests.e2e.updating import Document, changed, with_versions
from tests.vm.lab import DRAIN_SECONDS, Lab, is_ready, patient, photographed, pod_works
from tests.vm.power import Moment, cut
from tests.vm.seen import Seen

OLD, NEW, BAD = versions.KUBERNETES_OLD_PATCH, versions.KUBERNETES, versions.KUBELET_EXITS
OLD_MINOR = versions.KUBERNETES_OLD_MINOR
COMMIT = os.environ.get("FLEXNODE_VM_COMMIT", "")
PROGRAM, CONFIG = "/srv/aks-flex-node.pyz", "/srv/config.json"
STATE, KUBELET, CONTAINERD = "/var/lib/aks-flex-node", "/usr/local/bin/kubelet", "/usr/local/bin/containerd"
UNITS, PKI, SWAP = "/etc/systemd/system", "/var/lib/kubelet/pki", "/swapfile"

JOIN = (
    Moment("the first origins are recorded", ("exists", f"{STATE}/journal")),
    Moment("a download has begun", ("exists", f"{STATE}/cache/*.part")),
    Moment("a version is unpacked", ("exists", "/opt/aks-flex-node/versions/*/*.staging/*")),
    Moment("kernel settings are written", ("exists", "/etc/sysctl.d/99-zz-aks-flex-node.conf")),
    Moment("the kubelet is linked", ("exists", KUBELET)),
    Moment("containerd runs", ("runs", "containerd")),
    Moment("the kubelet runs", ("runs", "kubelet")),
    Moment("the command ended", ("ended",)),
)
# Of a kubelet that syncs none of its keys and certificates; newer ones sync some.
CERTIFICATES = (
    Moment("the kubelet has made its certificate", ("exists", f"{PKI}/kubelet.crt")),
    Moment("the kubelet has got its certificate", ("exists", f"{PKI}/kubelet-client-current.pem")),
)
UPDATE = (
    Moment("the transaction is open", ("exists", f"{STATE}/transaction.json")),
    Moment("the kubelet leads to the new version", ("leads to", KUBELET, "{version}")),
    Moment("the command ended", ("ended",)),
)
ROLLBACK = (
    Moment("the kubelet leads to the bad version", ("leads to", KUBELET, BAD)),
    # Of this program only: the commit that it is compared with recorded no rollback.
    *(
        []
        if COMMIT
        else [Moment("it is rolled back", ("holds", f"{STATE}/transaction.json", "rolling back"))]
    ),
    Moment("the command ended", ("ended",)),
)
UNINSTALL = (
    Moment("the kubelet is stopped", ("runs not", "kubelet")),
    Moment("the kubelet is removed", ("gone", KUBELET)),
    Moment("the unit of containerd is removed", ("gone", f"{UNITS}/containerd.service")),
    Moment("the command ended", ("ended",)),
)
# Runs on the machine: files of ours that are empty, or JSON that can't be read.
INSPECTOR = """
import hashlib, json, os, sys
places = json.loads(sys.argv[1])
def below(place):
    if os.path.isfile(place):
        yield place
    for directory, _names, files in os.walk(place):
        for name in files:
            yield os.path.join(directory, name)
for path in (path for place in places for path in below(place)):
    if os.path.islink(path) and not os.path.exists(path):
        print("leads nowhere:", path)
    half = os.path.basename(path).startswith(".") and not path.endswith("/.manifest.json")  # never used
    if not os.path.isfile(path) or half or "/cache/" in path:
        continue
    if not open(path, "rb").read(4096).strip(b"\\0"):
        print("empty:", path)
    elif path.endswith(".json"):
        try:
            found = json.load(open(path))
        except ValueError as error:
            print("half-written:", path, error)
            continue
        for name, noted in found["files"].items() if path.endswith("/.manifest.json") else ():
            with open(os.path.join(os.path.dirname(path), name), "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != noted["sha256"]:
                    print("not what was verified:", path, name)
journal = "/var/lib/aks-flex-node/journal"
if os.path.exists(journal):
    for line in open(journal, "rb").read().split(b"\\n")[:-1]:
        try:
            json.loads(line)
        except ValueError as error:
            print("journal:", line, error)
"""
OURS = (
    STATE,
    "/etc/aks-flex-node",
    "/etc/containerd",
    "/etc/cni",
    "/etc/default/kubelet",
    "/etc/default/kubelet-registration",
    "/etc/default/kubeletconfig.json",
    "/etc/fstab",
    "/etc/kubernetes",
    "/etc/modules-load.d/aks-flex-node.conf",
    "/etc/sysctl.d/99-zz-aks-flex-node.conf",
    f"{UNITS}/containerd.service",
    f"{UNITS}/containerd.service.d",
    f"{UNITS}/kubelet.service",
    f"{UNITS}/kubelet.service.d",
    f"{UNITS}/multi-user.target.wants",
    "/var/lib/kubelet/bootstrap-kubeconfig",
    "/var/lib/kubelet/kubeconfig",
    "/opt/aks-flex-node",
    "/opt/cni",
    "/usr/local/bin",
    "/usr/local/sbin",
)


@dataclass
class Plugged:
    """A machine whose power is cut, and what it was before anything was installed."""

    bed: Testbed
    machine: VirtualMachine
    before: dict[str, object]
    document: Document
    always_left: frozenset[str] = frozenset()
    """What an earlier commit leaves behind without any power cut: not what is looked for here."""

    def wants(self, version: str) -> None:
        """Put the configuration with a version on the machine."""
        document = patient(with_versions(self.bed, self.document, kubernetes=version))
        if not COMMIT:  # the commit before that had no such check, and no such setting
            document = changed(document, upgrade={**document["upgrade"], "allowDowngrade": True})
        self.machine.run(["tee", CONFIG], input=json.dumps(document))
        self.machine.run(["sync"])

    def new_token(self) -> None:
        """For a new join."""
        self.document["azure"]["bootstrapToken"] = fleet.join_document(self.bed)["azure"]["bootstrapToken"]

    def revoke_token(self) -> None:
        """As whoever created it does when it has been used."""
        name = f"bootstrap-token-{self.document['azure']['bootstrapToken']['token'].partition('.')[0]}"
        self.bed.cluster.kubectl("delete", "secret", "--namespace=kube-system", name)

    def command(self, *words: str) -> list[str]:
        """The program's command line."""
        return ["python3", PROGRAM, *words]

    @property
    def join(self) -> list[str]:
        """Join, or apply a changed configuration."""
        return self.command("join", "--config", CONFIG)

    @property
    def uninstall(self) -> list[str]:
        """Leave the cluster."""
        return self.command("unbootstrap", "--drain-seconds", str(DRAIN_SECONDS))

    def runs(self, argv: list[str]) -> None:
        """A command that works."""
        done = self.machine.run(argv, check=False, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr

    def is_whole(self) -> None:
        """Nothing of ours is empty or half-written, and the journal can be read."""
        found = self.machine.run(["python3", "-c", INSPECTOR, json.dumps(OURS)]).stdout
        assert found == "", found

    def is_node(self, version: str) -> None:
        """Ready with a version, and nothing is left to do."""
        is_ready(self.bed, self.machine)
        assert updating.running_version(self.machine, updating.KUBELET) == version
        planned = self.machine.run(self.command("plan", "--config", CONFIG), check=False)
        assert (planned.returncode, planned.stdout) == (0, "nothing to do\n"), planned.stdout + planned.stderr
        self.machine.run(["sync"])

    def is_clean(self) -> None:
        """As before the join."""
        left = differences(self.before, photographed(self.machine))
        assert [line for line in left if _thing(line) not in self.always_left] == []

    def is_joined_with(self, version: str) -> bool:
        """Whether that is its state."""
        if self.machine.run(["test", "-e", KUBELET], check=False).returncode != 0:
            return False
        return version in self.machine.run(["readlink", "-f", KUBELET]).stdout

    def start_clean(self) -> None:
        """From a machine without anything of ours; if a test left it otherwise, from its snapshot."""
        if not self.machine.is_running() or differences(self.before, photographed(self.machine)):
            self.restore()
        self.new_token()

    def restore(self) -> None:
        """Back to its first day."""
        self.machine.stop()
        self.machine.restore("clean")
        self.machine.start()
        self.bed.cluster.kubectl("delete", "node", "--ignore-not-found", self.machine.name)

    def start_joined(self) -> str:
        """From a node, also if the test before left it in ruins; returns its version."""
        for version in (NEW, OLD):
            if self.machine.is_running() and self.is_joined_with(version):
                with contextlib.suppress(AssertionError):
                    self.is_node(version)
                    return version
        self.restore()
        self.new_token()
        self.wants(NEW)
        self.runs(self.join)
        self.is_node(NEW)
        return NEW


@pytest.fixture(scope="module")
def plugged(bed: Testbed, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Plugged:
    """A machine with the program on it, and a snapshot of its first day."""
    machine = lab.machine("power", "debian12", Hardware(paths.arch()))
    directory = tmp_path_factory.mktemp("program")
    program = updating.program_of(COMMIT, directory) if COMMIT else build_agent.build(directory)
    machine.copy_to(Path(program), PROGRAM)
    document = fleet.join_document(bed)
    document["cni"]["podCIDR"] = machine.pod_cidr
    machine.run(["fallocate", "--length", "64M", SWAP])
    machine.run(["chmod", "600", SWAP])
    machine.run(["mkswap", "--quiet", SWAP])
    machine.run(["tee", "--append", "/etc/fstab"], input=f"{SWAP} none swap sw 0 0\n")
    machine.run(["swapon", "--all"])
    before = photographed(machine)
    machine.shut_down()
    machine.snapshot("clean")
    machine.start()
    node = Plugged(bed, machine, before, document)
    return without_a_cut(node) if COMMIT else node


def without_a_cut(plugged: Plugged) -> Plugged:
    """What an earlier commit leaves behind when all goes well."""
    plugged.wants(NEW)
    plugged.runs(plugged.join)
    plugged.runs(plugged.uninstall)
    left = differences(plugged.before, photographed(plugged.machine))
    print(f"{COMMIT} leaves without a cut: {left}", file=sys.stderr)
    plugged.restore()
    return replace(plugged, always_left=frozenset(map(_thing, left)))


def _thing(difference: str) -> str:
    """What differs, without how: a file that is left behind has another time each time."""
    return ": ".join(difference.split(": ")[:2])


def _cuts(moments: tuple[Moment, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("moment", moments, ids=lambda moment: moment.name)


@_cuts(JOIN)
def test_join(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    joins(plugged, seen, moment, NEW)


@_cuts(CERTIFICATES)
def test_join_of_an_older_kubelet(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    joins(plugged, seen, moment, OLD_MINOR)


def joins(plugged: Plugged, seen: Seen, moment: Moment, version: str) -> None:
    """A join that is cut, completed and undone."""
    plugged.start_clean()
    plugged.wants(version)
    ended = moment.condition == ("ended",)
    with seen.act(plugged.machine, version, f"power cut, join: {moment.name}"):
        # What has joined needs its token no more, also after a power cut.
        cut(plugged.machine, moment, plugged.join, meanwhile=plugged.revoke_token if ended else lambda: None)
        plugged.is_whole()
        if ended:
            is_ready(plugged.bed, plugged.machine)
        plugged.runs(plugged.join)
        plugged.is_node(version)
        pod_works(plugged.bed, plugged.machine, "after-the-cut")
        plugged.runs(plugged.uninstall)
        plugged.is_clean()


@_cuts(UPDATE)
def test_update(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    then = OLD if plugged.start_joined() == NEW else NEW
    plugged.wants(then)
    at = Moment(moment.name, tuple(word.format(version=then) for word in moment.condition))
    with seen.act(plugged.machine, NEW, f"power cut, update: {moment.name}"):
        cut(plugged.machine, at, plugged.join)
        plugged.is_whole()
        if moment.condition == ("ended",):
            is_ready(plugged.bed, plugged.machine)
            assert updating.running_version(plugged.machine, updating.KUBELET) == then
        plugged.runs(plugged.join)
        plugged.is_node(then)


@_cuts(ROLLBACK)
def test_rollback(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    now = plugged.start_joined()
    plugged.wants(BAD)
    with seen.act(plugged.machine, NEW, f"power cut, rollback: {moment.name}"):
        cut(plugged.machine, moment, plugged.join, fails=True)
        plugged.is_whole()
        refused = plugged.machine.run(plugged.join, check=False, timeout=900)
        # Cut before its gate, it is tried once more; then it is known to be bad.
        tried_again = COMMIT or moment.condition[0] == "leads to"
        assert ("FLEX-1501" if tried_again else "FLEX-1508") in refused.stdout + refused.stderr
        is_ready(plugged.bed, plugged.machine)
        assert updating.running_version(plugged.machine, updating.KUBELET) == now
        plugged.wants(now)
        plugged.runs(plugged.join)
        plugged.is_node(now)


@_cuts(UNINSTALL)
def test_uninstall(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    plugged.start_joined()
    with seen.act(plugged.machine, NEW, f"power cut, uninstall: {moment.name}"):
        cut(plugged.machine, moment, plugged.uninstall)
        plugged.is_whole()
        if moment.condition == ("ended",):
            plugged.is_clean()
        plugged.runs(plugged.uninstall)
        plugged.is_clean()
