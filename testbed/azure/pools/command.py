# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m testbed pool: in place of `az aks nodepool` and `az aks machine`."""

from __future__ import annotations

import argparse
from typing import Any

from testbed.azure.pools.client import POOL, PoolOperator
from testbed.basics.progress import say


def add_to(commands: Any) -> None:
    """Declare the command and its options."""
    pool = commands.add_parser("pool", help="FlexNodes pools in the emulated Azure")
    pool.add_argument("--pool", default=POOL, help="name of the pool (default: %(default)s)")
    verbs = pool.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = verbs.add_parser("add", help="create the pool, if there is none")
    add.add_argument("--max-unavailable", default="1", metavar="N|N%%", help="for upgrades (default: 1)")
    verbs.add_parser("show", help="the pool and its machines")
    upgrade = verbs.add_parser("upgrade", help="take the pool and its machines to a version")
    upgrade.add_argument("version", metavar="VERSION")
    delete = verbs.add_parser("delete-machines", help="delete machines: their nodes leave")
    delete.add_argument("names", nargs="+", metavar="NAME")


def run(operator: PoolOperator, arguments: argparse.Namespace) -> int:
    """Carry out one verb, and show what there is then."""
    pool = arguments.pool
    if arguments.verb == "add":
        operator.ensure(pool, upgradeSettings={"maxUnavailable": arguments.max_unavailable})
    elif arguments.verb == "upgrade":
        operator.upgrade(arguments.version, pool)
    elif arguments.verb == "delete-machines":
        operator.delete_machines(*arguments.names, pool=pool)
    properties = operator.get(pool)["properties"]
    version, state = properties["orchestratorVersion"], properties["provisioningState"]
    say(f"{'pool ' + pool:28} {version:10} {state}")
    for name, machine in operator.machines(pool).items():
        goal = machine["properties"]["kubernetes"]
        say(f"{'machine ' + name:28} {goal['orchestratorVersion']:10} eTag {machine['properties']['eTag']}")
    return 0
