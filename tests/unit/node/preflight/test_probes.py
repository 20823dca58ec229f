# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The probes: real files under a temporary root, real servers on 127.0.0.1."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from email.utils import formatdate
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import (
    ApiServer,
    Certificates,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ConfigUnreachable,
    FlexNodeError,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.token import AccessToken
from ansible_collections.aks.flexnode.plugins.module_utils.node.net import tls
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.kube import KubeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.proxy import download_client
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.rights import (
    GET_CERTIFICATE,
    RUN_KUBELET,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.checks.machine import records
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.finding import Finding
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.probes.azure import (
    Asked,
    ask_azure,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.probes.host import (
    Ways,
    disks,
    probe_machine,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.probes.network import (
    default_mtus,
    links,
    listeners,
    nameservers,
    owner_of,
    ports_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.probes.parallel import together
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.probes.reach import (
    ask_api,
    ask_artifacts,
    ask_file,
    ask_proxies,
    ask_proxy,
    ask_registries,
    ask_registry,
    connect,
    get,
    skew_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.reach import asker, to_download
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.seen import (
    Disk,
    Link,
    Listener,
    Swap,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Url
from tests.unit.node.config.test_samples import CLUSTER, PRINCIPAL, TENANT, joining
from tests.unit.node.fake_api import FakeApi
from tests.unit.node.fakes import FakeClock, Machine
from tests.unit.node.preflight.healthy import HEALTHY, situation
from tests.unit.node.servers import Answer, Pki, Request, answer_json, serving

REST = "00000000:00000000 00:00000000 00000000 0 0"
TCP = f"""  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:280A 00000000:0000 0A {REST} 4711 1 0 100 0 0 10 0
   1: 0100007F:2808 0100007F:9999 01 {REST} 4712 1 0 100 0 0 10 0
"""
TCP6 = f"""  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:2811 00000000000000000000000000000000:0000 0A {REST} 99 1 0 100 0 0 10
"""
ROUTES = """Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth1	0000000A	010200C0	0003	0	0	0	000000FF	0	0	0
down	0000010A	00000000	0000	0	0	0	0000FFFF	0	0	0
"""
TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 192.0.2.2
        /32 host LOCAL
     |-- 203.0.113.9
        /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
"""
INET6 = """fd000000000000000000000000000002 04 40 00 82     eth0
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""


# -- the machine ---------------------------------------------------------------------------------------------


def test_ports_that_are_listened_on_and_who_does(debian: Machine) -> None:
    debian.put("/proc/net/tcp", TCP)
    debian.put("/proc/net/tcp6", TCP6)
    debian.put("/proc/77/comm", "nginx\n")
    debian.path("/proc/77/fd").mkdir()
    debian.path("/proc/77/fd/3").symlink_to("socket:[4711]")
    debian.put("/proc/78/comm", "gone\n")
    found = listeners(debian.host)
    assert found == (Listener(10250, "0.0.0.0", "4711"), Listener(10257, "::1", "99"))  # noqa: S104
    assert owner_of(debian.host, found[0]) == replace(found[0], owner="nginx", pid=77)
    assert owner_of(debian.host, found[1]) == found[1]


def test_the_ports_of_a_node() -> None:
    assert set(ports_of(None)) == {10250, 10248, 10257}
    config = parse(joining({"kubelet": {"configOverrides": {"readOnlyPort": 10255, "healthzPort": 0}}}))
    assert set(ports_of(config)) == {10250, 10255, 10257}


def test_networks_of_the_machine(debian: Machine) -> None:
    debian.put("/proc/net/route", ROUTES)
    debian.put("/proc/net/fib_trie", TRIE)
    debian.put("/proc/net/if_inet6", INET6)
    debian.put("/sys/class/net/eth0/mtu", "1400\n")
    assert links(debian.host) == (
        Link("eth0", ip_network("192.0.2.0/24")),
        Link("eth0", ip_network("fd00::/64")),
        Link("", ip_network("203.0.113.9/32")),
    )
    assert default_mtus(debian.host) == {"eth0": 1400}


def test_the_resolvers_that_pods_get(debian: Machine) -> None:
    debian.put("/etc/resolv.conf", "search x\nnameserver 127.0.0.53\n")
    assert nameservers(debian.host) == (ip_address("127.0.0.53"),)
    debian.put(
        "/run/systemd/resolve/resolv.conf", "nameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver x\n"
    )
    assert nameservers(debian.host) == (ip_address("192.0.2.1"), ip_address("fe80::1"))


def test_a_machine_as_it_is(debian: Machine) -> None:
    debian.put("/proc/meminfo", "MemTotal: 2048 kB\nMemAvailable: 1024 kB\n")
    debian.put("/etc/environment", 'PATH="/bin"\nexport HTTPS_PROXY="http://proxy.example:3128"\nno_proxy=\n')
    debian.put("/proc/1/comm", "systemd\n")
    debian.put("/proc/2/comm", "dockerd\n")
    debian.put("/proc/2/status", "Name:\tdockerd\nNSpid:\t2\n")
    debian.put("/proc/3/comm", "kubelet\n")
    debian.put("/proc/3/status", "Name:\tkubelet\nNSpid:\t3\t17\n")  # of a container
    debian.put("/etc/cni/net.d/10-calico.conflist", "{}")
    debian.put("/etc/cni/net.d/README", "")
    debian.put("/usr/sbin/iptables", "")
    debian.put("/lib/modules/6.1.0-test/modules.dep", "kernel/fs/overlayfs/overlay.ko.xz:\n")
    debian.put("/usr/lib/systemd/system/docker.service")
    seen = probe_machine(debian.host, parse(joining()), Ways("x86_64", 0))
    assert (seen.memory, seen.memory_available) == (2 << 20, 1 << 20)
    assert seen.environment == {"https_proxy": "http://proxy.example:3128"}
    assert seen.processes == {"dockerd"}
    assert seen.cni_files == ("/etc/cni/net.d/10-calico.conflist",)
    assert seen.tools == {"iptables", "nft", "mount", "umount", "modprobe"}
    assert (seen.modules_to_load, seen.modules_missing) == (("overlay", "nf_conntrack"), ("nf_conntrack",))
    assert seen.foreign == ("/usr/lib/systemd/system/docker.service",)
    assert seen.swaps == (Swap("/swapfile", 0),)
    assert seen.controllers == {"cpu", "memory", "pids"}
    assert (seen.hostname, seen.root, seen.joined, seen.state_error) == ("edge-1", True, False, "")
    assert seen.disks
    assert debian.commands.calls == []


def test_looking_changes_nothing(debian: Machine) -> None:
    before = debian.snapshot()
    probe_machine(debian.host, parse(joining()), Ways("x86_64", 0))
    assert debian.snapshot() == before


def test_controllers_of_cgroup_v1(debian: Machine) -> None:
    debian.path("/sys/fs/cgroup/cgroup.controllers").unlink()
    debian.put("/proc/cgroups", "#subsys_name hierarchy num enabled\ncpu\t1\t11\t1\nmemory\t0\t1\t0\n")
    seen = probe_machine(debian.host, None, Ways("x86_64", 0))
    assert (seen.cgroup_v2, seen.controllers) == (False, frozenset({"cpu"}))


IDENTITY = "/var/lib/kubelet/pki/kubelet-client-current.pem"


def test_a_certificate_is_a_strangers_unless_we_have_been_here(debian: Machine) -> None:
    debian.put(IDENTITY, "a certificate\n")
    seen = probe_machine(debian.host, None, Ways("x86_64", 0))
    assert (seen.identity_left, seen.joined) == (IDENTITY, False)
    debian.store.journal.record([File("/etc/systemd/system/kubelet.service", "ours")])
    seen = probe_machine(debian.host, None, Ways("x86_64", 0))
    assert (seen.identity_left, seen.joined, seen.ours) == ("", True, frozenset({"kubelet.service"}))


def test_records_that_cannot_be_read(debian: Machine) -> None:
    debian.put("/var/lib/aks-flex-node/journal", "nonsense\n")
    assert "journal, line 1" in probe_machine(debian.host, None, Ways("x86_64", 0)).state_error
    assert probe_machine(debian.host, None, Ways("x86_64", 1000)).state_error == "only root can read them"


@pytest.mark.parametrize(
    ("name", "content", "remedy", "not_this"),
    [
        ("journal", "nonsense\n", "do not delete it", "remove it"),
        ("journal", '{"schema": 99, "writer": "9.0.0"}\n', "that version or a newer one", "remove it"),
        ("state.json", '{"schema": 99}', "that version or a newer one", "remove it"),
        ("state.json", "nonsense", "rm /var/lib/aks-flex-node/state.json", "backup"),
    ],
)
def test_records_that_cannot_be_read_have_a_remedy_of_their_own(
    debian: Machine, name: str, content: str, remedy: str, not_this: str
) -> None:
    debian.put(f"/var/lib/aks-flex-node/{name}", content)
    seen = probe_machine(debian.host, None, Ways("x86_64", 0))
    (found,) = records(replace(situation(), machine=seen))
    assert isinstance(found, Finding)
    assert remedy in found.fix
    assert not_this not in found.fix


def test_a_token_that_was_refused_here(debian: Machine) -> None:
    debian.store.note(join={"token": "abcdef", "digest": "5e", "what": "no", "outcome": "refused"})
    assert probe_machine(debian.host, None, Ways("x86_64", 0)).refused_token == "5e"
    debian.store.set_join("abcdef", "joined")
    assert probe_machine(debian.host, None, Ways("x86_64", 0)).refused_token == ""


def test_disks_of_what_does_not_exist_yet_are_those_above(debian: Machine) -> None:
    asked: list[str] = []

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path.removeprefix(str(debian.root)) or "/")
        return os.statvfs_result((4096, 4096, 100, 50, 40, 10, 5, 4, os.ST_RDONLY | os.ST_NOEXEC, 255))

    found = disks(debian.host, None, statvfs)
    assert asked == ["/etc", "/", "/usr/local/bin", "/", "/", "/"]
    assert found[1] == Disk(
        "/opt/aks-flex-node", debian.root.stat().st_dev, 409600, 163840, 10, 4, True, True
    )


def test_a_file_system_that_the_kernel_writes_no_more_after_an_error(debian: Machine) -> None:
    assert not any(disk.read_only for disk in disks(debian.host, None, os.statvfs))
    debian.put("/proc/mounts", "/dev/vda / ext4 rw,relatime,emergency_ro 0 0\n")
    assert all(disk.read_only for disk in disks(debian.host, None, os.statvfs))


def test_a_file_system_that_hangs_is_not_waited_for(debian: Machine) -> None:
    hanging = threading.Event()

    def slow(path: str) -> os.statvfs_result:
        hanging.wait(5)
        return os.statvfs(path)

    began = time.monotonic()
    ways = Ways("x86_64", 0, lambda path: (hanging.wait(5) and os.statvfs(path)) or os.statvfs(path), 0.05)
    assert probe_machine(debian.host, None, ways).disks is None
    hanging.set()
    assert time.monotonic() - began < 2


# -- several at once -----------------------------------------------------------------------------------------


def test_probes_run_at_once_and_the_slow_are_left_behind() -> None:
    gate, never = threading.Barrier(2, timeout=5), threading.Event()
    probes = {"a": lambda: gate.wait() >= 0, "b": lambda: gate.wait() >= 0, "c": lambda: never.wait(5)}
    assert together(probes, 2) == ({"a": True, "b": True}, ("c",))
    never.set()


def test_a_probe_that_breaks_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        together({"a": lambda: 1 / 0}, 5)


# -- the API server ------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(time.time())


def api(url: str, pki: Pki) -> ApiServer:
    return ApiServer(url, Certificates(pki.ca_pem))


def test_an_api_server_that_answers(pki: Pki, clock: FakeClock) -> None:
    with serving(lambda _: answer_json({"gitVersion": "v1.34.4"}), pki.server_context()) as server:
        answer = ask_api(api(server.url, pki), clock)
    assert (answer.failed, answer.version, answer.is_kubernetes, answer.status) == ("", "v1.34.4", True, 200)
    assert answer.addresses == ("127.0.0.1",)
    assert answer.skew is not None
    assert abs(answer.skew) < 5
    assert server.asked == ["GET /version"]
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("plant.example", "plant.example:6443"),
        ("2001:db8::a", "[2001:db8::a]:6443"),
        ("2001:db8::10", "[2001:db8::10]:6443"),
    ],
)
def test_an_ipv6_address_has_no_port_at_its_end(name: str, host: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        status, _headers, body = get(ours, name, 6443, "/version")
        assert (status, body) == (200, b"{}")
        assert f"Host: {host}\r\n".encode() in theirs.recv(4096)


@pytest.mark.parametrize(
    ("given", "is_kubernetes"),
    [
        (answer_json({"kind": "Status", "message": "Unauthorized"}, 401), True),
        (answer_json({"kind": "Status"}, 403), True),
        (Answer(b"<html>log in to the hotel</html>"), False),
        (Answer(b"[]"), False),
    ],
)
def test_who_answers(pki: Pki, clock: FakeClock, given: Answer, is_kubernetes: bool) -> None:
    with serving(lambda _: given, pki.server_context()) as server:
        answer = ask_api(api(server.url, pki), clock)
    assert (answer.failed, answer.is_kubernetes, answer.status) == ("", is_kubernetes, given.status)


def test_a_name_that_does_not_exist(pki: Pki, clock: FakeClock) -> None:
    assert ask_api(api("https://plant.invalid", pki), clock).failed == "dns"


def test_a_port_that_nobody_listens_on(pki: Pki, clock: FakeClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answer = ask_api(api(f"https://127.0.0.1:{port}", pki), clock)
    assert (answer.failed, answer.reason) == ("tcp", "Connection refused")


def test_a_certificate_of_another_ca(pki: Pki, clock: FakeClock, tmp_path: Path) -> None:
    other = Pki.make(tmp_path)
    with serving(lambda _: Answer(), other.server_context()) as server:
        answer = ask_api(api(server.url, pki), clock)
    assert answer.failed == "tls"
    assert "not trusted" in answer.reason


def test_a_server_without_tls(pki: Pki, clock: FakeClock) -> None:
    with serving(lambda _: Answer()) as server:
        answer = ask_api(api(server.url.replace("http:", "https:"), pki), clock)
    assert answer.failed == "tls"


@pytest.mark.parametrize("tls", [False, True])
def test_a_server_that_says_nothing_is_not_waited_for(pki: Pki, clock: FakeClock, tls: bool) -> None:
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(
            target=_silent, args=(listener, pki.server_context() if tls else None), daemon=True
        )
        thread.start()
        answer = ask_api(api(f"https://127.0.0.1:{listener.getsockname()[1]}", pki), clock, 2)
    assert (answer.failed, answer.reason) == ("http" if tls else "tls", "no answer in time")
    assert time.monotonic() - began < 20
    thread.join(5)


def _silent(listener: socket.socket, context: ssl.SSLContext | None) -> None:
    connection, _address = listener.accept()
    with connection:
        secured = context.wrap_socket(connection, server_side=True) if context else connection
        try:
            while secured.recv(4096):
                pass
        except OSError:
            pass


@pytest.mark.parametrize(
    ("headers", "skew"),
    [
        ({"Date": formatdate(1_800_000_000 - 90, usegmt=True)}, 90),
        ({"Date": formatdate(1_800_000_000, usegmt=True), "Age": "40"}, None),
        ({"Date": "yesterday"}, None),
        ({}, None),
    ],
)
def test_clocks(headers: dict[str, str], skew: float | None) -> None:
    assert skew_of(headers, FakeClock()) == skew


# -- what is downloaded --------------------------------------------------------------------------------------


def test_one_byte_of_every_file_is_asked_for_and_one_file_once(pki: Pki, clock: FakeClock) -> None:
    with serving(lambda _: Answer(b"x", 206), pki.server_context()) as server:
        config = parse(joining({"mirror": {"url": server.url, "caCert": pki.ca_pem}}))
        artifacts = to_download(Machine.at(Path("/nonexistent")).host, config, HEALTHY)
        probes = ask_artifacts([*artifacts, artifacts[0]], config, clock)
        answers, late = together(probes, 10)
    assert late == ()
    assert {name for answer in answers.values() for name in answer.names} == {
        "kubelet", "kubectl", "kubeadm", "containerd", "runc", "cni-plugins",
    }  # fmt: skip
    assert not any(answer.failure for answer in answers.values())
    assert len(server.requests) == 6
    assert {request.headers["Range"] for request in server.requests} == {"bytes=0-0"}


@pytest.mark.parametrize(
    ("status", "missing"), [(404, True), (403, True), (407, False), (500, False), (503, False)]
)
def test_a_file_that_is_not_there(pki: Pki, clock: FakeClock, status: int, missing: bool) -> None:
    with serving(lambda _: Answer(status=status), pki.server_context()) as server:
        answer = ask_file(
            HttpClient(ca_pem=pki.ca_pem, attempts=1), f"{server.url}/x?sig=secret", ("runc",), clock
        )
    assert answer.failure.startswith(f"HTTP {status}")
    assert (answer.missing, answer.names) == (missing, ("runc",))
    assert "secret" not in answer.url
    assert len(server.requests) == 1, "once is enough to know"


def test_what_is_here_is_not_asked_for(debian: Machine) -> None:
    config = parse(joining())
    wanted = to_download(debian.host, config, HEALTHY)
    debian.put(f"/var/lib/aks-flex-node/cache/{wanted[0].sha256}", "x")
    for artifact, suffix in ((wanted[1], ""), (wanted[2], ".staging")):  # installed; unpacked by a failed run
        tree = (
            f"/opt/aks-flex-node/versions/{artifact.name}/{artifact.version}-{artifact.sha256[:12]}{suffix}"
        )
        debian.put(f"{tree}/.manifest.json", f'{{"artifact": "{artifact.sha256}", "files": {{}}}}')
    assert to_download(debian.host, config, HEALTHY) == wanted[3:]
    assert to_download(debian.host, config, replace(HEALTHY, machine="armv7l")) == []


@pytest.mark.parametrize(("status", "failure"), [(200, ""), (401, ""), (503, "HTTP 503 Service Unavailable")])
def test_a_registry(pki: Pki, clock: FakeClock, status: int, failure: str) -> None:
    with serving(lambda _: Answer(status=status), pki.server_context()) as server:
        mirrors = {"_default": {"endpoints": [server.url], "caCert": pki.ca_pem}}
        answers, _late = together(ask_registries(parse(joining({"registryMirrors": mirrors})), clock), 10)
    assert [answer.failure for answer in answers.values()] == [failure]
    assert server.asked == ["GET /v2/"]


@pytest.mark.parametrize(
    ("mirrored", "bundle", "advice"),
    [
        (False, None, "apt-get install ca-certificates"),
        (False, b"", "apt-get install ca-certificates"),
        (False, b"-----BEGIN CERTIFICATE-----", "mirror.caCert"),
        (True, None, "mirror.caCert"),
    ],
)
def test_a_machine_without_ca_certificates_is_told_to_install_them(
    pki: Pki,
    clock: FakeClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mirrored: bool,
    bundle: bytes | None,
    advice: str,
) -> None:
    monkeypatch.setattr(tls, "SYSTEM_CAS", str(tmp_path / "ca-certificates.crt"))
    if bundle is not None:
        (tmp_path / "ca-certificates.crt").write_bytes(bundle)
    with serving(lambda _: Answer(b"x"), pki.server_context()) as server:
        config = parse(joining({"mirror": {"url": server.url}} if mirrored else {}))
        source = ask_file(download_client(config, clock, attempts=1), f"{server.url}/runc", ("runc",), clock)
        with pytest.raises(ConfigUnreachable) as caught:
            Url(f"{server.url}/config.json", HttpClient(attempts=1)).fetch()
        registry = parse(joining({"containerd": {"pauseImage": f"{server.url[8:]}/pause:3.10"}}))
        answers, _late = together(ask_registries(registry, clock), 10)
    assert advice in source.advice
    assert ("apt-get" in caught.value.fix) is not bool(bundle)
    assert ["apt-get" in answer.advice for answer in answers.values()] == [not bundle]


def test_a_proxy_and_its_password(clock: FakeClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = parse(joining({"proxy": {"https": f"http://user:hidden@127.0.0.1:{port}"}}))
        answers, _late = together(ask_proxies(config), 10)
        assert answers["proxy.https"].failure == ""
    answers, _late = together(ask_proxies(config), 10)
    assert answers["proxy.https"].failure == "Connection refused"
    assert "hidden" not in str(answers)


# -- Azure ---------------------------------------------------------------------------------------------------

CLAIMS = urlsafe_b64encode(b'{"oid": "some-oid"}').decode().rstrip("=")


class Somebody:
    name = "test identity"

    def __init__(self, trouble: FlexNodeError | None = None) -> None:
        self.trouble, self.asked = trouble, list[str]()

    def token(self, audience: str) -> AccessToken:
        self.asked.append(audience)
        if self.trouble:
            raise self.trouble
        return AccessToken(Secret(f"e30.{CLAIMS}.c2ln"), 0, 0)


def azure_config(url: str, **more: Any) -> Any:
    azure = {
        "servicePrincipal": PRINCIPAL,
        "tenantId": TENANT,
        "bootstrapToken": None,
        "resourceManagerEndpoint": url,
    }
    return parse(joining({"azure": azure, **more}))


@pytest.fixture
def arm(pki: Pki) -> Iterator[tuple[Any, dict[str, Answer]]]:
    answers: dict[str, Answer] = {}

    def answer(request: Request) -> Answer:
        assert request.headers["Authorization"].startswith("Bearer ")
        return answers[request.path.partition("?")[0]]

    with serving(answer, pki.server_context()) as server:
        yield server, answers


def test_what_an_identity_may_do(arm: tuple[Any, dict[str, Answer]], pki: Pki, debian: Machine) -> None:
    server, answers = arm
    path = f"{CLUSTER}/providers/Microsoft.Authorization/permissions"
    answers[path] = answer_json({"value": [{"actions": ["*/read"]}]})
    somebody = Somebody()
    asked = Asked(HttpClient(ca_pem=pki.ca_pem, attempts=1))
    found = ask_azure(azure_config(server.url), debian.host, lambda *_: somebody, asked)
    access = found["azure"]
    assert access is found["kubernetes"]
    assert (access.failure, access.principal_id, access.granted) == (
        "",
        "some-oid",
        ({"actions": ["*/read"]},),
    )
    assert set(somebody.asked) == {"6dae42f8-4368-4678-94ff-3960e28e3630", f"{server.url}/"}


@pytest.mark.parametrize(("status", "granted"), [(403, ()), (404, None), (500, None)])
def test_who_may_not_ask_has_nothing(
    arm: tuple[Any, dict[str, Answer]], pki: Pki, debian: Machine, status: int, granted: tuple[()] | None
) -> None:
    server, answers = arm
    answers[f"{CLUSTER}/providers/Microsoft.Authorization/permissions"] = Answer(status=status)
    asked = Asked(HttpClient(ca_pem=pki.ca_pem, attempts=1))
    found = ask_azure(azure_config(server.url), debian.host, lambda *_: Somebody(), asked)
    access = found["azure"]
    assert access is found["kubernetes"]
    assert access.granted == granted
    assert bool(access.why_unread) == (granted is None)


@pytest.mark.parametrize(
    ("answer", "granted", "unread"),
    [
        (answer_json({"value": []}), 1, ""),
        (answer_json({"welcome": "to the hotel"}), None, "not Azure Resource Manager"),
        (answer_json({"error": {"code": "AuthorizationFailed"}}, 403), 0, ""),
        (Answer(b"<html>", 404), None, "HTTP 404"),
        (Answer(status=500), None, "HTTP 500"),
    ],
)
def test_what_an_identity_may_do_at_its_pool_is_found_by_doing_it(
    arm: tuple[Any, dict[str, Answer]],
    pki: Pki,
    debian: Machine,
    answer: Answer,
    granted: int | None,
    unread: str,
) -> None:
    """The role of a pool can't read permissions: its machines are listed, which every such role allows."""
    server, answers = arm
    answers[f"{CLUSTER}/agentPools/edge/machines"] = answer
    azure = {
        "servicePrincipal": PRINCIPAL,
        "resourceManagerEndpoint": server.url,
        "targetAgentPoolName": "edge",
    }
    asked = Asked(HttpClient(ca_pem=pki.ca_pem, attempts=1))
    document = joining({"continuousMonitoring": True, "azure": azure})
    found = ask_azure(parse(document), debian.host, lambda *_: Somebody(), asked)
    access = found["azure"]
    assert (None if access.granted is None else len(access.granted)) == granted
    assert unread in access.why_unread


@pytest.mark.parametrize("numbers", ["", " Trace ID: b2ea5bda-e9e3 Correlation ID: 0036aa23"])
def test_no_token(debian: Machine, numbers: str) -> None:
    why = f"the secret has expired{numbers}"
    refused = FlexNodeError("no token", where="sign-in", why=why, fix="renew it")
    config = azure_config("https://127.0.0.1:1")
    found = ask_azure(config, debian.host, lambda *_: Somebody(refused), Asked(HttpClient(attempts=1)))
    access = found["azure"]
    assert access is found["kubernetes"]
    assert (access.failure, access.advice) == ("no token (sign-in): the secret has expired", "renew it")


@pytest.mark.parametrize(
    ("profile", "denied", "refuse", "expected"),
    [
        ("certificate", set(), {}, ((), "", "")),
        ("certificate", {"create certificatesigningrequests/nodeclient"}, {}, (GET_CERTIFICATE[1:], "", "")),
        ("certificate", {"create nodes"}, {}, ((), "", "")),  # it is not what obtains a certificate
        ("token", {"create nodes"}, {}, (RUN_KUBELET[:1], "", "")),
        ("token", set(), {"POST": 401}, (None, "", "refused by the test (401)")),
        ("token", set(), {"POST": 403}, (None, "refused by the test (403)", "")),
        ("token", set(), {"POST": 500}, (None, "HTTP 500", "")),
        ("token", {"?watch pods"}, {}, (None, "webhook is down", "")),
    ],
)
def test_what_the_api_server_says_of_an_identity(
    pki: Pki,
    debian: Machine,
    profile: str,
    denied: set[str],
    refuse: dict[str, int],
    expected: tuple[Any, str, str],
) -> None:
    api = FakeApi(denied=denied, refuse=refuse)
    with serving(api.answer, pki.server_context()) as server:
        asked = Asked(
            HttpClient(attempts=1),
            lambda token: KubeClient(server.url, pki.ca_pem, token=token, attempts=1),
        )
        config = azure_config("https://127.0.0.1:1", kubernetesAuth={"profile": profile})
        access = ask_azure(config, debian.host, lambda *_: Somebody(), asked)["kubernetes"]
    lacks, why_unasked, not_accepted = expected
    assert access.lacks == lacks
    assert why_unasked in access.why_unasked
    assert bool(access.why_unasked) == bool(why_unasked)
    assert access.not_accepted == not_accepted


def test_a_kubelet_with_a_certificate_is_asked_no_more(debian: Machine) -> None:
    config = azure_config("https://127.0.0.1:1")
    certified = replace(HEALTHY, joined=True)
    assert asker(config, certified, debian.host, 1) is None
    assert asker(config, HEALTHY, debian.host, 1) is not None
    tokens = azure_config("https://127.0.0.1:1", kubernetesAuth={"profile": "token"})
    assert asker(tokens, certified, debian.host, 1) is not None


def test_a_ca_that_openssl_does_not_take_is_no_crash(debian: Machine) -> None:
    broken = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    asked = Asked(
        HttpClient(attempts=1), lambda token: KubeClient("https://127.0.0.1:1", broken, token=token)
    )
    config = azure_config("https://127.0.0.1:1")
    access = ask_azure(config, debian.host, lambda *_: Somebody(), asked)["kubernetes"]
    assert "CA can't be used" in access.why_unasked


def test_a_slow_api_server_is_not_blamed_on_the_token(pki: Pki, debian: Machine) -> None:
    def slow(_request: Request) -> Answer:
        time.sleep(1)
        return answer_json({"status": {"allowed": True}}, 201)

    with serving(slow, pki.server_context()) as server:
        asked = Asked(
            HttpClient(attempts=1),
            lambda token: KubeClient(server.url, pki.ca_pem, token=token, attempts=1),
            seconds=0.2,
        )
        config = azure_config("https://127.0.0.1:1", kubernetesAuth={"profile": "token"})
        access = ask_azure(config, debian.host, lambda *_: Somebody(), asked)["kubernetes"]
    assert (access.failure, access.lacks) == ("", None)
    assert access.why_unasked == "the API server did not answer in time"


# -- names that are none, and firewalls that drop ----------------------------------------------------------


@pytest.mark.parametrize("name", ["a..b", f"{'x' * 64}.example"])
def test_a_name_that_is_none_is_a_finding(name: str) -> None:
    url = f"https://{name}"
    client = HttpClient(attempts=1)
    assert ask_proxy("proxy.http", Secret(url), 1).failure
    assert ask_file(client, url, ("kubelet",), FakeClock()).failure
    assert ask_registry(client, url, "pause").failure


def test_addresses_that_drop_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def drop(_address: object, seconds: float) -> None:
        limits.append(seconds)
        raise TimeoutError

    monkeypatch.setattr("socket.create_connection", drop)
    with pytest.raises(TimeoutError):
        connect(["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"], 443, 3)
    assert limits == [1, 1, 1]
