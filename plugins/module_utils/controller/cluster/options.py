# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes options of modules, named as in kubernetes.core, and the access that they describe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ...node.secret import Secret
from ..azure.module import require
from .client import KUBERNETES_ERROR, bearer
from .errors import KubeconfigUnusable
from .kubeconfig import NOTHING, YAML_ERROR, Access, read_kubeconfig

# The same as the doc fragment aks.flexnode.kubernetes. The environment is read here and not by Ansible's
# fallback: it must not outweigh an AKS cluster that a task names.
KUBERNETES: Mapping[str, Mapping[str, Any]] = {
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
    "host": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
    "client_cert": {"type": "path", "aliases": ["cert_file"]},
    "client_key": {"type": "path", "aliases": ["key_file"], "no_log": False},
}
ENVIRONMENT: Mapping[str, str] = {
    "kubeconfig": "K8S_AUTH_KUBECONFIG",
    "context": "K8S_AUTH_CONTEXT",
    "host": "K8S_AUTH_HOST",
    "api_key": "K8S_AUTH_API_KEY",
    "ca_cert": "K8S_AUTH_SSL_CA_CERT",
    "client_cert": "K8S_AUTH_CERT_FILE",
    "client_key": "K8S_AUTH_KEY_FILE",
}
# Either of these names a cluster.
NAMING = ("kubeconfig", "host")
# How to sign in to one, and whom to trust there.
SIGN_IN = ("api_key", "ca_cert", "client_cert", "client_key")
DEFAULT = "~/.kube/config"


def in_options(params: Mapping[str, Any]) -> bool:
    """Whether the options themselves name a cluster."""
    return any(params.get(name) for name in NAMING)


def in_environment(environ: Mapping[str, str]) -> bool:
    """Whether the environment names a cluster."""
    return any(environ.get(ENVIRONMENT[name]) for name in NAMING) or bool(environ.get("KUBECONFIG"))


def access_from(params: Mapping[str, Any], environ: Mapping[str, str]) -> Access:
    """The API server and the sign-in that options and environment describe; options go first."""
    added = _added_by_environment(params, environ)
    values = {name: str(params.get(name) or added.get(name) or "") for name in KUBERNETES}
    paths = [values["kubeconfig"]] if values["kubeconfig"] else []
    if not paths and not values["host"]:
        paths = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path] or [DEFAULT]
    paths = [os.path.expanduser(path) for path in paths]
    if paths == [os.path.expanduser(DEFAULT)] and not os.path.exists(paths[0]):
        raise KubeconfigUnusable(
            "no cluster is named",
            where=paths[0],
            why="neither kubeconfig nor host is set, and there is no default kubeconfig",
            fix="set kubeconfig (or K8S_AUTH_KUBECONFIG, KUBECONFIG); az aks get-credentials writes one",
        )
    access = read_kubeconfig(paths, values["context"]) if paths else Access(values["host"], "")
    if values["host"]:
        access = replace(access, server=values["host"].rstrip("/"))
    if values["ca_cert"]:
        access = replace(access, ca_pem=_read(values["ca_cert"], "ca_cert"))
    if values["api_key"]:
        access = replace(access, token=bearer(values["api_key"]), certificate="", key=NOTHING, plugin=None)
    if values["client_cert"]:
        certificate = _read(values["client_cert"], "client_cert")
        key = Secret(_read(values["client_key"], "client_key") if values["client_key"] else "")
        access = replace(access, certificate=certificate, key=key, plugin=None)
    if not access.server.startswith("https://"):
        raise KubeconfigUnusable(
            "the API server's URL does not start with https://",
            where=access.server,
            why="TLS is always verified",
            fix="use the https URL of the API server: kubectl cluster-info",
        )
    return access


def _added_by_environment(params: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """What the environment adds to the options: nothing of another cluster than the one that they name."""
    found = {name: environ.get(variable) or "" for name, variable in ENVIRONMENT.items()}
    if params.get("kubeconfig"):
        return {}
    if host := params.get("host"):
        same = not found["kubeconfig"] and found["host"].rstrip("/") in ("", str(host).rstrip("/"))
        return {name: found[name] for name in SIGN_IN} if same else {}
    if params.get("context"):
        return {"kubeconfig": found["kubeconfig"]}
    return found


def kubernetes_access(module: AnsibleModule, kubeconfig: str = "") -> Access:
    """The same for a module: packages checked, an API key of the environment masked.

    kubeconfig: another one than that of the options, which say nothing about it then.
    """
    require(module, {"PyYAML": YAML_ERROR, "kubernetes": KUBERNETES_ERROR})
    if key := os.environ.get(ENVIRONMENT["api_key"]):
        module.no_log_values.add(key)
    other = kubeconfig and kubeconfig != module.params["kubeconfig"]
    return access_from({"kubeconfig": kubeconfig} if other else module.params, os.environ)


def _read(path: str, option: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        what = f"the file of {option} can't be read"
        raise KubeconfigUnusable(what, where=path, why=why, fix=f"check {option}") from error


def uses_kubernetes(params: Mapping[str, Any], environ: Mapping[str, str], *, azure: bool) -> bool:
    """Whether Kubernetes options choose the cluster; `azure`: the task names an AKS cluster by its id.

    The environment alone does not: a user with KUBECONFIG set would otherwise create tokens in another
    cluster than the one that the task names.
    """
    return in_options(params) or (not azure and in_environment(environ))
