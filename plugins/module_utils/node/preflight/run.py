# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight of a machine: probe, check, and report all problems at once. Nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..machine.host import Host
from .document import Read, defaults, read
from .every import Check, checks_of, known
from .finding import Finding, Outcome, Report, Stage, Unchecked
from .probes.azure import Identify, own_identity
from .probes.host import Ways, probe_machine
from .reach import SECONDS, reach
from .seen import Reached, Situation


def run_preflight(
    host: Host,
    document: Mapping[str, Any] | Read,
    stage: Stage = "all",
    skip: Iterable[str] = (),
    *,
    token_expires: float | None = None,
    identify: Identify | None = own_identity,
    ways: Ways | None = None,
    seconds: float = SECONDS,
) -> Report:
    """Run the checks of a stage; failures are findings. Only an unknown id in `skip` raises.

    document: plain, or as `document.fetched` read it from a source.
    identify: returns the identity of a method; without it Azure is not queried, which is reported.
    """
    start, unwanted = time.monotonic(), known(skip)
    prepared = document if isinstance(document, Read) else read(host, document)
    outcomes: list[Outcome] = list(prepared.findings)
    checks = checks_of(stage, unwanted)
    config = prepared.config
    if config is None:
        checks, waiting = judged_alone(checks)
        outcomes += waiting
        config = defaults()
    machine = probe_machine(host, prepared.config, ways)
    asked = any(check.stage == "connectivity" for check in checks)
    reached = reach(host, config, machine, stage, identify, seconds) if asked else Reached()
    now = Situation(machine, config, reached, host.clock.now(), token_expires, prepared.secrets_missing)
    for check in checks:
        outcomes += check.judge(now)
    wanted = [item for item in outcomes if item.id not in unwanted]
    return Report(
        stage,
        now.node_name,
        tuple(item for item in wanted if isinstance(item, Finding)),
        tuple(item for item in wanted if isinstance(item, Unchecked)),
        tuple(id_ for check in checks for id_ in check.ids if id_ not in unwanted),
        tuple(sorted(unwanted)),
        round(time.monotonic() - start, 3),
        now.cluster_id,
    )


def judged_alone(checks: tuple[Check, ...]) -> tuple[tuple[Check, ...], list[Unchecked]]:
    """The checks that need a valid document, as one unchecked entry."""
    alone = tuple(check for check in checks if check.alone)
    ids = ", ".join(id_ for check in checks if not check.alone for id_ in check.ids)
    return alone, [Unchecked("configuration", f"these need a valid configuration: {ids}")] if ids else []
