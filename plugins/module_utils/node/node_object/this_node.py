# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This machine as a node: its name, its credential and its API client, created once per run and passed on."""

from __future__ import annotations

from typing import Any

from ..components.exec_plugin import identity_method, uses_tokens
from ..components.kubelet import kubelet_identity
from ..components.labels import node_name
from ..config.model import NodeConfig
from ..dataclass import dataclass, field
from ..engine.records.name import own_name
from ..identity.choice import kubernetes_token
from ..machine.facts import machine_id
from ..machine.host import Host, PathState
from ..net.kube import Json, KubeClient


@dataclass(frozen=True)
class ThisNode:
    """The node that a configuration describes, on this machine."""

    host: Host
    config: NodeConfig
    name: str
    identity: str  # file that exists once the kubelet has joined: its certificate, or its token kubeconfig
    azure_method: str  # the Azure identity that the kubelet authenticates with; empty: a bootstrap token
    uses_tokens: bool  # the kubelet authenticates with Entra tokens only, it has no certificate
    _clients: dict[int, tuple[str | PathState, KubeClient]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, host: Host, config: NodeConfig) -> ThisNode:
        """The node of this machine with this configuration."""
        return cls(
            host,
            config,
            node_name(config, own_name(host, config.paths.data_dir)),
            kubelet_identity(config),
            identity_method(config) or "",
            uses_tokens(config),
        )

    @property
    def has_credential(self) -> bool:
        """Whether there is a file that the kubelet authenticates with. A power cut can leave an empty one."""
        return bool(self.host.read(self.identity))

    @property
    def token_id(self) -> str:
        """The public part of the bootstrap token of its configuration; empty: it has none."""
        token = self.config.azure.bootstrap_token
        return token.id if token else ""

    @property
    def is_cut_off(self) -> bool:
        """Whether its VPN tunnel is down. The API server is behind it: a request would only time out."""
        if not self.config.azure.vpn.enabled:
            return False
        from ..net.tunnel import tunnel_of  # most machines have no VPN

        tunnel = tunnel_of(self.host)
        return tunnel is None or not tunnel.connected

    @property
    def identification(self) -> dict[str, Any]:
        """What tells its Node from one of the same name in another cluster, for who has a kubeconfig.

        The kubelet reports the machine id in its Node. The API server counts where there is no Node.
        """
        from ..machine.certificates import fingerprints  # a poll does not need it

        kubelet = self.config.node.kubelet
        return {
            "machine_id": machine_id(self.host),
            "api_server": kubelet.server_url or "",
            "ca_sha256": fingerprints(kubelet.ca_cert_data.pem.encode()) if kubelet.ca_cert_data else [],
        }

    def api(self, attempts: int = 3) -> KubeClient:
        """The API server, as the kubelet of this machine.

        The client is reused until the credential changes: a kubelet renews its certificate, tokens expire.
        """
        credential = (
            kubernetes_token(self.config, self.host) if self.uses_tokens else self.host.stat(self.identity)
        )
        known = self._clients.get(attempts)
        if known is None or known[0] != credential:
            known = credential, self._connect(credential, attempts)
            self._clients[attempts] = known
        return known[1]

    def read(self, attempts: int = 3) -> Json | None:
        """The Node object; None: it does not exist."""
        return self.api(attempts).node(self.name)

    def read_once(self) -> Json | None:
        """The same for a check that asks nothing else: no connection is kept, at half the cost."""
        return self.api(1).node(self.name, once=True)

    def _connect(self, credential: str | PathState, attempts: int) -> KubeClient:
        server, clock = self.config.api_server, self.host.clock
        if isinstance(credential, str):
            return KubeClient(server.url, server.ca.pem, token=credential, clock=clock, attempts=attempts)
        certificate = self.host.path(self.identity)
        return KubeClient(server.url, server.ca.pem, certificate=certificate, clock=clock, attempts=attempts)
