# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `debug`: a support bundle as one archive, without secrets."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from ..config.document import redact, secrets_of
from ..engine.records.state import Store, store_of
from ..engine.run_log import log_of
from ..errors import FileUnusable, FlexNodeError
from ..machine.clock import stamp
from ..machine.facts import hostname
from ..machine.host import Host
from ..machine.layout import (
    APPLY_SERVICE,
    CONTAINERD,
    KUBELET,
    NPD,
    POLL_SERVICE,
    POLL_TIMER,
    UNIT_DIR,
    VPN,
)
from ..machine.program import COMMAND, VERSION
from ..net.answer import shown
from ..resources.log_file import rotated
from .masking import Masking
from .output import show

UNITS = (KUBELET, CONTAINERD, NPD, POLL_TIMER, POLL_SERVICE, APPLY_SERVICE)
PACKAGES = ("containerd*", "kube*", "runc*", "docker*", "azcmagent*", "openvpn*")
SECONDS = 20.0  # that one command may take
LARGEST = 8 << 20  # bytes of one file in the bundle; of a longer one the end
# Commands whose output says what a machine is like. None of them changes anything.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "system/uname.txt": ("uname", "-a"),
    "system/time.txt": ("timedatectl", "show"),
    "system/disks.txt": ("df", "-hT"),
    "system/modules.txt": ("lsmod",),
    "system/processes.txt": ("ps", "-eo", "pid,ppid,user,lstart,rss,comm"),
    "system/packages.txt": ("dpkg-query", "-W", *PACKAGES),
    "network/addresses.txt": ("ip", "-details", "address"),
    "network/routes.txt": ("ip", "route", "show", "table", "all"),
    "network/listeners.txt": ("ss", "-ltnp"),
    "network/names.txt": ("resolvectl", "status"),
    "units/failed.txt": ("systemctl", "--failed", "--no-pager"),
    "units/files.txt": ("systemctl", "cat", "--no-pager", *UNITS),
    "units/properties.txt": ("systemctl", "show", "--no-pager", *UNITS),
    "units/timers.txt": ("systemctl", "list-timers", "--all", "--no-pager", POLL_TIMER),
    "versions/kubelet.txt": ("kubelet", "--version"),
    "versions/containerd.txt": ("containerd", "--version"),
    "versions/runc.txt": ("runc", "--version"),
    "versions/python.txt": ("python3", "--version"),
    "runtime/pods.txt": ("ctr", "-n", "k8s.io", "containers", "ls"),
}
# Files without credentials. Kubeconfigs, certificates, keys and token caches are never read.
FILES = (
    "/etc/os-release",
    "/proc/meminfo",
    "/proc/mounts",
    "/proc/swaps",
    "/proc/cmdline",
    "/sys/fs/cgroup/cgroup.controllers",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/default/kubelet",
    "/etc/default/kubelet-registration",
    "/etc/default/kubeletconfig.json",
    "/etc/containerd/config.toml",
    "/etc/sysctl.d/99-zz-aks-flex-node.conf",
)
STATE = (
    "state.json",
    "transaction.json",
    "vpn-transaction.json",
    "status.json",
    "drift.json",
    "config-version.txt",
)
DOCUMENTS = ("current-config.json", "applied-config.json", "refused-config.json")


def debug(options: argparse.Namespace, host: Host) -> int:
    """Collect everything, mask it, and write one archive that only root can read."""
    name = f"{COMMAND}-debug-{hostname(host)}-{stamp(host.clock)[:19].replace(':', '')}"
    path = options.output or f"{name}.tar.gz"
    store = store_of(host)
    mask = Masking(known_secrets(host, store))
    parts = {entry: mask(text) for entry, text in collect(host, store, options.lines).items()}
    parts["README.txt"] = about(host, parts)
    write(path, archive(name, parts, host.clock.now()))
    show(f"{path}: {len(parts)} files, secrets masked")
    show("names, addresses and labels of this site are not masked: read it before you send it to anyone")
    return 0


