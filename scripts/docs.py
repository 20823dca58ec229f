# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the generated parts of the documentation from the code they describe; --check only compares.

Whole files: roles/*/README.md. Blocks between `<!-- generated: NAME -->` and `<!-- end -->`: in any *.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure import errors as azure_errors  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn import errors as vpn_errors  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster import errors as cluster_errors  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof import (  # noqa: E402
    errors as proof_errors,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory import (  # noqa: E402
    errors as inventory_errors,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.secrets import (  # noqa: E402
    OTHER_SECRETS,
    SECRETS,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.every import (  # noqa: E402
    AFTERWARDS,
    COMPONENTS,
    resources_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.available import UNSUPPORTED  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.setting import (  # noqa: E402
    Setting,
    table,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (  # noqa: E402
    FlexNodeError,
    error_classes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity import errors as identity_errors  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.facts import Facts  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object import (  # noqa: E402
    problems as node_problems,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations import update as new_program  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc import errors as arc_errors  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.vpn import (  # noqa: E402
    errors as vpn_client_errors,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull import errors as pull_errors  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources import package  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import (  # noqa: E402
    Resource,
    key_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel import (  # noqa: E402
    Sysctl,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kubeconfig import (  # noqa: E402
    MODE as KUBECONFIG_MODE,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kubeconfig import (  # noqa: E402
    Kubeconfig,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.log_file import (  # noqa: E402
    MODE as LOG_MODE,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.log_file import (  # noqa: E402
    LogFile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import (  # noqa: E402
    Directory,
    File,
    Link,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.program import Program  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout import errors as rollout_errors  # noqa: E402
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources import errors as source_errors  # noqa: E402

# Where errors are defined besides node/errors.py: they are known once these are imported.
ERROR_MODULES = (
    azure_errors,
    vpn_errors,
    cluster_errors,
    proof_errors,
    inventory_errors,
    identity_errors,
    arc_errors,
    source_errors,
    rollout_errors,
    new_program,
    node_problems,
    package,
    pull_errors,
    vpn_client_errors,
)
EVERYTHING = ROOT / "docs" / "examples" / "everything.yml"
# What can't stand in one document with the rest of it.
INSTEAD: tuple[Mapping[str, Any], ...] = (
    {},
    {"kubernetesAuth": {"profile": "token"}},
    {"pull": {"scheduler": "cron", "schedule": "5 * * * *"}},
)
BLOCK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MARKUP = re.compile(r"\b[VOC]\(([^)]*)\)")
PLUGIN = re.compile(r"\bP\(([^)#]*)#?[^)]*\)")
MODULE = re.compile(r"\bM\(([^)]*)\)")

# Fields that are not refused where something else is there.
ONLY_WITH: Mapping[str, str] = {
    "continuousMonitoring": "With source `rp` (and an Azure identity), `blob`, or a durable `url`."
}

# What each item on a machine is for, by its name; a pattern gathers several in one row.
WHY: Mapping[str, str] = {
    "/opt/aks-flex-node": "all software that this collection unpacks",
    "/opt/aks-flex-node/agent/*": "the command, compiled where it polls; the name is a digest of its files",
    "/usr/local/bin/aks-flex-node": "the command in the PATH",
    "/var/log/aks-flex-node": "logs of this collection",
    "/var/log/aks-flex-node/agent.log": "steps of every run that changed something; rotated by the command",
    "/etc/systemd/system/aks-flex-node-apply.service": "applies a new document; `continuousMonitoring` only",
    "/etc/systemd/system/aks-flex-node-poll.service": "polls for a new document; `continuousMonitoring` only",
    "/etc/systemd/system/aks-flex-node-poll.timer": "every 20 to 40 s; `continuousMonitoring` only",
    "openvpn": "a package of the distribution, where it is missing; `azure.vpn` only, like what follows",
    "/etc/aks-flex-node/vpn": "the VPN client",
    "/etc/aks-flex-node/vpn/client.conf": "`azure.vpn.profile`, with the machine's key, and its own settings",
    "/etc/aks-flex-node/vpn/dns": "hands the VNet's name servers to systemd-resolved, where that runs",
    "/etc/systemd/system/aks-flex-node-vpn.service": "the VPN client",
    "/etc/systemd/system/kubelet.service.d/20-vpn.conf": "the kubelet starts after the VPN client",
    "aks-flex-node-vpn.service": "runs",
    "/etc/kubernetes": "certificates, static pods, volume plugins",
    "/etc/kubernetes/admin.conf": "the cluster's admin credential; `writeAdminConf` only",
    "/etc/kubernetes/certs": "CA certificates; no keys",
    "/etc/kubernetes/manifests": "static pods; empty unless you put some there",
    "/etc/kubernetes/volumeplugins": "FlexVolume drivers",
    "/var/lib/kubelet": "state of the kubelet: its certificate, volumes of pods",
    "/etc/containerd": "configuration of containerd",
    "/etc/containerd/proxy.env": "the site's proxy for containerd; may hold a password; `proxy` only",
    "/var/lib/containerd": "images and containers",
    "/opt/cni/bin": "CNI plugins; those that were there before stay",
    "/etc/cni/net.d": "CNI networks; those that were there before stay",
    "/var/lib/cni": "addresses that the bridge network assigned",
    "/var/log/pods": "logs of pods, written by the kubelet",
    "/var/log/containers": "links into /var/log/pods",
    "active": "no swap area is active; unbootstrap turns the prior ones on again",
    "/etc/fstab": "swap lines become comments; all other lines stay",
    "/etc/systemd/system/*.swap": "a unit that would turn swap on at boot is masked (one link per unit)",
    "/etc/modules-load.d/aks-flex-node.conf": "the modules below, at boot",
    "overlay": "file system of containers",
    "br_netfilter": "bridged pod traffic passes iptables",
    "/etc/sysctl.d/99-zz-aks-flex-node.conf": "the settings below, at boot",
    "net.bridge.bridge-nf-call-iptables": "bridged pod traffic passes iptables",
    "net.bridge.bridge-nf-call-ip6tables": "the same for IPv6",
    "net.ipv4.ip_forward": "pods reach other machines",
    "vm.overcommit_memory": "the kubelet checks it (protectKernelDefaults)",
    "vm.panic_on_oom": "the kubelet checks it (protectKernelDefaults)",
    "kernel.panic": "the kubelet checks it (protectKernelDefaults)",
    "kernel.panic_on_oops": "the kubelet checks it (protectKernelDefaults)",
    "kernel.keys.root_maxkeys": "the kubelet checks it (protectKernelDefaults)",
    "kernel.keys.root_maxbytes": "the kubelet checks it (protectKernelDefaults)",
    "/opt/aks-flex-node/versions/*": "one version of a component, unpacked from a verified download",
    "/usr/local/sbin/runc": "the runc in use",
    "/usr/local/bin/containerd": "the containerd in use",
    "/usr/local/bin/containerd-shim-runc-v2": "its shim",
    "/usr/local/bin/ctr": "its command",
    "/etc/containerd/conf.d": "drop-ins of other software (GPU operators); containerd 2 only",
    "/etc/containerd/certs.d": "where images are pulled from",
    "/etc/containerd/certs.d/*/ca.crt": "CA of a registry mirror; `registryMirrors`",
    "/etc/containerd/certs.d/*/hosts.toml": "a registry mirror; `registryMirrors`",
    "/etc/containerd/config.toml": "systemd cgroups, CNI directories, pause image; schema 2 for 1.7, else 3",
    "/etc/systemd/system/containerd.service.d/10-proxy.conf": "`proxy`, which may hold a password",
    "/etc/systemd/system/containerd.service": "the unit of containerd",
    "/usr/local/bin/kubelet": "the kubelet in use",
    "/usr/local/bin/kubectl": "the kubectl in use",
    "/usr/local/bin/kubeadm": "the kubeadm in use",
    "/opt/cni/bin/*": "one link per plugin",
    "/etc/cni/net.d/10-flexnode.conflist": "the bridge network; `cni.mode: bridge` only",
    "/etc/kubernetes/certs/ca.crt": "the cluster's CA; `node.kubelet.caCertData`",
    "/etc/kubernetes/certs/client-ca.crt": "CA of the kubelet's clients; `node.kubelet.clientCAData`",
    "/var/lib/kubelet/token-identity.json": "an Azure identity, with its secret; where the kubelet has one",
    "/var/lib/kubelet/token.sh": "gets Entra tokens of that identity for the kubelet",
    "/var/lib/kubelet/bootstrap-kubeconfig": "bootstrap token, or `token.sh`: for the first certificate",
    "/var/lib/kubelet/kubeconfig": "written by the kubelet at the join; URL and CA follow the document",
    "/var/lib/kubelet/token-kubeconfig": "instead of the two above where `kubernetesAuth.profile` is `token`",
    "/etc/default/kubeletconfig.json": "the KubeletConfiguration",
    "/etc/default/kubelet": "flags of the kubelet",
    "/etc/default/kubelet-registration": "labels and taints with which it registers its Node",
    "/etc/systemd/system/kubelet.service.d/10-containerd.conf": "starts after containerd",
    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": "where the kubelet's credentials are",
    "/etc/systemd/system/kubelet.service": "the unit of the kubelet",
    "/usr/local/bin/node-problem-detector": "the node-problem-detector in use; `npd.version` only",
    "/etc/node-problem-detector": "what it watches; `npd.version` only, like the files in it",
    "/etc/node-problem-detector/kubeconfig": "names the kubelet's credential; holds none itself",
    "/etc/node-problem-detector/kernel.json": "messages of the kernel",
    "/etc/node-problem-detector/filesystems.*": "file systems that became read-only",
    "/etc/node-problem-detector/restarts.*": "restarts of kubelet and containerd",
    "/etc/node-problem-detector/flexnode.json": "the status of this collection",
    "/etc/systemd/system/node-problem-detector.service": "its unit; `npd.version` only",
    "/etc/systemd/system/multi-user.target.wants/*": "enabled at boot",
    "/etc/systemd/system/timers.target.wants/*": "enabled at boot; `continuousMonitoring` and `pull` only",
    "containerd.service": "runs",
    "kubelet.service": "runs",
    "node-problem-detector.service": "runs; `npd.version` only",
    "aks-flex-node-poll.timer": "runs; `continuousMonitoring` only",
    "git": "a package of the distribution, installed where it is missing; `pull` only, like all that follows",
    "gpg": "the same, for signatures with GPG keys; `pull.gpgKeys`",
    "ca-certificates": "the same, for an https repository",
    "openssh-client": "the same, for an ssh repository and for signatures with SSH keys",
    "/opt/aks-flex-node/ansible": "a venv with ansible-core; its wheels are unpacked below versions",
    "/opt/aks-flex-node/ansible/pyvenv.cfg": "makes it a venv",
    "/opt/aks-flex-node/ansible/bin/*": "the system's Python, and the commands of ansible-core",
    "/opt/aks-flex-node/ansible/lib/*": "names the directories of the wheels in use",
    "/opt/aks-flex-node/ansible/wheels/*": "one link per wheel in use",
    "/opt/aks-flex-node/ansible/reconcile.yml": "the playbook for a repository without one: repairs drift",
    "/etc/systemd/system/aks-flex-node-pull.service": "one run of ansible-pull",
    "/etc/systemd/system/aks-flex-node-pull.timer": "when it runs; `pull.schedule`",
    "/etc/cron.d/aks-flex-node-pull": "instead of the timer; `pull.scheduler: cron`",
    "aks-flex-node-pull.timer": "runs",
}


