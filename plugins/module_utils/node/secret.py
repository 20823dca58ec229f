# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A type for secrets: they can be used, but not shown by accident."""

from __future__ import annotations

from typing import NoReturn

# The placeholder of a secret in a document that may be shown; the parser accepts it in place of any secret.
# Blobs and source.json hold it, and installed programs compare with it: it must not change.
REDACTED = "<minted at apply>"


class Secret:
    """A text that is shown nowhere unless `reveal()` is called."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        """Return the text; the only way to read it, easy to find in a review."""
        text: str = object.__getattribute__(self, "_text")
        return text

    @property
    def redacted(self) -> bool:
        """Whether this is only the placeholder of a secret."""
        return self.reveal() == REDACTED

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret is immutable")

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format("<secret>", spec)

    def __bool__(self) -> bool:
        return bool(self.reveal())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        from hmac import compare_digest  # pulls in OpenSSL, which most runs never need here

        mine, theirs = (text.reveal().encode("utf-8", "surrogatepass") for text in (self, other))
        return compare_digest(mine, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self.reveal()))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret can't be pickled")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self
