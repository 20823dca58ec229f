# SPDX-License-Identifier: GPL-3.0-or-later
"""Points 9 to 13: downloads, connections, data of others, refused documents, what a run says."""

from __future__ import annotations

from tests.regressions.case import ASSERTION, DID_NOT_RAISE, NODE, UNIT, Case, Edit

DOWNLOAD, DOWNLOAD_TESTS = f"{NODE}/net/download.py", f"{UNIT}/net/test_download.py"
UPDATE_TESTS = f"{UNIT}/operations/test_update.py"
LEAVE, USERS_TESTS = f"{NODE}/operations/leave.py", f"{UNIT}/operations/test_runtime_users.py"
OBTAIN, MODULE_TESTS = f"{NODE}/operations/obtain.py", "tests/unit/modules/test_reconcile.py"
MODULE, TICK_TESTS = "plugins/module_utils/on_machine/flexnode_reconcile.py", f"{UNIT}/follow/test_tick.py"
REFUSED = f"{UPDATE_TESTS}::test_a_refused_document_does_not_replace_the_working_one"
LEFT = "roles/node/tasks/left.yml"
LEAVING = "tests/unit/playbooks/test_leaving.py::test_the_result_of_leaving_says_only_what_is_true"
WRITTEN = "tests/unit/playbooks/test_update.py::test_a_version_that_machines_would_refuse_is_not_written"
ONE_CONNECTION = f"{UNIT}/node_object/test_gates.py::test_a_gate_asks_over_one_connection_and_ever_less_often"

RECURSIVE = """    device = os.fstat(directory).st_dev
    with os.scandir(directory) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in names:
        below_it = f"{path}/{name}"
        if below_it in keep:
            continue
        if below_it in mounted:
            kept.append(below_it)
        elif not is_directory:
            os.unlink(name, dir_fd=directory)
        else:
            child = os.open(name, DIRECTORY, dir_fd=directory)
            try:
                if os.fstat(child).st_dev != device:
                    kept.append(below_it)
                    continue
                empty_directory(child, below_it, mounted, keep, kept)
            finally:
                os.close(child)
            try:
                os.rmdir(name, dir_fd=directory)
            except OSError:
                pass
    return
    walk = Walk(directory, path, mounted, keep)
"""

STORED_AT_ONCE = (
    Edit(
        OBTAIN,
        "    changed = not intact or stored is None or canonical(stored) != canonical(document)\n    proxy",
        "    changed = not intact or stored is None or canonical(stored) != canonical(document)\n"
        "    if not check:\n"
        "        store.set_current_config(document, fetched.version)\n"
        "    proxy",
    ),
    Edit(
        OBTAIN,
        "        artifacts_of(config, architecture())  # what can't be installed is refused before "
        "it is stored\n",
    ),
)

REMOVED = (
    "('removed from the cluster, ' ~ __node_left.actions | default([]) | length ~ ' changes undone' "
    "if __node_left is changed else 'not a node of a cluster, nothing to do')]"
)

