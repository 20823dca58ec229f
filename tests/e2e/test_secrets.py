# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets stay where they belong: a whole life of three nodes, one for each source, and a search everywhere.

Everything that a run leaves behind is collected first and searched then, so that secrets which are made
during a run (tokens, signatures) are looked for as well. Processes and temporary files are sampled some
times a second from outside: the machines' are seen through the same /proc as the controller's.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import yaml

from testbed import Testbed
from testbed.machine import Machine
from testbed.machine.container import ContainerMachine
from testbed.playbooks import Play
from tests.e2e import cloud, fleet
from tests.e2e.cloud import Operator
from tests.e2e.conftest import MachineMaker

STATE = "/var/lib/aks-flex-node"
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"
SOURCES = ("rp", "cluster", "blob")
PLACES = ("/etc", "/var", "/tmp", "/run", "/opt", "/home")
PASSING = ("tmp", "var/tmp", "home", "dev/shm", "run/user", "run/aks-flex-node")
"""Where files come and go while a run is under way."""
LARGEST = 1 << 20
"""Bytes of a file that are read: what is larger is a program or an image."""
PAUSE = 0.2
FOREIGN = stat.S_IRGRP | stat.S_IROTH
# Every signature of an address, and every token of a known id, whether we have seen the whole of it or not.
SIGNATURE = re.compile(r"[?&]sig=(?!\.\.\.|<|\*|VALUE)[A-Za-z0-9%+/=]{20,}")
# Runs on the machine: every file that somebody else may read, in directories that somebody else may enter.
READER = """
import json, os, stat, sys
places, largest = json.load(sys.stdin)
found = {}
for place in places:
    for directory, names, entries in os.walk(place):
        names[:] = [n for n in names if os.lstat(os.path.join(directory, n)).st_mode & 0o011]
        for path in (os.path.join(directory, n) for n in entries):
            try:
                seen = os.lstat(path)
                if stat.S_ISREG(seen.st_mode) and seen.st_mode & 0o044 and seen.st_size <= largest:
                    with open(path, "rb") as file:
                        found[path] = file.read().decode("latin-1")
            except OSError:
                continue
json.dump(found, sys.stdout)
"""
# Stands for python3-systemd on the controller: what modules say to the system's log goes to a file.
LOGGER = """
import os
def send(message=None, **fields):
    with open(os.environ["SYSLOG_FILE"], "a", encoding="utf-8") as file:
        file.write(repr([message, fields]) + "\\n")
def sendv(*fields):
    send(fields)
"""


@dataclass(frozen=True, repr=False)
class Searcher:
    """Knows secrets by name, and finds them in any text however they are written there."""

    secrets: Mapping[str, str]
    patterns: tuple[tuple[str, re.Pattern[str]], ...] = (("a signature", SIGNATURE),)

    def hits(self, places: Mapping[str, str]) -> list[str]:
        """`secret: place`, for each that was found; never the secret itself."""
        found = []
        for place, text in places.items():
            for name, secret in self.secrets.items():
                if any(form in text for form in forms(secret)):
                    found.append(f"{name}: {place}")
            found += [f"{name}: {place}" for name, pattern in self.patterns if pattern.search(text)]
        return sorted(found)


def forms(secret: str) -> set[str]:
    """As it is, in an address, in JSON, and in base64."""
    encoded = base64.b64encode(secret.encode()).decode()
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], encoded}


