# SPDX-License-Identifier: GPL-3.0-or-later
"""How the emulated Azure behaves: what a test may change while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Settings:
    """The defaults are Azure's own, where it has them."""

    token_seconds: int = 3599
    """Lifetime of an Entra access token."""
    token_version: int = 1
    """Format of access tokens; both resources we know take version 1."""
    bootstrap_token_seconds: int = 86400
    """Lifetime of a bootstrap token and of the configUrl that contains it."""
    join_seconds: int = 60
    """How long after its first use a token still works, if the join does not end before."""
    rbac_delay: float = 0
    """Seconds until a role assignment has an effect."""
    disable_local_accounts: bool = False
    """The cluster refuses its admin credential."""
    operation_seconds: float = 0
    """How long writes take; with more than 0 they are answered as long-running operations."""
    page_size: int = 100
    """Items in one page of a list."""
    read_burst: int = 250
    """Throttling: how many reads a principal may have in store ..."""
    read_rate: float = 25
    """... and how many come back each second."""
    write_burst: int = 200
    write_rate: float = 10
    delete_burst: int = 200
    delete_rate: float = 10

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from JSON; a name or type that is not known is an error."""
        types = {field.name: type(field.default) for field in fields(cls)}
        for name, value in values.items():
            if name not in types:
                raise ValueError(f"setting {name!r} is unknown: there are {', '.join(types)}")
            number = types[name] in (int, float) and isinstance(value, int | float)
            if isinstance(value, bool) != (types[name] is bool) or not (number or types[name] is bool):
                raise ValueError(f"setting {name} is {value!r}: it takes {types[name].__name__}")
        return cls(**values)
