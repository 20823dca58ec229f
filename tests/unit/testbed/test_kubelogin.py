# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for kubelogin runs, without a testbed: against a token endpoint in memory."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs

import pytest

from testbed import Testbed
from testbed.azure.sign_in.directory import Principal
from testbed.services import kubelogin
from tests.unit.node.servers import Answer, Pki, Request, answer_json, serving

PRINCIPAL = Principal("me", "object", "client", "s3cret")


def token(request: Request) -> Answer:
    form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
    if form["client_secret"] != PRINCIPAL.secret:
        return answer_json({"error": "invalid_client", "error_description": "AADSTS7000215: wrong"}, 401)
    return answer_json({"access_token": f"token for {form['scope']}", "expires_in": 3600})


@pytest.mark.parametrize("secret", ["", "wrong"])
def test_the_kubeconfig_signs_in(tmp_path: Path, secret: str) -> None:
    pki = Pki.make(tmp_path)
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    with serving(token, pki.server_context()) as server:
        azure = SimpleNamespace(url=server.url, tenant_id="tenant")
        cluster = SimpleNamespace(server="https://10.0.0.1:6443", ca_pem=pki.ca_pem)
        bed = SimpleNamespace(azure=azure, cluster=cluster, ca_file=tmp_path / "ca.pem")
        path = kubelogin.kubeconfig(cast(Testbed, bed), PRINCIPAL, tmp_path / "config", secret=secret)
        plugin: dict[str, Any] = json.loads(path.read_text())["users"][0]["user"]["exec"]
        variables = {one["name"]: one["value"] for one in plugin["env"]}
        info = json.dumps({"apiVersion": plugin["apiVersion"], "spec": {"interactive": False}})
        done = subprocess.run(
            [plugin["command"], *plugin["args"]],
            env={"PATH": os.environ["PATH"], "KUBERNETES_EXEC_INFO": info, **variables},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert path.stat().st_mode & 0o777 == 0o600
    if secret:
        assert done.returncode == 1
        assert "AADSTS7000215" in done.stderr
        return
    credential = json.loads(done.stdout)
    assert credential["apiVersion"] == plugin["apiVersion"]
    assert credential["status"]["token"] == "token for 6dae42f8-4368-4678-94ff-3960e28e3630/.default"
    assert server.requests[0].path == "/tenant/oauth2/v2.0/token"
