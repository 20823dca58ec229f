# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module flexnode_reconcile."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..node.config.types.setting import Purpose
from ..node.engine.lease import held, new_operation
from ..node.engine.records.state import store_of
from ..node.errors import FlexNodeError
from ..node.machine.host import Host, require_root
from ..node.operations.checks import Expected, has_joined
from ..node.operations.obtain import Obtained, obtain, stored_config
from ..node.operations.reconcile import reconcile
from ..node.pull.install import PULL, install
from ..node.pull.playbook import by_ansible_pull, patience_of
from .arc_request import arc_request
from .own_run import longest_run
from .reconcile_result import result_of, waiting
from .source_options import document_of, mask_secrets, source_of

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule) -> None:
    """Apply the configuration, or uninstall the node."""
    if set(PULL) < set(module.params["components"]):
        module.fail_json(msg="components: pull is applied by itself, after the others")
    try:
        require_root()
        result = (carry_out if module.check_mode else carry_out_alone)(module, Host())
    except FlexNodeError as error:
        if error.waits and by_ansible_pull():
            module.exit_json(**waiting(error))
        rolled_back = {"rolled_back": True} if error.rolled_back else {}
        module.fail_json(msg=str(error), error=error.as_result(), changed=error.changed, **rolled_back)
    else:
        module.exit_json(**result)


def carry_out_alone(module: AnsibleModule, host: Host) -> dict[str, object]:
    """Carry it out while no other run changes this machine."""
    operation, pulled = module.params["operation"] or new_operation(), by_ansible_pull()
    # The node may apply the same configuration by itself at this moment, with its drain and its gate: that is
    # no failure of a push. A run of ansible-pull is repeated anyway, and who uninstalls does not want it.
    waits = module.params["state"] == "present" and not pulled
    own_run = partial(longest_run, store_of(host)) if waits else None
    with held(host, operation, "ansible-pull" if pulled else "Ansible", own_run=own_run) as waited:
        if waited and waits:
            module.warn(f"this node was changing itself, and this run has waited for it: {waited}")
        return carry_out(module, host)


def carry_out(module: AnsibleModule, host: Host) -> dict[str, object]:
    params, check = module.params, module.check_mode
    if params["state"] == "absent":
        from ..node.operations.leave import leave

        given = params["expected"] or {}
        expected = Expected(*(given.get(part) or "" for part in ("node_name", "cluster_id", "pool")))
        left = leave(host, drain_seconds=params["drain_seconds"], check=check, expected=expected)
        return {
            "changed": left.changed,
            "actions": left.actions,
            "remains": left.remains,
            "node_name": left.node,
            "node_remains": left.node_remains,
            "pool": left.pool,
            "machine": left.machine,
        }
    needs_cluster = {"kubelet", "npd", "services", "vpn"} & set(params["components"])
    purpose: Purpose = "join" if needs_cluster else "prepare"
    if params["source"]:
        obtained = obtain_by_options(module, host, purpose)
    else:
        obtained = stored_config(host, params["config"], purpose=purpose, pollable=check)
    if set(params["components"]) == set(PULL):
        done = install(obtained, check=check)
    else:
        done = reconcile(
            obtained,
            params["components"],
            check=check,
            retry=params["retry"],
            patience=patience_of(params["wait_seconds"]),
        )
    for warning in (*obtained.warnings, *done.warnings):
        module.warn(warning)
    return result_of(done, obtained, fetched=bool(params["source"]))


def obtain_by_options(module: AnsibleModule, host: Host, purpose: Purpose) -> Obtained:
    params, check = module.params, module.check_mode

    def review(document: Mapping[str, Any]) -> None:
        mask_secrets(module, document)
        if params["preflight"] and not has_joined(host, document):
            require_preflight(host, document, params["preflight_skip"], check=check)

    source, overrides = source_of(params, document_of(module), store_of(host), host.clock)
    return obtain(
        host,
        source,
        overrides,
        purpose=purpose,
        durable=params["durable"],
        origin=params["origin"] or params["source"],
        check=check,
        review=review,
    )


def require_preflight(host: Host, document: Mapping[str, Any], skip: list[str], *, check: bool) -> None:
    # Imported here, because a machine that has joined does not need it.
    from ..node.preflight.run import run_preflight

    # In check mode tokens and role assignments do not exist yet, so that their absence is no finding.
    roles = ["azure-role", "cluster-rights"] if arc_request(document)["assign_roles"] else []
    created_later = ["secrets-missing", *roles] if check else []
    run_preflight(host, document, skip=[*skip, *created_later]).require()
