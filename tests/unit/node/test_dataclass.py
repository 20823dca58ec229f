# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's light dataclass behaves as the standard one, in all that the node's code uses."""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node import dataclass as light

NODE = Path(light.__file__).parent


def classes(module: Any) -> dict[str, Any]:
    """The same classes, by either module."""

    @module.dataclass(frozen=True)
    class Point:
        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        seen: list[str] = module.field(default_factory=list, compare=False, repr=False)

    @module.dataclass(frozen=True)
    class Named(Point):
        name: str = module.field(default="", metadata={"spec": "a name"})

    @module.dataclass(frozen=True, kw_only=True)
    class Keyed:
        x: int
        cache: dict[str, int] = module.field(default_factory=dict, init=False)

    @module.dataclass(frozen=True, order=True)
    class Version:
        major: int
        minor: int = 0

    @module.dataclass()
    class Mutable:
        x: int
        inner: Any = None

    @module.dataclass(frozen=True, eq=False)
    class Itself:
        x: int

    @module.dataclass(frozen=True)
    class Quiet:
        x: int

        def __repr__(self) -> str:
            return "quiet"

    return {cls.__name__: cls for cls in (Point, Named, Keyed, Version, Mutable, Itself, Quiet)}


STANDARD, LIGHT = classes(dataclasses), classes(light)
SAID: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "defaults": lambda c, m: vars(c["Point"](1)),
    "by name": lambda c, m: vars(c["Named"](1, name="n", y=3)),
    "fields of a base come first": lambda c, m: [f.name for f in m.fields(c["Named"])],
    "fields of an instance": lambda c, m: [f.name for f in m.fields(c["Point"](1))],
    "metadata": lambda c, m: [dict(f.metadata) for f in m.fields(c["Named"])],
    "required": lambda c, m: [f.default is m.MISSING for f in m.fields(c["Point"])],
    "factory": lambda c, m: [f.default_factory is m.MISSING for f in m.fields(c["Point"])],
    "class variable": lambda c, m: c["Point"].kind,
    "one list each": lambda c, m: c["Point"](1).seen is c["Point"](1).seen,
    "equal": lambda c, m: c["Point"](1) == c["Point"](1, 2),
    "not compared": lambda c, m: c["Point"](1, 2, ["a"]) == c["Point"](1),
    "not equal": lambda c, m: c["Point"](1) == c["Point"](2),
    "other class": lambda c, m: c["Point"](1) == c["Named"](1),
    "hash": lambda c, m: len({c["Version"](1), c["Version"](1, 0), c["Version"](2)}),
    "no hash when mutable": lambda c, m: c["Mutable"].__hash__,
    "eq=False": lambda c, m: c["Itself"](1) == c["Itself"](1),
    "order": lambda c, m: [str(v.major) for v in sorted(map(c["Version"], (3, 1, 2)))],
    "order, all four": lambda c, m: [
        getattr(c["Version"](1), f"__{op}__")(c["Version"](1)) for op in ("lt", "le", "gt", "ge")
    ],
    "repr": lambda c, m: repr(c["Named"](1, name="n")).rpartition(".")[2],
    "own repr": lambda c, m: repr(c["Quiet"](1)),
    "replace": lambda c, m: vars(m.replace(c["Named"](1, name="n"), y=5)),
    "replace, not in init": lambda c, m: vars(m.replace(c["Keyed"](x=1), x=2)),
    "asdict": lambda c, m: m.asdict(c["Mutable"](1, {"a": [c["Version"](1)], "b": (c["Point"](3),)})),
    "deep copy": lambda c, m: vars(copy.deepcopy(c["Point"](1, seen=["a"]))),
    "assignment": lambda c, m: (item := c["Mutable"](1), setattr(item, "x", 4), item.x)[2],
}
WRONG: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "missing": lambda c, m: c["Point"](),
    "too many": lambda c, m: c["Version"](1, 2, 3),
    "unknown": lambda c, m: c["Point"](1, z=3),
    "twice": lambda c, m: c["Point"](1, x=3),
    "positional": lambda c, m: c["Keyed"](1),
    "not in init": lambda c, m: c["Keyed"](x=1, cache={}),
    "frozen": lambda c, m: setattr(c["Point"](1), "x", 2),
    "frozen, unknown": lambda c, m: setattr(c["Point"](1), "z", 2),
    "frozen, deleted": lambda c, m: delattr(c["Point"](1), "x"),
    "order of others": lambda c, m: c["Version"](1) < c["Point"](1),
    "hash of mutable": lambda c, m: hash(c["Mutable"](1)),
    "replace, unknown": lambda c, m: m.replace(c["Point"](1), z=1),
}


@pytest.mark.parametrize("say", SAID.values(), ids=SAID)
def test_same_answers(say: Callable[[dict[str, Any], Any], Any]) -> None:
    assert say(LIGHT, light) == say(STANDARD, dataclasses)


@pytest.mark.parametrize("do", WRONG.values(), ids=WRONG)
def test_same_refusals(do: Callable[[dict[str, Any], Any], Any]) -> None:
    with pytest.raises((TypeError, AttributeError)) as standard:
        do(STANDARD, dataclasses)
    with pytest.raises((TypeError, AttributeError)) as ours:
        do(LIGHT, light)
    assert issubclass(standard.type, ours.type)


def test_what_a_wrong_call_is_told() -> None:
    with pytest.raises(TypeError, match=r"Point\(x, y, seen\) got 1 values and \['z'\]"):
        LIGHT["Point"](1, z=3)


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        ("follow.tick", "dataclasses inspect subprocess http.client"),
        ("drift.check", "dataclasses inspect http.client urllib.request"),
        ("commands.node", "dataclasses inspect http.client urllib.request concurrent.futures"),
    ],
)
def test_what_a_poll_a_drift_check_and_a_join_do_not_import(module: str, slow: str) -> None:
    """dataclasses and inspect alone were a quarter of what a poll costs."""
    code = (
        f"import sys; sys.path.insert(0, {str(NODE.parent)!r}); import node.{module}; "
        f"print(*sorted(set({slow.split()!r}) & set(sys.modules)))"
    )
    argv = [sys.executable, "-I", "-S", "-c", code]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split() == []
