# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can only be reported: certificates that are not renewed, and unit drop-ins of other owners."""

from __future__ import annotations

import base64
import calendar
import re
import time
from collections.abc import Collection, Iterator

from ..machine.facts import UNIT_DIRS
from ..machine.host import Host
from .record import REPORT, Finding

# The validity of a certificate: two times, UTCTime (two digits of the year) or GeneralizedTime.
VALIDITY = re.compile(rb"(?:\x17\x0d|\x18\x0f)(\d{12,14})Z(?:\x17\x0d|\x18\x0f)(\d{12,14})Z")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
# A kubelet renews its certificate when 70 to 90 % of its lifetime are over.
LAST_PART = 0.1
DAY = 86400.0
CA_DAYS = 30.0  # a CA is renewed by its owner, who needs time


def validity(pem: str) -> tuple[float, float] | None:
    """Begin and end of the first certificate, in seconds since the epoch; None: there is none."""
    found = CERTIFICATE.search(pem)
    try:
        times = VALIDITY.search(base64.b64decode(found[1])) if found else None
    except ValueError:
        times = None
    return (_seconds(times[1].decode()), _seconds(times[2].decode())) if times else None


def _seconds(text: str) -> float:
    """A time of a certificate. Two digits mean 1950 to 2049."""
    if len(text) == 12:
        text = ("19" if text[0] >= "5" else "20") + text
    return calendar.timegm(time.strptime(text, "%Y%m%d%H%M%S"))


def certificates(host: Host, client: str, ca: str, now: float) -> Iterator[Finding]:
    """Certificates near their end: the kubelet's own, which it should have renewed, and the cluster's CA.

    client: the kubelet's certificate; empty: it has none, it uses tokens.
    """
    if client and (times := validity(host.text(client))):
        begin, end = times
        if end - now < (end - begin) * LAST_PART:
            what = f"the kubelet's certificate {_ends(end, now)}, and was not renewed: journalctl -u kubelet"
            yield Finding(f"certificate:{client}", REPORT, what)
    if (times := validity(host.text(ca))) and times[1] - now < CA_DAYS * DAY:
        what = f"the cluster's CA {_ends(times[1], now)}: rotate it, then update node.kubelet.caCertData"
        yield Finding(f"certificate:{ca}", REPORT, what)


def _ends(end: float, now: float) -> str:
    return (
        f"{'expired' if end <= now else 'expires'} at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(end))}"
    )


def drop_ins(host: Host, units: Collection[str], ours: Collection[str]) -> Iterator[Finding]:
    """Drop-ins of our units that this collection did not write: they change what runs, and stay."""
    for directory in dict.fromkeys(UNIT_DIRS):
        if directory.startswith("/lib/") and host.stat("/lib").is_ == "link":
            continue  # the same directory as below /usr
        for unit in units:
            for name in host.names(f"{directory}/{unit}.d"):
                path = f"{directory}/{unit}.d/{name}"
                if name.endswith(".conf") and path not in ours:
                    what = f"{path} of another owner changes {unit}"
                    yield Finding(f"drop-in:{path}", REPORT, what)
