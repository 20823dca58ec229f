# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that run inside a node machine: standard library only, Python 3.10."""
