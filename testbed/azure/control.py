# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's own endpoint: principals, roles, settings, faults, and the record of requests."""

from __future__ import annotations

import hmac
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Body, Depends, Header, HTTPException

from testbed.azure.assertion import certificate
from testbed.azure.cloud import Cloud
from testbed.azure.faults import Fault, Faults
from testbed.azure.record import Record
from testbed.azure.roles import role

GIVEN = Body(...)
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
    def register(name: str, given: dict[str, str] | None = NOTHING) -> dict[str, str]:
        made = cloud.directory.register(name)
        if given:
            try:
                certificate(given["certificate"])
            except ValueError as error:
                raise HTTPException(422, str(error)) from error
            cloud.directory.add_certificate(made, given["certificate"])
        return asdict(made)

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
    def token(given: dict[str, str] = GIVEN) -> dict[str, str]:
        application = cloud.directory.application(given["client_id"])
        if application is None:
            raise HTTPException(404, f"there is no application {given['client_id']}")
        settings = cloud.database.settings
        return {
            "token": cloud.authority.issue(
                application, given["audience"], settings.token_seconds, settings.token_version
            )
        }

    @routes.put("/grants")
    def grant(given: dict[str, str] = GIVEN) -> dict[str, str]:
        wanted = role(given["role"])
        if wanted is None:
            raise HTTPException(422, f"role {given['role']!r} is unknown")
        there = cloud.grants.same(given["scope"], wanted.id, given["principal_id"])
        assignment = there or cloud.grants.add(given["scope"], wanted.id, given["principal_id"])
        cloud.provider.wake()
        return {"id": assignment.id}

    @routes.post("/grants/revoke")
    def revoke(given: dict[str, str] = GIVEN) -> dict[str, int]:
        wanted = role(given["role"]) if given.get("role") else None
        gone = [
            one
            for one in cloud.grants.all()
            if one.principal_id == given["principal_id"]
            and (wanted is None or one.role == wanted.id)
            and (not given.get("scope") or one.scope.lower() == given["scope"].lower())
        ]
        for one in gone:
            cloud.grants.remove(one.name)
        cloud.provider.wake()
        return {"removed": len(gone)}

    @routes.patch("/settings")
    def settings(given: dict[str, Any] = GIVEN) -> dict[str, Any]:
        try:
            return asdict(cloud.database.set_settings(given))
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    @routes.delete("/settings")
    def default_settings() -> dict[str, Any]:
        cloud.database.change("DELETE FROM settings")
        return asdict(cloud.database.settings)

    @routes.put("/faults")
    def fail(given: list[dict[str, Any]] = GIVEN) -> dict[str, int]:
        try:
            faults.show(*(Fault.parse(one) for one in given))
        except (ValueError, TypeError) as error:
            raise HTTPException(422, str(error)) from error
        return {"faults": len(given)}

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

    return routes
