# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A laboratory: machines that can be copied at any moment, one mirror and one API server for all of them."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.labels import APPLIED_TIME
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.annotation import CONDITION, STATUS
from tests.faults.dying import DyingHost, Watch
from tests.unit.node.config.test_samples import CLUSTER
from tests.unit.node.fake_api import FakeApi, a_node
from tests.unit.node.fakes import Machine, swap_row
from tests.unit.node.pull.team import PYTHON, WHEEL_DIR, packages_of
from tests.unit.node.rollout.rollouts import LIMIT, create, shared
from tests.unit.node.servers import Answer, Pki, Request, serving
from tests.unit.node.sites import (
    CONTAINERD,
    FILES,
    IDENTITY,
    KUBELET,
    TOKEN,
    VERSIONS,
    kubelet_writes_kubeconfig,
    registered_labels,
)
from tests.unit.node.tunnels import Gateway

NEWER = "1.34.5"
UNBEARABLE = 13  # pods: a kubelet with this limit runs, and its Node is never Ready
NEW_FILES = {name: f"{name} {NEWER}".encode() for name in ("kubelet", "kubectl", "kubeadm")}
# Of no lasting meaning, or compared by what it is good for: the journal by giving the machine back.
# A loaded kernel module stays until the next boot.
UNCOMPARED = (
    "sys/module/overlay",
    "run/aks-flex-node",
    "var/log/aks-flex-node/agent.log",  # times; its directory is compared, so it can not stay behind
    "var/lib/aks-flex-node/journal",
    "var/lib/aks-flex-node/origins",
    "var/lib/aks-flex-node/drift.json",  # a history: what was found, and when
)
MANIFEST, STATUS_FILE = ".manifest.json", "status.json"
# The update takes these away again, with a file that stands where someone else had one (lived_in).
LEFT_OUT_LATER: dict[str, Any] = {
    "proxy": {"http": "http://u:s3cret@127.0.0.1:9", "no": ["127.0.0.1", "localhost"]},
    "registryMirrors": {
        "docker.io": {"endpoints": ["https://mirror.example/hub"]},
        "mcr.microsoft.com": {"endpoints": ["https://mirror.example/mcr"]},
    },
}

Photo = dict[str, Any]


def mirrored(request: Request) -> Answer:
    """A file of the mirror, by the name and version in its address."""
    last = request.path.rpartition("/")[2]
    files = {**FILES, **NEW_FILES} if f"v{NEWER}" in request.path else FILES
    for name in sorted(files, key=len, reverse=True):
        if last.startswith(name):
            return Answer(files[name])
    return Answer(status=404)


def catalogue() -> dict[str, Any]:
    """The mirror's digests: one version of each, and two of Kubernetes."""
    digests: dict[str, Any] = {}
    for version, files in ((None, FILES), (NEWER, NEW_FILES)):
        for name, content in files.items():
            digest = hashlib.sha256(content).hexdigest()
            both = {"amd64": digest, "arm64": digest}
            digests.setdefault(name, {})[version or VERSIONS[name]] = both
    return digests


