# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user does: write an inventory for this cluster and run a playbook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from testbed.bed import Testbed
from testbed.document import SITE
from testbed.machine import Machine

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("inline", "cluster", "rp", "blob", "url", "machines")
IN_AZURE = ("cluster", "rp", "blob", "machines")
LIMIT_SECONDS = 300
DELETING = ("unbootstrap", "config_delete")
NAMING = re.compile(r"(-l|--limit)(=|$)|.*flexnode_hosts")


@dataclass(frozen=True)
class Play:
    """A playbook run, as data and as the user saw it."""

    status: int
    output: str
    seconds: float
    events: Sequence[Mapping[str, Any]] = field(repr=False)

    def changed(self, host: str) -> int:
        """Tasks that changed something on a host."""
        return sum(event["changed"] for event in self.events if event["host"] == host)

    def modules(self, host: str) -> list[str]:
        """Modules that ran on a host, in order."""
        return [event["action"] for event in self.events if event["host"] == host and event["module"]]

    def result(self, host: str, module: str) -> Mapping[str, Any]:
        """What a module of the collection returned for a host."""
        (event,) = [e for e in self.events if e["host"] == host and e["action"] == f"aks.flexnode.{module}"]
        found: Mapping[str, Any] = event["result"]
        return found


def join_document(bed: Testbed, **over: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with a fresh token; `over` is merged into its sections."""
    document = bed.node_document()
    document["azure"]["bootstrapToken"] = {"token": bed.cluster.bootstrap_token()}
    for section, values in over.items():
        document.setdefault(section, {}).update(values)
    return document


def complete_inventory(bed: Testbed, source: str) -> dict[str, Any]:
    """An inventory of all machines that playbooks take as it is: how to reach them, their configuration.

    inline holds a new bootstrap token; url publishes a document with a new token for each machine; machines
    creates the FlexNodes pool that the machines join.
    """
    found = bed.inventory()
    variables = {**found["all"]["vars"], "flexnode_config_source": source}
    if source == "inline":
        variables["flexnode_config"] = join_document(bed)
    elif source == "url":
        variables["flexnode_config_url_ca_cert"] = bed.ca_pem
        for name, host in found["all"]["hosts"].items():
            bundle = json.dumps({"config": join_document(bed, **host.pop("flexnode_host_config"))})
            host["flexnode_config_url"] = bed.publish(f"config-{name}.json", bundle.encode())
    else:
        document = bed.node_document()
        variables["flexnode_cluster_id"] = bed.azure.cluster_id
        variables["flexnode_config"] = {part: document[part] for part in SITE}
    if source in ("rp", "blob"):
        variables["flexnode_config_url_ca_cert"] = bed.ca_pem
    if source == "blob":
        variables["flexnode_blob_account_url"] = bed.blob.account_url
        variables["flexnode_blob_account_key"] = bed.blob.account_key
    if source == "machines":
        variables["flexnode_pool"] = bed.azure.pools.ensure()["name"]
    found["all"]["vars"] = variables
    return found


def write_inventory(
    bed: Testbed,
    machines: Sequence[Machine],
    path: Path,
    *,
    host_configs: Mapping[str, Mapping[str, Any]] | None = None,
    **variables: Any,
) -> Path:
    """The inventory that a user of this cluster would write, for some of its machines."""
    hosts = bed.inventory()["all"]["hosts"]
    chosen = {machine.name: hosts[machine.name] for machine in machines}
    for name, over in (host_configs or {}).items():
        chosen[name]["flexnode_host_config"].update(over)
    path.write_text(yaml.safe_dump({"all": {"hosts": chosen, "vars": variables}}), encoding="utf-8")
    path.chmod(0o600)  # it holds the bootstrap token
    return path


def play(
    playbook: str,
    inventory: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    directory: Path = ROOT,
    named: bool = True,
    seconds: float = LIMIT_SECONDS,
) -> Play:
    """Run a playbook of the checkout by its short name, or an installed one by its full name.

    Playbooks that delete act only on machines that the user names. These inventories hold nothing but the
    machines of a test, so all of them are named, unless the options do it or `named` is false.
    """
    if named and playbook.rpartition(".")[2] in DELETING and not any(map(NAMING.match, options)):
        options = (*options, "--limit", "all")
    target = playbook if "." in playbook else str(ROOT / "playbooks" / f"{playbook}.yml")
    with tempfile.TemporaryDirectory() as private:
        record = Path(private) / "record.jsonl"
        record.touch()
        settings = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "record",
            "ANSIBLE_NOCOLOR": "1",
            "FLEXNODE_RECORD": str(record),
            **(environment or {}),
        }
        start = time.monotonic()
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-playbook"), target, "-i", str(inventory), *options],
            capture_output=True,
            text=True,
            cwd=directory,
            env=settings,
            timeout=seconds,
            check=False,
        )
        took = time.monotonic() - start
        events = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return Play(done.returncode, done.stdout + done.stderr, took, events)
