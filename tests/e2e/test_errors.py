# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad days: each gives one clear error, changes nothing it can't finish, and the next run completes."""

from __future__ import annotations

import base64
import copy
import datetime
import ipaddress
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.aks.flexnode.plugins.module_utils.node.net.download import ATTEMPTS
from scripts import build_agent
from testbed import Fault, Testbed
from testbed.basics import podman
from testbed.machine import Machine
from tests.e2e import fleet
from tests.e2e.conftest import MachineMaker
from tests.e2e.photograph import differences, photograph

PROGRAM, CONFIG, CA = "/srv/aks-flex-node.pyz", "/srv/config.json", "/srv/ca.pem"
# Our own: what was fetched, and what was written down about it.
OURS = ("/var/lib/aks-flex-node", "/opt/aks-flex-node", "/etc/aks-flex-node")
# What, where (or a line for each place), why, what to do.
MESSAGE = re.compile(
    r"^FLEX-\d{4}: [^\n]+( \([^)]+\): |:\n  (ERROR )?\S+(:| is) ).+?\nfix: .+", re.DOTALL | re.MULTILINE
)
PREFLIGHT = "FLEX-1310"
Document = dict[str, Any]
Trouble = AbstractContextManager[Document]


@dataclass
class Edge:
    """A machine, the configuration that makes it a node, and how it was before."""

    bed: Testbed
    machine: Machine
    document: Document
    before: dict[str, Any]

    @classmethod
    def made(cls, bed: Testbed, machine: Machine, directory: Path) -> Edge:
        """The program on a fresh machine."""
        machine.copy_to(build_agent.build(directory), PROGRAM)
        machine.copy_to(bed.ca_file, CA)
        document = fleet.join_document(bed)
        document["cni"]["podCIDR"] = machine.pod_cidr
        return cls(bed, machine, document, photograph(machine))

    def run(self, *arguments: str, document: Document | None = None) -> tuple[int, str]:
        """The command; a document goes through a file."""
        if document is not None:
            self.machine.run(["tee", CONFIG], input=json.dumps(document))
            arguments = (*arguments, "--config", CONFIG)
        done = self.machine.run(["python3", PROGRAM, *arguments], check=False, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def fails(self, code: str, *words: str, document: Document, skip: str = "") -> str:
        """A join that ends with one error: this code, all four parts of a message, and these words in it."""
        status, said = self.run("join", *(("--skip", skip) if skip else ()), document=document)
        explained(status, said, code, *words)
        return said

    def fails_twice(self, check: str, code: str, *words: str, document: Document) -> None:
        """The check before a join finds it; who skips that check gets the error of the step that meets it."""
        seen = photograph(self.machine)
        self.fails(PREFLIGHT, f"ERROR {check}: ", "This run changed nothing", document=document)
        assert differences(seen, photograph(self.machine)) == []
        self.fails(code, *words, document=document, skip=check)

    def joins(self, document: Document | None = None) -> None:
        """A join without a fault."""
        status, said = self.run("join", document=document or self.document)
        assert status == 0, said
        assert fleet.is_ready(fleet.node(self.bed, self.machine.name))

    def leaves(self) -> None:
        """The machine is what it was."""
        status, said = self.run("unbootstrap")
        assert status == 0, said
        assert differences(self.before, photograph(self.machine)) == []

    def untouched(self) -> list[str]:
        """What is different from before, our own directories aside."""
        found = differences(self.before, photograph(self.machine))
        return [line for line in found if not line.startswith(tuple(f"files: {path}" for path in OURS))]


def explained(status: int, said: str, code: str, *words: str) -> None:
    """One error: status 1, one code, what, where, why and what to do."""
    assert status == 1, said
    assert set(re.findall(r"FLEX-\d{4}", said)) == {code}, said
    assert MESSAGE.search(said), said
    for word in words:
        assert word in said, said


@pytest.fixture(scope="module")
def edge(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Edge:
    (machine,) = machines(("unlucky", "debian13"))
    return Edge.made(bed, machine, tmp_path_factory.mktemp("dist"))


def changed(document: Document, **sections: Any) -> Document:
    """The document with parts of its sections replaced."""
    made: Document = copy.deepcopy(document)
    for section, values in sections.items():
        made[section] = {**made.get(section, {}), **values} if isinstance(values, dict) else values
    return made


# -- troubles: each holds while its block runs, and gives the document to join with --------------------------


@contextmanager
def mirror_shows(edge: Edge, fault: Fault) -> Iterator[Document]:
    edge.bed.mirror.fail(fault)
    try:
        yield edge.document
    finally:
        edge.bed.mirror.heal()


@contextmanager
def mirror_unreachable(edge: Edge) -> Iterator[Document]:
    yield changed(edge.document, mirror={"url": f"{edge.bed.mirror.url}:444"})


@contextmanager
def disk_full(edge: Edge, place: str, size: str) -> Iterator[Document]:
    """A small disk of its own; what is on it goes with it."""
    existed = edge.machine.run(["test", "-d", place], check=False).returncode == 0
    edge.machine.run(["mkdir", "-p", place])
    edge.machine.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place])
    try:
        yield edge.document
    finally:
        edge.machine.run(["umount", place])
        if not existed:
            edge.machine.run(["rmdir", place])


