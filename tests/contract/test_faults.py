# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults on request, as the SDK meets them."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from azure.core.exceptions import HttpResponseError

from testbed import TestbedError
from testbed.azure import Azure, Fault
from tests.contract.conftest import Worker

CLUSTER = "/managedClusters/testbed$"


def times(azure: Azure, status: int | None = None) -> list[float]:
    """When the cluster was asked for."""
    return [
        one.time
        for one in azure.requests()
        if one.path == azure.cluster_id and (status is None or one.status == status)
    ]


def test_retry_after_is_obeyed_and_recorded(azure: Azure, sdk: Worker) -> None:
    azure.fail(Fault(path=CLUSTER, method="GET", status=429, retry_after=1, times=2))
    sdk("Reader").containers.managed_clusters.get("testbed", "testbed")
    moments = times(azure)
    assert [one.status for one in azure.requests() if one.path == azure.cluster_id] == [429, 429, 200]
    assert min(later - earlier for earlier, later in pairwise(moments)) >= 1


def test_a_burst_of_503_is_survived(azure: Azure, sdk: Worker) -> None:
    azure.fail(Fault(path=CLUSTER, status=503, times=2))
    sdk("Reader").containers.managed_clusters.get("testbed", "testbed")
    assert len(times(azure, 503)) == 2


def test_an_error_that_stays_is_raised(azure: Azure, sdk: Worker) -> None:
    azure.fail(Fault(path=CLUSTER, status=400, code="Broken"))
    with pytest.raises(HttpResponseError, match="Broken"):
        sdk("Reader").containers.managed_clusters.get("testbed", "testbed")


def test_a_cut_connection_is_tried_again(azure: Azure, sdk: Worker) -> None:
    azure.fail(Fault(path=CLUSTER, drop=True, times=1))
    sdk("Reader").containers.managed_clusters.get("testbed", "testbed")
    assert [one.status for one in azure.requests() if one.path == azure.cluster_id] == [0, 200]


def test_an_answer_can_be_lost_after_the_deed(azure: Azure, sdk: Worker) -> None:
    clients = sdk("Contributor")
    azure.fail(Fault(path="/flexNodeConfig/lost$", method="PUT", lose_answer=True, times=1))
    answer = clients.put("lost")
    assert answer.status_code == 200, "the first one had created it"
    assert [one.status for one in azure.requests() if one.method == "PUT"] == [0, 200]
    clients.send("DELETE", clients.node("lost"))


def test_answers_can_be_late(azure: Azure, sdk: Worker) -> None:
    clients = sdk("Reader")
    azure.fail(Fault(path=CLUSTER, latency=0.5, times=1))
    began = time.monotonic()
    clients.containers.managed_clusters.get("testbed", "testbed")
    assert time.monotonic() - began >= 0.5


def test_a_read_can_be_stale(azure: Azure, sdk: Worker) -> None:
    clients = sdk("Contributor")
    clients.send("DELETE", clients.node("stale"))
    clients.put("stale")
    azure.fail(Fault(path="/flexNodeConfig/stale$", stale=True, times=1))
    with pytest.raises(HttpResponseError, match="ResourceNotFound"):
        clients.send("GET", clients.node("stale"))
    versions = [clients.put("stale").json()["properties"]["configVersion"] for _ in range(2)]
    azure.fail(Fault(path="/flexNodeConfig/stale$", stale=True, times=1))
    seen = [
        clients.send("GET", clients.node("stale")).json()["properties"]["configVersion"] for _ in range(2)
    ]
    assert seen == versions
    clients.send("DELETE", clients.node("stale"))


@pytest.mark.parametrize("fault", [Fault(path="(", status=500), Fault(path="x", token="none")])
def test_a_fault_that_makes_no_sense_is_refused(azure: Azure, fault: Fault) -> None:
    with pytest.raises(TestbedError, match="refused"):
        azure.fail(fault)


def test_a_setting_that_does_not_exist_is_refused(azure: Azure) -> None:
    with pytest.raises(TestbedError, match="unknown"):
        azure.settings(tokenseconds=3)
