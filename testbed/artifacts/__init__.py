# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream binaries: recipes, builds and their cache."""
