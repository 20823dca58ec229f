# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is installed, and from where: Kubernetes, containerd, runc, CNI, node-problem-detector, mirrors."""

from __future__ import annotations

from collections.abc import Mapping

from ...dataclass import dataclass
from .. import defaults
from ..types.addresses import Network, listen_address, network, pem, source_url, url_template
from ..types.formats import containerd_version, digest, kubernetes_digests, own_catalogue, version
from ..types.kinds import choice, matching
from ..types.setting import needed, setting
from ..types.values import Certificates, Digest, Version

_IMAGE = r"[a-z0-9.-]+(:\d{1,5})?(/[a-z0-9._-]+)+(:[\w.-]{1,128})?(@sha256:[0-9a-f]{64})?"


@dataclass(frozen=True, kw_only=True)
class Kubernetes:
    """kubelet, kubectl and kubeadm, of one version."""

    version: Version = needed("version", version, "Version of kubelet, kubectl and kubeadm.")
    url_template: str | None = setting(
        "urlTemplate", url_template, "Directory of the binaries, or a node tarball; absent: dl.k8s.io."
    )
    sha256: Mapping[str, Digest] = setting(
        "sha256", kubernetes_digests, "Digests of a version that is not in the catalogue.", default={}
    )


@dataclass(frozen=True, kw_only=True)
class Containerd:
    """The container runtime."""

    version: Version = setting("version", containerd_version, "Version.", default=defaults.CONTAINERD)
    sha256: Digest | None = setting("sha256", digest, "Digest of a version not in the catalogue.")
    pause_image: str = setting(
        "pauseImage",
        matching("an image: HOST/NAME[:TAG]", _IMAGE),
        "Sandbox image.",
        default=defaults.PAUSE_IMAGE,
    )
    metrics_address: str = setting(
        "metricsAddress", listen_address, "Where containerd serves metrics.", default="127.0.0.1:10257"
    )


@dataclass(frozen=True, kw_only=True)
class Runc:
    """The low-level runtime."""

    version: Version = setting("version", version, "Version.", default=defaults.RUNC)
    url: str | None = setting("url", url_template, "Where it is; absent: upstream's release.")
    sha256: Digest | None = setting("sha256", digest, "Digest of a version not in the catalogue.")


@dataclass(frozen=True, kw_only=True)
class Cni:
    """The CNI plugins, and a bridge network if the cluster provides none."""

    version: Version = setting("version", version, "Version of the plugins.", default=defaults.CNI_PLUGINS)
    sha256: Digest | None = setting("sha256", digest, "Digest of a version not in the catalogue.")
    mode: str = setting(
        "mode",
        choice("none", "bridge"),
        "none: the cluster provides its network; bridge: a local bridge network.",
        default="none",
    )
    pod_cidr: Network | None = setting("podCIDR", network, "Pods of this node alone; needed by mode bridge.")


@dataclass(frozen=True, kw_only=True)
class Npd:
    """node-problem-detector, if a version is set."""

    version: Version | None = setting("version", version, "Version; absent: not installed.")
    url: str | None = setting("url", url_template, "Where it is; absent: upstream's release.")
    sha256: Digest | None = setting("sha256", digest, "Digest; the catalogue has none.")


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """A copy of upstream's files, in upstream's layout."""

    url: str | None = setting("url", source_url, "Base URL; HOST/PATH of upstream is appended.")
    catalogue: Mapping[str, Mapping[str, Mapping[str, str]]] = setting(
        "catalogue",
        own_catalogue,
        "Digests of the mirror's own builds; replace those of the catalogue for what it names.",
        default={},
    )
    ca_cert: Certificates | None = setting("caCert", pem, "CA of the mirror.")
