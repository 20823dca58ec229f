# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mask secrets in a support bundle: those of the configuration, and all that looks like one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

MASK = "<secret>"
SHORTEST = 4  # characters: a shorter text would mask half of the bundle
# What is masked by its form. A group named `keep` stays.
FORMS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"),  # a bootstrap token
    re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}(\.[\w-]*)?"),  # a JSON web token
    re.compile(r"(?P<keep>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"(?P<keep>[?&](?:sig|sv|se|st|sp|sr|skoid|sktid|token|code)=)[^&\s\"'<>]+", re.IGNORECASE),
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^\s/@\"']+@"),  # user and password of a URL
    re.compile(
        r"(?P<keep>(?:client-key-data|client-certificate-data|access_?token|refresh_?token|id_?token|"
        r"client_?secret|password|passwd|secret|private_?key|api_?key)[\"']?\s*[:=]\s*[\"']?)"
        r"(?!<secret>)[^\s\"',}&]{4,}",
        re.IGNORECASE,
    ),
)


class Masking:
    """Masks texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in spellings(secret) if len(form) >= SHORTEST}
        # The longest first: one secret may be part of another.
        self._known = sorted(forms, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without its secrets."""
        for known in self._known:
            text = text.replace(known, MASK)
        for form in FORMS:
            text = form.sub(lambda found: f"{found.groupdict().get('keep') or ''}{MASK}", text)
        return text


def spellings(secret: str) -> Iterable[str]:
    """A secret as files and logs may spell it."""
    encoded = secret.encode()
    yield from (secret, quote(secret, safe=""), quote(secret), json.dumps(secret)[1:-1])
    yield from (base64.b64encode(encoded).decode(), base64.urlsafe_b64encode(encoded).decode().rstrip("="))
    for line in secret.splitlines():
        if len(line.strip()) >= 8:  # of a text with several lines a log quotes one
            yield line.strip()
