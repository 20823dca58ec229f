# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as tests use it."""

from __future__ import annotations

import datetime
from pathlib import Path

import requests

from testbed.artifacts import store
from testbed.basics import podman
from testbed.basics.clock import wait_for
from testbed.basics.errors import TestbedError
from testbed.basics.process import run
from testbed.cluster import components, rbac, token
from testbed.cluster.api import Api, ApiError
from testbed.cluster.credentials import Credentials
from testbed.layout import plan
from testbed.layout.site import Site
from testbed.services.service import Service

SIGNING_DURATION = "1h"
READY_SECONDS = 90
REVIEWS = "/apis/{kind}.k8s.io/v1/{name}"


class Cluster:
    """The control plane of one testbed."""

    service_cidr = str(plan.SERVICE_CIDR)
    pod_cidr = str(plan.POD_CIDR)
    dns_service_ip = plan.DNS_SERVICE_IP

    def __init__(self, site: Site) -> None:
        self._site = site
        self._credentials = Credentials(site)

    @property
    def version(self) -> str:
        """The version of the control plane."""
        return self._site.kubernetes

    @property
    def server(self) -> str:
        """The API server's URL, the same for nodes and for the outer machine."""
        return self._credentials.server

    @property
    def ca_pem(self) -> str:
        """The cluster's CA: it signs the API server and the clients of the kubelet."""
        return self._credentials.authority.pem

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._credentials.kubeconfig

    @property
    def signing_duration(self) -> str:
        """Lifetime of the certificates that the cluster issues to kubelets."""
        return self._site.setting("signing_duration", SIGNING_DURATION)

    def api(self) -> Api:
        """A client with the administrator's rights."""
        return Api(self.server, self._credentials.authority.pair.cert, self._credentials.admin)

    def kubectl(self, *args: str, input: str | None = None, timeout: float = 120) -> str:
        """Run kubectl as administrator; return what it printed."""
        return run([*self.kubectl_argv(), *args], input=input, timeout=timeout).stdout

    def kubectl_argv(self) -> list[str]:
        """How kubectl starts for this cluster."""
        stored = store.find("kubectl", self.version)
        if stored is None:
            raise TestbedError(f"kubectl {self.version} is not in the cache: run 'python -m testbed up'")
        return [str(stored.file), f"--kubeconfig={self.kubeconfig}"]

    def bootstrap_token(self, ttl_seconds: int = 86400) -> str:
        """A new token with which a machine can request a node certificate."""
        created = token.random_token()
        expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=ttl_seconds)
        self.api().post("/api/v1/namespaces/kube-system/secrets", token.secret(created, expires))
        return created

    def set_signing_duration(self, duration: str) -> None:
        """Change the lifetime of new kubelet certificates; the controller manager is replaced for it."""
        self._site.remember("signing_duration", duration)
        manager = next(service for service in self.services() if service.name == "kube-controller-manager")
        if manager.ensure(self._site):
            manager.wait(self._site)

    def whoami(self, token: str) -> str | None:
        """The name by which the API server knows the bearer of a token; None if it does not."""
        try:
            api = Api(self.server, self._credentials.authority.pair.cert, token=token)
            found = api.post(REVIEWS.format(kind="authentication", name="selfsubjectreviews"), {})
        except ApiError as error:
            if error.status == requests.codes.unauthorized:
                return None
            raise
        return str(found["status"]["userInfo"]["username"])

    def allows(self, token: str, verb: str, resource: str) -> bool:
        """Whether the bearer of a token may do something, in every namespace."""
        api = Api(self.server, self._credentials.authority.pair.cert, token=token)
        wanted = {"spec": {"resourceAttributes": {"verb": verb, "resource": resource}}}
        found = api.post(REVIEWS.format(kind="authorization", name="selfsubjectaccessreviews"), wanted)
        return bool(found["status"]["allowed"])

    def services(self) -> tuple[Service, ...]:
        """The containers of the control plane."""
        self._credentials.ensure()
        return components.services(self._site, self._credentials, self.version, self.signing_duration)

    def is_ready(self) -> bool:
        """Whether the API server says so."""
        try:
            return self.api().text("/readyz") == "ok"
        except (ApiError, requests.RequestException):
            return False

    def settle(self) -> None:
        """Wait until pods and tokens can be created, and have the rights of nodes."""
        with podman.explained(self._site.container("kube-apiserver")):
            wait_for("a ready API server", self.is_ready, READY_SECONDS)
        # The others end if the API server is not healthy within ten seconds, as on a slow machine.
        for service in self.services():
            if not podman.is_running(podman.inspect(self._site.container(service.name))):
                service.ensure(self._site)
        api = self.api()
        for path, document in rbac.OBJECTS:
            try:
                api.post(path, document)
            except ApiError as error:
                if error.status != requests.codes.conflict:
                    raise
        with podman.explained(self._site.container("kube-controller-manager")):
            wait_for("the default service account", self._can_create_pods, READY_SECONDS)

    def _can_create_pods(self) -> bool:
        try:
            self.api().get("/api/v1/namespaces/kube-system")
            self.api().get("/api/v1/namespaces/default/serviceaccounts/default")
        except ApiError as error:
            if error.status == requests.codes.not_found:
                return False
            raise
        return True
