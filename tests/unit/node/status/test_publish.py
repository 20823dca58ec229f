# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every place that the status is published to says the same, and is written only when it changes."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ConfigInvalid,
    FlexNodeError,
    UnitFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import TEXTFILE_DIRECTORIES
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import store_config
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.annotation import (
    CONDITION,
    LONGEST,
    STATUS,
    node_patch,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.publish import UNPUBLISHED, publish
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.textfile import (
    NAME,
    metrics,
)
from tests.unit.node.fake_api import a_node
from tests.unit.node.sites import KUBELET, MORE, SHORT, TOKEN, Site, exits_from_now_on

DEBIAN_COLLECTOR = f"{TEXTFILE_DIRECTORIES[1]}/{NAME}"


@pytest.fixture
def scraped(site: Site) -> Site:
    """A site whose machine has node_exporter, as Debian packages it."""
    site.machine.put(f"{TEXTFILE_DIRECTORIES[1]}/apt.prom", "apt_upgrades_pending 0\n")
    return site


def condition(site: Site) -> dict[str, str]:
    conditions = site.api.nodes["edge-1"]["status"]["conditions"]
    found: dict[str, str] = next(one for one in conditions if one["type"] == CONDITION)
    return found


def annotation(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(site.api.nodes["edge-1"]["metadata"]["annotations"][STATUS])
    return found


def reasons(site: Site, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The reason, from everywhere."""
    textfile = re.search(r'reason="([^"]*)"', site.machine.text(DEBIAN_COLLECTOR))
    assert textfile
    capsys.readouterr()
    main(["status", "--json"], site.machine.host)
    as_json = json.loads(capsys.readouterr().out)["reason"]
    main(["status"], site.machine.host)
    in_words = re.search(r"^reason +(\S+)", capsys.readouterr().out, re.MULTILINE)
    assert in_words
    assert (in_words[1] == "-") == (as_json == "NodeJoined"), "people read that nothing is wrong"
    shown = as_json if in_words[1] == "-" else in_words[1]
    stored = json.loads(site.machine.text(f"{DATA_DIR}/status.json"))["reason"]
    told = annotation(site)["reason"]
    return {stored, as_json, shown, told, condition(site)["reason"], textfile[1]}


def test_a_join_reports_everywhere(scraped: Site, capsys: pytest.CaptureFixture[str]) -> None:
    store_config(scraped.machine.host, Inline({"config": scraped.document, "configVersion": "17"}), {})
    scraped.join()
    assert reasons(scraped, capsys) == {"NodeJoined"}
    assert condition(scraped)["status"] == "True"
    assert condition(scraped)["lastTransitionTime"] == "2027-01-15T08:00:05Z"
    assert annotation(scraped) == {
        "phase": "NodeJoined",
        "reason": "NodeJoined",
        "message": "",
        "configVersion": None,
        "appliedVersion": None,
        "drift": 0,
        "time": condition(scraped)["lastHeartbeatTime"],
    }
    metrics = scraped.machine.text(DEBIAN_COLLECTOR)
    assert "\naks_flex_node_configured 1\n" in metrics
    assert "\naks_flex_node_drift_items 0\n" in metrics
    assert re.search(r"\naks_flex_node_certificate_expiry_timestamp_seconds \d{10}\n", metrics)
    seen = scraped.machine.path(DEBIAN_COLLECTOR).stat()
    assert (stat.S_IMODE(seen.st_mode), seen.st_uid) == (0o644, 0)
    for text in (metrics, json.dumps(annotation(scraped)), scraped.machine.text(f"{DATA_DIR}/status.json")):
        assert TOKEN.partition(".")[2] not in text


def test_nothing_is_written_where_nothing_changed(scraped: Site) -> None:
    scraped.join()
    before = scraped.machine.snapshot("/etc", "/var", "/usr", "/opt")
    version = scraped.api.nodes["edge-1"]["metadata"]["resourceVersion"]
    scraped.machine.clock.time += 86400
    publish(scraped.machine.host, scraped.machine.store)
    scraped.join()
    assert scraped.machine.snapshot("/etc", "/var", "/usr", "/opt") == before
    assert scraped.api.nodes["edge-1"]["metadata"]["resourceVersion"] == version


def test_a_stopped_kubelet_has_one_reason_before_and_after_its_node_shows_it(
    scraped: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    scraped.join()
    scraped.machine.commands.units[KUBELET] = "inactive"
    publish(scraped.machine.host, scraped.machine.store)
    assert reasons(scraped, capsys) == {"FLEX-1501"}
    assert condition(scraped)["status"] == "False"
    conditions = scraped.api.nodes["edge-1"]["status"]["conditions"]
    ready = next(one for one in conditions if one["type"] == "Ready")
    ready |= {"status": "Unknown", "message": "Kubelet stopped posting node status."}
    assert reasons(scraped, capsys) == {"FLEX-1501"}
    ready["status"] = "True"
    scraped.join()
    assert reasons(scraped, capsys) == {"NodeJoined"}


def test_a_refused_document_is_reported_until_another_is_applied(
    scraped: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    scraped.join()
    with pytest.raises(ConfigInvalid):
        scraped.join({"node": {"maxPods": 100000}})
    assert reasons(scraped, capsys) == {"FLEX-1101"}
    assert "a new configuration was refused" in condition(scraped)["message"]
    assert "\naks_flex_node_config_refused 1\n" in scraped.machine.text(DEBIAN_COLLECTOR)
    scraped.join(MORE)
    assert reasons(scraped, capsys) == {"NodeJoined"}
    assert "\naks_flex_node_config_refused 0\n" in scraped.machine.text(DEBIAN_COLLECTOR)


def test_a_change_that_was_rolled_back_is_reported(scraped: Site, capsys: pytest.CaptureFixture[str]) -> None:
    scraped.join()
    exits_from_now_on(scraped)
    with pytest.raises(UnitFailed):
        scraped.join(MORE, SHORT)
    assert reasons(scraped, capsys) == {"FLEX-1501"}
    assert "the update failed and was rolled back" in annotation(scraped)["message"]


def test_a_first_join_that_fails_is_in_the_status_file(scraped: Site) -> None:
    scraped.api.refuse["GET /version"] = 503
    with pytest.raises(FlexNodeError):
        scraped.join()
    stored = json.loads(scraped.machine.text(f"{DATA_DIR}/status.json"))
    assert (stored["phase"], stored["reason"], stored["node"]["ready"]) == ("NodeFailed", "FLEX-1504", False)
    assert 'reason="FLEX-1504"' in scraped.machine.text(DEBIAN_COLLECTOR)


def test_an_api_server_that_does_not_answer_is_no_error(scraped: Site) -> None:
    scraped.join()
    scraped.machine.put("/etc/default/kubelet", "x")
    scraped.api.refuse["PATCH"] = 503
    status = publish(scraped.machine.host, scraped.machine.store)
    assert (status["reason"], UNPUBLISHED in status) == ("Drift", False)
    assert annotation(scraped)["reason"] == "NodeJoined"
    scraped.api.refuse.clear()
    publish(scraped.machine.host, scraped.machine.store)
    assert annotation(scraped)["reason"] == "Drift"


def test_what_may_not_be_written_is_said(scraped: Site) -> None:
    scraped.api.refuse["PATCH /api/v1/nodes/edge-1/status"] = 403
    run = scraped.join()
    assert any("the status could not be reported: Node: " in warning for warning in run.warnings)
    assert json.loads(scraped.machine.text(f"{DATA_DIR}/status.json"))["reason"] == "NodeJoined"


def test_a_damaged_state_leaves_nothing_to_publish(site: Site) -> None:
    site.machine.put(f"{DATA_DIR}/state.json", "{")
    assert "state" in publish(site.machine.host, site.machine.store)[UNPUBLISHED][0]


def test_a_condition_keeps_the_time_of_its_last_transition(site: Site) -> None:
    site.join()
    began = condition(site)["lastTransitionTime"]
    store, host = site.machine.store, site.machine.host
    for minutes, path in enumerate(("/etc/default/kubelet", "/etc/default/kubeletconfig.json"), 1):
        site.machine.clock.time += 60
        site.machine.put(path, "x")
        publish(host, store)
        assert condition(site)["lastTransitionTime"] == began.replace(":00:", ":01:")
        assert condition(site)["lastHeartbeatTime"] == began.replace(":00:", f":0{minutes}:")


def test_leaving_removes_the_textfile_and_what_a_killed_run_left_of_it(scraped: Site) -> None:
    before = scraped.machine.snapshot("/var/lib/prometheus")
    scraped.join()
    scraped.machine.put(f"{TEXTFILE_DIRECTORIES[1]}/.{NAME}.0123456789ab", "half")
    leave(scraped.machine.host)
    assert scraped.machine.snapshot("/var/lib/prometheus") == before


def test_a_textfile_of_others_is_left_alone(scraped: Site) -> None:
    scraped.machine.put(DEBIAN_COLLECTOR, "mine 1\n")
    scraped.join()
    leave(scraped.machine.host)
    assert scraped.machine.text(DEBIAN_COLLECTOR) == "mine 1\n"


def test_a_machine_without_a_collector_gets_no_textfile(site: Site) -> None:
    site.join()
    assert not any(site.machine.path(directory).exists() for directory in TEXTFILE_DIRECTORIES)


def test_values_of_a_textfile_are_escaped(site: Site) -> None:
    site.join()
    status = publish(site.machine.host, site.machine.store)
    status["config"]["version"] = 'a"b\\c\nd'
    assert 'config_version="a\\"b\\\\c\\nd"' in "".join(metrics(status))


def test_an_annotation_stays_small(site: Site) -> None:
    site.join()
    status = publish(site.machine.host, site.machine.store)
    patch = node_patch({**status, "message": "x" * 5000}, a_node())
    (told,) = patch["status"]["conditions"]
    assert len(told["message"]) == LONGEST
    assert len(patch["metadata"]["annotations"][STATUS]) < LONGEST + 256


def test_an_annotation_that_someone_damaged_is_written_again(site: Site) -> None:
    site.join()
    site.api.nodes["edge-1"]["metadata"]["annotations"][STATUS] = "{"
    publish(site.machine.host, site.machine.store)
    assert annotation(site)["reason"] == "NodeJoined"


def test_a_machine_that_leaves_tells_its_node_first(site: Site) -> None:
    site.join()
    site.api.refuse["DELETE"] = 403
    leave(site.machine.host)
    assert (annotation(site)["phase"], condition(site)["status"]) == ("Resetting", "False")
    assert not os.path.exists(site.machine.path(DATA_DIR))
