# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tunnel, looked at by every tick: a client that hangs is restarted; others reconnect by themselves.

What was seen last is remembered in memory, of the present boot only: SD cards wear out.
"""

from __future__ import annotations

import json
from typing import Any

from ..dataclass import asdict, dataclass, replace
from ..machine.host import Host
from ..machine.layout import KUBELET, RUN_DIR, UNIT_DIR, VPN
from ..machine.running import main_process
from ..net.tunnel import Tunnel, received_bytes, tunnel_of

SEEN = f"{RUN_DIR}/vpn.json"
UP, DOWN, SILENT = "up", "down", "silent"
# A kubelet renews its lease every ten seconds: a tunnel without any answer for this long is dead, also if
# nobody told the client. TCP alone would wait for a quarter of an hour.
DEAD = 120.0
HANGS = 60.0  # seconds without an answer of the client, or without any event while it is not connected
LONGEST = 1800.0  # between two restarts, however often they did not help


@dataclass(frozen=True)
class Seen:
    """What the last ticks saw. Times are the kernel's monotonic ones."""

    state: str = ""
    since: float = 0.0  # of this state
    event: int = 0  # time of the client's last event
    received: int = 0  # bytes
    grew: float = 0.0  # when there were more of them last
    restarted: float = 0.0
    pause: float = 0.0  # before another restart


@dataclass(frozen=True)
class Verdict:
    """What to remember, and what to do."""

    seen: Seen
    restart: str = ""  # why; empty: no
    news: str = ""  # what changed, in words; empty: nothing


def judge(tunnel: Tunnel | None, received: int, known: Seen, now: float, *, traffic: bool) -> Verdict:
    """Compare what is seen now with what was seen before. Pure.

    traffic: the kubelet runs, so that packets come through a tunnel that works.
    """
    state = SILENT if tunnel is None else UP if tunnel.connected else DOWN
    event = tunnel.last.time if tunnel else 0
    moved = state != known.state or (state == DOWN and event != known.event)
    seen = replace(known, state=state, event=event, since=now if moved else known.since, received=received)
    if received != known.received or state != UP or known.state != UP or not traffic:
        seen = replace(seen, grew=now)
    why = ""
    if state == SILENT and now - seen.since >= HANGS:
        why = "the VPN client does not answer"
    elif state == DOWN and now - seen.since >= HANGS:
        why = "the VPN client has stopped trying"
    elif state == UP and now - seen.grew >= DEAD:
        why = f"nothing has come through the tunnel for {now - seen.grew:.0f} s"
    if why and now - seen.restarted < seen.pause:
        why = ""
    if why:
        pause = min(max(seen.pause * 2, HANGS), LONGEST)
        seen = replace(seen, since=now, grew=now, restarted=now, pause=pause)
    elif state == UP and received > known.received:
        seen = replace(seen, pause=0.0)
    news = ""
    if known.state == UP and state != UP:
        news = f"the VPN tunnel is down: {tunnel.reason if tunnel else 'its client does not answer'}"
    elif known.state not in ("", UP) and state == UP:
        news = "the VPN tunnel is up again"
    return Verdict(seen, why, news)


def watch_tunnel(host: Host) -> Verdict | None:
    """Look at the tunnel, restart a client that hangs; None: this machine has no VPN."""
    if host.stat(f"{UNIT_DIR}/{VPN}").is_ != "file":
        return None
    known = Seen(**_known(host))
    traffic = main_process(host, KUBELET, "kubelet") != 0
    # Not by the clock: one that is set back would keep a client that hangs from being restarted.
    verdict = judge(tunnel_of(host), received_bytes(host), known, host.clock.monotonic(), traffic=traffic)
    if verdict.seen != known:
        host.make_directories(RUN_DIR, 0o700)
        host.write(SEEN, json.dumps(asdict(verdict.seen)).encode(), 0o600, durable=False)
    if verdict.restart:
        host.run(["systemctl", "restart", "--no-block", VPN], check=False)
    return verdict


def _known(host: Host) -> dict[str, Any]:
    """What was seen last; of another release, or damaged: nothing."""
    try:
        found = json.loads(host.text(SEEN) or "{}")
        return {name: found[name] for name in asdict(Seen()) if name in found}
    except (ValueError, TypeError):
        return {}