CASES = (
    Case(
        "9a",
        "one missing artifact makes every run fetch all of them again",
        (Edit(f"{NODE}/engine/fetch.py", "if tree.is_staged(self._host):", "if False:"),),
        (f"{UNIT}/engine/test_fetch.py::test_one_that_fails_fails_all_and_only_that_one_is_fetched_again",),
    ),
    Case(
        "9b",
        "downloads are tried again without a pause",
        (Edit(DOWNLOAD, "                self._host.clock.sleep(pause * self._jitter())\n"),),
        (f"{DOWNLOAD_TESTS}::test_a_line_that_always_breaks_is_given_up_after_growing_pauses",),
    ),
    Case(
        "9c",
        "a download that broke off starts from zero",
        (
            Edit(
                DOWNLOAD,
                "        answer, start = self._ask(arrived)\n",
                "        answer, start = self._ask(0)\n",
            ),
        ),
        (
            f"{DOWNLOAD_TESTS}::test_a_broken_download_continues_where_it_stopped",
            f"{DOWNLOAD_TESTS}::test_a_later_run_continues",
        ),
        f".*ArtifactTruncated: FLEX-1202: the download of tool 1.0.0 is incomplete|{ASSERTION}",
    ),
    Case(
        "9d",
        "a download of any size is written before its digest tells",
        (Edit(DOWNLOAD, "        if size > self._wanted.largest:\n", "        if False:\n"),),
        (
            f"{DOWNLOAD_TESTS}::test_an_announced_size_above_the_limit_is_refused_before_anything_is_written",
            f"{DOWNLOAD_TESTS}::test_a_size_above_the_limit_that_was_not_announced_ends_the_download",
        ),
        f"{DID_NOT_RAISE} ArtifactTooLarge|.*DigestMismatch: FLEX-1203",
    ),
    Case(
        "9e",
        "old trees are never pruned",
        (
            Edit(
                f"{NODE}/engine/prune.py",
                "        prune(host, store, versions_before(done.before), plan.components)\n",
                "        clear_staging(host)\n",
            ),
        ),
        (f"{UPDATE_TESTS}::test_the_previous_version_is_kept_and_no_older_one",),
    ),
    Case(
        "9f",
        "a slow line never finishes a download",
        (Edit(DOWNLOAD, "LEAST = 1 << 16 ", "LEAST = 1 << 20 "),),
        (
            f"{DOWNLOAD_TESTS}::test_a_line_that_is_slow_but_steady_is_not_given_up",
            f"{DOWNLOAD_TESTS}::test_a_slow_line_that_breaks_often_is_not_given_up[a minute at 12 KB/s]",
        ),
        r".*(ArtifactUnreachable: FLEX-1201|ArtifactTruncated: FLEX-1202)",
    ),
    Case(
        "10a",
        "the gate opens a TLS connection for each question",
        (
            Edit(
                f"{NODE}/net/kube.py",
                "from .kept_connection import KeptConnection  # slow to import",
                "from .http_client import HttpClient as KeptConnection",
            ),
        ),
        (ONE_CONNECTION,),
    ),
    Case(
        "10b",
        "the gate asks every 0.1 s",
        (
            Edit(
                f"{NODE}/node_object/gates.py",
                "FIRST_PAUSE, LONGEST_PAUSE, SLOWER = 0.1, 1.0, 1.3",
                "FIRST_PAUSE, LONGEST_PAUSE, SLOWER = 0.1, 0.1, 1.0",
            ),
        ),
        (ONE_CONNECTION,),
    ),
    Case(
        "11a",
        "/var/lib/containerd goes although docker or nerdctl uses it",
        (Edit(LEAVE, "            users = runtime_users(host)\n", "            users = RuntimeUsers()\n"),),
        (f"{USERS_TESTS}::test_data_of_docker_stays_that_of_kubernetes_goes_and_it_is_named",),
    ),
    Case(
        "11b",
        "/var/lib/kubelet as a link keeps the private key, and is called restored",
        (
            Edit(
                f"{NODE}/resources/paths.py",
                "            return empty_behind(host, name, keep)\n",
                "            return []\n",
            ),
        ),
        (
            f"{UNIT}/resources/test_paths.py::"
            "test_behind_a_link_only_our_content_goes_and_the_link_and_its_target_stay",
        ),
    ),
    Case(
        "11c",
        "deep directories end unbootstrap in a RecursionError",
        (
            Edit(
                f"{NODE}/machine/removal.py",
                "    walk = Walk(directory, path, mounted, keep)\n",
                RECURSIVE,
            ),
        ),
        (f"{UNIT}/machine/test_removal.py::test_a_tree_of_any_depth_is_removed",),
        "RecursionError|.*FileUnusable: FLEX-1309: a file or directory can't be changed",
    ),
    Case(
        "11d",
        "an interrupted leave is not taken up by the timer",
        (
            Edit(
                f"{NODE}/follow/tick.py",
                "    if leaving(store):\n        return",
                "    if False:\n        return",
            ),
        ),
        (f"{TICK_TESTS}::test_a_leave_that_was_killed_is_finished_by_the_timer",),
    ),
    Case(
        "11e",
        "a leave removes its timer first",
        (
            Edit(
                f"{NODE}/engine/restore_host.py",
                "if goes_last(entry.name) == last]",
                "if not last]",
            ),
        ),
        (f"{TICK_TESTS}::test_a_leave_that_was_killed_is_finished_by_the_timer",),
    ),
    Case(
        "11f",
        "a leave syncs only some of the file systems that it changed",
        (
            Edit(
                LEAVE,
                "changed = changed_paths(entries, store)",
                'changed = ["/etc", "/opt", "/usr", "/var", "/var/lib"]',
            ),
        ),
        (
            f"{UNIT}/operations/test_leave.py::"
            "test_every_file_system_that_was_changed_is_synced_before_the_journal_goes_and_after",
        ),
    ),
    Case(
        "11g",
        "a directory that was created above paths.dataDir stays",
        (Edit(f"{NODE}/engine/records/state.py", "        remove_above(self._host, self.directory)\n"),),
        (f"{UNIT}/operations/test_leave.py::test_directories_above_a_moved_data_directory_go_with_it",),
    ),
    Case(
        "12a",
        "a refused document replaces the working one",
        STORED_AT_ONCE,
        (
            f"{REFUSED}[change0-NotInCatalogue]",
            f"{REFUSED}[change1-VersionSkew]",
            f"{REFUSED}[change2-Downgrade]",
        ),
    ),
    Case(
        "12b",
        "the next good run reports a change with nothing done",
        (
            *STORED_AT_ONCE,
            Edit(
                "plugins/module_utils/on_machine/reconcile_result.py",
                '        "changed": run.changed,\n',
                '        "changed": run.changed or obtained.changed,\n',
            ),
        ),
        (f"{MODULE_TESTS}::test_after_a_refused_document_a_good_one_changes_nothing",),
    ),
    Case(
        "12c",
        "a version that machines refuse is written to Azure",
        (
            Edit(
                "plugins/action/flexnode_source.py",
                "        require_documents(wanted, clusters)  # everything below writes\n",
            ),
        ),
        (f"{WRITTEN}[rp-bootstrap]", f"{WRITTEN}[blob-config_put]"),
    ),
    Case(
        "13a",
        "a change of maxPods is not in the diff",
        (
            Edit(
                f"{NODE}/components/kubelet.py",
                "masked=without_credentials)",
                "secret=bool(config.kubelet.config_overrides))",
            ),
        ),
        (f"{UPDATE_TESTS}::test_every_change_is_in_the_diff_and_no_secret",),
    ),
    Case(
        "13b",
        "the result is `joined` for every change",
        (
            Edit(
                f"{NODE}/operations/outcome.py",
                '        return self.outcome.summary if self.changed or self.outcome.kind == "joined" else '
                '"unchanged"\n',
                '        return "joined" if self.changed else "unchanged"\n',
            ),
        ),
        (f"{UPDATE_TESTS}::test_the_result_says_what_happened",),
    ),
    Case(
        "13c",
        "a refused token on a fresh machine is no change",
        (
            Edit(
                MODULE,
                "changed=error.changed, **rolled_back",
                "**rolled_back",
            ),
        ),
        (f"{MODULE_TESTS}::test_a_refused_token_on_a_fresh_machine_is_a_change",),
    ),
    Case(
        "13d",
        "uninstalling never says that it succeeded",
        (Edit(LEFT, "    - __node_remains | length == 0\n", "    - false\n"),),
        (LEAVING,),
    ),
    Case(
        "13e",
        "uninstalling says `removed` also of a machine that never joined, and in check mode",
        (Edit(LEFT, "__node_left_result]", REMOVED),),
        (f"{LEAVING}[done]", f"{LEAVING}[never joined]", f"{LEAVING}[check mode]"),
    ),
)
