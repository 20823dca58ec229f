# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands about the node: join, plan, preflight, poll, unbootstrap."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..config.model import NodeConfig
from ..engine.lease import held, new_operation
from ..engine.records.left import forget_left
from ..engine.records.state import store_of
from ..engine.run_log import recorded
from ..errors import ConfigMissing, NotInCatalogue, PreflightFailed, counted
from ..machine.host import Host
from ..machine.program import COMMAND
from ..operations.obtain import obtain, stored_config
from ..operations.outcome import Reconciled, run_log_of, taint_warnings
from ..operations.reconcile import EVERYTHING, reconcile
from ..secret import Secret
from ..sources.source import Refused, Source, Stored
from ..sources.watched import Watched
from .output import Say, complain, progress, show
from .source import has_source, named_source, origin_of

UNKNOWN_YET = "artifact-unknown"  # the check of versions, which a pool names when it is asked


def join(options: argparse.Namespace, host: Host) -> int:
    """Fetch the configuration and apply it, until the Node is Ready."""
    if not options.pool:
        return apply(options, host, named_source(options, host))
    from .pool import pool_settings, pool_source  # most machines belong to no pool

    say = progress(host)
    settings, config = pool_settings(options, host)
    # Before the pool is asked: that creates a machine in Azure. The versions are not known yet.
    check_machine(host, config, [*options.skip, UNKNOWN_YET], say)
    return apply(options, host, pool_source(settings, config, host, say), settings)


def update(options: argparse.Namespace, host: Host) -> int:
    """Apply a new configuration to a joined node; without one the stored one, or what was rolled back."""
    store = store_of(host)
    if store.applied_if_intact() is None:
        raise ConfigMissing(
            "this machine is not a node yet", where=store.directory, fix=f"{COMMAND} join --config FILE"
        )
    stored = Refused(store) if options.retry else Stored(store)
    return apply(options, host, named_source(options, host) if has_source(options) else stored)


def apply(
    options: argparse.Namespace, host: Host, source: Source, overrides: Mapping[str, Any] | None = None
) -> int:
    """What join and update have in common: obtain, apply, wait, one line at the end."""
    say, start = progress(host), host.clock.monotonic()
    with held(host, new_operation(), f"{COMMAND} {options.command}"):
        obtained = obtain(host, source, overrides or {}, durable=options.durable, origin=origin_of(options))
        say("configuration is valid")
        if options.command == "join" and not options.pool:
            check_machine(host, obtained.node.config, options.skip, say)
        node = obtained.node
        with recorded(run_log_of(host, node.config, obtained.document, say)) as log:
            if node.config.azure.arc.enabled:
                from .arc import register_machine

                log.more(register_machine(obtained, log).actions)
            from ..pull.playbook import patience_of

            patience = patience_of(0 if getattr(options, "no_wait", False) else None)
            run = reconcile(obtained, EVERYTHING, retry=options.retry, progress=log, patience=patience)
        from ..pull.install import install_after  # not before the Node is Ready

        # Last, and a failure is a warning: the node works without ansible-pull.
        without_pull = install_after(obtained, say)
    notes = getattr(source, "notes", ())  # a pool has some
    for warning in (*notes, *obtained.warnings, *run.warnings, *taint_warnings(run), *without_pull):
        complain(f"warning: {warning}")
    show(result_line(run, host.clock.monotonic() - start))
    return 0


def check_machine(host: Host, config: NodeConfig, skip: Sequence[str], say: Say) -> None:
    """All that would keep this machine from joining, before anything is touched. A node was checked before.

    The machine only: what it can't reach is found by the join itself, at no extra cost.
    """
    if store_of(host, config.paths.data_dir).applied_if_intact() is not None:
        return
    from ..preflight.document import Read  # not needed by an update
    from ..preflight.run import run_preflight

    report = run_preflight(host, Read(config), "host", skip)
    try:
        report.require()
    except PreflightFailed as error:
        error.fix = error.fix.replace("-e flexnode_preflight_skip=ID", f"{COMMAND} join --skip ID")
        raise
    warnings = ", ".join(finding.id for finding in report.warnings)
    say("this machine can join" + (f"; `{COMMAND} preflight` explains: {warnings}" if warnings else ""))