class Stale(Exception):
    """Documentation and code disagree in a way that only a person can fix."""


# --- tables ------------------------------------------------------------------------------------------------


def rows(cells: Iterable[tuple[str, ...]], *, head: tuple[str, ...]) -> str:
    """A Markdown table; a pipe in a cell is not a border."""
    lines = [head, tuple("---" for _ in head), *cells]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text: object) -> str:
    """Text as code; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def default_of(setting: Setting) -> str:
    """A default as a document would spell it."""
    value = setting.default
    if setting.required == "always":
        return "**needed**"
    if setting.required == "join":
        return "**needed to join**"
    if value is None:
        return "-"
    if isinstance(value, (bool, int)):
        return code(json.dumps(value))
    if isinstance(value, Mapping):
        return code(json.dumps(dict(value)))
    return code("[]" if value == () else value)


def is_listed(path: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a path is named, or lies in a section that is named."""
    return any(f"{path}.".startswith(f"{prefix}.") for prefix in prefixes)


def about_field(path: str, setting: Setting) -> str:
    """What a field is for, and what this version does with it."""
    parts = [setting.about]
    if others := [name for name in setting.aliases if name != "false"]:
        parts.append(f"Also read: {', '.join(code(name) for name in others)}.")
    if is_listed(path, UNSUPPORTED):
        parts.append("**Refused in this version.**")
    if path in ONLY_WITH:
        parts.append(ONLY_WITH[path])
    return " ".join(parts)


