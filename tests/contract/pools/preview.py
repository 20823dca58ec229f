# SPDX-License-Identifier: GPL-3.0-or-later
"""The SDK of AKS's previews beside the one that users install: a package of another name in one process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from azure.core.exceptions import HttpResponseError

from testbed.azure import Azure
from testbed.azure.serving import wheels
from tests.contract.sdk import Sdk, code

LOCK = Path(__file__).resolve().parents[3] / "requirements" / "preview.txt"
NAME = "containerservice_preview"
WHERE = ("testbed", "testbed")
POOL = "edge"


@cache
def package() -> Any:
    """azure.mgmt.containerservice of the newest preview; it imports its own modules relative to itself."""
    root = wheels.install(LOCK, "the SDK of AKS's previews", "--no-deps")
    folder = root / "azure" / "mgmt" / "containerservice"
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    return module


def client(azure: Azure, sdk: Sdk) -> Any:
    """Its client, as the principal of another; it tries once, so that tests see each answer."""
    return package().ContainerServiceClient(
        sdk.credential, azure.subscription_id, polling_interval=0, retry_total=0, **sdk.where
    )


def unknown(model: Any, path: str = "") -> list[str]:
    """The properties of an answer that the SDK's models do not have."""
    fields = {field._rest_name: name for name, field in type(model)._attr_to_rest_field.items()}
    found = [f"{path}.{name}" for name in model if name not in fields]
    for rest_name, name in fields.items():
        value = getattr(model, name) if rest_name in model else None
        for one in value if isinstance(value, list) else [value]:
            if hasattr(type(one), "_attr_to_rest_field"):
                found += unknown(one, f"{path}.{rest_name}")
    return found


def refused(caught: Any) -> tuple[int | None, str]:
    """Status and code of an error, as the SDK read them from the answer."""
    error: HttpResponseError = caught.value
    return error.status_code, code(error)


class Calls:
    """Every call of the SDK that is about pools; every answer is compared with the SDK's models."""

    def __init__(self, sdk: Any) -> None:
        self.sdk = sdk
        self.models = package().models

    def put_pool(self, name: str = POOL, **more: Any) -> Any:
        """PUT a pool, by the names of the SDK; the pool at the end of the operation."""
        options = {key: more.pop(key) for key in ("etag", "match_condition") if key in more}
        poller = self.sdk.agent_pools.begin_create_or_update(*WHERE, name, self.pool_body(**more), **options)
        return self._known(poller.result())

    def pool_body(self, type: str = "FlexNodes", **properties: Any) -> Any:
        """A pool to PUT."""
        return self.models.AgentPool(**{"type_properties_type": type, "mode": "User", **properties})

    def pool(self, name: str = POOL) -> Any:
        """GET a pool."""
        return self._known(self.sdk.agent_pools.get(*WHERE, name))

    def pools(self) -> list[Any]:
        """GET all pools."""
        return [self._known(one) for one in self.sdk.agent_pools.list(*WHERE)]

    def delete_pool(self, name: str = POOL) -> None:
        """DELETE a pool."""
        self.sdk.agent_pools.begin_delete(*WHERE, name).result()

    def bootstrap_data(self, name: str = POOL) -> Any:
        """POST listBootstrapData."""
        return self.sdk.agent_pools.list_bootstrap_data(*WHERE, name, self.models.ListBootstrapDataRequest())

    def begin_machine(self, name: str, pool: str = POOL, **goal: Any) -> Any:
        """PUT a machine; its poller."""
        options = {key: goal.pop(key) for key in ("etag", "match_condition") if key in goal}
        body = self.models.Machine(
            properties=self.models.MachineProperties(kubernetes=self.models.MachineKubernetesProfile(**goal))
        )
        return self.sdk.machines.begin_create_or_update(*WHERE, pool, name, body, **options)

    def put_machine(self, name: str, pool: str = POOL, **goal: Any) -> Any:
        """PUT a machine; the machine at the end of the operation."""
        return self._known(self.begin_machine(name, pool, **goal).result())

    def machine(self, name: str, pool: str = POOL) -> Any:
        """GET a machine."""
        return self._known(self.sdk.machines.get(*WHERE, pool, name))

    def machines(self, pool: str = POOL) -> list[Any]:
        """GET all machines."""
        return [self._known(one) for one in self.sdk.machines.list(*WHERE, pool)]

    def begin_delete_machines(self, *names: str, pool: str = POOL) -> Any:
        """POST deleteMachines; its poller."""
        body = self.models.AgentPoolDeleteMachinesParameter(machine_names=list(names))
        return self.sdk.agent_pools.begin_delete_machines(*WHERE, pool, body)

    def delete_machines(self, *names: str, pool: str = POOL) -> None:
        """POST deleteMachines, to its end."""
        self.begin_delete_machines(*names, pool=pool).result()

    def _known(self, model: Any) -> Any:
        assert unknown(model) == []
        return model


def plain(model: Any) -> Mapping[str, Any]:
    """An answer as it came."""
    found: Mapping[str, Any] = model.as_dict()
    return found
