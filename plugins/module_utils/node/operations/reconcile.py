# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconcile: plan, apply, wait for Node Ready, commit. The modules and the command both call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..components.every import COMPONENTS, wanted
from ..components.kubelet import cluster_ca
from ..components.services import SERVICES
from ..config.available import check_available
from ..config.model import NodeConfig
from ..engine.fetch import Fetcher
from ..engine.leftovers import clear_leftovers
from ..engine.plan import Plan, Step, make_plan
from ..engine.restarts import Progress, silent
from ..engine.state import Phase
from ..engine.transaction import Gate, Timings, execute
from ..errors import FlexNodeError
from ..machine.facts import check_platform, gather
from ..machine.host import Host
from ..net.http_client import HttpClient
from ..net.proxy import proxies
from ..node_object.certificate import Retired, rejected_certificate
from ..node_object.conditions import summary
from ..node_object.drain import uncordon
from ..node_object.gates import NodeReady, UnitsActive
from ..node_object.labels import update_labels
from ..sources.watched import Watched
from .checks import check_cluster, check_identity, check_secrets, check_token, installed_kubelet
from .join_record import JoinRecord
from .obtain import Obtained
from .other_owners import check_foreign

EVERYTHING = tuple(COMPONENTS)


@dataclass(slots=True)
class Reconciled:
    """What a run did, or would do."""

    plan: Plan
    actions: list[str]
    timings: dict[str, float]
    node: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was, or would be, changed."""
        return bool(self.actions)


def reconcile(
    obtained: Obtained,
    components: Sequence[str],
    *,
    check: bool = False,
    progress: Progress = silent,
    machine: str | None = None,
) -> Reconciled:
    """Apply a configuration to the machine; with `services`, success means that the Node is Ready."""
    node, store, host = obtained.node, obtained.store, obtained.node.host
    runs_node = "services" in components
    timings = Timings(host)
    with timings.of("plan"):
        plan, has_certificate = plan_node(obtained, components, machine, check=check)
    run = Reconciled(plan, plan.sentences, timings.seconds, warnings=list(plan.left))
    if check:
        return run
    check_secrets(obtained.document, store)
    applied = store.applied_config()  # a generation that worked: the one to roll back to
    record = JoinRecord.of(node, store, had_certificate=has_certificate) if runs_node else None
    clear_leftovers(host, store)
    store.journal.release(plan.settled)
    try:
        if runs_node and applied is None:
            check_cluster(node)
        if runs_node and plan.changed and (node.uses_tokens or not has_certificate):
            check_identity(node)
        apply(plan, obtained, record, timings, progress, roll_back=applied is not None)
        if record:
            labels = ((applied or {}).get("node") or {}).get("labels") or {}
            run.actions += update_labels(node, labels, store.config_version())
            run.actions += uncordon(node.api(), node.name) if record.unfinished_leave else []
    except FlexNodeError as error:
        if record:
            record.failed(error)
        raise
    if record:
        record.joined()
        store.set_applied_config(obtained.document)
        if set(components) >= set(COMPONENTS) and (watched := Watched.of(store.source())):
            store.set_source(replace(watched, settled=True).as_dict())
        run.node = summary(node.name, node.read() or {})
    return run


def plan_node(
    obtained: Obtained, components: Sequence[str], machine: str | None, *, check: bool
) -> tuple[Plan, bool]:
    """Check the machine and compute all changes; and whether the kubelet has a certificate to go on with."""
    node, store, host = obtained.node, obtained.store, obtained.node.host
    facts = gather(host, machine)
    check_platform(facts, host)
    # In check mode nothing was stored: a durable source is not known here.
    check_available(node.config, pollable=check or store.source() is not None)
    check_foreign(host, store, node.config)
    facts = replace(facts, joined=node.has_credential)
    retired: list[Retired] = []
    if "services" in components:
        retired = rejected_certificate(node) if certificate_in_doubt(obtained) else []
        facts = replace(facts, joined=facts.joined and not retired)
        check_token(node, store)
    resources, ownership = wanted(components, node.config, facts)
    plan = make_plan(resources, host, store, ownership)
    steps = (*(Step(certificate, certificate.change) for certificate in retired), *plan.steps)
    return replace(plan, steps=steps), facts.joined


def certificate_in_doubt(obtained: Obtained) -> bool:
    """Whether to ask the API server if it accepts the certificate: the CA changed, or the last run failed."""
    node, store = obtained.node, obtained.store
    if node.uses_tokens or not node.has_credential or not installed_kubelet(store):
        return False
    installed_ca = node.host.text(cluster_ca(node.config)).strip()
    same_ca = installed_ca == node.config.api_server.ca.pem.strip()
    return not same_ca or store.state()["phase"] != Phase.NODE_JOINED.value


def apply(
    plan: Plan,
    obtained: Obtained,
    record: JoinRecord | None,
    timings: Timings,
    progress: Progress,
    *,
    roll_back: bool,
) -> None:
    """Execute the plan and pass the gates; an empty plan only has to pass them."""
    node, store, host = obtained.node, obtained.store, obtained.node.host
    gates: list[Gate] = []
    if record:
        gates = [UnitsActive(SERVICES), NodeReady(node, node.config.upgrade.gate_seconds, SERVICES)]
    starting = record.kubelet_starts if record else lambda: None
    if plan.changed:
        if record:
            record.begin()
        # Creating a client loads the system's CAs, which is slow: only if there is something to fetch.
        stager = Fetcher(host, download_client(node.config, host), store.cache) if plan.trees else None
        execute(
            plan,
            host,
            store,
            stager,
            gates,
            timings=timings,
            progress=progress,
            roll_back=roll_back,
            starting=starting,
        )
    else:
        starting()
        with timings.of("gate"):
            for gate in gates:
                gate.pass_(host)
        store.finish()  # an earlier run may have been killed right before it did this


def download_client(config: NodeConfig, host: Host) -> HttpClient:
    """The client for artifacts: the mirror's CA and the site's proxy."""
    ca = config.mirror.ca_cert
    return HttpClient(ca_pem=ca.pem if ca else "", proxies=proxies(config), clock=host.clock)
