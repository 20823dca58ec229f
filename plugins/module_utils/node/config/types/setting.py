# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The declaration of a field: a Kind reads one raw value, a Setting is a field of a section."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeVar, overload

from ...dataclass import MISSING, Field, dataclass, field, fields
from ...errors import Problem, shown

# pylint: disable=invalid-field-call
# The functions of this file create dataclass fields, outside of the dataclasses that use them.

T = TypeVar("T")
Purpose = Literal["join", "prepare"]
Required = Literal["always", "join", "no"]


class Refused(Exception):
    """A raw value that a kind does not accept; its problems have paths relative to the value."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def under(self, prefix: str) -> list[Problem]:
        """Return the problems with their paths below another one."""
        return [problem.under(prefix) for problem in self.problems]


def _no_secrets(raw: object) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What a field accepts, in words, and how it is read; `secrets` returns what must not be shown."""

    accepts: str
    read: Callable[[object], T]
    secrets: Callable[[object], tuple[str, ...]] = _no_secrets
    sensitive: bool = False  # may contain a secret: never quoted, and the placeholder is accepted
    fixed: bool = False  # one of a few values, each of which may be spelled in several ways

    def refuse(self, raw: object, hint: str = "") -> Refused:
        """Return the refusal of a raw value, masked where it may be secret."""
        value = "not valid (a secret, not shown)" if self.sensitive else shown(raw)
        return Refused(Problem("", value, self.accepts, hint))


@dataclass(frozen=True)
class Setting:
    """One field of the document: its key, other spellings, kind, and when it is required."""

    key: str
    kind: Kind[Any]
    about: str
    default: object = None
    required: Required = "no"
    aliases: tuple[str, ...] = ()

    def needed(self, purpose: Purpose) -> bool:
        """Whether the field is required for this purpose."""
        return self.required == "always" or self.required == purpose

    @property
    def keys(self) -> tuple[str, ...]:
        """Return all spellings, the canonical one first."""
        return (self.key, *self.aliases)


@dataclass(frozen=True)
class Section:
    """A mapping of the document that is a dataclass of settings; optional ones are None when absent."""

    key: str
    model: type[Any]
    optional: bool


@overload
def setting(key: str, kind: Kind[T], about: str, *, default: T, aliases: tuple[str, ...] = ...) -> T: ...


@overload
def setting(
    key: str, kind: Kind[T], about: str, *, required: Required = ..., aliases: tuple[str, ...] = ...
) -> T | None: ...


def setting(
    key: str,
    kind: Kind[Any],
    about: str,
    *,
    default: Any = None,
    required: Required = "no",
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a field of the document as an attribute of a section."""
    spec = Setting(key, kind, about, default, required, aliases)
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata={"spec": spec})
    return field(default=default, metadata={"spec": spec})


def needed(key: str, kind: Kind[T], about: str, *, aliases: tuple[str, ...] = ()) -> T:
    """Declare a field that is required in its section."""
    declared: T = field(metadata={"spec": Setting(key, kind, about, required="always", aliases=aliases)})
    return declared


def section(key: str, model: type[T]) -> T:
    """Declare a nested section; absent means all its defaults."""
    declared: T = field(default_factory=model, metadata={"spec": Section(key, model, optional=False)})
    return declared


def optional_section(key: str, model: type[T]) -> T | None:
    """Declare a nested section that is None if absent."""
    declared: T | None = field(default=None, metadata={"spec": Section(key, model, optional=True)})
    return declared


def members(model: type[Any]) -> Iterator[tuple[str, Setting | Section]]:
    """Yield (attribute, declaration) of a section; attributes without one are derived, never read."""
    for attribute in fields(model):
        if spec := attribute.metadata.get("spec"):
            yield attribute.name, spec


def spelled(key: object) -> str:
    """Return a key as JSON would spell it: YAML 1.1 makes booleans of bare words such as `no`."""
    return str(key).lower() if isinstance(key, bool) else str(key)


@dataclass(frozen=True)
class Row:
    """One line of the reference: a setting with its full path."""

    path: str
    setting: Setting


def table(model: type[Any], prefix: str = "") -> Iterator[Row]:
    """Yield every field of the document: the source of the generated reference."""
    for _name, spec in members(model):
        if isinstance(spec, Section):
            yield from table(spec.model, f"{prefix}{spec.key}.")
        else:
            yield Row(f"{prefix}{spec.key}", spec)


def absent(model: type[Any], attribute: str) -> object:
    """Return the value of an attribute that the document does not set."""
    declared: Field[Any] = next(item for item in fields(model) if item.name == attribute)
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return None if declared.default is MISSING else declared.default
