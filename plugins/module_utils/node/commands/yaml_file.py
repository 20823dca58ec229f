# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration files as users write them: JSON always, YAML where this machine has a parser for it."""

from __future__ import annotations

from typing import Any

from ..config.document import loads
from ..config.types.setting import spelled
from ..errors import NotJson

CONVERT = "python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)'"
NO_PARSER = (
    "install the parser (apt-get install python3-yaml), or convert the file on a machine that has one: "
    f"{CONVERT} < config.yaml > config.json"
)


def read_document(text: str, where: str) -> dict[str, Any]:
    """The document of a file, or of standard input."""
    return from_yaml(text, where) if is_yaml(text, where) else loads(text, where=where)


def is_yaml(text: str, where: str) -> bool:
    """By the name of the file; others are JSON if they begin with a brace, as every JSON document does."""
    if where.endswith((".yaml", ".yml")):
        return True
    return not where.endswith(".json") and not text.lstrip().startswith(("{", "[", "/", "<"))


def from_yaml(text: str, where: str) -> dict[str, Any]:
    """Read YAML strictly: no duplicate keys, no objects; errors name line and column."""
    try:
        import yaml  # python3-yaml: most server images have it, and nothing else here needs it
    except ImportError:
        raise NotJson(
            "it is YAML, and this machine has no YAML parser for Python", where=where, fix=NO_PARSER
        ) from None

    class Strict(yaml.SafeLoader):
        """Refuses what SafeLoader overlooks."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _value in node.value]
            for number, key in enumerate(keys):
                if key in keys[:number]:
                    raise yaml.constructor.ConstructorError(
                        problem=f"the key {key!r} is in one mapping twice",
                        problem_mark=node.value[number][0].start_mark,
                    )
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    try:
        document = yaml.load(text, Loader=Strict)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", "") or "it can't be read as YAML")
        raise not_yaml(problem, where, *((mark.line + 1, mark.column + 1) if mark else (0, 0))) from None
    if not isinstance(document, dict):
        raise not_yaml("it is not a mapping", where, 1, 1)
    return {spelled(key): plain(value) for key, value in document.items()}


def plain(value: Any) -> Any:
    """The same with keys as JSON would spell them: YAML makes a boolean of an unquoted `no`."""
    if isinstance(value, dict):
        return {spelled(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def not_yaml(why: str, where: str, line: int, column: int) -> NotJson:
    """The same error as for JSON, in words that fit the file."""
    error = NotJson(why, line=line, column=column, where=where)
    error.what = "the configuration is not YAML"
    return error
