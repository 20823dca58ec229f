# SPDX-License-Identifier: GPL-3.0-or-later
"""An AWX that only remembers: lists with filters, objects, associations, surveys. No job ever runs.

As far as the modules of awx.awx use its REST API to create things.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TOKEN = "token-of-a-test"
KINDS = (
    "credential_types",
    "credentials",
    "execution_environments",
    "inventories",
    "inventory_sources",
    "job_templates",
    "organizations",
    "projects",
    "schedules",
    "workflow_job_template_nodes",
    "workflow_job_templates",
)
# What a list of unified job templates holds, by the type that a filter names.
UNIFIED = {"job_templates": "job_template", "workflow_job_templates": "workflow_job_template"}
PATH = re.compile(r"/api/v2/(?P<kind>\w+)/(?:(?P<id>\d+)/(?:(?P<part>\w+)/)?)?")
Item = dict[str, Any]


class FakeAwx:
    """The objects by kind and id, and which objects are associated with which."""

    def __init__(self) -> None:
        self.items: dict[str, dict[int, Item]] = {kind: {} for kind in KINDS}
        self.surveys: dict[tuple[str, int], Item] = {}
        self.associated: dict[tuple[str, int, str], list[int]] = {}
        self.writes: list[str] = []
        self.address = ""
        self._ids = count(1)

    def add(self, kind: str, fields: Item) -> Item:
        """Create an object, as a POST does."""
        id_ = next(self._ids)
        url = f"/api/v2/{kind}/{id_}/"
        item = {
            **fields,
            "id": id_,
            "url": url,
            "type": UNIFIED.get(kind, kind.rstrip("s")),
            "related": {"survey_spec": f"{url}survey_spec/"},
            "summary_fields": {},
            "scm_revision": "",
        }
        self.items[kind][id_] = item
        return item

    def named(self, kind: str, name: str) -> Item:
        """The one object of this kind and name."""
        (found,) = (item for item in self.items[kind].values() if item.get("name") == name)
        return found

    def survey(self, name: str) -> Item:
        """The survey of a job template; empty without one."""
        return self.surveys.get(("job_templates", self.named("job_templates", name)["id"]), {})

    def following(self, workflow: str) -> list[tuple[str, str, str]]:
        """The nodes of a workflow from the first on, along their success: identifier, template, limit."""
        id_ = self.named("workflow_job_templates", workflow)["id"]
        nodes = self.items["workflow_job_template_nodes"]
        own = [item for item in nodes.values() if item["workflow_job_template"] == id_]
        after = {
            item["id"]: self.associated.get(("workflow_job_template_nodes", item["id"], "success_nodes"), [])
            for item in own
        }
        (current,) = {*after} - {child for children in after.values() for child in children}
        found = []
        while True:
            item = nodes[current]
            template = self.items["job_templates"][item["unified_job_template"]]
            found.append((item["identifier"], template["name"], item.get("limit", "")))
            if not after[current]:
                return found
            (current,) = after[current]

    # --- requests ------------------------------------------------------------------------------------------

    def answer(self, method: str, url: str, data: Item) -> tuple[int, Any]:
        """Status and body of the answer to a request."""
        parts = urlsplit(url)
        match = PATH.fullmatch(parts.path)
        kind = match["kind"] if match else ""
        if match is None or kind not in (*KINDS, "unified_job_templates"):
            return 404, {"detail": "Not found."}
        if method != "GET":
            self.writes.append(f"{method} {parts.path}")
        if match["id"] is None:
            if method == "POST":
                return 201, self.add(kind, data)
            return 200, self._listing(self._found(kind, dict(parse_qsl(parts.query))))
        id_ = int(match["id"])
        if match["part"] == "survey_spec":
            return self._survey(method, (kind, id_), data)
        if match["part"]:
            return self._association(method, (kind, id_, match["part"]), data)
        item = self.items[kind][id_]
        if method == "PATCH":
            item.update(data)
        return 200, item

    def _found(self, kind: str, filters: dict[str, str]) -> list[Item]:
        kinds = UNIFIED if kind == "unified_job_templates" else (kind,)
        every = [item for one in kinds for item in self.items[one].values()]
        return [item for item in every if all(str(item.get(key)) == value for key, value in filters.items())]

    def _survey(self, method: str, key: tuple[str, int], data: Item) -> tuple[int, Any]:
        if method == "POST":
            self.surveys[key] = data
        elif method == "DELETE":
            self.surveys.pop(key, None)
        return 200, self.surveys.get(key, {})

    def _association(self, method: str, key: tuple[str, int, str], data: Item) -> tuple[int, Any]:
        ids = self.associated.setdefault(key, [])
        if method == "GET":
            return 200, self._listing([{"id": id_} for id_ in ids])
        if data.get("disassociate"):
            ids.remove(data["id"])
        else:
            ids.append(data["id"])
        return 204, None

    @staticmethod
    def _listing(found: list[Item]) -> Item:
        return {"count": len(found), "next": None, "results": found}


@contextmanager
def running() -> Iterator[FakeAwx]:
    """An AWX that listens on a port of this machine."""
    awx = FakeAwx()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = json.loads(self.rfile.read(length) or b"{}") if length else {}
            allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            status, body = awx.answer(self.command, self.path, data) if allowed else (401, {"detail": "no"})
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    awx.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield awx
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
