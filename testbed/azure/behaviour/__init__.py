# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests may change and read while it runs: settings, faults, the record of requests."""
