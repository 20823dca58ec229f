# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m testbed"""

from __future__ import annotations

import sys

from testbed.cli import main

sys.exit(main(sys.argv[1:]))
