# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated Azure as tests use it: its URL, its principals, its faults, and the requests it got."""

from __future__ import annotations

import hashlib
import secrets
import time
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from testbed.azure.behaviour.faults import Fault
from testbed.azure.behaviour.record import Request
from testbed.azure.pools.client import ACT, Act, PoolOperator
from testbed.azure.serving import place, wheels
from testbed.azure.sign_in.directory import Principal
from testbed.basics import files
from testbed.basics.clock import wait_for
from testbed.basics.errors import TestbedError
from testbed.cluster import Cluster
from testbed.cluster.credentials import Credentials
from testbed.layout.identifiers import (
    AKS_SERVER,
    CLUSTER_ID,
    LOCATION,
    NODE_RESOURCE_GROUP,
    SUBSCRIPTION_ID,
    TENANT_ID,
)
from testbed.layout.site import Site
from testbed.services.blob import Blob
from testbed.services.service import Service

PORT = 443
INSIDE = "/srv/azure"
PACKAGE = Path(__file__).resolve().parent.parent
SECONDS = 30
IDLE_SECONDS = 20  # the server keeps a connection for 60
TRUST_SECONDS = 60


class Azure:
    """Entra ID and Resource Manager at one URL."""

    tenant_id = TENANT_ID
    subscription_id = SUBSCRIPTION_ID
    cluster_id = CLUSTER_ID
    _called = 0.0

    def __init__(self, site: Site) -> None:
        self._site = site
        self._directory = site.directory / "azure"
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(site.authority.pair.cert)

    @property
    def url(self) -> str:
        """The URL of Entra's authority host and of Resource Manager."""
        return f"https://{self._site.plan.service('azure')}"

    def app_registration(self, name: str, certificate: str = "") -> Principal:
        """The app registration of that name, created if there is none; it has no roles at first.

        certificate: one (PEM) that may sign for it from now on, besides its secret and earlier ones.
        """
        body = {"certificate": certificate} if certificate else None
        return Principal(**self._call("PUT", f"principals/{quote(name, safe='')}", body))

    def renew_secret(self, principal: Principal) -> Principal:
        """Replace the secret of an app registration; the old one is refused from now on."""
        return Principal(**self._call("POST", f"secrets/{quote(principal.name, safe='')}"))

    def remove_registration(self, name: str) -> None:
        """Remove an app registration."""
        self._call("DELETE", f"principals/{quote(name, safe='')}")

    def grant(self, principal: Principal, role: str, scope: str = CLUSTER_ID) -> None:
        """Assign a role, by its name or id."""
        self._call("PUT", "grants", {"principal_id": principal.object_id, "role": role, "scope": scope})

    def revoke(self, principal: Principal, role: str = "", scope: str = "") -> None:
        """Remove role assignments: of this role, or all of them."""
        self._call(
            "POST", "grants/revoke", {"principal_id": principal.object_id, "role": role, "scope": scope}
        )

    def token(self, principal: Principal, audience: str) -> str:
        """An access token, without a request to a token endpoint."""
        body = {"client_id": principal.client_id, "audience": audience}
        return str(self._call("POST", "token", body)["token"])

    def environment(self, principal: Principal) -> dict[str, str]:
        """What a user would export to sign in as this principal."""
        return {
            "AZURE_SUBSCRIPTION_ID": self.subscription_id,
            "AZURE_TENANT": self.tenant_id,
            "AZURE_CLIENT_ID": principal.client_id,
            "AZURE_SECRET": principal.secret,
            "AZURE_AUTHORITY_HOST": self.url,
            "AZURE_RESOURCE_MANAGER_ENDPOINT": self.url,
            "REQUESTS_CA_BUNDLE": str(self._site.authority.pair.cert),
        }

    def behave(self) -> None:
        """No faults, the usual settings and an empty record, in one call."""
        self._call("DELETE", "behaviour")

    def fail(self, *faults: Fault) -> None:
        """Show these faults from now on, instead of any earlier ones."""
        self._call("PUT", "faults", [fault.as_dict() for fault in faults])

    def heal(self) -> None:
        """Show no faults."""
        self.fail()

    def requests(self) -> list[Request]:
        """Every request so far, in order."""
        return [Request(**one) for one in self._call("GET", "requests")]

    def forget_requests(self) -> None:
        """Empty the record."""
        self._call("DELETE", "requests")

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Change how Azure behaves (see settings.py); without changes, back to the defaults."""
        found: dict[str, Any] = self._call(
            *(("PATCH", "settings", changes) if changes else ("DELETE", "settings"))
        )
        return found

    def invitations(self) -> list[dict[str, Any]]:
        """Every URL and token that was issued, and its state: open, used or closed."""
        found: list[dict[str, Any]] = self._call("GET", "invitations")
        return found

    @cached_property
    def pools(self) -> PoolOperator:
        """FlexNodes pools, through Resource Manager as an administrator with all rights."""
        return PoolOperator(self, str(self._site.authority.pair.cert))

    def acts(self) -> list[Act]:
        """Every step that AKS took by itself for pools and machines, in order."""
        return [Act(**{key: one[key] for key in ACT}) for one in self._call("GET", "acts")]

    def end_acts(self) -> None:
        """End all acts of AKS, wherever they are, and empty their record."""
        self._call("DELETE", "acts")

    def forget_pools(self) -> None:
        """Remove all pools and machines from Azure, at once; their Nodes are not touched."""
        self._call("DELETE", "pools")

    def vpn(self) -> dict[str, Any]:
        """What a VPN server needs to be the gateway of this Azure (see network/server.py)."""
        found: dict[str, Any] = self._call("GET", "vpn")
        return found

    def set_vpn_server(self, **server: Any) -> dict[str, Any]:
        """Name the server that profiles lead to: host, port, caCertificate, tlsAuthKey, and perhaps name."""
        found: dict[str, Any] = self._call("PUT", "vpn/server", server)
        return found

    def set_network(self, space: str, name: str = "plant", **subnets: str) -> dict[str, Any]:
        """A VNet with these subnets; the cluster's own nodes are in the first of them from now on."""
        found: dict[str, Any] = self._call("PUT", f"network/{name}", {"space": space, "subnets": subnets})
        first = found["properties"]["subnets"][0]["id"] if subnets else ""
        self._call("PATCH", "settings", {"cluster_subnet_id": first})
        return found

    def forget_network(self) -> None:
        """Remove all VNets, addresses and gateways from Azure, at once."""
        self._call("DELETE", "network")

    def service(self) -> Service:
        """The container that serves it."""
        address = self._site.plan.service("azure")
        pair = self._site.authority.issue("azure", "azure", names=[address])
        files.write(self._directory / "tls.crt", pair.cert.read_bytes())
        files.write(self._directory / "tls.key", pair.key.read_bytes(), 0o600)
        files.write(self._directory / "ca.crt", self._site.authority.pem)
        self._write_cluster()
        self._write_place()
        return Service(
            name="azure",
            # -P: the directory of the program holds an azure.py, which must not stand for the SDK.
            argv=("/usr/bin/python3", "-P", "/opt/testbed/azure/serving/start.py", INSIDE, str(PORT)),
            port=PORT,
            mounts=(
                (self._directory, INSIDE, True),
                (PACKAGE, "/opt/testbed", False),
                (wheels.ensure(), "/opt/packages", False),
                (wheels.compiled(), "/var/cache/python", True),
            ),
            environment=(
                ("PYTHONPATH", "/opt:/opt/packages"),
                ("PYTHONPYCACHEPREFIX", "/var/cache/python"),
                ("PYTHONUNBUFFERED", "1"),
            ),
            revision=f"{_revision()} {Credentials(self._site).digest}",  # it knows the cluster's CA
        )

    def settle(self) -> None:
        """Wait until the API server accepts Entra's tokens."""
        cluster = Cluster(self._site)
        probe = self.app_registration("testbed")

        def trusted() -> bool:
            token = self.token(probe, AKS_SERVER)
            return cluster.whoami(token) == probe.object_id

        wait_for("the API server's trust in Entra", trusted, TRUST_SECONDS)

    def _write_cluster(self) -> None:
        credentials = Credentials(self._site)
        pair = credentials.authority.issue("aks", "aks-resource-provider", organization="system:masters")
        keys = self._directory / "cluster"
        files.write(keys / "provider.crt", pair.cert.read_bytes())
        files.write(keys / "provider.key", pair.key.read_bytes(), 0o600)
        files.write(keys / "ca.crt", credentials.authority.pem)
        files.write(keys / "admin.kubeconfig", credentials.kubeconfig.read_bytes(), 0o600)

    def _write_place(self) -> None:
        cluster, account = Cluster(self._site), Blob(self._site).provider_account
        here = place.Place(
            origin=self.url,
            tenant_id=self.tenant_id,
            subscription_id=self.subscription_id,
            cluster_id=self.cluster_id,
            location=LOCATION,
            node_resource_group=NODE_RESOURCE_GROUP,
            control_key=self._key(),
            kubernetes=place.Kubernetes(
                version=cluster.version,
                server=cluster.server,
                ca_pem=cluster.ca_pem,
                service_cidr=cluster.service_cidr,
                pod_cidr=cluster.pod_cidr,
                dns_service_ip=cluster.dns_service_ip,
            ),
            blob=place.BlobAccount(account.url, account.name, account.key),
        )
        files.write(self._directory / place.FILE, here.text(), 0o600)

    def _key(self) -> str:
        path = self._directory / "control.key"
        return files.once(path, lambda: secrets.token_urlsafe(24)).decode()

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        url = f"{self.url}/_testbed/{path}"
        # A connection that was idle may be closed by the server at the very moment of the next call.
        if time.monotonic() - self._called > IDLE_SECONDS:
            self._session.close()
        self._called = time.monotonic()
        try:
            answer = self._session.request(
                method, url, json=body, headers={"X-Testbed-Key": self._key()}, timeout=SECONDS
            )
        except requests.RequestException as error:
            raise TestbedError(
                f"the emulated Azure does not answer: run 'python -m testbed up' ({error})"
            ) from error
        if not answer.ok:
            raise TestbedError(f"the emulated Azure refused {method} {path}: {answer.text[:500]}")
        return answer.json()


def _revision() -> str:
    """Changes with the server's code and packages."""
    digest = hashlib.sha256(wheels.directory().name.encode())
    for path in sorted((PACKAGE / "azure").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
