# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module flexnode_preflight_info."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ..node.engine.records.state import store_of
from ..node.errors import ConfigInvalid, FlexNodeError, Problem
from ..node.machine.host import Host
from ..node.operations.checks import has_joined
from ..node.preflight.document import fetched
from ..node.preflight.finding import Report
from ..node.preflight.run import run_preflight
from .source_options import document_of, source_of

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule) -> None:
    """Run the preflight checks on this machine."""
    try:
        report = check(module)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        name = module.params["name"] or report.node_name
        joined, version = state()
        module.exit_json(
            changed=False,
            name=name,
            table=report.lines(name),
            joined=joined,
            config_version=version,
            **report.as_dict(),
        )


def check(module: AnsibleModule) -> Report:
    params, host = module.params, Host()
    source, overrides = source_of(params, document_of(module), store_of(host), host.clock, attempts=2)
    return run_preflight(
        host,
        fetched(
            host,
            source,
            overrides,
            pollable=params["source"] == "stored" or params["durable"],
            purpose=params["purpose"],
        ),
        params["stage"],
        params["skip"],
        token_expires=seconds(params["token_expires"]),
    )


def state() -> tuple[bool | None, str]:
    """Whether this machine has joined, and its version; None: that can't be read."""
    host = Host()
    store = store_of(host)
    try:
        stored, _intact = store.remembered()
        return bool(stored and has_joined(host, stored)), store.config_version() or ""
    except (FlexNodeError, OSError):
        return None, ""


def seconds(moment: str | None) -> float | None:
    if not moment:
        return None
    try:
        return float(moment)
    except ValueError:
        pass
    try:
        read = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        wrong = Problem("token_expires", moment, "a date such as 2026-11-15T08:00:00Z, or seconds since 1970")
        raise ConfigInvalid([wrong]) from None
    return (read if read.tzinfo else read.replace(tzinfo=timezone.utc)).timestamp()
