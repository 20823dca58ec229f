# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules of this collection sign in to Azure."""

from __future__ import annotations


class ModuleDocFragment:
    """The options that all modules share which talk to Azure."""

    DOCUMENTATION = r"""
options:
  auth_source:
    description:
      - Where the credentials come from. The environment variable E(ANSIBLE_AZURE_AUTH_SOURCE) sets it too.
      - V(auto) takes O(tenant), O(client_id) and O(secret) from the options, what is missing there from the
        environment, and where there is no secret, the login of the Azure CLI.
      - V(credential) takes the options only, V(env) the environment only.
      - V(cli) takes the login of the Azure CLI (C(az login)).
      - V(msi) takes the managed identity of the machine that runs the module, or the one of O(client_id).
    type: str
    choices: [auto, env, cli, msi, credential]
    default: auto
  subscription_id:
    description:
      - A subscription that the Azure CLI is logged in to, where it has several logins. What is asked for says
        itself which subscription it is in.
      - Without it, E(AZURE_SUBSCRIPTION_ID).
    type: str
  tenant:
    description:
      - The tenant to sign in to. Without it, E(AZURE_TENANT) or E(AZURE_TENANT_ID).
    type: str
  client_id:
    description:
      - The application id of a service principal, or the client id of a managed identity. Without it,
        E(AZURE_CLIENT_ID).
    type: str
  secret:
    description:
      - The secret of the service principal. Without it, E(AZURE_SECRET) or E(AZURE_CLIENT_SECRET).
    type: str
  cloud_environment:
    description:
      - Which Azure. Without it, E(AZURE_CLOUD_ENVIRONMENT), else V(AzureCloud), the public one.
    type: str
    choices: [AzureCloud, AzureUSGovernment, AzureChinaCloud]
  authority:
    description:
      - Where to sign in, instead of the cloud's own address. Without it, E(AZURE_AUTHORITY_HOST).
    type: str
  resource_manager_endpoint:
    description:
      - Where Azure Resource Manager is, instead of the cloud's own address. Without it,
        E(AZURE_RESOURCE_MANAGER_ENDPOINT).
    type: str
  ca_bundle:
    description:
      - A file of CA certificates to trust instead of the public ones. Without it, E(REQUESTS_CA_BUNDLE).
    type: path
requirements:
  - azure-identity
notes:
  - The module runs where its Python packages are, which is the controller. Run it on V(localhost), once for
    all machines.
seealso:
  - name: Sign in with the Azure CLI
    link: https://learn.microsoft.com/cli/azure/authenticate-azure-cli
    description: How C(az login) works.
"""

    PREVIEW = r"""
options:
  api_version:
    description:
      - Version of the flexNodeConfig API. It is a preview.
    type: str
    default: 2026-05-01-preview
  poll_interval:
    description:
      - Seconds between two looks at a long-running operation, where Azure itself names no interval.
    type: int
    default: 5
  operation_timeout:
    description:
      - Seconds that a long-running operation may take.
    type: int
    default: 1200
"""
