# SPDX-License-Identifier: GPL-3.0-or-later
"""A node machine that is virtual: a kernel, a disk and a clock of its own, emulated by QEMU."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from testbed.artifacts.archive import Entry, tar_bytes
from testbed.basics import files
from testbed.basics.clock import wait_for
from testbed.basics.errors import TestbedError, TookTooLong
from testbed.basics.process import Completed, run
from testbed.host import packages
from testbed.images import recipes
from testbed.images.rootfs import Recipe
from testbed.layout import network
from testbed.machine import disk
from testbed.machine.machine import Machine
from testbed.machine.qemu import Hardware, Start

LAST_LINES = 25
HOSTS = "127.0.0.1 localhost\n::1 localhost\n{ip} {name}\n"
NETWORK = """[Match]
MACAddress={mac}

[Network]
Address={ip}/{prefix}
Gateway={gateway}
LinkLocalAddressing=no
IPv6AcceptRA=no
"""
ROUTE = """
[Route]
Destination={}
Gateway={}
"""
COPY = "base64 --decode | tar --extract --no-overwrite-dir --directory "


@dataclass(frozen=True)
class VirtualMachine(Machine):
    """One node machine in QEMU."""

    hardware: Hardware = field(kw_only=True)

    boot_seconds = 600  # on a machine that is busy otherwise

    @property
    def kind(self) -> str:
        """Its platform and hardware, as far as it is not the usual one."""
        has, usual = self.hardware, Hardware(self.hardware.arch)
        unusual = [
            *([f"{has.memory_mib} MiB"] if has.memory_mib != usual.memory_mib else []),
            *([f"{has.cores} cores"] if has.cores != usual.cores else []),
            *(f"disk {name} of {size}" for name, size in has.disks.items()),
        ]
        return " ".join((self.platform, has.arch, "VM", *unusual))

    def run(
        self, argv: Sequence[str], *, check: bool = True, input: str | None = None, timeout: float = 300
    ) -> Completed:
        """Run a program in it as root: over SSH, there is no other way in."""
        command = shlex.join(["sudo", "--non-interactive", "--", *argv])
        return run(self.ssh(command), check=check, input=input, timeout=timeout)

    def copy_to(self, local: Path | str, remote: str) -> None:
        """Copy a file or directory into it as root."""
        source, target = Path(local), Path(remote)
        pack = ["tar", "--create", "--directory", source.parent, "--transform"]
        renamed = f"s,^{source.name},{target.name},"
        packed = run(["sh", "-c", f"{shlex.join(map(str, [*pack, renamed, source.name]))} | base64"]).stdout
        self.run(["sh", "-c", COPY + shlex.quote(str(target.parent))], input=packed)

    def is_running(self) -> bool:
        """Whether it is switched on."""
        return self._pid() is not None

    def stop(self) -> None:
        """Cut its power: what its programs had not synced is lost."""
        if pid := self._pid():
            os.kill(pid, signal.SIGKILL)
            # All of it: until its last thread is gone, it holds the locks of its disks.
            wait_for(f"end of {self.name}", lambda: _has_ended(pid), 60)
        self._start_plan().pid_file.unlink(missing_ok=True)

    def start(self, clock: str = "utc", kernel_options: tuple[str, ...] = ()) -> None:
        """Switch it on, with a clock that is wrong if asked for, and wait for SSH."""
        if self._switch_on(clock, kernel_options):
            self.wait()

    def reboot(self, grace: int = 300) -> None:
        """Shut it down in order and switch it on again."""
        self.shut_down(grace)
        self.start()

    def shut_down(self, grace: int = 300) -> None:
        """Switch it off in order; if that takes longer than grace seconds, something hangs: an error."""
        if not self.is_running():
            return
        self.run(["systemctl", "poweroff", "--no-block"], check=False)
        wait_for(f"{self.name} is off", lambda: self._pid() is None, grace)
        self.stop()

    def snapshot(self, name: str) -> None:
        """Keep its disks as they are under a name; it must be off. One that fails leaves the one before."""
        self._must_be_off()
        kept = self._snapshot(name)
        new = kept.with_name(f".{name}")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for file in self._disk_files():
            run(["cp", "--sparse=always", "--reflink=auto", file, new / file.name], timeout=300)
        shutil.rmtree(kept, ignore_errors=True)
        new.rename(kept)

    def restore(self, name: str) -> None:
        """Put its disks back to what they were; it must be off."""
        self._must_be_off()
        kept = self._snapshot(name)
        if not kept.is_dir():
            found = sorted(path.name for path in kept.parent.glob("[!.]*"))
            raise TestbedError(f"{self.name} has no snapshot {name} (it has: {', '.join(found) or 'none'})")
        for file in self._disk_files():
            run(["cp", "--sparse=always", "--reflink=auto", kept / file.name, file], timeout=300)

    def remove(self) -> None:
        """Remove it with its disks."""
        self.stop()
        run(["ip", "link", "delete", self._start_plan().tap], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.forget()

    def prepare(self) -> None:
        """Install QEMU and make the disk of its platform."""
        network.check_tap()
        packages.VIRTUAL[self.hardware.arch].ensure()
        disk.ensure_base(self._recipe)

    @property
    def directory(self) -> Path:
        """Its disks and the log of its console."""
        return self.site.directory / "vms" / self.name

    @property
    def console(self) -> str:
        """What its kernel and systemd said since the last start."""
        log = self._start_plan().console
        if not log.is_file():
            raise TestbedError(f"{self.name} was never started: it has said nothing")
        return log.read_text(encoding="utf-8", errors="replace")

    @property
    def _recipe(self) -> Recipe:
        return recipes.vm(self.platform, self.hardware.arch)

    def _switch_on(self, clock: str = "utc", kernel_options: tuple[str, ...] = ()) -> bool:
        if self.is_running():
            return False
        self._ensure_disks()
        planned = replace(self._start_plan(), clock=clock, kernel_options=kernel_options)
        if not planned.kernel.is_file():
            raise TestbedError(
                f"{planned.kernel.parent}, which {self.name} was made from, is gone: remove the machine"
            )
        files.write(self.directory / "seed.tar", tar_bytes(self._identity()), 0o600)
        network.ensure_tap(planned.tap, self.network or self.site.network)
        run(planned.argv(), finishes=True)
        return True

    def _ensure_disks(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.directory / "root.qcow2").is_file():
            made_from = disk.base(self._recipe)
            self._base_link.unlink(missing_ok=True)
            self._base_link.symlink_to(made_from.directory)
            disk.overlay(made_from.root, self.directory / "root.qcow2")
        for name, size in self.hardware.disks.items():
            if not (self.directory / f"{name}.qcow2").is_file():
                disk.empty(self.directory / f"{name}.qcow2", size)

    def _snapshot(self, name: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise TestbedError(f"{name!r} can't name a snapshot: use letters, digits, '.', '_' and '-'")
        return self.directory / "snapshots" / name

    def _disk_files(self) -> list[Path]:
        return [self.directory / f"{name}.qcow2" for name in ("root", *self.hardware.disks)]

    def _must_be_off(self) -> None:
        if self.is_running():
            raise TestbedError(f"{self.name} is on: shut it down before its disks are copied")

    def _start_plan(self) -> Start:
        base = (
            disk.Base(self._base_link.readlink()) if self._base_link.is_symlink() else disk.base(self._recipe)
        )
        return Start(
            name=self.site.container(f"node-{self.name}"),
            hardware=self.hardware,
            kernel=base.kernel,
            initrd=base.initrd,
            directory=self.directory,
            tap=network.tap_name(self.ip),
            mac=self.site.plan.mac(self.ip),
            machine_id=self._machine_id(),
            hostname=self.name,
        )

    @property
    def _base_link(self) -> Path:
        """What its disk was made from: its kernel stays the same when the recipe changes."""
        return self.directory / "base"

    def _identity(self) -> dict[str, Entry]:
        plan = self.site.plan
        addresses = {
            "mac": plan.mac(self.ip),
            "ip": self.ip,
            "prefix": plan.subnet.prefixlen,
            "gateway": plan.gateway,
        }
        routes = "".join(ROUTE.format(*way) for way in self._routes())
        return {
            **super()._identity(),
            "etc/hosts": Entry(HOSTS.format(ip=self.ip, name=self.name).encode()),
            "etc/resolv.conf": Entry(Path("/etc/resolv.conf").read_bytes()),
            "etc/systemd/network/testbed.network": Entry((NETWORK.format(**addresses) + routes).encode()),
        }

    def _pid(self) -> int | None:
        """Its process; None where the id belongs to another program by now."""
        plan = self._start_plan()
        try:
            pid = int(plan.pid_file.read_text(encoding="utf-8"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if plan.name.encode() in words else None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except TookTooLong as error:
            last = "\n".join(self.console.splitlines()[-LAST_LINES:])
            free = shutil.disk_usage(self.directory).free / 2**30
            raise TestbedError(
                f"{error} ({free:.1f} GiB free for its disks); its console:\n{last}"
            ) from error


def _has_ended(pid: int) -> bool:
    """Whether a process and all of its threads are gone, or wait for nothing but their parent."""
    try:
        threads = len(os.listdir(f"/proc/{pid}/task"))
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return threads <= 1 and state == "Z"
