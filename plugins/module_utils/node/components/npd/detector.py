# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node-problem-detector: reports problems of this machine as conditions and events of its Node."""

from __future__ import annotations

from ...catalogue.artifacts import Artifact, artifacts_of
from ...config.model import NodeConfig
from ...machine.facts import Facts
from ...machine.layout import BIN_DIR, NPD, NPD_BINARY, NPD_DIR, UNIT_DIR
from ...machine.program import COMMAND
from ...resources.base import Resource
from ...resources.paths import Directory, File, Link
from ...resources.tree import Tree, place_of
from .. import exec_plugin
from ..agent import READS_CHALLENGE, protect_home
from ..kubelet import kubeconfig, kubelet_identity
from ..labels import node_name
from ..system_config import HEADER
from .monitors import AWK, FILESYSTEMS, RESTARTS, SHELL, monitors, rendered

KUBECONFIG = f"{NPD_DIR}/kubeconfig"
HEARTBEAT = "1m"  # how often it reports what has not changed


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """Binary, monitors and unit; nothing without a version."""
    if config.npd.version is None:
        return []
    artifact = artifacts_of(config, facts.arch)["npd"]
    directory, restarts = place_of(artifact), (NPD,)
    return [
        Tree(directory, artifact, ((member(artifact), NPD_BINARY),), restarts),
        Link(f"{BIN_DIR}/{NPD_BINARY}", f"{directory}/{NPD_BINARY}", restarts),
        Directory(NPD_DIR, 0o755, ours=True),
        File(KUBECONFIG, kubeconfig(config, user(config), "node"), restarts=restarts),
        File(FILESYSTEMS, AWK),
        File(RESTARTS, SHELL),
        *(
            File(f"{NPD_DIR}/{name}", rendered(document), restarts=restarts)
            for name, (_kind, document) in monitors(config).items()
        ),
        File(f"{UNIT_DIR}/{NPD}", unit(config, facts), restarts=restarts),
    ]


def member(artifact: Artifact) -> str:
    """Its place in upstream's archive; a URL of your own may be the program itself."""
    return f"bin/{NPD_BINARY}" if artifact.kind == "tar.gz" else ""


def user(config: NodeConfig) -> dict[str, object]:
    """The kubelet's credential: it may report on this Node and on no other, and it is renewed by the kubelet.

    A ServiceAccount would need a right to change every Node, and a token that lies on the disk.
    """
    if exec_plugin.uses_tokens(config):
        return exec_plugin.user(config)
    certificate = kubelet_identity(config)  # certificate and key; read again when the kubelet replaces it
    return {"client-certificate": certificate, "client-key": certificate}


def arguments(config: NodeConfig, facts: Facts) -> list[str]:
    """The command line."""
    kinds = dict.fromkeys(kind for kind, _document in monitors(config).values())
    files = {
        kind: ",".join(
            f"{NPD_DIR}/{name}" for name, (of, _document) in monitors(config).items() if of == kind
        )
        for kind in kinds
    }
    return [
        f"{BIN_DIR}/{NPD_BINARY}",
        f"--hostname-override={node_name(config, facts.hostname)}",
        f"--apiserver-override={config.api_server.url}?inClusterConfig=false&auth={KUBECONFIG}",
        *(f"--config.{kind}={paths}" for kind, paths in files.items()),
        f"--k8s-exporter-heartbeat-period={HEARTBEAT}",
        # Nothing listens: its server has profiling in it, and metrics come from the Node's conditions.
        "--port=0",
        "--prometheus-port=0",
    ]


def unit(config: NodeConfig, facts: Facts) -> str:
    """Reads the kernel's log and a few files, and talks to the API server: it may do nothing else."""
    lines = " \\\n  ".join(word.replace("%", "%%") for word in arguments(config, facts))
    capabilities, homes, run_dir = "CAP_SYSLOG", "yes", ""
    if exec_plugin.uses_tokens(config):
        # The exec plugin runs in this sandbox: it reads an identity, and keeps its tokens in /run.
        run_dir = f"RuntimeDirectory={COMMAND}\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=yes\n"
        homes = protect_home(config)
        if exec_plugin.identity_method(config) == "arc":
            capabilities = f"{capabilities} {READS_CHALLENGE}"
    else:
        # It would exit without a certificate. At a join the kubelet has none yet.
        wait = 'until [ -s "$$0" ]; do sleep 0.5; done; exec "$$@"'
        lines = f"/bin/sh -c '{wait}' {kubelet_identity(config)} \\\n  {lines}"
    return f"""{HEADER}[Unit]
Description=node-problem-detector
Documentation=https://github.com/kubernetes/node-problem-detector
After=network-online.target kubelet.service
Wants=network-online.target
# Restart forever: there may be no administrator at the site.
StartLimitIntervalSec=0

[Service]
ExecStart={lines}
Restart=always
RestartSec=5
MemoryMax=200M
{run_dir}# The kernel's log, and nothing else below /dev.
CapabilityBoundingSet={capabilities}
DevicePolicy=closed
DeviceAllow=/dev/kmsg r
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateTmp=yes
ProtectControlGroups=yes
ProtectHome={homes}
ProtectHostname=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
"""
