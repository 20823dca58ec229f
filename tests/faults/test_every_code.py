# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every code that a user can meet has a test that provokes it; a new code without one fails here."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.errors import KubeconfigUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import (
    read_kubeconfig,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import PreflightFailed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.run import run_preflight
from scripts.docs.errors import every_error

TESTS = Path(__file__).parents[1]
CODES = {cls.code: cls for cls in every_error()}
# Code -> the test that shows it: on the testbed where a machine can be brought into that trouble, else on a
# temporary root or against a real server.
PROVOKED = {
    "FLEX-1101": "e2e/test_errors.py::test_bad_day",
    "FLEX-1102": "unit/node/config/test_document.py::test_what_is_not_json_is_refused_with_line_and_column",
    "FLEX-1103": "e2e/test_errors.py::test_clock_off_by_a_day_seen_at_the_config_url",
    "FLEX-1104": "unit/node/operations/test_obtain.py::test_no_document_anywhere",
    "FLEX-1105": "unit/node/operations/test_obtain.py::test_a_bad_document_is_refused_and_the_old_one_stays",
    "FLEX-1106": "unit/controller/inventory/test_checks.py::test_all_findings_are_shown_in_one_list",
    "FLEX-1107": "unit/playbooks/test_sources.py::test_a_run_without_a_usable_source_is_an_error",
    "FLEX-1108": "unit/playbooks/test_targets.py::"
    "test_what_destroys_stops_without_named_machines_and_shows_the_line_to_type",
    "FLEX-1109": "unit/node/follow/test_resource.py::test_a_resource_that_never_was_removes_nothing",
    "FLEX-1110": "unit/node/follow/test_resource.py::"
    "test_another_principal_without_the_right_to_ask_is_refused",
    "FLEX-1111": "unit/node/sources/test_machines.py::test_a_machine_that_is_not_ready_is_not_used",
    "FLEX-1112": "unit/node/sources/test_machines.py::test_max_pods_of_a_machine_can_not_change",
    "FLEX-1113": "unit/node/sources/test_bootstrap_data.py::test_a_missing_field_is_named",
    "FLEX-1114": "unit/node/commands/test_join_pool.py::"
    "test_a_role_that_is_never_assigned_is_an_error_with_the_line_to_type",
    "FLEX-1115": "unit/node/commands/test_join_pool.py::"
    "test_a_machine_that_is_changed_again_and_again_is_an_error",
    "FLEX-1116": "unit/node/follow/test_machine.py::test_a_missing_machine_alone_removes_nothing",
    "FLEX-1117": "unit/node/follow/test_tick.py::"
    "test_an_unexpected_failure_is_one_of_that_document_and_is_tried_again_less_and_less_often",
    "FLEX-1118": "unit/node/operations/test_obtain.py::test_a_node_is_not_prepared_again",
    "FLEX-1201": "e2e/test_errors.py::test_bad_day",
    "FLEX-1202": "e2e/test_errors.py::test_bad_day",
    "FLEX-1203": "e2e/test_errors.py::test_bad_day",
    "FLEX-1204": "e2e/test_errors.py::test_a_working_node_survives_bad_updates",
    "FLEX-1205": "unit/node/engine/test_fetch.py::test_an_archive_that_is_not_what_it_should_be",
    "FLEX-1206": "unit/node/net/test_download.py::"
    "test_an_announced_size_above_the_limit_is_refused_before_anything_is_written",
    "FLEX-1301": "e2e/test_errors.py::test_bad_day",
    "FLEX-1302": "unit/node/machine/test_host.py::test_a_failed_command_is_an_error_that_quotes_it",
    "FLEX-1303": "e2e/test_errors.py::test_bad_day",
    "FLEX-1304": "e2e/test_errors.py::test_bad_day",
    "FLEX-1305": "e2e/test_errors.py::test_foreign_owner_is_refused_unless_taken_over",
    "FLEX-1306": "unit/node/test_cli.py::test_who_is_not_root_is_told_so",
    "FLEX-1307": "unit/node/resources/test_paths.py::test_something_else_where_a_directory_belongs",
    "FLEX-1308": "unit/node/resources/test_kernel.py::test_a_kernel_without_the_module",
    "FLEX-1309": "unit/node/machine/test_host.py::test_setting_access_refuses_a_link",
    "FLEX-1310": "faults/test_every_code.py::test_all_that_stands_against_a_join_is_one_error",
    "FLEX-1311": "unit/node/resources/test_package.py::test_apt_that_fails_is_an_error_that_quotes_it",
    "FLEX-1511": "unit/node/operations/test_npd.py::test_a_version_that_does_not_work_is_rolled_back",
    "FLEX-1512": "unit/node/node_object/test_reporter.py::test_the_node_of_another_machine_is_not_ready",
    "FLEX-1405": "unit/node/operations/test_new_program.py::"
    "test_a_release_that_can_not_plan_here_does_not_replace_the_old_one",
    "FLEX-2001": "unit/node/pull/test_run.py::test_a_repository_that_is_away_runs_nothing_again",
    "FLEX-2002": "unit/node/pull/test_run.py::test_a_playbook_that_was_named_and_is_missing_is_an_error",
    "FLEX-2003": "unit/node/pull/test_run.py::"
    "test_an_unsigned_commit_is_refused_before_anything_of_it_is_checked_out",
    "FLEX-2004": "unit/node/pull/test_run.py::"
    "test_a_failed_playbook_is_named_with_its_task_and_the_last_good_run_stays",
    "FLEX-2005": "unit/node/pull/test_run.py::test_collections_that_can_not_be_installed_stop_the_run",
    "FLEX-2006": "unit/node/pull/test_install.py::"
    "test_a_machine_without_cron_is_refused_before_anything_is_installed",
    "FLEX-2007": "unit/node/pull/test_run.py::test_an_older_signed_commit_is_not_run_again",
    "FLEX-2008": "unit/node/pull/test_run.py::test_a_commit_with_submodules_is_refused",
    "FLEX-2009": "unit/node/pull/test_damage.py::test_a_disk_that_damages_each_copy_is_reported",
    "FLEX-1401": "e2e/test_errors.py::test_a_held_lease_names_its_owner",
    "FLEX-1402": "unit/node/test_cli.py::test_an_error_as_json",
    "FLEX-1403": "unit/node/operations/test_update.py::"
    "test_state_of_a_newer_release_is_refused_and_nothing_is_lost",
    "FLEX-1404": "unit/node/operations/test_update.py::test_a_rollback_that_can_not_be_completed_is_an_error",
    "FLEX-1501": "unit/node/node_object/test_gates.py::"
    "test_a_failed_unit_ends_the_wait_at_once_and_is_quoted",
    "FLEX-1502": "unit/node/node_object/test_gates.py::test_a_node_without_a_network",
    "FLEX-1503": "e2e/test_errors.py::test_dead_token_is_named_and_a_new_one_completes",
    "FLEX-1504": "e2e/test_errors.py::test_bad_day",
    "FLEX-1505": "unit/node/net/test_kube.py::test_refusals_are_explained",
    "FLEX-1506": "unit/node/operations/test_reconcile.py::"
    "test_what_is_wrong_with_the_cluster_is_found_before_anything_is_touched",
    "FLEX-1507": "e2e/test_errors.py::test_bad_day",
    "FLEX-1508": "e2e/test_rollback.py::test_a_bad_change_is_rolled_back_and_blocked",
    "FLEX-1509": "unit/node/operations/test_update.py::"
    "test_pods_that_do_not_leave_end_the_update_before_anything_stops",
    "FLEX-1510": "unit/node/operations/test_update.py::test_a_downgrade_must_be_allowed",
    "FLEX-1521": "unit/node/rollout/test_turn.py::test_a_node_that_can_not_know_waits_and_says_why",
    "FLEX-1522": "unit/node/rollout/test_turn.py::"
    "test_a_push_that_waited_long_enough_names_the_holders_and_changes_nothing",
    "FLEX-1523": "unit/node/rollout/test_turn.py::test_a_rollback_stops_the_rollout_for_all",
    "FLEX-1531": "unit/node/operations/test_vpn.py::"
    "test_a_gateway_that_refuses_the_certificate_is_not_waited_for",
    "FLEX-1532": "unit/node/operations/test_vpn.py::"
    "test_a_first_join_that_gets_no_tunnel_stops_there_and_goes_on_later",
    "FLEX-1533": "unit/node/operations/test_vpn.py::"
    "test_a_tunnel_that_does_not_lead_to_the_api_server_is_none",
    "FLEX-1534": "unit/node/operations/test_vpn.py::"
    "test_a_gateway_that_goes_away_during_an_update_rolls_nothing_back",
    "FLEX-1535": "unit/node/operations/test_vpn.py::"
    "test_a_wrong_profile_is_rolled_back_with_its_reason_and_blocked",
    "FLEX-1601": "unit/controller/cluster/proof/test_verdict.py::test_no_pod_runs",
    "FLEX-1602": "e2e/test_proof.py::test_dns_that_does_not_run_is_named",
    "FLEX-1603": "e2e/test_proof.py::test_missing_kube_proxy_is_named",
    "FLEX-1604": "e2e/test_proof.py::test_closed_kubelet_port_is_named",
    "FLEX-1605": "unit/controller/cluster/proof/test_verdict.py::test_exec_does_not_work",
    "FLEX-1606": "unit/controller/cluster/proof/test_cluster.py::test_what_the_api_server_refuses",
    "FLEX-1701": "unit/controller/azure/test_arm.py::test_a_wrong_secret_is_a_failed_login",
    "FLEX-1702": "contract/modules/test_config.py::test_a_missing_permission_says_who_what_where_and_how",
    "FLEX-1703": "contract/modules/test_config.py::test_a_cluster_that_does_not_exist",
    "FLEX-1704": "unit/controller/azure/test_arm.py::test_a_refusal_is_told_in_azures_words",
    "FLEX-1705": "unit/controller/azure/test_arm.py::test_what_stays_busy_is_an_error_in_the_end",
    "FLEX-1706": "unit/controller/azure/aks/test_cluster.py::test_an_answer_without_a_kubeconfig",
    "FLEX-1707": "unit/controller/cluster/test_bootstrap_token.py::"
    "test_a_binding_of_our_name_that_grants_something_else",
    "FLEX-1708": "contract/modules/test_blob.py::test_a_wrong_key_is_told",
    "FLEX-1709": "contract/modules/test_role_assignment.py::test_a_principal_that_azure_has_not_heard_of_yet",
    "FLEX-1710": "unit/controller/azure/machines/test_fleet.py::test_what_changes_all_the_time_is_an_error",
    "FLEX-1711": "unit/controller/azure/machines/test_fleet.py::"
    "test_a_pool_that_is_missing_or_of_another_type",
    "FLEX-1721": "unit/controller/azure/vpn/test_ranges.py::test_all_overlaps_are_named",
    "FLEX-1722": "unit/controller/azure/vpn/test_ranges.py::"
    "test_a_vnet_without_room_is_an_error_with_its_ranges",
    "FLEX-1723": "unit/controller/azure/vpn/test_plan.py::"
    "test_a_gateway_of_another_owner_is_used_only_if_it_needs_no_change",
    "FLEX-1724": "unit/controller/azure/vpn/test_record.py::test_another_passphrase_opens_nothing",
    "FLEX-1725": "unit/controller/azure/vpn/test_profile.py::test_what_is_no_profile_is_refused",
    "FLEX-1726": "unit/controller/azure/vpn/test_gateway.py::test_a_gateway_that_machines_use_is_not_deleted",
    "FLEX-1801": "unit/node/identity/test_sources.py::test_a_secret_file_without_a_secret",
    "FLEX-1802": "unit/node/identity/test_sources.py::test_what_entra_refuses_is_explained",
    "FLEX-1803": "unit/node/identity/test_sources.py::test_an_identity_that_is_not_on_this_vm",
    "FLEX-1804": "unit/node/identity/test_sources.py::test_a_machine_without_imds",
    "FLEX-1805": "unit/node/identity/test_sources.py::test_no_other_file_is_ever_read",
    "FLEX-1811": "unit/node/procedures/test_arc.py::"
    "test_an_agent_that_is_not_there_is_installed_and_removed_again",
    "FLEX-1812": "unit/node/procedures/test_arc.py::test_dpkg_waits_its_turn_and_then_complains",
    "FLEX-1813": "unit/node/procedures/test_arc.py::test_another_registration_is_an_error_that_names_both",
    "FLEX-1814": "unit/node/procedures/test_arc.py::test_what_the_agent_complains_about",
    "FLEX-1815": "unit/node/procedures/test_arc.py::test_services_that_do_not_come",
    "FLEX-1816": "unit/node/procedures/test_arc.py::test_a_role_that_is_never_granted",
    "FLEX-1817": "unit/node/procedures/test_arc.py::test_answers_that_are_none",
    "FLEX-1901": "faults/test_every_code.py::test_a_kubeconfig_that_is_not_there",
    "FLEX-1902": "unit/controller/cluster/test_exec_plugin.py::test_a_command_that_is_not_installed",
    "FLEX-1903": "unit/controller/cluster/proof/test_cluster.py::test_what_the_api_server_refuses",
    "FLEX-1904": "unit/controller/cluster/test_targets.py::test_a_node_is_that_of_the_machine",
}


