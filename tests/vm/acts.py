# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests on virtual machines do, by name: the pages that list it name also what was not run."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.layout import versions

# The parts of the tables: a life and a line are one row each, everything else is a row for each act.
LIFE, LINE, CASE = "life", "line", "case"

JOIN, POD, AGAIN, REBOOT, UPDATE, UNINSTALL = (
    "join",
    "pod with logs and exec",
    "second run, 0 changed",
    "reboot",
    "update",
    "uninstall, machine as before",
)
LIFE_ACTS = (JOIN, POD, AGAIN, REBOOT, UPDATE, UNINSTALL)

STATE, KUBELET, CONTAINERD = "/var/lib/aks-flex-node", "/usr/local/bin/kubelet", "/usr/local/bin/containerd"
UNITS, PKI = "/etc/systemd/system", "/var/lib/kubelet/pki"


@dataclass(frozen=True)
class Moment:
    """When the power is cut; `ended`: right after the command."""

    name: str
    condition: tuple[str, ...]

    @property
    def ended(self) -> bool:
        """Whether the command is over then."""
        return self.condition == ("ended",)


ENDED = Moment("the command ended", ("ended",))
ROLLED_BACK = Moment("it is rolled back", ("holds", f"{STATE}/transaction.json", "rolling back"))
CUT_JOIN = (
    Moment("the first origins are recorded", ("exists", f"{STATE}/journal")),
    Moment("a download has begun", ("exists", f"{STATE}/cache/*.part")),
    Moment("a version is being unpacked", ("exists", "/opt/aks-flex-node/versions/*/*.staging/*")),
    Moment("kernel settings are written", ("exists", "/etc/sysctl.d/99-zz-aks-flex-node.conf")),
    Moment("the kubelet is linked", ("exists", KUBELET)),
    Moment("containerd runs", ("runs", "containerd")),
    Moment("the kubelet runs", ("runs", "kubelet")),
    ENDED,
)
# Of a kubelet that syncs none of its keys and certificates; newer ones sync some.
CUT_CERTIFICATES = (
    Moment("the kubelet has made its certificate", ("exists", f"{PKI}/kubelet.crt")),
    Moment("the kubelet has got its certificate", ("exists", f"{PKI}/kubelet-client-current.pem")),
)
CUT_UPDATE = (
    Moment("the transaction is open", ("exists", f"{STATE}/transaction.json")),
    Moment("the kubelet leads to the new version", ("leads to", KUBELET, "{version}")),
    Moment("the new kubelet runs", ("runs", "kubelet", "/{version}")),
    ENDED,
)
CUT_ROLLBACK = (
    Moment("the kubelet leads to the bad version", ("leads to", KUBELET, versions.KUBELET_EXITS)),
    ROLLED_BACK,
    ENDED,
)
CUT_UNINSTALL = (
    Moment("the kubelet is stopped", ("runs not", "kubelet")),
    Moment("the kubelet is removed", ("gone", KUBELET)),
    Moment("the unit of containerd is removed", ("gone", f"{UNITS}/containerd.service")),
    ENDED,
)
OLDER = f"join of kubelet {versions.KUBERNETES_OLD_MINOR}"
CUTS = {
    "join": CUT_JOIN,
    OLDER: CUT_CERTIFICATES,
    "update": CUT_UPDATE,
    "rollback": CUT_ROLLBACK,
    "uninstall": CUT_UNINSTALL,
}


def cut_of(command: str) -> str:
    """The part of the tables that power cuts during a command are."""
    return f"power cut during {command}"
