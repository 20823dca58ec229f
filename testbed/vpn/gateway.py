# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway of a private cluster, the site behind NAT, and profiles for its machines."""

from __future__ import annotations

import json
import time
from ipaddress import IPv4Network
from typing import Any

from testbed.basics import files, podman
from testbed.basics.clock import wait_for
from testbed.basics.podman import LABEL, Container
from testbed.basics.process import run
from testbed.images import recipes, rootfs
from testbed.layout import network, plan
from testbed.layout.pki import Authority, Pair
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.services.service import accepts
from testbed.vpn import server
from testbed.vpn.profile import azure_profile, filled, static_key
from testbed.vpn.settings import Settings, der, thumbprint

GATEWAY, ROUTER = "vpn-gateway", "vpn-router"
FIRST, ROUTER_INDEX = "edge_subnet", 2
READY_SECONDS, TRY_SECONDS = 30, 10
# Directives of an installed profile that are about its machine, and a log that nobody would see.
OF_MACHINE = ("up", "script-security", "management", "log", "verb", "pull-filter")
HANDSHAKE = "Initialization Sequence Completed"
# What machines of the site may reach directly, as if it stood in the internet.
PUBLIC = (GATEWAY, "mirror", "registry", "azure", "azurite")
API = "kube-apiserver"
OPENVPN = "/usr/sbin/openvpn"
# The wire between API server and gateway: its ends and their addresses.
TO_CLIENTS, TO_API, WIRE = "to-clients", "to-api", ("169.254.100.1", "169.254.100.2")


