# SPDX-License-Identifier: GPL-3.0-or-later
"""Entra ID: who may sign in, by what, and the tokens they get."""
