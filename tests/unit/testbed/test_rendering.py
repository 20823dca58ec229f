# SPDX-License-Identifier: GPL-3.0-or-later
"""What the testbed renders: podman arguments, command lines, credentials, documents."""

from __future__ import annotations

import datetime
import re
import ssl
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from cryptography import x509

from testbed import Testbed, document
from testbed.basics.errors import TestbedError
from testbed.basics.podman import Container, containers_conf
from testbed.cluster import components, rbac, token
from testbed.cluster.credentials import Credentials
from testbed.host import cgroups
from testbed.images import recipes
from testbed.images.oci import Image, digest
from testbed.layout import ssh
from testbed.layout.pki import Authority
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.machine.container import ContainerMachine, machine_options

PLAN = Plan(IPv4Network("10.213.7.0/24"))


def site(directory: Path) -> Site:
    return Site("unit", directory, PLAN, "tb-unit-0")


def container(ip: str = "10.0.0.2") -> Container:
    return Container(
        name="c",
        image="i",
        argv=("/sbin/init",),
        network="n",
        ip=ip,
        mac="02:00:00:00:00:01",
        owner="o",
    )


@pytest.mark.parametrize("name", ["", "Upper", "with-dash", "x" * 21])
def test_a_testbed_name_is_letters_and_digits(name: str) -> None:
    with pytest.raises(TestbedError, match="letters"):
        Testbed(name or "_")


def test_machines_do_not_share_control_groups_on_v1() -> None:
    options = machine_options(pure_v2=False)
    assert "--systemd=false" in options
    assert "--cgroupns=private" in options
    assert "/run:rw,mode=755" in options
    assert "--systemd=always" in machine_options(pure_v2=True)


def test_containers_conf_uses_systemd_only_where_it_runs() -> None:
    assert 'cgroup_manager = "cgroupfs"' in containers_conf(systemd_runs=False)
    assert "cgroup_manager" not in containers_conf(systemd_runs=True)
    assert "default_ulimits = []" in containers_conf(systemd_runs=True)


def test_a_changed_container_has_another_digest() -> None:
    assert container().digest() == container().digest()
    assert container().digest() != container(ip="10.0.0.3").digest()
    args = container().create_args()
    assert args[-2:] == ["i", "/sbin/init"]
    assert args[args.index("--mac-address") + 1] == "02:00:00:00:00:01"


def test_only_controllers_that_are_mounted_nowhere_are_mounted() -> None:
    kernel = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory 4 1 1\nnet_cls 10 5 1\nnet_prio 10 5 1\n"
    kernel += "perf_event 0 1 1\nhugetlb 0 1 0\n"
    mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
    assert cgroups.unmounted(kernel, mounts) == ["net_cls,net_prio", "perf_event"]
    mounts += "cgroup /sys/fs/cgroup/perf_event cgroup rw,relatime,perf_event 0 0\n"
    assert cgroups.unmounted(kernel, mounts) == ["net_cls,net_prio"]


def test_control_plane_command_lines() -> None:
    server = components.apiserver_argv(PLAN)
    assert "--authorization-mode=Node,RBAC" in server
    assert "--enable-bootstrap-token-auth" in server
    assert "--advertise-address=10.213.7.2" in server
    assert not [flag for flag in server if flag.startswith("--kubelet-certificate-authority")]
    assert "--cluster-signing-duration=5m" in components.controller_manager_argv("5m")


def test_rights_of_nodes() -> None:
    bindings = {
        (document["subjects"][0]["name"], document["roleRef"]["name"])
        for _, document in rbac.OBJECTS
        if document["kind"] == "ClusterRoleBinding"
    }
    approve = "system:certificates.k8s.io:certificatesigningrequests"
    assert bindings == {
        ("system:bootstrappers", "system:node-bootstrapper"),
        ("system:bootstrappers", f"{approve}:nodeclient"),
        ("system:bootstrappers:aks-flex-node", "system:node-bootstrapper"),
        ("system:bootstrappers:aks-flex-node", f"{approve}:nodeclient"),
        ("system:nodes", f"{approve}:selfnodeclient"),
        ("system:nodes", "flexnode-self-delete"),
    }


def test_bootstrap_token_secret() -> None:
    made = token.random_token()
    assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", made)
    secret = token.secret(made, datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc))
    assert secret["metadata"]["name"] == f"bootstrap-token-{made[:6]}"
    assert secret["stringData"]["expiration"] == "2030-01-02T03:04:05Z"


def test_certificates_are_made_once_and_name_their_addresses(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca", "unit CA")
    authority.ensure()
    pair = authority.issue("mirror", "mirror", names=["10.213.7.6", "mirror.example"])
    before = pair.pem
    assert authority.issue("mirror", "mirror", names=["10.213.7.6"]).pem == before
    names = x509.load_pem_x509_certificate(before.encode()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(name.value) for name in names.value] == ["10.213.7.6", "mirror.example"]
    assert pair.key.stat().st_mode & 0o777 == 0o600
    ssl.create_default_context(cadata=authority.pem)


def test_control_plane_credentials(tmp_path: Path) -> None:
    here = site(tmp_path)
    here.authority.ensure()
    credentials = Credentials(here)
    credentials.ensure()
    assert credentials.server == "https://10.213.7.2:6443"
    assert credentials.kubeconfig.stat().st_mode & 0o777 == 0o600
    before = credentials.kubeconfig.read_text(encoding="utf-8")
    credentials.ensure()
    assert credentials.kubeconfig.read_text(encoding="utf-8") == before


def test_an_image_is_the_same_bytes_each_time() -> None:
    image = Image("pause", "1", b"layer", entrypoint=("/pause",))
    assert digest(image.manifest()) == digest(
        Image("pause", "1", b"layer", entrypoint=("/pause",)).manifest()
    )
    assert digest(image.packed_layer()).encode() in image.manifest()


def test_a_node_recipe_changes_its_image_name() -> None:
    images = {recipes.node(platform).image for platform in recipes.PLATFORMS}
    assert len(images) == len(recipes.PLATFORMS)
    with pytest.raises(TestbedError, match="debian13"):
        recipes.node("debian11")


def test_inventory_checks_host_keys(tmp_path: Path) -> None:
    machine = ContainerMachine(
        name="edge-1",
        ip="10.213.7.20",
        platform="debian12",
        pod_cidr="10.244.20.0/24",
        ssh_key=tmp_path / "key",
        known_hosts=tmp_path / "known_hosts",
        site=site(tmp_path),
    )
    host = document.inventory([machine])["all"]["hosts"]["edge-1"]
    assert host["ansible_host"] == "10.213.7.20"
    assert "StrictHostKeyChecking=yes" in host["ansible_ssh_common_args"]
    assert "StrictHostKeyChecking=yes" in machine.ssh("true")
    public = machine.host_key()
    assert machine.host_key() == public
    assert ssh.known_host("edge-1", machine.ip, public).startswith("edge-1,10.213.7.20 ssh-ed25519 ")
