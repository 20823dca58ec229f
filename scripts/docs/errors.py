# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors that a user can get."""

from __future__ import annotations

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure import errors as azure_errors
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn import errors as vpn_errors
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster import errors as cluster_errors
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof import (
    errors as proof_errors,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory import (
    errors as inventory_errors,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    FlexNodeError,
    error_classes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity import errors as identity_errors
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object import (
    problems as node_problems,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object import (
    reporter as node_reporter,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations import checks as node_checks
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations import update as new_program
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc import errors as arc_errors
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.vpn import (
    errors as vpn_client_errors,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull import errors as pull_errors
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources import package
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout import errors as rollout_errors
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources import errors as source_errors
from scripts.docs.tables import Stale, code, rows

# Where errors are defined besides node/errors.py: they are known once these are imported.
ERROR_MODULES = (
    azure_errors,
    vpn_errors,
    cluster_errors,
    proof_errors,
    inventory_errors,
    identity_errors,
    arc_errors,
    source_errors,
    rollout_errors,
    new_program,
    node_checks,
    node_problems,
    node_reporter,
    package,
    pull_errors,
    vpn_client_errors,
)


def every_error() -> tuple[type[FlexNodeError], ...]:
    """All errors that a user can get, by code."""
    ours = {FlexNodeError.__module__, *(module.__name__ for module in ERROR_MODULES)}
    found = error_classes()
    if unknown := {cls.__module__ for cls in found} - ours:
        raise Stale(f"scripts/docs does not name modules that define errors: {', '.join(sorted(unknown))}")
    return found


def errors() -> str:
    """Every error, by code."""
    lines = [(code(cls.code), cls.title, cls.remedy or "as the message says") for cls in every_error()]
    return rows(lines, head=("code", "what it means", "what usually helps"))
