# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight: everything that would keep a machine from joining is told at once, and nothing is touched.

The faults are real: a squatter on a port, small and read-only disks, addresses, a file that the mirror lacks.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scripts import build_agent
from testbed import Testbed, arc
from testbed.azure import Principal
from testbed.machine import Machine
from testbed.playbooks import Play
from tests.e2e import fleet
from tests.e2e.audit import Audit, audit
from tests.e2e.conftest import MachineMaker
from tests.e2e.photograph import differences, photograph

__all__ = ["audit"]

NAME, OTHER = "preflight-1", "preflight-2"
PROGRAM, CONFIG = "/srv/aks-flex-node.pyz", "/srv/config.json"
ENTRY = re.compile(r"^  ERROR ([a-z-]+): (.+)\n    fix: (.+)$", re.MULTILINE)  # of the error of a join
Document = dict[str, Any]


def merged(one: Mapping[str, Any], over: Mapping[str, Any]) -> Document:
    """A document with parts of it replaced."""
    both = {key: merged(one[key], over[key]) for key in over if isinstance(over[key], dict) and key in one}
    return {**one, **over, **both}


# -- faults -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flaw:
    """One thing that is wrong: on the machine, brought and taken away by commands, or in the document."""

    id: str
    severity: str
    found: str
    fix: str
    plant: str = ":"
    heal: str = ":"
    document: Callable[[Testbed], Document] = field(default=lambda _bed: {})


def other_ca(bed: Testbed) -> Document:
    """The mirror's CA, which did not sign the API server."""
    return {"node": {"kubelet": {"caCertData": base64.b64encode(bed.ca_pem.encode()).decode()}}}


def dead_proxy(bed: Testbed) -> Document:
    """A proxy that nobody runs, for everything but this site's own services."""
    own = [url.rpartition("/")[2] for url in (bed.mirror.url, f"//{bed.registry.host}", bed.azure.url)]
    return {"proxy": {"https": "http://127.0.0.1:3128", "no": [host.partition(":")[0] for host in own]}}


def dead_registry(bed: Testbed) -> Document:
    """An endpoint for the pause image that nobody answers at."""
    return {"registryMirrors": {bed.registry.host: {"endpoints": ["https://127.0.0.1:5999"]}}}


def service_principal(bed: Testbed, principal: Principal, secret: str = "") -> Document:
    """An identity of the node's own."""
    return {
        "azure": {
            "activeDirectoryEndpoint": bed.azure.url,
            "resourceManagerEndpoint": bed.azure.url,
            "servicePrincipal": {
                "clientId": principal.client_id,
                "clientSecret": secret or principal.secret,
                "clientTenant": bed.azure.tenant_id,
            },
        },
        "kubernetesAuth": {"method": "bootstrapToken"},
    }


def wrong_secret(bed: Testbed) -> Document:
    """An identity with the secret of yesterday."""
    return service_principal(bed, bed.azure.app_registration(NAME), "yesterday~0123456789")


