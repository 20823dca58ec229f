# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A machine for tests: real files under a temporary root; only the commands and the time are made up."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import Completed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import SYSTEM_PYTHON

SWAPS_HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
PIDS = {"containerd.service": 101, "kubelet.service": 102, "node-problem-detector.service": 103}
BOOTED = time.time() - 1000
SYSCTLS = {
    "net/bridge/bridge-nf-call-iptables": "0",
    "net/bridge/bridge-nf-call-ip6tables": "0",
    "net/ipv4/ip_forward": "0",
    "vm/overcommit_memory": "0",
    "vm/panic_on_oom": "0",
    "kernel/panic": "0",
    "kernel/panic_on_oops": "0",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/hostname": "Edge-1",
    "kernel/osrelease": "6.1.0-test",
}


@dataclass
class FakeClock:
    """Time passes only when somebody sleeps; `then` is what happens meanwhile."""

    time: float = 1_800_000_000.0
    naps: list[float] = field(default_factory=list)
    then: Callable[[], object] = lambda: None

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.time += seconds
        self.then()


@dataclass
class Commands:
    """The commands of a machine: systemd's units, swap, kernel modules, mounts. Every call is noted."""

    root: Path
    units: dict[str, str] = field(default_factory=dict)  # ActiveState by unit
    restarts: dict[str, int] = field(default_factory=dict)  # NRestarts by unit
    sub_states: dict[str, str] = field(default_factory=dict)  # SubState by unit
    started: dict[str, float] = field(default_factory=dict)  # when the process of a unit was started
    clock: FakeClock = field(default_factory=FakeClock)
    unit_files: dict[str, str] = field(default_factory=dict)  # UnitFileState by unit
    logs: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)  # exit status by program or "program verb"
    on_start: dict[str, Callable[[], object]] = field(default_factory=dict)
    answers: dict[tuple[str, ...], str] = field(default_factory=dict)
    busy: int = 0  # how often systemd does not answer those who ask for states
    calls: list[tuple[str, ...]] = field(default_factory=list)
    # What answers at a socket of the machine, by its path; None: nobody does.
    asked: Callable[[str], str | None] = lambda _path: None
    # Whether units have processes, in /proc and in their cgroup; otherwise only systemd tells of them.
    processes: bool = False

    def __call__(self, argv: Sequence[str], data: bytes | None, timeout: float) -> Completed:
        call = tuple(argv)
        self.calls.append(call)
        status = self.statuses.get(" ".join(call[:2]), self.statuses.get(call[0], 0))
        if status:
            return Completed(call, status, "", f"{call[0]}: it went wrong\n")
        if self.busy and call[:2] == ("systemctl", "show"):
            self.busy -= 1
            return Completed(call, 1, "", "Failed to get properties: Connection timed out\n")
        answer = getattr(self, f"_{os.path.basename(call[0])}", lambda *_: self.answers.get(call, ""))
        return Completed(call, 0, answer(*call[1:]), "")

    def ask(self, path: str) -> str | None:
        """A question at a socket; it changes nothing."""
        return self.asked(path)

    def changing(self) -> list[tuple[str, ...]]:
        """The calls that were not just looking."""
        return [call for call in self.calls if call[:2] != ("systemctl", "show") and call[0] != "journalctl"]

    def times(self, *start: str) -> int:
        """How often a command with this beginning was called."""
        return sum(call[: len(start)] == start for call in self.calls)

    def _systemctl(self, verb: str, *arguments: str) -> str:
        names = [name for name in arguments if not name.startswith("-")]
        if verb == "show":
            return "\n".join(self._shown(name) for name in names)
        if verb in ("restart", "start"):
            for name in names:
                self.units[name] = "active"
                self.started[name] = self.clock.time
                self.ends(name)
                self.begins(name)
                self.on_start.get(name, lambda: None)()
        if verb == "stop":
            self.units.update(dict.fromkeys(names, "inactive"))
            for name in names:
                self.ends(name)
        return ""

    def _python3(self, *arguments: str) -> str:
        """compileall: byte code by name only, as nobody runs it here."""
        if "compileall" in arguments:
            version = f"cpython-{sys.version_info.major}{sys.version_info.minor}"
            for source in list((self.root / arguments[-1].lstrip("/")).rglob("*.py")):
                (source.parent / "__pycache__").mkdir(exist_ok=True)
                (source.parent / "__pycache__" / f"{source.stem}.{version}.pyc").touch()
        return self.answers.get((SYSTEM_PYTHON, *arguments), "")

    def begins(self, unit: str, exe: str = "") -> None:
        """A unit gets its process: what the link in /usr/local/bin leads to now, or something else."""
        name = unit.removesuffix(".service")
        link = self.root / "usr/local/bin" / name
        if not self.processes or not (exe or link.is_symlink()):
            return
        pid = PIDS[unit]
        place = self.root / "proc" / str(pid)
        place.mkdir(parents=True)
        (place / "comm").write_text(f"{name[:15]}\n")  # the kernel keeps no more
        start = int((time.time() - BOOTED) * os.sysconf("SC_CLK_TCK"))
        (place / "stat").write_text(f"{pid} ({name}) S 1 {' '.join('0' * 17)} {start} 0\n")
        (place / "exe").symlink_to(exe or os.readlink(link))
        group = self.root / "sys/fs/cgroup/system.slice" / unit
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.procs").write_text(f"7\n{pid}\n")

    def ends(self, unit: str) -> None:
        """The process of a unit is gone; containers that it started are not."""
        if self.processes and unit in PIDS:
            shutil.rmtree(self.root / "proc" / str(PIDS[unit]), ignore_errors=True)

    def _shown(self, unit: str) -> str:
        state, restarts = self.units.get(unit, "inactive"), self.restarts.get(unit, 0)
        since = f"ExecMainStartTimestampMonotonic={int(self.started.get(unit, 0) * 1e6)}"
        enabled = f"UnitFileState={self.unit_files.get(unit, '')}"
        sub = f"SubState={self.sub_states.get(unit, 'any')}"
        return f"Id={unit}\nActiveState={state}\n{sub}\nNRestarts={restarts}\n{since}\n{enabled}\n"

    def _journalctl(self, _flag: str, unit: str, *_: str) -> str:
        return self.logs.get(unit, "")

    def _modprobe(self, *arguments: str) -> str:
        module = self.root / "sys/module" / arguments[-1]
        if not module.exists():
            loading = self._outside(module.name)
            loading.mkdir()
            (loading / "refcnt").write_text("0\n")
            module.parent.mkdir(parents=True, exist_ok=True)
            loading.rename(module)
        return ""

    def _rmmod(self, module: str) -> str:
        shutil.rmtree((self.root / "sys/module" / module).rename(self._outside(module)))
        return ""

    def _outside(self, module: str) -> Path:
        """A kernel loads and unloads a module at once: nobody sees half of its directory."""
        return self.root.with_name(f"{self.root.name}.{module}")

    def _swapoff(self, *arguments: str) -> str:
        swaps = self.root / "proc/swaps"
        lines = swaps.read_text().splitlines(keepends=True)
        swaps.write_text("".join(line for line in lines if not line.startswith(arguments[-1])))
        return ""

    def _swapon(self, *arguments: str) -> str:
        priority = arguments[1] if arguments[0] == "--priority" else "-2"
        with (self.root / "proc/swaps").open("a") as file:
            file.write(swap_row(arguments[-1], priority))
        return ""


