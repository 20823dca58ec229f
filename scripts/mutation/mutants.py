# SPDX-License-Identifier: GPL-3.0-or-later
"""Small changes of code, by the operators of cosmic-ray; runs by itself, in an environment that has it.

`list FILE...` prints every change that is possible; `make` reads a list of them and prints the changed files.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

# `A | B` is a type nearly everywhere, decorators are dataclasses: such a change breaks the import, any test
# would notice it, and the score would say less. `==` and `is` are the same for most of what is compared: no
# test can notice that.
LEFT_OUT = re.compile(
    "core/(ReplaceBinaryOperator_BitOr_.*|RemoveDecorator"
    "|ReplaceComparisonOperator_(Eq_Is|NotEq_IsNot|Is_Eq|IsNot_NotEq))"
)


def possible(file: str) -> Iterator[dict[str, Any]]:
    """Every change of one file, with its place."""
    nodes = list(ast_nodes(get_ast_from_path(Path(file))))
    for name in sorted(operator_names()):
        operator = get_operator(name)
        if LEFT_OUT.fullmatch(name) or operator.arguments():
            continue
        made = operator()
        places = (place for node in nodes for place in made.mutation_positions(node))
        for occurrence, (start, _end) in enumerate(places):
            yield {
                "file": file,
                "operator": name,
                "occurrence": occurrence,
                "line": start[0],
                "column": start[1],
            }


def changed(mutant: dict[str, Any]) -> str:
    """The file with this change."""
    operator = get_operator(mutant["operator"])()
    text = mutate_code(Path(mutant["file"]).read_text(encoding="utf-8"), operator, mutant["occurrence"])
    return str(text)


def main(arguments: list[str]) -> None:
    act, *files = arguments
    if act == "list":
        json.dump([mutant for file in files for mutant in possible(file)], sys.stdout)
    else:
        json.dump([changed(mutant) for mutant in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
