# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whole operations: obtain, reconcile, leave and status, on a machine with a mirror and an API server."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.labels import APPLIED_VERSION
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge, redact
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.state import DATA_DIR, POINTER
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    ConfigInvalid,
    ConfigMissing,
    DigestMismatch,
    FlexNodeError,
    ForeignRuntime,
    NodeNotReady,
    NotAvailable,
    StateCorrupt,
    UnsupportedPlatform,
    VersionSkew,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    has_joined,
    obtain,
    own_node,
    reconcile,
    stored_document,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.status import status_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline, Stored
from tests.unit.node.fake_api import a_node, a_pod
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki
from tests.unit.node.sites import CONTAINERD, IDENTITY, KUBELET, TOKEN, Site, a_site

PLACES = ("/etc", "/opt", "/usr", "/var", "/proc")


@pytest.fixture
def site(debian: Machine, pki: Pki) -> Iterator[Site]:
    debian.path("/var/lib").mkdir(parents=True)
    debian.path("/var/log").mkdir()
    debian.path("/opt").mkdir()
    with a_site(debian, pki) as made:
        yield made


# -- obtain ------------------------------------------------------------------------------------------------


def test_a_document_is_checked_stored_and_shown_without_its_secrets(site: Site) -> None:
    bundle = {"config": site.document, "configVersion": "17"}
    got = obtain(site.machine.host, Inline(bundle), {"node": {"maxPods": 50}})
    assert (got.changed, got.version) == (True, "17")
    stored = site.machine.store.current_config() or {}
    assert stored["azure"]["bootstrapToken"]["token"] == TOKEN
    assert stored["node"]["maxPods"] == 50
    assert got.public["azure"]["bootstrapToken"]["token"] == REDACTED
    assert TOKEN not in json.dumps(got.public)
    assert site.machine.host.look(f"{DATA_DIR}/current-config.json").mode == 0o600
    assert not obtain(site.machine.host, Inline(bundle), {"node": {"maxPods": 50}}).changed


def test_check_mode_stores_nothing(site: Site) -> None:
    before = site.machine.snapshot("/")
    assert obtain(site.machine.host, Inline(site.document), {}, check=True).changed
    assert site.machine.snapshot("/") == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"node": {"maxPods": 0}}, ConfigInvalid),
        ({"unknown": 1}, ConfigInvalid),
        ({"writeAdminConf": True}, NotAvailable),
    ],
)
def test_a_bad_document_is_refused_and_the_old_one_stays(
    site: Site, change: dict[str, Any], error: type[FlexNodeError]
) -> None:
    obtain(site.machine.host, Inline(site.document), {})
    before = site.machine.snapshot("/var")
    with pytest.raises(error):
        obtain(site.machine.host, Inline(site.document), change)
    assert site.machine.snapshot("/var") == before


def test_preparing_needs_no_cluster(site: Site) -> None:
    document = {"kubernetes": {"version": "1.34.4"}}
    with pytest.raises(ConfigInvalid):
        obtain(site.machine.host, Inline(document), {})
    assert obtain(site.machine.host, Inline(document), {}, purpose="prepare").changed


@pytest.mark.parametrize("applied", ["", "{"], ids=["applied", "both"])
def test_a_damaged_document_is_healed_from_its_source(site: Site, applied: str) -> None:
    site.join()
    host, path = site.machine.host, f"{DATA_DIR}/current-config.json"
    whole = site.machine.text(path)
    site.machine.put(path, whole[:100], 0o600)
    if applied:
        site.machine.put(f"{DATA_DIR}/applied-config.json", applied, 0o600)
    with pytest.raises(StateCorrupt):
        obtain(host, Stored(site.machine.store), {})
    public = obtain(host, Inline(site.document), {}, check=True).public
    assert stored_document(host, public)[1]["kubernetes"] == site.document["kubernetes"]
    assert obtain(host, Inline(site.document), {}).changed
    assert site.machine.text(path) == whole


def test_a_marked_secret_of_a_damaged_document_is_taken_from_what_was_applied(site: Site) -> None:
    site.join()
    site.machine.put(f"{DATA_DIR}/current-config.json", "{", 0o600)
    obtain(site.machine.host, Inline(redact(site.document)), {})
    assert (site.machine.store.current_config() or {})["azure"]["bootstrapToken"]["token"] == TOKEN


