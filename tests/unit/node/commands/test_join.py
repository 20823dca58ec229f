# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""join: the machine is checked first, and the configuration may be YAML."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from tests.unit.node.sites import TOKEN, Site

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def config(site: Site, tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(site.document))
    return file


def test_a_machine_that_can_not_join_is_not_touched_and_hears_everything(
    site: Site, config: Path, capsys: Captured
) -> None:
    machine = site.machine
    machine.path("/usr/bin/mount").unlink()
    machine.put("/usr/lib/systemd/system/docker.service")
    machine.put("/proc/meminfo", "MemTotal: 524288 kB\nMemAvailable: 400000 kB\n")
    before = machine.snapshot("/etc", "/opt", "/usr", "/var")
    asked = len(site.api.server.requests), len(site.mirror.requests)
    assert main(["join", "--config", str(config)], machine.host) == 1
    error = capsys.readouterr().err
    assert error.startswith("FLEX-1310")
    for finding in ("tool-missing: mount is missing", "foreign-runtime", "memory"):
        assert finding in error
    assert "skip it by its ID, the word before the colon: aks-flex-node join --skip ID" in error
    assert machine.snapshot("/etc", "/opt", "/usr", "/var") == before
    assert asked == (len(site.api.server.requests), len(site.mirror.requests))


def test_a_check_can_be_skipped_and_a_node_is_not_checked_again(
    site: Site, config: Path, capsys: Captured
) -> None:
    site.machine.path("/usr/bin/mount").unlink()
    assert main(["join", "--config", str(config), "--skip", "nonsense"], site.machine.host) == 1
    assert "did you mean" in capsys.readouterr().err
    assert main(["join", "--config", str(config), "--skip", "tool-missing"], site.machine.host) == 0
    assert "this machine can join" in capsys.readouterr().out
    assert main(["join", "--config", str(config)], site.machine.host) == 0
    assert "can join" not in capsys.readouterr().out


# -- YAML --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.yaml", "config.yml", "config"])
def test_a_configuration_in_yaml(site: Site, tmp_path: Path, name: str, capsys: Captured) -> None:
    document = {**site.document, "proxy": {False: ["127.0.0.1"]}}  # what YAML makes of an unquoted `no`
    (tmp_path / name).write_text(f"# our edge\n{yaml.safe_dump(document)}")
    assert main(["join", "--config", str(tmp_path / name)], site.machine.host) == 0
    stored = site.machine.store.current_config() or {}
    assert stored["proxy"] == {"no": ["127.0.0.1"]}
    (tmp_path / "same.json").write_text(json.dumps({**site.document, "proxy": {"no": ["127.0.0.1"]}}))
    capsys.readouterr()
    assert main(["join", "--config", str(tmp_path / "same.json")], site.machine.host) == 0
    assert "unchanged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        (
            "node:\n  maxPods: 50\n  maxPods: 60\n",
            "line 3, column 3",
            "the key 'maxPods' is in one mapping twice",
        ),
        ("node: [1\nazure: x\n", "line 2", "expected ',' or ']'"),
        ("- a\n- b\n", "line 1, column 1", "it is not a mapping"),
        ("a: !!python/object/apply:os.system [id]\n", "line 1", "could not determine a constructor"),
    ],
)
def test_bad_yaml_is_refused_with_its_place(
    site: Site, tmp_path: Path, capsys: Captured, text: str, place: str, why: str
) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    assert main(["join", "--config", str(tmp_path / "bad.yaml")], site.machine.host) == 1
    error = capsys.readouterr().err
    assert error.startswith("FLEX-1102: the configuration is not YAML")
    assert place in error
    assert why in error


def test_a_machine_without_a_parser_says_what_to_do(
    site: Site, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)  # as if it were not installed
    (tmp_path / "config.yaml").write_text(f"azure:\n  bootstrapToken:\n    token: {TOKEN}\n")
    assert main(["join", "--config", str(tmp_path / "config.yaml")], site.machine.host) == 1
    error = capsys.readouterr().err
    assert "FLEX-1102" in error
    assert "apt-get install python3-yaml" in error
    assert "json.dump(yaml.safe_load(sys.stdin), sys.stdout)" in error
    assert TOKEN not in error
