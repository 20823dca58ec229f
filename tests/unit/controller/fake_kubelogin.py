# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A stand-in for kubelogin: a real process that prints an ExecCredential, or fails as kubelogin does."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
# KUBELOGIN_MODE says what happens; what it was called with goes to a file beside the script.
SCRIPT = """#!{python}
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).resolve().parent
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
with open(here / "calls", "a") as calls:
    calls.write(json.dumps({{"arguments": sys.argv[1:], "info": info}}) + "\\n")
mode = os.environ.get("KUBELOGIN_MODE", "token")
if mode == "refused":
    sys.exit("Error: failed to get token: AADSTS7000215: Invalid client secret provided")
if mode == "devicecode":
    sys.stderr.write("To sign in, use a web browser to open the page https://microsoft.com/devicelogin")
    sys.stderr.flush()
    time.sleep(60)
if mode == "garbage":
    print("eyJhbGciOi.not-json.token")
    sys.exit(0)
status = {{}}
if mode == "token":
    status["token"] = (here / "token").read_text().strip()
if mode == "certificate":
    pem = (here / "client.pem").read_text()
    begin = pem.index("-----BEGIN PRIVATE KEY-----")
    status |= {{"clientCertificateData": pem[:begin], "clientKeyData": pem[begin:]}}
if (here / "expires").exists():
    status["expirationTimestamp"] = (here / "expires").read_text().strip()
version = os.environ.get("KUBELOGIN_VERSION", info["apiVersion"])
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": status}}))
"""


@dataclass(frozen=True)
class FakeKubelogin:
    """The script and the files that it reads, in one directory."""

    directory: Path

    @classmethod
    def install(cls, directory: Path, token: str = "") -> FakeKubelogin:
        """Write the script."""
        directory.mkdir(exist_ok=True)
        script = directory / "kubelogin"
        script.write_text(SCRIPT.format(python=sys.executable))
        script.chmod(0o755)
        (directory / "token").write_text(token or "admin-token")
        return cls(directory)

    @property
    def calls(self) -> list[str]:
        """How it was called, oldest first."""
        file = self.directory / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def user(self, mode: str = "token", **more: Any) -> dict[str, Any]:
        """The user of a kubeconfig that signs in by it."""
        environment = [
            {"name": "KUBELOGIN_MODE", "value": mode},
            {"name": "PATH", "value": f"{self.directory}:/usr/bin:/bin"},
        ]
        arguments = ["get-token", "--server-id", "6dae42f8-4368-4678-94ff-3960e28e3630"]
        return {
            "exec": {
                "apiVersion": V1BETA1,
                "command": "kubelogin",
                "args": arguments,
                "env": environment,
                **more,
            }
        }