def test_every_code_is_provoked_by_a_test() -> None:
    assert sorted(PROVOKED) == sorted(CODES), "a code without a test, or a test without a code"


@functools.cache
def read(place: str) -> tuple[str, set[str]]:
    """A file of tests, and its functions."""
    source = (TESTS / place).read_text(encoding="utf-8")
    return source, {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_the_test_is_there_and_names_the_code(code: str) -> None:
    place, _, name = PROVOKED[code].partition("::")
    source, functions = read(place)
    assert name in functions
    assert code in source or CODES[code].__name__ in source


def test_codes_are_stable_and_documented() -> None:
    """A code is never used twice, and each is in the table that users read."""
    assert len(CODES) == len(every_error())
    table = (TESTS.parent / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in CODES if code not in table] == []
    assert all(cls.title for cls in every_error())


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigUnusable) as caught:
        read_kubeconfig([str(tmp_path / "none")])
    assert caught.value.where == str(tmp_path / "none")
    assert "check the option kubeconfig" in caught.value.fix


def test_all_that_stands_against_a_join_is_one_error(tmp_path: Path) -> None:
    """A machine without anything, and a document without anything: each error with what mends it."""
    report = run_preflight(Host(str(tmp_path)), {}, "host")
    with pytest.raises(PreflightFailed) as caught:
        report.require()
    said = str(caught.value)
    assert len(report.errors) > 3
    assert [item.id for item in report.errors if f"{item.id}: {item.found}" not in said] == []
    assert said.count("    fix: ") == len(report.errors)
