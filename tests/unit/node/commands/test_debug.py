# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The support bundle: everything that helps, and no secret, wherever one appears."""

from __future__ import annotations

import base64
import io
import json
import stat
import tarfile
from pathlib import Path
from urllib.parse import quote

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.commands.masking import Masking
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from tests.unit.node.sites import IDENTITY, TOKEN, Site
from tests.unit.node.tunnels import SECRET_KEY, a_gateway, with_vpn

Captured = pytest.CaptureFixture[str]
CLIENT_SECRET = "Qx7~vErY/secret+value=="
SECRET_FILE = "/etc/edge/client-secret"
FILED_SECRET = "from-a-file-9d8f7a6b5c"
PROXY_PASSWORD = "pr0xy-pa55word"
SAS = "sv=2026-01-01&sig=a8f%2Fabc123signature%3D"
JWT = f"eyJhbGciOiJSUzI1NiJ9.{'e' * 40}.{'s' * 40}"
KEY_LINE = "MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY"
KEY = f"-----BEGIN EC PRIVATE KEY-----\n{KEY_LINE}\n-----END EC PRIVATE KEY-----\n"
VPN_PROFILE = "client\nremote vpn.example\n<key>\nMIIEvQIBADANBgkqhkiG9w0BAQ\n</key>"
SECRETS = (
    TOKEN,
    CLIENT_SECRET,
    quote(CLIENT_SECRET, safe=""),
    json.dumps(CLIENT_SECRET)[1:-1],
    base64.b64encode(CLIENT_SECRET.encode()).decode(),
    FILED_SECRET,
    PROXY_PASSWORD,
    "a8f%2Fabc123signature%3D",
    JWT,
    KEY_LINE,
)
PRINCIPAL = {
    "clientId": "1" * 8 + "-1111-1111-1111-" + "1" * 12,
    "clientTenant": "2" * 8 + "-2222" * 3 + "-" + "2" * 12,
}


def unpacked(path: Path) -> dict[str, str]:
    """The files of a bundle, without its directory."""
    with tarfile.open(path) as tar:
        return {
            member.name.partition("/")[2]: (tar.extractfile(member) or io.BytesIO()).read().decode()
            for member in tar.getmembers()
        }


def bundle(site: Site, tmp_path: Path, name: str = "bundle.tar.gz") -> dict[str, str]:
    assert main(["debug", "--output", str(tmp_path / name)], site.machine.host) == 0
    return unpacked(tmp_path / name)


def everywhere() -> str:
    """A text with every secret, as logs and files spell them."""
    return "\n".join(
        (
            *SECRETS,
            f"Authorization: Bearer {JWT}",
            f"https://blob.example/c/x?{SAS}",
            f"http://user:{PROXY_PASSWORD}@proxy.example:3128",
            KEY,
            f'"clientSecret": "{CLIENT_SECRET}"',
            f"client-key-data: {base64.b64encode(KEY.encode()).decode()}",
        )
    )


def test_no_secret_is_in_the_bundle_wherever_it_was(site: Site, tmp_path: Path, capsys: Captured) -> None:
    site.machine.put(SECRET_FILE, f"{FILED_SECRET}\n", 0o600)
    site.join({"proxy": {"http": f"http://user:{PROXY_PASSWORD}@127.0.0.1:9", "no": ["127.0.0.1"]}})
    store, host = site.machine.store, site.machine.host
    document = store.current_config() or {}
    principals = {
        "a": {**PRINCIPAL, "clientSecret": CLIENT_SECRET},
        "b": {**PRINCIPAL, "clientSecretFile": SECRET_FILE},
    }
    store.refuse(
        {**document, "azure": {"servicePrincipal": principals["a"]}}, {"code": "FLEX-1", "message": "x"}
    )
    store._write("applied-config.json", {**document, "azure": {"servicePrincipal": principals["b"]}})
    store.set_source(
        {"url": f"https://blob.example/c/x?{SAS}", "over": {"azure": {"servicePrincipal": principals["a"]}}}
    )
    site.machine.put(IDENTITY, KEY, 0o600)
    text = everywhere()
    for path in (
        f"{DATA_DIR}/state.json",
        f"{DATA_DIR}/drift.json",
        f"{DATA_DIR}/transaction.json",
        "/etc/default/kubelet",
        "/etc/containerd/config.toml",
        "/etc/hosts",
        "/proc/cmdline",
    ):
        site.machine.put(path, text)
    host.append("/var/log/aks-flex-node/agent.log", text.encode())
    commands = site.machine.commands
    commands.logs = dict.fromkeys(("kubelet.service", "containerd.service", "aks-flex-node"), text)
    commands.answers = {
        ("systemctl", "cat"): text,
        ("ps", "-eo", "pid,ppid,user,lstart,rss,comm"): text,
        ("ip", "-details", "address"): text,
    }
    found = bundle(site, tmp_path)
    leaks = [(name, secret) for name, content in found.items() for secret in SECRETS if secret in content]
    assert leaks == []
    assert text.count("proxy.example") == found["journal/kubelet.service.txt"].count("proxy.example"), (
        "only that"
    )
    assert "".join(capsys.readouterr()).count(CLIENT_SECRET) == 0
    assert stat.S_IMODE((tmp_path / "bundle.tar.gz").stat().st_mode) == 0o600


