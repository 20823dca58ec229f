#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_proof
short_description: Test that pods work on nodes
version_added: 0.1.0
description:
  - Being Ready says that a kubelet talks to the cluster. It does not say that a pod on the node can resolve a
    name, reach a Service, or that the cluster can reach the kubelet for logs and exec.
  - This module tests it. On every node a pod is placed, resolves the name of a Service and reaches the
    Service. Then its log is read and a command is run in it through the API server. 16 nodes at a time.
  - A failure is reported in one sentence, with its cause as far as the cluster shows it.
  - Everything it creates has the label C(aks.flexnode/proof) and is removed in any case. What a killed run
    left is removed by the next one.
  - The pods run as C(nobody), without any right, within the C(restricted) pod security standard.
  - The user of the kubeconfig needs to create and delete pods, Services and (without O(namespace))
    namespaces, and pods/log and pods/exec. With the right to list pods and Services of all namespaces, causes
    are named more precisely.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.kubernetes
options:
  names:
    description:
      - Names of the Nodes. They, or O(nodes), are needed.
    type: list
    elements: str
  nodes:
    description:
      - Nodes with what is known of their machines. With O(names), only those that are named are tested.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      kubeconfig:
        description: Path of the kubeconfig of its cluster, instead of O(kubeconfig).
        type: path
      machine_id:
        description:
          - Content of C(/etc/machine-id) of the machine. A Node whose kubelet reports another one fails,
            because it is a machine of the same name in another cluster.
        type: str
        default: ""
      image:
        description: Image of the pods on this Node, instead of O(image), such as one of its site's registry.
        type: str
  namespace:
    description:
      - An existing namespace to use. Without it, the proof creates one and removes it.
    type: str
    default: ""
  image:
    description:
      - Image of the pods. It needs busybox's V(sh), V(httpd), V(nc) and V(nslookup), and nothing else.
    type: str
    default: mcr.microsoft.com/azurelinux/busybox:1.36
  timeout:
    description:
      - Seconds that the pods of each node may take, from when its turn comes. The removal, after all nodes,
        takes another minute at most.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Test that two nodes work
  aks.flexnode.flexnode_proof:
    names: [edge-1, edge-2]
    kubeconfig: ~/.kube/config
  run_once: true

- name: The same where images come from a registry of the site
  aks.flexnode.flexnode_proof:
    names: [edge-1]
    kubeconfig: ~/.kube/config
    image: registry.example/busybox:1.36
  run_once: true

- name: Test nodes of two clusters
  aks.flexnode.flexnode_proof:
    nodes:
      - {name: edge-1, kubeconfig: ~/.kube/north}
      - {name: edge-1, kubeconfig: ~/.kube/south}
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: ["test pods on Node edge-1: pod, dns, service, logs, exec"]
nodes:
  description: The tests of every Node, and their results.
  returned: when not in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
      sample: edge-1
    passed:
      description: Whether everything worked.
      type: bool
      sample: true
    checks:
      description: Every check with its status (passed, failed or skipped) and a detail.
      type: list
      elements: dict
      sample: [{name: pod, status: passed, detail: 10.244.20.5 on edge-1}]
    seconds:
      description: How long it took.
      type: float
      sample: 3.4
    summary:
      description: One line of text.
      type: str
      sample: edge-1  proven  pod, dns, service, logs, exec  in 3.4 s
    cluster:
      description: URL of the API server of its cluster. Only where the Nodes are of several.
      type: str
      sample: https://plant-dns-1a2b3c.hcp.westeurope.azmk8s.io:443
    error:
      description: What failed first, as data. Only where something failed.
      type: dict
      sample: {code: FLEX-1604, what: "Joined, but logs are not available"}
  sample: [{name: edge-1, passed: true}]
remains:
  description: What could not be removed in time.
  returned: when not in check mode
  type: list
  elements: str
  sample: []
"""

from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import require
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import signed_in
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.options import (
    KUBERNETES,
    kubernetes_access,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.cluster import (
    STREAM_ERROR,
    connector,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.run import (
    NodeProof,
    new_run,
    prove,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.verdict import ORDER
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.targets import (
    Target,
    targets_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **KUBERNETES,
            "names": {"type": "list", "elements": "str"},
            "nodes": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "name": {"type": "str", "required": True},
                    "kubeconfig": {"type": "path"},
                    "machine_id": {"type": "str", "default": ""},
                    "image": {"type": "str"},
                },
            },
            "namespace": {"type": "str", "default": ""},
            "image": {"type": "str", "default": "mcr.microsoft.com/azurelinux/busybox:1.36"},
            "timeout": {"type": "int", "default": 120},
        },
        required_one_of=[("names", "nodes")],
        supports_check_mode=True,
    )
    params = module.params
    targets = targets_of(params["names"] or (), params["nodes"] or ())
    actions = [f"test pods on Node {target.name}: {', '.join(ORDER)}" for target in targets]
    if module.check_mode or not targets:
        module.exit_json(changed=False, actions=actions)
    require(module, {"kubernetes": STREAM_ERROR})
    proofs: list[NodeProof] = []
    remains: list[str] = []
    errors: list[FlexNodeError] = []
    clusters: dict[str, list[Target]] = {}
    for target in targets:
        clusters.setdefault(target.kubeconfig or params["kubeconfig"] or "", []).append(target)
    for kubeconfig, group in clusters.items():
        try:
            proven, left = prove_in(module, kubeconfig, group, several=len(clusters) > 1)
        except FlexNodeError as error:
            errors.append(error)  # the other clusters are tested all the same
        else:
            proofs += proven
            remains += left
    for one in remains:
        module.warn(f"the proof could not remove {one} in time; the next one will")
    result = {"nodes": [proof.as_dict() for proof in proofs], "remains": remains}
    failed = [proof.summary for proof in proofs if proof.error]
    if errors:
        module.fail_json(msg="\n".join([*map(str, errors), *failed]), error=errors[0].as_result(), **result)
    if failed:
        module.fail_json(msg="\n".join(failed), **result)
    module.exit_json(changed=False, actions=actions, **result)


def prove_in(
    module: AnsibleModule, kubeconfig: str, targets: list[Target], *, several: bool
) -> tuple[list[NodeProof], list[str]]:
    """Test nodes of one cluster. several: there are others, so the results name it."""
    params, clock = module.params, SystemClock()
    access = kubernetes_access(module, kubeconfig)
    run = new_run(params["image"], params["timeout"], params["namespace"], clock, len(targets))
    with signed_in(access) as session:
        proofs, remains = prove(connector(session), run, targets, not params["namespace"], clock)
    return [replace(proof, cluster=access.server) for proof in proofs] if several else proofs, remains


if __name__ == "__main__":
    main()
