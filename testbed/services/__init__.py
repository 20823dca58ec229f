# SPDX-License-Identifier: GPL-3.0-or-later
"""Services beside the cluster: a registry, blob storage, a VM's metadata service, a kubelogin."""
