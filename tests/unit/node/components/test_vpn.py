# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The VPN client of a machine: what is written, with which rights, and what its script does."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.every import BEFORE, resources_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.kubelet import defaults
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.vpn.client import (
    DNS_SCRIPT,
    PROFILE,
    UNIT,
    dns_script,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.proxy import direct
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.tunnel import with_tunnel
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED
from scripts.docs.machine import FACTS
from tests.unit.node.config.test_samples import at, joining
from tests.unit.node.fakes import Machine
from tests.unit.node.tunnels import SECRET_KEY, a_gateway, a_profile, with_vpn

VNET = {"network": {"vnetCIDRs": ["10.224.0.0/12", "fd00::/48"]}}


def configured(*changes: dict[str, Any]) -> NodeConfig:
    document = joining()
    for change in changes:
        document = merge(document, change)
    return parse(document)


def file(path: str, *changes: dict[str, Any]) -> File:
    (found,) = [item for item in resources_of(BEFORE, configured(*changes), FACTS) if item.name == path]
    assert isinstance(found, File)
    return found


def test_without_a_vpn_there_is_nothing() -> None:
    assert resources_of(BEFORE, configured(), FACTS) == []


def test_the_profile_is_secret_and_ours_comes_last() -> None:
    profile = file(PROFILE, with_vpn(), VNET)
    assert (profile.mode, profile.secret) == (0o600, True)
    lines = profile.content.splitlines()
    assert [line for line in lines if line.startswith("dev ")] == ["dev aksvpn0"]
    assert [line for line in lines if line.startswith("verb ")] == ["verb 2"]
    assert lines.index("</key>") < lines.index("dev aksvpn0")
    assert "route 10.224.0.0 255.240.0.0" in lines
    assert 'pull-filter ignore "redirect-gateway"' in lines
    assert 'pull-filter ignore "route 0.0.0.0"' in lines, "forced tunneling"
    assert not [line for line in lines if line.startswith("log")], "Azure's profiles name a file"
    assert SECRET_KEY in profile.content


def test_a_gateway_must_show_that_it_is_one() -> None:
    bare = a_profile().replace("remote-cert-tls server\n", "")
    bare = bare.replace("verify-x509-name 'gateway.example' name\n", "")
    assert "\nremote-cert-tls server\n" in file(PROFILE, with_vpn(bare)).content
    assert file(PROFILE, with_vpn()).content.count("remote-cert-tls") == 1


def test_in_check_mode_the_profile_may_not_exist_yet() -> None:
    assert "dev aksvpn0" in file(PROFILE, with_vpn(REDACTED)).content


def test_the_key_is_in_no_argument() -> None:
    (start,) = [line for line in UNIT.splitlines() if line.startswith("ExecStart=")]
    assert start == f"ExecStart=/usr/sbin/openvpn --suppress-timestamps --config {PROFILE}"
    assert "Type=notify" in UNIT
    assert "Restart=always" in UNIT


def test_the_address_of_the_node_is_that_of_the_tunnel(debian: Machine) -> None:
    gateway = a_gateway(debian)
    config = configured(with_vpn())
    stored = replace(FACTS, tunnel_address="192.168.100.7")
    assert with_tunnel(stored, debian.host, config).tunnel_address == "192.168.100.7", "it is down now"
    debian.commands.units["aks-flex-node-vpn.service"] = "active"
    gateway.address = "192.168.100.9"
    assert with_tunnel(stored, debian.host, config).tunnel_address == "192.168.100.9"
    assert with_tunnel(stored, debian.host, configured()).tunnel_address == "", "it has none any more"
    assert "--node-ip=192.168.100.7" in defaults(config, stored)
    assert "--node-ip" not in defaults(configured(), stored)
    named = configured(with_vpn(), at("node.kubelet.nodeIP", "10.9.9.9"))
    assert "--node-ip=10.9.9.9" in defaults(named, stored)


def test_the_network_behind_the_tunnel_is_reached_without_the_proxy() -> None:
    entries = direct(configured(with_vpn(), VNET, at("proxy.https", "http://proxy:3128")))
    assert {"10.224.0.0/12", "plant.hcp.westeurope.azmk8s.io"} <= set(entries)


@dataclass
class Run:
    """The script, run by a real shell with a resolvectl that notes its arguments."""

    calls: list[str]
    status: int


def run_script(directory: Path, *options: str, server: str = "", resolved: bool = True) -> Run:
    log, there = directory / "log", directory / "resolv.conf"
    if resolved:
        there.touch()
    (directory / "resolvectl").write_text(f'#!/bin/sh\necho "$@" >> {log}\nexit 1\n')
    (directory / "resolvectl").chmod(0o755)
    config = configured(with_vpn(), at("node.kubelet.serverURL", server) if server else {})
    script = directory / "dns"
    script.write_text(dns_script(config).replace("/run/systemd/resolve/resolv.conf", str(there)))
    environment = {"PATH": f"{directory}:/usr/bin:/bin", "dev": "aksvpn0"}
    environment |= {f"foreign_option_{number}": option for number, option in enumerate(options, 1)}
    done = subprocess.run(["/bin/sh", str(script), "aksvpn0"], env=environment, check=False, timeout=10)
    return Run(log.read_text().splitlines() if log.exists() else [], done.returncode)


DNS = ("dhcp-option DNS 10.224.0.10", "dhcp-option DNS 10.224.0.11", "dhcp-option DOMAIN vnet.example")
API = "plant.hcp.westeurope.azmk8s.io"


def test_name_servers_of_the_vnet_are_used_for_names_of_the_cluster(tmp_path: Path) -> None:
    run = run_script(tmp_path, *DNS)
    assert run.calls == [
        "dns aksvpn0 10.224.0.10 10.224.0.11",
        f"domain aksvpn0 ~{API} ~vnet.example",
        "default-route aksvpn0 false",
    ]
    assert run.status == 0, "a client whose script fails would end"


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ((), {}),
        (DNS, {"resolved": False}),
        (DNS[:2], {"server": "https://10.224.0.4:443"}),
        (("dhcp-option DOMAIN vnet.example",), {}),
    ],
    ids=["no servers", "no resolved", "no names", "domains only"],
)
def test_nothing_to_resolve_changes_nothing(
    tmp_path: Path, options: tuple[str, ...], more: dict[str, Any]
) -> None:
    run = run_script(tmp_path, *options, **more)
    assert (run.calls, run.status) == ([], 0)


def test_a_gateway_gets_no_top_level_domain(tmp_path: Path) -> None:
    """Zones of Azure Private DNS have two labels at least."""
    sent = [f"dhcp-option DOMAIN {domain}" for domain in ("com", "com.", ".com", ".", "..", "corp.example.")]
    run = run_script(tmp_path, *sent, "dhcp-option DOMAIN-ROUTE internal", *DNS)
    assert run.calls[1] == f"domain aksvpn0 ~{API} ~corp.example. ~vnet.example"
    (tmp_path / "log").unlink()
    assert run_script(tmp_path, *sent[:5], *DNS[:2], server="https://10.224.0.4:443").calls == []


def test_what_a_gateway_sends_is_never_run(tmp_path: Path) -> None:
    evil = ("dhcp-option DNS $(touch${IFS}" + str(tmp_path / "evil") + ")", "dhcp-option DOMAIN .", *DNS)
    run = run_script(tmp_path, *evil)
    assert not (tmp_path / "evil").exists()
    assert run.calls[1] == f"domain aksvpn0 ~{API} ~vnet.example"
    assert file(DNS_SCRIPT, with_vpn()).mode == 0o755