@dataclass(repr=False)
class Sampler:
    """Looks at all processes and at some directories again and again, as somebody who is not their owner."""

    directories: tuple[Path, ...]
    processes: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)
    rounds: int = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Samples while its block runs."""
        done = threading.Event()
        thread = threading.Thread(target=self._run, args=(done,), name="sampler")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(30)
            assert not thread.is_alive()

    def _run(self, done: threading.Event) -> None:
        while not done.is_set():
            self.look()
            done.wait(PAUSE)

    def look(self) -> None:
        """One round."""
        for process in Path("/proc").glob("[0-9]*"):
            # /proc says by their modes who may read them: a command line anybody, an environment its owner.
            self.processes.update(filter(None, map(readable, (process / "cmdline", process / "environ"))))
        for directory in self.directories:
            self.files.update(open_to_others(directory))
        self.rounds += 1


def readable(path: Path) -> str:
    """The content of a file that its group or others may read; empty where they may not."""
    try:
        seen = path.lstat()
        if not stat.S_ISREG(seen.st_mode) or not seen.st_mode & FOREIGN or seen.st_size > LARGEST:
            return ""
        return path.read_bytes().replace(b"\0", b" ").decode("latin-1")
    except OSError:
        return ""  # it went while we looked


def open_to_others(place: Path) -> dict[str, str]:
    """What others may read below a directory that they may enter."""
    found = {}
    for directory, names, entries in os.walk(place):
        names[:] = [name for name in names if mode(Path(directory, name)) & 0o011]
        texts = {name: readable(Path(directory, name)) for name in entries}
        found.update({os.path.join(directory, name): text for name, text in texts.items() if text})
    return found


def mode(path: Path) -> int:
    """Of a file that may be gone by now."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


@dataclass(repr=False)
class Life:
    """Three nodes from the first run to the last, and all that could be seen of it."""

    bed: Testbed
    operator: Operator
    machines: list[Machine]
    directory: Path
    runs: dict[str, Play] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    journals: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    private: dict[str, str] = field(default_factory=dict)
    sampler: Sampler = field(default_factory=lambda: Sampler(()))

    @property
    def searcher(self) -> Searcher:
        """All secrets of this life."""
        ids = {str(one["token_id"]) for one in self.bed.azure.invitations() if one["token_id"]}
        assert ids
        tokens = re.compile(rf"\b(?:{'|'.join(sorted(ids))})\.[a-z0-9]{{16}}\b")
        patterns = (("a signature", SIGNATURE), ("a token of the provider's", tokens))
        return Searcher(self.secrets, patterns)

    @property
    def syslog(self) -> Path:
        """What modules on the controller say to its log."""
        return self.directory / "syslog"

    def inventory(self, name: str, *machines: Machine, **config: Any) -> Path:
        """Each machine has its own source; a service principal of its own goes to each."""
        own = self.bed.azure.app_registration("secret-machine")
        principal = {"clientId": own.client_id, "clientTenant": self.bed.azure.tenant_id}
        azure = {"servicePrincipal": {**principal, "clientSecret": own.secret}}
        path = self.operator.inventory(
            self.directory / f"{name}.yml", "rp", machines or self.machines, azure=azure, **config
        )
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for host, variables in document["all"]["hosts"].items():
            source = host.partition("-")[2]
            variables["flexnode_config_source"] = source
            if source in ("cluster", "blob"):  # which mint a token only where the principal does not join
                variables["flexnode_host_config"]["kubernetesAuth"] = {"method": "bootstrapToken"}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    def play(self, name: str, playbook: str, inventory: Path, *options: str, fails: str = "") -> None:
        """A playbook at its most talkative, remembered by a name."""
        run = self.operator.play(playbook, inventory, "-vvv", "--diff", *options)
        assert (run.status == 0) == (not fails), run.output[-5000:]
        assert fails in run.output, run.output[-5000:]
        self.runs[name] = run

    def learn_tokens(self) -> None:
        """Every bootstrap token that the cluster has now."""
        for item in json.loads(self.bed.cluster.kubectl(*cloud.TOKENS, "--output=json"))["items"]:
            parts = (base64.b64decode(item["data"][part]).decode() for part in ("token-id", "token-secret"))
            self.secrets[item["metadata"]["name"]] = ".".join(parts)

    def learn(self) -> None:
        """The secrets that only the machines know, and what can be seen of them while they are nodes."""
        for machine in self.machines:
            self.private[machine.name] = machine.read(f"{STATE}/current-config.json")
            document = json.loads(self.private[machine.name])
            self.secrets[f"token of {machine.name}"] = document["azure"]["bootstrapToken"]["token"]
            source = machine.run(["cat", f"{STATE}/source.json"], check=False).stdout
            if source:
                self.secrets[f"signature of {machine.name}"] = signature(json.loads(source)["url"])

    def look(self, moment: str) -> None:
        """Files of the machines, and what the cluster has of them."""
        for machine in self.machines:
            given = json.dumps([PLACES, LARGEST])
            found = json.loads(machine.run(["python3", "-c", READER], input=given).stdout)
            self.files.update({f"{moment}: {machine.name}:{path}": text for path, text in found.items()})
        for kind in ("nodes", "csr", "events --all-namespaces", "leases --all-namespaces"):
            self.objects[f"{moment}: {kind}"] = self.bed.cluster.kubectl(
                "get", *kind.split(), "--output=json"
            )

    def ask(self) -> None:
        """What the machines say of themselves."""
        for machine in self.machines:
            for argv in (["status", "--json"], ["status"], ["plan", "--diff"]):
                done = machine.run(["aks-flex-node", *argv], check=False)
                self.statuses[f"{machine.name}: {' '.join(argv)}"] = done.stdout + done.stderr
            for name in ("status.json", "state.json"):
                found = machine.run(["cat", f"{STATE}/{name}"], check=False).stdout
                self.statuses[f"{machine.name}: {name}"] = found


