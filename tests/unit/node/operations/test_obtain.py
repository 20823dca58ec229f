# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Obtain a configuration: what is stored, what is refused, which document is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge, redact
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR, POINTER
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ConfigInvalid,
    ConfigMissing,
    FlexNodeError,
    NodeNotReady,
    NotAvailable,
    StateCorrupt,
    UnsupportedPlatform,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.checks import (
    AlreadyJoined,
    has_joined,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
    store_config,
    stored_config,
    stored_document,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    reconcile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline, Stored
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.fakes import Machine
from tests.unit.node.sites import CLUSTER, IDENTITY, KUBELET, TOKEN, Site

# -- obtain -------------------------------------------------------------------------------------------------


def test_a_document_is_checked_stored_and_shown_without_its_secrets(site: Site) -> None:
    bundle = {"config": site.document, "configVersion": "17"}
    got = store_config(site.machine.host, Inline(bundle), {"node": {"maxPods": 50}})
    assert (got.changed, got.version) == (True, "17")
    stored = site.machine.store.current_config() or {}
    assert stored["azure"]["bootstrapToken"]["token"] == TOKEN
    assert stored["node"]["maxPods"] == 50
    assert got.public["azure"]["bootstrapToken"]["token"] == REDACTED
    assert TOKEN not in json.dumps(got.public)
    assert site.machine.host.stat(f"{DATA_DIR}/current-config.json").mode == 0o600
    assert not store_config(site.machine.host, Inline(bundle), {"node": {"maxPods": 50}}).changed


def test_a_document_is_stored_as_it_is_read(site: Site) -> None:
    """A poll looks into the stored document without parsing it: `Token` would be a certificate there."""
    spelled = {"kubernetesAuth": {"profile": "Certificate"}, "azure": {"vpn": {"enabled": "false"}}}
    store_config(site.machine.host, Inline(site.document), spelled)
    stored = site.machine.store.current_config() or {}
    assert (stored["kubernetesAuth"]["profile"], stored["azure"]["vpn"]["enabled"]) == ("certificate", False)


def test_what_is_prepared_has_nothing_to_poll_yet(site: Site) -> None:
    follows = {"continuousMonitoring": True}
    assert store_config(site.machine.host, Inline(site.document), follows, purpose="prepare").changed
    assert stored_config(site.machine.host, purpose="prepare").node.config.continuous_monitoring
    with pytest.raises(ConfigInvalid, match="continuousMonitoring"):
        store_config(site.machine.host, Inline(site.document), follows)


def test_check_mode_stores_nothing(site: Site) -> None:
    before = site.machine.snapshot("/")
    assert store_config(site.machine.host, Inline(site.document), {}, check=True).changed
    assert site.machine.snapshot("/") == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"node": {"maxPods": 0}}, ConfigInvalid),
        ({"unknown": 1}, ConfigInvalid),
        ({"hooks": {"before": ["/srv/before.yml"]}}, NotAvailable),
    ],
)
def test_a_bad_document_is_refused_and_the_old_one_stays(
    site: Site, change: dict[str, Any], error: type[FlexNodeError]
) -> None:
    store_config(site.machine.host, Inline(site.document), {})
    before = site.machine.snapshot("/var")
    with pytest.raises(error):
        store_config(site.machine.host, Inline(site.document), change)
    assert site.machine.snapshot("/var") == before


def test_preparing_needs_no_cluster(site: Site) -> None:
    document = {"kubernetes": {"version": "1.34.4"}}
    with pytest.raises(ConfigInvalid):
        store_config(site.machine.host, Inline(document), {})
    assert store_config(site.machine.host, Inline(document), {}, purpose="prepare").changed


@pytest.mark.parametrize("applied", ["", "{"], ids=["applied", "both"])
def test_a_damaged_document_is_healed_from_its_source(site: Site, applied: str) -> None:
    site.join()
    host, path = site.machine.host, f"{DATA_DIR}/current-config.json"
    whole = site.machine.text(path)
    site.machine.put(path, whole[:100], 0o600)
    if applied:
        site.machine.put(f"{DATA_DIR}/applied-config.json", applied, 0o600)
    with pytest.raises(StateCorrupt):
        store_config(host, Stored(site.machine.store), {})
    public = store_config(host, Inline(site.document), {}, check=True).public
    assert stored_document(host, public)[1]["kubernetes"] == site.document["kubernetes"]
    assert store_config(host, Inline(site.document), {}).changed
    assert site.machine.text(path) == whole


def test_a_marked_secret_of_a_damaged_document_is_taken_from_what_was_applied(site: Site) -> None:
    site.join()
    site.machine.put(f"{DATA_DIR}/current-config.json", "{", 0o600)
    store_config(site.machine.host, Inline(redact(site.document)), {})
    assert (site.machine.store.current_config() or {})["azure"]["bootstrapToken"]["token"] == TOKEN


