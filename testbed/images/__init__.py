# SPDX-License-Identifier: GPL-3.0-or-later
"""Images: root file systems of machines and services, and the small images that pods use."""
