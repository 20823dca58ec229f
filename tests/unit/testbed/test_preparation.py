# SPDX-License-Identifier: GPL-3.0-or-later
"""What a testbed makes before it starts: only what is missing, told before and while it is made."""

from __future__ import annotations

import threading

import pytest

from testbed import preparation
from testbed.artifacts import store, upstream
from testbed.basics import paths
from testbed.layout import versions
from testbed.preparation import Part


def a_part(name: str, made: list[str], *, compiles: bool = False, there: bool = False) -> Part:
    return Part(name, 30, lambda: there, lambda: made.append(name), compiles=compiles)


@pytest.fixture(autouse=True)
def unreached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "reachable", lambda: False)


def test_what_is_there_is_not_made_and_not_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    made: list[str] = []
    preparation.make([a_part("a", made, there=True)])
    assert (made, capsys.readouterr().out) == ([], "")


def test_the_duration_is_told_before_and_what_comes_next_after_each_part(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made: list[str] = []
    preparation.make([a_part("a", made, compiles=True), a_part("b", made, compiles=True)])
    said = capsys.readouterr().out.splitlines()
    assert made == ["a", "b"]
    assert said[0] == "to make, once: a (30 s), b (30 s)"
    assert said[1].startswith("about 60 s here: the release hosts are not reached")
    assert said[2].endswith("about 30 s left: b")
    assert len(said) == 3


def test_compiling_and_installing_run_beside_each_other() -> None:
    """Each waits for the other one: they end only if both have begun."""
    meeting = threading.Barrier(2, timeout=20)
    parts = [
        Part(str(compiles), 30, lambda: False, meeting.wait, compiles=compiles) for compiles in (True, False)
    ]
    preparation.make(parts)


def test_a_part_that_fails_is_an_error() -> None:
    def fails() -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        preparation.make([Part("a", 1, lambda: False, fails)])


def test_a_testbed_asks_for_no_more_than_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(store, "find", lambda *pair: asked.append(pair[:2]))
    own = paths.arch()
    for part in preparation.parts(versions.KUBERNETES, [own]):
        if part.compiles:
            part.is_there()
    assert {name for name, _ in asked} == {"kube-apiserver", "containerd", "runc", "cni-plugins", "coredns"}


def test_the_longer_of_both_rows_counts(capsys: pytest.CaptureFixture[str]) -> None:
    made: list[str] = []
    preparation.make([a_part("a", made, compiles=True), a_part("b", made)])
    assert "about 30 s here" in capsys.readouterr().out


def test_nothing_is_said_of_programs_where_only_images_are_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    preparation.make([a_part("a", [])])
    assert "about 30 s here\n" in capsys.readouterr().out


def test_what_runs_and_what_comes_then_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    made: list[str] = []
    preparation.make([a_part(name, made, compiles=True) for name in "abc"])
    assert capsys.readouterr().out.splitlines()[2].endswith("about 60 s left: b; then c")


def test_programs_of_one_source_are_one_part() -> None:
    names = [part.name for part in preparation.parts(versions.KUBERNETES, [paths.arch()], ["debian12"])]
    assert names.count(f"kubernetes {versions.KUBERNETES}") == 1
    assert "image node-debian12" in names
    assert not any("1.7.32" in name for name in names)


def test_downloads_are_told_as_such(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(upstream, "reachable", lambda: True)
    (kubernetes,) = preparation.artifacts((("kubelet", versions.KUBERNETES),), paths.arch())
    assert kubernetes.seconds == preparation.DOWNLOADED
    preparation.make([a_part("a", [], compiles=True)])
    assert "programs are downloaded" in capsys.readouterr().out
