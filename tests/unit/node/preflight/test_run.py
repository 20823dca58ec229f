# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All of preflight over a whole machine: files under a temporary root, an API server and a mirror."""

from __future__ import annotations

import json
import os
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import store_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.document import fetched
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.every import IDS
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.finding import (
    Finding,
    Report,
    Unchecked,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.probes.host import (
    Ways,
    probe_machine,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.run import run_preflight
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline, Stored, Url
from tests.unit.node.config.test_samples import CLIENT, CLUSTER, PEM, PRINCIPAL, TENANT, TOKEN, joining
from tests.unit.node.fake_api import FakeApi
from tests.unit.node.fakes import SWAPS_HEADER, Machine, swap_row
from tests.unit.node.preflight.healthy import IN_AZURE
from tests.unit.node.servers import Answer, Pki, Server, answer_json, serving
from tests.unit.node.tunnels import a_profile

ROOMY = os.statvfs_result((4096, 4096, 26214400, 20000000, 20000000, 1000, 900, 900, 0, 255))  # 100 GiB
WAYS = Ways("x86_64", 0, lambda _path: ROOMY)
CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"


@dataclass
class Site:
    """A machine, what it reaches, and the document that joins them."""

    machine: Machine
    api: FakeApi
    mirror: Server
    document: dict[str, Any]

    def preflight(
        self, *changes: dict[str, Any], stage: Any = "all", ways: Ways = WAYS, **options: Any
    ) -> Report:
        document = merge(self.document, IN_AZURE)
        for change in changes:
            document = merge(document, change)
        return run_preflight(self.machine.host, document, stage, ways=ways, **options)


@pytest.fixture
def site(debian: Machine, pki: Pki) -> Iterator[Site]:
    """Nothing is wrong here."""
    debian.clock.time = time.time()
    debian.put("/proc/swaps", SWAPS_HEADER)
    debian.put("/proc/meminfo", "MemTotal: 8134224 kB\nMemAvailable: 6134224 kB\n")
    debian.put("/etc/resolv.conf", "nameserver 192.0.2.53\n")
    debian.put("/etc/cni/net.d/05-cilium.conflist", "{}")
    debian.put("/proc/sys/net/netfilter/nf_conntrack_max", "65536\n")
    debian.put("/proc/filesystems", "nodev\toverlay\n\text4\n")
    for tool in ("mount", "umount", "iptables"):
        debian.put(f"/usr/bin/{tool}", "", 0o755)
    context = pki.server_context()
    with FakeApi().running(pki) as api, serving(lambda _: Answer(b"x", 206), context) as mirror:
        document = joining(
            {
                "mirror": {"url": mirror.url, "caCert": pki.ca_pem},
                "registryMirrors": {"mcr.microsoft.com": {"endpoints": [mirror.url], "caCert": pki.ca_pem}},
                "node": {
                    "kubelet": {
                        "serverURL": api.server.url,
                        "caCertData": b64encode(pki.ca_pem.encode()).decode(),
                    }
                },
            }
        )
        yield Site(debian, api, mirror, document)


def found(report: Report) -> list[str]:
    return [finding.id for finding in report.findings]


def test_a_good_machine_passes_and_is_as_it_was(site: Site) -> None:
    before = site.machine.snapshot()
    report = site.preflight()
    assert report.findings == ()
    assert report.ok
    assert [item.id for item in report.unchecked] == ["node-name-taken", "token-expired"]
    assert report.summary == "ok, 2 not checked"
    assert site.machine.snapshot() == before
    assert site.machine.commands.calls == []


def test_nobody_gets_to_see_the_bootstrap_token(site: Site) -> None:
    report = site.preflight()
    assert site.api.server.asked == ["GET /version"]
    for request in (*site.api.server.requests, *site.mirror.requests):
        assert "Authorization" not in request.headers
        assert TOKEN.partition(".")[2] not in str(request)
    assert TOKEN not in json.dumps(report.as_dict())


def test_the_first_stage_asks_nobody_and_is_quick(site: Site) -> None:
    report = site.preflight(stage="host")
    assert site.api.server.asked == site.mirror.asked == []
    assert report.seconds < 5
    assert "api-dns" not in report.checks
    assert {"root", "cidr-overlap"} <= set(report.checks)


def test_the_second_stage_asks_and_does_not_repeat_the_first(site: Site) -> None:
    report = site.preflight(stage="connectivity", ways=Ways("x86_64", 1000, lambda _path: ROOMY))
    assert report.findings == ()
    assert "root" not in report.checks
    assert site.api.server.asked == ["GET /version"]


# -- ten faults ----------------------------------------------------------------------------------------------


def test_ten_faults_are_ten_findings(site: Site, pki: Pki) -> None:
    machine = site.machine
    machine.put("/proc/sys/kernel/hostname", "edge_1\n")  # 1
    machine.put("/usr/lib/systemd/system/docker.service")  # 2
    machine.put(
        "/proc/net/tcp",
        "  sl  local_address\n   0: 00000000:280A 00000000:0000 0A 0:0 0:0 0 0 0 4711 1\n",  # 3
    )
    machine.put("/proc/swaps", SWAPS_HEADER + swap_row("/swapfile"))  # 4
    machine.path("/run/systemd/system").rmdir()  # 5
    machine.put(
        "/proc/net/route",
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t0000F40A\t00000000\t0001\t0\t0\t0\t0000FFFF\n",  # 6, with network.podCIDR
    )
    machine.put(CERTIFICATE)  # 7
    machine.put("/etc/environment", "https_proxy=http://proxy.example:3128\n")  # 8
    machine.clock.time += 3600  # 9
    site.api.version = "v1.33.2"  # 10
    report = site.preflight({"network": {"podCIDR": "10.244.0.0/16"}})
    assert sorted(found(report)) == [
        "cidr-overlap",
        "clock-skew",
        "foreign-runtime",
        "kubelet-identity",
        "node-name",
        "port-in-use",
        "proxy",
        "swap",
        "systemd",
        "version-skew",
    ]
    assert [len(report.errors), len(report.warnings)] == [8, 2]
    assert all(finding.found and finding.why and finding.fix for finding in report.findings)
    assert site.preflight({"network": {"podCIDR": "10.244.0.0/16"}}, skip=["swap", "systemd"]).skipped == (
        "swap",
        "systemd",
    )


def test_a_node_that_works_has_nothing_against_a_second_run(site: Site) -> None:
    machine = site.machine
    for unit in ("kubelet.service", "containerd.service"):
        file = File(f"/etc/systemd/system/{unit}", "ours")
        machine.store.journal.record([file])
        file.apply(machine.host)
    machine.put(CERTIFICATE)
    machine.put("/proc/90/comm", "kubelet\n")
    machine.path("/proc/90/fd").mkdir()
    machine.path("/proc/90/fd/3").symlink_to("socket:[4711]")
    machine.put("/proc/net/tcp", "  sl\n   0: 00000000:280A 00000000:0000 0A 0:0 0:0 0 0 0 4711 1\n")
    report = site.preflight(token_expires=machine.clock.time - 1)
    assert (report.findings, report.unchecked) == ((), ())


# -- skipping ------------------------------------------------------------------------------------------------


def test_what_is_skipped_is_not_reported(site: Site) -> None:
    site.machine.put("/proc/swaps", SWAPS_HEADER + swap_row("/swapfile"))
    assert found(site.preflight()) == ["swap"]
    report = site.preflight(skip=["swap", "node-name-taken"])
    assert (report.findings, [item.id for item in report.unchecked]) == ((), ["token-expired"])
    assert report.skipped == ("node-name-taken", "swap")
    assert "swap" not in report.checks


def test_a_stage_of_which_all_is_skipped_is_not_run(site: Site) -> None:
    wanted = ("root", "platform")
    report = site.preflight(skip=[id_ for id_ in IDS if id_ not in wanted])
    assert report.checks == wanted
    assert site.api.server.asked == []


@pytest.mark.parametrize(
    ("given", "nearest"), [("swpa", "swap"), ("port-used", "port-in-use"), ("Root", "root")]
)
def test_an_unknown_id_skips_nothing_and_names_the_nearest(site: Site, given: str, nearest: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        site.preflight(skip=["swap", given])
    (problem,) = caught.value.problems
    assert (problem.path, problem.hint) == ("skip[1]", f"did you mean {nearest}?")


# -- the document --------------------------------------------------------------------------------------------


def test_what_is_wrong_with_the_document_is_found_together_with_the_rest(site: Site) -> None:
    site.machine.path("/run/systemd/system").rmdir()
    report = site.preflight(
        {"nodes": {}, "node": {"maxPods": 0}, "azure": {"bootstrapToken": {"token": "short"}}}
    )
    assert sorted(found(report)) == ["configuration", "configuration", "systemd", "token-format"]
    (token,) = (finding for finding in report.findings if finding.id == "token-format")
    assert "short" not in token.found
    assert "abcdef.0123456789abcdef" in token.why
    (unchecked,) = report.unchecked
    assert unchecked.id == "configuration"
    assert "api-dns" in unchecked.why
    assert site.api.server.asked == []


def test_what_this_version_cannot_do(site: Site) -> None:
    report = site.preflight({"hooks": {"before": ["/srv/before.yml"]}}, stage="host")
    assert found(report) == ["not-available"]
    assert "hooks.before" in report.findings[0].found


def test_secrets_that_are_only_marked(site: Site) -> None:
    marked = {"azure": {"bootstrapToken": {"token": "<minted at apply>"}}}
    assert found(site.preflight(marked)) == ["secrets-missing"]
    site.machine.store.set_current_config(site.document, None)
    assert found(site.preflight(marked)) == []


def test_sources(site: Site, pki: Pki) -> None:
    host = site.machine.host
    trouble = fetched(host, Stored(site.machine.store), {})
    assert [finding.id for finding in run_preflight(host, trouble, "host", ways=WAYS).findings] == [
        "configuration-source"
    ]
    site.machine.store.set_current_config(site.document, None)
    assert run_preflight(host, fetched(host, Stored(site.machine.store), {}), "host", ways=WAYS).ok
    with serving(lambda _: answer_json({"config": site.document}), pki.server_context()) as server:
        url = Url(f"{server.url}/bundle?sig=hidden", HttpClient(ca_pem=pki.ca_pem, attempts=1))
        report = run_preflight(host, fetched(host, url, {"agent": {"nodeName": "other"}}), "host", ways=WAYS)
    assert (report.ok, report.node_name) == (True, "other")
    assert report.as_dict()["cluster_id"] == CLUSTER.lower(), "a Node's name is its own in its cluster only"
    gone = run_preflight(host, fetched(host, url, {}), "host", ways=WAYS)
    assert [(finding.id, finding.severity) for finding in gone.findings] == [
        ("configuration-source", "error")
    ]
    assert "hidden" not in str(gone)
    strange = fetched(host, Inline({"config": [], "x": 1}), {})
    assert {finding.id for finding in run_preflight(host, strange, "host", ways=WAYS).findings} == {
        "configuration"
    }


# -- stages that wait for others -----------------------------------------------------------------------------


def test_before_the_vpn_the_api_server_is_not_asked(site: Site) -> None:
    vpn = {"azure": {"vpn": {"enabled": True, "profile": a_profile()}}}
    report = site.preflight(vpn, skip=["not-available"])
    assert {"api-tcp", "version-skew"} <= {item.id for item in report.unchecked}
    assert "the VPN is not up" in str(report.unchecked)
    assert site.api.server.asked == []
    site.preflight(vpn, stage="connectivity", skip=["not-available"])
    assert site.api.server.asked == ["GET /version"]


def test_before_arc_azure_is_not_asked(site: Site) -> None:
    arc = {
        "azure": {"arc": {"enabled": True}, "tenantId": TENANT, "targetCluster": {"location": "westeurope"}},
        "kubernetesAuth": {"method": "bootstrapToken"},
        "continuousMonitoring": True,
    }
    report = site.preflight(arc, skip=["not-available"], identify=lambda *_: pytest.fail("asked"))
    assert [item.id for item in report.unchecked if "Arc" in item.why] == ["azure-token", "azure-role"]


def test_an_identity_that_gets_no_token(site: Site) -> None:
    principal = {"azure": {"servicePrincipal": {**PRINCIPAL, "clientId": CLIENT}, "tenantId": TENANT}}
    nobody = {"azure": {"activeDirectoryEndpoint": "https://127.0.0.1:1"}}
    report = site.preflight(principal, nobody, stage="connectivity", skip=["not-available"])
    assert found(report) == ["azure-token"]
    assert PRINCIPAL["clientSecret"] not in str(report)


def test_no_identity_at_hand(site: Site) -> None:
    principal = {"azure": {"servicePrincipal": PRINCIPAL, "tenantId": TENANT}}
    report = site.preflight(principal, stage="connectivity", skip=["not-available"], identify=None)
    assert Unchecked("azure-token", "no identity is available here") in report.unchecked


def test_a_network_that_never_answers_ends_in_time(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        changes = {"mirror": {"url": url}, "registryMirrors": None, "node": {"kubelet": {"serverURL": url}}}
        began = time.monotonic()
        report = site.preflight(
            changes,
            {"registryMirrors": {"mcr.microsoft.com": {"endpoints": [url]}}},
            stage="connectivity",
            seconds=1.2,
        )
    assert time.monotonic() - began < 3
    assert found(report) == ["api-tls", "artifact-unreachable", "registry-unreachable"]


def test_node_problem_detector_is_asked_for_where_it_is_wanted(site: Site) -> None:
    wanted = {"version": "1.36.0", "sha256": "ab" * 32, "url": "https://127.0.0.1:1/npd-{version}.tgz"}
    report = site.preflight({"npd": wanted}, stage="connectivity")
    assert found(report) == ["artifact-unreachable"]
    assert report.findings[0].found == "can't download npd from https://127.0.0.1:1: Connection refused"


def test_a_ca_that_is_none(site: Site) -> None:
    report = site.preflight({"mirror": {"caCert": PEM}})
    assert "artifact-unreachable" in found(report)
    assert "mirror.caCert" in str(report.findings)


# -- what a person reads -------------------------------------------------------------------------------------

REPORT = Report(
    "all",
    "edge-1",
    (
        Finding("swap", "warning", "swap is on", "the kubelet", "nothing to do"),
        Finding("root", "error", "not root", "it writes", "sudo"),
    ),
    (Unchecked("token-expired", "nobody knows"),),
    ("root", "swap"),
    ("mtu",),
    0.1,
)


def test_the_table() -> None:
    assert REPORT.lines("edge-1.example") == [
        "edge-1.example  1 error, 1 warning, 1 not checked",
        "  ERROR        root           not root",
        "                              why: it writes",
        "                              fix: sudo",
        "  WARNING      swap           swap is on",
        "                              why: the kubelet",
        "                              fix: nothing to do",
        "  NOT CHECKED  token-expired  nobody knows",
    ]
    warned = Report("host", "n", REPORT.warnings, (), (), (), 0.1)
    assert warned.lines()[1] == "  WARNING  swap  swap is on"  # no wider than needed
    clean = Report("host", "", (), (), (), (), 0.1)
    assert clean.lines() == ["this machine  ok"]
    assert Report("host", "n", REPORT.warnings, (), (), (), 0.1).summary == "ok, 1 warning"


def test_the_report_as_data() -> None:
    data = json.loads(json.dumps(REPORT.as_dict()))
    assert (data["ok"], data["error_count"], data["warning_count"]) == (False, 1, 1)
    assert [finding["id"] for finding in data["findings"]] == ["root", "swap"]
    assert set(data["findings"][0]) == {"id", "severity", "found", "why", "fix"}
    # Ansible would take these for its own.
    assert not {"warnings", "skipped", "failed", "changed", "exception", "invocation"} & set(data)


def test_a_node_that_lives_on_tokens_has_joined_too(site: Site) -> None:
    changes = {
        "azure": {"bootstrapToken": None, "tenantId": TENANT, "servicePrincipal": PRINCIPAL},
        "kubernetesAuth": {"profile": "token"},
    }
    store = store_of(site.machine.host)
    store.journal.record([File("/etc/systemd/system/kubelet.service", "x")])
    config = parse(merge(site.document, changes))
    assert not probe_machine(site.machine.host, config, WAYS).joined
    store.set_applied_config(site.document, None)
    assert probe_machine(site.machine.host, config, WAYS).joined
    assert not probe_machine(site.machine.host, parse(site.document), WAYS).joined
