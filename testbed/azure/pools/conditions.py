# SPDX-License-Identifier: GPL-3.0-or-later
"""If-Match and If-None-Match: a write only where the caller knows what it replaces."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.azure.pools.refusals import refuse

ABSENT = (
    "Resource not found but ETag header is provided. If this is a request to create, please do not provide "
    "ETag."
)


def _tags(header: str) -> list[str]:
    """The eTags of a header: quoted, as the SDK sends them, or bare."""
    return [one.strip().removeprefix("W/").strip('"') for one in header.split(",")]


def check(headers: Mapping[str, str], etag: str | None) -> None:
    """Refuse a write whose condition does not hold; etag is None where there is nothing yet."""
    if wanted := headers.get("if-match"):
        if etag is None:
            raise refuse("precondition", ABSENT)
        if etag not in _tags(wanted) and "*" not in _tags(wanted):
            raise refuse(
                "precondition",
                f"Etag provided in if-match header {wanted} does not match etag {etag} of resource.",
            )
    unwanted = headers.get("if-none-match")
    if unwanted and etag is not None and ("*" in _tags(unwanted) or etag in _tags(unwanted)):
        raise refuse("precondition", f"Resource exists with etag {etag}, if-none-match is {unwanted}.")
