# SPDX-License-Identifier: GPL-3.0-or-later
"""The bridge network of a testbed."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from testbed.basics.errors import TestbedError
from testbed.basics.podman import LABEL, podman
from testbed.basics.process import run
from testbed.layout.site import Site

TUN = Path("/dev/net/tun")


def ensure(site: Site) -> None:
    """Create a bridge network without a name server: every address in a testbed is known beforehand."""
    if podman("network", "exists", site.network, check=False).returncode == 0:
        return
    labels = ["--label", f"{LABEL}={site.name}"]
    addresses = ["--subnet", str(site.plan.subnet), "--gateway", site.plan.gateway]
    podman("network", "create", "--disable-dns", *addresses, *labels, site.network)


def remove(owner: str) -> None:
    """Remove a testbed's networks, and what a killed podman left of them."""
    wanted = ["--filter", f"label={LABEL}={owner}", "--format", "json"]
    for network in json.loads(podman("network", "ls", *wanted).stdout or "[]"):
        podman("network", "rm", "--force", network["name"])
        _remove_links(network["network_interface"])


def _remove_links(bridge: str) -> None:
    """Remove a bridge that outlived its network, its links, and the namespaces at their other end."""
    for link in _links("master", bridge):
        if namespace := link.get("link_netns"):
            run(["ip", "netns", "delete", namespace], check=False)
        run(["ip", "link", "delete", link["ifname"]], check=False)
    if _links("dev", bridge):
        run(["ip", "link", "delete", bridge], check=False)


def tap_name(ip: str) -> str:
    """The outer end of a virtual machine's network card; its name has room for its address only."""
    return f"tb{int(IPv4Address(ip)):08x}"


def check_tap() -> None:
    """Whether virtual machines can have a network here; said before their disks are made."""
    if not TUN.exists():
        raise TestbedError(
            f"virtual machines need {TUN}, which is not here: run 'modprobe tun', or start this container "
            f"with --device {TUN}"
        )


def ensure_tap(name: str, network: str) -> None:
    """Connect a virtual machine to a network of containers: then it is one more machine there."""
    (found,) = json.loads(podman("network", "inspect", network).stdout)
    if not _links("dev", name):
        run(["ip", "tuntap", "add", "dev", name, "mode", "tap"])
    run(["ip", "link", "set", "dev", name, "master", found["network_interface"], "up"])


def subnets() -> list[IPv4Network]:
    """The IPv4 subnets that this machine's routes lead to."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]).stdout or "[]")
    targets = (str(route["dst"]) for route in routes if route.get("type", "unicast") == "unicast")
    return [IPv4Network(target, strict=False) for target in targets if target != "default"]


def _links(*selector: str) -> list[dict[str, Any]]:
    done = run(["ip", "-json", "link", "show", *selector], check=False)
    links: list[dict[str, Any]] = json.loads(done.stdout or "[]") if done.returncode == 0 else []
    return [link for link in links if link]
