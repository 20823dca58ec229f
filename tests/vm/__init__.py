# SPDX-License-Identifier: GPL-3.0-or-later
"""What only a machine with a kernel of its own shows. `make vm` runs it; `make test` does not."""
