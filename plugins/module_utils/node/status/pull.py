# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the last ansible-pull of this machine went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine.records.state import Store

NOT_CONFIGURED, NOT_INSTALLED, NOT_RUN = "NotConfigured", "NotInstalled", "NotRun"
NO_PULL = {"status": NOT_CONFIGURED}
OUTCOMES = {"ok": "Ok", "failed": "Failed", "refused": "Refused"}
WRONG = (NOT_INSTALLED, "Failed", "Refused")
NOT_CHANGED = "ansible-pull runs with earlier settings, the new ones are not installed"
SHOWN = ("commit", "time", "seconds", "code", "message", "since", "lastGood")


def pull_of(store: Store, document: Mapping[str, Any] | None) -> dict[str, Any]:
    """The commit that ran last, when, and how it went; or why nothing runs."""
    if not ((document or {}).get("pull") or {}).get("repository"):
        return dict(NO_PULL)
    record = store.pulled()
    status = OUTCOMES.get(str(record.get("outcome")), NOT_RUN)
    install = record.get("install")
    if install and status == NOT_RUN:
        return {"status": NOT_INSTALLED, **install}
    shown = {"status": status, **{name: record[name] for name in SHOWN if name in record}}
    # What was installed before goes on: a run that fails must not be hidden by a change that failed.
    return {**shown, "install": install} if install else shown


def wrong_with(pull: Mapping[str, Any]) -> tuple[str, str] | None:
    """Code and message of what is wrong with ansible-pull; None: nothing."""
    install = pull.get("install")
    if pull["status"] not in WRONG:
        return (install["code"], f"{NOT_CHANGED}: {install['message']}") if install else None
    also = f"; {NOT_CHANGED}: {install['code']}: {install['message']}" if install else ""
    return pull["code"], f"{pull['message']}{also}"


def pull_line(pull: Mapping[str, Any]) -> str:
    """The same in one line."""
    if pull["status"] == NOT_CONFIGURED:
        return "no repository"
    if pull["status"] == NOT_RUN:
        return "has not run yet"
    commit = f"  commit {pull['commit'][:12]}" if pull.get("commit") else ""
    code = f"  {pull['code']} since {pull['since']}" if pull.get("code") else ""
    good = pull.get("lastGood") or {}
    last = f"; last good run: {good['commit'][:12]} at {good['time']}" if code and good else ""
    when = f" at {pull['time']}" if pull.get("time") and not code else ""
    install = pull.get("install")
    also = f"{install['code']} since {install['since']}: {install['message']}" if install else ""
    more = f"; {NOT_CHANGED}: {also}" if also else ""
    return f"{pull['status']}{commit}{when}{code}: {pull.get('message', '')}{last}{more}"


def in_short(pull: Mapping[str, Any]) -> str:
    """For a table: what runs, or why not."""
    if pull["status"] == NOT_CONFIGURED:
        return "-"
    install = pull.get("install") or {}
    detail = pull.get("code") or install.get("code") or str(pull.get("commit") or "")[:8]
    return f"{pull['status']} {detail}".rstrip()