@dataclass
class World:
    """A machine and what the cluster knows of it. A copy is a world of its own."""

    lab: Lab
    machine: Machine
    nodes: dict[str, Any] = field(default_factory=dict)
    authority: int = 1  # of the cluster: it takes certificates of this one alone
    config_maps: dict[str, Any] = field(default_factory=dict)
    tunnel: Gateway | None = None  # of a machine with a VPN, and what its client runs with

    def copy(self) -> World:
        """The same once more, to the inode's content; the running units too."""
        root = self.lab.next_root()
        subprocess.run(["cp", "-a", str(self.machine.root), str(root)], check=True)
        return self._at(root)

    def _at(self, root: Path) -> World:
        machine = Machine.at(root)
        machine.commands.units = dict(self.machine.commands.units)
        machine.clock.time = self.machine.clock.time
        vars(machine.commands)["_env"] = packages_of(machine)
        tunnel = replace(self.tunnel, machine=machine) if self.tunnel else None
        return World(
            self.lab,
            machine,
            copy.deepcopy(self.nodes),
            self.authority,
            copy.deepcopy(self.config_maps),
            tunnel,
        )

    def away(self) -> None:
        """Remove it."""
        shutil.rmtree(self.machine.root)

    def meet(self) -> None:
        """Be the world that the API server is in."""
        self.lab.api.nodes = self.nodes
        self.lab.api.config_maps = self.config_maps
        self.lab.api.now = self.machine.clock.now
        self.lab.api.knows = self._takes_the_certificate

    def command(self, *arguments: str, host: Host | None = None) -> tuple[int, str]:
        """The aks-flex-node command on this machine; init and the cluster live on whatever happens to it."""
        self.machine.commands.on_start[KUBELET] = self._kubelet_starts
        if self.tunnel:
            self.tunnel.attach()
        self.meet()
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = main(arguments, host or self.machine.host)
        return status, said.getvalue()

    def watched(self, watch: Watch, *arguments: str, ends: int = 0, system_calls: bool = True) -> None:
        """The same, watched; it must end with this status."""
        commands = self.machine.commands
        host = DyingHost(str(self.machine.root), commands, self.machine.clock, commands.ask)
        host.watch = watch
        with watch.system_calls() if system_calls else contextlib.nullcontext():
            status, said = self.command(*arguments, host=host)
        assert status == ends, said

    def fingerprint(self) -> tuple[Any, ...]:
        """Everything that outlives a process, in short: two moments with the same one are the same."""
        found: list[Any] = [repr(self.machine.commands.units), repr(self.nodes), repr(self.config_maps)]
        waiting = [str(self.machine.root)]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    state = entry.stat(follow_symlinks=False)
                    content = 0 if entry.is_dir(follow_symlinks=False) else (state.st_size, state.st_mtime_ns)
                    found.append((entry.path, content, state.st_mode, state.st_uid, state.st_gid))
                    if content == 0:
                        waiting.append(entry.path)
        return tuple(found)

    def _kubelet_starts(self) -> None:
        """It gets its certificate and registers its Node, or tells the known Node its version."""
        machine = self.machine
        if not machine.path(IDENTITY).exists():  # one that is there is good, by its date
            machine.put(IDENTITY, self.lab.pki.client.read_bytes() + self._signature, 0o600)
        kubelet_writes_kubeconfig(machine)
        labels = registered_labels(machine)
        version = os.readlink(machine.path("/usr/local/bin/kubelet")).split("/")[-2].split("-")[0]
        node = self.nodes.setdefault("edge-1", a_node(labels=labels))
        node["status"]["nodeInfo"]["kubeletVersion"] = f"v{version}"
        works = f'"maxPods": {UNBEARABLE}' not in machine.text("/etc/default/kubeletconfig.json")
        node["status"]["conditions"] = a_node(ready=works)["status"]["conditions"]

    @property
    def _signature(self) -> bytes:
        """What tells the certificates of the cluster's authorities apart."""
        return f"# authority {self.authority}\n".encode()

    def _takes_the_certificate(self) -> bool:
        shown = self.machine.path(IDENTITY)
        return shown.exists() and shown.read_bytes().endswith(self._signature)

    def turns(self) -> Photo:
        """What the rollout record of the cluster says now; what was rolled out before stays in it."""
        self.lab.api.config_maps = self.config_maps
        record = shared(self.lab.api)
        software = {name: (member.ring, member.software) for name, member in record.nodes.items()}
        return {"registered": software, "holders": sorted(record.holders)}

    def photo(self, *, times: bool = False) -> Photo:
        """Every file to the byte with mode and owner, the units, the Nodes."""
        nodes = copy.deepcopy(self.nodes)
        for node in nodes.values():  # when it was applied and how often it was written differ between runs
            annotations = node["metadata"].get("annotations", {})
            annotations.pop(APPLIED_TIME, None)
            if STATUS in annotations:
                annotations[STATUS] = json.loads(annotations[STATUS]) | {"time": ""}
            for condition in node["status"]["conditions"]:
                if condition["type"] == CONDITION:
                    condition |= {"lastHeartbeatTime": "", "lastTransitionTime": ""}
            node["metadata"].pop("resourceVersion", None)
        found: Photo = {"units": running(self.machine.commands.units), "nodes": nodes, **self.turns()}
        root = str(self.machine.root)
        for directory, names, files in os.walk(root):
            inside = os.path.relpath(directory, root)
            names[:] = [name for name in names if os.path.normpath(f"{inside}/{name}") not in UNCOMPARED]
            for name in names + files:
                path = os.path.normpath(f"{inside}/{name}")
                if path not in UNCOMPARED:
                    found[path] = seen(f"{directory}/{name}", times and not path.startswith("proc/"))
        return found

    def state(self, seen: Photo) -> str:
        """A photo with what the journal says and what it keeps, in short: the same is the same."""
        store = self.machine.store
        entries = [(vars(entry) | {"of": sorted(entry.of)}) for entry in store.journal.entries()]
        kept = self.machine.path(f"{store.directory}/origins")
        contents = {path.name: path.read_bytes() for path in kept.iterdir()} if kept.is_dir() else {}
        tunnel = self.tunnel.running if self.tunnel else ""
        everything = (sorted(seen.items()), entries, sorted(contents.items()), tunnel)
        return hashlib.sha256(repr(everything).encode()).hexdigest()

    def manifests(self) -> list[bool]:
        """Whether each manifest knows its files by inode and time, too; those of a copy are others."""
        found = []
        for path in sorted(self.machine.root.glob(f"opt/**/{MANIFEST}")):
            noted = json.loads(path.read_text())["files"]
            at = "/" + str(path.parent.relative_to(self.machine.root))
            now = {name: list(self.machine.host.stat(f"{at}/{name}").fingerprint) for name in noted}
            found.append(now == {name: known["fingerprint"] for name, known in noted.items()})
        return found


