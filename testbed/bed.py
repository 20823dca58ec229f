# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed as a whole."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testbed import document, preparation
from testbed.artifacts import store
from testbed.azure import Azure
from testbed.basics import files, paths, podman
from testbed.basics.errors import TestbedError
from testbed.basics.progress import step
from testbed.cluster import Cluster, addons
from testbed.cluster.credentials import Credentials
from testbed.host import cgroups, disk, kernel, leftovers, packages
from testbed.images import addons as addon_images
from testbed.images import recipes
from testbed.layout import network, plan, site, ssh, versions
from testbed.layout.site import Site
from testbed.machine import Machine
from testbed.machine.container import ContainerMachine
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from testbed.mirror import Mirror
from testbed.services.blob import Blob
from testbed.services.registry import Registry
from testbed.services.service import Service
from testbed.vpn.gateway import Gateway

DEFAULT_NAME = "flexnode"
DEFAULT_PLATFORM = "debian12"
BED_NAME = re.compile(r"[a-z0-9]{1,20}")
NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
MOUNTS, SETTINGS = "cgroup-mounts.json", "kernel-settings.json"
SERVICES = ("etcd", *versions.CONTROL_PLANE, "mirror", "registry", "azurite", "azure")


class Testbed:
    """A cluster, its machines, a mirror, a registry and an Azure; several can run beside each other."""

    __test__ = False  # the name starts with "Test": keep pytest from collecting it

    def __init__(self, name: str | None = None) -> None:
        self.name = name or os.environ.get("TESTBED_NAME") or DEFAULT_NAME
        if not BED_NAME.fullmatch(self.name):
            raise TestbedError(f"testbed name {self.name!r} is not 1 to 20 small letters and digits")
        self._azure: tuple[Site, Azure] | None = None

    @property
    def site(self) -> Site:
        """Its place on this machine; an error if it is not up."""
        return site.require(self.name)

    @property
    def cluster(self) -> Cluster:
        """The control plane."""
        return Cluster(self.site)

    @property
    def mirror(self) -> Mirror:
        """The artifact mirror."""
        return Mirror(self.site)

    @property
    def registry(self) -> Registry:
        """The container registry."""
        return Registry(self.site)

    @property
    def azure(self) -> Azure:
        """The emulated Azure: Entra ID and Resource Manager; its connection stays open."""
        here = self.site
        if self._azure is None or self._azure[0] != here:
            self._azure = (here, Azure(here))
        return self._azure[1]

    @property
    def blob(self) -> Blob:
        """Blob storage."""
        return Blob(self.site)

    @property
    def ca_file(self) -> Path:
        """The CA of mirror, registry and Azure."""
        return self.site.authority.pair.cert

    @property
    def ca_pem(self) -> str:
        """The CA of mirror, registry and Azure."""
        return self.site.authority.pem

    def up(
        self,
        signing_duration: str | None = None,
        kubernetes: str | None = None,
        *,
        nodes: bool = True,
        platforms: Iterable[str] = (),
    ) -> None:
        """Start everything that does not run, also what has stopped.

        kubernetes: the version of the control plane, for a testbed that is not up yet.
        Without nodes: only the control plane and Azure, not what machines need to become nodes.
        platforms: of machines that will follow; their images are made beside everything else.
        """
        if os.geteuid() != 0:
            raise TestbedError("the testbed runs machines and networks: run it as root")
        disk.warn()
        packages.TESTBED.ensure()
        here = site.create(self.name, network.subnets(), kubernetes)
        if signing_duration:
            here.remember("signing_duration", signing_duration)
        architectures = here.architectures if nodes else ()
        preparation.make(preparation.parts(here.kubernetes, architectures, platforms))
        for arch in architectures:
            addon_images.ensure(here.kubernetes, arch)
        with self._lock():
            podman.wait_for_stragglers()
            self._prepare_machine(here)
            here.authority.ensure()
            services = self._services(nodes)
            runs = {one.name: podman.is_running(podman.inspect(here.container(one.name))) for one in services}
            missing = ", ".join(name for name, running in runs.items() if not running)
            with step(f"testbed {self.name}: start {missing}") if missing else nullcontext():
                self._start(here, services, nodes)
            self._revive()

    def rotate_cluster_ca(self) -> None:
        """Replace the cluster's CA, at once: nothing that the old one signed is valid any more."""
        Credentials(self.site).forget()
        self.up()

    def down(self) -> None:
        """Remove everything that this testbed created; the cache of binaries and images stays."""
        directory = paths.state(self.name)
        here = site.load(self.name)
        if here is None and not directory.is_dir() and not podman.names(self.name):
            return
        with step(f"testbed {self.name}: remove"), self._lock(), ThreadPoolExecutor(max_workers=4) as pool:
            podman.wait_for_stragglers()
            if here:
                list(pool.map(lambda machine: machine.remove(), self.nodes()))
            list(pool.map(podman.remove, podman.names(self.name)))
            leftovers.end(f"{site.PREFIX}-{self.name}-")
            network.remove(self.name)
            with files.lock(directory.parent / "sites.lock"):
                shutil.rmtree(directory, ignore_errors=True)
                if not site.others(self.name):
                    cgroups.restore(self._shared(MOUNTS))
                    kernel.restore(self._shared(SETTINGS))

    def azure_runs(self) -> bool:
        """Whether the emulated Azure and what it works on are running."""
        if site.load(self.name) is None:
            return False
        needed = ("etcd", *versions.CONTROL_PLANE, "azurite", "azure")
        return all(podman.is_running(podman.inspect(self.site.container(name))) for name in needed)

    def status(self) -> dict[str, str]:
        """Every part, and whether it runs."""
        parts = {name: self.site.container(name) for name in SERVICES}
        running = {part: podman.is_running(podman.inspect(container)) for part, container in parts.items()}
        running.update({f"node {machine.name}": machine.is_running() for machine in self.nodes()})
        return {part: "running" if runs else "not running" for part, runs in running.items()}

    @property
    def gateway(self) -> Gateway:
        """The VPN gateway to the cluster's network, and the site behind it; `gateway.up()` starts them."""
        return Gateway(self.site)

    def node(
        self, name: str, platform: str = DEFAULT_PLATFORM, *, edge: bool = False, vm: Hardware | None = None
    ) -> Machine:
        """The machine of that name; created if it does not exist, started if it is off.

        edge: at a site behind NAT, from which the cluster is reached through its VPN gateway only.
        vm: a virtual machine with this hardware, and a kernel of its own; None: a container.
        """
        if not NODE_NAME.fullmatch(name):
            raise TestbedError(f"node name {name!r} is not a host name of at most 40 characters")
        with files.lock(self.site.directory / "nodes.lock"):
            machine = (found := self._find(name)) or self._plan_node(name, platform, edge, vm)
            self._write_known_hosts()
        wanted = (platform, vm or None)
        if wanted != (machine.platform, machine.hardware if isinstance(machine, VirtualMachine) else None):
            raise TestbedError(f"node {name} exists as {machine.kind}: remove it first")
        try:
            machine.prepare()
        except TestbedError:
            if not found:  # else each later `up` would try again to start what can't be
                machine.forget()
            raise
        if vm:
            self.serve(vm.arch)
        podman.wait_for_stragglers()
        if not machine.is_running():
            with step(f"node {name} ({machine.kind}, {machine.ip})"):
                machine.ensure()
        return machine

    def nodes(self) -> list[Machine]:
        """All machines, running or not."""
        records = sorted((self.site.directory / "nodes").glob("*.json"))
        return [machine for record in records if (machine := self._find(record.stem))]

    def inventory(self) -> dict[str, Any]:
        """An Ansible inventory of all machines."""
        return document.inventory(
            self.nodes(),
            flexnode_kubeconfig=str(self.cluster.kubeconfig),
            flexnode_proof_image=self.registry.workload_image,
        )

    def node_document(self) -> dict[str, Any]:
        """The part of a node configuration that a user would write for this cluster, without a token."""
        return document.node_document(self.cluster, self.mirror, self.registry, self.ca_pem)

    def publish(self, name: str, data: bytes) -> str:
        """Serve a small file over the mirror's TLS server; return its URL."""
        return self.mirror.publish(name, data)

    def unpublish(self, name: str) -> None:
        """Serve it no more."""
        self.mirror.unpublish(name)

    def artifact(self, name: str, version: str, arch: str | None = None) -> str:
        """Put one more artifact on the mirror; return its URL."""
        store.ensure([(name, version)], arch)
        self.mirror.refresh()
        return self.mirror.artifact_url(name, version, arch)

    def offer(self, software: str, version: str) -> dict[str, dict[str, dict[str, str]]]:
        """Put a version of kubernetes, containerd, runc, cni or npd on the mirror, for all its machines.

        Returns its digests, in the shape of `mirror.catalogue` of a node configuration.
        """
        wanted = [(name, version) for name in versions.SOFTWARE[software]]
        items = [item for arch in self.site.architectures for item in store.ensure(wanted, arch)]
        self.mirror.refresh()
        return store.catalogue(items)

    def serve(self, arch: str) -> None:
        """Serve binaries and images for machines of one more architecture, from now on.

        Nothing of it is made before it is asked for: the first time takes minutes.
        """
        here = self.site
        if arch in here.architectures:
            return
        store.ensure(versions.node_set(here.kubernetes), arch)
        addon_images.ensure(here.kubernetes, arch)
        with self._lock():
            architectures = tuple(dict.fromkeys((*here.architectures, arch)))
            self.mirror.refresh()
            self.registry.fill(architectures)
            here.remember("architectures", " ".join(architectures))

    def _lock(self) -> AbstractContextManager[None]:
        path = paths.state(self.name).parent / f"{self.name}.lock"
        return files.lock(path, waiting_for=f"another run on testbed {self.name}")

    def _services(self, nodes: bool) -> tuple[Service, ...]:
        for_nodes = (self.mirror.service(), self.registry.service()) if nodes else ()
        control_plane = self.cluster.services()  # its keys are what Azure's resource provider works with
        # Azure and Azurite take longest to load, and the API server asks for Entra's keys when it starts.
        return (self.azure.service(), self.blob.service(), *control_plane, *for_nodes)

    def _prepare_machine(self, here: Site) -> None:
        cgroups.complete(self._shared(MOUNTS))
        kernel.settle(self._shared(SETTINGS))
        network.ensure(here)

    def _start(self, here: Site, services: Iterable[Service], nodes: bool) -> None:
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda service: service.ensure(here), services))
        with ThreadPoolExecutor(max_workers=len(SERVICES)) as pool:
            listening = {service.name: pool.submit(service.wait, here) for service in services}
            settled = pool.submit(self.cluster.settle)
            if nodes:
                listening["registry"].result()
                self.registry.fill(here.architectures)
                settled.result()
                addons.apply(self.cluster.api(), self.cluster.server, self.registry)
            listening["azure"].result()
            settled.result()
            self.azure.settle()
            for part in listening.values():
                part.result()

    def _revive(self) -> None:
        for machine in self.nodes():
            if not machine.is_running():
                machine.prepare()
                with step(f"node {machine.name}: start"):
                    machine.ensure()

    def _shared(self, name: str) -> Path:  # by all testbeds of this machine
        return paths.state(self.name).parent / name

    def _record(self, name: str) -> Path:
        return self.site.directory / "nodes" / f"{name}.json"

    def _find(self, name: str) -> Machine | None:
        try:
            record = json.loads(self._record(name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return self._machine(name, **record)

    def _machine(
        self, name: str, index: int, platform: str, edge: bool = False, vm: dict[str, Any] | None = None
    ) -> Machine:
        here, gateway = self.site, self.gateway
        common: dict[str, Any] = {
            "name": name,
            "ip": gateway.edge.node(index) if edge else here.plan.node(index),
            "network": gateway.edge_network if edge else "",
            "router": gateway.router if edge else "",
            "platform": platform,
            "pod_cidr": here.plan.pod_cidr(index),
            "ssh_key": here.directory / "ssh" / "id_ed25519",
            "known_hosts": here.directory / "ssh" / "known_hosts",
            "site": here,
        }
        return VirtualMachine(**common, hardware=Hardware(**vm)) if vm else ContainerMachine(**common)

    def _plan_node(self, name: str, platform: str, edge: bool, vm: Hardware | None) -> Machine:
        if edge and vm:
            raise TestbedError(f"node {name}: a site behind NAT has no virtual machines yet")
        records = self._record("*").parent.glob("*.json")
        taken = [json.loads(path.read_text(encoding="utf-8"))["index"] for path in records]
        index = plan.free_index(taken)
        record: dict[str, Any] = {"index": index, "platform": platform}
        record |= {"edge": True} if edge else {}
        record |= {"vm": asdict(vm)} if vm else {}
        recipes.node(platform)  # an unknown platform leaves no record
        files.write(self._record(name), json.dumps(record) + "\n")
        return self._machine(name, **record)

    def _write_known_hosts(self) -> None:
        lines = [ssh.known_host(machine.name, machine.ip, machine.host_key()) for machine in self.nodes()]
        files.write(self.site.directory / "ssh" / "known_hosts", "\n".join(lines) + "\n")
