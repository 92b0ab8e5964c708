"""The pure parts: which state follows, containers and their times, quotas, settings, YARN's reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from apps.tests.server.small_server import simple
from apps.tests.server.test_store import RECORD
from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from hadoop_rpc.protos import yarn_pb2
from quicksilver_apps.description.model import Application
from quicksilver_apps.server.backend import Largest, YarnReport, YarnState
from quicksilver_apps.server.config import AppServerSettings, Quota, Quotas
from quicksilver_apps.server.lifecycle.quota_check import obstacle, why_never
from quicksilver_apps.server.lifecycle.yarn_states import after_report, after_view, spans_of
from quicksilver_apps.server.records import InstanceSpan, QuotaSize, ServedApplication, size_of
from quicksilver_apps.server.states import State
from quicksilver_apps.server.yarn_backend import report_of

REPORT = YarnReport("application_1_0001", YarnState.RUNNING)


def at(state: State, **fields: Any) -> ServedApplication:
    return replace(RECORD, state=state, **fields)


@pytest.mark.parametrize(
    ("record", "report", "state"),
    [
        (at(State.SUBMITTED), {"state": YarnState.NEW}, None),
        (at(State.SUBMITTED), {"state": YarnState.ACCEPTED}, State.ACCEPTED),
        (at(State.ACCEPTED), {"state": YarnState.ACCEPTED}, None),
        (at(State.SUBMITTED), {}, State.STARTING),
        (at(State.READY), {}, None),
        (at(State.READY), {"state": YarnState.ACCEPTED}, State.ACCEPTED),
        (at(State.ENDING), {"state": YarnState.ACCEPTED}, None),
        (at(State.READY), {"state": YarnState.FINISHED, "succeeded": True}, State.FINISHED),
        (at(State.ENDING, kill_s=5.0), {"state": YarnState.FINISHED, "succeeded": True}, State.FINISHED),
        (at(State.ENDING, kill_s=5.0), {"state": YarnState.FINISHED, "succeeded": False}, State.KILLED),
        (at(State.READY), {"state": YarnState.FINISHED, "succeeded": False}, State.FAILED),
        (at(State.READY), {"state": YarnState.FINISHED, "killed": True}, State.KILLED),
        (at(State.ACCEPTED), {"state": YarnState.KILLED}, State.KILLED),
        (at(State.ACCEPTED), {"state": YarnState.FAILED}, State.FAILED),
    ],
)
def test_the_state_after_a_report(record: ServedApplication, report: dict[str, Any], state: State | None) -> None:
    following = after_report(record, replace(REPORT, **report))
    assert (following[0] if following else None) == state


def view(whole: str = "running", **service: Any) -> dict[str, Any]:
    return {"state": whole, "diagnostics": "", "services": [{"name": "a", "core": 2, "ready": 2, **service}]}


@pytest.mark.parametrize(
    ("state", "said", "then"),
    [
        (State.STARTING, view(), State.READY),
        (State.STARTING, view(ready=1), None),
        (State.STARTING, view("starting"), None),
        (State.READY, view(ready=1), State.STARTING),
        (State.READY, view(ready=0, state="ended"), None),
        (State.READY, view("ending"), State.ENDING),
        (State.ENDING, view(), None),
        (State.ACCEPTED, view(), None),
    ],
)
def test_the_state_after_a_masters_answer(state: State, said: dict[str, Any], then: State | None) -> None:
    following = after_view(state, said)
    assert (following[0] if following else None) == then


def test_containers_keep_the_times_that_were_seen() -> None:
    def one(container: str, state: str, since_s: float, index: int = 0) -> dict[str, Any]:
        return {"index": index, "container_id": container, "state": state, "since_s": since_s, "kind": "core"}

    def after(before: list[InstanceSpan], now_s: float, *instances: dict[str, Any]) -> list[InstanceSpan]:
        known = {each.container_id: each for each in before}
        return spans_of("r1", {"services": [{"name": "a", "instances": list(instances)}]}, known, now_s)

    begun = after([], 11.0, one("c1", "starting", 10.0), one("", "waiting", 10.0, 1))
    assert [(each.started_s, each.ready_s, each.ended_s) for each in begun] == [(10.0, None, None)]
    ready = after(begun, 21.0, one("c1", "ready", 20.0), one("c2", "ready", 20.5, 1))
    assert [(each.started_s, each.ready_s) for each in ready] == [(10.0, 20.0), (20.5, 20.5)]
    replaced = after(ready, 31.0, one("c3", "starting", 30.0))
    ended = {each.container_id: (each.state, each.ended_s) for each in replaced if each.ended_s}
    assert ended == {"c1": ("lost", 31.0), "c2": ("ended", 31.0)}, "one was replaced, one was given back"
    lost = after(replaced, 41.0, one("c3", "lost", 40.0))
    assert next(each for each in lost if each.container_id == "c3").ended_s == 40.0


def test_sizes_and_quotas() -> None:
    app = Application.model_validate(simple())
    assert size_of(app) == QuotaSize(256 + 128, 2, 2)
    assert why_never(app, size_of(app), Quota(), Largest(256, 1)) == ""
    assert "the master wants 256 MB and 1 vcores" in why_never(app, size_of(app), Quota(), Largest(255, 1))
    quota = Quota(applications=2, memory_mb=500, vcores=3, elastic=4)
    assert obstacle(QuotaSize(300, 2, 2), quota, 1, QuotaSize(200, 1, 2)) == ""
    assert obstacle(QuotaSize(301, 3, 3), quota, 2, QuotaSize(200, 1, 2)) == (
        "with it 3 applications, the quota is 2; 501 MB of core memory, the quota is 500; "
        "4 core vcores, the quota is 3; 5 elastic instances, the quota is 4"
    )


def test_the_narrowest_quota_counts() -> None:
    quotas = Quotas(
        default=Quota(applications=1, vcores=9), roles={"admin": Quota(applications=5)}, users={"ann": Quota(vcores=2)}
    )
    assert quotas.of("bob", "user") == Quota(applications=1, vcores=9)
    assert quotas.of("bob", "admin") == Quota(applications=5, vcores=9)
    assert quotas.of("ann", "admin") == Quota(applications=5, vcores=2)


@pytest.mark.parametrize(
    "wrong",
    [{"poll_s": 0}, {"quotas": {"default": {"cores": 1}}}, {"quotas": {"roles": {"read": {}}}}, {"rest_listen": "x"}],
)
def test_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AppServerSettings.model_validate(wrong)


def test_what_yarn_reports() -> None:
    report = client_pb2.ApplicationReportProto(
        applicationId=yarn_pb2.ApplicationIdProto(cluster_timestamp=1700000000000, id=7),
        yarn_application_state=client_pb2.FINISHED,
        final_application_status=yarn_pb2.APP_KILLED,
        applicationTags=["core:10=1", "quicksilver_request:abc"],
        trackingUrl="N/A",
        startTime=1000,
        finishTime=2500,
    )
    assert report_of(report, "http://n1:4000") == YarnReport(
        yarn_id="application_1700000000000_0007",
        state=YarnState.FINISHED,
        request_id="abc",
        succeeded=False,
        killed=True,
        master_url="http://n1:4000",
        started_s=1.0,
        ended_s=2.5,
    )
