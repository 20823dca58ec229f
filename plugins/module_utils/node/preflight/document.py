# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document, as preflight reads it: its problems are findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config.available import check_available, polls_resource
from ..config.document import canonical, merge, placeholders, restore_secrets
from ..config.model import NodeConfig
from ..config.parse import parse
from ..config.types.setting import Purpose
from ..dataclass import dataclass
from ..engine.records.state import store_of
from ..errors import ConfigInvalid, FlexNodeError, NotAvailable, Problem
from ..machine.host import Host
from ..secret import REDACTED
from ..sources.source import Source, is_bundle
from .finding import Finding, error

# If the document can't be used, the machine is checked with defaults.
DEFAULTS: Mapping[str, Any] = {"kubernetes": {"version": "1.34.0"}}


@dataclass(frozen=True)
class Read:
    """A document and its problems; without a `config` it can't be used."""

    config: NodeConfig | None
    findings: tuple[Finding, ...] = ()
    secrets_missing: tuple[str, ...] = ()


def fetched(
    host: Host,
    source: Source,
    overrides: Mapping[str, Any],
    *,
    pollable: bool = True,
    purpose: Purpose = "join",
) -> Read:
    """The document of a source, with overrides merged; it is not stored."""
    try:
        answer = source.fetch()
        document = merge(answer.document, overrides)
        return read(host, document, pollable=pollable, bundle=is_bundle(source, answer), purpose=purpose)
    except ConfigInvalid as invalid:
        return Read(None, tuple(_problem(item) for item in invalid.problems))
    except FlexNodeError as failure:
        place = f" ({failure.where})" if failure.where else ""
        found = f"{failure.what}{place}: {failure.why}"
        why = "without its configuration a machine can't join"
        return Read(None, (error("configuration-source", found, why, failure.fix),))
    except OSError as failure:
        found = f"the stored configuration can't be read: {failure.strerror}"
        return Read(None, (error("configuration-source", found, "only root can read it", "use sudo"),))


def read(
    host: Host,
    document: Mapping[str, Any],
    *,
    pollable: bool = True,
    bundle: bool = False,
    purpose: Purpose = "join",
) -> Read:
    """Check a document; placeholders stand for the secrets that are stored on this machine.

    bundle: it may come from a flexNodeConfig resource, which can be polled. What is prepared polls nothing.
    """
    pollable = pollable or purpose == "prepare"
    try:
        stored = store_of(host).current_config() if REDACTED in canonical(document) else None
    except (FlexNodeError, OSError):  # reported by its own check
        stored = None
    if stored:
        document = restore_secrets(document, stored)
    try:
        config = parse(document, purpose=purpose, pollable=pollable)
    except ConfigInvalid as invalid:
        return Read(None, tuple(_problem(item) for item in invalid.problems))
    findings: tuple[Finding, ...] = ()
    try:
        resource = bundle or config.azure.target_agent_pool_name is not None
        check_available(config, pollable=pollable or (resource and polls_resource(config)))
    except NotAvailable as failure:
        findings = (error("not-available", f"{failure.where}: {failure.what}", failure.why, failure.fix),)
    return Read(config, findings, tuple(placeholders(document)))


def defaults() -> NodeConfig:
    """The configuration that replaces a document that can't be used."""
    return parse(DEFAULTS, purpose="prepare")


def _problem(problem: Problem) -> Finding:
    accepted = "" if problem.what.endswith("?") else f"accepted: {problem.accepted}"
    return error(
        "token-format" if problem.path == "azure.bootstrapToken.token" else "configuration",
        problem.what,
        accepted,
        f"correct {problem.path}; all settings: docs/configuration.md of the collection",
    )
