# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attributes of every module of this collection."""

from __future__ import annotations


class ModuleDocFragment:
    """The attributes that Ansible's documentation shows."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)).
    support: full
  idempotent:
    description: Running it again with the same input changes nothing.
    support: full
"""

    INFO = r"""
options: {}
attributes:
  diff_mode:
    support: N/A
    description: Nothing is changed, so there is no difference to show.
"""
