# SPDX-License-Identifier: GPL-3.0-or-later
"""make demo: a machine becomes a node, runs a pod and is uninstalled, in a few lines with their times."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.basics.errors import TestbedError
from testbed.basics.progress import say
from testbed.bed import DEFAULT_PLATFORM, Testbed
from testbed.layout import site
from testbed.machine import Machine
from testbed.playbooks import Play, join_document, play, write_inventory

NAME = "edge-1"
POD = "hello"
POD_SECONDS = 60
SECONDS = 40
"""On two processors with nothing else to do."""


class Failed(Exception):
    """Something a user would not accept."""


@contextmanager
def telling(what: str) -> Iterator[list[str]]:
    """One line for a part of the demo: what, how long, and what was seen."""
    seen: list[str] = []
    start = time.monotonic()
    yield seen
    say(f"{time.monotonic() - start:6.1f} s  {what}" + "".join(f"\n            {line}" for line in seen))


def expect(condition: bool, why: str) -> None:
    """Something that the demo shows; the demo fails without it."""
    if not condition:
        raise Failed(why)


def run(playbook: str, inventory: Path, *options: str) -> Play:
    """A playbook that must work; the end of its output says why it did not."""
    done = play(playbook, inventory, *options)
    if done.status != 0:
        raise Failed(f"{playbook} failed:\n" + "\n".join(done.output.splitlines()[-25:]))
    return done


def demo(bed: Testbed, machine: Machine, directory: Path) -> None:
    """A node from the join to unbootstrap."""
    kubectl = bed.cluster.kubectl
    inventory = write_inventory(
        bed,
        [machine],
        directory / "edge_hosts.yml",
        flexnode_config=join_document(bed),
        flexnode_kubeconfig=str(bed.cluster.kubeconfig),
        flexnode_proof=True,
        flexnode_proof_image=bed.registry.workload_image,
    )

    with telling(
        f"ansible-playbook playbooks/bootstrap.yml  ({machine.platform}, over SSH, with sudo)"
    ) as seen:
        first = run("bootstrap", inventory)
        seen += kubectl("get", "nodes", "-o", "wide", "--no-headers").splitlines()
        expect(" Ready " in seen[0], "the Node is not Ready")
        seen.append(f"{len(first.modules(NAME))} modules ran on the machine")
        seen += [node["summary"] for node in first.result("localhost", "flexnode_proof")["nodes"]]

    with telling("a pod, placed by the scheduler, runs there") as seen:
        kubectl("apply", "-f", "-", input=json.dumps(pod(bed)))
        kubectl("wait", "--for=condition=Ready", f"pod/{POD}", f"--timeout={POD_SECONDS}s")
        seen.append(f"address {kubectl('get', 'pod', POD, '-o', 'jsonpath={.status.podIP}')}")
        seen.append(f"logs    {kubectl('logs', POD).strip()}")
        seen.append(f"exec    {kubectl('exec', POD, '--', 'hostname').strip()}")
        expect(seen[1].endswith("hello from the edge"), "the pod's log is not what it said")

    with telling("bootstrap again") as seen:
        again = run("bootstrap", inventory, "-e", "flexnode_proof=false")
        seen.append(f"changed={again.changed(NAME)}")
        expect(again.changed(NAME) == 0, "the second run changed something")

    with telling(f"ansible-playbook playbooks/unbootstrap.yml --limit {NAME}") as seen:
        run("unbootstrap", inventory, "--limit", NAME)
        left = kubectl("get", "nodes", "--no-headers", "--ignore-not-found").strip()
        expect(NAME not in left, "the Node is still there")
        for path in ("/usr/local/bin/kubelet", "/etc/kubernetes", "/etc/containerd", "/opt/aks-flex-node"):
            expect(machine.run(["test", "-e", path], check=False).returncode != 0, f"{path} is still there")
        seen.append("Node, services and files are gone")


def pod(bed: Testbed) -> dict[str, object]:
    """A pod that says hello."""
    container = {
        "name": "main",
        "image": bed.registry.workload_image,
        "command": ["/bin/sh", "-c", "echo hello from the edge; sleep 3600"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def main() -> int:
    """Run the demo on a testbed of its own, which is gone afterwards; one that was up before stays."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--keep",
        action="store_true",
        default=os.environ.get("KEEP") == "1",
        help="leave the testbed up (KEEP=1)",
    )
    keep = parser.parse_args().keep
    bed = Testbed(os.environ.get("TESTBED_NAME", "demo"))
    keep = keep or site.load(bed.name) is not None
    verdict = "PASS"
    say(f"make demo: about {SECONDS} s once all that it needs is there; what is missing is made first")
    try:
        with telling(f"testbed {bed.name}: control plane, registry, mirror"):
            bed.up(platforms=[DEFAULT_PLATFORM])
        with telling(f"machine {NAME}"):
            machine = bed.node(NAME)
        with tempfile.TemporaryDirectory() as directory:
            demo(bed, machine, Path(directory))
    except (Failed, TestbedError) as error:
        verdict = f"FAIL  {error}"
    except KeyboardInterrupt:
        verdict = "FAIL  interrupted"
    finally:
        if not keep:
            bed.down()
    say(f"demo: {verdict}")
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
