# SPDX-License-Identifier: GPL-3.0-or-later
"""Point 34: what belongs to one thread, one machine or one cluster, and reached another."""

from __future__ import annotations

from tests.regressions.case import Case, Edit

CONTROLLER, PLAYBOOK_TESTS = "plugins/module_utils/controller", "tests/unit/playbooks"
TLS_TESTS = "tests/unit/controller/cluster/test_client_threads.py"
CHANGES = f"{TLS_TESTS}::test_a_request_does_not_change_the_tls_context_that_others_use"
CERTIFICATE = f"{PLAYBOOK_TESTS}/test_vpn.py::test_nodes_of_one_name_do_not_share_a_certificate"
SHARED = f"{PLAYBOOK_TESTS}/test_vpn.py::test_two_clusters_may_share_a_gateway"

CASES = (
    Case(
        "34a",
        "each connection changes the TLS context of all threads",
        (
            Edit(
                f"{CONTROLLER}/cluster/client.py",
                "    context.set_alpn_protocols = _is_set_already  # type: ignore[method-assign]\n",
            ),
        ),
        (f"{CHANGES}[set_alpn_protocols]",),
    ),
    Case(
        "34b",
        "a machine without a proof image is tested with that of the first machine",
        (
            Edit(
                "roles/proof/vars/main.yml",
                "default(__proof_default_image, true)",
                "default('', true)",
            ),
        ),
        (f"{PLAYBOOK_TESTS}/test_proof.py::test_each_node_pulls_the_image_of_its_site",),
    ),
    Case(
        "34c",
        "a machine gets the certificate of another cluster's node that is outside the run",
        (
            Edit(
                f"{CONTROLLER}/inventory/reading.py",
                '    "flexnode_vpn_gateway_id",\n    "flexnode_vpn_vnet_id",\n',
            ),
        ),
        (
            f"{CERTIFICATE}[the other is outside the run-by its id]",
            f"{CERTIFICATE}[the other is outside the run-by its VNet]",
        ),
    ),
    Case(
        "34d",
        "the gateway of a hub counts once for each cluster",
        (
            Edit(
                f"{CONTROLLER}/needs/vpn.py",
                'options.get("gateway_id") or options.get("vnet_id") or ""',
                'options.get("gateway_id") or ""',
            ),
        ),
        (f"{SHARED}[by its VNet]",),
    ),
    Case(
        "34e",
        "the URL of a machine is written into the file to which a link leads",
        (
            Edit(
                f"{CONTROLLER}/private_file.py",
                "        os.replace(temporary, path)\n",
                '        with open(path, "w", encoding="utf-8") as file:\n            file.write(text)\n'
                "        os.unlink(temporary)\n",
            ),
        ),
        (f"{PLAYBOOK_TESTS}/test_sources.py::test_a_url_replaces_a_link_and_does_not_follow_it",),
    ),
)
