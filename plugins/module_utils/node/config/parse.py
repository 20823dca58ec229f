# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""document -> NodeConfig: every key is read or refused, and all problems are reported together."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import dirname
from typing import Any

from ..dataclass import replace
from ..errors import NOT_SET, UNKNOWN_KEY, ConfigInvalid, Problem
from .auth import azure_method, kubelet_method
from .early import early_form
from .model import NodeConfig
from .rules import MONITORING, RULES
from .types.setting import Purpose, Refused, Section, Setting, absent, members, spelled, table

Document = Mapping[str, Any]


def parse(document: Document, *, purpose: Purpose = "join", pollable: bool = False) -> NodeConfig:
    """Return the checked configuration, or raise ConfigInvalid with every problem.

    purpose: `prepare` (bake an image) needs no cluster and no credentials.
    pollable: the document's source can itself be polled (blob, durable url), without an Azure identity.
    """
    problems: list[Problem] = []
    config: NodeConfig = _read_section(NodeConfig, early_form(document), "", purpose, problems)
    wrong = tuple(problem.path for problem in problems)
    for rule in RULES if pollable else (*RULES, MONITORING):
        if purpose in rule.purposes and not any(
            _touches(path, read) for path in wrong for read in rule.reads
        ):
            problems += rule.check(config)
    if problems:
        raise ConfigInvalid(problems)
    return _completed(config)


def _touches(path: str, read: str) -> bool:
    """Whether a wrong path is within what a rule reads, or contains it."""
    return (
        f"{path}.".startswith(f"{read}.") or f"{read}.".startswith(f"{path}.") or path.startswith(f"{read}[")
    )


def _read_section(model: type[Any], raw: object, path: str, purpose: Purpose, problems: list[Problem]) -> Any:
    """Read one section into its dataclass; a wrong value is reported and left at its default."""
    if not isinstance(raw, Mapping):
        # Shown by type only: the value may be a credential.
        problems.append(Problem(path or "document", f"a {type(raw).__name__}", "a mapping"))
        raw = {}
    fields = {spelled(key): value for key, value in raw.items() if value is not None}
    values: dict[str, Any] = {}
    known: list[str] = []
    for attribute, spec in members(model):
        at = f"{path}.{spec.key}" if path else spec.key
        if isinstance(spec, Section):
            known.append(spec.key)
            if not spec.optional or spec.key in fields:
                values[attribute] = _read_section(spec.model, fields.get(spec.key, {}), at, purpose, problems)
        else:
            known += spec.keys
            values[attribute] = _read_setting(model, attribute, spec, fields, at, purpose, problems)
    problems += (_unknown(key, path, known) for key in fields if key not in known)
    return model(**values)


def _read_setting(
    model: type[Any],
    attribute: str,
    spec: Setting,
    fields: Document,
    at: str,
    purpose: Purpose,
    problems: list[Problem],
) -> object:
    spellings = [key for key in spec.keys if key in fields]
    if not spellings:
        if spec.needed(purpose):
            problems.append(Problem(at, NOT_SET, spec.kind.accepts))
        return absent(model, attribute)
    found = fields[spellings[0]]
    if any(fields[key] != found for key in spellings[1:]):
        problems.append(Problem(at, "set twice, with different values", f"one of {', '.join(spellings)}"))
    try:
        return spec.kind.read(found)
    except Refused as refused:
        spelled_at = f"{at[: -len(spec.key)]}{spellings[0]}"
        problems += refused.under(spelled_at)
        return absent(model, attribute)


def _unknown(key: str, path: str, known: list[str]) -> Problem:
    """Name an unknown key and its nearest known one; its value is not shown, it may be a misspelt secret."""
    from difflib import get_close_matches  # only needed when something is wrong

    inside = f"{path}." if path else ""
    near = get_close_matches(key, known, n=1) or [name for name in known if name.lower() == key.lower()]
    elsewhere = [row.path for row in table(NodeConfig) if row.path.split(".")[-1] == key]
    nearest = f"{inside}{near[0]}" if near else elsewhere[0] if elsewhere else ""
    hint = f"did you mean {nearest}?" if nearest else ""
    return Problem(f"{inside}{key}", UNKNOWN_KEY, ", ".join(sorted(known)), hint)


def _completed(config: NodeConfig) -> NodeConfig:
    """Return the configuration with all derived values filled in."""
    azure, cluster, agent = config.azure, config.azure.target_cluster, config.agent
    principal = azure.service_principal
    cluster_id = cluster.resource_id
    arc = replace(
        azure.arc,
        resource_group=azure.arc.resource_group or (cluster_id.resource_group if cluster_id else None),
        location=azure.arc.location or cluster.location,
    )
    log_dir = agent.log_dir or (dirname(agent.log_file) if agent.log_file else config.paths.log_dir)
    return replace(
        config,
        azure=replace(
            azure,
            subscription_id=azure.subscription_id or (cluster_id.subscription_id if cluster_id else None),
            tenant_id=azure.tenant_id or (principal.client_tenant if principal else None),
            arc=arc,
        ),
        kubernetes_auth=replace(config.kubernetes_auth, method=kubelet_method(config)),
        azure_auth=replace(config.azure_auth, method=azure_method(config)),
        agent=replace(agent, log_dir=log_dir),
        paths=replace(config.paths, log_dir=log_dir),
    )
