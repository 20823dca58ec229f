# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""General kinds: booleans, numbers, choices, lists, paths, secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from posixpath import normpath
from typing import Any, TypeVar

from ...dataclass import replace
from ...errors import Problem, shown
from ...secret import REDACTED, Secret
from .setting import Kind, Refused

T = TypeVar("T")


def kind(accepts: str, read: Callable[[object], T | None]) -> Kind[T]:
    """Return a Kind from a reader that returns None for what it does not accept."""

    def checked(raw: object) -> T:
        value = read(raw)
        if value is None:
            raise result.refuse(raw)
        return value

    result = Kind(accepts, checked)
    return result


def parsed(accepts: str, parse: Callable[[str], T]) -> Kind[T]:
    """Return a Kind from a parser of text that raises ValueError; its message becomes the hint."""

    def checked(raw: object) -> T:
        if not isinstance(raw, str):
            raise result.refuse(raw, "it must be in quotes" if isinstance(raw, (int, float)) else "")
        try:
            return parse(raw.strip())
        except ValueError as error:
            raise result.refuse(raw, str(error)) from None

    result = Kind(accepts, checked)
    return result


def matching(accepts: str, pattern: str, *, limit: int = 4096) -> Kind[str]:
    """Return a Kind of text that a pattern matches whole; compiled at first use, so importing stays cheap."""

    def read(raw: object) -> str | None:
        return raw if isinstance(raw, str) and len(raw) <= limit and re.fullmatch(pattern, raw) else None

    return kind(accepts, read)


def either(accepts: str, *kinds: Kind[T]) -> Kind[T]:
    """Return a Kind of values that one of several kinds accepts: the first one has priority."""

    def read(raw: object) -> T:
        hint = ""
        for one in kinds:
            try:
                return one.read(raw)
            except Refused as refused:
                hint = hint or refused.problems[0].hint
        raise result.refuse(raw, hint)

    result = Kind(accepts, read)
    return result


def _read_boolean(raw: object) -> bool | None:
    # Jinja passes booleans as text.
    words = {"true": True, "false": False}
    return raw if isinstance(raw, bool) else words.get(raw.strip().lower()) if isinstance(raw, str) else None


boolean = replace(kind("true or false", _read_boolean), fixed=True)
text = kind("text", lambda raw: raw if isinstance(raw, str) and raw.strip() else None)
line = matching("one line of text", r"[^\x00-\x1f\x7f]+")


def integer(low: int, high: int) -> Kind[int]:
    """Return a Kind of whole numbers; quoted digits are accepted, because Jinja produces them."""

    def read(raw: object) -> int | None:
        if isinstance(raw, str) and re.fullmatch(r"\d{1,9}", raw.strip()):
            raw = int(raw)
        return raw if isinstance(raw, int) and not isinstance(raw, bool) and low <= raw <= high else None

    return kind(f"a whole number, {low} to {high}", read)


def choice(*options: str, false: str = "") -> Kind[str]:
    """Return a Kind of fixed words; `false` is the word that YAML 1.1 turns into a boolean (off)."""

    def read(raw: object) -> str | None:
        if raw is False and false:
            return false
        folded = {option.lower(): option for option in options}
        return folded.get(raw.lower()) if isinstance(raw, str) else None

    return replace(kind(" | ".join(options), read), fixed=True)


def _read_path(raw: object) -> str | None:
    usable = isinstance(raw, str) and re.fullmatch(r"/[^\x00-\x1f\x7f]*", raw) and ".." not in raw.split("/")
    clean = "/" + normpath(str(raw)).lstrip("/") if usable else "/"
    return None if clean == "/" else clean


absolute_path = kind("an absolute path below /, without ..", _read_path)

# Paths end up in units, TOML and command lines, which all quote differently.
_PLAIN_PATH = r"(/[A-Za-z0-9._+-]+)+"
# Of other owners as a whole, or emptied at boot.
_NEVER = r"/(bin|boot|dev|home|lib\w*|lost\+found|proc|root|run|sbin|snap|sys|tmp|var/run|var/tmp)(/.*)?"
# In these everything has an owner. A list of them would never be complete, so a name has to say that this
# directory is for Kubernetes or this collection: unbootstrap removes what is added to it.
_SYSTEM = frozenset(("etc", "usr", "var"))
_OUR_NAMES = r"kube|k8s|cni|flex"


def _read_log_directory(raw: object) -> str | None:
    clean = _read_path(raw)
    if clean is None or not re.fullmatch(_PLAIN_PATH, clean) or re.fullmatch(_NEVER, clean):
        return None
    return None if clean.count("/") < 2 or clean == "/var/log" else clean


