# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure's roles, and who has which of them where."""
