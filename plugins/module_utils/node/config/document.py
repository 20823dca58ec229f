# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documents as data: read, unwrap, merge, compare, redact and restore secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..errors import UNKNOWN_KEY, ConfigInvalid, NotJson, Problem
from ..secret import REDACTED
from .model import NodeConfig
from .types.setting import Refused, Section, Setting, members, spelled

Document = Mapping[str, Any]


def loads(text: str | bytes, *, where: str = "document") -> dict[str, Any]:
    """Read JSON strictly: no comments, no duplicate keys, no NaN, no halves of characters.

    Errors name line and column.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            keys = [key for key, _value in pairs]
            raise _Duplicate(next(key for key in keys if keys.count(key) > 1))
        return found

    def constant(name: str) -> NoReturn:
        raise NotJson(f"{name} is not a JSON value", where=where)

    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise NotJson(f"byte {error.start} is not UTF-8", where=where) from None
    try:
        document = json.loads(decoded, object_pairs_hook=unique, parse_constant=constant)
        if not decoded.isascii() or "\\u" in decoded:
            json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # no file and no terminal can take it
        half = f"\\u{ord(error.object[error.start]):04x}"
        lines = [str(n) for n, line in enumerate(decoded.splitlines(), 1) if half in line.lower()]
        raise NotJson(
            f"{half} is half of a character: its other half is missing",
            where=f"{where}, one of the lines {', '.join(lines)}" if lines else where,
            fix="write the character itself, in UTF-8",
        ) from None
    except _Duplicate as duplicate:
        key = duplicate.args[0]
        lines = [str(n) for n, line in enumerate(decoded.splitlines(), 1) if json.dumps(key) in line]
        raise NotJson(
            f"the key {key!r} is in one mapping twice",
            where=f"{where}, one of the lines {', '.join(lines)}" if lines else where,
            fix="keep one of them",
        ) from None
    except json.JSONDecodeError as error:
        comment = decoded[error.pos : error.pos + 2].startswith(("//", "/*", "#"))
        why = "JSON has no comments" if comment else error.msg
        fix = "remove the comment, or use the file on the controller as YAML" if comment else ""
        raise NotJson(why, line=error.lineno, column=error.colno, where=where, fix=fix) from None
    except RecursionError:
        raise NotJson("it is nested too deeply", where=where) from None
    except ValueError:  # Python refuses to read it: that takes long
        raise NotJson("a number in it has thousands of digits", where=where) from None
    if not isinstance(document, dict):
        raise NotJson("it is not a mapping", line=1, column=1, where=where)
    return document


class _Duplicate(ValueError):
    """A duplicate key; the decoder does not know the line."""


def unwrap(bundle: Document) -> tuple[dict[str, Any], str | None]:
    """Return (document, configVersion) of a bundle, or of a bare document, which has no version."""
    if "config" not in bundle:
        return dict(bundle), None
    unknown = [key for key in bundle if key not in ("config", "configVersion")]
    problems = [Problem(key, UNKNOWN_KEY, "config, configVersion") for key in unknown]
    document, version = bundle["config"], bundle.get("configVersion")
    if not isinstance(document, Mapping):
        problems.append(Problem("config", f"a {type(document).__name__}", "a mapping"))
    if version is not None and (
        isinstance(version, bool) or not isinstance(version, (str, int)) or version == ""
    ):
        problems.append(Problem("configVersion", f"a {type(version).__name__}", "unix seconds, as text"))
    if problems:
        raise ConfigInvalid(problems)
    return dict(document), None if version is None else str(version)


def merge(base: Document, over: Document) -> dict[str, Any]:
    """Return `base` with `over` on top: mappings merge, other values replace, null removes a key.

    Other spellings of a field are the same field: over's `autoRegister` replaces base's `enabled`.
    """
    return _merged(_merged({}, _respelled(NodeConfig, base)), _respelled(NodeConfig, over))


def canonical(document: Document) -> str:
    """Return the canonical text of a document, for comparing: sorted keys, one spelling, no nulls."""
    plain = _merged({}, _respelled(NodeConfig, document))
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def config_version(document: Document) -> str:
    """Return a version computed from the content, for sources without versions."""
    from hashlib import sha256

    return f"sha256-{sha256(canonical(document).encode()).hexdigest()[:16]}"


def as_read(document: Document) -> dict[str, Any]:
    """Return the document with each choice and boolean as the node reads it; what it refuses stays as it is.

    Whoever looks into a document need not know then that `Bridge` is bridge, and the text "false" is false.
    """

    def read(setting: Setting | None, value: Any) -> Any:
        if setting is None or not setting.kind.fixed:
            return value
        try:
            return setting.kind.read(value)
        except Refused:
            return value

    return _mapped(NodeConfig, document, read)


def misshapen(document: Document) -> list[tuple[str, Any]]:
    """Return the sections of a document that are no mappings, with their paths."""
    return _misshapen(NodeConfig, document, "")


def _misshapen(model: type[Any], raw: Document, path: str) -> list[tuple[str, Any]]:
    specs = _specs(model)
    found: list[tuple[str, Any]] = []
    for key, value in raw.items():
        spec = specs.get(spelled(key))
        if not isinstance(spec, Section) or value is None:  # a null removes a section
            continue
        here = f"{path}{spec.key}"
        found += _misshapen(spec.model, value, f"{here}.") if isinstance(value, Mapping) else [(here, value)]
    return found


def redact(document: Document) -> dict[str, Any]:
    """Return the document as it may be shown: secrets and unknown fields are replaced."""

    def redacted(setting: Setting | None, value: Any) -> Any:
        if setting and not setting.kind.sensitive and isinstance(value, Mapping):
            hidden = {key: REDACTED for key in value if setting.kind.secrets({key: value[key]})}
            return {**value, **hidden}
        return REDACTED if setting is None or setting.kind.secrets(value) else value

    return _mapped(NodeConfig, document, redacted)


def secrets_of(document: Document) -> list[str]:
    """Return every secret text in the document, for no_log."""
    found: set[str] = set()

    def note(setting: Setting | None, value: Any) -> Any:
        found.update(setting.kind.secrets(value) if setting else ())

    _mapped(NodeConfig, document, note)
    return sorted(found)


def placeholders(document: Document) -> list[str]:
    """Return the paths that have a placeholder instead of a secret."""
    found: list[str] = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            found += (f"{key}.{path}" for path in placeholders(value))
        elif REDACTED in str(value):
            found.append(key)
    return found


def layered(over: Document, more: Document) -> dict[str, Any]:
    """Return overrides with more of them on top; a null is kept, as it still has to remove a key."""
    result = _respelled(NodeConfig, over)
    for key, value in _respelled(NodeConfig, more).items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = layered(below, value)
        result[key] = value
    return result


def beyond(over: Document, document: Document) -> dict[str, Any]:
    """Return the overrides that differ from a document, which then need not be repeated."""
    return _beyond(NodeConfig, _respelled(NodeConfig, over), _respelled(NodeConfig, document))


def _beyond(model: type[Any], over: Document, document: Document) -> dict[str, Any]:
    specs, result = _specs(model), {}
    for key, value in over.items():
        spec, other = specs.get(key), document.get(key)
        if isinstance(spec, Section) and isinstance(value, Mapping) and isinstance(other, Mapping):
            if below := _beyond(spec.model, value, other):
                result[key] = below
        elif value != other and not _same(spec, value, other):
            result[key] = value
    return result


def _same(spec: Setting | Section | None, value: Any, other: Any) -> bool:
    """Whether two values mean the same, such as a version with and without a `v`."""
    if not isinstance(spec, Setting) or value is None or other is None:
        return False
    try:
        return bool(spec.kind.read(value) == spec.kind.read(other))
    except Refused:
        return False


def restore_secrets(document: Document, stored: Document) -> dict[str, Any]:
    """Return a redacted document with the secrets of a stored one."""
    return _restored(_respelled(NodeConfig, document), _respelled(NodeConfig, stored))


def carry_secrets(document: Document, stored: Document) -> dict[str, Any]:
    """Return a document of a source that omits secrets (the resource provider) with those of a stored one.

    A secret is added where its section still exists, or where the section had nothing else (a token).
    """
    fresh = _respelled(NodeConfig, document)
    return restore_secrets(_carried(NodeConfig, fresh, _respelled(NodeConfig, stored)), stored)


def _carried(model: type[Any], fresh: Document, stored: Document) -> dict[str, Any]:
    result = dict(fresh)
    for key, spec in _specs(model).items():
        kept = stored.get(key)
        if isinstance(spec, Setting):
            # Only fields that are always secret are omitted, not a URL that contains a password; and a
            # secret that is now read from a file is not added inline.
            if (
                kept is not None
                and key not in fresh
                and f"{key}File" not in fresh
                and spec.kind.secrets("any")
            ):
                result[key] = kept
        elif isinstance(kept, Mapping):
            secrets = _carried(spec.model, {}, kept)
            if isinstance(fresh.get(key), Mapping):
                result[key] = _carried(spec.model, fresh[key], kept)
            elif spec.optional and key not in fresh and secrets and secrets == kept:
                result[key] = secrets
    return result


def _mapped(model: type[Any], raw: Document, change: Callable[[Setting | None, Any], Any]) -> dict[str, Any]:
    """Rebuild a document, passing each value with its setting (None: unknown) through `change`."""
    specs = _specs(model)
    rebuilt: dict[str, Any] = {}
    for key, value in raw.items():
        spec = specs.get(spelled(key))
        if value is None:
            rebuilt[key] = None
        elif isinstance(spec, Section) and isinstance(value, Mapping):
            rebuilt[key] = _mapped(spec.model, value, change)
        else:
            rebuilt[key] = change(spec if isinstance(spec, Setting) else None, value)
    return rebuilt


def _specs(model: type[Any]) -> dict[str, Setting | Section]:
    """Return the declarations of a section by all their spellings."""
    return {
        key: spec
        for _attribute, spec in members(model)
        for key in (spec.keys if isinstance(spec, Setting) else (spec.key,))
    }


def _respelled(model: type[Any], raw: Document) -> dict[str, Any]:
    """Return a document in canonical spelling; a field set twice is kept, for the parser to refuse."""
    specs = _specs(model)
    rebuilt: dict[str, Any] = {}
    for raw_key, value in raw.items():
        key = spelled(raw_key)
        spec = specs.get(key)
        if isinstance(spec, Section) and isinstance(value, Mapping):
            rebuilt[key] = _respelled(spec.model, value)
        elif (
            isinstance(spec, Setting) and spec.key not in raw and sum(name in raw for name in spec.keys) == 1
        ):
            rebuilt[spec.key] = value
        else:
            rebuilt[key] = value
    return rebuilt


def _merged(base: Document, over: Document) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = _merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def _restored(document: Document, stored: Document) -> dict[str, Any]:
    result = dict(document)
    for key, value in document.items():
        if value == REDACTED and key in stored:
            result[key] = stored[key]
        elif isinstance(value, Mapping) and isinstance(stored.get(key), Mapping):
            result[key] = _restored(value, stored[key])
    return result