NOT_FILES = ("units", "nodes", "registered", "holders")  # of a photo


def files(photo: Photo) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """What stands at each path."""
    return ((path, seen) for path, seen in photo.items() if path not in NOT_FILES)


def untimed(photo: Photo) -> Photo:
    """A photo without the times of files."""
    return photo | {path: (*seen[:4], 0) for path, seen in files(photo) if len(seen) == 5}


def running(units: Mapping[str, str]) -> dict[str, str]:
    """A unit that was stopped is as one that never ran."""
    return {unit: state for unit, state in units.items() if state != "inactive"}


def seen(path: str, times: bool) -> tuple[Any, ...]:
    """What stands at a path."""
    state = os.lstat(path)
    access = (stat.filemode(state.st_mode), state.st_uid, state.st_gid)
    if stat.S_ISLNK(state.st_mode):
        return (*access, os.readlink(path))
    if not stat.S_ISREG(state.st_mode):
        return access
    with open(path, "rb") as file:
        content: Any = file.read()
    if path.endswith("/proc/swaps"):
        content = sorted(content.splitlines())  # the kernel's order is that of turning them on
    if "/proc/sys/" in path:
        content = content.strip()  # the kernel adds an end of line, a file does not
    if MANIFEST in os.path.basename(path) and content:  # inode and time of each file differ from run to run
        document = json.loads(content)
        content = [document["artifact"], {name: noted["sha256"] for name, noted in document["files"].items()}]
    if STATUS_FILE in os.path.basename(path) and content:
        content = json.loads(content) | {"timestamp": ""}
        content["config"].get("refused", {}).pop("since", None)
        content["vpn"].pop("since", None)
    return (*access, content, state.st_mtime_ns if times else 0)


