# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that name the source of a configuration, and masking of the secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .node.config.document import loads, secrets_of, unwrap
from .node.errors import ConfigInvalid

# The options of the doc fragment aks.flexnode.source.
OPTIONS: dict[str, dict[str, Any]] = {
    "source": {"type": "str", "choices": ["inline", "url", "stored"]},
    "document": {"type": "str", "default": "{}", "no_log": True},
    "url": {"type": "str", "no_log": True},
    "url_ca_cert": {"type": "str"},
    "durable": {"type": "bool", "default": False},
}
REQUIRED_IF = [("source", "url", ("url",))]


def document_of(module: Any) -> dict[str, Any]:
    """The option `document`, parsed; its secrets are masked in the result of the module."""
    document = loads(module.params["document"], where="document")
    mask_secrets(module, document)
    return document


def mask_secrets(module: Any, document: Mapping[str, Any]) -> None:
    """Mask the secrets of a document, or of the one in a bundle, in everything that the module returns."""
    try:
        module.no_log_values.update(secrets_of(unwrap(document)[0]))
    except ConfigInvalid:  # reported when the document is read
        module.no_log_values.update(secrets_of(document))
