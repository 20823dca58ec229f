# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs this module, and those that meta/runtime.yml routes here, on the machine of the task."""

from __future__ import annotations

from ansible_collections.aks.flexnode.plugins.plugin_utils.on_machine import MachineAction


class ActionModule(MachineAction):
    """The name that Ansible looks for."""
