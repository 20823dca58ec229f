# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules of this collection sign in to Azure."""

from __future__ import annotations


class ModuleDocFragment:
    """The options that all modules share which sign in to Azure; the names are azure.azcollection's."""

    DOCUMENTATION = r"""
options:
  auth_source:
    description:
      - Where the credentials come from. The environment variable E(ANSIBLE_AZURE_AUTH_SOURCE) sets it, too.
      - V(auto) uses the options, then the environment variables, then the profile of the credential file
        C(~/.azure/credentials), then the login of the Azure CLI. The first that has a secret, a certificate
        or a federated token is used.
      - V(module) uses the options only.
      - V(env) uses the environment variables only, or the profile that E(AZURE_PROFILE) names.
      - V(credential_file) uses O(profile) of the credential file only.
      - V(cli) uses the login of the Azure CLI (C(az login)).
      - V(msi) uses the managed identity of the machine that runs the module, or the one of O(client_id).
    type: str
    choices: [auto, cli, credential_file, env, module, msi]
    default: auto
  profile:
    description:
      - Section of the credential file C(~/.azure/credentials), an INI file whose sections have the keys
        C(tenant), C(client_id), C(secret) or C(x509_certificate_path) and C(thumbprint), C(subscription_id)
        and C(cloud_environment). Without it, E(AZURE_PROFILE), else V(default).
    type: str
  subscription_id:
    description:
      - A subscription that the Azure CLI is logged in to, if it has several logins. Resource ids name their
        subscription themselves.
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
  x509_certificate_path:
    description:
      - Path of a PEM file with the certificate of the service principal and its private key, instead of
        O(secret). Without it, E(AZURE_X509_CERTIFICATE_PATH) or E(AZURE_CLIENT_CERTIFICATE_PATH).
    type: path
  thumbprint:
    description:
      - SHA-1 thumbprint of the certificate in O(x509_certificate_path). It is not needed. If it is set, it
        must match the certificate. Without it, E(AZURE_THUMBPRINT).
    type: str
  cloud_environment:
    description:
      - Which Azure. Without it, E(AZURE_CLOUD_ENVIRONMENT), else V(AzureCloud), the public one.
    type: str
    choices: [AzureCloud, AzureUSGovernment, AzureChinaCloud]
  authority:
    description:
      - URL to sign in at, instead of the cloud's own. Without it, E(AZURE_AUTHORITY_HOST).
    type: str
  resource_manager_endpoint:
    description:
      - URL of Azure Resource Manager, instead of the cloud's own. Without it,
        E(AZURE_RESOURCE_MANAGER_ENDPOINT).
    type: str
  ca_bundle:
    description:
      - A file of CA certificates to trust instead of the public ones. Without it, E(REQUESTS_CA_BUNDLE).
    type: path
requirements:
  - azure-identity
notes:
  - The module runs on the controller, where its Python packages and credentials are, whatever machine the
    task is for. It needs no C(delegate_to). Use C(run_once) in a play on many machines.
  - Workload identity (a federated token, as in an AKS pod or a pipeline) is used with
    E(AZURE_FEDERATED_TOKEN_FILE), E(AZURE_CLIENT_ID) and E(AZURE_TENANT) or E(AZURE_TENANT_ID).
  - Signing in with a user name and a password (C(ad_user), C(password) of azure.azcollection) is not offered.
    Microsoft has deprecated it, and it fails where multi-factor authentication is required.
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
      - Seconds between two requests for the state of a long-running operation, if Azure names no interval.
    type: int
    default: 5
  operation_timeout:
    description:
      - Seconds that a long-running operation may take.
    type: int
    default: 1200
"""
