#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The bare floor: what no join can do without. Copy the programs, write the fewest files, start two units.
# No checks, no undo, no verification, no second run. $1: a directory with programs/, cni/ and ca.crt.
set -eu
from=$1
mkdir -p /usr/local/bin /usr/local/sbin /opt/cni/bin /etc/cni/net.d /etc/containerd /etc/kubernetes/certs /var/lib/kubelet
cp "$from"/programs/* /usr/local/bin/
cp "$from"/cni/* /opt/cni/bin/
cp "$from"/ca.crt /etc/kubernetes/certs/ca.crt
cat > /etc/containerd/config.toml <<END
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "$PAUSE_IMAGE"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    SystemdCgroup = true
END
cat > /etc/cni/net.d/10-bench.conflist <<END
{"cniVersion": "1.0.0", "name": "bench", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipMasq": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "$POD_CIDR"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
cat > /var/lib/kubelet/config.json <<END
{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd",
 "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true},
  "x509": {"clientCAFile": "/etc/kubernetes/certs/ca.crt"}}, "authorization": {"mode": "Webhook"},
 "clusterDNS": ["$DNS"], "clusterDomain": "cluster.local", "rotateCertificates": true,
 "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "resolvConf": "/etc/resolv.conf"}
END
(umask 077 && cat > /var/lib/kubelet/bootstrap-kubeconfig) <<END
{"apiVersion": "v1", "kind": "Config", "current-context": "bootstrap",
 "clusters": [{"name": "c", "cluster": {"server": "$SERVER", "certificate-authority": "/etc/kubernetes/certs/ca.crt"}}],
 "users": [{"name": "bootstrap", "user": {"token": "$TOKEN"}}],
 "contexts": [{"name": "bootstrap", "context": {"cluster": "c", "user": "bootstrap"}}]}
END
cat > /etc/systemd/system/containerd.service <<END
[Service]
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
[Install]
WantedBy=multi-user.target
END
cat > /etc/systemd/system/kubelet.service <<END
[Unit]
After=containerd.service
Wants=containerd.service
[Service]
ExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.json \
 --bootstrap-kubeconfig=/var/lib/kubelet/bootstrap-kubeconfig --kubeconfig=/var/lib/kubelet/kubeconfig
KillMode=process
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --quiet --now containerd kubelet
