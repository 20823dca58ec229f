# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets, and what injects them in AWX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.secrets import (
    OTHER_SECRETS,
    SECRETS,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.available import UNSUPPORTED
from scripts.checkout import ROOT
from scripts.docs.document import is_listed
from scripts.docs.tables import code, rows


class _WithTemplates(yaml.SafeLoader):
    """Reads the YAML of Ansible; what it marks as !unsafe is plain text."""


def _plain_text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_WithTemplates.add_constructor("!unsafe", _plain_text)


def awx_data(name: str) -> Mapping[str, Any]:
    """One file of awx/data."""
    text = (ROOT / "awx" / "data" / f"{name}.yml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.load(text, Loader=_WithTemplates)  # noqa: S506 - a SafeLoader
    return found


def secrets() -> str:
    """Every variable that holds a secret, and the credential type of `awx/` that injects it."""
    injected_by = {
        variable: one["name"]
        for one in awx_data("credential_types")["awx_credential_types"]
        for variable in one["injectors"]["extra_vars"]
    }
    lines = []
    for name in (*SECRETS, *OTHER_SECRETS):
        path = SECRETS.get(name, "")
        refused = " (refused in this version)" if path and is_listed(path, UNSUPPORTED) else ""
        lines.append((code(name), f"{code(path)}{refused}" if path else "-", injected_by[name]))
    return rows(lines, head=("variable", "field of the document", "credential type"))
