# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster brings to its nodes: kube-proxy on each, CoreDNS on one. They start with the first node."""

from __future__ import annotations

import json
from typing import Any

from testbed.cluster.api import Api
from testbed.cluster.rbac import BASE as RBAC
from testbed.cluster.rbac import GROUP
from testbed.layout import plan
from testbed.services.registry import Registry

CORE = "/api/v1/namespaces/kube-system"
APPS = "/apis/apps/v1/namespaces/kube-system"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
CONFIG = "/etc/addon"
PROXY_LABELS = {"k8s-app": "kube-proxy"}
DNS_LABELS = {"k8s-app": "kube-dns"}
TAINT = "edge"
"""The taint of nodes in tests. Not every taint: a drained node must not get its CoreDNS back."""

COREFILE = """.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
    cache 30
    loadbalance
}
"""

Object = tuple[str, dict[str, Any]]


def objects(server: str, kube_proxy_image: str, coredns_image: str) -> list[Object]:
    """All add-ons as (path, object), in the order they need each other."""
    return [*_kube_proxy(server, kube_proxy_image), *_coredns(coredns_image)]


def apply(api: Api, server: str, registry: Registry) -> None:
    """Install the add-ons in the cluster."""
    for path, document in objects(server, registry.kube_proxy_image, registry.coredns_image):
        api.apply(path, document)


def _object(path: str, version: str, kind: str, name: str, **content: Any) -> Object:
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}
    return f"{path}/{name}", document


def _account(name: str) -> Object:
    return _object(f"{CORE}/serviceaccounts", "v1", "ServiceAccount", name)


def _right(account: str, role: str) -> Object:
    return _object(
        f"{RBAC}/clusterrolebindings",
        f"{GROUP}/v1",
        "ClusterRoleBinding",
        f"testbed-{account}",
        roleRef={"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}],
    )


def _files(name: str, **content: str) -> Object:
    data = {key.replace("_", "."): text for key, text in content.items()}
    return _object(f"{CORE}/configmaps", "v1", "ConfigMap", name, data=data)


def _workload(kind: str, name: str, labels: dict[str, str], pod: dict[str, Any], **more: Any) -> Object:
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template, **more}
    return _object(f"{APPS}/{kind.lower()}s", "apps/v1", kind, name, spec=spec)


def _mounted(name: str) -> dict[str, Any]:
    return {"name": "config", "configMap": {"name": name}}


def kube_proxy_config() -> dict[str, Any]:
    """kube-proxy by nftables; connection tracking is the outer machine's: its limits are left alone."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": str(plan.POD_CIDR),
        "clientConnection": {"kubeconfig": f"{CONFIG}/kubeconfig"},
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "metricsBindAddress": "127.0.0.1:10249",
    }


def _kubeconfig(server: str) -> dict[str, Any]:
    """The API server by its own address: that of its Service does not work before kube-proxy does."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "here", "cluster": {"server": server, "certificate-authority": f"{ACCOUNT}/ca.crt"}}
        ],
        "users": [{"name": "own", "user": {"tokenFile": f"{ACCOUNT}/token"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "own"}}],
        "current-context": "here",
    }


def _kube_proxy(server: str, image: str) -> list[Object]:
    container = {
        "name": "kube-proxy",
        "image": image,
        "args": [f"--config={CONFIG}/config.json", "--hostname-override=$(NODE_NAME)"],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "config", "mountPath": CONFIG, "readOnly": True}],
    }
    pod = {
        "serviceAccountName": "kube-proxy",
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [_mounted("kube-proxy")],
    }
    return [
        _account("kube-proxy"),
        _right("kube-proxy", "system:node-proxier"),
        _files(
            "kube-proxy",
            config_json=json.dumps(kube_proxy_config(), indent=1),
            kubeconfig=json.dumps(_kubeconfig(server), indent=1),
        ),
        _workload("DaemonSet", "kube-proxy", PROXY_LABELS, pod),
    ]


def _coredns(image: str) -> list[Object]:
    container = {
        "name": "coredns",
        "image": image,
        "args": ["-conf", f"{CONFIG}/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "config", "mountPath": CONFIG, "readOnly": True}],
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
        "containers": [container],
        "volumes": [_mounted("coredns")],
    }
    reads = [
        {
            "apiGroups": [""],
            "resources": ["services", "endpoints", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
    ]
    service = {"clusterIP": plan.DNS_SERVICE_IP, "selector": DNS_LABELS, "ports": ports}
    path, dns = _object(f"{CORE}/services", "v1", "Service", "kube-dns", spec=service)
    dns["metadata"]["labels"] = {**DNS_LABELS, "kubernetes.io/cluster-service": "true"}
    return [
        _account("coredns"),
        _object(f"{RBAC}/clusterroles", f"{GROUP}/v1", "ClusterRole", "testbed-coredns", rules=reads),
        _right("coredns", "testbed-coredns"),
        _files("coredns", Corefile=COREFILE),
        (path, dns),
        _workload("Deployment", "coredns", DNS_LABELS, pod, replicas=1),
    ]