def fields() -> str:
    """Every field of the configuration document, one table per top-level section."""
    found = list(table(NodeConfig))
    for prefix in (*UNSUPPORTED, *ONLY_WITH):
        if not any(is_listed(row.path, (prefix,)) for row in found):
            raise Stale(f"scripts/docs.py names {prefix}, which is no field")
    sections: dict[str, list[tuple[str, ...]]] = {}
    for row in found:
        section = row.path.partition(".")[0] if "." in row.path else "top level"
        line = (
            code(row.path),
            default_of(row.setting),
            row.setting.kind.accepts,
            about_field(row.path, row.setting),
        )
        sections.setdefault(section, []).append(line)
    head = ("field", "default", "accepted", "about")
    return "\n".join(f"### {name}\n\n{rows(lines, head=head)}" for name, lines in sections.items())


def every_error() -> tuple[type[FlexNodeError], ...]:
    """All errors that a user can get, by code."""
    ours = {FlexNodeError.__module__, *(module.__name__ for module in ERROR_MODULES)}
    found = error_classes()
    if unknown := {cls.__module__ for cls in found} - ours:
        raise Stale(f"scripts/docs.py does not name modules that define errors: {', '.join(sorted(unknown))}")
    return found


def errors() -> str:
    """Every error, by code."""
    lines = [(code(cls.code), cls.title, cls.remedy or "as the message says") for cls in every_error()]
    return rows(lines, head=("code", "what it means", "what usually helps"))


