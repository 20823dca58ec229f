# SPDX-License-Identifier: GPL-3.0-or-later
"""Point 14: the smaller ones."""

from __future__ import annotations

from tests.regressions.case import ASSERTION, DID_NOT_RAISE, NODE, UNIT, Case, Edit

KERNEL, KERNEL_TESTS = f"{NODE}/resources/kernel", f"{UNIT}/resources/test_kernel.py"
FORWARDING_TESTS = f"{UNIT}/resources/test_forwarding.py"
SWAP_TESTS = f"{UNIT}/resources/test_swap_names.py"
HTTP, HTTP_TESTS = f"{NODE}/net/http_client.py", f"{UNIT}/net/test_http_client.py"
RETRIES = f"{NODE}/net/retries.py"
ADDRESSES, KINDS = f"{NODE}/config/types/addresses.py", f"{NODE}/config/types/kinds.py"
FIELD = f"{UNIT}/config/test_fields.py::test_refused_with_its_path_and_what_is_accepted"
OTHERS = f"{UNIT}/config/test_rules.py::test_a_directory_that_others_use_is_not_ours"
DAMAGED = f"{UNIT}/operations/test_leave.py::test_a_damaged_state_does_not_stop_the_way_back_and_is_told"
RECONCILE_TESTS = f"{UNIT}/operations/test_reconcile.py"
INVENTORY = "plugins/module_utils/controller/inventory"
INVENTORY_TESTS = "tests/unit/controller/inventory"

