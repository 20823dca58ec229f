# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Answers of machines, as flexnode_status_info returns them."""

from __future__ import annotations

from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.node.status.words import in_words

UNREACHABLE = {"unreachable": True, "msg": "Failed to connect to the host via ssh: timed out"}
NOT_ROOT = {"msg": "FLEX-1306: root is needed", "error": {"code": "FLEX-1306"}}


def an_answer(name: str, reason: str = "NodeJoined", message: str = "", **changes: Any) -> dict[str, Any]:
    """A joined node; `changes` replaces parts of its status document."""
    status = {
        "arc": {"status": "NotConfigured"},
        "vpn": {"status": "NotConfigured"},
        "node": {
            "name": name,
            "cluster": "plant",
            "status": "Ready",
            "ready": True,
            "joined": True,
            "kubeletVersion": "1.34.4",
            "containerRuntime": "containerd 2.3.4",
            "units": {"containerd.service": True, "kubelet.service": True},
            "certificate": {"issued": "2026-11-01T00:00:00+00:00", "expires": "2027-11-01T00:00:00+00:00"},
        },
        "config": {"version": "1708123456", "appliedVersion": "1708123456"},
        "versions": {"kubernetes": "1.34.4", "containerd": "2.3.4"},
        "drift": [],
        "phase": "NodeJoined",
        "monitoring": {"status": "Ok", "ok": True, "url": "https://example.org/bundle"},
        "left": [],
        "timestamp": "2026-11-15T07:00:00+00:00",
        "reason": reason,
        "message": message,
        **changes,
    }
    return {"changed": False, "status": status, "words": in_words(status)}


def drifted(*sentences: str) -> list[dict[str, str]]:
    """Items of drift."""
    return [
        {"item": f"file:/{number}", "what": what, "state": "found"} for number, what in enumerate(sentences)
    ]
