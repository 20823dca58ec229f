# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.Network: VNets, subnets, public addresses, and VPN gateways with the profiles of their clients.

A real OpenVPN server may stand for the gateways: see server.py for what it reads and what it tells.
"""
