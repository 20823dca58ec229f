# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An access token as a module returns it."""

from __future__ import annotations

import time

from ...node.machine.clock import Clock
from .arm import Json
from .login import Login, claims_of

DEFAULT = "/.default"


def scope_of(audience: str) -> str:
    """The scope of an audience: all permissions of the caller there."""
    return audience if audience.endswith(DEFAULT) else f"{audience.rstrip('/')}{DEFAULT}"


def access_token(login: Login, audience: str, clock: Clock) -> Json:
    """A token with its claims; it is a secret."""
    scope = scope_of(audience) if audience else login.endpoints.scope
    token, ends = login.lasting_token(scope)
    claims = claims_of(token)
    return {
        "access_token": token,
        "audience": scope.removesuffix(DEFAULT),
        "expires": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends)),
        "expires_in": max(int(ends - clock.now()), 0),
        "tenant_id": str(claims.get("tid") or login.settings.tenant),
        "object_id": str(claims.get("oid") or ""),
    }