def root(machine: Machine) -> Path:
    """The machine's files, seen from outside."""
    assert isinstance(machine, ContainerMachine), "only a container's files are seen from outside"
    return Path(f"/proc/{machine.pid}/root")


def signature(url: str) -> str:
    """Of an address, as it is meant."""
    return parse_qs(urlsplit(url).query)["sig"][0]


@pytest.fixture(scope="module")
def life(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A failed run, a bootstrap, a second run, new tokens, refused runs, and the end."""
    bed.azure.settings()
    bed.azure.heal()
    made = machines(*((f"secret-{source}", "debian12") for source in SOURCES))
    directory = tmp_path_factory.mktemp("life")
    directory.chmod(0o755)  # pytest's own would hide from others what the runs leave there
    lived = Life(bed, operator(bed, directory, "secretive", cloud.ROLE), made, directory)
    lived.secrets = {
        "Azure secret": lived.operator.environment["AZURE_SECRET"],
        "storage key": bed.blob.account_key,
        "provider's storage key": bed.blob.provider_account.key,
        "servicePrincipal's secret": bed.azure.app_registration("secret-machine").secret,
    }
    for machine in made:
        machine.run(["tee", "--append", TRUSTED], input=bed.ca_pem)  # as a site does with a CA of its own
    lived.sampler = Sampler((directory, *(root(one) / place for one in made for place in PASSING)))
    with lived.sampler.at_work():
        live(lived)
    for machine in made:
        lived.journals[machine.name] = machine.run(["journalctl", "--no-pager", "--output=export"]).stdout
    lived.files.update({f"controller: {path}": text for path, text in open_to_others(directory).items()})
    return lived


def operator(bed: Testbed, directory: Path, name: str, *roles: str) -> Operator:
    """An operator whose temporary files and module logs are here."""
    who = cloud.operator(bed, name, *roles)
    shim = directory / "shim" / "systemd"
    shim.mkdir(parents=True, exist_ok=True)
    (shim / "__init__.py").touch()
    (shim / "journal.py").write_text(LOGGER)
    (shim / "daemon.py").write_text("def booted():\n    return True\n")
    temporary = directory / "tmp"
    temporary.mkdir(exist_ok=True)
    surroundings = {
        "TMPDIR": str(temporary),
        "ANSIBLE_HOME": str(directory / "ansible"),
        "PYTHONPATH": str(shim.parent),
        "SYSLOG_FILE": str(directory / "syslog"),
    }
    return Operator(bed, {**who.environment, **surroundings})


def live(life: Life) -> None:
    """What happens to them."""
    bed, (rp, cluster, _blob) = life.bed, life.machines
    mirror = {**bed.node_document()["mirror"], "url": f"{bed.mirror.url}:444"}
    broken = life.inventory("broken", cluster, mirror=mirror)
    life.play("unreachable mirror, seen before", "bootstrap", broken, fails="FLEX-1310")
    unseen = json.dumps({"flexnode_preflight_skip": ["artifact-unreachable"]})
    life.play("unreachable mirror", "bootstrap", broken, "-e", unseen, fails="FLEX-1201")
    life.learn_tokens()

    inventory = life.inventory("hosts")
    life.play("check mode", "bootstrap", inventory, "--check")
    life.play("bootstrap", "bootstrap", inventory)
    life.learn()
    life.look("joined")
    life.play("second run", "bootstrap", inventory)
    given = f"flexnode_url_directory={life.directory}"  # a place that others may enter
    life.play("new tokens", "config_tokens", inventory, "-e", given, "--limit", rp.name)
    url = (life.directory / f"{rp.name}.url").read_text().strip()
    life.secrets["signature of the new address"] = signature(url)
    life.learn_tokens()
    life.ask()

    reader = operator(bed, life.directory, "secret-reader", "Reader")
    life.secrets["secret of the reader"] = reader.environment["AZURE_SECRET"]
    refused = reader.play("bootstrap", inventory, "-vvv", "--diff", "-e", "flexnode_update_secret=always")
    assert refused.status != 0
    assert "FLEX-17" in refused.output
    life.runs["missing permission"] = refused
    life.play(
        "wrong key", "config_put", inventory, "-e", wrong_key(life), "--limit", "secret-blob", fails="FLEX-17"
    )

    life.play("unbootstrap", "unbootstrap", inventory)
    life.play("withdrawal", "config_delete", inventory)
    life.look("gone")


def wrong_key(life: Life) -> str:
    """A storage key that the account does not have, in a file of variables."""
    key = base64.b64encode(b"PLANTED" * 9).decode()
    life.secrets["wrong storage key"] = key
    path = life.directory / "wrong.json"
    path.write_text(json.dumps({"flexnode_blob_account_key": key}))
    path.chmod(0o600)
    return f"@{path}"


class TestSearcher:
    """It must be able to find something."""

    def test_a_planted_secret_is_found_in_each_form(self) -> None:
        secret = 'p/l+a=n"ted'
        searcher = Searcher({"planted": secret})
        for form in (secret, quote(secret, safe=""), json.dumps(secret), base64.b64encode(secret.encode())):
            text = f"before {form if isinstance(form, str) else form.decode()} after"
            assert searcher.hits({"here": text}) == ["planted: here"]
        assert searcher.hits({"here": "p l a n t e d"}) == []
        address = "https://blobs/c/config.json?sv=2021&sig=" + "a%2B" * 8
        assert searcher.hits({"log": address}) == ["a signature: log"]
        assert searcher.hits({"log": "https://blobs/c/config.json?..."}) == []

    def test_a_command_line_and_an_open_file_are_found(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        planted, environment = f"PLANTED~{uuid.uuid4().hex}", f"PLANTED~{uuid.uuid4().hex}"
        (tmp_path / "open").write_text(planted)
        (tmp_path / "closed").write_text(environment)
        (tmp_path / "closed").chmod(0o600)
        sampler = Sampler((tmp_path,))
        argv = [sys.executable, "-c", "import time; time.sleep(30)", planted]
        with subprocess.Popen(argv, env={"PLANTED": environment}) as process:
            try:
                own = Path(f"/proc/{process.pid}/cmdline")
                fleet.eventually("an execution", lambda: planted in readable(own))
                sampler.look()
            finally:
                process.kill()
        searcher = Searcher({"planted": planted, "private": environment})
        assert searcher.hits({"processes": "\n".join(sampler.processes)}) == ["planted: processes"]
        assert searcher.hits(sampler.files) == [f"planted: {tmp_path / 'open'}"]

    def test_on_a_machine_too(self, machines: MachineMaker) -> None:
        """By file, journal and process of a real machine."""
        (machine,) = machines(("secret-none", "debian12"))
        planted = f"PLANTED~{uuid.uuid4().hex}"
        machine.run(["tee", "/etc/planted"], input=planted)
        machine.run(["sh", "-c", "umask 077; tee /etc/private"], input=planted)
        machine.run(["systemd-cat", "echo", planted])
        machine.run(["systemd-run", "--unit=planted", "sleep", "30"])
        machine.run(["systemd-run", "--unit=planted-too", "sh", "-c", "sleep 30; :", planted])
        found = json.loads(
            machine.run(["python3", "-c", READER], input=json.dumps([["/etc"], LARGEST])).stdout
        )
        searcher, sampler = Searcher({"planted": planted}), Sampler(())
        assert searcher.hits(found) == ["planted: /etc/planted"]
        fleet.eventually(
            "a line in the journal",
            lambda: searcher.hits({"journal": machine.run(["journalctl", "--output=export"]).stdout}),
            seconds=20,
        )
        sampler.look()
        assert searcher.hits({"processes": "\n".join(sampler.processes)}) == ["planted: processes"]


class TestLife:
    """Nothing of it anywhere."""

    def test_the_secrets_are_real(self, life: Life) -> None:
        """They are found where they belong: in the machines' own documents, and in the inventory."""
        for name, text in life.private.items():
            found = life.searcher.hits({name: text})
            assert {f"token of {name}: {name}", f"servicePrincipal's secret: {name}"} <= set(found)
        assert "storage key: hosts" in life.searcher.hits(
            {"hosts": (life.directory / "hosts.yml").read_text()}
        )
        assert {f"signature of {life.machines[2].name}", "signature of the new address"} <= set(life.secrets)

    def test_output_of_playbooks(self, life: Life) -> None:
        assert life.searcher.hits({name: run.output for name, run in life.runs.items()}) == []

    def test_results_as_callbacks_see_them(self, life: Life) -> None:
        """What AWX stores."""
        assert life.searcher.hits({name: json.dumps(run.events) for name, run in life.runs.items()}) == []

    def test_processes(self, life: Life) -> None:
        sampled = life.sampler
        assert any("ansible-playbook" in one for one in sampled.processes)
        assert any(one.startswith(("ssh ", "/usr/bin/ssh ")) for one in sampled.processes)
        assert any("kubelet" in one for one in sampled.processes)
        print(f"{sampled.rounds} rounds, {len(sampled.processes)} command lines, {len(sampled.files)} files")
        assert life.searcher.hits({one[:200]: one for one in sampled.processes}) == []

    def test_temporary_files(self, life: Life) -> None:
        assert life.searcher.hits(life.sampler.files) == []

    def test_files_that_others_may_read(self, life: Life) -> None:
        for machine in life.machines:
            assert f"joined: {machine.name}:/etc/default/kubelet" in life.files
        assert life.searcher.hits(life.files) == []

    def test_journals_of_the_machines(self, life: Life) -> None:
        for text in life.journals.values():
            assert "flexnode_reconcile" in text, "modules told the log that they were invoked"
        assert life.searcher.hits(life.journals) == []

    def test_log_of_the_controller(self, life: Life) -> None:
        text = life.syslog.read_text(encoding="utf-8")
        for module in ("cluster_info", "bootstrap_token", "config"):  # those that return secrets do not log
            assert f"flexnode_{module} Invoked with" in text
        assert life.searcher.hits({"syslog": text}) == []

    def test_objects_in_the_cluster(self, life: Life) -> None:
        for machine in life.machines:
            assert machine.name in life.objects["joined: nodes"]
        assert life.searcher.hits(life.objects) == []

    def test_status(self, life: Life) -> None:
        for machine in life.machines:
            assert '"phase"' in life.statuses[f"{machine.name}: status --json"]
        assert life.searcher.hits(life.statuses) == []
