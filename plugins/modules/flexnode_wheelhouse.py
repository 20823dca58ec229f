#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_wheelhouse
short_description: Download the wheels of ansible-core that nodes need for ansible-pull
version_added: 0.1.0
description:
  - Fills a directory with the wheels of ansible-core and of what it needs, for chosen Python versions and
    processors. Nodes that reach no package index get them from there, by role P(aks.flexnode.pull#role) or
    from a web server (C(pull.wheels) of the configuration).
  - Which files, and the SHA-256 digest of each, is fixed by this release of the collection. A file that is
    there with the right digest is not downloaded again; one with another digest is replaced.
  - Runs on the controller. It needs no pip.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
options:
  path:
    description:
      - The directory. It is created if it does not exist. Other files in it are left alone.
    type: path
    required: true
  pythons:
    description:
      - Python versions of the machines, such as V(3.11). Without it, those of all supported platforms.
    type: list
    elements: str
    default: []
  architectures:
    description:
      - Processors of the machines.
    type: list
    elements: str
    choices: [amd64, arm64]
    default: [amd64, arm64]
  index:
    description:
      - A Python package index (PEP 503).
    type: str
    default: https://pypi.org/simple
  ca_cert:
    description:
      - A file with the CA of the index, where its certificate is signed by a private CA.
    type: path
"""

EXAMPLES = r"""
- name: Download the wheels for all supported platforms
  aks.flexnode.flexnode_wheelhouse:
    path: /srv/wheels
  delegate_to: localhost
  run_once: true

- name: Download the wheels for Debian 12 on amd64 from the site's own index
  aks.flexnode.flexnode_wheelhouse:
    path: /srv/wheels
    pythons: ["3.11"]
    architectures: [amd64]
    index: https://index.example.com/simple
"""

RETURN = r"""
downloaded:
  description: Names of the files that were downloaded, or would be.
  returned: success
  type: list
  elements: str
  sample: [ansible_core-2.19.14-py3-none-any.whl]
path:
  description: The directory, as an absolute path.
  returned: success
  type: str
  sample: /srv/wheels
targets:
  description: Names of all files that each combination of Python and processor needs.
  returned: success
  type: dict
  sample: {3.11-amd64: [ansible_core-2.19.14-py3-none-any.whl, jinja2-3.1.6-py3-none-any.whl]}
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1201}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.wheelhouse import build
from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.wheels import ARCHES, INDEX
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "pythons": {"type": "list", "elements": "str", "default": []},
            "architectures": {
                "type": "list",
                "elements": "str",
                "choices": list(ARCHES),
                "default": list(ARCHES),
            },
            "index": {"type": "str", "default": INDEX},
            "ca_cert": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        result = build(module.params, check=module.check_mode)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
