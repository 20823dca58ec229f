# SPDX-License-Identifier: GPL-3.0-or-later
"""What the testbed needs of the machine it runs on."""
