# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do the same work for many nodes in a few threads, and report all failures together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..node.errors import FlexNodeError

AT_ONCE = 8
T = TypeVar("T")
R = TypeVar("R")


class NodesFailed(Exception):
    """Several nodes failed for different reasons. Code and cause are those of the first."""

    def __init__(self, errors: Mapping[str, FlexNodeError]) -> None:
        super().__init__(*errors.values())
        self.errors = errors

    def __str__(self) -> str:
        return "\n".join(f"{name}: {error}" for name, error in self.errors.items())

    def as_result(self) -> dict[str, Any]:
        """The code of the first, and that of each by the name of its node."""
        first = next(iter(self.errors.values()))
        return {
            **first.as_result(),
            "nodes": {name: error.as_result() for name, error in self.errors.items()},
        }


FAILURES = (FlexNodeError, NodesFailed)


def each(work: Callable[[T], R], items: Sequence[T]) -> list[R | FlexNodeError]:
    """Call `work` for every item, a few at a time. Where it failed, the error stands for the result."""
    if not items:
        return []
    done: list[R | FlexNodeError] = []
    with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(items))) as pool:
        for future in [pool.submit(work, item) for item in items]:
            try:
                done.append(future.result())
            except FlexNodeError as error:
                done.append(error)
    return done


def in_parallel(work: Callable[[T], R], items: Sequence[T], name: Callable[[T], str]) -> list[R]:
    """Call `work` for every item, a few at a time. All are tried, then all failures are raised together."""
    done: list[R] = []
    errors: dict[str, FlexNodeError] = {}
    for item, found in zip(items, each(work, items), strict=True):
        if isinstance(found, FlexNodeError):
            errors[name(item)] = found
        else:
            done.append(found)
    if errors:
        # One cause for all items (a missing role, no network) is one error.
        distinct = {str(error): error for error in errors.values()}
        raise next(iter(distinct.values())) if len(distinct) == 1 else NodesFailed(errors)
    return done
