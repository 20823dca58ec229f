#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_status_report
short_description: Show the status of all machines of a play
version_added: 0.1.0
description:
  - Turns what M(aks.flexnode.flexnode_status_info) returned on each machine into one table, and into a report
    if a file is named. Machines that could not be reached have a row, too.
  - Runs on the controller, once per play (C(run_once)), and contacts no machine.
options:
  results:
    description:
      - Name of the variable in which the results of M(aks.flexnode.flexnode_status_info) were registered.
    type: str
    required: true
  path:
    description:
      - File of the report on the controller. A name that ends in C(.html) gets one page that needs no other
        file, one that ends in C(.json) gets the same as data.
    type: path
extends_documentation_fragment:
  - aks.flexnode.attributes
author:
  - aks.flexnode contributors (@aks-flexnode)
"""

EXAMPLES = r"""
- name: Read the status of the machine and its Node
  aks.flexnode.flexnode_status_info:
  register: status
  ignore_unreachable: true

- name: Write a report about all machines
  aks.flexnode.flexnode_status_report:
    results: status
    path: fleet.html
  run_once: true
"""

RETURN = r"""
lines:
  description: The table, for people to read. The first line holds the titles.
  returned: success
  type: list
  elements: str
  sample: ["HOST    STATUS  REASON", "edge-1  Ready   NodeJoined"]
machines:
  description: By host, the row of the report.
  returned: success
  type: dict
  sample: {edge-1: {state: right, status: Ready, reason: NodeJoined, message: ""}}
summary:
  description: How many machines are right, are not, and could not be reached.
  returned: success
  type: dict
  sample: {right: 3, wrong: 0, unreachable: 1}
"""
