# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-ins for Azure Arc's agent and for IMDS, against a server that answers as Azure does."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import (
    ChallengeInvalid,
    IdentityMissing,
    TokenSourceUnreachable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.himds import ArcMetadata
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.imds import InstanceMetadata
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from testbed import arc
from testbed.arc import agent_package
from testbed.arc.programs import azcmagent, himds, imds, metadata, settings
from tests.unit.node.servers import Answer, Pki, Request, answer_json, serving

TOKEN = "t0ken-of-the-installer"
MACHINE = "/subscriptions/s/resourceGroups/edge/providers/Microsoft.HybridCompute/machines/edge-1"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.make(tmp_path_factory.mktemp("pki"))


@dataclass
class Cloud:
    """What the stand-ins ask of Azure: machines, their credential, Entra's tokens."""

    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuse: int = 0

    def __call__(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        if self.refuse:
            return answer_json({"error": {"code": "AuthorizationFailed", "message": "no"}}, self.refuse)
        if path == "/_testbed/identity/credential":
            key = hashlib.sha256(request.json["key"].encode()).hexdigest()
            made = self.machines.get(request.json["resource_id"])
            if not made or made["properties"]["clientPublicKey"] != key:
                return Answer(status=403)
            return answer_json({"tenant_id": "t", "client_id": "c", "client_secret": "x", "object_id": "o"})
        if path.endswith("/oauth2/v2.0/token"):
            form = dict(urllib.parse.parse_qsl(request.body.decode()))
            token = f"{form['client_id']} for {form['scope']}"
            return answer_json({"access_token": token, "expires_in": 3599})
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return answer_json({"error": {"code": "InvalidAuthenticationToken", "message": "no"}}, 401)
        if request.method == "PUT":
            self.machines[path] = request.json
            return answer_json(request.json, 201)
        self.machines.pop(path, None)
        return Answer()


@dataclass
class Site:
    root: Path
    cloud: Cloud

    def put(self, path: str, content: Any) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))

    def azcmagent(self, *arguments: str) -> tuple[int, str]:
        with redirect_stdout(io.StringIO()) as said:
            status = azcmagent.main(list(arguments))
        return status, said.getvalue()

    def connect(self, **more: str) -> tuple[int, str]:
        options = {
            "access-token": TOKEN,
            "subscription-id": "s",
            "resource-group": "edge",
            "resource-name": "edge-1",
            "location": "westeurope",
            "tags": "site='lab, 1',a=b",
            **more,
        }
        self.put("/connect.json", options)
        return self.azcmagent("connect", "--config", str(self.root / "connect.json"))

    def shown(self) -> dict[str, Any]:
        status, text = self.azcmagent("show", "-j")
        assert status == 0
        found: dict[str, Any] = json.loads(text)
        return found


@pytest.fixture
def site(tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    cloud = Cloud()
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    monkeypatch.setenv("ARC_ROOT", str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with serving(cloud, pki.server_context()) as server:
        made = Site(tmp_path, cloud)
        where = {"resource_manager": server.url, "authority": server.url, "tenant_id": "t"}
        made.put("/etc/testbed/azure.json", where)
        yield made


def test_connect_show_disconnect(site: Site) -> None:
    assert site.shown()["status"] == "Disconnected"
    assert site.connect()[0] == 0
    assert site.cloud.machines[MACHINE]["tags"] == {"site": "lab, 1", "a": "b"}
    seen = site.shown()
    assert (seen["status"], seen["resourceName"], seen["resourceId"]) == ("Connected", "edge-1", MACHINE)
    assert site.connect()[0] == 67
    site.put("/off.yaml", f"access-token: {TOKEN}\n")
    assert site.azcmagent("disconnect", "--config", str(site.root / "off.yaml"))[0] == 0
    assert site.cloud.machines == {}
    assert site.shown()["status"] == "Disconnected"


def test_options_of_the_command_line_come_before_those_of_the_file(site: Site) -> None:
    site.put(
        "/c.json", {"access-token": TOKEN, "subscription-id": "s", "location": "l", "resource-group": "no"}
    )
    options = ("connect", "-g", "edge", "-n", "edge-1", "--config", str(site.root / "c.json"))
    assert site.azcmagent(*options)[0] == 0
    assert set(site.cloud.machines) == {MACHINE}


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"access-token": "another"}, 12),
        ({"access-token": ""}, 41),
        ({"location": ""}, 16),
        ({"cloud": "Mars"}, 23),
        ({"surprise": "1"}, 23),
    ],
)
def test_errors_have_the_agents_numbers(site: Site, options: dict[str, str], status: int) -> None:
    code, text = site.connect(**options)
    assert code == status
    assert f"AZCM{status:04}" in text
    assert TOKEN not in text


def test_who_may_not_register(site: Site) -> None:
    site.cloud.refuse = 403
    code, text = site.connect()
    assert (code, "AuthorizationFailed" in text) == (42, True)