class Gateway:
    """A real OpenVPN server with one foot in the cluster's network, and a NAT router for the site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._directory = site.directory / "vpn"
        self.servers = Authority(self._directory / "pki", "server-ca", f"testbed {site.name} VPN gateway CA")
        self.clients = Authority(
            self._directory / "pki", "client-root", f"testbed {site.name} VPN client root"
        )

    # -- addresses -----------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Its public address."""
        return self._site.plan.service(GATEWAY)

    @property
    def edge(self) -> Plan:
        """Addresses of the site: a network of its own, chosen the first time."""
        known = self._site.setting(FIRST, "")
        if not known:
            name = f"{self._site.name}-edge"
            known = str(plan.free_subnet(name, [*network.subnets(), self._site.plan.subnet]))
            self._site.remember(FIRST, known)
        return Plan(IPv4Network(known))

    @property
    def edge_network(self) -> str:
        """The podman network of the site: no way out of it but the router."""
        return f"{self._site.network}-edge"

    @property
    def router(self) -> str:
        """The address of the site's router, as its machines see it."""
        return self.edge.node(ROUTER_INDEX)

    # -- what it hands to others ---------------------------------------------------------------------------

    @property
    def server(self) -> dict[str, Any]:
        """What the emulated Azure must know to generate profiles."""
        return {
            "host": self.address,
            "port": server.PORT,
            "caCertificate": self.servers.pem,
            "tlsAuthKey": self._tls_auth(),
            "name": server.NAME,
        }

    def profile(self, machine: str, *, authority: Authority | None = None, host: str = "") -> str:
        """A new profile for a machine, with a new certificate of the clients' root, or of another one."""
        pair = self._client(machine, authority or self.clients)
        where = (host or self.address, server.PORT, server.NAME)
        return filled(
            azure_profile(*where, self.servers.pem, self._tls_auth()), pair.pem, pair.key.read_text()
        )

    def stranger(self) -> Authority:
        """A root that the gateway does not know."""
        other = Authority(self._directory / "pki", "stranger", "a root of somebody else")
        other.ensure()
        return other

    @property
    def root_certificate(self) -> str:
        """The root of clients, as Azure takes it."""
        self.clients.ensure()
        return der(self.clients.pem)

    def thumbprint_in(self, profile: str) -> str:
        """By which the certificate of a profile is revoked."""
        block = profile.partition("<cert>")[2].partition("</cert>")[0]
        return thumbprint(block.strip() + "\n")

    # -- life ----------------------------------------------------------------------------------------------

    def up(self, settings: Settings | None = None) -> None:
        """Start or update everything; without settings, the clients' root of this testbed may connect."""
        rootfs.ensure(recipes.VPN)
        self._write(settings or Settings((self.root_certificate,)))
        self._ensure_network()
        self._ensure_router()
        podman.ensure(self._container(GATEWAY, (OPENVPN, "--config", f"{server.INSIDE}/server.conf")))
        with podman.explained(self._site.container(GATEWAY)):
            wait_for("the VPN gateway", self.answers, READY_SECONDS)
        self._ensure_way_back()

    def apply(self, settings: Settings) -> None:
        """Change who may connect. A revoked client is cut off; Azure does that, too."""
        self.stop()
        self.up(settings)

    def stop(self) -> None:
        """No server any more; the site and its router stay."""
        podman.remove(self._site.container(GATEWAY))

    def down(self) -> None:
        """Remove gateway, router and the site's network; its machines must be gone before."""
        for name in (GATEWAY, ROUTER):
            podman.remove(self._site.container(name))
        podman.podman("network", "rm", "--force", self.edge_network, check=False)

    def answers(self) -> bool:
        """Whether a server listens."""
        return accepts(self.address, server.PORT)

    def cut(self) -> None:
        """The gateway does not answer any more, and tells nobody."""
        podman.podman("pause", self._site.container(GATEWAY))

    def mend(self) -> None:
        """It answers again."""
        podman.podman("unpause", self._site.container(GATEWAY))

    def lets_in(self, profile: str) -> bool:
        """Whether a client with this profile gets through its handshake; tried from the site's router.

        A machine that is connected with the same certificate loses its connection to this client, and comes
        back after it.
        """
        lines = (line for line in profile.splitlines(keepends=True) if not line.startswith(OF_MACHINE))
        argv = ["timeout", str(TRY_SECONDS), OPENVPN, "--config", "/dev/stdin", "--dev", "tun-try"]
        argv += ["--route-nopull", "--connect-retry-max", "1", "--connect-timeout", "5"]
        done = podman.podman(
            "exec",
            "--interactive",
            self._site.container(ROUTER),
            *argv,
            input="".join(lines).encode(),
            check=False,
        )
        return HANDSHAKE in done.stdout

    # -- parts ---------------------------------------------------------------------------------------------

    def _tls_auth(self) -> str:
        path = self._directory / "pki" / "tls-auth.key"
        return files.once(path, static_key).decode()

    def _client(self, machine: str, authority: Authority) -> Pair:
        authority.ensure()
        return authority.issue(f"client-{machine}-{time.time_ns()}", machine)

    def _settings(self) -> Settings | None:
        path = self._directory / "settings.json"
        return Settings.of(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def _write(self, settings: Settings) -> None:
        """The files that the server reads; the list of revoked certificates is read at each handshake."""
        self.servers.ensure()
        pair = self.servers.issue("gateway", server.NAME, names=(server.NAME, self.address))
        inside = self._directory / "server"
        api = self._site.plan.service(API)
        files.write(inside / "server.conf", server.server_conf(settings, (api,)))
        files.write(inside / "client-roots.crt", settings.authorities)
        files.write(inside / "server.crt", pair.pem)
        files.write(inside / "server.key", pair.key.read_bytes(), 0o600)
        files.write(inside / "tls-auth.key", self._tls_auth(), 0o600)
        files.write(inside / "revoked", "".join(f"{one}\n" for one in settings.revoked_thumbprints))
        files.write(inside / "verify", server.VERIFY, 0o755)
        public = tuple(self._site.plan.service(name) for name in PUBLIC)
        script = server.router_script(self.edge.subnet, self._site.plan.subnet, public)
        files.write(inside / "router", script, 0o755)
        record = {
            "rootCertificates": settings.root_certificates,
            "revokedThumbprints": settings.revoked_thumbprints,
            "addressPool": str(settings.address_pool),
        }
        files.write(self._directory / "settings.json", json.dumps(record, indent=1) + "\n")

    def _container(self, name: str, argv: tuple[str, ...]) -> Container:
        address = self._site.plan.service(name)
        inside = self._directory / "server"
        return Container(
            name=self._site.container(name),
            image=recipes.VPN.image,
            argv=argv,
            network=self._site.network,
            ip=address,
            mac=self._site.plan.mac(address),
            owner=self._site.name,
            options=("--privileged", "--sysctl", "net.ipv4.ip_forward=1"),
            volumes=(f"{inside}:{server.INSIDE}:ro",),
            revision=(inside / "router").read_text()
            if name == ROUTER
            else (inside / "server.conf").read_text(),
        )

    def _ensure_network(self) -> None:
        if podman.podman("network", "exists", self.edge_network, check=False).returncode == 0:
            return
        edge = self.edge
        addresses = ["--subnet", str(edge.subnet), "--gateway", edge.gateway]
        labels = ["--label", f"{LABEL}={self._site.name}"]
        podman.podman(
            "network", "create", "--internal", "--disable-dns", *addresses, *labels, self.edge_network
        )

    def _ensure_router(self) -> None:
        """The router stands in both networks; podman gives a new container one of them only."""
        container = self._container(ROUTER, ("/bin/sh", f"{server.INSIDE}/router"))
        if podman.ensure(container):
            connected = (podman.inspect(container.name) or {})["NetworkSettings"]["Networks"]
            if self.edge_network not in connected:
                podman.podman("network", "connect", "--ip", self.router, self.edge_network, container.name)

    def _ensure_way_back(self) -> None:
        """The API server reaches clients (logs, exec) through the gateway, as machines of a VNet do.

        Over a wire of their own: on the testbed's bridge, podman's NAT hides the API server's address behind
        the host's as soon as a packet leaves the subnet, and a client does not know the way to the host.
        """
        pids = [self._pid(API), self._pid(GATEWAY)]
        if not all(pids):
            return
        api, gateway = pids
        settings = self._settings() or Settings()
        # A gateway that was started again took its end with it; the kernel removes the other one later.
        self._within(api, "link", "delete", TO_CLIENTS, check=False)
        ends = ["name", TO_CLIENTS, "netns", api, "type", "veth", "peer", "name", TO_API, "netns", gateway]
        run(["ip", "link", "add", *ends])
        for pid, device, address in ((api, TO_CLIENTS, WIRE[0]), (gateway, TO_API, WIRE[1])):
            self._within(pid, "address", "add", f"{address}/30", "dev", device)
            self._within(pid, "link", "set", device, "up")
        server_address = self._site.plan.service(API)
        pool, via = str(settings.address_pool), WIRE[1]
        self._within(api, "route", "replace", pool, "via", via, "dev", TO_CLIENTS, "src", server_address)
        self._within(gateway, "route", "replace", server_address, "via", WIRE[0], "dev", TO_API)

    def _pid(self, service: str) -> str:
        """In whose network namespace a service runs; empty: it does not."""
        found = podman.inspect(self._site.container(service))
        return str((found or {}).get("State", {}).get("Pid") or "")

    def _within(self, pid: str, *words: str, check: bool = True) -> None:
        run(["nsenter", "--target", pid, "--net", "ip", *words], check=check)
