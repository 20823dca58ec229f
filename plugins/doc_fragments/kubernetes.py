# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules of this collection reach the API server of a cluster from the controller."""

from __future__ import annotations


class ModuleDocFragment:
    """The options that all modules share which use a kubeconfig; the names are those of kubernetes.core."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig file on the controller.
      - Exec plugins such as C(kubelogin) work. They run without a terminal, so C(kubelogin) needs a login
        mode without a prompt, for example C(kubelogin convert-kubeconfig -l azurecli).
      - Without it, E(K8S_AUTH_KUBECONFIG), then E(KUBECONFIG), which may list several files.
    type: path
  context:
    description:
      - Context of the kubeconfig, instead of its current one. Without it, E(K8S_AUTH_CONTEXT).
    type: str
  host:
    description:
      - URL of the API server, instead of the one in the kubeconfig, or without a kubeconfig together with
        O(api_key) or O(client_cert). Without it, E(K8S_AUTH_HOST).
    type: str
  api_key:
    description:
      - Bearer token for the API server. Without it, E(K8S_AUTH_API_KEY).
    type: str
  ca_cert:
    description:
      - Path of a PEM file with the CA certificates of the API server. Without it,
        E(K8S_AUTH_SSL_CA_CERT), then those of the kubeconfig, then those that Python trusts.
      - TLS is always verified. There is no option to turn it off.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description:
      - Path of a PEM file with a client certificate. Without it, E(K8S_AUTH_CERT_FILE).
    type: path
    aliases: [cert_file]
  client_key:
    description:
      - Path of a PEM file with the key of O(client_cert), if it is not in the same file. Without it,
        E(K8S_AUTH_KEY_FILE).
    type: path
    aliases: [key_file]
requirements:
  - kubernetes (Python package)
  - PyYAML
notes:
  - Options go before environment variables, and nothing of another cluster is mixed in. With O(kubeconfig)
    none of the variables above is read. With O(host), those for the sign-in and the CA are, unless
    E(K8S_AUTH_KUBECONFIG), or E(K8S_AUTH_HOST) with another URL, is set as well. With O(context) alone, only
    those that name a kubeconfig are. Proxies (E(HTTPS_PROXY), E(NO_PROXY)) are used in any case.
  - The environment does not replace an AKS cluster that a task names by its resource id.
"""
