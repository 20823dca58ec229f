# SPDX-License-Identifier: GPL-3.0-or-later
"""The command lines of the control plane's programs."""

from __future__ import annotations

from pathlib import Path

from testbed.artifacts import store
from testbed.basics.errors import TestbedError
from testbed.cluster.credentials import API_PORT, Credentials
from testbed.layout import plan
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.services.service import Service

INSIDE = "/etc/testbed"
ETCD_DATA = "/var/lib/etcd"
PROGRAM = "/usr/local/bin/"


def etcd_argv(addresses: Plan) -> tuple[str, ...]:
    """etcd, for clients with a certificate of the testbed's CA."""
    url = f"https://{addresses.service('etcd')}:2379"
    return (
        "/usr/bin/etcd",
        "--name=testbed",
        f"--data-dir={ETCD_DATA}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        "--initial-cluster=testbed=http://127.0.0.1:2380",
        f"--cert-file={INSIDE}/etcd.crt",
        f"--key-file={INSIDE}/etcd.key",
        f"--trusted-ca-file={INSIDE}/ca.crt",
        "--client-cert-auth",
        "--log-level=warn",
        "--logger=zap",
    )


def apiserver_argv(addresses: Plan) -> tuple[str, ...]:
    """The API server: bootstrap tokens, Node authorizer and NodeRestriction are what a node notices."""
    return (
        f"{PROGRAM}kube-apiserver",
        f"--advertise-address={addresses.service('kube-apiserver')}",
        "--allow-privileged=true",
        f"--authentication-config={INSIDE}/authentication.json",
        "--authorization-mode=Node,RBAC",
        f"--client-ca-file={INSIDE}/cluster-ca.crt",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-bootstrap-token-auth",
        f"--etcd-servers=https://{addresses.service('etcd')}:2379",
        f"--etcd-cafile={INSIDE}/ca.crt",
        f"--etcd-certfile={INSIDE}/etcd-client.crt",
        f"--etcd-keyfile={INSIDE}/etcd-client.key",
        f"--kubelet-client-certificate={INSIDE}/kubelet-client.crt",
        f"--kubelet-client-key={INSIDE}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        f"--secure-port={API_PORT}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={INSIDE}/service-account.key",
        f"--service-account-signing-key-file={INSIDE}/service-account.key",
        f"--service-cluster-ip-range={plan.SERVICE_CIDR}",
        f"--tls-cert-file={INSIDE}/kube-apiserver.crt",
        f"--tls-private-key-file={INSIDE}/kube-apiserver.key",
    )


def controller_manager_argv(signing_duration: str) -> tuple[str, ...]:
    """The controller manager, which also signs the kubelets' certificates."""
    return (
        f"{PROGRAM}kube-controller-manager",
        f"--kubeconfig={INSIDE}/kube-controller-manager.kubeconfig",
        f"--cluster-signing-cert-file={INSIDE}/cluster-ca.crt",
        f"--cluster-signing-key-file={INSIDE}/cluster-ca.key",
        f"--cluster-signing-duration={signing_duration}",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--kube-api-burst=1000",  # the default of 20 requests a second would cost 5 s at the start
        "--kube-api-qps=500",
        "--leader-elect=false",
        f"--root-ca-file={INSIDE}/cluster-ca.crt",
        f"--service-account-private-key-file={INSIDE}/service-account.key",
        "--use-service-account-credentials=true",
    )


def scheduler_argv() -> tuple[str, ...]:
    """The scheduler."""
    return (
        f"{PROGRAM}kube-scheduler",
        f"--kubeconfig={INSIDE}/kube-scheduler.kubeconfig",
        "--leader-elect=false",
    )


def _program(name: str, version: str) -> tuple[Path, str, bool]:
    stored = store.find(name, version)
    if stored is None:
        raise TestbedError(f"{name} {version} is not in the cache: run 'python -m testbed up'")
    return (stored.file, f"{PROGRAM}{name}", False)


def services(
    site: Site, credentials: Credentials, version: str, signing_duration: str
) -> tuple[Service, ...]:
    """The control plane in the order its parts need each other; with another CA, all of it is new."""
    keys = (credentials.directory, INSIDE, False)
    data = site.directory / "etcd"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    kubernetes = {
        "kube-apiserver": (apiserver_argv(site.plan), API_PORT),
        "kube-controller-manager": (controller_manager_argv(signing_duration), 10257),
        "kube-scheduler": (scheduler_argv(), 10259),
    }
    return (
        Service("etcd", etcd_argv(site.plan), 2379, (keys, (data, ETCD_DATA, True))),
        *(
            Service(name, argv, port, (keys, _program(name, version)), revision=credentials.digest)
            for name, (argv, port) in kubernetes.items()
        ),
    )
