# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels and annotations of an existing Node: a kubelet sets labels only when it registers the Node."""

from __future__ import annotations

from collections.abc import Container, Iterable

from ..components.labels import APPLIED_TIME, APPLIED_VERSION, node_labels
from ..machine.clock import stamp
from .this_node import ThisNode


def label_key(label: str) -> str:
    """The key of a label, as items of a plan have one."""
    return f"label:{label}"


def update_labels(
    node: ThisNode, previous: Iterable[str], version: str | None, leave: Container[str] = ()
) -> list[str]:
    """Patch the Node's labels and its applied version, as the node itself; returns what was done, in words.

    previous: keys of the configured labels that were applied last, to remove those that are gone.
    leave: keys of labels (`label_key`) that are not touched.
    version: of the configuration. The status of a flexNodeConfig resource is read from this annotation.
    """
    client = node.api()
    metadata = (client.node(node.name) or {}).get("metadata", {})
    have, want = metadata.get("labels", {}), node_labels(node.config)
    labels: dict[str, str | None] = {key: value for key, value in want.items() if have.get(key) != value}
    labels |= {key: None for key in previous if key not in want and key in have}
    labels = {key: value for key, value in labels.items() if label_key(key) not in leave}
    annotations = {}
    if version and metadata.get("annotations", {}).get(APPLIED_VERSION) != version:
        annotations = {APPLIED_VERSION: version, APPLIED_TIME: stamp(node.host.clock)}
    if not labels and not annotations:
        return []
    client.patch_node(node.name, {"metadata": {"labels": labels, "annotations": annotations}})
    return [
        *(
            f"label {key}={value}" if value is not None else f"remove label {key}"
            for key, value in labels.items()
        ),
        *([f"report configuration {version} as applied"] if annotations else ()),
    ]
