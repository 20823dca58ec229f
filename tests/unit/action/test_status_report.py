# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page of a fleet: everything is on it, nothing of a machine becomes markup, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.aks.flexnode.plugins.action.flexnode_status_report import report, write
from ansible_collections.aks.flexnode.plugins.module_utils.controller.report.fleet_status import row_of
from ansible_collections.aks.flexnode.plugins.plugin_utils.status_page import page
from tests.unit.controller.fleets import UNREACHABLE, an_answer, drifted

NOW = 1_794_730_000.0  # 2026-11-15
EVIL = """</td><script>alert(1)</script><img src=x onerror="alert(2)">'{{ 7 * 7 }}"""
# What an attribute may load or run.
LOADING = ("src", "href", "srcset", "action", "formaction", "data", "poster", "style", "background")


class Elements(HTMLParser):
    """Every element with its attributes, and the text of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def rows(*answers: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [row_of(host, answer, NOW) for host, answer in answers]


def test_everything_about_a_machine_is_on_the_page() -> None:
    answer = an_answer("edge-1", "Drift", "two items", drift=drifted("one thing", "another"))
    text = page(rows(("host-1", answer), ("host-2", UNREACHABLE)), NOW)
    words = " ".join(" ".join(Elements(text).text).split())
    for part in ("host-1", "Node edge-1", "Drift", "two items", "one thing (found)", "another (found)"):
        assert part in words
    for part in ("1708123456", "1.34.4", "containerd 2.3.4", "2027-11-01", "Ok", "Unreachable", "timed out"):
        assert part in words
    assert "Read at 2026-11-15" in words
    assert "<title>2 of 2 not right</title>" in text


def test_what_is_not_right_comes_first() -> None:
    wrong = an_answer("z", "FLEX-1501", "kubelet.service not running")
    text = page(rows(("a", an_answer("a")), ("b", UNREACHABLE), ("z", wrong)), NOW)
    assert re.findall(r'<tr class="(\w+)">', text) == ["wrong", "unreachable", "right"]
    right = page(rows(("edge-10", an_answer("x")), ("edge-9", an_answer("y"))), NOW)
    assert "<title>2 flex nodes, all right</title>" in right
    assert re.findall(r'<th scope="row" data-sort="([^"]*)"', right) == ["edge-9", "edge-10"]


def test_reasons_are_counted() -> None:
    stopped = an_answer("z", "FLEX-1501", "kubelet.service not running")
    text = page(rows(("a", an_answer("a")), ("b", stopped), ("c", UNREACHABLE), ("d", stopped)), NOW)
    found = re.findall(r'data-filter="([^"]*)"><b>(\d+)</b>', text)
    assert found == [("FLEX-1501", "2"), ("Unreachable", "1")]


def test_nothing_of_a_machine_becomes_markup() -> None:
    answer = an_answer(EVIL, EVIL, EVIL, drift=drifted(EVIL), phase=EVIL)
    answer["status"]["node"] |= {"kubeletVersion": EVIL, "containerRuntime": EVIL}
    answer["status"]["config"] = {"version": EVIL, "appliedVersion": None}
    answer["words"] |= {"status": EVIL, "config": EVIL, "follows": EVIL, "drift": EVIL}
    text = page(rows((EVIL, answer), ("b", {**UNREACHABLE, "msg": EVIL})), NOW)
    elements = Elements(text).found
    assert [tag for tag, _ in elements].count("script") == 1
    assert not [tag for tag, _ in elements if tag in ("img", "iframe", "link", "object", "embed", "base")]
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    assert "49" not in Elements(text).text, "no text is a template"


def test_the_page_needs_nothing_else_and_allows_nothing_else() -> None:
    text = page(rows(("a", an_answer("a"))), NOW)
    elements = Elements(text).found
    loaded = [(tag, name) for tag, attributes in elements for name in attributes if name in LOADING]
    assert loaded == []
    assert not re.search(r"url\(|@import|https?://", text)
    (policy,) = (one["content"] for tag, one in elements if tag == "meta" and "http-equiv" in one)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        (inline,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_an_empty_fleet_is_a_page_too() -> None:
    assert "<b>0</b>" in page([], NOW)


def test_the_report_as_data() -> None:
    document = json.loads(report("fleet.json", rows(("a", an_answer("a")), ("b", UNREACHABLE)), NOW))
    assert document["summary"] == {"right": 1, "wrong": 0, "unreachable": 1}
    assert [(one["host"], one["reason"]) for one in document["machines"]] == [
        ("a", "NodeJoined"),
        ("b", "Unreachable"),
    ]


def test_another_kind_of_report_is_refused() -> None:
    with pytest.raises(AnsibleActionFail, match=r"ends in \.html or \.json"):
        report("fleet.pdf", [], NOW)


def test_a_report_replaces_the_old_one_at_once(tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    path.write_text("old")
    write(str(path), "new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("new", ["fleet.html"])
    with pytest.raises(AnsibleActionFail, match="No such file or directory"):
        write(str(tmp_path / "missing/fleet.html"), "new")
    (tmp_path / "taken.html").mkdir()
    with pytest.raises(AnsibleActionFail, match="directory"):
        write(str(tmp_path / "taken.html"), "new")
    assert sorted(os.listdir(tmp_path)) == ["fleet.html", "taken.html"]
