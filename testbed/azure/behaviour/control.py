# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's own endpoint: principals, roles, settings, faults, and the record of requests."""

from __future__ import annotations

import hmac
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Body, Depends, Header, HTTPException

from testbed.azure.arm.errors import ArmError
from testbed.azure.authorization.roles import role
from testbed.azure.behaviour.faults import Fault, Faults
from testbed.azure.behaviour.record import Record
from testbed.azure.cloud import Cloud
from testbed.azure.network import server as vpn
from testbed.azure.network import vnets
from testbed.azure.network.store import Resources
from testbed.azure.sign_in.assertion import certificate

BODY = Body(...)
NOTHING = Body(None)


def router(cloud: Cloud, faults: Faults, record: Record) -> APIRouter:
    """What is under /_testbed/, for who has the key."""

    def check(x_testbed_key: str = Header("")) -> None:
        if not hmac.compare_digest(x_testbed_key.encode(), cloud.place.control_key.encode()):
            raise HTTPException(403, "the key of this testbed is needed")

    routes = APIRouter(prefix="/_testbed", dependencies=[Depends(check)])

    @routes.get("/ready")
    def ready() -> dict[str, bool]:
        return {"ready": True}

    @routes.put("/principals/{name:path}")
    def register(name: str, body: dict[str, str] | None = NOTHING) -> dict[str, str]:
        principal = cloud.directory.register(name)
        if body:
            try:
                certificate(body["certificate"])
            except ValueError as error:
                raise HTTPException(422, str(error)) from error
            cloud.directory.add_certificate(principal, body["certificate"])
        return asdict(principal)

    @routes.post("/secrets/{name:path}")
    def renew_secret(name: str) -> dict[str, str]:
        renewed = cloud.directory.renew_secret(name)
        if renewed is None:
            raise HTTPException(404, f"there is no principal {name!r}")
        return asdict(renewed)

    @routes.delete("/principals/{name:path}")
    def remove(name: str) -> dict[str, bool]:
        return {"removed": cloud.directory.remove(name)}

    @routes.post("/token")
    def token(body: dict[str, str] = BODY) -> dict[str, str]:
        application = cloud.directory.application(body["client_id"])
        if application is None:
            raise HTTPException(404, f"there is no application {body['client_id']}")
        settings = cloud.database.settings
        return {
            "token": cloud.authority.issue(
                application, body["audience"], settings.token_seconds, settings.token_version
            )
        }

    @routes.put("/grants")
    def grant(body: dict[str, str] = BODY) -> dict[str, str]:
        wanted = role(body["role"])
        if wanted is None:
            raise HTTPException(422, f"role {body['role']!r} is unknown")
        there = cloud.grants.same(body["scope"], wanted.id, body["principal_id"])
        assignment = there or cloud.grants.add(body["scope"], wanted.id, body["principal_id"])
        cloud.provider.wake()
        return {"id": assignment.id}

    @routes.post("/grants/revoke")
    def revoke(body: dict[str, str] = BODY) -> dict[str, int]:
        wanted = role(body["role"]) if body.get("role") else None
        gone = [
            one
            for one in cloud.grants.all()
            if one.principal_id == body["principal_id"]
            and (wanted is None or one.role == wanted.id)
            and (not body.get("scope") or one.scope.lower() == body["scope"].lower())
        ]
        for one in gone:
            cloud.grants.remove(one.name)
        cloud.provider.wake()
        return {"removed": len(gone)}

    @routes.patch("/settings")
    def settings(body: dict[str, Any] = BODY) -> dict[str, Any]:
        try:
            return asdict(cloud.database.set_settings(body))
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    @routes.delete("/settings")
    def default_settings() -> dict[str, Any]:
        cloud.database.change("DELETE FROM settings")
        return asdict(cloud.database.settings)

    @routes.delete("/behaviour")
    def usual() -> dict[str, bool]:
        faults.show()
        cloud.database.change("DELETE FROM settings")
        record.forget()
        return {"usual": True}

    @routes.put("/faults")
    def fail(body: list[dict[str, Any]] = BODY) -> dict[str, int]:
        try:
            faults.show(*(Fault.parse(one) for one in body))
        except (ValueError, TypeError) as error:
            raise HTTPException(422, str(error)) from error
        return {"faults": len(body)}

    @routes.get("/requests")
    def requests() -> list[dict[str, Any]]:
        return [asdict(one) for one in record.all()]

    @routes.delete("/requests")
    def forget() -> dict[str, bool]:
        record.forget()
        return {"forgotten": True}

    @routes.get("/invitations")
    def invitations() -> list[dict[str, Any]]:
        return cloud.database.rows("SELECT * FROM invitations ORDER BY id")

    @routes.get("/acts")
    def acts() -> list[dict[str, Any]]:
        return cloud.database.rows("SELECT * FROM service_acts ORDER BY id")

    @routes.delete("/acts")
    def end_acts() -> dict[str, bool]:
        cloud.pools.stop()
        cloud.database.change("DELETE FROM service_acts")
        return {"ended": True}

    @routes.delete("/pools")
    def forget_pools() -> dict[str, bool]:
        cloud.pools.stop()
        for table in ("agent_pools", "pool_machines", "service_acts"):
            cloud.database.change(f"DELETE FROM {table}")  # noqa: S608
        return {"forgotten": True}

    @routes.get("/vpn")
    def vpn_settings() -> dict[str, Any]:
        return vpn.settings(cloud)

    @routes.put("/vpn/server")
    def set_vpn_server(body: dict[str, Any] = BODY) -> dict[str, Any]:
        try:
            return vpn.set_server(cloud, body)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    @routes.put("/network/{name}")
    def plant_network(name: str, body: dict[str, Any] = BODY) -> dict[str, Any]:
        try:
            return vnets.plant(cloud, name, body["space"], body["subnets"])
        except (KeyError, ArmError) as error:
            raise HTTPException(422, str(error)) from error

    @routes.delete("/network")
    def forget_network() -> dict[str, bool]:
        Resources(cloud).forget()
        vpn.forget_server(cloud)
        return {"forgotten": True}

    return routes
