# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages of the distribution: installed only if they are missing, removed only if they came with us."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import Completed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.package import (
    Package,
    PackageUnusable,
)
from tests.unit.node.fakes import Machine
from tests.unit.node.pull.team import DPKG, Apt, packages_of

GIT = Package("git")


@pytest.fixture
def apt(machine: Machine) -> Machine:
    vars(machine.commands)["_env"] = packages_of(machine)
    return machine


def a_host(machine: Machine, answer: Callable[[list[str]], tuple[int, str, str]]) -> tuple[Host, list[str]]:
    """A host whose apt-get answers this; and the lines that it was called with."""
    calls: list[str] = []

    def run(argv: object, data: bytes | None, timeout: float) -> Completed:
        words = [str(word) for word in argv]  # type: ignore[attr-defined]
        calls.append(" ".join(words))
        return Completed(tuple(words), *answer(words))

    return Host(root=str(machine.root), runner=run, clock=machine.clock), calls


def test_a_package_and_what_comes_with_it_goes_again(apt: Machine) -> None:
    assert GIT.difference(GIT.observe(apt.host)) is not None
    origin = GIT.capture(apt.host, apt.store.journal)
    assert origin == {"is": "absent", "adds": ["git-man", "liberror-perl", "git"]}
    GIT.apply(apt.host)
    assert GIT.difference(GIT.observe(apt.host)) is None
    assert Package.restore(apt.host, "git", origin, apt.store.journal) == []
    assert GIT.observe(apt.host) == "absent"
    install = next(call for call in apt.commands.calls if "install" in call and "--simulate" not in call)
    assert {"--no-remove", "--no-install-recommends", "DPkg::Lock::Timeout=900"} <= set(install)


def test_what_an_interrupted_installation_left_goes_too(apt: Machine) -> None:
    origin = GIT.capture(apt.host, apt.store.journal)
    GIT.apply(apt.host)
    apt.path("/usr/bin/git").unlink()
    apt.path(f"{DPKG}/git.list").unlink()
    assert Package.restore(apt.host, "git", origin, apt.store.journal) == []
    assert list(apt.path(DPKG).iterdir()) == []


def test_what_would_go_is_not_known_and_nothing_goes(apt: Machine) -> None:
    origin = GIT.capture(apt.host, apt.store.journal)
    GIT.apply(apt.host)
    apt.commands.statuses["env"] = 100
    with pytest.raises(PackageUnusable, match="can't be removed"):
        Package.restore(apt.host, "git", origin, apt.store.journal)
    purges = [call for call in apt.commands.calls if "purge" in call]
    assert all("--simulate" in call for call in purges)


def test_a_package_that_was_there_is_never_removed(apt: Machine) -> None:
    apt.put("/usr/bin/git", "", 0o755)
    origin = GIT.capture(apt.host, apt.store.journal)
    assert origin == {"is": "present"}
    assert Package.restore(apt.host, "git", origin, apt.store.journal) == []
    assert apt.commands.calls == []


def test_a_package_that_others_need_by_now_stays(apt: Machine) -> None:
    origin = GIT.capture(apt.host, apt.store.journal)
    GIT.apply(apt.host)
    env = vars(apt.commands)["_env"]

    def with_another(*words: str) -> str:
        more = "Purg git-lfs [3.0]\n" if "purge" in words else ""
        return str(env(*words)) + more

    vars(apt.commands)["_env"] = with_another
    (left,) = Package.restore(apt.host, "git", origin, apt.store.journal)
    assert "needed by now by git-lfs" in left
    assert GIT.observe(apt.host) == "present"


def test_a_package_that_was_only_upgraded_with_it_stays(machine: Machine) -> None:
    apt = Apt(machine, upgrades=("perl-base",))
    apt.mark("perl-base")
    vars(machine.commands)["_env"] = packages_of(machine, apt)
    origin = GIT.capture(machine.host, machine.store.journal)
    assert "perl-base" not in origin["adds"]
    GIT.apply(machine.host)
    assert Package.restore(machine.host, "git", origin, machine.store.journal) == []
    assert apt.installed() == {"perl-base": "manual"}


def test_packages_with_the_same_dependency_go_both(machine: Machine) -> None:
    """Their origins are captured before either is installed, so both list it."""
    apt = Apt(machine, {"git": ["git-man", "libgssapi"], "openssh-client": ["libgssapi"]})
    vars(machine.commands)["_env"] = packages_of(machine, apt)
    packages = [GIT, Package("openssh-client")]
    machine.store.journal.record(packages)
    for package in packages:
        package.apply(machine.host)
    outcomes = {item.key: (item.outcome, item.why) for item in restore_host(machine.host, machine.store)}
    assert outcomes == {"package:openssh-client": ("removed", ""), "package:git": ("removed", "")}
    assert apt.installed() == {}


def test_a_dependency_that_others_need_or_asked_for_since_stays(machine: Machine) -> None:
    apt = Apt(machine, {"git": ["git-man", "perl", "libcurl"], "curl": ["libcurl"]})
    vars(machine.commands)["_env"] = packages_of(machine, apt)
    origin = GIT.capture(machine.host, machine.store.journal)
    GIT.apply(machine.host)
    apt.mark("curl")
    apt.mark("perl")  # apt: name=perl
    apt.mark("leftover", "auto")  # of somebody else, unneeded, and none of our business
    assert Package.restore(machine.host, "git", origin, machine.store.journal) == []
    assert set(apt.installed()) == {"curl", "libcurl", "perl", "leftover"}


def test_package_lists_that_are_out_of_date_are_refreshed_once(machine: Machine) -> None:
    fresh: list[bool] = []

    def answer(words: list[str]) -> tuple[int, str, str]:
        if "update" in words:
            fresh.append(True)
            return 0, "", ""
        return (0, "Inst git (1.0)\n", "") if fresh else (100, "", "E: Unable to locate package git\n")

    host, calls = a_host(machine, answer)
    assert GIT.capture(host, machine.store.journal)["adds"] == ["git"]
    assert [line.split()[-1] for line in calls] == ["git", "update", "git"]
    fresh.clear()
    GIT.apply(host)
    assert fresh == [True]


def test_apt_that_fails_is_an_error_that_quotes_it(machine: Machine) -> None:
    def answer(words: list[str]) -> tuple[int, str, str]:
        return 100, "", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)\n"

    host, _calls = a_host(machine, answer)
    with pytest.raises(PackageUnusable, match="can't be installed") as caught:
        GIT.capture(host, machine.store.journal)
    assert "held by process 7" in caught.value.why
    assert "apt-get" in caught.value.where
    with pytest.raises(PackageUnusable):
        GIT.apply(host)
