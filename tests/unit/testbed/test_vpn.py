# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's VPN: what its server, its router and its clients read."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.openvpn import (
    profile_problems,
    read_profile,
)
from testbed.images import debs, recipes
from testbed.layout.pki import Authority
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.machine.container import ContainerMachine
from testbed.vpn import server
from testbed.vpn.gateway import Gateway
from testbed.vpn.profile import azure_profile
from testbed.vpn.provisioned import Follower
from testbed.vpn.settings import Settings, der, pem, thumbprint

SITE = IPv4Network("10.213.8.0/24")


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    site = Site("unit", tmp_path, Plan(IPv4Network("10.213.7.0/24")), "tb-unit-0")
    site.remember("edge_subnet", str(SITE))
    made = Gateway(site)
    made.servers.ensure()
    return made


def test_a_profile_is_one_that_the_collection_accepts(gateway: Gateway) -> None:
    first, second = gateway.profile("edge-1"), gateway.profile("edge-1")
    assert profile_problems(first) == []
    assert read_profile(first).remotes[0].host == gateway.address == "10.213.7.10"
    assert gateway.thumbprint_in(first) != gateway.thumbprint_in(second), "each has a certificate of its own"
    assert read_profile(gateway.profile("edge-1", host="10.213.7.99")).remotes[0].host == "10.213.7.99"
    generated = azure_profile("gateway.example", 443, server.NAME, gateway.servers.pem, "key")
    assert any("$CLIENTCERTIFICATE" in problem for problem in profile_problems(generated))


def test_settings_of_the_emulated_azure(gateway: Gateway, tmp_path: Path) -> None:
    document = {
        "rootCertificates": [gateway.root_certificate],
        "revokedThumbprints": ["ab12"],
        "addressPool": "172.30.0.0/24",
        "server": gateway.server,
    }
    settings = Settings.of(document)
    assert settings.authorities.strip() == pem(der(gateway.clients.pem)).strip()
    assert settings.revoked_thumbprints == ("AB12",)
    conf = server.server_conf(settings, ("10.213.7.2",))
    assert "server 172.30.0.0 255.255.255.0\n" in conf
    assert 'push "route 10.213.7.2 255.255.255.255"\n' in conf
    assert Settings.of({}) == Settings()
    other = Authority(tmp_path, "other", "other")
    other.ensure()
    assert thumbprint(other.pem) != thumbprint(gateway.clients.pem)


def test_a_revoked_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "revoked").write_text("AB12CD\n")
    script = tmp_path / "verify"
    script.write_text(server.VERIFY.replace(server.INSIDE, str(tmp_path)))

    def status(depth: str, digest: str) -> int:
        environment = {"PATH": "/usr/bin:/bin", "tls_digest_0": digest}
        return subprocess.run(["/bin/sh", script, depth, "CN=x"], env=environment, check=False).returncode

    assert status("0", "ab:12:cd") != 0
    assert status("0", "ab:12:ce") == 0
    assert status("1", "ab:12:cd") == 0, "only the client's own certificate counts"


def test_the_router_hides_the_cluster(gateway: Gateway) -> None:
    script = server.router_script(SITE, IPv4Network("10.213.7.0/24"), ("10.213.7.10",))
    assert "policy drop" in script
    assert f"ip saddr {SITE} ip daddr {{ 10.213.7.10 }} accept" in script
    assert "masquerade" in script
    assert gateway.router == "10.213.8.2"


def test_a_machine_of_the_site_has_one_way_out(gateway: Gateway, tmp_path: Path) -> None:
    machine = ContainerMachine(
        name="far",
        ip=gateway.edge.node(20),
        platform="debian12",
        pod_cidr="10.244.20.0/24",
        ssh_key=tmp_path / "id",
        known_hosts=tmp_path / "known",
        network=gateway.edge_network,
        router=gateway.router,
        site=Site("unit", tmp_path, Plan(IPv4Network("10.213.7.0/24")), "tb-unit-0"),
    )
    container = machine._specification()
    assert (container.network, container.ip) == ("tb-unit-0-edge", "10.213.8.20")
    assert machine._identity()["etc/testbed/routes"].content == b"route replace default via 10.213.8.2\n"


def test_packages_for_the_client_do_not_change_those_for_others() -> None:
    assert debs.recipe("debian12").name == "debs-debian12"
    client = debs.recipe("debian12", ("openvpn",))
    assert "install openvpn" in client.hooks[1]
    assert client.digest() != debs.recipe("debian12").digest()
    assert "openvpn" in recipes.VPN.packages


class FakeServer:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.done: list[object] = []

    def apply(self, settings: Settings) -> None:
        self.done.append(settings.revoked_thumbprints)

    def stop(self) -> None:
        self.done.append("stop")


def test_a_server_follows_the_gateway_of_azure() -> None:
    server_, document = FakeServer(), {"gateway": "", "provisioningState": ""}
    azure: Any = type("", (), {"vpn": lambda _self: document})()
    follower = Follower(server_, azure)  # type: ignore[arg-type]
    for change, expected in (
        ({}, []),
        ({"gateway": "/g", "provisioningState": "Updating", "rootCertificates": ["AA"]}, []),
        ({"provisioningState": "Succeeded"}, [()]),
        ({}, [()]),
        ({"revokedThumbprints": ["ab"], "provisioningState": "Updating"}, [()]),
        ({"provisioningState": "Succeeded"}, [(), ("AB",)]),
        ({"gateway": ""}, [(), ("AB",), "stop"]),
    ):
        document.update(change)  # type: ignore[arg-type]
        follower.look()
        assert server_.done == expected