@contextmanager
def read_only(edge: Edge, place: str) -> Iterator[Document]:
    edge.machine.run(["mount", "--bind", place, place])
    edge.machine.run(["mount", "-o", "remount,ro,bind", place])
    try:
        yield edge.document
    finally:
        edge.machine.run(["umount", place])


@contextmanager
def wrong_ca(edge: Edge) -> Iterator[Document]:
    kubelet = edge.document["node"]["kubelet"]
    other = base64.b64encode(edge.bed.ca_pem.encode()).decode()
    yield changed(edge.document, node={"kubelet": {**kubelet, "caCertData": other}})


@contextmanager
def unknown_key(edge: Edge) -> Iterator[Document]:
    yield changed(edge.document, kubernets={"version": "1.34.4"})


@contextmanager
def other_system(edge: Edge) -> Iterator[Document]:
    edge.machine.run(["mv", "/etc/os-release", "/etc/os-release.real"])
    edge.machine.run(["tee", "/etc/os-release"], input='ID=alpine\nVERSION_ID="3.20"\n')
    try:
        yield edge.document
    finally:
        edge.machine.run(["mv", "/etc/os-release.real", "/etc/os-release"])


@contextmanager
def api_server_down(edge: Edge) -> Iterator[Document]:
    podman.podman("stop", "--time", "0", edge.bed.site.container("kube-apiserver"))
    try:
        yield edge.document
    finally:
        edge.bed.up()


@contextmanager
def api_server_of_tomorrow(edge: Edge) -> Iterator[Document]:
    """What a clock that is a day behind sees: certificates that are not valid yet."""
    with tomorrow(edge.machine) as (url, ca_pem):
        kubelet = edge.document["node"]["kubelet"]
        given = {"serverURL": url, "caCertData": base64.b64encode(ca_pem.encode()).decode()}
        yield changed(edge.document, node={"kubelet": {**kubelet, **given}})