# In the order in which they are mended: what is below may carry what is above.
FLAWS = (
    Flaw(
        "port-in-use",
        "error",
        "port 10250 is used by systemd (process 1)",
        "ss --listening --tcp --processes 'sport = :10250'",
        "systemd-run --unit=squatter --socket-property=ListenStream=10250 cat",
        "systemctl stop squatter.socket",
    ),
    Flaw(
        "foreign-runtime",
        "error",
        "dockerd runs, not started by a unit of this collection",
        "takeover: true",
        "cp /bin/sleep /srv/dockerd && systemd-run --unit=engine /srv/dockerd infinity",
        "systemctl stop engine && rm /srv/dockerd",
    ),
    Flaw(
        "node-name",
        "error",
        "the host name is 'edge_1'",
        "hostnamectl set-hostname NAME",
        "sysctl --write kernel.hostname=edge_1",
        f"sysctl --write kernel.hostname={NAME}",
    ),
    Flaw(
        "kubelet-identity",
        "error",
        "/var/lib/kubelet/pki/kubelet-client-current.pem belongs to a kubelet that this collection did "
        "not install",
        "rm --recursive /var/lib/kubelet/pki",
        "mkdir --parents /var/lib/kubelet/pki && touch /var/lib/kubelet/pki/kubelet-client-current.pem",
        "rm --recursive /var/lib/kubelet/pki",
    ),
    Flaw(
        "disk-pressure",
        "error",
        "nodefs.available of /var/lib/kubelet is 5%, and pods are evicted below 10%",
        "df -h /var/lib/kubelet",
        "mount -t tmpfs -o size=20M tmpfs /var/lib/kubelet && fallocate -l 19M /var/lib/kubelet/full",
        "umount /var/lib/kubelet",
    ),
    Flaw(
        "disk-space",
        "error",
        "0.5 GiB are free for /var/lib/aks-flex-node",
        "df -h /var/lib/aks-flex-node",
        "mkdir /var/lib/aks-flex-node && mount -t tmpfs -o size=512M tmpfs /var/lib/aks-flex-node",
        "umount /var/lib/aks-flex-node && rmdir /var/lib/aks-flex-node",
    ),
    Flaw(
        "noexec",
        "error",
        "/opt/aks-flex-node is on a file system that is mounted noexec",
        "mount --options remount,exec",
        "mount --bind /opt /opt && mount -o remount,bind,noexec /opt",
        "umount /opt",
    ),
    Flaw(
        "read-only",
        "error",
        "/usr/local/bin is on a read-only file system",
        "mount --options remount,rw",
        "mount --bind /usr/local /usr/local && mount -o remount,bind,ro /usr/local",
        "umount /usr/local",
    ),
    Flaw(
        "tool-missing",
        "error",
        "neither iptables nor nft is installed",
        "apt-get install iptables",
        "mv /usr/sbin/iptables /srv",
        "mv /srv/iptables /usr/sbin",
    ),
    Flaw(
        "cni-files",
        "warning",
        "/etc/cni/net.d/05-other.conflist",
        "remove those that are not needed",
        "mkdir --parents /etc/cni/net.d && echo '{}' > /etc/cni/net.d/05-other.conflist",
        "rm --recursive /etc/cni",
    ),
    Flaw(
        "resolver",
        "warning",
        "the only name server is this machine itself (127.0.0.53)",
        "kubelet.configOverrides.resolvConf",
        "cp /etc/resolv.conf /srv && echo nameserver 127.0.0.53 > /etc/resolv.conf",
        "cp /srv/resolv.conf /etc/resolv.conf",
    ),
    Flaw(
        "proxy",
        "warning",
        "http://proxy.example:3128",
        "proxy",
        "echo https_proxy=http://proxy.example:3128 >> /etc/environment",
        "sed --in-place /^https_proxy/d /etc/environment",
    ),
    Flaw("proxy-unreachable", "error", "127.0.0.1:3128: Connection refused", "--proxy", document=dead_proxy),
    Flaw("api-tls", "error", "not trusted", "az aks get-credentials", document=other_ca),
    Flaw(
        "artifact-unreachable",
        "error",
        "HTTP 404",
        "add the file to the mirror",
        document=lambda _bed: {"runc": {"version": "1.3.0", "sha256": "0" * 64}},
    ),
    Flaw(
        "registry-unreachable", "warning", "127.0.0.1:5999", "open the firewall for", document=dead_registry
    ),
    Flaw("azure-token", "error", "AADSTS7000215", "the secret is wrong", document=wrong_secret),
    Flaw(
        "cidr-overlap",
        "error",
        "site0 has 10.0.7.0/24, which overlaps network.serviceCIDR (10.0.0.0/16)",
        "renumber this machine's network",
        "ip address add 10.0.7.1/24 dev site0",
        "ip address delete 10.0.7.1/24 dev site0",
    ),
    Flaw(
        "mtu",
        "error",
        "the MTU of site0 is 1200",
        "ip link set dev site0 mtu 1500",
        "ip link add site0 type bridge && ip link set site0 mtu 1200 up && "
        "ip address add 192.0.2.1/24 dev site0 && ip route add default dev site0 metric 9999",
        "ip link delete site0",
    ),
)