@pytest.mark.parametrize("ready", [True, False])
def test_a_node_keeps_its_name(site: Site, ready: bool) -> None:
    host, other = site.machine.host, {"agent": {"nodeName": "edge-2"}}
    if ready:
        site.join()
    else:  # its certificate has the name already
        site.machine.commands.on_start[KUBELET] = lambda: site.machine.put(IDENTITY)
        with pytest.raises(NodeNotReady):
            site.join()
    before = site.machine.snapshot("/var")
    for check in (True, False):
        with pytest.raises(ConfigInvalid, match="edge-1, as long as this machine is that Node; unbootstrap"):
            obtain(host, Inline(site.document), other, check=check)
    assert site.machine.snapshot("/var") == before
    assert obtain(host, Inline(site.document), {"agent": {"nodeName": "edge-1"}}).changed
    assert obtain(host, Inline(site.document), other, purpose="prepare").changed


def test_a_certificate_of_another_clusters_kubelet_is_no_join(site: Site) -> None:
    site.machine.put(IDENTITY)
    assert not has_joined(site.machine.host, site.document)
    site.machine.path(IDENTITY).unlink()
    site.join()
    assert has_joined(site.machine.host, site.document)


def test_a_document_that_is_refused_is_not_stored(site: Site) -> None:
    before = site.machine.snapshot("/var")

    def look(document: Mapping[str, Any]) -> None:
        assert document["azure"]["bootstrapToken"]["token"] == TOKEN
        raise UnsupportedPlatform("no")

    with pytest.raises(UnsupportedPlatform):
        obtain(site.machine.host, Inline(site.document), {}, look=look)
    assert site.machine.snapshot("/var") == before


def test_before_the_join_a_name_may_change(site: Site) -> None:
    obtain(site.machine.host, Inline(site.document), {})
    assert obtain(site.machine.host, Inline(site.document), {"agent": {"nodeName": "edge-2"}}).changed


# -- which document counts ---------------------------------------------------------------------------------


def test_no_document_anywhere(machine: Machine) -> None:
    with pytest.raises(ConfigMissing):
        stored_document(machine.host, None)


def test_a_redacted_document_gets_its_secrets_back_from_the_stored_one(site: Site) -> None:
    host = site.machine.host
    public = obtain(host, Inline(site.document), {}).public
    _, document = stored_document(host, public)
    assert document["azure"]["bootstrapToken"]["token"] == TOKEN
    _, document = stored_document(host, None)
    assert document["azure"]["bootstrapToken"]["token"] == TOKEN


def test_on_a_fresh_host_the_redacted_document_is_enough_to_plan(site: Site) -> None:
    public = redact(site.document)
    before = site.machine.snapshot("/")
    run = reconcile(site.machine.host, public, EVERYTHING, check=True, machine="x86_64")
    assert run.changed
    assert "create /var/lib/kubelet/bootstrap-kubeconfig" in run.actions
    assert f"start {KUBELET}" in run.actions
    assert TOKEN not in json.dumps(run.plan.diff)
    assert site.machine.snapshot("/") == before
    assert (site.mirror.requests, site.machine.commands.changing()) == ([], [])


def test_a_document_without_its_secrets_is_never_applied(site: Site) -> None:
    before = site.machine.snapshot("/etc", "/opt")
    with pytest.raises(ConfigMissing):
        reconcile(site.machine.host, redact(site.document), EVERYTHING, machine="x86_64")
    assert site.machine.snapshot("/etc", "/opt") == before


def test_a_moved_data_directory_is_followed(site: Site) -> None:
    site.join({"paths": {"dataDir": "/srv/flexnode"}})
    assert site.machine.text(POINTER) == "/srv/flexnode\n"
    assert status_of(site.machine.host, "x86_64")["phase"] == "NodeJoined"
    leave(site.machine.host)
    assert not site.machine.path("/srv/flexnode").exists()
    assert not site.machine.path(POINTER).exists()


# -- join --------------------------------------------------------------------------------------------------


def test_a_join_ends_with_a_ready_node_and_a_second_one_changes_nothing(site: Site) -> None:
    told: list[str] = []
    run = site.join(tell=told.append)
    assert run.node == {
        "name": "edge-1",
        "ready": True,
        "kubeletVersion": "1.34.4",
        "containerRuntime": "containerd 2.3.4",
        "addresses": ["10.0.0.4"],
    }
    assert set(run.timings) == {"plan", "fetch", "apply", "start", "gate"}
    assert site.machine.store.state() == {
        "phase": "NodeJoined",
        "join": {"token": "fedcba", "outcome": "joined"},
    }
    assert site.machine.commands.times("systemctl", "restart") == 1
    assert len(site.mirror.requests) == 6
    assert any("containerd 2.3.4" in sentence for sentence in told)
    before, calls = site.machine.snapshot("/"), site.machine.commands.changing()
    again = site.join()
    assert (again.changed, again.actions, again.node["ready"]) == (False, [], True)
    assert site.machine.snapshot("/") == before
    assert site.machine.commands.changing() == calls