SEEN_BEFORE = {
    "full disk under the programs": "disk-space",
    "full disk under the state": "disk-space",
    "read-only target": "read-only",
    "unsupported platform": "platform",
}
"""What the checks before a join find, and the check that does."""
CASES: dict[str, tuple[Callable[[Edge], Trouble], str, tuple[str, ...]]] = {
    "wrong digest": (
        lambda edge: mirror_shows(edge, Fault("*/kubelet", corrupt=True)),
        "FLEX-1203",
        ("digest of kubelet", "expected sha256", "mirror.catalogue"),
    ),
    "truncated download": (
        lambda edge: mirror_shows(edge, Fault("*/kubelet", truncate=100_000)),
        "FLEX-1202",
        ("kubelet", f"{ATTEMPTS * 100_000} of", "run this again"),
    ),
    "mirror answers with errors": (
        lambda edge: mirror_shows(edge, Fault("*/runc*", status=404)),
        "FLEX-1201",
        ("runc", "HTTP 404", "mirror.url"),
    ),
    "unreachable mirror": (mirror_unreachable, "FLEX-1201", (":444", "Connection refused", "mirror.url")),
    "full disk under the programs": (
        lambda edge: disk_full(edge, "/opt", "20m"),
        "FLEX-1303",
        ("/opt/aks-flex-node", "df -h"),
    ),
    "full disk under the state": (
        lambda edge: disk_full(edge, "/var/lib/aks-flex-node", "2m"),
        "FLEX-1303",
        ("/var/lib/aks-flex-node/cache", "df -h"),
    ),
    "read-only target": (
        lambda edge: read_only(edge, "/usr/local"),
        "FLEX-1304",
        ("/usr/local", "Read-only file system", "remount"),
    ),
    "wrong CA": (wrong_ca, "FLEX-1507", ("not trusted", "caCertData")),
    "unknown key": (unknown_key, "FLEX-1101", ("kubernets", "kubernetes")),
    "unsupported platform": (other_system, "FLEX-1301", ("alpine 3.20", "Ubuntu 22.04")),
    "API server down": (api_server_down, "FLEX-1504", ("6443", "DNS, firewall")),
    "clock off by a day, seen at the API server": (
        api_server_of_tomorrow,
        "FLEX-1507",
        ("not yet valid", "check this machine's clock"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_day(edge: Edge, case: str) -> None:
    trouble, code, words = CASES[case]
    with trouble(edge) as document:
        if check := SEEN_BEFORE.get(case):
            edge.fails_twice(check, code, *words, document=document)
        else:
            edge.fails(code, *words, document=document)
    assert edge.untouched() == []
    edge.joins()
    edge.leaves()


def test_slow_mirror_takes_longer_and_works(edge: Edge) -> None:
    edge.bed.mirror.fail(Fault("*/kubelet", delay=5))
    try:
        edge.joins()
    finally:
        edge.bed.mirror.heal()
    edge.leaves()


# -- certificates out of time -------------------------------------------------------------------------------

SERVER = """
import http.server, ssl
server = http.server.HTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/srv/tomorrow.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@contextmanager
def tomorrow(machine: Machine) -> Iterator[tuple[str, str]]:
    """A TLS server whose certificate is valid from tomorrow; yields its address and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tomorrow")])
    start = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    machine.run(["tee", "/srv/tomorrow.pem"], input=pem + private)
    machine.run(["tee", "/srv/tomorrow-ca.pem"], input=pem)
    machine.run(["tee", "/srv/tomorrow.py"], input=SERVER)
    machine.run(["systemd-run", "--unit=tomorrow", "python3", "/srv/tomorrow.py"])
    listening = ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8443)).close()"]
    fleet.eventually(
        "a listening server", lambda: machine.run(listening, check=False).returncode == 0, seconds=20
    )
    try:
        yield "https://127.0.0.1:8443", pem
    finally:
        machine.run(["systemctl", "stop", "tomorrow.service"])


def test_clock_off_by_a_day_seen_at_the_config_url(edge: Edge) -> None:
    with tomorrow(edge.machine) as (url, _):
        status, said = edge.run(
            "join", "--config-url", f"{url}/node.json", "--ca-cert", "/srv/tomorrow-ca.pem"
        )
    explained(status, said, "FLEX-1103", "not yet valid", "check this machine's clock")
    assert differences(edge.before, photograph(edge.machine)) == []


# -- tokens -------------------------------------------------------------------------------------------------


def expired(bed: Testbed) -> str:
    """A token that was good a moment ago."""
    token = bed.cluster.bootstrap_token(ttl_seconds=1)
    time.sleep(2)
    return token


@pytest.mark.parametrize("kind", ["expired", "unknown"])
def test_dead_token_is_named_and_a_new_one_completes(edge: Edge, kind: str) -> None:
    token = expired(edge.bed) if kind == "expired" else "abcdef.0123456789abcdef"
    document = changed(edge.document, azure={"bootstrapToken": {"token": token}})
    said = edge.fails(
        "FLEX-1503",
        "the token does not exist, has expired, or its secret is wrong",
        "create a new token with `kubeadm token create --kubeconfig ADMIN_KUBECONFIG` (on a computer with",
        document=document,
    )
    assert token not in said
    assert edge.machine.name not in fleet.node_names(edge.bed)
    edge.joins()
    edge.leaves()


# -- others on the machine ----------------------------------------------------------------------------------

FOREIGN = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


@pytest.mark.parametrize("unit", ["containerd.service", "kubelet.service"])
def test_foreign_owner_is_refused_unless_taken_over(edge: Edge, unit: str) -> None:
    machine, path = edge.machine, f"/etc/systemd/system/{unit}"
    machine.run(["tee", path], input=FOREIGN)
    machine.run(["systemctl", "daemon-reload"])
    machine.run(["systemctl", "enable", "--now", unit])
    lived_in = Edge(edge.bed, machine, edge.document, photograph(machine))
    lived_in.fails_twice("foreign-runtime", "FLEX-1305", path, "takeover: true", document=edge.document)
    assert lived_in.untouched() == []
    lived_in.joins(changed(edge.document, takeover=True))
    lived_in.leaves()
    machine.run(["systemctl", "disable", "--now", unit])
    machine.run(["rm", path])
    machine.run(["systemctl", "daemon-reload"])


def test_two_runs_at_once(edge: Edge) -> None:
    """One works, the other waits for it or says who it waits for; afterwards all is well."""
    edge.machine.run(["tee", CONFIG], input=json.dumps(edge.document))
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: edge.run("join", "--config", CONFIG), range(2)))
    assert any(status == 0 for status, _ in runs), runs
    for status, said in runs:
        if status != 0:
            explained(status, said, "FLEX-1401", "aks-flex-node join", "wait until it has finished")
    edge.joins()
    assert edge.run("plan") == (0, "nothing to do\n")
    edge.leaves()