CASES = (
    Case(
        "14a",
        "fstab as a link is replaced by a file",
        (
            Edit(
                f"{KERNEL}/fstab.py",
                '    if host.stat(FSTAB).is_ != "link":\n        return FSTAB\n',
                "    return FSTAB\n",
            ),
        ),
        (
            f"{KERNEL_TESTS}::test_an_fstab_that_is_a_link_stays_one_and_its_file_comes_back_to_the_byte",
            f"{KERNEL_TESTS}::test_an_fstab_that_is_a_link_to_a_file_of_another_user_is_not_written",
        ),
        f"{ASSERTION}|{DID_NOT_RAISE} ForeignPath",
    ),
    Case(
        "14b",
        "all of fstab is in results",
        (
            Edit(
                f"{KERNEL}/fstab.py",
                'Change(f"comment out swap in {FSTAB}", swap, without_swap(swap))',
                'Change(f"comment out swap in {FSTAB}", seen, without_swap(seen))',
            ),
        ),
        (f"{KERNEL_TESTS}::test_a_difference_shows_the_swap_lines_and_nothing_else_of_fstab",),
    ),
    Case(
        "14r",
        "after an uninstall a hardened machine accepts redirects, and one that routed a little does not",
        (
            Edit(
                f"{KERNEL}/settings.py",
                "            for path, value in still_reset(host, origin).items():\n"
                "                host.set_value(path, value)\n",
            ),
        ),
        (
            f"{FORWARDING_TESTS}::test_what_the_kernel_resets_with_forwarding_is_restored",
            f"{FORWARDING_TESTS}::test_a_first_join_that_fails_does_not_leave_redirects_on",
        ),
    ),
    Case(
        "14s",
        "swap is turned on by a number of before the last boot, and without discard",
        (
            Edit(
                f"{KERNEL}/swap.py",
                "return real_path(host, stable[area]) if area in stable else area",
                "return area",
            ),
            Edit(f"{KERNEL}/swap.py", "    options += discard_option(host, area)\n"),
        ),
        (
            f"{SWAP_TESTS}::test_a_device_that_a_boot_gave_another_number",
            f"{SWAP_TESTS}::test_discard_of_a_file_with_a_space_in_its_name",
        ),
    ),
    Case(
        "14c",
        "a credential in configOverrides is in results",
        (
            Edit(
                KINDS,
                'replace(kind("a mapping", _read_free), secrets=_kubelet_secrets)',
                'replace(kind("a mapping", _read_free))',
            ),
        ),
        (f"{UNIT}/config/test_document.py::test_of_overrides_only_the_credential_is_hidden",),
    ),
    Case(
        "14d",
        "rotated secrets stay in origins/",
        (Edit(f"{NODE}/engine/records/origins.py", "if digest not in needed:", "if False:"),),
        (f"{RECONCILE_TESTS}::test_a_rotated_password_does_not_stay_on_the_machine",),
    ),
    Case(
        "14e",
        "http:// is accepted for mirrors",
        (
            Edit(
                ADDRESSES,
                '    if url.scheme == "http" and not _is_local(url.hostname or ""):\n',
                "    if False:\n",
            ),
        ),
        (f"{FIELD}[mirror.url=http://mirror.lan/k8s/]", f"{FIELD}[runc.url=http://mirror.lan/runc]"),
        f"{DID_NOT_RAISE} ConfigInvalid",
    ),
    Case(
        "14f",
        "http:// is fetched, and redirects lead to it",
        (
            Edit(
                HTTP,
                'return parts.scheme == "https" or (parts.scheme == "http" and '
                'bypassed(parts.hostname or "", LOOPBACK))',
                'return parts.scheme in ("https", "http")',
            ),
        ),
        (
            f"{HTTP_TESTS}::test_only_http_is_spoken[http://x.example/y]",
            f"{HTTP_TESTS}::test_no_redirect_of_a_server_on_this_machine_leads_to_others_without_tls",
        ),
        f"{ASSERTION}|{DID_NOT_RAISE} HttpFailure",
    ),
    Case(
        "14g",
        "a CA without key identifiers is refused by Python 3.13",
        (Edit(f"{NODE}/net/tls.py", "    context.verify_flags &= ~ssl.VERIFY_X509_STRICT\n"),),
        (f"{HTTP_TESTS}::test_a_ca_without_key_identifiers_is_trusted_as_go_does",),
        ".*HttpFailure: .*its certificate is not trusted: Missing Authority Key Identifier",
    ),
    Case(
        "14h",
        "directories have the mode that umask 077 leaves",
        (
            Edit(
                f"{NODE}/machine/host.py",
                "        if not os.path.isdir(self.path(path)):\n            if (above",
                "        os.makedirs(self.path(path), mode, exist_ok=True)\n"
                "        if False:\n            if (above",
            ),
        ),
        (f"{RECONCILE_TESTS}::test_a_join_under_umask_077_is_the_same",),
    ),
    Case(
        "14i",
        "a clock once set to 2038 blocks retries for years",
        (
            Edit(
                f"{NODE}/sources/watched.py",
                "self.blocked.retry_at is None or pausing(self.blocked.retry_at, now)",
                "self.blocked.retry_at is None or now < self.blocked.retry_at",
            ),
        ),
        (f"{UNIT}/follow/test_tick.py::test_a_clock_that_was_set_back_does_not_stop_retries",),
    ),
    Case(
        "14j",
        "a damaged state.json stops unbootstrap",
        (
            Edit(
                f"{NODE}/operations/leave.py",
                "    except StateCorrupt as error:\n",
                "    except ZeroDivisionError as error:\n",
            ),
        ),
        (f"{DAMAGED}[{{]", f"{DAMAGED}[[]]"),
        r".*StateCorrupt: FLEX-1402: a state file can't be read",
    ),
    Case(
        "14k",
        "::1:10257 is accepted",
        (
            Edit(
                ADDRESSES,
                "    if (ip_address(bracketed[1] if bracketed else host).version == 6) != bool(bracketed):\n",
                "    ip_address(bracketed[1] if bracketed else host)\n    if False:\n",
            ),
        ),
        (f"{FIELD}[containerd.metricsAddress=::1:10257]",),
        f"{DID_NOT_RAISE} ConfigInvalid",
    ),
    Case(
        "14l",
        "paths with spaces are accepted",
        (Edit(KINDS, r'_PLAIN_PATH = r"(/[A-Za-z0-9._+-]+)+"', '_PLAIN_PATH = r"/.*"'),),
        (
            f"{FIELD}[paths.cni.binDir=/opt/cni plugins/bin]",
            f"{FIELD}[paths.logDir=/var/log/two words]",
        ),
        f"{DID_NOT_RAISE} ConfigInvalid",
    ),
    Case(
        "14m",
        "/etc/ssh is accepted as a directory of our own",
        (Edit(KINDS, "    return clean if is_named else None\n", "    return clean\n"),),
        (f"{OTHERS}[/etc/ssh]",),
        f"{DID_NOT_RAISE} ConfigInvalid",
    ),
    Case(
        "14n",
        "taints are patched without the version of the Node",
        (
            Edit(
                "plugins/module_utils/on_machine/node_changes.py",
                '        if version := node.get("metadata", {}).get("resourceVersion"):\n'
                '            patch.setdefault("metadata", {})["resourceVersion"] = version\n',
            ),
        ),
        (f"{UNIT}/net/test_kube.py::test_taints_of_others_survive_a_change_at_the_same_time",),
    ),
    Case(
        "14o",
        "the limit of a drain does not bound its inner loop",
        (
            Edit(
                f"{NODE}/node_object/drain.py",
                "        elif clock.monotonic() >= deadline:\n",
                "        elif False:\n",
            ),
        ),
        (f"{UNIT}/node_object/test_drain.py::test_many_pods_with_slow_answers_end_at_the_limit",),
    ),
    Case(
        "14p",
        "join --config-url has no option for a proxy",
        (Edit(f"{NODE}/commands/options.py", '        "--proxy",\n', '        "--no-such-option",\n'),),
        (f"{UNIT}/test_cli.py::test_a_configuration_url_through_a_proxy",),
        "SystemExit: 2",  # there is no such option
    ),
    Case(
        "14q",
        "an answer cut at 16 MiB is called `not an API server`",
        (
            Edit(RETRIES, "answer.read(MOST + 1)", "answer.read(MOST)"),
            Edit(RETRIES, "if len(body) < announced:", "if len(body) < min(announced, MOST):"),
        ),
        (f"{HTTP_TESTS}::test_an_answer_that_is_too_large_is_called_that",),
        f"{DID_NOT_RAISE} HttpFailure",
    ),
    Case(
        "17a",
        "a pod's sandbox is removed before its containers: its shim runs on after the uninstall",
        (
            Edit(
                f"{NODE}/operations/leaving/runtime.py",
                "sorted(running_tasks, key=lambda task: task in sandboxes)",
                "running_tasks",
            ),
        ),
        (f"{UNIT}/operations/test_leave.py::test_leaving_drains_stops_deletes_and_unmounts_in_this_order",),
    ),
    Case(
        "17b",
        "a bind mount that is known by another name is emptied",
        (
            Edit(
                f"{NODE}/machine/removal.py",
                "if mount_of(child) != self._mount:",
                "if mount_of(child)[0] != self._mount[0]:",
            ),
        ),
        (f"{UNIT}/machine/test_removal.py::test_a_mount_is_not_entered_by_another_name",),
    ),
    Case(
        "17c",
        "a systemd that does not answer is taken for one whose units are stopped",
        (
            Edit(
                f"{NODE}/resources/units.py",
                "if done.status in (0, NO_SYSTEMCTL):",
                "if done.status >= 0:",
            ),
        ),
        (
            f"{UNIT}/operations/test_leave.py::"
            "test_a_systemd_that_does_not_answer_stops_the_uninstall_before_anything_is_removed",
        ),
        f"{DID_NOT_RAISE} CommandFailed",
    ),
    Case(
        "19a",
        "the controller compares raw values, where the node ignores the case of words",
        (Edit(f"{INVENTORY}/machines.py", "document=as_read(document),", "document=document,"),),
        (
            f"{INVENTORY_TESTS}/test_checks.py::test_other_letters_do_not_hide_a_contradiction",
            f"{INVENTORY_TESTS}/test_machines.py::test_choices_and_booleans_are_those_that_the_node_reads",
        ),
        f"{DID_NOT_RAISE}|{ASSERTION}",
    ),
    Case(
        "19b",
        "documents of pools are written to Azure unchecked",
        (
            Edit(
                "plugins/module_utils/controller/needs/pools.py",
                ", whole={one.host for one in of_run if one.source == POOLS})",
                ")",
            ),
        ),
        (
            "tests/unit/controller/needs/test_pools.py::"
            "test_documents_of_pools_are_checked_whole_and_together",
        ),
    ),
    Case(
        "19c",
        "a switch that is no boolean is silently off",
        (
            Edit(
                f"{INVENTORY}/variables.py",
                'variable.type == "bool" and is_true(value) is None',
                "False",
            ),
        ),
        (f"{INVENTORY_TESTS}/test_variables.py::test_a_switch_that_is_neither_on_nor_off_is_an_error",),
    ),
    Case(
        "22a",
        "a machine that is another node leaves, and is cleaned up in Azure by the names of the inventory",
        (
            Edit(
                f"{NODE}/operations/leave.py",
                "        check_expected(host, store, expected)\n",
                "        pass\n",
            ),
        ),
        (f"{UNIT}/operations/test_leave.py::test_another_node_than_the_inventory_says_does_not_leave",),
        f"{DID_NOT_RAISE} ConfigInvalid",
    ),
    Case(
        "22b",
        "a machine that was reinstalled gets no new token of its provider",
        (
            Edit(
                "plugins/module_utils/controller/azure/flexnode_config/plan.py",
                "if need_url and (joined is False or not existing.joined):",
                "if need_url and not existing.joined:",
            ),
        ),
        (
            "tests/unit/controller/azure/flexnode_config/test_plan.py::"
            "test_what_the_machine_says_of_itself_counts[existing2-False-True-regenerated]",
        ),
    ),
)
