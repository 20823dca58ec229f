# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module flexnode_config_fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..node.engine.lease import held, new_operation
from ..node.engine.records.state import store_of
from ..node.errors import FlexNodeError
from ..node.machine.host import Host, require_root
from ..node.operations.obtain import Obtained, store_config
from .arc_request import arc_proxy, arc_request
from .source_options import document_of, mask_secrets, source_of

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule) -> None:
    """Obtain, check and store the configuration of this machine."""
    params, host = module.params, Host()
    operation = params["operation"] or new_operation()
    try:
        require_root()
        if module.check_mode:
            obtained = fetch(module, host)
        else:
            with held(host, operation, "Ansible", keep=True):
                obtained = fetch(module, host)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        for warning in obtained.warnings:
            module.warn(warning)
        module.exit_json(
            changed=obtained.changed,
            config=obtained.public,
            arc=arc_request(obtained.public),
            arc_proxy=arc_proxy(obtained.public),
            config_version=obtained.version or "",
            operation=operation,
        )


def fetch(module: AnsibleModule, host: Host) -> Obtained:
    params = module.params
    source, overrides = source_of(params, document_of(module), store_of(host), host.clock)
    return store_config(
        host,
        source,
        overrides,
        purpose=params["purpose"],
        durable=params["durable"],
        check=module.check_mode,
        review=lambda document: mask_secrets(module, document),
    )