def differences(wanted: Photo, found: Photo) -> list[str]:
    """What is not the same, one line each, from shortly before the place where it begins."""

    def line(found: Any, wanted: Any) -> str:
        both = [str("nothing" if value is None else value) for value in (found, wanted)]
        pairs = enumerate(zip(*both, strict=False))
        start = max(0, next((place for place, (one, other) in pairs if one != other), 0) - 40)
        return " instead of ".join(text[start : start + 300] for text in both)

    return [
        f"{key}: {line(found.get(key), wanted.get(key))}"
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key) != found.get(key)
    ]


@dataclass
class Lab:
    """Servers and files that all worlds share."""

    directory: Path  # of the machines' roots, in memory
    pki: Pki
    api: FakeApi
    join: tuple[str, ...]
    update: tuple[str, ...]
    broken: tuple[str, ...]  # an update with which the node does not get Ready: it is rolled back
    rotation: tuple[str, ...]  # a join with another authority of the cluster, and a new token
    follow: tuple[str, ...]  # a join with an address that is looked at again
    published: dict[str, bytes]  # what stands there
    bundles: tuple[bytes, bytes]  # what stood there first, and then
    taking_turns: tuple[tuple[str, ...], tuple[str, ...]]  # join and update, with upgrade.maxUnavailable
    pull: tuple[str, ...]  # a join that also installs ansible-pull
    passed: set[str] = field(default_factory=set)  # states of machines that were checked
    _roots: int = 0

    def next_root(self) -> Path:
        """Where one more machine will be."""
        self._roots += 1
        return self.directory / f"machine-{self._roots}"

    def fresh(self) -> World:
        """A Debian as installed; it has swap."""
        world = World(self, Machine.at(self.next_root()).furnish())
        machine = world.machine
        vars(machine.commands)["_env"] = packages_of(machine)
        machine.put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        machine.put("/etc/ssl/certs/ca-certificates.crt", "")
        machine.put(f"/usr/bin/python{PYTHON}", "", 0o755)
        machine.path("/usr/bin/python3").symlink_to(f"python{PYTHON}")
        shutil.copytree(self.directory / "wheels", machine.path(WHEEL_DIR))
        self.api.config_maps = world.config_maps
        create(self.api)
        for directory in ("/var/lib/dpkg/info", "/var/log", "/opt", "/etc/default", "/sys/module"):
            world.machine.path(directory).mkdir(parents=True, exist_ok=True)
        return world

    def lived_in(self) -> World:
        """A machine with a past: another containerd, files under our names, odd modes, a swap unit."""
        world = self.fresh()
        machine = world.machine
        machine.put("/proc/swaps", machine.text("/proc/swaps") + swap_row("/dev/zram0", "100"))
        machine.put("/etc/fstab", "UUID=1 / ext4 defaults 0 1\n/swapfile\tnone swap  sw 0 0\n", 0o600)
        machine.put("/etc/sysctl.d/99-zz-aks-flex-node.conf", "# someone took our name\n", 0o640)
        machine.put("/etc/containerd/config.toml", "version = 2\n# since 2019\n", 0o640)
        machine.put("/etc/systemd/system/containerd.service", "[Service]\nExecStart=/bin/sleep infinity\n")
        machine.put("/etc/systemd/system/dev-zram0.swap", "[Swap]\nWhat=/dev/zram0\n")
        machine.put("/var/lib/containerd/precious/layer", "kept since 2019\n")
        machine.put("/var/lib/kubelet/old", "of a kubelet before us\n")
        machine.put("/etc/cni/net.d/99-site.conf", "{}\n")
        machine.put("/etc/containerd/certs.d/docker.io/hosts.toml", "# theirs\n", 0o600)
        machine.put("/var/lib/prometheus/node-exporter/apt.prom", "apt_upgrades_pending 0\n")
        machine.put("/usr/local/bin/kubectl", "#!/bin/sh\n", 0o755)
        machine.path("/usr/local/bin/kubeadm").symlink_to("/bin/true")
        wants = machine.path("/etc/systemd/system/multi-user.target.wants")
        wants.mkdir()
        (wants / CONTAINERD).symlink_to("/etc/systemd/system/containerd.service")
        os.chown(machine.path("/etc/containerd/config.toml"), 1, 1)
        machine.path("/var/lib/kubelet").chmod(0o700)
        for path in machine.path("/etc").rglob("*"):
            os.utime(path, ns=(1_557_126_489_123_456_789,) * 2, follow_symlinks=False)
        machine.commands.units[CONTAINERD] = "active"
        return world


