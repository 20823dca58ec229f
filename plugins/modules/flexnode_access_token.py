#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_access_token
short_description: Get an Azure access token
version_added: 0.1.0
description:
  - Signs in as all modules of this collection do and returns the access token, for example for
    M(aks.flexnode.arc_register) to register machines with. So only a token with a short lifetime leaves the
    controller, and no other credential.
  - The token is a secret. The result is hidden from every output, as with C(no_log), but an error is shown.
    Use C(no_log) on tasks that use the token, unless their option hides it.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.attributes.info
  - aks.flexnode.azure
options:
  audience:
    description:
      - Audience of the token, as a URL or the id of an application. Without it, Azure Resource Manager.
    type: str
seealso:
  - module: aks.flexnode.arc_register
"""

EXAMPLES = r"""
- name: Get a token to register machines with
  aks.flexnode.flexnode_access_token:
  register: azure
  run_once: true

- name: Get a token for the API servers of AKS clusters
  aks.flexnode.flexnode_access_token:
    audience: 6dae42f8-4368-4678-94ff-3960e28e3630
  register: kubernetes
  run_once: true
"""

RETURN = r"""
access_token:
  description: The token, a secret.
  returned: success
  type: str
  sample: eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9...
audience:
  description: Its audience.
  returned: success
  type: str
  sample: https://management.azure.com
expires:
  description: When it expires.
  returned: success
  type: str
  sample: "2026-02-27T10:00:00Z"
expires_in:
  description: The seconds until then.
  returned: success
  type: int
  sample: 3599
tenant_id:
  description: The tenant that it was issued in. Empty if the token does not say.
  returned: success
  type: str
  sample: 66666666-7777-8888-9999-aaaaaaaaaaaa
object_id:
  description: The object id of the signed-in identity. Empty if the token does not say.
  returned: success
  type: str
  sample: 99999999-8888-7777-6666-555555555555
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1701}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.access import access_token
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock


def main() -> None:
    module = AnsibleModule(argument_spec={**AZURE, "audience": {"type": "str"}}, supports_check_mode=True)
    try:
        found = access_token(login_of(module), module.params["audience"] or "", SystemClock())
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
