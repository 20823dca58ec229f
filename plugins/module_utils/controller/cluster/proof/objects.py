# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a proof: two pods and a Service per node, all with one label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

LABEL = "aks.flexnode/proof"
ROLE_LABEL = "aks.flexnode/proof-role"
OWNER = "aks.flexnode/proof-owner"
EXPIRES = "aks.flexnode/proof-expires"
PORT = 8080
MARK = "flexnode-proof"
REPORT = "report"
PROBE = "probe"
SERVER = "server"
NOBODY = 65534

SERVE = f"""mkdir -p /tmp/www && echo {MARK} > /tmp/www/index.html && exec httpd -f -p {PORT} -h /tmp/www"""

# Only what busybox's shell has built in, nc and nslookup. The result goes to the termination log: the kubelet
# carries it into the pod's status, so that it is seen even where the cluster can't reach the kubelet.
REPORT_SCRIPT = """
read -r start rest < /proc/uptime
start=${start%.*}
waited() { read -r now rest < /proc/uptime; echo $((${now%.*} - start)); }

while read -r key value rest; do
  case "$key" in
    nameserver) server="${server:-$value}" ;;
    search) for each in $value $rest; do case "$each" in svc.*) domain="$each" ;; esac; done ;;
  esac
done < /etc/resolv.conf

service=failed
while :; do
  said=$(printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 "$ADDRESS" "$PORT" 2>&1)
  case "$said" in *"$MARK"*) service=passed; break ;; esac
  [ "$(waited)" -lt "$SECONDS_EACH" ] || break
  sleep 1
done

# Without Services there is no cluster DNS either: then one try is enough.
limit=$(($(waited) + SECONDS_EACH))
[ "$service" = passed ] || limit=0
dns=failed
while :; do
  if answer=$(nslookup "$NAME.$NAMESPACE.${domain:-svc.cluster.local}" 2>&1); then dns=passed; break; fi
  [ "$(waited)" -lt "$limit" ] || break
  sleep 1
done

{
  echo "service $service"
  echo "dns $dns"
  echo "nameserver $server"
  echo "name $NAME.$NAMESPACE.${domain:-svc.cluster.local}"
  echo "$answer"
} > /dev/termination-log
"""


@dataclass(frozen=True)
class Run:
    """One proof: the names of its objects and when they expire."""

    identifier: str
    namespace: str
    image: str
    timeout: int
    owner: str
    expires: int

    @property
    def selector(self) -> str:
        """The label selector of all objects of this proof."""
        return f"{LABEL}={self.identifier}"

    @property
    def seconds_each(self) -> int:
        """How long a pod tries to reach the Service, and then to resolve its name."""
        return max(5, self.timeout // 4)

    def metadata(self, name: str, **labels: str) -> Json:
        """Metadata by which objects are found again, also after a killed run."""
        return {
            "name": name,
            "labels": {LABEL: self.identifier, "app.kubernetes.io/managed-by": "aks.flexnode", **labels},
            "annotations": {OWNER: self.owner, EXPIRES: str(self.expires)},
        }

    def name(self, index: int) -> str:
        """The name of the Service for a node."""
        return f"proof-{self.identifier}-{index}"

    def pod_name(self, index: int, role: str) -> str:
        """The name of a pod for a node."""
        return f"{self.name(index)}-{role}"


def namespace(run: Run) -> Json:
    """A namespace of the proof's own, with the restricted pod security standard."""
    metadata = run.metadata(run.namespace)
    metadata["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def service(run: Run, index: int) -> Json:
    """The Service in front of a node's server pod."""
    selector = {LABEL: run.identifier, ROLE_LABEL: f"{SERVER}-{index}"}
    ports = [{"port": PORT, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": run.metadata(run.name(index)),
        "spec": {"selector": selector, "ports": ports},
    }


def server_pod(run: Run, index: int, node: str) -> Json:
    """A pod that answers."""
    container = _container(run, SERVER, SERVE)
    container["ports"] = [{"containerPort": PORT}]
    return _pod(run, index, SERVER, node, {"containers": [container]})


def probe_pod(run: Run, index: int, node: str, address: str) -> Json:
    """A pod that tests the network first; then it stays, so that its log can be read and a command be run."""
    settings = {
        "ADDRESS": address,
        "MARK": MARK,
        "NAME": run.name(index),
        "NAMESPACE": run.namespace,
        "PORT": str(PORT),
        "SECONDS_EACH": str(run.seconds_each),
    }
    report = _container(run, REPORT, REPORT_SCRIPT)
    report["env"] = [{"name": name, "value": value} for name, value in settings.items()]
    stay = _container(run, PROBE, f"echo {MARK}; sleep {run.timeout}")
    return _pod(run, index, PROBE, node, {"initContainers": [report], "containers": [stay]})


def _container(run: Run, name: str, script: str) -> Json:
    return {
        "name": name,
        "image": run.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", script],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "500m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a mount, not a file
    }


def _pod(run: Run, index: int, role: str, node: str, content: Mapping[str, Any]) -> Json:
    """A pod for one node, whatever taints it has; through the scheduler, as any other pod."""
    chosen = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [chosen]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": run.metadata(run.pod_name(index, role), **{ROLE_LABEL: f"{role}-{index}"}),
        "spec": {
            "activeDeadlineSeconds": run.timeout + 60,  # if nothing else removes it
            "affinity": {"nodeAffinity": required},
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "securityContext": {
                "runAsGroup": NOBODY,
                "runAsNonRoot": True,
                "runAsUser": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
            **content,
        },
    }


def is_leftover(metadata: Mapping[str, Any], now: float, alive: Mapping[str, bool]) -> bool:
    """Whether an object is left over from an earlier proof: it expired, or its process has ended.

    `alive` holds the processes of this controller; those of other controllers are not known.
    """
    annotations = metadata.get("annotations") or {}
    if alive.get(str(annotations.get(OWNER, ""))) is False:
        return True
    try:
        return float(annotations.get(EXPIRES, "")) < now
    except ValueError:
        return False
