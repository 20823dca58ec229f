# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-pull: ansible-core in a venv, git, and the units that run it on a schedule.

The venv is made of resources like everything else: every wheel is a directory of its own, verified by its
digest, and one .pth file lists them. So a new version is staged beside the old one and switched at once, a
playbook that runs meanwhile keeps its files, and pip is not needed.
"""

from __future__ import annotations

from hashlib import sha256

from ..catalogue.wheels import wheel_artifacts
from ..config.model import NodeConfig
from ..config.sections.pull import Pull
from ..machine.facts import Facts
from ..machine.layout import (
    ANSIBLE_DIR,
    BIN_DIR,
    DEFAULT_PLAYBOOK,
    PULL_CRON,
    PULL_SERVICE,
    PULL_TIMER,
    SYSTEM_PYTHON,
    UNIT_DIR,
    enabled,
)
from ..machine.program import COMMAND
from ..resources.base import Resource
from ..resources.package import Package
from ..resources.paths import Directory, File, Link
from ..resources.tree import Tree, place_of
from ..resources.units import Unit
from .system_config import HEADER

# The commands of ansible-core, and the module of each.
COMMANDS = {
    "ansible": "adhoc",
    "ansible-config": "config",
    "ansible-doc": "doc",
    "ansible-galaxy": "galaxy",
    "ansible-inventory": "inventory",
    "ansible-playbook": "playbook",
    "ansible-pull": "pull",
    "ansible-vault": "vault",
}


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """Everything that ansible-pull needs; nothing without a repository."""
    if config.pull.repository is None:
        return []
    return [
        *(Package(name) for name in packages(config.pull)),
        *venv(config, facts),
        File(DEFAULT_PLAYBOOK, RECONCILE),
        *schedule(config.pull, facts),
    ]


def packages(pull: Pull) -> list[str]:
    """The packages of the distribution that git needs for this repository."""
    url = pull.repository.reveal() if pull.repository and not pull.repository.redacted else ""
    https = url.startswith("https://")
    wanted = {
        "ca-certificates": https and pull.ca_cert is None,
        "git": True,
        "gpg": pull.gpg_keys is not None,
        "openssh-client": (bool(url) and not https) or pull.allowed_signers is not None,
    }
    return [name for name, needed in wanted.items() if needed]


def venv(config: NodeConfig, facts: Facts) -> list[Resource]:
    """ansible-core for the Python of the system."""
    artifacts = wheel_artifacts(config, facts.python, facts.arch)
    places = {artifact.name: place_of(artifact) for artifact in artifacts}
    site_packages = f"{ANSIBLE_DIR}/lib/python{facts.python}/site-packages"
    return [
        Directory(ANSIBLE_DIR, 0o755, ours=True),
        *(Tree(places[artifact.name], artifact) for artifact in artifacts),
        File(f"{ANSIBLE_DIR}/pyvenv.cfg", pyvenv(facts)),
        Link(f"{ANSIBLE_DIR}/bin/python3", SYSTEM_PYTHON),
        *(File(f"{ANSIBLE_DIR}/bin/{name}", script(module), 0o755) for name, module in COMMANDS.items()),
        File(f"{site_packages}/{COMMAND}.pth", "".join(f"{place}\n" for place in places.values())),
        # What no link points to is pruned.
        *(Link(f"{ANSIBLE_DIR}/wheels/{name}", place) for name, place in places.items()),
    ]


def pyvenv(facts: Facts) -> str:
    """What makes a directory a venv."""
    home = SYSTEM_PYTHON.rpartition("/")[0]
    return f"home = {home}\ninclude-system-site-packages = false\nversion = {facts.python}\n"


def script(module: str) -> str:
    """A command of ansible-core. -I: imports from the venv only; -u: each line is in the journal at once."""
    return f"""#!{ANSIBLE_DIR}/bin/python3 -Iu
import sys

from ansible.cli.{module} import main

sys.exit(main())
"""


def schedule(pull: Pull, facts: Facts) -> list[Resource]:
    """The service, and what starts it."""
    by_cron = pull.scheduler == "cron"
    service = File(f"{UNIT_DIR}/{PULL_SERVICE}", service_unit(pull, delay(pull, facts) if by_cron else 0))
    if by_cron:
        return [service, File(PULL_CRON, crontab(pull, facts))]
    return [
        service,
        File(f"{UNIT_DIR}/{PULL_TIMER}", timer_unit(pull), restarts=(PULL_TIMER,)),
        Link(*enabled(PULL_TIMER, "timers.target")),
        Unit(PULL_TIMER, last=True),
    ]


def delay(pull: Pull, facts: Facts) -> int:
    """Seconds by which this machine starts later than cron says: always the same, others have others."""
    number = int(sha256(facts.machine_id.encode()).hexdigest(), 16)
    return number % (pull.spread_seconds + 1)


def crontab(pull: Pull, facts: Facts) -> str:
    """Cron only starts the service: one instance, its limits and its journal are the same as with a timer."""
    minute = int(sha256(facts.machine_id.encode()).hexdigest(), 16) % 60
    fields = pull.schedule or f"{minute} * * * *"
    return f"{HEADER}{fields} root systemctl start --no-block {PULL_SERVICE}\n"


def timer_unit(pull: Pull) -> str:
    """When it runs: also after a boot, so that a machine that was off at its time catches up."""
    return f"""{HEADER}[Unit]
Description=Run the playbooks of the team's repository on a schedule

[Timer]
OnActiveSec=10
OnCalendar={pull.calendar}
# Each machine has an offset of its own, which stays the same: nodes do not ask the git server together.
RandomizedDelaySec={pull.spread_seconds}
FixedRandomDelay=yes
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def service_unit(pull: Pull, seconds: int) -> str:
    """One run. The team's playbooks may change anything, so that little can be forbidden."""
    options = f" --delay {seconds}" if seconds else ""
    return f"""{HEADER}[Unit]
Description=Run the playbooks of the team's repository (ansible-pull)
After=network-online.target

[Service]
Type=oneshot
ExecStart={BIN_DIR}/{COMMAND} pull{options}
# A limit of its own ends the playbook earlier, with a reason in the status.
TimeoutStartSec={pull.timeout_seconds + seconds + 600}
# Pods and the kubelet come first.
Nice=10
CPUWeight=20
IOWeight=20
LockPersonality=yes
RestrictRealtime=yes
SystemCallArchitectures=native
UMask=0022
"""


# `poll --drift` is the same reconcile as that of the timer: it repairs as drift.mode says, polls the source
# of the configuration if there is one, and applies what is new.
RECONCILE = f"""{HEADER}---
- name: Repair drift and apply a new configuration
  hosts: all
  gather_facts: false
  tasks:
    - name: Compare this machine with its configuration
      ansible.builtin.command:
        argv: [{BIN_DIR}/{COMMAND}, poll, --drift]
      register: reconciled
      changed_when: "'repaired' in reconciled.stdout or 'is applied' in reconciled.stdout"
"""