def _read_own_directory(raw: object) -> str | None:
    clean = _read_log_directory(raw)
    if clean is None:
        return None
    is_named = clean.split("/")[1] not in _SYSTEM or re.search(_OUR_NAMES, clean)
    return clean if is_named else None


_DEDICATED = "a dedicated directory: an absolute path of letters, digits and . _ + -, two levels deep"
log_directory = kind(f"{_DEDICATED}, not in /home, /root, /run, /tmp", _read_log_directory)


def _read_log_path(raw: object) -> str | None:
    clean = _read_path(raw)
    return clean if clean and _read_log_directory(clean.rpartition("/")[0]) else None


log_path = kind(f"a file in {_DEDICATED}, not in /home, /root, /run, /tmp", _read_log_path)
own_directory = kind(
    f"{_DEDICATED}, not in /home, /root, /run, /tmp, used by nothing else (unbootstrap empties it); "
    "in /etc, /usr and /var with kube, k8s, cni or flex in a name",
    _read_own_directory,
)


def list_of(item: Kind[T], *, commas: bool = False) -> Kind[tuple[T, ...]]:
    """Return a Kind of lists; every bad item is reported. `commas`: accept text with commas as a list."""

    def read(raw: object) -> tuple[T, ...]:
        if commas and isinstance(raw, str):
            raw = [part.strip() for part in raw.split(",") if part.strip()]
        if not isinstance(raw, (list, tuple)):
            raise result.refuse(raw)
        values: list[T] = []
        problems: list[Problem] = []
        for index, part in enumerate(raw):
            try:
                values.append(item.read(part))
            except Refused as refused:
                problems += refused.under(f"[{index}]")
        if problems:
            raise Refused(*problems)
        return tuple(values)

    result = Kind(f"a list; each item: {item.accepts}", read)
    return result


def map_of(accepts: str, value: Kind[T], *, name: Kind[str] = line) -> Kind[Mapping[str, T]]:
    """Return a Kind of free mappings, sorted by key; every bad key and value is reported."""

    def read(raw: object) -> Mapping[str, T]:
        if not isinstance(raw, Mapping):
            raise result.refuse(raw)
        values: dict[str, T] = {}
        problems: list[Problem] = []
        for key, item in sorted(raw.items(), key=lambda pair: str(pair[0])):
            try:
                values[name.read(key)] = value.read(item)
            except Refused as refused:
                problems += refused.under(f"[{shown(key)}]")
        if problems:
            raise Refused(*problems)
        return values

    result = Kind(accepts, read)
    return result


def _read_free(raw: object) -> Mapping[str, Any] | None:
    return dict(raw) if isinstance(raw, Mapping) and all(isinstance(key, str) for key in raw) else None


def texts_in(raw: object) -> tuple[str, ...]:
    """Return every text inside a raw value."""
    if isinstance(raw, Mapping):
        return tuple(found for item in raw.values() for found in texts_in(item))
    if isinstance(raw, (list, tuple)):
        return tuple(found for item in raw for found in texts_in(item))
    return () if raw in (None, "", REDACTED) or isinstance(raw, bool) else (str(raw),)


def kubelet_credentials(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings of the kubelet that hold some: headers, and a URL with a user or a query."""
    url, headers = "staticPodURL", "staticPodURLHeader"
    is_secret = any(re.search("[@?]", text) for text in texts_in(settings.get(url)))
    return ((url,) if is_secret else ()) + ((headers,) if headers in settings else ())


def _kubelet_secrets(raw: object) -> tuple[str, ...]:
    if not isinstance(raw, Mapping):
        return ()
    return tuple(text for name in kubelet_credentials(raw) for text in texts_in(raw[name]))


kubelet_settings = replace(kind("a mapping", _read_free), secrets=_kubelet_secrets)


def secret(inner: Kind[str], find: Callable[[object], tuple[str, ...]] = texts_in) -> Kind[Secret]:
    """Return the Kind of a text that must not be shown; the placeholder of a redacted one is accepted."""

    def read(raw: object) -> Secret:
        if raw == REDACTED:
            return Secret(REDACTED)
        try:
            return Secret(inner.read(raw))
        except Refused as refused:
            # The inner kind may quote the value: keep only its advice.
            raise result.refuse(raw, refused.problems[0].hint) from None

    result = Kind(inner.accepts, read, find, sensitive=True)
    return result
