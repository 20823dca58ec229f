# SPDX-License-Identifier: GPL-3.0-or-later
"""Benches: how long a join takes, against the bare floor of the same run."""