# -- a machine, and how it is asked -------------------------------------------------------------------------


@dataclass
class Edge:
    """A machine with a configuration, and the flaws that both have now."""

    bed: Testbed
    machine: Machine
    directory: Path
    document: Document
    usual: list[str]  # warnings that this site has without any flaw of ours: cgroup v1, a small disk
    flaws: list[Flaw]

    @classmethod
    def made(cls, bed: Testbed, machine: Machine, directory: Path) -> Edge:
        """A fresh machine that trusts the emulated Azure, with the command on it."""
        machine.copy_to(build_agent.build(directory), PROGRAM)
        arc.know_azure(machine, bed.azure, bed.ca_pem)
        edge = cls(bed, machine, directory, fleet.join_document(bed), [], [])
        report = edge.ask()
        assert report["ok"], report["findings"]
        edge.usual = [one["id"] for one in report["findings"]]
        return edge

    def add(self, flaws: Iterable[Flaw]) -> None:
        """Plant them."""
        for flaw in flaws:
            self.machine.run(["sh", "-c", flaw.plant])
            self.flaws.append(flaw)

    def mend(self, flaw: Flaw) -> None:
        """Take one away."""
        self.machine.run(["sh", "-c", flaw.heal])
        self.flaws.remove(flaw)

    def expected(self, *severities: str) -> list[str]:
        """The ids of what there is to be found, in alphabetical order."""
        return sorted(flaw.id for flaw in self.flaws if flaw.severity in (severities or (flaw.severity,)))

    @property
    def config(self) -> Document:
        """The document as it is now."""
        document = self.document
        for flaw in self.flaws:
            document = merged(document, flaw.document(self.bed))
        return document

    def ask(self, document: Document | None = None) -> dict[str, Any]:
        """The command at the machine, as data; its exit status says the same."""
        own = {"cni": {"podCIDR": self.machine.pod_cidr}}
        self.machine.run(["tee", CONFIG], input=json.dumps(merged(document or self.config, own)))
        argv = ["python3", PROGRAM, "preflight", "--json", "--config", CONFIG]
        done = self.machine.run(argv, check=False)
        report: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (0 if report["ok"] else 1), done.stdout
        return report

    def ids(self, report: Mapping[str, Any]) -> list[str]:
        """The ids of a report's findings, without the usual ones."""
        return sorted(one["id"] for one in report["findings"] if one["id"] not in self.usual)

    def play(self, playbook: str, *options: str, document: Document | None = None) -> Play:
        """A playbook with the document as it is now."""
        path = self.directory / "hosts.yml"
        inventory = fleet.write_inventory(
            self.bed, [self.machine], path, flexnode_config=document or self.config
        )
        return fleet.play(playbook, inventory, *options)

    def report(self, run: Play) -> Mapping[str, Any]:
        """What the module said in a run of the playbook."""
        return run.result(self.machine.name, "flexnode_preflight_info")

    def joined(self) -> bool:
        """Whether the cluster has it as a Ready node."""
        name = self.machine.name
        return name in fleet.node_names(self.bed) and fleet.is_ready(fleet.node(self.bed, name))


def told(flaw: Flaw, finding: Mapping[str, str]) -> None:
    """A finding says of a flaw how grave it is, what was found, why it matters, and what to do."""
    assert finding["severity"] == flaw.severity
    assert flaw.found in finding["found"]
    assert flaw.fix in finding["fix"]
    assert finding["why"]


