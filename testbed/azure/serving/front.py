# SPDX-License-Identifier: GPL-3.0-or-later
"""What every request passes first: it shows the faults and keeps the record."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from testbed.azure.arm.errors import USUAL_CODES
from testbed.azure.behaviour.faults import Fault, Faults
from testbed.azure.behaviour.record import Record, Request

CONTROL = "/_testbed/"


class Front:
    """Between the server and the application."""

    def __init__(self, app: ASGIApp, faults: Faults, record: Record) -> None:
        self._app = app
        self._faults = faults
        self._record = record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection's next request."""
        if scope["type"] != "http" or scope["path"].startswith(CONTROL):
            await self._app(scope, receive, send)
            return
        began = time.time()
        fault = self._faults.pick(scope["method"], scope["path"])
        state: dict[str, Any] = {"fault": fault, "principal": None}
        scope["state"] = state
        status = 0

        async def noticing(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            if not (fault and fault.lose_answer):
                await send(message)

        try:
            if fault and fault.latency:
                await asyncio.sleep(fault.latency)
            if fault and fault.drop:
                await cut(send)
            elif fault and fault.status:
                await self._refuse(fault, noticing)
            else:
                await self._app(scope, receive, noticing)
                if fault and fault.lose_answer:
                    status = 0
                    await cut(send)
        finally:
            request = Request(
                time=began,
                client=(scope.get("client") or ("", 0))[0],
                method=scope["method"],
                path=scope["path"],
                query=scope["query_string"].decode(),
                status=status,
                principal=state["principal"],
                seconds=round(time.time() - began, 4),
            )
            self._record.add(request)

    async def _refuse(self, fault: Fault, send: Send) -> None:
        code = fault.code or USUAL_CODES.get(fault.status, "InternalServerError")
        body = json.dumps(
            {"error": {"code": code, "message": "The testbed was configured to answer so."}}
        ).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if fault.retry_after is not None:
            headers.append((b"retry-after", str(fault.retry_after).encode()))
        await send({"type": "http.response.start", "status": fault.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def cut(send: Send) -> None:
    """End the connection without an answer; ASGI has no word for that, so ask the server's own objects."""
    cycle = getattr(send, "__self__", None)
    transport = getattr(cycle, "transport", None)
    if transport is None:
        raise RuntimeError("this server does not let go of its connections: run it with uvicorn")
    transport.abort()
    await asyncio.sleep(0)  # lets the server notice, else it would complain about a missing answer
