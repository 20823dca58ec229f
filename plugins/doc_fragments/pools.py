# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The FlexNodes pool that modules work on."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of modules for FlexNodes pools."""

    DOCUMENTATION = r"""
options:
  cluster_id:
    description:
      - Resource id of the AKS cluster.
    type: str
    required: true
  pool:
    description:
      - Name of the pool. 1-12 lower-case letters and digits, a letter first.
    type: str
    required: true
  api_version:
    description:
      - Version of the API of FlexNodes pools. It is a preview, which Azure replaces from time to time.
        Requests are made without the SDK's typed client, so any version can be named.
    type: str
    default: 2026-05-02-preview
  poll_interval:
    description:
      - Seconds between two requests for the state of a long-running operation, if Azure names no interval.
    type: int
    default: 5
  operation_timeout:
    description:
      - Seconds that a long-running operation may take, and for which a change waits for another operation.
    type: int
    default: 1200
requirements:
  - azure-mgmt-core
notes:
  - FlexNodes pools are a public preview of Azure. This collection was tried with an emulation of the
    published API only, never with Azure itself. See docs/pools.md.
"""
