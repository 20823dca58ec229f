# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module flexnode_reconcile returns."""

from __future__ import annotations

from ..node.components.vpn.client import PROFILE, certificate_in
from ..node.errors import FlexNodeError
from ..node.machine.certificates import thumbprint
from ..node.operations.obtain import Obtained
from ..node.operations.outcome import Reconciled
from ..node.pull.install import is_pending


def result_of(run: Reconciled, obtained: Obtained, *, fetched: bool) -> dict[str, object]:
    """A run that succeeded. fetched: from a source, whose version is of interest."""
    return {
        "changed": run.changed,
        "actions": run.actions,
        "timings": run.timings,
        "outcome": run.outcome.kind,
        "settings": list(run.outcome.settings),
        "summary": run.summary,
        "drains": run.drains,
        "taints": run.taints,
        "diff": run.plan.diff,
        **({"vpn_certificate": _vpn_certificate(obtained)} if obtained.node.config.azure.vpn.enabled else {}),
        **({"config_version": obtained.version or ""} if fetched else {}),
        **(_of_node(run, obtained) if run.node else {}),
    }


def _of_node(run: Reconciled, obtained: Obtained) -> dict[str, object]:
    return {
        "node": run.node,
        "machine": obtained.node.identification,
        "pull_pending": is_pending(obtained),
    }


def _vpn_certificate(obtained: Obtained) -> str:
    """What the tunnel works with: a change of the profile restarts the client, and is proven."""
    return thumbprint(certificate_in(obtained.node.host.read(PROFILE) or b""))


def waiting(error: FlexNodeError) -> dict[str, object]:
    """A run of ansible-pull that waits for other nodes: no failure, the next one tries again."""
    line = " ".join(f"{error.code}: {error.what}{f': {error.why}' if error.why else ''}".split())
    return {
        "changed": False,
        "actions": [],
        "timings": {},
        "outcome": "waits",
        "settings": [],
        "summary": f"waits ({line})",
        "drains": False,
        "waits": line,
    }
