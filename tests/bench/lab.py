# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines in a known state: fresh ones for every case, prepared in the ways that cases need."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts import build_agent
from testbed import Testbed
from testbed.artifacts import store
from testbed.artifacts.store import Stored
from testbed.basics.clock import wait_for
from testbed.basics.errors import TestbedError
from testbed.basics.process import Completed, run
from testbed.cluster.api import Api, ApiError
from testbed.layout import versions
from testbed.machine import Machine
from testbed.machine.container import ContainerMachine
from testbed.playbooks import Play, join_document, play, write_inventory

FLOOR = Path(__file__).with_name("floor.sh")
PLATFORM = "debian12"
ON_NODE = "/opt/bench"
PROGRAM = f"{ON_NODE}/aks-flex-node.pyz"
CONFIG = f"{ON_NODE}/config.json"
CACHE = "/var/lib/aks-flex-node/cache"
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ADDONS = ("daemonsets/kube-proxy", "deployments/coredns")


class Unwell(TestbedError):
    """A case failed: there is nothing to measure."""


@dataclass(frozen=True)
class Lab:
    """A running testbed with what the cases need on the outer machine."""

    bed: Testbed
    api: Api
    directory: Path
    payload: Path
    """What the floor copies: the same programs that the product installs, unpacked."""
    program: Path
    artifacts: Sequence[Stored]

    def fresh(self, names: Sequence[str]) -> list[Machine]:
        """New machines of these names, and no Nodes."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._remove, names))
            return list(pool.map(lambda name: self.bed.node(name, PLATFORM), names))

    def _remove(self, name: str) -> None:
        for machine in self.bed.nodes():
            if machine.name == name:
                machine.remove()
        delete(self.api, f"/api/v1/nodes/{name}")
        wait_for(f"end of Node {name}", lambda: not self._has_node(name), 30)

    def _has_node(self, name: str) -> bool:
        listed = self.api.get("/api/v1/nodes")["items"]
        return any(node["metadata"]["name"] == name for node in listed)

    def inventory(self, machines: Sequence[Machine]) -> Path:
        """What a user would write, with a new token."""
        path = self.directory / "hosts.yml"
        return write_inventory(self.bed, machines, path, flexnode_config=join_document(self.bed))

    def play(self, playbook: str, inventory: Path) -> Play:
        """A playbook over connections of its own: no case gains from one that another left open."""
        with tempfile.TemporaryDirectory(prefix="bench-") as sockets:
            done = play(playbook, inventory, environment={"ANSIBLE_SSH_CONTROL_PATH_DIR": sockets})
        if done.status != 0:
            raise Unwell(f"{playbook} failed:\n{done.output[-3000:]}")
        return done

    def at(self, machine: Machine, *, check: bool = True) -> Callable[..., Completed]:
        """How to run a command at the machine: by entering it, as SSH and podman cost time of their own."""
        if not isinstance(machine, ContainerMachine):
            raise Unwell(f"{machine.name} can't be entered: benches run on containers")
        enter = ["nsenter", "--target", str(machine.pid), *NAMESPACES, "env", "-i", f"PATH={PATH}"]
        verdict = succeeded if check else (lambda done: done)
        return lambda *argv: verdict(run([*enter, *argv], check=False))

    def give_program(self, machine: Machine) -> None:
        """The command and its configuration, as they come from a USB stick."""
        document: dict[str, Any] = join_document(self.bed)
        document["cni"]["podCIDR"] = machine.pod_cidr
        file = self.directory / "config.json"
        file.write_text(json.dumps({"config": document}), encoding="utf-8")
        file.chmod(0o600)
        machine.run(["mkdir", "-p", ON_NODE])
        machine.copy_to(self.program, PROGRAM)
        machine.copy_to(file, CONFIG)

    def fill_cache(self, machine: Machine) -> None:
        """The files of a join under their digests, as an earlier download leaves them."""
        machine.run(["mkdir", "-p", "-m", "0700", CACHE])
        for item in self.artifacts:
            machine.copy_to(item.file, f"{CACHE}/{item.sha256}")

    def give_floor(self, machine: Machine) -> dict[str, str]:
        """What the floor's script needs; returns its environment."""
        machine.run(["mkdir", "-p", "/opt"])
        machine.copy_to(self.payload, ON_NODE)
        cluster = self.bed.cluster
        return {
            "SERVER": cluster.server,
            "TOKEN": cluster.bootstrap_token(),
            "DNS": cluster.dns_service_ip,
            "POD_CIDR": machine.pod_cidr,
            "PAUSE_IMAGE": self.bed.registry.pause_image,
        }


def delete(api: Api, path: str) -> None:
    """Have an object gone."""
    try:
        api.delete(path)
    except ApiError as error:
        if error.status != 404:
            raise


def succeeded(done: Completed) -> Completed:
    """A command that must have worked."""
    if done.returncode != 0:
        raise Unwell(f"{' '.join(map(str, done.args))} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done


def set_up(bed: Testbed, directory: Path) -> Lab:
    """A testbed without pods of its own: they would run, or not yet run, while a case is timed."""
    bed.up()
    api = bed.cluster.api()
    for addon in ADDONS:
        delete(api, f"/apis/apps/v1/namespaces/kube-system/{addon}")
    wanted = [(name, versions.KUBERNETES) for name in versions.KUBERNETES_NODE]
    wanted += [("runc", versions.RUNC), ("containerd", versions.CONTAINERD)]
    wanted += [("cni-plugins", versions.CNI_PLUGINS)]
    artifacts = store.ensure(wanted)
    payload = directory / "payload"
    for part in ("programs", "cni"):
        (payload / part).mkdir(parents=True)
    for item in artifacts:
        unpack(item, payload)
    (payload / "ca.crt").write_text(bed.cluster.ca_pem, encoding="utf-8")
    (payload / "floor.sh").write_bytes(FLOOR.read_bytes())
    return Lab(bed, api, directory, payload, build_agent.build(directory / "dist"), artifacts)


def unpack(item: Stored, payload: Path) -> None:
    """The programs of an artifact, as they lie on a machine that has them."""
    if item.name == "cni-plugins":
        run(["tar", "-xzf", item.file, "-C", payload / "cni"])
    elif item.name == "containerd":
        run(["tar", "-xzf", item.file, "-C", payload / "programs", "--strip-components=1"])
        wanted = ("containerd", "containerd-shim-runc-v2", "ctr")
        for program in (payload / "programs").iterdir():
            if program.name.startswith(("containerd", "ctr")) and program.name not in wanted:
                program.unlink()
    else:
        target = payload / "programs" / item.name
        target.write_bytes(item.file.read_bytes())
        target.chmod(0o755)


@contextlib.contextmanager
def torn_down(bed: Testbed, keep: bool) -> Iterator[None]:
    """The testbed goes with the bench, whatever happened."""
    try:
        yield
    finally:
        if not keep:
            bed.down()
