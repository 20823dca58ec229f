# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of the probes: plain values that the checks read, and that tests can write by hand."""

from __future__ import annotations

from collections.abc import Mapping

from ..config.model import NodeConfig
from ..config.types.addresses import Address, Network
from ..dataclass import dataclass
from ..identity.choice import Purpose
from ..node_object.rights import Act
from .azure_roles import Grant


@dataclass(frozen=True)
class Disk:
    """The file system of a directory of the node."""

    path: str
    device: int
    total: int  # bytes
    free: int
    inodes: int
    inodes_free: int
    read_only: bool = False
    noexec: bool = False


@dataclass(frozen=True)
class Listener:
    """A TCP port with a listening process."""

    port: int
    address: str
    inode: str = ""  # of the socket; identifies its process
    owner: str = ""  # name of the process, if it was found
    pid: int = 0


@dataclass(frozen=True)
class Swap:
    """A swap area, in bytes."""

    name: str
    used: int


@dataclass(frozen=True)
class Link:
    """A network to which this machine is attached."""

    interface: str
    network: Network


@dataclass(frozen=True)
class Machine:
    """The machine, as read from its files."""

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
    foreign: tuple[str, ...]  # unit files of runtimes of other owners
    ours: frozenset[str]  # names of units that this collection installed
    processes: frozenset[str]  # names of running container software
    joined: bool  # the kubelet that this collection installed has its credential
    identity_left: str  # a certificate of a kubelet of another owner
    cni_files: tuple[str, ...]
    nameservers: tuple[Address, ...]
    links: tuple[Link, ...]
    mtus: Mapping[str, int]  # of the interfaces with a default route
    tools: frozenset[str]  # installed tools
    modules_missing: tuple[str, ...]  # not available in the running kernel
    modules_to_load: tuple[str, ...]
    environment: Mapping[str, str]  # proxy settings of the system
    refused_token: str  # digest of a bootstrap token that was refused before
    state_error: str  # why the state of this collection could not be read
    state_fix: str = ""  # what to do about it
    tun_device: bool = True  # whether the kernel offers /dev/net/tun
    package_sources: bool = True  # whether apt knows where packages come from
    disks: tuple[Disk, ...] | None = None  # None: a file system did not answer in time


@dataclass(frozen=True)
class ApiAnswer:
    """One connection to the API server; `failed` names the first step that failed."""

    failed: str = ""  # "" | dns | tcp | tls | http
    reason: str = ""
    advice: str = ""
    addresses: tuple[str, ...] = ()
    status: int = 0
    version: str = ""
    is_kubernetes: bool = False
    skew: float | None = None  # seconds by which this machine's clock is ahead


@dataclass(frozen=True)
class Source:
    """One URL that is downloaded from, and its answer."""

    names: tuple[str, ...]
    url: str
    failure: str = ""  # empty: it answered
    advice: str = ""
    tls: bool = False
    missing: bool = False  # the server answered that it has no such file
    skew: float | None = None


@dataclass(frozen=True)
class Access:
    """One Azure identity of the machine; `failure` is set if it got no token."""

    failure: str = ""
    advice: str = ""
    principal_id: str = ""
    granted: tuple[Grant, ...] | None = None  # None: its permissions could not be read
    why_unread: str = ""
    method: str = ""
    lacks: tuple[Act, ...] | None = None  # in the cluster; None: not queried, or no answer
    why_unasked: str = ""
    not_accepted: str = ""  # the answer of an API server that does not accept the identity


@dataclass(frozen=True)
class Reached:
    """The results of the network probes; None: not probed."""

    api: ApiAnswer | None = None
    sources: tuple[Source, ...] = ()
    registries: tuple[Source, ...] = ()
    proxies: tuple[Source, ...] = ()
    access: Mapping[Purpose, Access] | None = None  # of the identity for each purpose
    api_waits_for: str = ""  # what must be done first; empty: nothing
    access_waits_for: str = ""


@dataclass(frozen=True)
class Situation:
    """Everything that a check may read."""

    machine: Machine
    config: NodeConfig
    reached: Reached = Reached()
    now: float = 0
    token_expires: float | None = None  # known only if the caller passes it
    secrets_missing: tuple[str, ...] = ()  # fields with a placeholder, and no stored secret

    @property
    def node_name(self) -> str:
        """The Node's name: as configured, else the host name."""
        return self.config.node_name or self.machine.hostname.lower()

    @property
    def cluster_id(self) -> str:
        """The cluster's id, in lower case: it is compared. Empty in a document without it."""
        return str(self.config.azure.target_cluster.resource_id or "").lower()
