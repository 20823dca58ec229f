# SPDX-License-Identifier: GPL-3.0-or-later
"""A private cluster: a site behind NAT, and a real OpenVPN server as the gateway to the cluster's network."""
