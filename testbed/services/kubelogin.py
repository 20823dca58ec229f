# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig whose user signs in to the emulated Entra through an exec plugin, as with kubelogin."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from testbed.azure.sign_in.directory import Principal
from testbed.basics import files
from testbed.bed import Testbed
from testbed.layout.identifiers import AKS_SERVER

API_VERSION = "client.authentication.k8s.io/v1beta1"
COMMAND = "kubelogin"
# The options and variables are those of `kubelogin get-token --login spn`. Standard library only: it is run
# by the same Python as the testbed.
SCRIPT = '''#!{python}
"""Stand-in for kubelogin: get-token with a service principal, against one authority."""
import argparse, datetime, json, os, ssl, sys, urllib.error, urllib.parse, urllib.request

parser = argparse.ArgumentParser(prog="kubelogin")
parser.add_argument("command", choices=["get-token"])
for option in ("--login", "--server-id", "--tenant-id", "--authority-host", "--environment"):
    parser.add_argument(option, default="")
options = parser.parse_args()
if options.login != "spn":
    sys.exit("Error: only --login spn works without a person")
form = {{
    "grant_type": "client_credentials",
    "client_id": os.environ["AAD_SERVICE_PRINCIPAL_CLIENT_ID"],
    "client_secret": os.environ["AAD_SERVICE_PRINCIPAL_CLIENT_SECRET"],
    "scope": f"{{options.server_id}}/.default",
}}
url = f"{{options.authority_host.rstrip('/')}}/{{options.tenant_id}}/oauth2/v2.0/token"
context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({{}}), urllib.request.HTTPSHandler(context=context)
)
try:
    with opener.open(url, data=urllib.parse.urlencode(form).encode(), timeout=20) as answer:
        found = json.load(answer)
except urllib.error.HTTPError as error:
    said = json.loads(error.read() or b"{{}}").get("error_description", str(error))
    sys.exit(f"Error: failed to get token: {{said}}")
ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=int(found["expires_in"]))
wanted = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["apiVersion"]
status = {{"token": found["access_token"], "expirationTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}}
print(json.dumps({{"apiVersion": wanted, "kind": "ExecCredential", "status": status}}))
'''


def install(directory: Path) -> Path:
    """Write the stand-in as `kubelogin` into a directory."""
    script = directory / COMMAND
    files.write(script, SCRIPT.format(python=sys.executable), 0o755)
    return script


def kubeconfig(
    bed: Testbed, principal: Principal, path: Path, *, command: str = "", secret: str = ""
) -> Path:
    """A kubeconfig (0600: it holds the secret) that signs in as a service principal of the emulated Entra.

    command: another command than the stand-in beside the kubeconfig. secret: another than the principal's.
    """
    script = command or str(install(path.parent))
    variables = {
        "AAD_SERVICE_PRINCIPAL_CLIENT_ID": principal.client_id,
        "AAD_SERVICE_PRINCIPAL_CLIENT_SECRET": secret or principal.secret,
        "SSL_CERT_FILE": str(bed.ca_file),
    }
    plugin = {
        "apiVersion": API_VERSION,
        "command": script,
        "args": [
            "get-token",
            "--login=spn",
            f"--server-id={AKS_SERVER}",
            f"--tenant-id={bed.azure.tenant_id}",
            f"--authority-host={bed.azure.url}",
        ],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "provideClusterInfo": False,
    }
    ca = base64.b64encode(bed.cluster.ca_pem.encode()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "entra",
        "contexts": [{"name": "entra", "context": {"cluster": "testbed", "user": principal.name}}],
        "clusters": [
            {"name": "testbed", "cluster": {"server": bed.cluster.server, "certificate-authority-data": ca}}
        ],
        "users": [{"name": principal.name, "user": {"exec": plugin}}],
    }
    files.write(path, json.dumps(document, indent=1) + "\n", 0o600)
    return path