@pytest.mark.parametrize("ready", [True, False])
def test_a_node_keeps_its_name(site: Site, ready: bool) -> None:
    host, other = site.machine.host, {"agent": {"nodeName": "edge-2"}}
    if ready:
        site.join()
    else:  # its certificate has the name already
        site.machine.commands.on_start[KUBELET] = lambda: site.machine.put(IDENTITY, "a certificate\n")
        with pytest.raises(NodeNotReady):
            site.join()
    before = site.machine.snapshot("/var")
    for check in (True, False):
        with pytest.raises(
            ConfigInvalid, match=r"is Node edge-1\. Set edge-1\. To rename it, unbootstrap it under this name"
        ):
            store_config(host, Inline(site.document), other, check=check)
    assert bool(site.machine.store.refused()) is ready, "a node keeps it beside, with the reason"
    site.machine.store.forget_refused()
    after = site.machine.snapshot("/var")
    told = "var/lib/aks-flex-node/status.json"
    assert (after.pop(told) != before.pop(told)) is ready, "a node reports that it was refused"
    assert after == before
    assert store_config(host, Inline(site.document), {"agent": {"nodeName": "edge-1"}}).changed


def in_cluster(resource_id: str) -> dict[str, Any]:
    return {"azure": {"targetCluster": {"resourceId": resource_id}}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (in_cluster(CLUSTER.replace("plant", "other")), "a node of another cluster"),
        ({"azure": {"targetAgentPoolName": "other"}}, r"is in pool edge\. Set edge\. To move it"),
        (
            {"cni": {"podCIDR": "10.8.0.0/24"}},
            r"have addresses of 10\.9\.0\.0/24\. Set 10\.9\.0\.0/24",
        ),
    ],
    ids=["cluster", "pool", "pods"],
)
def test_a_node_keeps_its_cluster_its_pool_and_its_range_of_pods(
    site: Site, change: dict[str, Any], why: str
) -> None:
    place = {
        "azure": {"targetAgentPoolName": "edge"},
        "cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"},
    }
    host, document = site.machine.host, merge(site.document, place)
    store_config(host, Inline(document), change)
    store_config(host, Inline(document), {})
    site.join(place)
    with pytest.raises(ConfigInvalid, match=why):
        store_config(host, Inline(document), change)
    store_config(host, Inline(document), in_cluster(CLUSTER.replace("plant", "PLANT")))
    store_config(host, Inline(document), {"cni": {"mode": "none", "podCIDR": None}})


def test_a_node_is_not_prepared_again(site: Site) -> None:
    store_config(site.machine.host, Inline(site.document), {}, purpose="prepare")
    site.join()
    before = site.machine.snapshot("/")
    with pytest.raises(AlreadyJoined, match="is a node"):
        store_config(site.machine.host, Inline(site.document), {}, purpose="prepare")
    assert site.machine.snapshot("/") == before


def test_a_certificate_of_another_clusters_kubelet_is_no_join(site: Site) -> None:
    site.machine.put(IDENTITY, "a certificate\n")
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
        store_config(site.machine.host, Inline(site.document), {}, review=look)
    assert site.machine.snapshot("/var") == before


def test_before_the_join_a_name_may_change(site: Site) -> None:
    store_config(site.machine.host, Inline(site.document), {})
    assert store_config(site.machine.host, Inline(site.document), {"agent": {"nodeName": "edge-2"}}).changed


# -- which document counts ----------------------------------------------------------------------------------


def test_no_document_anywhere(machine: Machine) -> None:
    with pytest.raises(ConfigMissing):
        stored_document(machine.host, None)


def test_a_redacted_document_gets_its_secrets_back_from_the_stored_one(site: Site) -> None:
    host = site.machine.host
    public = store_config(host, Inline(site.document), {}).public
    _, document = stored_document(host, public)
    assert document["azure"]["bootstrapToken"]["token"] == TOKEN
    _, document = stored_document(host, None)
    assert document["azure"]["bootstrapToken"]["token"] == TOKEN


def test_on_a_fresh_host_the_redacted_document_is_enough_to_plan(site: Site) -> None:
    public = redact(site.document)
    before = site.machine.snapshot("/")
    planned = stored_config(site.machine.host, public, pollable=True)
    run = reconcile(planned, EVERYTHING, check=True, machine="x86_64")
    assert run.changed
    assert "create /var/lib/kubelet/bootstrap-kubeconfig" in run.actions
    assert f"start {KUBELET}" in run.actions
    assert TOKEN not in json.dumps(run.plan.diff)
    assert site.machine.snapshot("/") == before
    assert (site.mirror.requests, site.machine.commands.changing()) == ([], [])


def test_a_document_without_its_secrets_is_never_applied(site: Site) -> None:
    before = site.machine.snapshot("/etc", "/opt")
    with pytest.raises(ConfigMissing):
        reconcile(stored_config(site.machine.host, redact(site.document)), EVERYTHING, machine="x86_64")
    assert site.machine.snapshot("/etc", "/opt") == before


def test_a_moved_data_directory_is_followed(site: Site) -> None:
    site.join({"paths": {"dataDir": "/srv/flexnode"}})
    assert site.machine.text(POINTER) == "/srv/flexnode\n"
    assert status_of(site.machine.host)["phase"] == "NodeJoined"
    leave(site.machine.host)
    assert not site.machine.path("/srv/flexnode").exists()
    assert not site.machine.path(POINTER).exists()
