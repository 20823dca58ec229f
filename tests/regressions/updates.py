# SPDX-License-Identifier: GPL-3.0-or-later
"""Points 1 to 8: gates, rollback, versions, labels and taints, state of other releases, syncing.

Point 40: a push to nodes that follow their source.
"""

from __future__ import annotations

from tests.regressions.case import ASSERTION, DID_NOT_RAISE, NODE, UNIT, Case, Edit

GATES, GATE_TESTS = f"{NODE}/node_object/gates.py", f"{UNIT}/node_object/test_gates.py"
RECONCILE, UPDATE_TESTS = f"{NODE}/operations/reconcile.py", f"{UNIT}/operations/test_update.py"
TRANSACTION, ROLLBACK = f"{NODE}/engine/transaction.py", f"{NODE}/engine/rollback.py"
INTERRUPTED, ROLLBACK_TESTS = f"{UNIT}/operations/test_interrupted.py", f"{UNIT}/engine/test_rollback.py"
KUBELET, TICK_TESTS = f"{NODE}/components/kubelet.py", f"{UNIT}/follow/test_tick.py"

OLD_READY = (
    Edit(
        GATES,
        "            if not self._is_fresh(heartbeat(node), since):\n                return NOT_YET\n",
    ),
    Edit(
        GATES,
        "                young = STABLE - min(process.age for process in seen.values())\n"
        "                alone = looks.wait(host.clock.monotonic())\n"
        "                if young <= 0 and alone <= 0:\n"
        "                    return\n"
        "                deadline = max(deadline, host.clock.monotonic() + alone)\n"
        "                waiting_for = f\"{' and '.join(self.units)} must run for {STABLE:g} s "
        'without a restart"\n',
        "                return\n",
    ),
    Edit(
        GATES,
        '        if idle := [unit for unit in self.units if seen[unit].state != "active"]:\n'
        '            return f"{idle[0]} is {seen[idle[0]].state}"\n',
    ),
)

