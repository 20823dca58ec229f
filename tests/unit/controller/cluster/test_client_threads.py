# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One client with a certificate for many threads: OpenSSL crashes or hangs if one changes what all use."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import connected
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import access_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.nodes import NodeClient
from tests.unit.controller.fake_cluster import FakeCluster
from tests.unit.controller.fake_kubelogin import FakeKubelogin
from tests.unit.node.fake_api import FakeApi, a_node
from tests.unit.node.servers import Pki

ROUNDS, THREADS = 30, 8
# A crash ends the process, so the requests are made in another one.
READER = f"""
import faulthandler, sys, yaml
from concurrent.futures import ThreadPoolExecutor
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import connected
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import access_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.nodes import NodeClient
faulthandler.enable()
faulthandler.dump_traceback_later(280, exit=True)
access = access_of(yaml.safe_load(open(sys.argv[1])), "")
read = 0
for _round in range({ROUNDS}):
    with connected(access, NodeClient) as client, ThreadPoolExecutor({THREADS}) as pool:
        read += sum(map(bool, pool.map(lambda _: client.node("edge-1"), range({THREADS}))))
print(read)
"""


def certified(api: FakeApi, pki: Pki, directory: Path) -> dict[str, Any]:
    """A kubeconfig with a client certificate, as AKS gives to administrators."""
    certificate, mark, key = pki.client.read_text().partition("-----BEGIN PRIVATE KEY-----")
    files = {"client-certificate": certificate, "client-key": mark + key}
    for name, content in files.items():
        (directory / name).write_text(content)
    kubeconfig = FakeCluster(server=api.server).kubeconfig(pki)
    kubeconfig["users"][0]["user"] = {name: str(directory / name) for name in files}
    return kubeconfig


def test_threads_share_a_client_with_a_certificate(pki: Pki, tmp_path: Path) -> None:
    with FakeApi(nodes={"edge-1": a_node()}).running(pki, client_needed=True) as api:
        (tmp_path / "kubeconfig").write_text(json.dumps(certified(api, pki, tmp_path)))
        done = subprocess.run(
            [sys.executable, "-c", READER, str(tmp_path / "kubeconfig")],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert (done.returncode, done.stdout) == (0, f"{ROUNDS * THREADS}\n"), done.stderr


@pytest.mark.parametrize("change", ["load_cert_chain", "load_verify_locations", "set_alpn_protocols"])
def test_a_request_does_not_change_the_tls_context_that_others_use(
    change: str, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cause itself: the crash needs luck."""
    changed: list[object] = []
    really = getattr(ssl.SSLContext, change)

    def counted(context: ssl.SSLContext, *args: Any, **options: Any) -> None:
        changed.append(context)
        really(context, *args, **options)

    with FakeApi(nodes={"edge-1": a_node()}).running(pki, client_needed=True) as api:
        monkeypatch.setattr(ssl.SSLContext, change, counted)
        with connected(access_of(certified(api, pki, tmp_path), ""), NodeClient) as client:
            before = len(changed)
            assert before, "the client's own context was made with it"
            assert client.node("edge-1")
            assert len(changed) == before


def test_a_renewed_certificate_is_used_by_the_next_request(pki: Pki, tmp_path: Path) -> None:
    kubelogin = FakeKubelogin.install(tmp_path / "bin")
    (tmp_path / "other").mkdir()
    stranger = Pki.make(tmp_path / "other").client.read_text()
    (kubelogin.directory / "client.pem").write_text(stranger)
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30))
    (kubelogin.directory / "expires").write_text(soon)
    with FakeApi(nodes={"edge-1": a_node()}).running(pki, client_needed=True) as api:
        kubeconfig = FakeCluster(server=api.server).kubeconfig(pki)
        kubeconfig["users"][0]["user"] = kubelogin.user("certificate")
        with connected(access_of(kubeconfig, ""), NodeClient) as client:
            (kubelogin.directory / "client.pem").write_text(pki.client.read_text())
            assert client.node("edge-1"), "the API server trusts only the renewed one"