def about(host: Host, parts: Iterable[str]) -> str:
    """What the bundle is, and what it has."""
    listed = "".join(f"  {name}\n" for name in sorted(parts))
    return (
        f"Support bundle of {hostname(host)}, {stamp(host.clock)}, {COMMAND} {VERSION}.\n"
        "Secrets of the configuration, and everything that looks like a credential, is masked as <secret>.\n"
        "Names, addresses and labels are not. A file that begins with FAILED could not be collected.\n\n"
        f"{listed}"
    )


def collect(host: Host, store: Store, lines: int) -> dict[str, str]:
    """Everything, as text; a part that fails says why."""
    parts = {name: output_of(host, argv) for name, argv in COMMANDS.items()}
    parts |= {f"files{path}": tail_of(host, path) for path in FILES if host.exists(path)}
    parts["system/sysctls.txt"] = sysctls(host)
    vpn = (VPN,) if host.exists(f"{UNIT_DIR}/{VPN}") else ()
    for unit in (KUBELET, CONTAINERD, *vpn):
        parts[f"journal/{unit}.txt"] = journal(host, "-u", unit, lines)
    parts[f"journal/{COMMAND}.txt"] = journal(host, "-t", COMMAND, lines)
    parts |= {f"state/{name}": host.text(f"{store.directory}/{name}") for name in STATE}
    parts |= {f"configuration/{name}": redacted(host, f"{store.directory}/{name}") for name in DOCUMENTS}
    parts["configuration/source.json"] = source_of(store)
    parts["state/journal.txt"] = failing(
        lambda: "".join(f"{entry.key}  was {entry.was}\n" for entry in store.journal.entries())
    )
    if path := failing(lambda: log_of(store.journal)):
        for file in (path, *rotated(host, path)):
            parts[f"log/{os.path.basename(file)}"] = tail_of(host, file)
    parts["status.json"] = failing(lambda: status(host))
    parts["plan.txt"] = failing(lambda: plan(host))
    return {name: text for name, text in parts.items() if text}


def failing(part: Callable[[], str]) -> str:
    """A part that may fail: a bundle is needed most where much is broken."""
    try:
        return part()
    except (FlexNodeError, OSError, ValueError, KeyError) as error:
        return f"FAILED: {error}\n"


def output_of(host: Host, argv: Iterable[str]) -> str:
    """What a command prints."""
    done = host.run(list(argv), timeout=SECONDS, check=False)
    status_line = f"(exit status {done.status})\n" if done.status else ""
    return f"$ {' '.join(done.argv)}\n{done.stdout}{done.stderr}{status_line}"


def journal(host: Host, what: str, name: str, lines: int) -> str:
    """The last lines of a unit or of our command."""
    return output_of(host, ["journalctl", what, name, "-o", "short-iso", "--no-pager", "-n", str(lines)])


def tail_of(host: Host, path: str) -> str:
    """The end of a file."""

    def read() -> str:
        return (host.read(path) or b"")[-LARGEST:].decode(errors="replace")

    return failing(read)


def sysctls(host: Host) -> str:
    """The kernel settings that a node needs."""
    from ..components.system_config import SYSCTLS

    values = {name: host.text(f"/proc/sys/{name.replace('.', '/')}").strip() for name in SYSCTLS}
    return "".join(
        f"{name} = {value or '(not there)'}  wanted {SYSCTLS[name]}\n" for name, value in values.items()
    )


def redacted(host: Host, path: str) -> str:
    """A stored document without its secrets; one that can't be read is not included at all."""
    content = host.read(path)
    if content is None:
        return ""

    def without_secrets() -> str:
        document = json.loads(content)
        inner = document.get("document")  # a refused one is kept with the reason
        shown_as = {**document, "document": redact(inner)} if inner else redact(document)
        return json.dumps(shown_as, indent=1, sort_keys=True) + "\n"

    return failing(without_secrets)