def test_nothing_but_the_kubelet_uses_the_bootstrap_token(site: Site) -> None:
    site.join()
    assert not any("Authorization" in request.headers for request in site.api.server.requests)


def test_preparing_then_joining_fetches_nothing_twice(site: Site) -> None:
    site.join(components=["system_config", "runtime", "kubernetes", "cni"])
    assert site.machine.store.state()["phase"] == "NotStarted"
    assert site.machine.commands.units == {}
    fetched = len(site.mirror.requests)
    site.join()
    assert len(site.mirror.requests) == fetched
    assert site.machine.store.state()["phase"] == "NodeJoined"


def test_a_component_alone_on_a_machine_where_nothing_is_stored(site: Site) -> None:
    document = {"kubernetes": {"version": "1.34.4"}}
    run = reconcile(site.machine.host, document, ["system_config"], machine="x86_64")
    assert run.changed
    assert not reconcile(site.machine.host, document, ["system_config"], machine="x86_64").changed


def test_changed_labels_are_patched_as_the_node_itself_without_a_restart(site: Site) -> None:
    site.join()
    site.api.nodes["edge-1"]["metadata"]["labels"]["theirs"] = "stays"
    restarts = site.machine.commands.times("systemctl", "restart")
    run = site.join({"node": {"labels": {"site": None, "rack": "7"}}})
    labels = site.api.nodes["edge-1"]["metadata"]["labels"]
    assert (labels.get("site"), labels["rack"], labels["theirs"]) == (None, "7", "stays")
    assert labels["kubernetes.azure.com/managed"] == "false"
    assert {"label rack=7", "remove label site"} <= set(run.actions)
    assert site.machine.commands.times("systemctl", "restart") - restarts <= 1


def test_the_version_that_was_applied_is_told_once_by_the_node(site: Site) -> None:
    site.join()
    assert not site.api.nodes["edge-1"]["metadata"].get("annotations"), "no version, nothing to tell"
    document = site.machine.store.current_config()
    assert document is not None
    site.machine.store.set_current_config(document, "1708123456")
    told = "report configuration 1708123456 as applied"
    assert told in reconcile(site.machine.host, None, EVERYTHING, machine="x86_64").actions
    assert site.api.nodes["edge-1"]["metadata"]["annotations"][APPLIED_VERSION] == "1708123456"
    assert reconcile(site.machine.host, None, EVERYTHING, machine="x86_64").actions == []


def test_an_update_that_fails_is_rolled_back(site: Site) -> None:
    site.join()
    before = site.machine.snapshot("/etc", "/usr")
    site.api.nodes["edge-1"] = a_node(ready=False)
    with pytest.raises(NodeNotReady):
        site.join({"node": {"maxPods": 50}, "upgrade": {"gateSeconds": 10}})
    assert site.machine.snapshot("/etc", "/usr") == before
    assert site.machine.store.state()["phase"] == "NodeFailed"
    assert site.machine.store.state()["code"] == "FLEX-1502"


def rotated(site: Site, pki: Pki) -> dict[str, Any]:
    """A cluster with another CA, which takes no certificate of the old one; and what a node is told of it."""
    site.api.refuse = {"GET /api/v1/nodes/": 401}

    def starts() -> None:
        if not site.machine.path(IDENTITY).exists():  # it has one: it is valid, by its date
            site.kubelet_starts(pki)
            site.api.refuse = {}

    site.machine.commands.on_start[KUBELET] = starts
    bundle = f"{pki.ca_pem}{pki.ca_pem}"  # two authorities, as far as bytes are concerned
    return {"node": {"kubelet": {"caCertData": b64encode(bundle.encode()).decode()}}}


NEW_TOKEN = {"azure": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}}


def test_a_certificate_of_the_old_ca_is_replaced(site: Site, pki: Pki) -> None:
    site.join()
    node, new = dict(site.api.nodes["edge-1"]), rotated(site, pki)
    planned = site.join(new, NEW_TOKEN, check=True)
    assert any("ask for a new certificate" in action for action in planned.actions)
    assert site.machine.path(IDENTITY).exists()
    assert site.join(new, NEW_TOKEN).changed
    assert site.api.nodes["edge-1"]["metadata"] == node["metadata"]
    assert site.machine.store.join() == {"token": "abcdef", "outcome": "joined"}
    assert not site.join(new, NEW_TOKEN).changed


