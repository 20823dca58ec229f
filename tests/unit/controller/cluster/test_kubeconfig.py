# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kubeconfigs and the options beside them: which server, who signs in, what can't be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.errors import KubeconfigUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import (
    access_of,
    read_kubeconfig,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.options import (
    access_from,
    uses_kubernetes,
)

SERVER = "https://plant.example:443"


def document(name: str = "lab", server: str = SERVER, **user: Any) -> dict[str, Any]:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": user or {"token": f"token-of-{name}"}}],
    }


def written(path: Path, content: Any) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_files_are_sought_beside_the_kubeconfig(tmp_path: Path) -> None:
    written(tmp_path / "ca.pem", "CA")
    written(tmp_path / "secret", "t0ken\n")
    found = document(tokenFile="secret")
    found["clusters"][0]["cluster"]["certificate-authority"] = "ca.pem"
    access = read_kubeconfig([written(tmp_path / "config", found)])
    assert (access.ca_pem, access.token.reveal()) == ("CA", "t0ken")
    assert "t0ken" not in repr(access)


def test_several_files_are_one_and_the_first_counts(tmp_path: Path) -> None:
    first = written(tmp_path / "a" / "config", document("lab"))
    other = document("site", "https://site.example")
    other["clusters"].append({"name": "lab", "cluster": {"server": "https://second.example"}})
    second = written(tmp_path / "b" / "config", other)
    paths = [first, str(tmp_path / "none"), second]
    assert read_kubeconfig(paths).server == SERVER
    assert read_kubeconfig(paths, "site").server == "https://site.example"
    with pytest.raises(KubeconfigUnusable, match="none of these files exists"):
        read_kubeconfig([str(tmp_path / "none"), str(tmp_path / "neither")])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("", "it is empty"),
        ("{}", "no current context"),
        ("current-context: nowhere\n", "no context 'nowhere'"),
        ("a: [", "not YAML"),
        (document("lab", SERVER, **{"auth-provider": {"name": "azure"}}), "kubelogin convert-kubeconfig"),
        (document(exec={"args": []}), "no command"),
        (document(**{"client-certificate-data": "%"}), "not base64"),
        (document(**{"client-certificate": "gone.pem"}), "gone.pem can't be read"),
    ],
)
def test_a_kubeconfig_that_can_not_be_used_is_named(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        written(path, content)
    with pytest.raises(KubeconfigUnusable, match=r"FLEX-1901: the kubeconfig can't be used") as raised:
        read_kubeconfig([str(path)])
    assert raised.value.where == str(path)
    assert said in str(raised.value)


def test_a_context_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(KubeconfigUnusable, match=r"no context 'none' \(it has: lab\)"):
        access_of(document(), "", "none")


def test_tls_is_always_verified() -> None:
    found = document()
    found["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    with pytest.raises(KubeconfigUnusable, match="TLS is always verified"):
        access_of(found, "")
    with pytest.raises(KubeconfigUnusable, match="https://"):
        access_from({"host": "http://plant.example"}, {})


# -- options and environment -------------------------------------------------------------------------------


def test_options_go_before_the_environment(tmp_path: Path) -> None:
    here = written(tmp_path / "here", document("lab"))
    there = written(tmp_path / "there", document("site", "https://site.example"))
    environ = {"K8S_AUTH_KUBECONFIG": there, "KUBECONFIG": "/nowhere"}
    assert access_from({"kubeconfig": here}, environ).server == SERVER
    assert access_from({}, environ).server == "https://site.example"
    assert access_from({}, {"KUBECONFIG": f"{here}:{there}"}).server == SERVER
    assert (
        access_from({"context": "site"}, {"KUBECONFIG": f"{here}:{there}"}).token.reveal() == "token-of-site"
    )
    chosen = {"KUBECONFIG": f"{here}:{there}", "K8S_AUTH_CONTEXT": "site"}
    assert access_from({}, chosen).server == "https://site.example"


def test_a_host_needs_no_kubeconfig(tmp_path: Path) -> None:
    files = {name: written(tmp_path / name, name.upper()) for name in ("ca", "cert", "key")}
    environ = {
        "K8S_AUTH_HOST": f"{SERVER}/",
        "K8S_AUTH_SSL_CA_CERT": files["ca"],
        "K8S_AUTH_CERT_FILE": files["cert"],
        "K8S_AUTH_KEY_FILE": files["key"],
        "KUBECONFIG": "/nowhere",
    }
    access = access_from({}, environ)
    assert (access.server, access.ca_pem) == (SERVER, "CA")
    assert (access.certificate, access.key.reveal(), bool(access.token)) == ("CERT", "KEY", False)
    access = access_from({"api_key": "Bearer t0ken"}, {"K8S_AUTH_HOST": SERVER})
    assert access.token.reveal() == "t0ken"
    assert access_from({}, {"K8S_AUTH_HOST": SERVER, "K8S_AUTH_API_KEY": "t0ken"}).token.reveal() == "t0ken"
    with pytest.raises(KubeconfigUnusable, match="ca_cert"):
        access_from({"host": SERVER, "ca_cert": "/nowhere/ca"}, {})


def test_options_replace_parts_of_a_kubeconfig(tmp_path: Path) -> None:
    path = written(tmp_path / "config", document(exec={"command": "kubelogin"}))
    access = access_from({"kubeconfig": path, "host": "https://10.0.0.1", "api_key": "t0ken"}, {})
    assert (access.server, access.token.reveal(), access.plugin) == ("https://10.0.0.1", "t0ken", None)


OTHERS = {"K8S_AUTH_HOST": "https://other.example", "K8S_AUTH_API_KEY": "other", "KUBECONFIG": "/nowhere"}


@pytest.mark.parametrize("environ", [OTHERS, {"K8S_AUTH_API_KEY": "other"}, {"K8S_AUTH_CONTEXT": "other"}])
def test_nothing_of_the_environment_is_mixed_into_a_kubeconfig_that_a_task_names(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Else a Node would be deleted in another cluster than the one that the kubeconfig names."""
    path = written(tmp_path / "config", document())
    foreign = {"K8S_AUTH_SSL_CA_CERT": "/nowhere/ca", "K8S_AUTH_CERT_FILE": "/nowhere/cert", **environ}
    access = access_from({"kubeconfig": path}, foreign)
    assert (access.server, access.ca_pem, access.certificate) == (SERVER, "", "")
    assert access.token.reveal() == "token-of-lab"


@pytest.mark.parametrize(
    ("environ", "token"),
    [
        ({"K8S_AUTH_API_KEY": "t0ken"}, "t0ken"),
        ({"K8S_AUTH_API_KEY": "t0ken", "K8S_AUTH_HOST": f"{SERVER}/", "KUBECONFIG": "/nowhere"}, "t0ken"),
        (OTHERS, ""),
        ({"K8S_AUTH_API_KEY": "other", "K8S_AUTH_KUBECONFIG": "/nowhere"}, ""),
    ],
    ids=["no cluster", "the same", "another host", "another kubeconfig"],
)
def test_a_host_of_a_task_gets_no_token_of_another_cluster(environ: dict[str, str], token: str) -> None:
    access = access_from({"host": SERVER}, environ)
    assert (access.server, access.token.reveal()) == (SERVER, token)


def test_a_context_of_a_task_is_not_replaced_by_the_environment(tmp_path: Path) -> None:
    both = document("lab")
    for section, items in document("site", "https://site.example").items():
        both[section] = [*both[section], *items] if isinstance(items, list) else both[section]
    environ = {**OTHERS, "K8S_AUTH_CONTEXT": "lab", "KUBECONFIG": written(tmp_path / "config", both)}
    access = access_from({"context": "site"}, environ)
    assert (access.server, access.token.reveal()) == ("https://site.example", "token-of-site")


def test_no_cluster_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(KubeconfigUnusable, match="no cluster is named") as raised:
        access_from({}, {})
    assert "K8S_AUTH_KUBECONFIG" in raised.value.fix
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube" / "config", document())
    assert access_from({}, {}).server == SERVER


@pytest.mark.parametrize(
    ("params", "environ", "azure", "expected"),
    [
        ({"kubeconfig": "x"}, {}, True, True),
        ({"host": "x"}, {}, True, True),
        ({"context": "x"}, {}, True, False),
        ({}, {"KUBECONFIG": "x"}, True, False),
        ({}, {"K8S_AUTH_KUBECONFIG": "x"}, True, False),
        ({}, {"K8S_AUTH_HOST": "x"}, False, True),
        ({}, {"KUBECONFIG": "x"}, False, True),
        ({}, {}, False, False),
    ],
)
def test_the_environment_never_replaces_a_cluster_that_a_task_names(
    params: dict[str, str], environ: dict[str, str], azure: bool, expected: bool
) -> None:
    assert uses_kubernetes(params, environ, azure=azure) is expected
