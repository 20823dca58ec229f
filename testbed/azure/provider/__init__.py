# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource provider of flexNodeConfig: it acts on the real cluster and on real blobs."""

from __future__ import annotations
