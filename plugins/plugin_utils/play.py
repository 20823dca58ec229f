# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The play that a task belongs to: the variables of each of its hosts, and the names that a user typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import split_host_pattern
from ansible.plugins.action import ActionBase

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import InventoryInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.reading import compared
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.variables import PREFIX

UNDEFINED = re.compile(r"'[^']+' is undefined")


class PlayVariables(Mapping[str, Mapping[str, Any]]):
    """By host: its flexnode_* variables, as a task of that host would see them.

    `hostvars` lacks the variables of the play and its roles, and ansible-core 2.17 leaves a template there as
    text if it can't be evaluated.
    """

    def __init__(self, action: ActionBase, *, part: Callable[[Any], Any] = lambda value: value) -> None:
        self._action, self._part = action, part
        self._task, self._templar = action._task, action._templar
        self._manager = action._task.get_variable_manager()
        self._play = getattr(self._task, "play", None) or self._task._parent._play
        self._hosts = self._manager._inventory.hosts

    @property
    def compared(self) -> PlayVariables:
        """The same of machines that this run leaves alone: what else they have may be in another vault."""
        return PlayVariables(self._action, part=compared)

    @property
    def strategy(self) -> str:
        """How the play runs its hosts; `linear` is the only one that runs a task once for all of them."""
        return str(self._play.strategy).rpartition(".")[2]

    @property
    def visible(self) -> Mapping[str, Any]:
        """What a play itself sees: -e, extra variables of AWX, and what is set where it is imported.

        Evaluated as Ansible evaluates the play's `hosts`: a template that turns out empty names no machine.
        """
        whole = self._manager.get_vars(play=self._play)
        templar = self._templar.copy_with_new_env(available_variables=whole)
        return EvaluatedVariables({**self._play.get_vars(), **self.extra_vars}, templar)

    @property
    def extra_vars(self) -> Mapping[str, Any]:
        """What was set with -e, or as an extra variable of AWX: for all hosts, above everything else."""
        return dict(self._manager.extra_vars)

    def replaced(self, name: str, host: str) -> Any:
        """The value of this host in the inventory that an extra variable hides; None: there is none."""
        without = copy(self._manager)
        without._extra_vars = {}
        found = without.get_vars(play=self._play, host=self._manager._inventory.get_host(host))
        return found.get(name)

    def typed(self, limit: object) -> list[object]:
        """Which machines were named on the command line, or as the limit of an AWX job."""
        return [pattern for pattern in (self.visible.get("flexnode_hosts"), limit) if pattern]

    def excluded_in_vain(self, pattern: object) -> list[str]:
        """The parts of a host pattern that leave out nothing, e.g. `!ring_canry` where no such group exists.

        Ansible only warns, and then acts on the machines that were meant to be left out.
        """
        inventory = self._manager._inventory
        parts = [part for part in split_host_pattern(pattern) if part.startswith("!")]
        return [
            part
            for part in parts
            if part[1:] not in inventory.groups  # which may be empty
            and not inventory.get_hosts(part[1:], ignore_limits=True, ignore_restrictions=True)
        ]

    def __getitem__(self, host: str) -> Mapping[str, Any]:
        found = self._manager.get_vars(
            play=self._play, host=self._manager._inventory.get_host(host), task=self._task
        )
        templar = self._templar.copy_with_new_env(available_variables=found)
        return EvaluatedVariables(found, templar, self._part)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)


class EvaluatedVariables(Mapping[str, Any]):
    """The flexnode_* variables of a host or a play. Each is evaluated when read: it may look up a secret.

    part: what of a value is evaluated at all.
    """

    def __init__(
        self, variables: Mapping[str, Any], templar: Any, part: Callable[[Any], Any] = lambda value: value
    ) -> None:
        self._raw = {name: value for name, value in variables.items() if name.startswith(PREFIX)}
        self._templar, self._part = templar, part

    def __contains__(self, name: object) -> bool:
        return name in self._raw  # Mapping's own way is to read it

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __getitem__(self, name: str) -> Any:
        value = self._part(self._raw[name])
        try:
            return _decrypted(self._templar.template(value))
        except AnsibleError as error:
            # Only what is missing: the rest of the message may quote a secret.
            missing = UNDEFINED.search(str(error))
            raise InventoryInvalid(
                f"{name} can't be evaluated",
                why=missing[0] if missing else type(error).__name__,
                fix="define it, or correct the template",
            ) from error


def _decrypted(value: Any) -> Any:
    """The value with texts in place of what `!vault` marks: up to ansible-core 2.18 these are no texts."""
    if isinstance(value, Mapping):
        return {key: _decrypted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decrypted(item) for item in value]
    return str(value) if getattr(value, "__ENCRYPTED__", False) else value


def names_machines(pattern: object) -> bool:
    """Whether a pattern names machines. `!edge-1` alone does not: Ansible takes it as all the others."""
    return any(part and not part.startswith("!") for part in split_host_pattern(pattern))
