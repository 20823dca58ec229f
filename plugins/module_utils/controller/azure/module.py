# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller's modules share: checks for packages, and masking of secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ...node.config.document import secrets_of
from ...node.config.types.values import ArmId
from ...node.errors import ConfigInvalid
from ..members import IN_OPTIONS, not_a_cluster


def require(module: AnsibleModule, packages: Mapping[str, str]) -> None:
    """Fail with the name of a package that is not installed."""
    for name, trace in packages.items():
        if trace:
            module.fail_json(msg=missing_required_lib(name), exception=trace)


def cluster_of(text: str) -> ArmId:
    """The option `cluster_id`, checked."""
    try:
        return ArmId.parse(text)
    except ValueError as error:
        raise ConfigInvalid([not_a_cluster("cluster_id", text, error)], fix=IN_OPTIONS) from error


def mask_only_secrets(
    module: AnsibleModule, documents: Iterable[Mapping[str, Any]], others: Iterable[str | None] = ()
) -> None:
    """Mask the secrets of the documents in the result, but not their other values.

    `nodes` is no_log as a whole, which keeps it out of the system log. Ansible would then mask each of its
    values, names of nodes and versions included, and the result would be unreadable.
    """
    module.no_log_values.clear()
    module.no_log_values.update(secret for document in documents for secret in secrets_of(document))
    module.no_log_values.update(other for other in others if other)
