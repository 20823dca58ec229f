# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys, certificates and kubeconfigs of the control plane."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from testbed.basics import files
from testbed.cluster import authentication
from testbed.layout import plan
from testbed.layout.identifiers import TENANT_ID
from testbed.layout.pki import Authority, Pair, ensured_key
from testbed.layout.site import Site

API_PORT = 6443
FIRST_SERVICE_IP = str(plan.SERVICE_CIDR[1])
API_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


def encode(path: Path) -> str:
    """A file as kubeconfigs hold it."""
    return base64.b64encode(path.read_bytes()).decode()


def kubeconfig(server: str, authority: Path, user: str, pair: Pair) -> str:
    """A self-contained kubeconfig; JSON is YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "testbed",
                "cluster": {"server": server, "certificate-authority-data": encode(authority)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {"client-certificate-data": encode(pair.cert), "client-key-data": encode(pair.key)},
            }
        ],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    }
    return json.dumps(document, indent=1) + "\n"


# Signed by the cluster's CA, for clients of the API server.
ISSUED = ("kube-apiserver", "kubelet-client", "admin", "kube-controller-manager", "kube-scheduler", "aks")


class Credentials:
    """Files of the control plane in one directory, created once per testbed."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.directory = site.directory / "control-plane"
        self.authority = Authority(self.directory, "cluster-ca", f"testbed {site.name} cluster CA")
        self.server = f"https://{site.plan.service('kube-apiserver')}:{API_PORT}"
        self.kubeconfig = site.directory / "kubeconfig"

    @property
    def admin(self) -> Pair:
        """The cluster administrator's client certificate."""
        return Pair(self.directory / "admin.crt", self.directory / "admin.key")

    @property
    def digest(self) -> str:
        """Changes with the cluster's CA."""
        return hashlib.sha256(self.authority.pem.encode()).hexdigest()[:12]

    def forget(self) -> None:
        """Delete the cluster's CA and all that it signed: the next ones are new."""
        for name in (*ISSUED, "cluster-ca"):
            for suffix in ("crt", "key"):
                (self.directory / f"{name}.{suffix}").unlink(missing_ok=True)

    def ensure(self) -> None:
        """Create what is missing."""
        site, cluster = self._site, self.authority
        cluster.ensure()
        api_names = (site.plan.service("kube-apiserver"), FIRST_SERVICE_IP, *API_NAMES)
        cluster.issue("kube-apiserver", "kube-apiserver", names=api_names)
        cluster.issue("kubelet-client", "kube-apiserver-kubelet-client", organization="system:masters")
        admin = cluster.issue("admin", "testbed-admin", organization="system:masters")
        for name in ("kube-controller-manager", "kube-scheduler"):
            pair = cluster.issue(name, f"system:{name}")
            text = kubeconfig(self.server, cluster.pair.cert, f"system:{name}", pair)
            files.write(self.directory / f"{name}.kubeconfig", text, 0o600)
        files.write(
            self.kubeconfig, kubeconfig(self.server, cluster.pair.cert, "testbed-admin", admin), 0o600
        )
        ensured_key(self.directory / "service-account.key")
        for name, names in (("etcd", (site.plan.service("etcd"), "127.0.0.1")), ("etcd-client", ())):
            pair = site.authority.issue(name, name, names=names)
            files.write(self.directory / f"{name}.crt", pair.cert.read_bytes())
            files.write(self.directory / f"{name}.key", pair.key.read_bytes(), 0o600)
        files.write(self.directory / "ca.crt", site.authority.pem)
        # It trusts the emulated Entra, which may come later: the API server asks for its keys by and by.
        azure = f"https://{site.plan.service('azure')}"
        trust = authentication.document(azure, TENANT_ID, site.authority.pem, site.kubernetes)
        files.write(self.directory / "authentication.json", json.dumps(trust, indent=1) + "\n")
