#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A kubelet that exits right after its start.
case "$1" in
--version) echo "Kubernetes v@VERSION@" && exit 0 ;;
esac
echo "E$(date +%m%d\ %H:%M:%S.%6N) $$ run.go:72] \"command failed\" err=\"failed to run Kubelet: this build of the testbed always exits\"" >&2
exit 1
