# SPDX-License-Identifier: GPL-3.0-or-later
"""What was tried on virtual machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scripts.checkout import ROOT
from scripts.docs.tables import code, rows


def tried() -> str:
    """What ran on machines with a kernel of their own, and whether all of it passed."""
    found = json.loads((ROOT / "docs" / "tried.json").read_text(encoding="utf-8"))
    return rows(
        (
            (
                f"{row['platform']} {row['arch']}",
                f"{row['kernel']}, cgroup {row['cgroup']}",
                row["kubernetes"],
                _acts(row["acts"]),
                ", ".join(map(code, sorted({done["commit"] for done in row["acts"].values()}))),
            )
            for _key, row in sorted(found.items())
        ),
        head=("virtual machine", "kernel", "kubelet", "seen", "commit"),
    )


def _acts(acts: Mapping[str, Mapping[str, Any]]) -> str:
    seconds = {act: done["seconds"] for act, done in acts.items()}
    cuts = [took for act, took in seconds.items() if act.startswith("power cut")]
    words = [
        f"**{act} failed**" if took is None else f"{act} ({took:.0f} s)"
        for act, took in seconds.items()
        if not act.startswith("power cut")
    ]
    if cuts:
        words.append(f"{len([took for took in cuts if took is not None])} of {len(cuts)} power cuts survived")
    return "; ".join(words)