def test_a_document_of_another_cluster_by_mistake_costs_no_certificate(site: Site, pki: Pki) -> None:
    site.join()
    good = site.machine.path(IDENTITY).read_bytes()
    new = rotated(site, pki)
    site.machine.commands.on_start[KUBELET] = lambda: None  # there it gets none
    with pytest.raises(FlexNodeError):
        site.join(new, {"upgrade": {"gateSeconds": 30}})
    assert site.machine.path(IDENTITY).read_bytes() == good
    site.api.refuse = {}
    site.join()
    assert site.machine.path(IDENTITY).read_bytes() == good


def test_a_certificate_of_another_owners_kubelet_is_not_touched(site: Site, pki: Pki) -> None:
    site.machine.put(IDENTITY, pki.client.read_bytes(), 0o600)
    site.api.refuse = {"GET /api/v1/nodes/": 401}
    with pytest.raises(NodeNotReady):
        site.join({"upgrade": {"gateSeconds": 30}})
    assert site.machine.path(IDENTITY).exists()


def test_a_certificate_that_is_still_taken_is_kept_under_another_ca(site: Site, pki: Pki) -> None:
    site.join()
    new = rotated(site, pki)
    site.api.refuse = {}
    before = site.machine.path(IDENTITY).stat().st_mtime_ns
    assert not any("new certificate" in action for action in site.join(new).actions)
    assert site.machine.path(IDENTITY).stat().st_mtime_ns == before


@pytest.mark.parametrize("token", [NEW_TOKEN, {}], ids=["new-token", "nothing-new"])
def test_what_nobody_hinted_at_is_mended_after_a_run_that_failed(
    site: Site, pki: Pki, token: dict[str, Any]
) -> None:
    site.join()
    rotated(site, pki)
    with pytest.raises(NodeNotReady):
        site.join(token, {"upgrade": {"gateSeconds": 30}})
    assert any("ask for a new certificate" in action for action in site.join(token).actions)
    assert not site.join(token).changed


def test_a_first_join_that_fails_stays_to_be_looked_at(site: Site) -> None:
    site.machine.commands.on_start.clear()  # a kubelet that never gets its certificate
    with pytest.raises(NodeNotReady, match="no certificate"):
        site.join({"upgrade": {"gateSeconds": 10}})
    assert site.machine.path("/etc/default/kubelet").exists()
    assert site.machine.store.state()["phase"] == "NodeFailed"


def test_what_is_wrong_with_the_cluster_is_found_before_anything_is_touched(site: Site) -> None:
    obtain(site.machine.host, Inline(site.document), {})
    before = site.machine.snapshot("/etc", "/opt", "/usr", "/proc")
    site.api.version = "v1.30.1"
    with pytest.raises(VersionSkew):
        site.join()
    site.api.refuse["GET /version"] = 503
    with pytest.raises(ApiUnreachable):
        site.join()
    assert site.machine.snapshot("/etc", "/opt", "/usr", "/proc") == before
    site.api.refuse["GET /version"] = 401  # it tells strangers nothing: fine
    site.join()


def test_a_wrong_digest_touches_nothing(site: Site) -> None:
    obtain(site.machine.host, Inline(site.document), {})
    before = site.machine.snapshot("/etc", "/usr", "/proc")
    wrong = {"mirror": {"catalogue": {"runc": {"1.4.3": {"amd64": "0" * 64, "arm64": "0" * 64}}}}}
    with pytest.raises(DigestMismatch):
        site.join(wrong)
    assert site.machine.snapshot("/etc", "/usr", "/proc") == before
    assert site.machine.commands.changing() == []
    site.join()


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda machine: machine.put("/etc/os-release", "ID=other\nVERSION_ID=1\n"), UnsupportedPlatform),
        (lambda machine: machine.put("/lib/systemd/system/docker.service"), ForeignRuntime),
    ],
)
def test_a_machine_that_is_not_fit_is_not_touched(site: Site, spoil: Any, error: type[FlexNodeError]) -> None:
    spoil(site.machine)
    obtain(site.machine.host, Inline(site.document), {})
    before = site.machine.snapshot("/")
    with pytest.raises(error):
        site.join()
    assert site.machine.snapshot("/") == before


