# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated Azure as a program: where it is, its packages, its start, what each request passes."""
