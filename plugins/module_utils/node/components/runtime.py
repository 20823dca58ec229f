# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container runtime: runc and containerd."""

from __future__ import annotations

from ..catalogue.artifacts import artifacts_of
from ..config.model import NodeConfig
from ..config.types.values import RegistryMirror
from ..machine.facts import Facts
from ..machine.layout import BIN_DIR, CONTAINERD, CONTAINERD_DIR, SBIN_DIR, UNIT_DIR
from ..net.proxy import environment
from ..resources.base import Resource
from ..resources.paths import Directory, File, Link
from ..resources.tree import Tree, place_of
from .system_config import HEADER

BINARIES = ("containerd", "containerd-shim-runc-v2", "ctr")
IMPORTS = f"{CONTAINERD_DIR}/conf.d"
CERTS = f"{CONTAINERD_DIR}/certs.d"
PROXY_FILE = f"{CONTAINERD_DIR}/proxy.env"


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """Binaries, configuration and unit of the container runtime."""
    artifacts = artifacts_of(config, facts.arch)
    runc, containerd = artifacts["runc"], artifacts["containerd"]
    runc_dir, containerd_dir = place_of(runc), place_of(containerd)
    return [
        Tree(runc_dir, runc, (("", "runc"),)),
        Tree(containerd_dir, containerd, tuple((f"bin/{name}", name) for name in BINARIES), (CONTAINERD,)),
        Link(f"{SBIN_DIR}/runc", f"{runc_dir}/runc"),
        # Only the daemon restarts: shims and runc are started for every pod.
        *(
            Link(
                f"{BIN_DIR}/{name}", f"{containerd_dir}/{name}", (CONTAINERD,) if name == "containerd" else ()
            )
            for name in BINARIES
        ),
        *([Directory(IMPORTS, 0o755, ours=True)] if has_imports(config) else []),
        Directory(CERTS, 0o755, ours=True),
        *(part for item in sorted(config.registry_mirrors.items()) for part in registry(*item)),
        File(f"{CONTAINERD_DIR}/config.toml", containerd_config(config, facts), restarts=(CONTAINERD,)),
        *proxy_drop_in(config),
        File(f"{UNIT_DIR}/{CONTAINERD}", UNIT, restarts=(CONTAINERD,)),
    ]


def has_imports(config: NodeConfig) -> bool:
    """Drop-ins of other owners: on 1.7 an imported file would replace whole plugin sections."""
    return config.containerd.version.major >= 2


def containerd_config(config: NodeConfig, facts: Facts) -> str:
    """config.toml: schema 3 for containerd 2, schema 2 for 1.7."""
    return HEADER + (
        _schema_3(config, facts) if config.containerd.version.major >= 2 else _schema_2(config, facts)
    )


def _schema_3(config: NodeConfig, facts: Facts) -> str:
    cni = config.paths.cni
    many = config.containerd.version.line >= (2, 1)
    bin_dirs = f'bin_dirs = ["{cni.bin_dir}"]' if many else f'bin_dir = "{cni.bin_dir}"'
    return f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
# Other owners (GPU operators, registries) put their settings here instead of editing this file.
imports = ["{IMPORTS}/*.toml"]

[metrics]
  address = "{config.containerd.metrics_address}"

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.cri.v1.images"]
  # A pull ends when its files are on the disk: else a power cut leaves an image with empty files, which
  # counts as complete for ever.
  image_pull_with_sync_fs = true
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{config.containerd.pause_image}"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "{CERTS}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = {_bool(not facts.may_lower_oom_score)}
  [plugins."io.containerd.cri.v1.runtime".cni]
    {bin_dirs}
    conf_dir = "{cni.conf_dir}"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "{SBIN_DIR}/runc"
        SystemdCgroup = true
"""


def _schema_2(config: NodeConfig, facts: Facts) -> str:
    cni = config.paths.cni
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[metrics]
  address = "{config.containerd.metrics_address}"

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  # A pull ends when its files are on the disk: else a power cut leaves an image with empty files, which
  # counts as complete for ever.
  image_pull_with_sync_fs = true
  sandbox_image = "{config.containerd.pause_image}"
  restrict_oom_score_adj = {_bool(not facts.may_lower_oom_score)}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni.bin_dir}"
    conf_dir = "{cni.conf_dir}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{CERTS}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{SBIN_DIR}/runc"
        SystemdCgroup = true
"""


def registry(name: str, mirror: RegistryMirror) -> list[Resource]:
    """The mirrors of one registry, read by containerd at every pull; after them it tries the registry itself.

    No `server`: containerd knows that docker.io is at registry-1.docker.io, and what _default stands for.
    """
    directory = f"{CERTS}/{name}"
    parts: list[Resource] = []
    ca = ""
    if mirror.ca_cert:
        parts.append(File(f"{directory}/ca.crt", mirror.ca_cert.pem))
        ca = f'  ca = "{directory}/ca.crt"\n'
    hosts = "".join(
        f'[host."{endpoint}"]\n  capabilities = ["pull", "resolve"]\n{ca}' for endpoint in mirror.endpoints
    )
    return [*parts, File(f"{directory}/hosts.toml", HEADER + hosts)]


def proxy_drop_in(config: NodeConfig) -> list[Resource]:
    """The proxy through which containerd pulls images; the file may contain a password."""
    pairs = environment(config)
    if not pairs:
        return []
    # Not Environment= in the unit: systemd shows it to every user of the machine.
    lines = "".join(f'{name}="{value}"\n' for name, value in pairs.items())
    drop_in = f"{HEADER}[Service]\nEnvironmentFile={PROXY_FILE}\n"
    return [
        File(PROXY_FILE, HEADER + lines, 0o600, restarts=(CONTAINERD,), secret=True),
        File(f"{UNIT_DIR}/{CONTAINERD}.d/10-proxy.conf", drop_in, restarts=(CONTAINERD,)),
    ]


def _bool(value: bool) -> str:
    return "true" if value else "false"


UNIT = f"""{HEADER}[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target local-fs.target dbus.service
# Restart forever: there may be no administrator at the site.
StartLimitIntervalSec=0

[Service]
ExecStart={BIN_DIR}/containerd
Type=notify
# With many containers, on a slow disk, it takes longer than systemd's default to find them all again.
TimeoutStartSec=300
Delegate=yes
# Pods keep running while the daemon restarts.
KillMode=process
Restart=always
RestartSec=1
LimitNPROC=infinity
LimitCORE=infinity
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"""
