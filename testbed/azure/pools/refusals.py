# SPDX-License-Identifier: GPL-3.0-or-later
"""How AKS refuses requests about FlexNodes pools: one table, because most of it is not published.

sure: the code is known from AKS's answers about other pools; else it is our guess: nothing may depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.azure.arm.errors import ProviderError


@dataclass(frozen=True)
class Row:
    """Status and code of one reason."""

    status: int
    code: str
    sure: bool


TABLE = {
    # a property that FlexNodes pools or their machines do not have
    "property": Row(400, "InvalidParameter", False),
    "value": Row(400, "InvalidParameter", True),
    "json type": Row(400, "UnmarshalError", True),
    "name": Row(400, "InvalidParameter", True),
    "empty taints": Row(400, "InvalidParameter", False),
    "kubelet config": Row(400, "InvalidParameter", False),
    "reserved label": Row(400, "InvalidParameter", False),
    # a property that cannot be changed: type and mode of a pool, maxPods of a machine
    "fixed": Row(400, "PropertyChangeNotAllowed", True),
    # a version above the control plane's
    "newer": Row(400, "NodePoolMcVersionIncompatible", True),
    "unknown version": Row(400, "K8sVersionNotSupported", True),
    # bootstrap data or a machine of a pool that is not of type FlexNodes
    "other pool type": Row(400, "BadRequest", False),
    "feature": Row(400, "PreviewFeatureNotRegistered", True),
    # deleteMachines with a name that the pool does not have
    "no such machine": Row(400, "InvalidParameter", False),
    "pool has machines": Row(400, "BadRequest", False),
    "busy": Row(409, "OperationNotAllowed", True),
    "precondition": Row(412, "PreconditionFailed", True),
    "throttled": Row(429, "TooManyRequests", False),
}


def refuse(reason: str, message: str, **headers: str) -> ProviderError:
    """The error of a row."""
    row = TABLE[reason]
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return ProviderError(row.status, row.code, message, named)