def source_of(store: Store) -> str:
    """What is polled; its URL without the query, which is a credential."""

    def masked() -> str:
        source = dict(store.source() or {})
        if not source:
            return ""
        public = {key: source.get(key) for key in ("etag", "digest", "configVersion", "settled", "notBefore")}
        public |= {"url": shown(str(source.get("url") or "")), "blocked": source.get("blocked")}
        return json.dumps({**public, "over": redact(source.get("over") or {})}, indent=1) + "\n"

    return failing(masked)


def known_secrets(host: Host, store: Store) -> set[str]:
    """Every secret that the configuration of this machine has, or names a file of."""
    found: set[str] = set()
    for name in DOCUMENTS:
        with contextlib.suppress(FlexNodeError, ValueError, AttributeError, TypeError):
            document = json.loads(host.text(f"{store.directory}/{name}") or "{}")
            for part in (document, document.get("document") or {}):
                found.update(secrets_of(part))
                found.update(from_files(host, part))
    with contextlib.suppress(FlexNodeError, AttributeError, TypeError):
        source: Mapping[str, Any] = store.source() or {}
        found.update(secrets_of(source.get("over") or {}))
        found.update(query_values(str(source.get("url") or "")))
        proxy = {**(source.get("proxy") or {}), "no": ""}
        found.update(str(value) for value in proxy.values() if value)
    found.add(host.text(identity_of(host)))
    return {secret.strip() for secret in found if secret and secret.strip()}


def query_values(url: str) -> Iterable[str]:
    """The query of a URL is a credential: as a whole, and each longer value in it."""
    query = url.partition("?")[2]
    values = (part.partition("=")[2] for part in query.split("&"))
    return (query, *(form for value in values if len(value) >= 12 for form in (value, unquote(value))))


def identity_of(host: Host) -> str:
    """The file with the kubelet's key: it is not collected, and masked wherever a line of it appears."""
    with contextlib.suppress(FlexNodeError, ValueError, AttributeError):
        document = json.loads(host.text(f"{store_of(host).directory}/applied-config.json") or "{}")
        directory = ((document.get("paths") or {}).get("kubernetes") or {}).get("kubeletDir")
        return f"{directory or '/var/lib/kubelet'}/pki/kubelet-client-current.pem"
    return "/var/lib/kubelet/pki/kubelet-client-current.pem"


def from_files(host: Host, document: Mapping[str, Any]) -> Iterable[str]:
    """The content of files that hold a secret instead of the document."""
    principal = (document.get("azure") or {}).get("servicePrincipal") or {}
    for key in ("clientSecretFile", "clientCertificateFile"):
        if path := principal.get(key):
            yield host.text(str(path))


def status(host: Host) -> str:
    """The status as `aks-flex-node status --json` prints it."""
    from ..status.document import status_of

    return json.dumps(status_of(host), indent=1) + "\n"


def plan(host: Host) -> str:
    """What `aks-flex-node plan` prints."""
    from ..operations.obtain import stored_config
    from ..operations.reconcile import EVERYTHING, reconcile

    run = reconcile(stored_config(host, pollable=True), EVERYTHING, check=True)
    return "".join(f"{line}\n" for line in (*run.actions, *run.warnings)) or "nothing to do\n"


def archive(name: str, parts: Mapping[str, str], now: float) -> bytes:
    """A tar.gz of texts, below one directory."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=now) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        for entry, text in sorted(parts.items()):
            content = text.encode()
            member = tarfile.TarInfo(f"{name}/{entry}")
            member.size, member.mode, member.mtime = len(content), 0o600, int(now)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def write(path: str, content: bytes) -> None:
    """A new file that only root can read, from its first byte."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        raise FileUnusable(
            "the bundle can't be written",
            where=path,
            why=os.strerror(error.errno or 0),
            fix=f"choose another file: {COMMAND} debug --output FILE",
        ) from error