def test_what_is_in_the_bundle(site: Site, tmp_path: Path) -> None:
    site.join()
    site.machine.commands.logs["kubelet.service"] = "I1115 started kubelet\n"
    before = site.machine.snapshot("/")
    found = bundle(site, tmp_path)
    assert site.machine.snapshot("/") == before, "nothing is changed"
    assert found["plan.txt"] == "nothing to do\n"
    assert json.loads(found["status.json"])["node"]["ready"] is True
    current = json.loads(found["configuration/current-config.json"])
    assert current["azure"]["bootstrapToken"]["token"] != TOKEN
    assert current["node"]["labels"] == {"site": "lab-1"}
    assert "started kubelet" in found["journal/kubelet.service.txt"]
    assert (
        "net.ipv4.ip_forward = 0  wanted 1" in found["system/sysctls.txt"]
        or "ip_forward = 1" in found["system/sysctls.txt"]
    )
    assert "joined" in found["log/agent.log"]
    assert "file:/etc/default/kubelet" in found["state/journal.txt"]
    for part in ("units/files.txt", "versions/kubelet.txt", "network/routes.txt", "files/etc/os-release"):
        assert part in found
        assert part in found["README.txt"]
    assert not any(("kubeconfig" in name and "kubeletconfig" not in name) or "pem" in name for name in found)


def test_a_bundle_of_a_private_node_has_no_key(site: Site, tmp_path: Path, capsys: Captured) -> None:
    a_gateway(site.machine)
    site.join(with_vpn())
    found = bundle(site, tmp_path)
    assert "journal/aks-flex-node-vpn.service.txt" in found
    assert '"address": "192.168.100.2"' in found["status.json"]
    assert not any(SECRET_KEY in text for text in found.values())
    capsys.readouterr()
    main(["status"], site.machine.host)
    assert "vpn             Connected  192.168.100.2 through 203.0.113.9:443 since" in capsys.readouterr().out


def test_a_bundle_of_a_machine_that_is_broken(site: Site, tmp_path: Path) -> None:
    for name in ("state.json", "current-config.json", "journal", "source.json", "applied-config.json"):
        site.machine.put(f"{DATA_DIR}/{name}", "{")
    site.machine.commands.statuses = {"journalctl": 1, "ip": 127}
    found = bundle(site, tmp_path)
    assert found["status.json"].startswith("FAILED: FLEX-1402")
    assert found["configuration/current-config.json"].startswith("FAILED")
    assert "(exit status 1)" in found["journal/kubelet.service.txt"]


def test_a_bundle_of_a_machine_that_is_no_node(site: Site, tmp_path: Path, capsys: Captured) -> None:
    found = bundle(site, tmp_path)
    assert found["plan.txt"].startswith("FAILED: FLEX-1104")
    capsys.readouterr()
    assert main(["debug", "--output", str(tmp_path / "bundle.tar.gz")], site.machine.host) == 1
    assert "FLEX-1309: the bundle can't be written" in capsys.readouterr().err, (
        "an old one is not overwritten"
    )


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token abcdef.0123456789abcdef used", "token <secret> used"),
        ("?sv=1&sig=x%2Fy HTTP", "?sv=<secret>&sig=<secret> HTTP"),
        ("https://u:p@proxy:1/", "https://<secret>proxy:1/"),
        ('"password": "hunter22"', '"password": "<secret>"'),
        ("client_secret=abcd1234&x=1", "client_secret=<secret>&x=1"),
        ("node edge-1.example.com at 10.0.0.1", "node edge-1.example.com at 10.0.0.1"),
        ("nothing secret here", "nothing secret here"),
    ],
)
def test_what_looks_like_a_credential(text: str, masked: str) -> None:
    assert Masking(())(text) == masked


def test_a_secret_of_several_lines_is_masked_line_by_line() -> None:
    mask = Masking([VPN_PROFILE])
    assert "MIIEvQIBADANBgkqhkiG9w0BAQ" not in mask("error at: MIIEvQIBADANBgkqhkiG9w0BAQ")
