# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of the emulated Azure.

Its directory holds place.json, tls.crt, tls.key, ca.crt, and in cluster/ the way into the cluster; the
database and the key that signs tokens are created there.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from starlette.types import ASGIApp

from testbed.azure import machines
from testbed.azure.arm.gateway import Gateway
from testbed.azure.authorization.grants import Grants
from testbed.azure.behaviour import control
from testbed.azure.behaviour.faults import Faults
from testbed.azure.behaviour.record import Record
from testbed.azure.cloud import Cloud
from testbed.azure.database import Database
from testbed.azure.network import profile
from testbed.azure.pools.nodes import Nodes
from testbed.azure.pools.service import Service
from testbed.azure.provider.blobs import Blobs
from testbed.azure.provider.cluster import Cluster
from testbed.azure.provider.provider import Provider
from testbed.azure.provider.watch import Watch
from testbed.azure.serving.front import Front
from testbed.azure.serving.place import Place
from testbed.azure.sign_in import entra
from testbed.azure.sign_in.directory import Directory
from testbed.azure.sign_in.tokens import Authority, ensure_key
from testbed.cluster.api import Api
from testbed.layout.pki import Pair

METHODS = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"]


def build(directory: Path) -> Cloud:
    """Everything that belongs to a directory."""
    place = Place.load(directory)
    database = Database(directory / "azure.sqlite")
    keys = directory / "cluster"
    access = (place.kubernetes.server, keys / "ca.crt", Pair(keys / "provider.crt", keys / "provider.key"))
    cluster = Cluster(*access)
    blobs = Blobs(place.blob, directory / "ca.crt")
    return Cloud(
        place=place,
        database=database,
        directory=Directory(database),
        authority=Authority(ensure_key(directory / "entra.key"), place.origin, place.tenant_id),
        grants=Grants(database),
        provider=Provider(place, database, cluster, blobs, keys / "admin.kubeconfig"),
        pools=Service(place, database, cluster, lambda: Nodes(Api(*access))),
    )


def application(cloud: Cloud) -> ASGIApp:
    """The web application."""
    gateway, faults, record = Gateway(cloud), Faults(), Record(cloud.database)
    watch = Watch(cloud.provider, cloud.grants, cloud.database, cloud.place.cluster_id)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        cloud.pools.restart()
        watch.start()
        yield
        watch.stop()
        cloud.pools.stop()

    app = FastAPI(title="Azure", lifespan=running, openapi_url=None)
    app.include_router(control.router(cloud, faults, record))
    app.include_router(machines.router(cloud))
    app.include_router(profile.router(cloud))
    app.include_router(entra.router(cloud))

    @app.exception_handler(entra.Refused)
    async def refused(_: Request, error: entra.Refused) -> JSONResponse:
        return error.answer()

    @app.api_route("/{path:path}", methods=METHODS)
    async def resource_manager(request: Request) -> Response:
        url = f"{cloud.place.origin}{request.url.path}?{request.url.query}"
        found = await run_in_threadpool(
            gateway.answer,
            request.method,
            request.url.path,
            {name.lower(): value for name, value in request.query_params.items()},
            url,
            request.headers.get("authorization", ""),
            await request.body(),
            request.state,
            request.state.fault,
            dict(request.headers),
        )
        if found.body is None:
            return Response(status_code=found.status, headers=dict(found.headers))
        return JSONResponse(found.body, found.status, headers=dict(found.headers))

    return Front(app, faults, record)


def serve(place: str, listener: socket.socket) -> None:
    """Serve until ended."""
    directory = Path(place)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("azure").setLevel(logging.WARNING)
    config = uvicorn.Config(
        application(build(directory)),
        http="h11",
        ssl_certfile=str(directory / "tls.crt"),
        ssl_keyfile=str(directory / "tls.key"),
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=60,
    )
    uvicorn.Server(config).run(sockets=[listener])
