# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory with the wheels of ansible-core, for nodes that reach no package index."""

from __future__ import annotations

import os
from typing import Any

from ..node.catalogue.wheels import Wheel, in_index, pythons, wheels_for
from ..node.config.types.addresses import only_certificates
from ..node.machine.host import Host
from ..node.net.download import MIB, Download, Wanted
from ..node.net.http_client import HttpClient
from ..node.net.index import file_url
from ..node.net.proxies import Proxies


def build(params: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """Download what is missing; the result of the module."""
    host, directory = Host(), os.path.abspath(params["path"])
    targets = {
        f"{python}-{arch}": wheels_for(python, arch)
        for python in params["pythons"] or pythons()
        for arch in params["architectures"]
    }
    wheels = {wheel.file: wheel for needed in targets.values() for wheel in needed}
    missing = [wheel for wheel in wheels.values() if not is_there(host, directory, wheel)]
    if missing and not check:
        client = client_for(host, params["ca_cert"])
        for wheel in missing:
            download(host, client, directory, params["index"], wheel)
    return {
        "changed": bool(missing),
        "path": directory,
        "downloaded": sorted(wheel.file for wheel in missing),
        "targets": {name: sorted(wheel.file for wheel in needed) for name, needed in targets.items()},
    }


def is_there(host: Host, directory: str, wheel: Wheel) -> bool:
    """Whether the right file is there, by its digest."""
    path = f"{directory}/{wheel.file}"
    return host.stat(path).is_ == "file" and host.sha256(path) == wheel.sha256


def download(host: Host, client: HttpClient, directory: str, index: str, wheel: Wheel) -> None:
    """Download and verify one file; its name appears when it is complete."""
    os.makedirs(directory, exist_ok=True)
    path = f"{directory}/{wheel.file}"
    url = file_url(client, in_index(index, wheel))
    Download(
        host, client, Wanted(f"{wheel.name} {wheel.version}", url, wheel.sha256, 64 * MIB), f"{path}.part"
    ).run()
    os.chmod(f"{path}.part", 0o644)
    os.replace(f"{path}.part", path)


def client_for(host: Host, ca_cert: str | None) -> HttpClient:
    """A client with the proxies of the environment, as pip has it."""
    environment = {name.lower(): value for name, value in os.environ.items()}
    no_proxy = tuple(part.strip() for part in environment.get("no_proxy", "").split(",") if part.strip())
    proxies = Proxies(environment.get("http_proxy", ""), environment.get("https_proxy", ""), no_proxy)
    bundle = (host.read(os.path.abspath(ca_cert)) or b"") if ca_cert else b""
    ca_pem = only_certificates(bundle.decode("ascii", "replace"))
    return HttpClient(ca_pem=ca_pem, proxies=proxies, clock=host.clock)
