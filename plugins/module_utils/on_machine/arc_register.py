# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module arc_register."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ..node.engine.lease import held, new_operation
from ..node.errors import FlexNodeError
from ..node.machine.host import Host, require_root
from ..node.net.answer import shown
from .arc_machine import register_machine, unregister_machine

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule) -> None:
    """Register this machine, or remove its registration."""
    params, check = module.params, module.check_mode
    _show_plain_url(module)
    act = unregister_machine if params["state"] == "absent" else register_machine
    try:
        require_root()
        host = Host()
        if check:
            result = act(host, params, check=True)
        else:
            with held(host, params["operation"] or new_operation(), "Ansible"):
                result = act(host, params, check=False)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(**result)


def _show_plain_url(module: AnsibleModule) -> None:
    """Let results name the package's URL if it holds no secret.

    The option is no_log, which keeps a signed URL out of results and the system log. Ansible would then mask
    every URL of a package, also where messages name it.
    """
    url = module.params["package_url"] or ""
    with suppress(ValueError):  # it is no URL: the download reports that
        if shown(url) == url:
            module.no_log_values.discard(url)