# --- files on a machine ------------------------------------------------------------------------------------


# A machine for the documentation and for tests.
FACTS = Facts(
    arch="amd64",
    os_id="debian",
    os_version="12",
    hostname="edge-1",
    cpus=4,
    memory=8 << 30,
    cgroup_v2=True,
    may_lower_oom_score=True,
    resolv_conf="/etc/resolv.conf",
    swap_units=(),
    python="3.11",
    machine_id="0123456789abcdef0123456789abcdef",
)


def sample_resources() -> list[Resource]:
    """The items of a machine whose configuration uses every field."""
    document = yaml.safe_load(EVERYTHING.read_text(encoding="utf-8"))
    facts = replace(FACTS, swap_units=("dev-sda2.swap",))
    found: dict[str, Resource] = {}
    for instead in INSTEAD:
        config = parse(merge(document, instead), pollable=True)
        for resource in resources_of((*COMPONENTS, *AFTERWARDS), config, facts):
            found.setdefault(key_of(resource), resource)
    return list(found.values())


def row_of(resource: Resource) -> tuple[str, str]:
    """Under which name of WHY an item is listed, and how that row names it."""
    if resource.name in WHY:
        return resource.name, resource.name
    for pattern in WHY:
        if "*" in pattern and fnmatchcase(resource.name, pattern):
            return pattern, pattern
    raise Stale(f"scripts/docs.py does not say what {resource.kind} {resource.name} is for: add it to WHY")


def access_of(resource: Resource) -> str:
    """Mode, value or state."""
    if isinstance(resource, File):
        return f"{resource.mode:04o}"
    if isinstance(resource, Directory):
        return f"{resource.mode:04o}" if resource.mode is not None else f"created {resource.created:04o}"
    if isinstance(resource, (Tree, Program)):
        return "0755"
    if isinstance(resource, package.Package):
        return "installed"
    if isinstance(resource, Sysctl):
        return resource.value
    if isinstance(resource, LogFile):
        return f"{LOG_MODE:04o}"
    if isinstance(resource, Kubeconfig):
        return f"{KUBECONFIG_MODE:04o}"
    return {"unit": "running", "module": "loaded", "swap": "off"}.get(resource.kind, "-")


def files() -> str:
    """Every item on a machine."""
    shown: dict[str, tuple[str, ...]] = {}
    for resource in sample_resources():
        key, name = row_of(resource)
        kind = "link" if isinstance(resource, Link) else resource.kind
        restarts = ", ".join(unit.removesuffix(".service") for unit in resource.restarts)
        if kind == "unit":
            restarts = ""
        if key in shown and restarts not in shown[key][3]:
            restarts = f"{shown[key][3]}, {restarts}".removeprefix(", ")
        elif key in shown:
            continue
        shown[key] = (code(name), kind, access_of(resource), restarts or "", WHY[key])
    if unused := set(WHY) - set(shown):
        raise Stale(f"scripts/docs.py explains what is no longer there: {', '.join(sorted(unused))}")
    return rows(list(shown.values()), head=("name", "kind", "mode or value", "restarts", "what for"))


