# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Arc service does besides Resource Manager: for its key a machine gets its credential."""

from __future__ import annotations

from fastapi import APIRouter, Body, HTTPException

from testbed.azure.arm import hybrid_compute
from testbed.azure.cloud import Cloud

BODY = Body(...)


def router(cloud: Cloud) -> APIRouter:
    """Open to machines: the key that they registered with is what lets them in."""
    routes = APIRouter(prefix="/_testbed/identity")

    @routes.post("/credential")
    def credential(body: dict[str, str] = BODY) -> dict[str, str]:
        found = hybrid_compute.identity_of(cloud, body.get("resource_id", ""), body.get("key", ""))
        if found is None:
            raise HTTPException(403, "this machine is not registered, or not with this key")
        return {
            "tenant_id": cloud.place.tenant_id,
            "object_id": found.object_id,
            "client_id": found.client_id,
            "client_secret": found.secret,
        }

    return routes
