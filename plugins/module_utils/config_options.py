# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that name the source of a configuration."""

from __future__ import annotations

from typing import Any

# The options of the doc fragment aks.flexnode.source.
OPTIONS: dict[str, dict[str, Any]] = {
    "source": {"type": "str", "choices": ["inline", "url", "stored"]},
    "document": {"type": "str", "default": "{}", "no_log": True},
    "url": {"type": "str", "no_log": True},
    "url_ca_cert": {"type": "str"},
    "durable": {"type": "bool", "default": False},
}
REQUIRED_IF = [("source", "url", ("url",))]