def table(run: Play) -> list[str]:
    """The lines at the end of the playbook."""
    (shown,) = [event["result"]["msg"] for event in run.events if event["task"].endswith("Show the findings")]
    return str(shown).splitlines()


def failures(run: Play) -> list[Mapping[str, Any]]:
    """What the modules said that failed."""
    assert run.status != 0, run.output
    return [event["result"] for event in run.events if event["outcome"] == "failed"]


@contextmanager
def untouched(machine: Machine) -> Iterator[None]:
    """Nothing on the machine is different at the end of the block."""
    before = photograph(machine)
    yield
    assert differences(before, photograph(machine)) == []


@pytest.fixture(scope="module")
def edge(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Edge:
    (machine,) = machines((NAME, "debian12"))
    return Edge.made(bed, machine, tmp_path_factory.mktemp("edge"))


@pytest.fixture(scope="module")
def faulty(edge: Edge) -> Edge:
    """The machine with every flaw at once."""
    edge.add(reversed(FLAWS))
    return edge


@pytest.fixture(scope="module")
def run(faulty: Edge) -> Play:
    """The playbook, on that machine."""
    with untouched(faulty.machine):
        return faulty.play("preflight")


# -- all at once --------------------------------------------------------------------------------------------


class TestEveryFlawAtOnce:
    """One machine: all flaws in one report, then one after the other mended, then it joins."""

    @pytest.mark.smoke
    def test_one_run_reports_exactly_what_is_wrong(self, faulty: Edge, run: Play) -> None:
        report = faulty.report(run)
        assert run.status != 0, run.output
        assert len(faulty.expected("error")) >= 10
        assert faulty.ids(report) == faulty.expected()
        findings = {one["id"]: one for one in report["findings"]}
        for flaw in faulty.flaws:
            told(flaw, findings[flaw.id])

    def test_a_person_reads_all_of_it_at_the_end(self, faulty: Edge, run: Play) -> None:
        """Line by line as it is, so that commands can be copied: not folded, not quoted."""
        lines = table(run)
        for finding in faulty.report(run)["findings"]:
            (start,) = [number for number, line in enumerate(lines) if finding["found"] in line]
            what, why, fix = (line.split() for line in lines[start : start + 3])
            assert what[:2] == [finding["severity"].upper(), finding["id"]]
            assert " ".join(why) == f"why: {finding['why']}"
            assert " ".join(fix) == f"fix: {finding['fix']}"
        for line in lines:
            assert f"{line}\n" in run.output
        assert lines[-1].split(maxsplit=2)[2].startswith(f"{len(faulty.expected('error'))} errors, ")

    def test_the_command_at_the_machine_says_the_same(self, faulty: Edge, run: Play) -> None:
        with untouched(faulty.machine):
            asked = faulty.ask()
        reported = faulty.report(run)
        assert asked["findings"] == reported["findings"]
        assert asked["unchecked"] == reported["unchecked"]
        assert asked["checks"] == reported["checks"]

    def test_a_join_fails_with_the_same_list_and_touches_nothing(self, faulty: Edge, run: Play) -> None:
        with untouched(faulty.machine):
            (failed,) = failures(faulty.play("bootstrap"))
        assert failed["error"]["code"] == "FLEX-1310"
        errors = [one for one in faulty.report(run)["findings"] if one["severity"] == "error"]
        assert ENTRY.findall(failed["msg"]) == [(one["id"], one["found"], one["fix"]) for one in errors]

    def test_what_is_mended_is_no_longer_told(self, faulty: Edge) -> None:
        *others, _last = FLAWS
        for flaw in others:
            faulty.mend(flaw)
            assert faulty.ids(faulty.ask()) == faulty.expected(), f"{flaw.id} was mended"

    def test_what_is_skipped_does_not_count_and_the_machine_joins(self, faulty: Edge) -> None:
        skip = ("-e", json.dumps({"flexnode_preflight_skip": ["mtu"]}))
        assert faulty.expected("error") == ["mtu"]
        assert faulty.play("bootstrap").status != 0
        report = faulty.report(fleet.succeeded(faulty.play("preflight", *skip)))
        assert (faulty.ids(report), report["skipped_checks"]) == ([], ["mtu"])
        fleet.succeeded(faulty.play("bootstrap", *skip))
        assert faulty.joined()


@pytest.fixture(scope="module")
def other(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Edge:
    """A machine that nothing is wrong with."""
    (machine,) = machines((OTHER, "debian13"))
    return Edge.made(bed, machine, tmp_path_factory.mktemp("other"))


# -- one at a time: what hides the others -------------------------------------------------------------------

# A mirror on the machine itself that has everything, and a clock so far behind: our own is not to be turned.
MIRROR = """cat > /srv/mirror.py << END
import http.server, sys, time
class Mirror(http.server.BaseHTTPRequestHandler):
    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() - float(sys.argv[1]))
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 8080), Mirror).serve_forever()
END
systemd-run --unit=mirror python3 /srv/mirror.py {behind}
until ss --listening --numeric | grep --quiet 127.0.0.1:8080; do sleep 0.1; done
"""
LOCAL: Document = {"mirror": {"url": "http://127.0.0.1:8080", "caCert": None, "catalogue": None}}


def server(url: str) -> Document:
    """Another address of the API server."""
    return {"node": {"kubelet": {"serverURL": url}}}


ALONE = (
    Flaw(
        "api-dns",
        "error",
        "plant.example.com can't be resolved",
        "resolvectl query plant.example.com",
        # One that answers nobody: a name server that is far away takes long to say no.
        "cp /etc/resolv.conf /srv && echo nameserver $(hostname --all-ip-addresses) > /etc/resolv.conf",
        "cp /srv/resolv.conf /etc/resolv.conf",
        lambda _bed: server("https://plant.example.com"),
    ),
    Flaw(
        "api-tcp",
        "error",
        "can't connect to the API server at 127.0.0.1:6443: Connection refused",
        "node.kubelet.serverURL",
        document=lambda _bed: server("https://127.0.0.1:6443"),
    ),
    Flaw(
        "api-answer",
        "error",
        "is not an API server: HTTP 404",
        "curl --insecure https://",
        document=lambda bed: merged(server(bed.mirror.url), other_ca(bed)),
    ),
    Flaw(
        "version-skew",
        "error",
        "kubelet 1.29.14 is not supported by API server",
        "choose a kubelet 1.",
        MIRROR.format(behind=0),
        "systemctl stop mirror",
        lambda _bed: {"kubernetes": {"version": "1.29.14"}, **LOCAL},
    ),
    Flaw(
        "clock-skew",
        "error",
        "this machine's clock is 360",
        "timedatectl set-ntp true",
        MIRROR.format(behind=3600),
        "systemctl stop mirror",
        lambda _bed: LOCAL,
    ),
    Flaw(
        "artifact-unknown",
        "error",
        "is not in this collection's list of known versions",
        "sha256",
        document=lambda _bed: {"kubernetes": {"version": "1.34.99"}},
    ),
    Flaw(
        "token-format",
        "error",
        "azure.bootstrapToken.token",
        "correct azure.bootstrapToken.token",
        document=lambda _bed: {"azure": {"bootstrapToken": {"token": "abcdef.0123"}}},
    ),
    Flaw(
        "platform",
        "error",
        "this is alpine 3.20",
        "install one of",
        "printf 'ID=alpine\nVERSION_ID=3.20\n' > /srv/os-release && "
        "mount --bind /srv/os-release /etc/os-release",
        "umount /etc/os-release",
    ),
)


@pytest.mark.parametrize("flaw", ALONE, ids=lambda flaw: flaw.id)
def test_a_flaw_that_hides_others_is_found_alone(other: Edge, flaw: Flaw) -> None:
    """With its remedy; and without it there is nothing to be found."""
    other.add([flaw])
    report = other.ask()
    other.mend(flaw)
    assert other.ids(report) == [flaw.id]
    (finding,) = [one for one in report["findings"] if one["id"] == flaw.id]
    told(flaw, finding)
    assert other.ids(other.ask()) == []


# -- rights in Azure ----------------------------------------------------------------------------------------

GRANT = re.compile(
    r"az role assignment create --assignee-object-id (\S+) --assignee-principal-type ServicePrincipal "
    r"--role (\S+) --scope (\S+)"
)


def lives_on(method: str, azure: Document) -> Document:
    """A kubelet that lives on an Azure identity, which takes roles."""
    own = {**azure, "resourceManagerEndpoint": azure["activeDirectoryEndpoint"], "bootstrapToken": None}
    return {"azure": own, "kubernetesAuth": {"method": method, "profile": "token"}}


def test_who_lacks_roles_is_told_the_line_that_grants_each(other: Edge) -> None:
    """By preflight, and by a join before it touches anything of Kubernetes; with them the machine passes."""
    azure, name = other.bed.azure, "preflight without roles"
    azure.remove_registration(name)  # of an earlier run: it has its roles
    principal = azure.app_registration(name)
    own = service_principal(other.bed, principal)["azure"]
    document = merged(other.document, lives_on("servicePrincipal", own))
    run = other.play("preflight", document=document)
    findings = [one for one in other.report(run)["findings"] if one["id"] not in other.usual]
    assert [one["id"] for one in findings] == ["cluster-rights", "azure-role", "azure-role"]

    with untouched(other.machine):
        (failed,) = failures(other.play("bootstrap", document=document))
    assert ENTRY.findall(failed["msg"]) == [(one["id"], one["found"], one["fix"]) for one in findings]

    for finding in findings:
        for who, role, scope in GRANT.findall(finding["fix"]):
            assert (who, scope) == (principal.object_id, azure.cluster_id)
            azure.grant(principal, role, scope)
    fleet.eventually("effect of the roles", lambda: other.ids(other.ask(document)) == [])


def test_a_machine_of_arc_is_registered_before_it_is_asked_for_its_roles(other: Edge) -> None:
    own = {"activeDirectoryEndpoint": other.bed.azure.url, "arc": {"enabled": True}}
    report = other.ask(merged(other.document, lives_on("arc", own)))
    assert other.ids(report) == []
    waits = {one["id"]: one["why"] for one in report["unchecked"]}
    for id_ in ("azure-token", "azure-role"):
        assert waits[id_] == "this machine is not registered with Arc yet"


# -- a healthy machine --------------------------------------------------------------------------------------


def test_a_token_that_ended_is_told_without_trying_it(other: Edge) -> None:
    """Who made it says when it ends."""
    run = other.play("preflight", "-e", "preflight_token_expires=2026-01-01T00:00:00Z")
    assert run.status != 0
    assert other.ids(other.report(run)) == ["token-expired"]
    assert "expired at 2026-01-01T00:00:00+00:00" in run.output


def test_a_healthy_machine_passes_untouched_and_its_token_unused(other: Edge, audit: Audit) -> None:
    """By the API server's audit log; and the same token lets the machine join then."""
    token = other.document["azure"]["bootstrapToken"]["token"]
    with untouched(other.machine):
        run = fleet.succeeded(other.play("preflight"))
        assert other.ask()["ok"]
    report = other.report(run)
    assert (other.ids(report), report["error_count"], run.changed(OTHER)) == ([], 0, 0)
    assert audit.of_token(token.partition(".")[0]) == []
    assert token not in run.output
    fleet.succeeded(other.play("bootstrap"))
    assert other.joined()
    assert audit.of_token(token.partition(".")[0]) != []