CASES = (
    Case(
        "1",
        "the gate believes an old Ready",
        OLD_READY,
        (
            f"{GATE_TESTS}::test_a_ready_from_before_the_restart_is_no_evidence",
            f"{GATE_TESTS}::test_a_ready_node_whose_kubelet_keeps_exiting_fails",
            f"{UPDATE_TESTS}::test_settings_that_kill_the_kubelet_are_rolled_back_remembered_and_blocked",
        ),
        DID_NOT_RAISE,
    ),
    Case(
        "2a",
        "after a hold nobody reads the previous generation",
        (
            Edit(
                RECONCILE, "        unproven = Record.of(store.transaction())\n", "        unproven = None\n"
            ),
        ),
        (f"{INTERRUPTED}::test_a_cut_line_holds_and_the_next_run_rolls_back",),
        "AssertionError: Regex pattern did not match",
    ),
    Case(
        "2b",
        "after a crash the mixture is taken for the previous generation",
        (
            Edit(
                TRANSACTION,
                "unproven = Record.of(store.transaction()) or Record(source=around.source)",
                "unproven = Record(source=around.source)",
            ),
        ),
        (f"{ROLLBACK_TESTS}::test_what_a_killed_run_changed_is_no_generation_to_return_to",),
    ),
    Case(
        "2c",
        "a rollback that was killed is not taken up",
        (
            Edit(
                f"{NODE}/operations/refusal.py",
                "    if record.stage is not Stage.ROLLING_BACK:\n        return\n",
                "    return\n",
            ),
        ),
        (f"{INTERRUPTED}::test_a_rollback_that_was_killed_is_completed_by_the_next_run",),
        r".*UnitFailed: FLEX-1501: .*kubelet\.service failed",
    ),
    Case(
        "2d",
        "a poll does not complete what was held: the document is blocked, the node stays bad",
        (
            Edit(
                f"{NODE}/follow/report.py",
                "    if not store.is_unfinished:\n        return False\n    retry_at",
                "    if True:\n        return False\n    retry_at",
            ),
        ),
        (f"{TICK_TESTS}::test_a_held_update_is_completed_whatever_the_address_gives_meanwhile",),
    ),
    Case(
        "2e",
        "a proxy's page instead of a file, or a read-only moment, blocks a version for ever",
        (
            Edit(
                f"{NODE}/operations/refusal.py",
                "    DigestMismatch,  # a proxy's page with status 200, or a mirror that is being filled\n",
            ),
            Edit(
                f"{NODE}/operations/refusal.py",
                "    NotDrained,\n    ReadOnlyTarget,\n    RolesMissing",
                "    NotDrained,\n    RolesMissing",
            ),
        ),
        (
            f"{TICK_TESTS}::test_a_proxys_page_instead_of_a_file_blocks_a_version_only_while_it_lasts",
            f"{TICK_TESTS}::test_a_file_system_that_was_read_only_for_a_moment_does_not_block_a_version",
        ),
    ),
    Case(
        "2f",
        "an outdated copy of a cache is applied, and ends the block of a version that was rolled back",
        (
            Edit(
                f"{NODE}/follow/tick.py",
                "    if is_older(older := version_in(news.body), watched.version):\n",
                "    if (older := version_in(news.body)) is None:\n",
            ),
        ),
        (
            f"{TICK_TESTS}::test_an_outdated_copy_is_nothing_new_and_is_told_once",
            f"{TICK_TESTS}::test_an_outdated_copy_does_not_end_a_block",
        ),
        f"{ASSERTION}|TypeError: 'NoneType'",  # nothing is blocked any more
    ),
    Case(
        "2g",
        "without versions, the applied document that is there again ends the block of a bad one",
        (
            Edit(
                f"{NODE}/follow/following.py",
                "earlier=watched.still_refused() if same else None",
                "earlier=None",
            ),
        ),
        (f"{TICK_TESTS}::test_without_numbers_a_copy_of_the_applied_document_does_not_end_a_block",),
    ),
    Case(
        "3a",
        "other bytes of the same version replace the old tree",
        (Edit(f"{NODE}/machine/layout.py", "/{name}/{version}-{sha256[:12]}", "/{name}/{version}"),),
        (f"{ROLLBACK_TESTS}::test_other_bytes_of_the_same_version_leave_the_old_ones",),
        r"AssertionError: assert \('another bui",
    ),
    Case(
        "3b",
        "a rollback removes a repaired agent program",
        (Edit(ROLLBACK, "if not resource.content_addressed}", 'if kind != "tree"}'),),
        (f"{ROLLBACK_TESTS}::test_a_repaired_program_stays",),
    ),
    Case(
        "4",
        "a rollback stops at its first failing item, and hides the first error",
        (
            Edit(
                ROLLBACK,
                "        try:\n"
                "            RESTORE[kind](host, name, origin, store.journal)\n"
                "        except FlexNodeError as error:\n"
                '            failures.append(f"{name}: {error.what}: {error.why}")\n'
                "        except OSError as error:  # that nobody foresaw\n"
                '            failures.append(f"{name}: {error}")\n',
                "        RESTORE[kind](host, name, origin, store.journal)\n",
            ),
        ),
        (
            f"{ROLLBACK_TESTS}::test_a_rollback_goes_on_past_an_item_that_fails_and_both_errors_are_told",
            f"{UPDATE_TESTS}::test_a_rollback_that_can_not_be_completed_is_an_error",
        ),
        r".*StateCorrupt: FLEX-1402: the original content of a replaced file is lost",
    ),
    Case(
        "5a",
        "no check of the skew on joined nodes",
        (
            Edit(
                RECONCILE,
                'if work.runs_node and (applied is None or work.plan.installs("kubelet")):',
                "if work.runs_node and applied is None:",
            ),
        ),
        (f"{UPDATE_TESTS}::test_a_joined_node_gets_no_kubelet_that_its_api_server_does_not_support",),
        DID_NOT_RAISE,
    ),
    Case(
        "5b",
        "no check of a downgrade on joined nodes",
        (Edit(RECONCILE, "        check_downgrade(obtained, applied)\n", "        pass\n"),),
        (f"{UPDATE_TESTS}::test_a_downgrade_must_be_allowed",),
        DID_NOT_RAISE,
    ),
    Case(
        "6a",
        "a label or a taint restarts the kubelet",
        (
            Edit(
                KUBELET,
                "File(REGISTRATION, registration(config)),",
                "File(REGISTRATION, registration(config), restarts=(KUBELET,)),",
            ),
        ),
        (f"{UPDATE_TESTS}::test_labels_and_taints_never_restart_the_kubelet",),
    ),
    Case(
        "6b",
        "a changed taint is silently not applied: the node does not report it",
        (
            Edit(
                f"{NODE}/operations/update.py",
                "run.taints, ours = taint_changes(node.config, known, seen)",
                "run.taints, ours = {}, known",
            ),
        ),
        (
            f"{UPDATE_TESTS}::"
            "test_taints_that_only_the_controller_can_change_are_returned_until_they_are_changed",
        ),
    ),
    Case(
        "6c",
        "a changed taint is silently not applied: the controller does not change it",
        (Edit("roles/node/tasks/join.yml", "include_tasks: taints.yml", "meta: noop"),),
        ("tests/unit/playbooks/test_update.py::test_taints_are_changed_by_the_controller",),
    ),
    Case(
        "7a",
        "an unknown kind in the journal is a KeyError in unbootstrap",
        (
            Edit(
                f"{NODE}/engine/restore_host.py",
                "    if entry.kind not in KINDS:\n"
                '        why = "this version does not know how to restore it; use the version that joined '
                'this machine"\n'
                '        return Restored(entry.key, "failed", why)\n',
            ),
        ),
        (f"{UNIT}/operations/test_leave.py::test_an_item_of_an_unknown_kind_is_left_and_the_rest_goes_on",),
        "KeyError: 'timer'",
    ),
    Case(
        "7b",
        "an unknown kind in the journal is a KeyError in reconcile",
        (
            Edit(
                f"{NODE}/engine/orphans.py",
                "        if entry.kind not in KINDS:  # of a newer version\n"
                '            left.append(f"{entry.key}: this version does not know how to restore it")\n'
                "            continue\n",
            ),
        ),
        (f"{UNIT}/engine/test_orphans.py::test_an_item_of_an_unknown_kind_is_left_and_told",),
        "KeyError: 'quota'",
    ),
    Case(
        "7c",
        "state of a newer release is read as if it were ours",
        (Edit(f"{NODE}/engine/records/schema.py", "or found > SCHEMA:", "and False:"),),
        (f"{UPDATE_TESTS}::test_state_of_a_newer_release_is_refused_and_nothing_is_lost",),
        DID_NOT_RAISE,
    ),
    Case(
        "7d",
        "older and newer releases swap the program back and forth",
        (
            Edit(
                RECONCILE,
                "resources, warnings = without_older_program(host, resources)",
                "warnings: list[str] = []",
            ),
        ),
        (f"{UPDATE_TESTS}::test_an_older_release_does_not_put_its_own_program_back",),
    ),
    Case(
        "8a",
        "binaries are not on the disk before links point to them",
        (Edit(f"{NODE}/engine/fetch.py", "            self._host.sync_tree(tree.staging)\n"),),
        (f"{UNIT}/engine/test_durability.py::test_every_version_is_on_the_disk_before_a_link_points_to_it",),
    ),
    Case(
        "8b",
        "our own program is not on the disk before a link points to it",
        (Edit(f"{NODE}/resources/program.py", "        host.sync_tree(staging)\n"),),
        (f"{UNIT}/engine/test_durability.py::test_every_version_is_on_the_disk_before_a_link_points_to_it",),
    ),
    Case(
        "40a",
        "a push gives up while the node applies the same by itself",
        (Edit("plugins/module_utils/on_machine/flexnode_reconcile.py", ", own_run=own_run)", ")"),),
        ("tests/unit/modules/test_reconcile.py::test_a_node_that_applies_it_by_itself_is_no_failure",),
        "KeyError: 'summary'",
    ),
    Case(
        "40b",
        "the configuration of a machine is written though its tasks before the update failed",
        (
            Edit(
                "roles/node/vars/main.yml",
                "  pending: false # until they ended well: nothing is written for it, nothing is applied\n",
            ),
        ),
        (
            "tests/unit/playbooks/test_update_order.py::"
            "test_nothing_is_written_for_a_machine_whose_hook_failed[fails-rp]",
        ),
    ),
)
