# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the probes saw: plain values that the checks judge, and that a test writes down by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..config.model import NodeConfig
from ..config.types.addresses import Address, Network
from ..identity.choice import Purpose
from ..node_object.rights import Act
from .azure_roles import Grant


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system that a directory of the node lies, or will lie, on."""

    path: str
    device: int
    total: int  # bytes
    free: int
    inodes: int
    inodes_free: int
    read_only: bool = False
    noexec: bool = False


@dataclass(frozen=True, slots=True)
class Listener:
    """A TCP port that someone listens on."""

    port: int
    address: str
    inode: str = ""  # of the socket, by which its process is found
    owner: str = ""  # name of the process, where it could be found
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Swap:
    """An area of swap, in bytes."""

    name: str
    used: int


@dataclass(frozen=True, slots=True)
class Link:
    """A network that this machine is part of."""

    interface: str
    network: Network


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine, as far as it can be seen by looking at files."""

    machine: str  # uname -m
    os_id: str
    os_version: str
    hostname: str
    root: bool
    systemd: bool
    cgroup_v2: bool
    controllers: frozenset[str]
    cpus: int
    memory: int  # bytes
    memory_available: int
    swaps: tuple[Swap, ...]
    listeners: tuple[Listener, ...]
    foreign: tuple[str, ...]  # unit files of other owners' runtimes
    ours: frozenset[str]  # names of units that we placed
    processes: frozenset[str]  # names of container software that runs
    joined: bool  # the kubelet that we placed has a certificate of its own, or lives on tokens
    identity_left: str  # a kubelet's certificate that is not ours
    cni_files: tuple[str, ...]
    nameservers: tuple[Address, ...]
    links: tuple[Link, ...]
    mtus: Mapping[str, int]  # of the interfaces with a default route
    tools: frozenset[str]  # programs that are there
    modules_missing: tuple[str, ...]  # the running kernel has no such module
    modules_to_load: tuple[str, ...]
    environment: Mapping[str, str]  # proxy settings of the machine itself
    refused_token: str  # id of a bootstrap token that was refused here
    state_trouble: str  # why our own records could not be read
    disks: tuple[Disk, ...] | None = None  # None: a file system did not answer in time


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """How far one connection to the API server got; `failed` names the first step that did not work."""

    failed: str = ""  # "" | dns | tcp | tls | http
    reason: str = ""
    advice: str = ""
    addresses: tuple[str, ...] = ()
    status: int = 0
    version: str = ""
    is_kubernetes: bool = False
    skew: float | None = None  # seconds by which this machine's clock is ahead


@dataclass(frozen=True, slots=True)
class Source:
    """One address that something is fetched from, and what it said."""

    names: tuple[str, ...]
    url: str
    failure: str = ""  # empty: it answers
    advice: str = ""
    tls: bool = False
    missing: bool = False  # the server answers, and has no such file
    skew: float | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """What one of the machine's Azure identities got; `failure` is set where it got no token."""

    failure: str = ""
    advice: str = ""
    principal_id: str = ""
    granted: tuple[Grant, ...] | None = None  # None: what it may do could not be read
    why_unread: str = ""
    method: str = ""
    lacks: tuple[Act, ...] | None = None  # in the cluster; None: that was not asked, or not answered
    why_unasked: str = ""
    stranger: str = ""  # what the API server said that does not accept the identity


@dataclass(frozen=True, slots=True)
class Reached:
    """What the network gave; None: not asked."""

    api: ApiAnswer | None = None
    sources: tuple[Source, ...] = ()
    registries: tuple[Source, ...] = ()
    proxies: tuple[Source, ...] = ()
    access: Mapping[Purpose, Access] | None = None  # of the identity that serves each
    api_waits_for: str = ""  # what has to come first; empty: nothing
    access_waits_for: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a check may look at."""

    machine: Machine
    config: NodeConfig
    reached: Reached = Reached()
    now: float = 0
    token_expires: float | None = None  # known only where whoever made the token says so
    secrets_missing: tuple[str, ...] = ()  # fields where a secret is marked, and none is stored

    @property
    def node_name(self) -> str:
        """The Node's name: as configured, else the host name."""
        return self.config.node_name or self.machine.hostname.lower()
