# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a machine: one document with one reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..components.every import COMPONENTS, wanted
from ..config.parse import parse
from ..engine.plan import make_plan
from ..engine.records.left import left_behind
from ..engine.records.state import Phase, Store, store_of
from ..errors import FlexNodeError, counted
from ..machine.clock import stamp
from ..machine.facts import gather
from ..machine.host import Host
from ..net.http_client import shown
from ..node_object.conditions import container_runtime, kubelet_version, ready_condition
from ..node_object.this_node import ThisNode
from ..procedures.arc.registration import query
from ..sources.watched import Watched

NOTHING = "-"
WELL = (Phase.NOT_STARTED.value, Phase.NODE_JOINED.value)  # phases that need no reason


def status_of(host: Host, machine: str | None = None) -> dict[str, Any]:
    """Observe everything, change nothing. What can't be determined is reported as such."""
    store = store_of(host)
    state = store.state()
    joined = store.applied_if_intact() is not None  # once, whatever its Node reports now
    status: dict[str, Any] = {
        "arc": {"status": "NotConfigured"},
        "vpn": {"status": "NotConfigured"},
        "node": {"status": "NotConfigured", "ready": False, "joined": joined},
        "config": {"version": store.config_version(), "appliedVersion": None},
        "drift": [],
        "phase": state["phase"],
        "reason": state.get("code") or state["phase"],
        "message": state.get("message", ""),
        "monitoring": monitoring_of(store),
        "left": left_behind(host).get("left", []),
        "timestamp": stamp(host.clock),
    }
    if refused := store.refused():
        status["config"]["refused"] = {
            name: refused.get(name) for name in ("version", "code", "message", "since")
        }
        what = "rolled back" if refused.get("blocks") else "refused"
        message = f"the last configuration was {what}: {refused['message']}"
        status |= {"reason": refused["code"], "message": message}
    document = store.current_config()
    if document is None:
        if status["left"]:
            message = f"this machine left its cluster by itself; {'; '.join(status['left'])}"
            status |= {"reason": "Left", "message": message}
        return status
    applied = store.applied_config()
    status["config"]["appliedVersion"] = store.config_version() if applied == document else None
    try:
        _observe(host, store, document, status, machine)
    except FlexNodeError as error:
        status |= {"reason": error.code, "message": f"{error.what}: {error.why}"}
    return status


def monitoring_of(store: Store) -> dict[str, Any]:
    """How this machine follows its configuration: the URL, and the last error."""
    watched = Watched.of(store.source())
    if watched is None:
        return {"status": "NotConfigured"}
    failure, blocked = store.monitoring(), watched.blocked
    return {
        "status": "Blocked" if blocked else "Failing" if failure else "Ok",
        "url": shown(watched.url),
        "version": watched.version,
        "blockedVersion": blocked.version if blocked else None,
        **(failure or {"ok": True}),
    }


def _observe(
    host: Host, store: Store, document: dict[str, Any], status: dict[str, Any], machine: str | None
) -> None:
    joining = store.state()["phase"] != Phase.NOT_STARTED.value
    config = parse(document, purpose="join" if joining else "prepare", pollable=True)
    if not joining:
        return
    if config.azure.arc.enabled:
        seen = query(host).as_dict()
        status["arc"] = {
            "status": seen["agent_status"] or "NotInstalled",
            "resourceId": seen["resource_id"],
            "agentVersion": seen["agent_version"],
            "services": seen["services"],
        }
    facts = gather(host, machine)
    resources, ownership = wanted(COMPONENTS, config, facts)
    status["drift"] = make_plan(resources, host, store, ownership).sentences
    this_node = ThisNode.of(host, config)
    status["node"] |= {"name": this_node.name, "status": "NotJoined"}
    if not this_node.has_credential:
        return
    node = this_node.read(attempts=2)
    if node is None:
        status["node"]["status"] = "NotRegistered"
        return
    ready, message = ready_condition(node)
    status["node"] |= {
        "status": "Ready" if ready else "NotReady",
        "ready": ready,
        "message": message,
        "kubeletVersion": kubelet_version(node),
        "containerRuntime": container_runtime(node),
        "labels": node["metadata"].get("labels", {}),
    }
    if not ready:
        status |= {"reason": "FLEX-1502", "message": message}
    elif status["drift"]:
        count = len(status["drift"])
        more = f"; and {count - 2} more" if count > 2 else ""
        status |= {
            "reason": "Drift",
            "message": f"bootstrap would {'; '.join(status['drift'][:2])}{more}",
        }


def in_words(status: Mapping[str, Any]) -> dict[str, str]:
    """The status for people, as the playbook and the command show it; programs read the document."""
    node, drift, reason = status["node"], status["drift"], status["reason"]
    return {
        "status": "NotJoined" if node["status"] == "NotConfigured" else node["status"],
        # A machine that is no node has nothing that could differ.
        "drift": NOTHING if "name" not in node else counted(len(drift), "item") if drift else "none",
        "reason": NOTHING if reason == status["phase"] and reason in WELL else reason,
    }
