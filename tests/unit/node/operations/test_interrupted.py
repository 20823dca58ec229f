# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Updates that were killed, held by a cut line, or rolled back halfway: what the next run makes of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components import agent
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.record import Record, Stage
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR, Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    Blocked,
    DiskFull,
    NodeNotReady,
    UnitFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import sources
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations import refusal
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.checks import has_joined
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import stored_config
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import reconcile
from tests.unit.node.fake_api import FakeApi, a_node
from tests.unit.node.servers import Pki, Request
from tests.unit.node.sites import (
    CONFIG,
    CONTAINERD,
    DRAINED,
    IDENTITY,
    KUBELET,
    MORE,
    SHORT,
    Killed,
    Site,
    exits_from_now_on,
    killed_at,
)

FORTY = {"node": {"maxPods": 40}}
PROXY = "/etc/systemd/system/containerd.service.d/10-proxy.conf"


def stage(site: Site) -> Stage | None:
    record = Record.of(site.machine.store.transaction())
    return record.stage if record else None


def hold(site: Site, *changes: dict[str, Any], unit: str = KUBELET) -> None:
    """An update whose line is cut when a unit starts; when it is over, the line is back."""
    starts = site.machine.commands.on_start
    usual = starts.get(unit, lambda: None)
    starts[unit] = lambda: site.api.refuse.update({"GET": 503})
    with pytest.raises(ApiUnreachable, match="stays in place"):
        site.join(*changes, SHORT)
    starts[unit] = usual
    site.api.refuse.clear()
    assert stage(site) is Stage.PROVING


def ready_after_a_start(site: Site, unit: str = KUBELET) -> None:
    """The Node is not Ready now; after another start it is."""
    site.api.nodes["edge-1"] = a_node(ready=False)
    site.machine.commands.on_start[unit] = lambda: site.api.nodes.update({"edge-1": a_node()})


def dies_in_the_rollback(site: Site) -> Callable[[str], None]:
    """For `progress`: killed when the units of the previous generation are started."""

    def progress(sentence: str) -> None:
        if sentence.startswith("start ") and stage(site) is Stage.ROLLING_BACK:
            raise Killed

    return progress


def is_cordoned(site: Site) -> bool:
    return bool(site.api.nodes["edge-1"]["spec"].get("unschedulable"))


# -- held by a cut line ------------------------------------------------------------------------------------


def test_a_cut_line_holds_and_the_next_run_rolls_back(site: Site) -> None:
    site.join()
    before = site.machine.snapshot("/etc", "/usr")
    hold(site, MORE)
    assert '"maxPods": 50' in site.machine.text(CONFIG)
    ready_after_a_start(site)
    with pytest.raises(NodeNotReady, match="rolled back"):
        site.join(MORE, SHORT)
    assert site.machine.snapshot("/etc", "/usr") == before
    assert stage(site) is None


def test_a_cut_line_holds_and_the_next_run_commits(site: Site) -> None:
    site.join()
    hold(site, MORE)
    run = site.join(MORE, SHORT)
    assert run.actions == []
    assert stage(site) is None
    assert (site.machine.store.applied_config() or {})["node"]["maxPods"] == 50


def test_a_single_component_does_not_prove_a_held_update(site: Site) -> None:
    site.join()
    hold(site, MORE)
    reconcile(stored_config(site.machine.host, purpose="prepare"), ["cni"], machine="x86_64")
    assert stage(site) is Stage.PROVING


def test_what_a_held_update_removed_and_a_rollback_restored_is_still_ours(site: Site) -> None:
    before = site.machine.snapshot("/etc", times=False)
    proxy = {"proxy": {"https": "http://proxy.example:3128", "no": ["127.0.0.1"]}}
    site.join(proxy)
    hold(site, unit=CONTAINERD)
    assert not site.machine.path(PROXY).exists()
    ready_after_a_start(site, CONTAINERD)
    with pytest.raises(NodeNotReady, match="rolled back"):
        site.join(SHORT)
    assert site.machine.path(PROXY).exists()
    site.join(proxy)
    leave(site.machine.host)
    assert site.machine.snapshot("/etc", times=False) == before


# -- killed ------------------------------------------------------------------------------------------------