def test_our_own_node_by_our_own_identity(site: Site) -> None:
    site.join()
    client, name = own_node(site.machine.host)
    assert (name, client.node(name) is not None) == ("edge-1", True)


# -- leave -------------------------------------------------------------------------------------------------


def test_after_joining_and_leaving_the_machine_is_as_before(site: Site) -> None:
    site.machine.put("/etc/containerd/config.toml", "theirs", 0o640)
    site.machine.put("/var/lib/kubelet/theirs", "keep me")
    site.machine.put("/etc/default/kubelet", "THEIRS=1\n")
    before = site.machine.snapshot(*PLACES)
    site.join()
    site.machine.put("/var/lib/kubelet/pods/1/volumes/x", "a pod's")
    site.machine.put("/var/lib/containerd/io.containerd/x", "an image")
    site.machine.put("/run/containerd/containerd.sock")
    report = leave(site.machine.host)
    assert (report.remains, report.node, report.node_remains) == ([], "edge-1", "")
    after = site.machine.snapshot(*PLACES)
    assert {name for name in after if before.get(name) != after[name] and "proc/sys" not in name} == set()
    assert set(before) == set(after)
    assert {
        name: what[0] for name, what in after.items() if "proc/sys" in name and what[0] != "directory"
    } == {
        name: ((what[0][0].strip(), 0) if after[name][0][0] != what[0][0] else what[0])  # type: ignore[index]
        for name, what in before.items()
        if "proc/sys" in name and what[0] != "directory"
    }
    assert (site.api.nodes, site.machine.commands.units[KUBELET]) == ({}, "inactive")
    assert not site.machine.path(DATA_DIR).exists()
    again = leave(site.machine.host)
    assert (again.changed, again.remains) == (False, [])
    site.join()  # and it can join again
    assert site.machine.store.state()["phase"] == "NodeJoined"


def test_leaving_drains_stops_deletes_and_unmounts_in_this_order(site: Site) -> None:
    site.join()
    site.api.pods = [a_pod("a")]
    site.machine.commands.calls.clear()
    site.machine.commands.answers["ctr", "-n", "k8s.io", "tasks", "ls", "-q"] = "task1 task2\n"
    site.machine.mount(
        "/",
        "/var/lib/kubelet/pods/1/v",
        "/var/lib/kubelet/pods/1/v/deep",
        "/run/containerd/io.containerd.grpc.v1.cri/x",
    )
    site.machine.put("/var/lib/kubelet/pods/1/v/deep/file", "keep me")
    site.machine.put("/run/netns/cni-1")
    site.machine.put("/run/netns/theirs")
    told: list[str] = []
    report = leave(site.machine.host, tell=told.append)
    assert told[:4] == ["drain edge-1", "stop kubelet", "delete Node edge-1", "end all pods"]
    assert site.api.pods == []
    calls = site.machine.commands.changing()
    order = [
        ("systemctl", "stop", KUBELET),
        ("ctr", "-n", "k8s.io", "tasks", "rm", "-f", "task1", "task2"),
        ("systemctl", "stop", CONTAINERD),
        ("umount", "--", "/var/lib/kubelet/pods/1/v/deep"),
        ("umount", "--", "/var/lib/kubelet/pods/1/v"),
        ("umount", "--", "/run/containerd/io.containerd.grpc.v1.cri/x"),
        ("umount", "--", "/run/netns/cni-1"),
        ("systemctl", "daemon-reload"),
    ]
    assert [call for call in calls if call in order] == order
    assert site.machine.host.names("/run/netns") == ("theirs",)
    # The fake does not really unmount: what is still mounted is kept and named.
    assert any("/var/lib/kubelet/pods/1/v" in line for line in report.remains)
    assert site.machine.text("/var/lib/kubelet/pods/1/v/deep/file") == "keep me"


def test_without_an_api_server_the_machine_is_given_back_all_the_same(site: Site) -> None:
    before = site.machine.snapshot("/etc", "/opt", "/usr")
    site.join()
    site.api.refuse[""] = 503
    report = leave(site.machine.host)
    assert report.node_remains
    assert site.machine.snapshot("/etc", "/opt", "/usr") == before


def test_leaving_goes_by_what_the_machine_is_not_by_what_it_was_told_last(site: Site) -> None:
    site.join()
    told = merge(site.document, {"agent": {"nodeName": "edge-2"}})
    told["node"]["kubelet"]["serverURL"] = "https://127.0.0.1:1"
    site.machine.store.set_current_config(told, None)  # and never applied
    site.api.nodes["edge-2"] = a_node("edge-2")
    report = leave(site.machine.host)
    assert (report.node, report.node_remains) == ("edge-1", "")
    assert set(site.api.nodes) == {"edge-2"}


