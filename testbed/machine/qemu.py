# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of QEMU: software emulation, slow but true; no hardware of this machine is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.basics.errors import TestbedError


@dataclass(frozen=True)
class Hardware:
    """What a virtual machine has; disks are those beside the root: name -> size.

    One emulated core is faster than two: what one of them changes, the other one has to learn.
    """

    arch: str
    memory_mib: int = 2048
    cores: int = 1
    disks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Architecture:
    """How QEMU emulates one."""

    program: str
    package: str
    machine: tuple[str, ...]
    console: str
    kernel_options: tuple[str, ...] = ()


# Programs and kernels choose their code by what the CPU has. An emulator runs vector instructions one element
# at a time: without them OpenSSL hashes eight times faster. With erms memory is copied and cleared byte by
# byte: without it a new page is ready eight times faster. With la57 each look-up of an address takes one step
# more; with smap the kernel looks up the memory of programs in a cache of its own.
VECTORS = (
    *("ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "bmi1", "bmi2"),
    *("aes", "vaes", "pclmulqdq"),
)
SLOW = (*VECTORS, "erms", "la57", "smap")
AMD64_CPU = ",".join(("max", *(f"-{feature}" for feature in SLOW)))
# A kernel trusts no clock of an emulated CPU by itself, and asks an emulated chip instead: four times slower,
# and Go programs ask all the time.
AMD64_CLOCK = "tsc=reliable"
# Code is translated again for each address that it is loaded at: with the same one each time, small programs
# start up to seven times faster.
SAME_ADDRESSES = "norandmaps"
ARCHITECTURES = {
    "amd64": Architecture(
        "qemu-system-x86_64",
        "qemu-system-x86",
        ("-machine", "q35", "-cpu", AMD64_CPU),
        "ttyS0",
        (AMD64_CLOCK,),
    ),
    "arm64": Architecture(
        # As in a Raspberry Pi 4; newer ones sign pointers, which costs an emulator most of its time.
        "qemu-system-aarch64",
        "qemu-system-arm",
        ("-machine", "virt", "-cpu", "cortex-a72"),
        "ttyAMA0",
    ),
}


def architecture(name: str) -> Architecture:
    """How QEMU emulates it."""
    if name not in ARCHITECTURES:
        raise TestbedError(f"architecture {name!r} is unknown: choose one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


@dataclass(frozen=True)
class Start:
    """Everything that one start of a machine needs."""

    name: str
    hardware: Hardware
    kernel: Path
    initrd: Path
    directory: Path
    """Its disks, its console's log and the id of its process."""
    tap: str
    mac: str
    machine_id: str
    hostname: str
    clock: str = "utc"
    """What its clock shows at the start: utc, or a date such as 2020-01-01T00:00:00."""
    kernel_options: tuple[str, ...] = ()

    @property
    def pid_file(self) -> Path:
        """The process that is the machine."""
        return self.directory / "pid"

    @property
    def console(self) -> Path:
        """What its kernel and systemd say."""
        return self.directory / "console.log"

    def argv(self) -> list[str]:
        """The command line; QEMU returns when the machine is on."""
        arch = architecture(self.hardware.arch)
        return [
            arch.program,
            "-name",
            self.name,
            "-nodefaults",
            "-no-user-config",
            *("-display", "none"),
            *arch.machine,
            *("-accel", "tcg,thread=multi"),
            *("-smp", str(self.hardware.cores)),
            *("-m", str(self.hardware.memory_mib)),
            *("-rtc", f"base={self.clock}"),
            *("-kernel", str(self.kernel)),
            *("-initrd", str(self.initrd)),
            *("-append", " ".join(self._kernel_command_line(arch))),
            *self._disk("root", self.directory / "root.qcow2", "qcow2"),
            *self._disk("seed", self.directory / "seed.tar", "raw,readonly=on"),
            *(
                word
                for disk in self.hardware.disks
                for word in self._disk(disk, self.directory / f"{disk}.qcow2", "qcow2")
            ),
            *("-netdev", f"tap,id=network,ifname={self.tap},script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=network,mac={self.mac},romfile="),
            *("-object", "rng-random,id=random,filename=/dev/urandom"),
            *("-device", "virtio-rng-pci,rng=random"),
            *("-serial", f"file:{self.console}"),
            *("-pidfile", str(self.pid_file)),
            "-daemonize",
        ]

    def _kernel_command_line(self, arch: Architecture) -> list[str]:
        identity = [f"systemd.machine_id={self.machine_id}", f"systemd.hostname={self.hostname}"]
        boot = ["root=/dev/disk/by-label/root", "rw", f"console={arch.console}", "quiet", "net.ifnames=0"]
        return [*boot, SAME_ADDRESSES, *arch.kernel_options, *identity, *self.kernel_options]

    def _disk(self, name: str, file: Path, form: str) -> list[str]:
        # writeback: what the guest synced is safe; what only its memory had dies with the process. report: if
        # the disk here is full, it gets errors that its console shows, and does not stand still.
        drive = f"file={file},if=none,id={name},cache=writeback,werror=report,format={form}"
        return ["-drive", drive, "-device", f"virtio-blk-pci,drive={name},serial={name}"]
