# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module flexnode_status_info."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..node.errors import FlexNodeError
from ..node.machine.host import Host, require_root
from ..node.status.document import status_of
from ..node.status.words import in_words

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule) -> None:
    """Return the status of this machine."""
    try:
        require_root()
        status = status_of(Host())
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(changed=False, status=status, words=in_words(status))