@pytest.mark.parametrize("damage", [b"{", b'{"unknown": 1}'])
def test_a_damaged_configuration_does_not_stop_the_way_back(site: Site, damage: bytes) -> None:
    before = site.machine.snapshot("/etc", "/opt", "/usr")
    site.join()
    for name in ("current", "applied"):
        site.machine.put(f"{DATA_DIR}/{name}-config.json", damage)
    report = leave(site.machine.host)
    assert any("Node may still exist" in line for line in report.remains)
    assert site.machine.snapshot("/etc", "/opt", "/usr") == before


def test_leaving_in_check_mode_only_tells(site: Site) -> None:
    site.join()
    before, calls = site.machine.snapshot("/"), site.machine.commands.changing()
    report = leave(site.machine.host, check=True)
    assert report.actions[0] == "leave the cluster"
    assert "restore /etc/default/kubelet" in report.actions
    assert site.machine.snapshot("/") == before
    assert site.machine.commands.changing() == calls


def test_leaving_a_machine_that_was_never_a_node(debian: Machine) -> None:
    before = debian.snapshot("/")
    report = leave(debian.host)
    assert (report.changed, report.remains) == (False, [])
    assert debian.snapshot("/") == before


def test_what_someone_changed_since_is_reported(site: Site) -> None:
    site.join()
    site.machine.put("/etc/default/kubelet", "edited by hand")
    report = leave(site.machine.host)
    assert "file:/etc/default/kubelet: someone changed it after us" in report.remains
    assert site.machine.text("/etc/default/kubelet") == "edited by hand"


# -- status ------------------------------------------------------------------------------------------------


def test_the_status_of_a_machine_that_is_no_node(debian: Machine) -> None:
    before = debian.snapshot("/")
    status = status_of(debian.host)
    assert (status["phase"], status["reason"], status["node"]["ready"]) == ("NotStarted", "NotStarted", False)
    assert status["timestamp"] == "2027-01-15T08:00:00+00:00"
    assert debian.snapshot("/") == before


def test_the_status_of_a_good_node(site: Site) -> None:
    site.join()
    obtain(site.machine.host, Inline({"config": site.document, "configVersion": "17"}), {})
    status = status_of(site.machine.host, "x86_64")
    assert status["node"]["status"] == "Ready"
    assert (status["node"]["kubeletVersion"], status["node"]["labels"]["site"]) == ("1.34.4", "lab-1")
    assert status["config"] == {"version": "17", "appliedVersion": "17"}
    assert (status["drift"], status["phase"], status["reason"]) == ([], "NodeJoined", "NodeJoined")
    assert TOKEN not in json.dumps(status)


@pytest.mark.parametrize(
    ("happens", "reason", "node"),
    [
        (lambda site: site.machine.put("/etc/default/kubelet", "x"), "Drift", "Ready"),
        (lambda site: site.machine.commands.units.update({KUBELET: "failed"}), "Drift", "Ready"),
        (lambda site: site.api.nodes.update({"edge-1": a_node(ready=False)}), "FLEX-1502", "NotReady"),
        (lambda site: site.api.nodes.clear(), "NodeJoined", "NotRegistered"),
        (lambda site: site.api.refuse.update({"GET": 503}), "FLEX-1504", "NotJoined"),
        (lambda site: site.machine.path(IDENTITY).unlink(), "NodeJoined", "NotJoined"),
    ],
)
def test_the_status_says_what_is_wrong(site: Site, happens: Any, reason: str, node: str) -> None:
    site.join()
    happens(site)
    before = site.machine.snapshot("/")
    status = status_of(site.machine.host, "x86_64")
    assert (status["reason"], status["node"]["status"]) == (reason, node)
    assert site.machine.snapshot("/") == before


def test_the_status_after_a_failed_join(site: Site) -> None:
    site.api.refuse["GET /version"] = 503
    with pytest.raises(ApiUnreachable):
        site.join()
    status = status_of(site.machine.host, "x86_64")
    assert (status["phase"], status["node"]["ready"]) == ("NodeFailed", False)
    assert status["reason"] == "FLEX-1504"


def test_a_damaged_state_file_is_an_error(site: Site) -> None:
    site.machine.put(f"{DATA_DIR}/state.json", "{")
    with pytest.raises(StateCorrupt):
        status_of(site.machine.host)
