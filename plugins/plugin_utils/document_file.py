# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration document in a file of the controller: JSON or YAML, perhaps encrypted by ansible-vault."""

from __future__ import annotations

from typing import Any

import yaml
from ansible.errors import AnsibleError


def load_document(loader: Any, path: str) -> Any:
    """Read and parse a file with Ansible's loader; a ValueError says what is wrong, and quotes nothing."""
    try:
        with open(loader.get_real_file(path), encoding="utf-8") as file:
            return yaml.safe_load(file)
    except yaml.MarkedYAMLError as error:
        # Its own text quotes the line, which may hold a secret.
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"{error.problem or 'it is no YAML'}{place}") from error
    except (yaml.YAMLError, AnsibleError) as error:
        raise ValueError(f"it is no YAML, or can't be decrypted ({type(error).__name__})") from error
