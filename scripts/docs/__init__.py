# SPDX-License-Identifier: GPL-3.0-or-later
"""The generated parts of the documentation, from the code they describe: a file per subject."""

import sys

from scripts.checkout import ROOT

sys.path.insert(0, str(ROOT / ".collections"))
