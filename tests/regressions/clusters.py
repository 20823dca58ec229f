# SPDX-License-Identifier: GPL-3.0-or-later
"""Point 30: a kubeconfig, or an environment, of another cluster than the machine's."""

from __future__ import annotations

from tests.regressions.case import ASSERTION, DID_NOT_RAISE, Case, Edit

CLUSTER, CLUSTER_TESTS = "plugins/module_utils/controller/cluster", "tests/unit/controller/cluster"
PLAYBOOK_TESTS = "tests/unit/playbooks"
OURS, THEIRS = "0123456789abcdef" * 2, "fedcba9876543210" * 2
TOKEN = "test_a_host_of_a_task_gets_no_token_of_another_cluster"

CASES = (
    Case(
        "30a",
        "a Node of the same name is changed, although it is another machine",
        (
            Edit(
                f"{CLUSTER}/targets.py",
                "    if not theirs or ours == theirs or not (ours or proven):\n",
                "    if True:\n",
            ),
        ),
        (
            f"{CLUSTER_TESTS}/test_targets.py::test_a_node_is_that_of_the_machine[{OURS}-{THEIRS}-False]",
            f"{CLUSTER_TESTS}/proof/test_run.py::test_pods_on_a_node_of_another_machine_prove_nothing",
        ),
        f"{DID_NOT_RAISE}|{ASSERTION}",
    ),
    Case(
        "30b",
        "unbootstrap passes on only the name of the Node",
        (
            Edit(
                "roles/node/tasks/left_node.yml",
                "nodes: \"{{ [__node_left.machine | default({}) | combine({'name': __node_left_name})] }}\"",
                'names: ["{{ __node_left_name }}"]',
            ),
        ),
        (f"{PLAYBOOK_TESTS}/test_leaving.py::test_what_a_machine_says_of_itself_is_compared_with_its_node",),
        "KeyError",
    ),
    Case(
        "30c",
        "a Node that another cluster does not have counts as deleted",
        (Edit(f"{CLUSTER}/targets.py", "    return any(agree) or not agree\n", "    return True\n"),),
        (f"{CLUSTER_TESTS}/test_targets.py::test_the_cluster_of_a_machine[port]",),
    ),
    Case(
        "30d",
        "K8S_AUTH_HOST and K8S_AUTH_API_KEY are mixed into the cluster that a task names",
        (
            Edit(
                f"{CLUSTER}/options.py",
                "    added = _added_by_environment(params, environ)\n",
                "    added = {name: environ.get(ENVIRONMENT[name]) for name in KUBERNETES}\n",
            ),
        ),
        (
            f"{CLUSTER_TESTS}/test_kubeconfig.py::{TOKEN}[another host]",
            f"{CLUSTER_TESTS}/test_kubeconfig.py::test_a_context_of_a_task_is_not_replaced_by_the_environment",
        ),
    ),
    Case(
        "30e",
        "one deadline for the proof of all nodes",
        (
            Edit(
                f"{CLUSTER}/proof/run.py",
                "    stop = threading.Event()\n",
                "    stop = threading.Event()\n    deadline = clock.monotonic() + run.timeout\n",
            ),
            Edit(
                f"{CLUSTER}/proof/run.py",
                "            wait = _Wait(clock, start + run.timeout, stop)\n",
                "            wait = _Wait(clock, deadline, stop)\n",
            ),
        ),
        (f"{CLUSTER_TESTS}/proof/test_run.py::test_each_node_has_the_whole_time",),
    ),
    Case(
        "30f",
        "the nodes of all clusters are proven with the kubeconfig of the first machine",
        (Edit("roles/proof/vars/main.yml", '    kubeconfig: "{{ flexnode_kubeconfig }}"\n'),),
        (f"{PLAYBOOK_TESTS}/test_proof.py::test_each_node_is_tested_in_the_cluster_of_its_machine",),
    ),
)
