# SPDX-License-Identifier: GPL-3.0-or-later
"""The power is cut during join, update, rollback and uninstall (acts.py: when); what was not synced is lost.

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
from testbed.basics.errors import TestbedError
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from tests.e2e import fleet, updating
from tests.e2e.photograph import differences
from tests.e2e.updating import Document, changed
from tests.vm.acts import CUTS, KUBELET, OLDER, ROLLED_BACK, Moment, cut_of
from tests.vm.lab import Lab, all_pods_run, is_ready, photographed, pod_works
from tests.vm.power import cut
from tests.vm.seen import Seen
from tests.vm.whole import half_written, texts, whole

OLD, NEW, BAD = versions.KUBERNETES_OLD_PATCH, versions.KUBERNETES, versions.KUBELET_EXITS
OLD_MINOR = versions.KUBERNETES_OLD_MINOR
COMMIT = os.environ.get("FLEXNODE_VM_COMMIT", "")
PROGRAM, CONFIG = "/srv/aks-flex-node.pyz", "/srv/config.json"
SWAP = "/swapfile"


@dataclass
class Plugged:
    """A machine whose power is cut, and what it was before anything was installed."""

    lab: Lab
    machine: VirtualMachine
    before: dict[str, object]
    document: Document
    always_left: frozenset[str] = frozenset()
    """What an earlier commit leaves behind without any power cut: not what is looked for here."""

    @property
    def bed(self) -> Testbed:
        """Its testbed."""
        return self.lab.bed

    def wants(self, version: str) -> None:
        """Put the configuration with a version on the machine."""
        document = self.lab.document(self.document, version)
        if not COMMIT:  # the commit before that had no such check, and no such setting
            document = changed(document, upgrade={"allowDowngrade": True})
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
        return self.command("unbootstrap")

    def runs(self, argv: list[str]) -> None:
        """A command that works."""
        done = self.machine.run(argv, check=False, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr

    def is_node(self, version: str) -> None:
        """Ready with a version, and nothing is left to do."""
        is_ready(self.bed, self.machine)
        assert updating.running_version(self.machine, updating.KUBELET) == version
        planned = self.machine.run(self.command("plan", "--config", CONFIG), check=False)
        assert (planned.returncode, planned.stdout) == (0, "nothing to do\n"), planned.stdout + planned.stderr
        self.machine.run(["sync"])

    def is_cordoned(self) -> bool:
        """Whether it takes no new pods."""
        said = self.bed.cluster.kubectl(
            "get", "node", self.machine.name, "--output=jsonpath={.spec.unschedulable}"
        )
        return said == "true"

    def is_clean(self) -> None:
        """As before the join."""
        left = differences(self.before, photographed(self.machine))
        assert [line for line in left if _thing(line) not in self.always_left] == []

    def has_left(self) -> None:
        """As before the join, and no Node of the cluster."""
        self.is_clean()
        assert self.machine.name not in fleet.node_names(self.bed)

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
        """From a node, also if the test before left it in ruins; returns its version.

        While pods start, containerd makes the kernel write everything.
        """
        for version in (NEW, OLD):
            if self.machine.is_running() and self.is_joined_with(version):
                with contextlib.suppress(AssertionError, TestbedError):
                    self.is_node(version)
                    assert not self.is_cordoned(), "it was about to leave"
                    all_pods_run(self.bed, self.machine)
                    return version
        self.restore()
        self.new_token()
        self.wants(NEW)
        self.runs(self.join)
        self.is_node(NEW)
        all_pods_run(self.bed, self.machine)
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
    node = Plugged(lab, machine, before, document)
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


def _cuts(command: str) -> pytest.MarkDecorator:
    # The commit that this one is compared with recorded no rollback.
    moments = [moment for moment in CUTS[command] if not COMMIT or moment != ROLLED_BACK]
    return pytest.mark.parametrize("moment", moments, ids=lambda moment: moment.name)


@_cuts("join")
def test_join(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    joins(plugged, seen, moment, "join", NEW)


@_cuts(OLDER)
def test_join_of_an_older_kubelet(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    joins(plugged, seen, moment, OLDER, OLD_MINOR)


def joins(plugged: Plugged, seen: Seen, moment: Moment, command: str, version: str) -> None:
    """A join that is cut, completed and undone."""
    plugged.start_clean()
    plugged.wants(version)
    with seen.act(plugged.machine, version, moment.name, cut_of(command)):
        # What has joined needs its token no more, also after a power cut.
        revoke = plugged.revoke_token if moment.ended else lambda: None
        cut(plugged.machine, moment, plugged.join, meanwhile=revoke)
        after_the_boot = whole(plugged.machine)
        if moment.ended:
            is_ready(plugged.bed, plugged.machine)
        plugged.runs(plugged.join)
        plugged.is_node(version)
        assert half_written(after_the_boot, texts(plugged.machine)) == []
        pod_works(plugged.bed, plugged.machine, "after-the-cut")
        plugged.runs(plugged.uninstall)
        plugged.has_left()


@_cuts("update")
def test_update(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    then = OLD if plugged.start_joined() == NEW else NEW
    plugged.wants(then)
    at = Moment(moment.name, tuple(word.format(version=then) for word in moment.condition))
    with seen.act(plugged.machine, then, moment.name, cut_of("update")):
        cut(plugged.machine, at, plugged.join)
        after_the_boot = whole(plugged.machine)
        if moment.ended:
            is_ready(plugged.bed, plugged.machine)
            assert updating.running_version(plugged.machine, updating.KUBELET) == then
        plugged.runs(plugged.join)
        plugged.is_node(then)
        assert half_written(after_the_boot, texts(plugged.machine)) == []


@_cuts("rollback")
def test_rollback(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    now = plugged.start_joined()
    plugged.wants(BAD)
    with seen.act(plugged.machine, now, moment.name, cut_of("rollback")):
        cut(plugged.machine, moment, plugged.join, fails=True)
        after_the_boot = whole(plugged.machine)
        refused = plugged.machine.run(plugged.join, check=False, timeout=900)
        # Cut before its gate, it is tried once more; then it is known to be bad.
        tried_again = COMMIT or moment.condition[0] == "leads to"
        assert ("FLEX-1501" if tried_again else "FLEX-1508") in refused.stdout + refused.stderr
        is_ready(plugged.bed, plugged.machine)
        assert updating.running_version(plugged.machine, updating.KUBELET) == now
        plugged.wants(now)
        plugged.runs(plugged.join)
        plugged.is_node(now)
        assert half_written(after_the_boot, texts(plugged.machine)) == []


@_cuts("uninstall")
def test_uninstall(plugged: Plugged, seen: Seen, moment: Moment) -> None:
    now = plugged.start_joined()
    pod_works(plugged.bed, plugged.machine, "before-the-cut")
    as_a_node = texts(plugged.machine)
    with seen.act(plugged.machine, now, moment.name, cut_of("uninstall")):
        cut(plugged.machine, moment, plugged.uninstall, stops_pods=True)
        assert half_written(whole(plugged.machine), as_a_node) == []
        if moment.ended:
            plugged.is_clean()
        plugged.runs(plugged.uninstall)
        plugged.has_left()
