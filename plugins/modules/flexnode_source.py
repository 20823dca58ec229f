#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_source
short_description: Check the inventory and resolve the configuration of all machines of a play
version_added: 0.1.0
description:
  - Reads the C(flexnode_*) variables of every host of the play, and stops with one table of all
    errors. These are wrong values, unknown sources, missing ids, URLs and files, equal Node names, equal or
    overlapping pod ranges. Unknown variables are warnings.
  - Asks each source once for all of its machines, with one login. V(rp) writes flexNodeConfig resources,
    V(cluster) reads the clusters and creates bootstrap tokens, V(blob) writes bundles to Blob Storage,
    V(machines) writes the machines of FlexNodes pools and gets the bootstrap data of each pool once.
  - Machines with C(azure.vpn.autoProvision) get their VPN profile, each with a certificate of its own, by one
    call of M(aks.flexnode.flexnode_vpn_gateway) per gateway. That creates the gateway if there is none.
  - Runs on the controller, once per play (C(run_once)). Role P(aks.flexnode.source#role) calls it, and the
    roles P(aks.flexnode.node#role), P(aks.flexnode.arc#role) and P(aks.flexnode.config#role) use what it
    returns.
  - Settings are read from the variables of each host. Machines whose C(flexnode_token_hours) or
    C(flexnode_update_secret) differ are asked for by one call each.
  - The result holds secrets and is hidden from every output. An error is shown.
options:
  state:
    description:
      - V(present) resolves the configuration of the machines.
      - V(joined) deletes the bootstrap tokens that the machines have used, in the cluster and in blobs, and
        revokes the VPN certificates that they replaced.
      - V(left) deletes the blobs of machines that have left their cluster, and the machines of FlexNodes
        pools that left in this run, and revokes their VPN certificates.
      - V(absent) deletes flexNodeConfigs and machines of FlexNodes pools, and writes a tombstone to each
        blob. Machines that follow them leave.
      - V(renewed) renews the token and the configuration URL of each flexNodeConfig.
      - V(gateway) creates or changes the VPN gateways of machines with C(azure.vpn.autoProvision),
        V(no_gateway) deletes them. V(revoked) revokes VPN certificates, without any machine.
    type: str
    choices: [present, joined, left, absent, renewed, gateway, no_gateway, revoked]
    default: present
  purpose:
    description:
      - With O(state=present), what the configuration is for. V(join) asks the sources. V(preflight) reads
        what a join would use and creates nothing. V(check) does all checks of V(join) and creates nothing.
        V(prepare), V(host) and V(leave) use the inventory alone; V(host) is for checks of a machine that come
        before its source is asked.
      - V(join) and V(check) refuse versions that the machines would refuse, before anything is written.
    type: str
    choices: [join, check, prepare, preflight, host, leave]
    default: join
  hosts:
    description:
      - Act on these hosts of the play only. Without it, on all hosts of the batch.
      - With O(purpose=join) their names and pod ranges are not compared with those of other machines, which
        O(purpose=check) did for all machines of the play.
    type: list
    elements: str
  sources:
    description:
      - Only machines of these sources. It is an error if the play has none. As with O(state=renewed), the
        configuration URL of each machine is written to its C(flexnode_url_directory), with mode 0600.
    type: list
    elements: str
    choices: [rp, cluster, blob, machines]
  named:
    description:
      - The playbook that is running, if it acts only on machines that were named on the command line
        (C(--limit) or C(-e flexnode_hosts)). Without such a name the task fails and shows the line to type.
    type: str
  only:
    description:
      - A part of what O(state=joined) and O(state=left) do. V(vpn) revokes VPN certificates, V(azure) does
        all the rest. Without it, both are done.
    type: str
    choices: [azure, vpn]
  revoke:
    description:
      - With O(state=revoked), a list of Node names whose VPN certificates are revoked, or V(true) for those
        of the hosts of the play. A name without any certificate is an error, after all others are revoked.
    type: raw
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.azure.preview
attributes:
  diff_mode:
    support: none
    details: The differences hold secrets.
author:
  - aks.flexnode contributors (@aks-flexnode)
"""

EXAMPLES = r"""
- name: Check the inventory and resolve the configuration of all machines
  aks.flexnode.flexnode_source:
  register: __source
  run_once: true
"""

RETURN = r"""
machines:
  description:
    - By host, the options with which the machine obtains its configuration. It holds secrets.
    - With purpose join, C(refused) is why a machine gets none, because another machine has its name. With
      purpose leave, C(expected) is which node it must be, and C(if_lost) what to delete if it never answers.
  returned: with state present
  type: dict
  sample: {edge-1: {source: url, url: https://..., durable: false, document: {}, vpn: false}}
names:
  description: By host, the name of its Node as far as the inventory knows it, else the name of the host.
  returned: with state present
  type: dict
  sample: {edge-1: edge-1}
purpose:
  description: The purpose that the machines were resolved for.
  returned: with state present
  type: str
  sample: join
sources:
  description: The sources of the machines.
  returned: with state present
  type: list
  elements: str
  sample: [cluster]
arc:
  description: Whether the inventory enables Azure Arc for any of the machines.
  returned: with state present
  type: bool
  sample: false
vpn:
  description: Whether the inventory enables a VPN for any of the machines.
  returned: with state present
  type: bool
  sample: false
tokens:
  description: Whether bootstrap tokens were created.
  returned: with state present and purpose join
  type: bool
  sample: false
proof:
  description: Whether a test pod is wanted for any of the machines (C(flexnode_proof)).
  returned: with state present and purpose join
  type: bool
  sample: false
vpn_certificates:
  description: Hosts whose VPN certificate was replaced, and in check mode those that would get one.
  returned: with state present and purpose join
  type: dict
  sample: {replaced: [], pending: []}
gateways:
  description: The VPN gateways.
  returned: with states gateway and no_gateway
  type: list
  elements: dict
  sample: [{name: flexnode-vpn, sku: VpnGw2AZ}]
certificates:
  description: The certificates of VPN clients, without keys.
  returned: with states gateway and no_gateway
  type: list
  elements: dict
  sample: [{node: edge-1, state: active, expires: "2027-11-16T17:00:00+00:00"}]
hooks:
  description: By host, the task files that run before and after an update.
  returned: with state present and purpose check
  type: dict
  sample: {edge-1: {before: /srv/hooks/silence.yml}}
node_names:
  description: By host, the Nodes that the controller takes for its own, as the inventory says.
  returned: with state present and purpose check, join or leave
  type: dict
  sample: {edge-1: [edge-1]}
bootstrap:
  description: The bootstrap data of FlexNodes pools, for the next batch of the play. It holds secrets.
  returned: with state present and purpose join
  type: dict
  sample: {}
findings:
  description: What is wrong with FlexNodes pools, as the lines of a table.
  returned: with purpose preflight
  type: list
  elements: str
  sample: []
pools_usable:
  description: Whether machines can join their FlexNodes pools.
  returned: with purpose preflight
  type: bool
  sample: true
nodes:
  description: What was done for each node in Azure.
  returned: with states present, absent, left and renewed
  type: list
  elements: dict
  sample: [{name: edge-1, action: created, config_version: "1789000000"}]
actions:
  description: What was done, as sentences.
  returned: success
  type: list
  elements: str
  sample: [create flexNodeConfig edge-1 (it does not exist)]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1106}
"""