def test_a_rollback_that_was_killed_is_completed_by_the_next_run(site: Site) -> None:
    site.join()
    before = site.machine.snapshot("/etc", "/usr")
    exits_from_now_on(site)
    with pytest.raises(Killed):
        site.join(MORE, progress=dies_in_the_rollback(site))
    assert site.join().summary == "unchanged"
    assert site.machine.snapshot("/etc", "/usr") == before
    assert stage(site) is None


def test_after_a_rollback_that_was_killed_the_node_takes_pods_again(site: Site) -> None:
    site.join()
    exits_from_now_on(site)
    with pytest.raises(Killed):
        site.join(DRAINED, progress=dies_in_the_rollback(site))
    assert is_cordoned(site)
    with pytest.raises(Blocked):
        site.join(DRAINED)
    assert not is_cordoned(site)
    assert site.machine.store.state()["phase"] == "NodeJoined"


def test_an_update_that_was_killed_after_its_commit_is_the_one_to_return_to(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.join()
    with killed_at(monkeypatch, Store, "finish"):
        site.join(FORTY)
    exits_from_now_on(site)
    with pytest.raises(UnitFailed, match="rolled back"):
        site.join(MORE)
    assert (site.machine.store.applied_config() or {})["node"]["maxPods"] == 40
    assert '"maxPods": 40' in site.machine.text(CONFIG)


def test_an_update_whose_line_is_cut_before_its_commit_is_not(site: Site) -> None:
    site.join()

    def labelled(request: Request) -> None:
        if request.method == "PATCH":  # the gates have passed
            site.api.refuse["GET"] = 503

    site.api.arrives = labelled
    with pytest.raises(ApiUnreachable):
        site.join(FORTY, {"node": {"labels": {"rack": "7"}}})
    site.api.arrives = lambda _request: None
    site.api.refuse.clear()
    exits_from_now_on(site)
    with pytest.raises(UnitFailed, match="rolled back"):
        site.join(MORE)
    assert "maxPods" not in (site.machine.store.applied_config() or {})["node"]
    assert '"maxPods": 110' in site.machine.text(CONFIG)


# -- rolled back -------------------------------------------------------------------------------------------


def test_a_kubelet_that_was_stopped_before_an_update_runs_after_its_rollback(site: Site) -> None:
    site.join()
    site.machine.commands.units[KUBELET] = "inactive"
    exits_from_now_on(site)
    with pytest.raises(UnitFailed, match="rolled back"):
        site.join(MORE)
    assert site.machine.commands.units[KUBELET] == "active"


def test_a_disk_that_fills_up_halfway_is_the_error_and_all_is_undone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.join()
    before = site.machine.snapshot("/etc", "/usr")
    write, is_full = Host.write, []

    def fills(self: Host, path: str, *arguments: Any, **options: Any) -> Any:
        if path == "/etc/default/kubelet-registration":
            is_full.append(path)
        if is_full and path.startswith((DATA_DIR, is_full[0])):
            raise DiskFull("no space left on the disk", where=path)
        return write(self, path, *arguments, **options)

    monkeypatch.setattr(Host, "write", fills)
    with pytest.raises(DiskFull) as caught:
        site.join(MORE, {"node": {"labels": {"rack": "7"}}})
    assert caught.value.where == "/etc/default/kubelet-registration"
    assert site.machine.snapshot("/etc", "/usr") == before


def test_a_node_that_was_sent_to_another_server_is_uncordoned_where_it_was_cordoned(
    site: Site, pki: Pki
) -> None:
    site.join()
    cordoned: list[bool] = []
    site.machine.commands.on_start[KUBELET] = lambda: cordoned.append(is_cordoned(site))
    with FakeApi(nodes={"edge-1": a_node(ready=False)}, now=site.machine.clock.now).running(pki) as other:
        with pytest.raises(NodeNotReady, match="rolled back"):
            site.join(DRAINED, SHORT, {"node": {"kubelet": {"serverURL": other.server.url}}})
        assert not any(asked.startswith("PATCH") for asked in other.server.asked)
    assert cordoned[0]
    assert not is_cordoned(site)


def test_a_release_that_was_rolled_back_is_blocked_and_the_one_before_it_is_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document is the same; the program is not."""
    site.join()
    link = site.machine.path("/usr/local/bin/aks-flex-node")
    works, new = link.readlink(), {**sources(), "new.py": b"1"}
    site.api.arrives = lambda _request: site.api.nodes.update(
        {"edge-1": a_node(ready=link.readlink() == works)}
    )
    with monkeypatch.context() as patched:
        for user in (agent, refusal):
            patched.setattr(user, "sources", lambda: new)
        with pytest.raises(NodeNotReady, match="rolled back"):
            site.join()
        assert link.readlink() == works
        with pytest.raises(Blocked, match="cni plugin not initialized"):
            site.join()
    assert site.join().summary == "unchanged"


# -- a power cut: what the kubelet had not synced ---------------------------------------------------------

PKI = IDENTITY.rpartition("/")[0]
KUBELET_DIR = PKI.rpartition("/")[0]


def starts_before(site: Site, directory: Path) -> list[list[str]]:
    """What systemd runs before the kubelet, for another directory."""
    lines = (
        (site.machine.root / "etc/systemd/system/kubelet.service.d/10-kubeadm.conf").read_text().splitlines()
    )
    found = [line.removeprefix("ExecStartPre=-") for line in lines if line.startswith("ExecStartPre=-")]
    return [line.replace(KUBELET_DIR, str(directory)).split() for line in found]


@pytest.mark.parametrize(
    ("torn", "left"),
    [
        ((), {"kubelet.crt", "kubelet.key", "kubelet-client-2026.pem", "kubelet-client.key.tmp"}),
        (("kubelet-client.key.tmp",), {"kubelet.crt", "kubelet.key", "kubelet-client-2026.pem"}),
        (("kubelet-client-2026.pem",), {"kubelet.crt", "kubelet.key", "kubelet-client.key.tmp"}),
        (("kubelet.key",), {"kubelet-client-2026.pem", "kubelet-client.key.tmp"}),
        (("kubelet.crt", "kubelet.key"), {"kubelet-client-2026.pem", "kubelet-client.key.tmp"}),
    ],
)
def test_empty_keys_and_certificates_are_removed_before_the_kubelet_starts(
    site: Site, tmp_path: Path, torn: tuple[str, ...], left: set[str]
) -> None:
    """With one of them it would never start again; of a pair it needs both."""
    site.join()
    directory = tmp_path / "kubelet"
    directory.symlink_to(tmp_path / "disk", target_is_directory=True)
    pki, volume = tmp_path / "disk/pki", tmp_path / "disk/pods/kubelet-client-1"
    pki.mkdir(parents=True)
    volume.parent.mkdir()
    volume.touch()
    for name in ("kubelet.crt", "kubelet.key", "kubelet-client-2026.pem", "kubelet-client.key.tmp"):
        (pki / name).write_text("" if name in torn else "a key")
    (pki / "kubelet-client-current.pem").symlink_to(pki / "kubelet-client-2026.pem")
    before = starts_before(site, directory)
    assert len(before) == 2
    for argv in before:
        subprocess.run(argv, check=True)
    assert {path.name for path in pki.iterdir()} - {"kubelet-client-current.pem"} == left
    assert volume.exists()


def test_an_empty_certificate_is_none(site: Site) -> None:
    """It counted as one: with its token gone, no run could have said what is missing."""
    site.join()
    assert has_joined(site.machine.host, site.document)
    site.machine.put(IDENTITY)
    assert not has_joined(site.machine.host, site.document)


def test_a_first_certificate_is_synced_before_the_join_counts(site: Site) -> None:
    site.join()
    synced = [call for call in site.machine.commands.calls if call[0] == "sync"]
    assert synced == [("sync", "--", IDENTITY, PKI)]
    site.join(MORE)
    assert site.machine.commands.times("sync") == 1, "the kubelet renews it long after"


def test_what_was_restored_is_on_the_disk_before_the_journal_goes(site: Site) -> None:
    site.join()
    journal, seen = site.machine.path(f"{DATA_DIR}/journal"), []
    commands = site.machine.commands
    commands._sync = lambda *_: seen.append(journal.exists()) or ""  # type: ignore[attr-defined]
    leave(site.machine.host)
    assert seen == [True, False]


def test_what_a_rollback_restored_is_synced_while_its_record_is_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With /var on a disk of its own, a power cut could else keep the change and lose its record."""
    site.join()
    exits_from_now_on(site)
    sync, synced = Host.sync_directory, []

    def noted(host: Host, path: str) -> None:
        synced.append((stage(site), path))
        sync(host, path)

    monkeypatch.setattr(Host, "sync_directory", noted)
    with pytest.raises(UnitFailed):
        site.join(MORE, SHORT)
    assert (Stage.ROLLING_BACK, CONFIG.rpartition("/")[0]) in synced
