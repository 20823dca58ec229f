# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure Arc on the controller: which machine is which, and whose failure it is."""

from __future__ import annotations

from tests.regressions.case import ASSERTION, Case, Edit

NEEDS, NEEDS_TESTS = "plugins/module_utils/controller/needs/arc.py", "tests/unit/controller/needs/test_arc.py"
ACTION = "plugins/action/flexnode_arc_rights.py"
GRANTING = "plugins/module_utils/controller/azure/roles/granting.py"
ROLE_TESTS = "tests/unit/controller/azure/roles/test_role_assignment.py"
LEAVING, RIGHTS = "tests/unit/playbooks/test_leaving_arc.py", "tests/unit/playbooks/test_arc_rights.py"

CASES = (
    Case(
        "arc-a",
        "without azure.arc.machineName, a machine may say that it is any Arc machine of the resource group",
        (
            Edit(
                NEEDS,
                "        return bool(found and found.same(self.requested))",
                "        names = self.requested\n"
                "        keys = ('subscription_id', 'resource_group', 'machine_name')\n"
                "        pairs = [(getattr(names, key), getattr(found, key)) for key in keys if found]\n"
                "        return bool(found) and all(not a or a.lower() == b.lower() for a, b in pairs)",
            ),
            Edit(
                NEEDS, 'request["machine_name"] or _usable(str(request["node"]))', 'request["machine_name"]'
            ),
        ),
        (
            f"{NEEDS_TESTS}::test_who_is_refused_is_told_what_confirms_it",
            f"{NEEDS_TESTS}::test_a_machine_of_a_place_that_the_inventory_does_not_know_is_not_requested",
        ),
        f"ValueError|{ASSERTION}",
    ),
    Case(
        "arc-b",
        "copies of one disk are one machine, and each gets its rights",
        (Edit(NEEDS, "            if mine and others:\n", "            if False:\n"),),
        (f"{NEEDS_TESTS}::test_machines_that_report_the_same_registration_are_refused",),
        f"ValueError|{ASSERTION}",
    ),
    Case(
        "arc-c",
        "a machine that Azure does not know keeps all others from their roles",
        (
            Edit(
                GRANTING,
                "    return {machine: owner or _no_identity(machine) for machine, owner in owners.items()}",
                "    for machine, owner in owners.items():\n"
                "        if not owner:\n"
                "            raise _no_identity(machine)\n"
                "    return owners",
            ),
        ),
        (f"{ROLE_TESTS}::test_a_machine_that_azure_does_not_know_keeps_no_other_from_its_roles",),
        r".*NotInAzure",
    ),
    Case(
        "arc-d",
        "a failure of one machine is that of all",
        (
            Edit(
                NEEDS,
                '    failures = result.get("failures") or [',
                "    failures = [",
            ),
        ),
        (
            f"{NEEDS_TESTS}::test_a_failure_concerns_the_machine_that_it_names",
            f"{RIGHTS}::test_a_machine_whose_rights_can_not_be_granted_stops_no_other",
            f"{LEAVING}::test_roles_that_stay_keep_the_registration_of_no_other_machine",
        ),
    ),
    Case(
        "arc-e",
        "a batch repeats the clean-up of all earlier ones",
        (
            Edit(
                ACTION,
                'for host in variables["ansible_play_batch"]',
                'for host in variables["ansible_play_hosts"]',
            ),
        ),
        (f"{LEAVING}::test_a_batch_cleans_up_its_own_machines",),
    ),
    Case(
        "arc-f",
        "each machine waits half an hour of its own, one after the other where there are few forks",
        (
            Edit(
                "roles/arc/vars/main.yml",
                "[__arc_rights.time + __arc_wait_seconds | int - (now().timestamp() | int), 0] | max",
                "__arc_wait_seconds",
            ),
        ),
        (f"{RIGHTS}::test_machines_wait_for_roles_within_one_time_limit",),
    ),
    Case(
        "arc-g",
        "roles that a play sets do not count: the machines get those of administrators",
        (Edit(ACTION, "hostvars[host], play[host])", "hostvars[host], hostvars[host])"),),
        (
            f"{RIGHTS}::test_roles_that_a_play_sets_are_those_that_are_assigned[roles0]",
            f"{RIGHTS}::test_roles_that_a_play_sets_are_those_that_are_assigned[roles1]",
        ),
    ),
    Case(
        "arc-h",
        "the first machine's kubeconfig grants rights for machines of all clusters",
        (
            Edit(
                NEEDS,
                "found.setdefault(machine.kubeconfig, []).append(machine)",
                "found.setdefault(next(iter(found), machine.kubeconfig), []).append(machine)",
            ),
        ),
        (f"{RIGHTS}::test_each_machine_is_bound_with_the_kubeconfig_of_its_cluster",),
    ),
)