def test_a_held_lease_names_its_owner(edge: Edge) -> None:
    """Longer than anyone waits: the second run gives up and says who is at work."""
    holder = (
        "import fcntl, json, time\n"
        "lock = open('/run/aks-flex-node/lock', 'a')\n"
        "fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "lease = {'operation': 'x', 'owner': 'somebody else', 'pid': 4711,"
        " 'expires': time.monotonic() + 99}\n"
        "open('/run/aks-flex-node/lease.json', 'w').write(json.dumps(lease))\n"
        "time.sleep(90)\n"
    )
    edge.machine.run(["mkdir", "-p", "/run/aks-flex-node"])
    edge.machine.run(["systemd-run", "--unit=holder", "python3", "-c", holder])
    try:
        edge.fails("FLEX-1401", "somebody else (process 4711)", document=edge.document)
    finally:
        edge.machine.run(["systemctl", "stop", "holder.service"])
        edge.machine.run(["rm", "-f", "/run/aks-flex-node/lease.json"])
    assert edge.untouched() == []


# -- a line that is cut -------------------------------------------------------------------------------------


def test_ssh_cut_in_the_middle(edge: Edge, tmp_path: Path) -> None:
    """The connection dies while the module works; the same playbook completes."""
    inventory = fleet.write_inventory(
        edge.bed, [edge.machine], tmp_path / "hosts.yml", flexnode_config=fleet.join_document(edge.bed)
    )
    root = Path(__file__).resolve().parents[2]
    edge.bed.mirror.fail(Fault("*/kubelet", delay=6))  # so that there is a middle
    playbook = [str(Path(sys.executable).parent / "ansible-playbook"), "playbooks/bootstrap.yml"]
    try:
        with subprocess.Popen(
            [*playbook, "-i", str(inventory)], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as running:
            fleet.eventually("a journal", lambda: has(edge.machine, "/var/lib/aks-flex-node/journal"), 60)
            sessions = edge.machine.run(["pgrep", "-f", f"sshd.*: {edge.machine.ssh_user}"]).stdout.split()
            edge.machine.run(["kill", "-9", *sessions])
            said = running.communicate(timeout=120)[0].decode()
        assert running.returncode != 0, said
    finally:
        edge.bed.mirror.heal()
    fleet.succeeded(fleet.play("bootstrap", inventory))
    assert fleet.is_ready(fleet.node(edge.bed, edge.machine.name))
    assert edge.run("plan") == (0, "nothing to do\n")


def has(machine: Machine, path: str) -> bool:
    """Whether a path exists."""
    return machine.run(["test", "-e", path], check=False).returncode == 0


# -- a node that works keeps working ------------------------------------------------------------------------


def test_a_working_node_survives_bad_updates(edge: Edge) -> None:
    """Runs on the node that the cut line left: a bad mirror or document does not disturb it."""
    edge.joins()
    pids = fleet.main_pids(edge.machine)
    unknown = changed(edge.document, kubernetes={"version": "1.34.99"})
    edge.fails("FLEX-1204", "1.34.99", "sha256", document=unknown)
    edge.fails("FLEX-1101", "maxPods", document=changed(edge.document, node={"maxPods": 0}))
    with api_server_down(edge):
        document = changed(edge.document, upgrade={"gateSeconds": 10})
        edge.fails("FLEX-1504", "6443", document=document)
    assert fleet.main_pids(edge.machine) == pids
    fleet.eventually("a Ready node", lambda: fleet.is_ready(fleet.node(edge.bed, edge.machine.name)))
    edge.joins()
    assert fleet.main_pids(edge.machine) == pids
    edge.leaves()