def result_line(run: Reconciled, seconds: float) -> str:
    """The result in one line."""
    node, spent = run.node, run.timings
    parts = ", ".join(f"{part} {spent.get(part, 0):.1f}" for part in ("fetch", "apply", "start", "gate"))
    versions = f"v{node['kubeletVersion']}  {node['containerRuntime']}"
    return f"{node['name']}  Ready  {versions}  {run.summary} in {seconds:.1f} s  ({parts})"


def plan(options: argparse.Namespace, host: Host) -> int:
    """Print the plan, one line per change."""
    from ..pull.install import PULL

    if has_source(options):
        obtained = obtain(host, named_source(options, host), {}, check=True, durable=options.durable)
    else:
        obtained = stored_config(host, pollable=True)
    try:
        run = reconcile(obtained, (*EVERYTHING, *PULL), check=True)
    except NotInCatalogue as error:  # of Ansible, for the Python of a new release of the system: as for drift
        run = reconcile(obtained, EVERYTHING, check=True)
        complain(f"warning: ansible-pull is not planned: {error.code}: {error.what}: {error.why}")
    for step in run.plan.diff if options.diff else ():
        before, after = step["before"].splitlines(), step["after"].splitlines()
        name = step["before_header"]
        show("\n".join(difflib.unified_diff(before, after, f"{name} (now)", f"{name} (then)", lineterm="")))
    if run.drains:
        show(f"drain {obtained.node.name} first")
    for sentence in run.actions:
        show(sentence)
    show(counted(len(run.actions), "change") if run.actions else "nothing to do")
    return 0


def preflight(options: argparse.Namespace, host: Host) -> int:
    """Print all problems at once; exit status 0: this machine can join."""
    from ..preflight.document import fetched  # not needed by any other command
    from ..preflight.run import run_preflight

    named = has_source(options)
    overrides: Mapping[str, Any] = {}
    if options.pool:
        from .pool import pool_settings, pool_source

        settings, config = pool_settings(options, host)
        overrides = settings
        source: Source = pool_source(settings, config, host, lambda _line: None, dry=True)
    else:
        source = named_source(options, host) if named else Stored(store_of(host))
    document = fetched(host, source, overrides, pollable=options.durable or not named)
    report = run_preflight(host, document, options.stage, options.skip)
    show(json.dumps(report.as_dict(), indent=2) if options.json else "\n".join(report.lines()))
    return 0 if report.ok else 1


def poll(options: argparse.Namespace, host: Host) -> int:
    """Exit status 3: there is a new configuration, and it was refused or failed."""
    from ..follow.tick import tick

    return tick(host, show, show, hand_over=options.hand_over, drift=options.drift)


def pull(options: argparse.Namespace, host: Host) -> int:
    """Run the playbooks of the team's repository; exit status 3: they failed, or were refused."""
    from ..pull.run import pull_once  # not needed by any other command

    if options.delay:
        host.clock.sleep(options.delay)
    obtained = stored_config(host, pollable=True)
    return pull_once(host, obtained.store, obtained.node.config, show)


def unbootstrap(options: argparse.Namespace, host: Host) -> int:
    """Leave the cluster and restore the host; exit status 1: something could not be removed."""
    from ..operations.leave import leave  # not needed by any other command
    from ..procedures.arc.departure import leave_azure
    from .pool import machine_left

    say = progress(host)
    token = Secret(sys.stdin.readline().strip()) if options.access_token_stdin else None
    with held(host, new_operation(), f"{COMMAND} unbootstrap"):
        watched = Watched.of(store_of(host).source_if_intact())
        report = leave(
            host,
            drain_seconds=options.drain_seconds,
            progress=say,
            in_azure=lambda config: leave_azure(host, config, say, token),
        )
        if not report.changed:  # registered, but never a node
            report.remains += leave_azure(host, None, say, token)
        forget_left(host)  # what remains is shown here and now
    for line in report.complaints:
        complain(line)
    if report.changed:
        show(f"its log was removed with it; the steps of this run: journalctl -t {COMMAND}")
    if watched and (line := machine_left(watched.resource)):
        show(line)
    show("this machine was not a node" if not report.changed else "this machine is no longer a node")
    return 1 if report.complaints else 0
