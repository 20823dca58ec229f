# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option with which the modules that run on machines get their code."""

from __future__ import annotations


class ModuleDocFragment:
    """Set by the collection, never by a task."""

    DOCUMENTATION = r"""
options:
  node_code:
    description:
      - The code that the module runs on the machine, as one archive. The collection sets this option itself
        and replaces the value of a task. It is shown nowhere.
    type: str
"""