def swap_row(area: str, priority: str = "-2") -> str:
    """A line of /proc/swaps."""
    return f"{area}\tfile\t1048572\t0\t{priority}\n"


@dataclass
class Machine:
    """A root, its commands, its clock, and the Host that tests hand to the code."""

    root: Path
    commands: Commands
    clock: FakeClock
    host: Host
    store: Store

    @classmethod
    def at(cls, root: Path) -> Machine:
        """A machine with nothing in it."""
        clock = FakeClock()
        commands = Commands(root, clock=clock)
        host = Host(root=str(root), runner=commands, clock=clock, asker=commands.ask)
        return cls(root, commands, clock, host, Store(host))

    @classmethod
    @contextmanager
    def temporary(cls) -> Iterator[Machine]:
        """A machine that is gone after the block; in memory where possible, as every write is synced."""
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="flexnode-", dir=memory) as root:
            yield cls.at(Path(root))

    def path(self, path: str) -> Path:
        """Where a path of the machine really is."""
        return self.root / path.lstrip("/")

    def put(self, path: str, content: str | bytes = "", mode: int = 0o644) -> Path:
        """A file, and the directories above it."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        return place

    def text(self, path: str) -> str:
        """What a file holds."""
        return self.path(path).read_text()

    def mount(self, *points: str) -> None:
        """Say, as the kernel would, that something is mounted at these places."""
        lines = [
            f"{number} 1 0:{number} / {point} rw - tmpfs tmpfs rw" for number, point in enumerate(points, 20)
        ]
        self.put("/proc/self/mountinfo", "".join(f"{line}\n" for line in lines))

    def furnish(self) -> Machine:
        """What a Debian 12 with systemd has before we come."""
        for setting, value in SYSCTLS.items():
            self.put(f"/proc/sys/{setting}", value + "\n")
        self.put("/etc/os-release", DEBIAN)
        self.put("/proc/meminfo", "MemTotal:        8134224 kB\nMemFree: 1 kB\n")
        self.put("/proc/filesystems", "nodev\tsysfs\n\text4\n")
        self.put("/proc/swaps", SWAPS_HEADER + swap_row("/swapfile"))
        self.put("/etc/fstab", "UUID=1 / ext4 defaults 0 1\n/swapfile none swap sw 0 0\n")
        self.put("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
        for tool in ("mount", "umount", "modprobe", "nft"):
            self.put(f"/usr/bin/{tool}", mode=0o755)
        modules = ("overlay", "br_netfilter", "nf_conntrack")
        self.put("/lib/modules/6.1.0-test/modules.dep", "".join(f"kernel/{name}.ko:\n" for name in modules))
        for directory in ("/run/systemd/system", "/usr/local/bin", "/usr/local/sbin", "/etc/systemd/system"):
            self.path(directory).mkdir(parents=True, exist_ok=True)
        return self

    def snapshot(self, *below: str, times: bool = True) -> dict[str, tuple[object, ...]]:
        """Everything under some directories, to the byte: content or target, mode, owner, time of files."""
        found: dict[str, tuple[object, ...]] = {}
        for top in below or ("/etc", "/opt", "/usr", "/var", "/proc"):
            for place in sorted(self.path(top).rglob("*")):
                seen = place.lstat()
                what: object = "directory"
                if place.is_symlink():
                    what = os.readlink(place)
                elif place.is_file():
                    timed = times and not top.startswith("/proc")
                    what = (place.read_bytes(), seen.st_mtime_ns if timed else 0)
                found[str(place.relative_to(self.root))] = (what, seen.st_mode, seen.st_uid, seen.st_gid)
        return found
