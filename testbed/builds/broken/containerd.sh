#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A containerd that refuses its configuration, in the words of the real one.
case "$1" in
--version | -v) echo "containerd github.com/containerd/containerd/v2 v@VERSION@ " && exit 0 ;;
esac
echo 'containerd: failed to load TOML from /etc/containerd/config.toml: expected containerd config version equal to or less than `2`, got `3`' >&2
exit 1