# --- roles -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Role:
    """A role, as its metadata has it."""

    name: str
    entry_points: Mapping[str, Mapping[str, Any]]
    galaxy: Mapping[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Role:
        """Read the metadata of a role's directory."""
        specs = yaml.safe_load((directory / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
        meta = yaml.safe_load((directory / "meta" / "main.yml").read_text(encoding="utf-8"))
        return cls(directory.name, specs["argument_specs"], meta["galaxy_info"])


def roles() -> list[Role]:
    """All roles, by name."""
    return [Role.read(path.parent.parent) for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))]


def plain(text: str | list[str]) -> str:
    """Ansible's markup as Markdown."""
    joined = text if isinstance(text, str) else " ".join(text)
    return MODULE.sub(r"module `\1`", PLUGIN.sub(r"`\1`", MARKUP.sub(r"`\1`", joined)))


def option_rows(options: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Variables of an entry point."""
    for name, option in options.items():
        value = option.get("default")
        spelled = code("" if value in ("", None) else json.dumps(value))
        default = "**needed**" if option.get("required") else spelled
        kind = " | ".join(option["choices"]) if "choices" in option else option["type"]
        yield code(name), kind, default or "-", plain(option["description"])


OPTION_HEAD = ("variable", "type", "default", "what it is")
# Roles that need no cluster yet: an image can hold what they install.
WITHOUT_CLUSTER = ("agent", "cni", "kubernetes", "runtime", "system_config")
# Roles that use what `config` stored; the others get the document themselves, or need none.
AFTER_CONFIG = (*WITHOUT_CLUSTER, "kubelet", "npd", "services")
# Roles that work on the controller, once for all machines; and the Python packages they need there.
ON_CONTROLLER: Mapping[str, str] = {
    "proof": "`kubernetes`",
    "source": "`azure-identity`, `azure-mgmt-core`, `azure-mgmt-containerservice`, `azure-storage-blob`",
}


def example(role: Role) -> str:
    """A playbook that uses the role."""
    steps: list[object] = []
    if role.name in AFTER_CONFIG:
        config: dict[str, object] = {"role": "aks.flexnode.config"}
        if role.name in WITHOUT_CLUSTER:
            config["vars"] = {"config_purpose": "prepare"}
        steps.append(config)
    if role.name == "node":  # it applies what role source resolved
        steps.append({"role": "aks.flexnode.source"})
    steps.append({"role": f"aks.flexnode.{role.name}"})
    play: dict[str, object] = {
        "name": role.entry_points["main"]["short_description"],
        "hosts": "all",
        "gather_facts": False,
        "become": role.name not in ON_CONTROLLER,
        "roles": steps,
    }
    plays = [play]
    if "absent" in role.entry_points:
        tasks = [
            {
                "name": role.entry_points[point]["short_description"],
                "ansible.builtin.include_role": {"name": f"aks.flexnode.{role.name}", "tasks_from": point},
            }
            for point in ("absent", "left")
            if point in role.entry_points
        ]
        plays.append(
            {
                "name": "Uninstall",
                "hosts": "all",
                "gather_facts": False,
                "become": role.name not in ON_CONTROLLER,
                "tasks": tasks,
            }
        )
    return "\n".join(yaml.safe_dump([one], sort_keys=False, width=100) for one in plays)


def role_readme(role: Role) -> str:
    """README.md of a role."""
    names = {"jammy": "22.04", "noble": "24.04", "bookworm": "12", "trixie": "13"}
    platforms = ", ".join(
        f"{platform['name']} {' and '.join(names.get(v, v) for v in platform['versions'])}"
        for platform in role.galaxy["platforms"]
    )
    parts = [
        "<!-- Written by scripts/docs.py from meta/: change those files, not this one. -->\n"
        f"# aks.flexnode.{role.name}\n\n{role.entry_points['main']['short_description']}.\n\n"
        f"{plain(role.entry_points['main']['description'])}\n"
    ]
    for name, entry in role.entry_points.items():
        title = "Variables" if name == "main" else f"Entry point `{name}`"
        text = "" if name == "main" else f"{plain(entry['description'])}\n\n"
        options = entry.get("options") or {}
        listing = rows(option_rows(options), head=OPTION_HEAD) if options else "No variables of its own.\n"
        parts.append(f"## {title}\n\n{text}{listing}")
    parts.append(f"## Example\n\n```yaml\n{example(role)}```\n")
    needs = (
        f"on the controller the Python packages\n{ON_CONTROLLER[role.name]}.\nThe"
        if role.name in ON_CONTROLLER
        else f"a machine with {platforms}, systemd,\nPython 3.10 or newer and root (`become: true`). The"
    )
    parts.append(
        f"## Needs\n\nansible-core {role.galaxy['min_ansible_version']} or newer; {needs} document's fields: "
        "[configuration](../../docs/configuration.md).\n"
    )
    return "\n".join(parts)


def variables() -> str:
    """Every variable that a user sets, of all roles."""
    found: dict[str, tuple[str, ...]] = {}
    users: dict[str, list[str]] = {}
    for role in roles():
        for entry in role.entry_points.values():
            for row in option_rows(entry.get("options") or {}):
                if row[0].startswith("`flexnode_"):
                    found.setdefault(row[0], row)
                    users.setdefault(row[0], []).append(role.name)
    lines = [(name, ", ".join(dict.fromkeys(users[name])), *row[1:]) for name, row in found.items()]
    return rows(lines, head=(OPTION_HEAD[0], "roles", *OPTION_HEAD[1:]))


class _WithTemplates(yaml.SafeLoader):
    """Reads the YAML of Ansible; what it marks as !unsafe is plain text."""


def _plain_text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_WithTemplates.add_constructor("!unsafe", _plain_text)


def awx_data(name: str) -> Mapping[str, Any]:
    """One file of awx/data."""
    text = (ROOT / "awx" / "data" / f"{name}.yml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.load(text, Loader=_WithTemplates)  # noqa: S506 - a SafeLoader
    return found


def secrets() -> str:
    """Every variable that holds a secret, and the credential type of `awx/` that injects it."""
    injected_by = {
        variable: one["name"]
        for one in awx_data("credential_types")["awx_credential_types"]
        for variable in one["injectors"]["extra_vars"]
    }
    lines = []
    for name in (*SECRETS, *OTHER_SECRETS):
        path = SECRETS.get(name, "")
        refused = " (refused in this version)" if path and is_listed(path, UNSUPPORTED) else ""
        lines.append((code(name), f"{code(path)}{refused}" if path else "-", injected_by[name]))
    return rows(lines, head=("variable", "field of the document", "credential type"))


# --- writing -----------------------------------------------------------------------------------------------


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
                ", ".join(map(code, sorted({done["commit"] for done in row["acts"].values() if done}))),
            )
            for _key, row in sorted(found.items())
        ),
        head=("virtual machine", "kernel", "kubelet", "seen", "commit"),
    )


def _acts(acts: Mapping[str, Mapping[str, Any] | None]) -> str:
    cuts = [done for act, done in acts.items() if act.startswith("power cut")]
    words = [
        f"{act} ({done['seconds']:.0f} s)" if done else f"**{act} failed**"
        for act, done in acts.items()
        if not act.startswith("power cut")
    ]
    if cuts:
        words.append(f"{len([one for one in cuts if one is not None])} of {len(cuts)} power cuts survived")
    return ", ".join(words)


BLOCKS: Mapping[str, Callable[[], str]] = {
    "tried": tried,
    "fields": fields,
    "errors": errors,
    "files": files,
    "variables": variables,
    "secrets": secrets,
}


def with_blocks(text: str) -> str:
    """A page with its generated blocks filled in again."""

    def fill(match: re.Match[str]) -> str:
        if match["name"] not in BLOCKS:
            raise Stale(f"there is no generated block {match['name']}: {', '.join(BLOCKS)} are")
        return f"{match[1]}\n{BLOCKS[match['name']]()}\n{match[3]}"

    return BLOCK.sub(fill, text)


def pages() -> dict[Path, str]:
    """Every page that is generated, wholly or in part, as it should be."""
    wanted = {}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        if BLOCK.search(text):
            wanted[path] = with_blocks(text)
    for role in roles():
        wanted[ROOT / "roles" / role.name / "README.md"] = role_readme(role)
    return wanted


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    options = parser.parse_args(arguments)
    try:
        wanted = pages()
    except Stale as stale:
        print(f"docs: {stale}", file=sys.stderr)
        return 1
    stale_pages = [
        path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text
    ]
    for path in stale_pages:
        print(f"docs: {path.relative_to(ROOT)} {'is stale' if options.check else 'written'}")
        if not options.check:
            path.write_text(wanted[path], encoding="utf-8")
    if options.check and stale_pages:
        print("docs: update them with `python -m scripts.docs`", file=sys.stderr)
        return 1
    print(
        f"docs: {len(wanted)} generated pages, {len(stale_pages)} {'stale' if options.check else 'changed'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
