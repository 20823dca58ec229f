# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Imports from a zip file and compiles each file once; Python's own importer compiles it twice.

Used by modules, for the archive of the node's code, and copied into aks-flex-node.pyz.
"""

import sys
from zipimport import zipimporter


class ZipImporter(zipimporter):
    """Python asks for a module's path before it loads it; zipimporter compiles the module to answer that."""

    def get_filename(self, fullname: str) -> str:
        """The path of a module's file."""
        path = f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}"
        return f"{path}/__init__.py" if self.is_package(fullname) else f"{path}.py"


def use_zip_importer() -> None:
    """Use it for every zip file that is imported from after this."""
    sys.path_hooks.insert(0, ZipImporter)
