# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's certificate, for polls and probes: they read the document as data, as parsing it is slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..machine.certificates import validity
from ..machine.host import Host

Document = Mapping[str, Any]
KUBELET_DIR = "/var/lib/kubelet"  # paths.kubernetes.kubeletDir


def below(document: Document, *keys: str) -> Mapping[str, Any]:
    """A section of a document; empty if it is absent."""
    found: Any = document
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def certificate_file(document: Document) -> str:
    """The kubelet's certificate with its key."""
    directory = below(document, "paths", "kubernetes").get("kubeletDir") or KUBELET_DIR
    return f"{directory}/pki/kubelet-client-current.pem"


def uses_certificate(document: Document) -> bool:
    """Whether the kubelet authenticates with a certificate, and not with Entra tokens."""
    return below(document, "kubernetesAuth").get("profile") != "token"


def lost_certificate(host: Host, document: Document) -> str:
    """Why the kubelet can't authenticate any more; empty: it can."""
    path = certificate_file(document)
    if not uses_certificate(document):
        return ""
    if not host.exists(path):
        return f"{path} is missing"
    valid = validity(host.read(path) or b"")
    return f"{path} has expired" if valid and valid.expires <= host.clock.now() else ""
