# SPDX-License-Identifier: GPL-3.0-or-later
"""Point 21: a node that repairs itself, and what it made worse."""

from __future__ import annotations

from tests.regressions.case import NODE, UNIT, Case, Edit

DRIFT = f"{UNIT}/drift/test_drift.py"
DELETED = f"{UNIT}/drift/test_deleted_node.py"
RENAMED = f"{UNIT}/drift/test_new_host_name.py"
FAILED_ARC = f"{UNIT}/drift/test_failed_arc.py"
OUTDATED = f"{UNIT}/drift/test_outdated_status.py"

CASES = (
    Case(
        "21a",
        "a new host name restarts the kubelet under a name that its certificate does not have",
        (
            Edit(
                f"{NODE}/machine/facts.py",
                "hostname=joined_hostname(host, stored),",
                "hostname=hostname(host),",
            ),
            Edit(
                f"{NODE}/engine/records/name.py",
                "return joined_hostname(host, stored)",
                "return joined_hostname(host, {} if stored else None)",
            ),
        ),
        (
            f"{RENAMED}::test_a_new_host_name_is_reported_and_changes_nothing",
            f"{RENAMED}::test_an_administrator_who_updates_a_renamed_machine_keeps_its_node",
        ),
    ),
    Case(
        "21b",
        "a deleted Node stays gone, and is no finding",
        (
            Edit(
                f"{NODE}/drift/check.py",
                "return Seen((*findings, *_lost(node)), read=True)",
                "return Seen(findings)",
            ),
            Edit(
                f"{NODE}/operations/reconcile.py",
                "register := register or is_lost(obtained.node, components, applied, leave)",
                "register",
            ),
        ),
        (
            f"{DELETED}::test_a_deleted_node_is_registered_again",
            f"{DELETED}::test_report_says_so_and_leaves_it",
            f"{DELETED}::test_an_administrator_who_updates_gets_the_node_back",
        ),
    ),
    Case(
        "21c",
        "beside a contended kubelet a stopped containerd is called repaired, and never started",
        (
            Edit(
                f"{NODE}/follow/repair.py",
                "run = reconcile(applied_config(host, store), EVERYTHING, progress=say",
                'rest = EVERYTHING[:-1] if "unit:kubelet.service" in left else EVERYTHING\n'
                "        run = reconcile(applied_config(host, store), rest, progress=say",
            ),
            Edit(
                f"{NODE}/follow/repair.py",
                "drift.repairs & {*made_by(run, drift), *(() if uninstalled else (*of_pull, PULL_INSTALL))}",
                "drift.repairs",
            ),
        ),
        (f"{DRIFT}::test_beside_a_contended_kubelet_a_stopped_containerd_runs_again",),
    ),
    Case(
        "21d",
        "a status that was published in the middle of an outage stays until something else changes",
        (Edit(f"{NODE}/follow/watch.py", "        _publish_anew(host, store, drift)\n"),),
        (
            f"{OUTDATED}::test_a_node_that_reports_again_after_the_status_was_published",
            f"{OUTDATED}::test_an_api_server_that_did_not_answer_when_the_status_was_published",
            f"{OUTDATED}::test_drift_that_could_not_be_told_to_the_api_server_is_told_later",
        ),
    ),
    Case(
        "21e",
        "the expiry metric of a certificate that the kubelet has renewed stays the old one",
        (
            Edit(
                f"{NODE}/status/outdated.py",
                '.get("expires") != (iso(expires) if expires else None)',
                " is Ellipsis",
            ),
        ),
        (f"{OUTDATED}::test_a_certificate_that_the_kubelet_has_renewed",),
    ),
    Case(
        "21f",
        "a node whose Arc agent fails in a later run is watched and repaired no more",
        (Edit(f"{NODE}/drift/quick.py", " or only_arc_failed(state)"),),
        (
            f"{FAILED_ARC}::test_the_node_is_watched_and_repaired",
            f"{FAILED_ARC}::test_a_registration_that_was_killed_leaves_it_watched_too",
        ),
    ),
)
