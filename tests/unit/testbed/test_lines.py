# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of Kubernetes: a testbed has a control plane of one version, and everything follows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import builtin_digests
from testbed import Testbed, cli
from testbed.artifacts import gomod
from testbed.artifacts.recipes import artifact
from testbed.basics.errors import TestbedError
from testbed.cluster import Cluster, authentication
from testbed.layout import site, versions
from testbed.services.registry import Registry


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_without_a_choice_it_is_the_default() -> None:
    here = site.create("unit", [])
    assert here.kubernetes == versions.KUBERNETES
    assert Cluster(here).version == versions.KUBERNETES


def test_a_choice_is_remembered_and_images_follow_it() -> None:
    site.create("unit", [], "1.32.13")
    here = site.create("unit", [])
    assert Cluster(here).version == "1.32.13"
    assert Registry(here).kube_proxy_image.endswith("/kube-proxy:v1.32.13")
    here.remember("signing_duration", "5m")
    assert site.create("unit", [], "1.32.13").kubernetes == "1.32.13"


def test_a_testbed_keeps_its_version() -> None:
    """A control plane of another version may not read what this one has stored."""
    site.create("unit", [], "1.32.13")
    with pytest.raises(TestbedError, match=r"1\.32\.13.*testbed down"):
        site.create("unit", [], "1.36.3")
    site.create("other", [])
    with pytest.raises(TestbedError, match="testbed down"):
        site.create("other", [], "1.36.3")


@pytest.mark.parametrize("wrong", ["1.34", "v1.34.4", "latest", "2.0.0", "1.30.14"])
def test_a_version_that_is_none_or_too_old_is_refused_before_anything_is_made(
    wrong: str, tmp_path: Path
) -> None:
    with pytest.raises(TestbedError, match="Kubernetes"):
        site.create("unit", [], wrong)
    assert site.load("unit") is None
    assert not list(tmp_path.rglob("settings.json"))


def test_lines() -> None:
    assert versions.line("1.34.4") == (1, 34)
    assert versions.line("1.31.14") == versions.OLDEST_SERVER
    for server, kubelet in versions.LINES:
        apart = versions.line(server)[1] - int(kubelet.split(".")[1])
        assert 0 <= apart <= 3


@pytest.mark.parametrize(
    ("kubernetes", "form"),
    [("1.32.13", "v1beta1"), ("1.33.13", "v1beta1"), ("1.34.0", "v1"), ("1.36.3", "v1")],
)
def test_the_api_server_gets_a_form_that_it_knows(kubernetes: str, form: str) -> None:
    document = authentication.document("https://azure", "tenant", "PEM", kubernetes)
    assert document["apiVersion"] == f"apiserver.config.k8s.io/{form}"
    assert document["jwt"] == authentication.document("https://azure", "tenant", "PEM")["jwt"]


def test_everything_of_kubernetes_has_the_chosen_version() -> None:
    names = {name for name, version in versions.default_set("1.36.3") if version == "1.36.3"}
    assert names == {*versions.CONTROL_PLANE, *versions.KUBERNETES_NODE, "kube-proxy"}
    assert versions.KUBERNETES not in dict(versions.default_set("1.36.3")).values()
    assert {*versions.control_plane_set("1.36.3"), *versions.node_set("1.36.3")} <= {
        *versions.default_set("1.36.3")
    }


def test_nodes_of_another_architecture_need_no_control_plane() -> None:
    names = [name for name, _ in versions.node_set()]
    assert not set(names) & set(versions.CONTROL_PLANE)
    assert {"kubelet", "containerd", "runc", "cni-plugins", "kube-proxy", "coredns"} <= set(names)
    assert names.count("containerd") == 1


def test_the_lines_are_the_ends_of_the_catalogue() -> None:
    minors = sorted({int(version.split(".")[1]) for version in builtin_digests()["kubelet"]})
    assert [int(kubelet.split(".")[1]) for _, kubelet in versions.LINES] == [minors[0], minors[-1]]


def test_all_lines_are_pinned() -> None:
    assert artifact("kubelet").source.name == "kubernetes"
    for version in {version for pair in versions.LINES for version in pair}:
        for name in ("go.mod", "go.sum"):
            assert (gomod.PINNED / "kubernetes" / version / name).is_file()


@pytest.mark.parametrize("pins", sorted((gomod.PINNED / "kubernetes").iterdir()), ids=lambda one: one.name)
def test_all_modules_of_a_build_are_of_its_line(pins: Path) -> None:
    """Another patch may stand in for a staging module that a proxy lacks, another line never."""
    text = (pins / "go.mod").read_text(encoding="utf-8")
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) v0\.(\d+)\.\d+$", text, re.MULTILINE)
    assert len(replaced) > 25
    assert {line for _, _, line in replaced} == {pins.name.split(".")[1]}
    assert all(module == other for module, other, _ in replaced)
    assert f"k8s.io/kubernetes v{pins.name}\n" in text


def test_the_command_line_passes_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(Testbed, "up", lambda _, *words: asked.append(words))
    assert cli.main(["--name", "unit", "up", "--kubernetes", "1.36.3"]) == 0
    assert cli.main(["--name", "unit", "up"]) == 0
    assert asked == [(None, "1.36.3"), (None, None)]
