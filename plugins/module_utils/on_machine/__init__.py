# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that run on a machine do: `run(module)` in a file per module, and what these files share.

They come to the machine with node/ in one archive (plugin_utils/on_machine.py), hence relative imports only.
"""