@contextlib.contextmanager
def a_lab(directory: Path, roots: Path, pki: Pki) -> Iterator[Lab]:
    """A laboratory for as long as the block lasts."""
    api = FakeApi(version="v1.34.9")
    published: dict[str, bytes] = {}

    def bundle(request: Request) -> Answer:
        body = published["bundle"]
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        same = request.headers.get("If-None-Match") == etag
        return Answer(status=304) if same else Answer(body, 200, {"ETag": etag})

    with (
        serving(mirrored, pki.server_context()) as mirror,
        serving(bundle, pki.server_context()) as address,
        api.running(pki),
    ):
        document: dict[str, Any] = {
            "azure": {"targetCluster": {"resourceId": CLUSTER}, "bootstrapToken": {"token": TOKEN}},
            "kubernetes": {"version": "1.34.4"},
            "cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"},
            "mirror": {"url": mirror.url, "caCert": pki.ca_pem, "catalogue": catalogue()},
            "takeover": True,
            **LEFT_OUT_LATER,
            "node": {
                "labels": {"site": "lab-1"},
                "kubelet": {
                    "serverURL": api.server.url,
                    "caCertData": b64encode(pki.ca_pem.encode()).decode(),
                },
            },
        }
        newer = merge(
            document,
            {
                "kubernetes": {"version": NEWER},
                "node": {
                    "maxPods": 50,
                    "labels": {"site": "lab-2"},
                    "kubelet": {"serverURL": api.server.url.replace("127.0.0.1", "localhost")},
                },
                "containerd": {"metricsAddress": "127.0.0.1:10299"},
                **dict.fromkeys(LEFT_OUT_LATER),
            },
        )
        both = b64encode(f"{pki.ca_pem}{pki.ca_pem}".encode()).decode()  # two, as far as bytes are concerned
        rotated = merge(
            document,
            {
                "node": {"kubelet": {"caCertData": both}},
                "azure": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}},
            },
        )
        commands = []
        broken = merge(newer, {"node": {"maxPods": UNBEARABLE}, "upgrade": {"gateSeconds": 10}})
        documents = {
            "join": document,
            "update": newer,
            "broken": broken,
            "rotation": rotated,
            "turn": merge(document, LIMIT),
            "next-turn": merge(newer, LIMIT),
            "pull": merge(
                document, {"pull": {"repository": "https://git.example/team.git", "wheels": WHEEL_DIR}}
            ),
        }
        for name, content in documents.items():
            file = directory / f"{name}.json"
            file.write_text(json.dumps(content))
            commands.append(("join", "--config", str(file)))
        join, update, broken_update, rotation, turn, next_turn, pull = commands
        (directory / "ca.pem").write_text(pki.ca_pem)
        url = f"{address.url}/bundle?sig=s3cret"
        follow = ("join", "--config-url", url, "--ca-cert", str(directory / "ca.pem"), "--durable")
        old, new = (
            json.dumps(
                {"config": {**content, "continuousMonitoring": True}, "configVersion": version}
            ).encode()
            for version, content in (("17", document), ("18", newer))
        )
        bundles, turns = (old, new), (turn, next_turn)
        yield Lab(
            roots, pki, api, join, update, broken_update, rotation, follow, published, bundles, turns, pull
        )
