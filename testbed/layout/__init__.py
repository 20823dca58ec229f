# SPDX-License-Identifier: GPL-3.0-or-later
"""One testbed on paper: its name, directory, addresses, keys and versions."""
