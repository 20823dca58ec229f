# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reconcile: join, update, roll back, on a machine with a mirror and an API server."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.labels import APPLIED_VERSION
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    DigestMismatch,
    FlexNodeError,
    ForeignRuntime,
    NodeNotReady,
    TokenRefused,
    UnsupportedPlatform,
    VersionSkew,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
    store_config,
    stored_config,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    reconcile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline
from tests.unit.node.fake_api import a_node
from tests.unit.node.servers import Pki
from tests.unit.node.sites import IDENTITY, KUBELET, Site


def test_a_join_ends_with_a_ready_node_and_a_second_one_changes_nothing(site: Site) -> None:
    told: list[str] = []
    run = site.join(progress=told.append)
    assert run.node == {
        "name": "edge-1",
        "ready": True,
        "kubeletVersion": "1.34.4",
        "containerRuntime": "containerd 2.3.4",
        "addresses": ["10.0.0.4"],
    }
    assert set(run.timings) == {"plan", "fetch", "drain", "apply", "start", "gate"}
    assert site.machine.store.state() == {
        "phase": "NodeJoined",
        "join": {"token": "fedcba", "outcome": "joined"},
        "labels": ["site"],
        "versions": {"cni": "1.9.1", "containerd": "2.3.4", "kubernetes": "1.34.4", "runc": "1.4.3"},
        "drift": {"mode": "repair", "interval": 150},
        "facts": {
            "cpus": os.cpu_count(),
            "memory": 8134224 << 10,
            "may_lower_oom_score": True,
            "resolv_conf": "/etc/resolv.conf",
            "hostname": "edge-1",
        },
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
    alone = stored_config(site.machine.host, document, purpose="prepare")
    assert reconcile(alone, ["system_config"], machine="x86_64").changed
    assert not reconcile(alone, ["system_config"], machine="x86_64").changed


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
    annotations = site.api.nodes["edge-1"]["metadata"]["annotations"]
    assert APPLIED_VERSION not in annotations, "no version, nothing to report"
    document = site.machine.store.current_config()
    assert document is not None
    site.machine.store.set_current_config(document, "1708123456")
    told = "report configuration 1708123456 as applied"
    assert told in reconcile(stored_config(site.machine.host), EVERYTHING, machine="x86_64").actions
    assert site.api.nodes["edge-1"]["metadata"]["annotations"][APPLIED_VERSION] == "1708123456"
    assert reconcile(stored_config(site.machine.host), EVERYTHING, machine="x86_64").actions == []


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
    assert any("request a new certificate" in action for action in planned.actions)
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


def test_a_rollback_keeps_the_certificate_of_the_new_ca(site: Site, pki: Pki) -> None:
    """The update fails for another reason, and the token that brought the certificate is used up."""
    site.join()
    new = rotated(site, pki)
    signed = pki.client.read_bytes() + b"# by the new CA\n"

    def starts() -> None:
        if not site.machine.path(IDENTITY).exists():
            site.machine.put(IDENTITY, signed, 0o600)
            site.api.refuse = {}
            site.api.nodes["edge-1"] = a_node(ready=False)

    site.machine.commands.on_start[KUBELET] = starts
    with pytest.raises(NodeNotReady) as caught:
        site.join(new, NEW_TOKEN, {"upgrade": {"gateSeconds": 30}})
    assert caught.value.rolled_back
    assert site.machine.path(IDENTITY).read_bytes() == signed


def test_a_new_token_lifts_the_block_of_an_expired_one(site: Site, pki: Pki) -> None:
    site.join()
    new = rotated(site, pki)
    starts = site.machine.commands.on_start.pop(KUBELET)
    site.machine.commands.logs[KUBELET] = "E1115 cannot create certificate signing request: Unauthorized\n"
    with pytest.raises(TokenRefused):
        site.join(new, {"azure": {"bootstrapToken": {"token": "expire.0123456789abcdef"}}})
    site.machine.commands.on_start[KUBELET] = starts
    site.machine.commands.logs.clear()
    assert site.join(new, NEW_TOKEN).node["ready"]


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


def test_what_nobody_hinted_at_is_mended_after_a_run_that_failed(site: Site, pki: Pki) -> None:
    site.join()
    rotated(site, pki)
    with pytest.raises(NodeNotReady):
        site.join(NEW_TOKEN, {"upgrade": {"gateSeconds": 30}})
    assert any("request a new certificate" in action for action in site.join(NEW_TOKEN).actions)
    assert not site.join(NEW_TOKEN).changed


def test_without_a_token_that_is_not_used_up_the_certificate_stays(site: Site, pki: Pki) -> None:
    """The token of the join is deleted: whatever the API server answers, there is no other certificate."""
    site.join()
    rotated(site, pki)
    for _time in range(2):
        with pytest.raises(NodeNotReady, match="does not accept the kubelet's certificate") as caught:
            site.join({"upgrade": {"gateSeconds": 30}})
        assert "get a new token" in caught.value.fix
        assert site.machine.path(IDENTITY).exists()
    assert any("request a new certificate" in action for action in site.join(NEW_TOKEN).actions)


def test_a_new_ca_needs_a_new_token_and_is_not_blocked_without(site: Site, pki: Pki) -> None:
    site.join()
    new, before = rotated(site, pki), site.machine.snapshot("/etc", "/usr")
    with pytest.raises(TokenRefused, match="no unused bootstrap token"):
        site.join(new)
    assert (site.machine.snapshot("/etc", "/usr"), site.machine.path(IDENTITY).exists()) == (before, True)
    assert site.join(new, NEW_TOKEN).node["ready"]


def test_one_answer_does_not_cost_the_certificate(site: Site, pki: Pki) -> None:
    """An API server that is starting answers Unauthorized for a moment."""
    site.join()
    new = rotated(site, pki)
    site.machine.clock.then = site.api.refuse.clear
    asked = len(site.api.server.requests)
    assert not any("new certificate" in action for action in site.join(new, NEW_TOKEN, check=True).actions)
    assert site.machine.clock.naps[-1] >= 3
    assert len(site.api.server.requests) - asked == 3, "twice for the certificate, once for the Node"
    assert site.api.server.connections >= 2, "each answer may be of another API server"


def test_a_first_join_that_fails_stays_to_be_looked_at(site: Site) -> None:
    site.machine.commands.on_start.clear()  # a kubelet that never gets its certificate
    with pytest.raises(NodeNotReady, match="no certificate"):
        site.join({"upgrade": {"gateSeconds": 10}})
    assert site.machine.path("/etc/default/kubelet").exists()
    assert site.machine.store.state()["phase"] == "NodeFailed"


def test_what_is_wrong_with_the_cluster_is_found_before_anything_is_touched(site: Site) -> None:
    store_config(site.machine.host, Inline(site.document), {})
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
    store_config(site.machine.host, Inline(site.document), {})
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
    store_config(site.machine.host, Inline(site.document), {})
    before = site.machine.snapshot("/")
    with pytest.raises(error):
        site.join()
    assert site.machine.snapshot("/") == before


def test_our_own_node_by_our_own_identity(site: Site) -> None:
    site.join()
    node = stored_config(site.machine.host, pollable=True).node
    assert (node.name, node.read() is not None) == ("edge-1", True)


def test_a_rotated_password_does_not_stay_on_the_machine(site: Site) -> None:
    def proxy(password: str) -> dict[str, Any]:
        return {"proxy": {"http": f"http://u:{password}@127.0.0.1:9", "no": ["127.0.0.1"]}}

    site.join(proxy("first-s3cret"))
    site.join(proxy("second-s3cret"))
    site.join(proxy("second-s3cret"))
    files = [path for path in site.machine.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in files if b"second-s3cret" in path.read_bytes()]
    assert [path for path in files if b"first-s3cret" in path.read_bytes()] == []


def test_a_join_under_umask_077_is_the_same(site: Site) -> None:
    """In a shell of a hardened machine: others than root must still be able to enter our directories."""
    before = os.umask(0o077)
    try:
        site.join()
    finally:
        os.umask(before)
    under = {name: what[1:] for name, what in site.machine.snapshot("/etc", "/opt", "/usr").items()}
    leave(site.machine.host)
    site.join()
    assert {name: what[1:] for name, what in site.machine.snapshot("/etc", "/opt", "/usr").items()} == under
