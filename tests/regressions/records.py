# SPDX-License-Identifier: GPL-3.0-or-later
"""Points 31 and 32: damaged records on a machine that leaves or follows; names and files of others."""

from __future__ import annotations

from tests.regressions.case import NODE, UNIT, Case, Edit

LEAVE_TESTS, TICK_TESTS = f"{UNIT}/operations/test_leave.py", f"{UNIT}/follow/test_tick.py"
COMPONENT_TESTS = f"{UNIT}/components/test_components.py"

CASES = (
    Case(
        "31a",
        "without a usable document the kubelet runs on while its pods are stopped",
        (
            Edit(
                f"{NODE}/operations/leave.py",
                "    elif was_node and (unusable or has_our(KUBELET, host, entries)):",
                "    elif False:",
            ),
        ),
        (f"{LEAVE_TESTS}::test_documents_that_someone_removed_do_not_let_the_kubelet_run_on",),
        "ValueError: 'stop kubelet' is not in list",
    ),
    Case(
        "31b",
        "a current document of another Node is used to delete that one",
        (
            Edit(
                f"{NODE}/operations/leaving/cluster.py",
                "if unusable is None or not was_node or node.name == kubelet_name(host):",
                "if True:",
            ),
        ),
        (f"{LEAVE_TESTS}::test_a_current_document_of_another_node_is_not_used_instead",),
    ),
    Case(
        "31c",
        "a damaged record of the source stops unbootstrap",
        (
            Edit(
                f"{NODE}/commands/node.py",
                "Watched.of(store_of(host).source_if_intact())",
                "Watched.of(store_of(host).source())",
            ),
        ),
        (f"{TICK_TESTS}::test_a_damaged_record_of_the_address_does_not_stop_the_way_back[{{]",),
    ),
    Case(
        "31d",
        "preflight advises to remove the undo journal",
        (
            Edit(
                f"{NODE}/preflight/checks/machine.py",
                "            machine.state_fix,  # one file may be removed, another must not\n",
                '            "restore the file from a backup, or remove it",\n',
            ),
        ),
        (
            f"{UNIT}/preflight/test_probes.py::"
            "test_records_that_cannot_be_read_have_a_remedy_of_their_own"
            "[journal-nonsense\\n-do not delete it-remove it]",
        ),
    ),
    Case(
        "32a",
        "the name of the node resource group becomes a label as it is",
        (
            Edit(
                f"{NODE}/components/labels.py",
                '{"kubernetes.azure.com/cluster": cluster_label(group)}',
                '{"kubernetes.azure.com/cluster": group}',
            ),
        ),
        (f"{COMPONENT_TESTS}::test_the_label_of_the_cluster_is_written_as_aks_does[rg_-rg_z]",),
    ),
    Case(
        "32b",
        "mirrors of docker.io fall back to a server that is no registry",
        (
            Edit(
                f"{NODE}/components/runtime.py",
                'File(f"{directory}/hosts.toml", HEADER + hosts)',
                'File(f"{directory}/hosts.toml", f\'{HEADER}server = "https://{name}"\\n\\n{hosts}\')',
            ),
        ),
        (
            f"{COMPONENT_TESTS}::test_rendered_files"
            "[hosts-docker.io.toml-runtime-/etc/containerd/certs.d/docker.io/hosts.toml-changes2]",
        ),
    ),
)
