# SPDX-License-Identifier: GPL-3.0-or-later
"""What every part of the testbed uses: processes, containers, files, waits, one exception family."""
