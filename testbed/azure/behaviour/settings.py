# SPDX-License-Identifier: GPL-3.0-or-later
"""How the emulated Azure behaves: what a test may change while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

STEPS = ("goal", "cordon", "drain", "delete", "taint")
"""Where the service's acts on a FlexNodes pool can be held, see service_stop_after."""


@dataclass(frozen=True)
class Settings:
    """The defaults are Azure's own, where it has them."""

    token_seconds: int = 3599
    """Lifetime of an Entra access token."""
    token_version: int = 1
    """Format of access tokens; both resources we know take version 1."""
    bootstrap_token_seconds: int = 86400
    """Lifetime of a bootstrap token and of the configUrl that contains it."""
    join_seconds: int = 60
    """How long after its first use a token still works, if the join does not end before."""
    rbac_delay: float = 0
    """Seconds until a role assignment has an effect; set lower, it also ends the wait of older ones."""
    disable_local_accounts: bool = False
    """The cluster refuses its admin credential."""
    operation_seconds: float = 0
    """How long writes take; with more than 0 they are answered as long-running operations."""
    page_size: int = 100
    """Items in one page of a list."""
    read_burst: int = 250
    """Throttling: how many reads a principal may have in store ..."""
    read_rate: float = 25
    """... and how many come back each second."""
    write_burst: int = 200
    write_rate: float = 10
    delete_burst: int = 200
    delete_rate: float = 10

    # FlexNodes pools
    control_plane_version: str = ""
    """What Azure takes for the control plane's version, which no pool may exceed; the true one by default."""
    flex_node_feature: bool = True
    """The preview feature AKSFlexNodePreview is registered."""
    machine_feature: bool = True
    """The preview feature PutMachinePreview is registered."""
    flex_node_role: bool = True
    """The role of the flex node agent is published in this cloud."""
    machine_put_seconds: float = 0
    """How long a PUT of a machine takes; with more than 0 it is a long-running operation."""
    pool_token_seconds: int = 3600
    """Lifetime of the bootstrap token of listBootstrapData."""
    bootstrap_data_burst: int = 100
    """Throttling: how many listBootstrapData the subscription may have in store ..."""
    bootstrap_data_rate: float = 1
    """... and how many come back each second."""
    bootstrap_data_patch: dict[str, Any] = field(default_factory=dict)
    """A JSON merge patch on the answer of listBootstrapData: adds keys, and removes those that are null."""
    patch_nodes: bool = True
    """Changed labels and taints of a machine are patched onto its Node; regions of August 2026 did not."""
    drain_seconds: float = 120
    """How long the service waits for the pods of a Node to go."""
    upgrade_seconds: float = 600
    """How long the service waits for a Node that it deleted to be Ready again at its version."""
    node_removal_seconds: float = 30
    """How long after the taint the Node of a deleted machine is removed."""
    service_stop_after: str = ""
    """Hold every act of the service after this step, until it is changed: one of STEPS."""

    # Networks
    cluster_subnet_id: str = ""
    """The subnet of the cluster's own nodes, which one of its pools then names; none by default."""
    network_seconds: float = 0
    """How long writes of VNets, subnets and addresses take."""
    gateway_seconds: float = 1
    """How long a new VPN gateway takes; half an hour in Azure ..."""
    gateway_update_seconds: float = 0.5
    """... and a change of one, or its removal; minutes in Azure."""
    profile_seconds: float = 0.2
    """How long the generation of a client profile takes."""
    gateway_failure: str = ""
    """Writes of a gateway are accepted, and fail in the end with this code."""
    gateway_sku_unavailable: str = ""
    """A size of gateway that this region does not have."""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from JSON; a name or type that is not known is an error."""
        defaults = cls()
        types = {one.name: type(getattr(defaults, one.name)) for one in fields(cls)}
        for name, value in values.items():
            if name not in types:
                raise ValueError(f"setting {name!r} is unknown: there are {', '.join(types)}")
            kinds = (int, float) if types[name] in (int, float) else types[name]
            if isinstance(value, bool) != (types[name] is bool) or not isinstance(value, kinds):
                raise ValueError(f"setting {name} is {value!r}: it takes {types[name].__name__}")
        if (step := values.get("service_stop_after")) not in (None, "", *STEPS):
            raise ValueError(f"setting service_stop_after is {step!r}: it takes {', '.join(STEPS)}")
        return cls(**values)
