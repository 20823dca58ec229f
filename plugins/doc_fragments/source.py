# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options for where a configuration comes from."""

from __future__ import annotations


class ModuleDocFragment:
    """Options beside O(source), which each module declares with a default of its own."""

    DOCUMENTATION = r"""
options:
  document:
    description:
      - The configuration document, or the part of it that is merged over the document of the source, as JSON
        text.
      - Pass a variable through the P(ansible.builtin.to_json#filter) filter. As one text it is kept out of
        every log.
      - Where a secret is the placeholder V(<minted at apply>), the one that is stored on the machine is used.
    type: str
    default: "{}"
  url:
    description:
      - URL of a configuration bundle. It is a secret, and is shown nowhere.
    type: str
  url_ca_cert:
    description:
      - CA certificates (PEM) of the server of O(url), if the machine does not trust its CA.
    type: str
  durable:
    description:
      - Whether O(url) stays valid and may be fetched again. The machine then stores it, readable by root
        only, and C(continuousMonitoring) can follow it.
      - A later call with another source, or without this option, ends that; O(source=stored) does not.
    type: bool
    default: false
"""
