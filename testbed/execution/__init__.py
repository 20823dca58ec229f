# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment of the collection as an image, and jobs that run in it the way AWX runs them."""