def test_faults_of_the_command(site: Site) -> None:
    site.put("/etc/testbed/azcmagent-faults.json", {"connect": {"code": 26}, "show_status": "Expired"})
    assert site.connect()[0] == 26
    assert site.shown()["status"] == "Expired"


def test_other_commands(site: Site) -> None:
    assert site.azcmagent("version") == (0, f"azcmagent version {settings.VERSION}\n")
    assert site.azcmagent("check")[0] == 0
    assert site.azcmagent("config", "get", "proxy.url") == (0, "\n")
    assert site.azcmagent("config", "set", "proxy.url", "http://p:1")[0] == 0
    assert site.azcmagent("config", "get", "proxy.url") == (0, "http://p:1\n")
    assert site.azcmagent("show", "status", "-j") == (0, '{\n  "status": "Disconnected"\n}\n')


@contextmanager
def running(service: Any) -> Iterator[str]:
    thread = threading.Thread(target=service.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{service.server_address[1]}{metadata.PATH}"
    finally:
        service.shutdown()
        service.server_close()


@pytest.fixture
def arc_identity(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArcMetadata]:
    """The product's own client, on this machine's HIMDS; its paths are below the same root."""
    new = himds.Challenges.new
    monkeypatch.setattr(himds.Challenges, "new", lambda self: new(self).removeprefix(str(site.root)))
    monkeypatch.setattr(himds, "Path", lambda path: site.root / path.lstrip("/"))

    class Quick(SystemClock):
        def sleep(self, seconds: float) -> None:
            pass

    with running(himds.service(0)) as endpoint:
        yield ArcMetadata(Host(root=str(site.root), clock=Quick()), endpoint=endpoint)


def test_the_product_gets_a_token_by_the_challenge(site: Site, arc_identity: ArcMetadata) -> None:
    with pytest.raises(IdentityMissing):
        arc_identity.issue("https://arm/", hurry=False)
    site.connect()
    issued = arc_identity.issue("https://arm/", hurry=False)
    assert (issued.value.reveal(), issued.seconds) == ("c for https://arm/.default", 3599)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"down": True}, TokenSourceUnreachable),
        ({"status": 500}, TokenSourceUnreachable),
        ({"wrong_challenge": True}, TokenSourceUnreachable),
        ({"expired": True}, TokenSourceUnreachable),
        ({"realm": "/etc/shadow"}, ChallengeInvalid),
    ],
)
def test_faults_of_himds(
    site: Site, arc_identity: ArcMetadata, fault: dict[str, Any], error: type[Exception]
) -> None:
    site.connect()
    site.put("/etc/testbed/himds-faults.json", fault)
    with pytest.raises(error):
        arc_identity.issue("https://arm/", hurry=False)
    (site.root / "etc/testbed/himds-faults.json").unlink()
    assert arc_identity.issue("https://arm/", hurry=False).seconds == 3599


def test_himds_tells_when_entra_is_out(site: Site, arc_identity: ArcMetadata) -> None:
    site.connect()
    site.cloud.refuse = 503
    with pytest.raises(TokenSourceUnreachable, match="500"):
        arc_identity.issue("https://arm/", hurry=True)


def test_imds(site: Site) -> None:
    identities = [
        {"client_id": "u", "secret": "x"},
        {"client_id": "s", "secret": "x", "system": True},
    ]
    azure = settings.azure()
    site.put("/etc/testbed/imds.json", {**azure, "identities": identities})
    with running(metadata.listener("imds", "127.0.0.1", 0, imds.give)) as endpoint:

        def token(client_id: str | None) -> str:
            source = InstanceMetadata(client_id, SystemClock(), endpoint=endpoint)
            return source.issue("aks", hurry=False).value.reveal()

        assert (token(None), token("u")) == ("s for aks/.default", "u for aks/.default")
        with pytest.raises(IdentityMissing, match="not on this VM"):
            token("other")
        site.put("/etc/testbed/imds-faults.json", {"status": 410, "times": 0, "seconds": 0.01})
        assert token(None) == "s for aks/.default"


def test_the_package_is_always_the_same() -> None:
    first = agent_package.package()
    agent_package.package.cache_clear()
    assert first == agent_package.package()
    assert arc.sha256() == hashlib.sha256(first).hexdigest()


def test_the_package_is_one_that_dpkg_reads(tmp_path: Path) -> None:
    file = tmp_path / arc.NAME
    file.write_bytes(arc.package())
    told = subprocess.run(
        ["dpkg-deb", "--info", str(file)], capture_output=True, text=True, check=True
    ).stdout
    assert f"Version: {settings.VERSION}" in told
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(file)], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        names = packed.getnames()
    for name in ("usr/bin/azcmagent", "opt/azcmagent/bin/azcmagent", "usr/lib/systemd/system/himdsd.service"):
        assert f"./{name}" in names


def test_programs_in_a_machine_need_nothing_else() -> None:
    for path in agent_package.PROGRAMS.glob("*.py"):
        assert "testbed." not in path.read_text().replace("testbed.arc.programs", ""), path.name
