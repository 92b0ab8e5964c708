"""REST of what the proxy keeps: decisions, stories, the ledger."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from policies.model import Kind
from quicksilver.common.messages import KILL_CAUSES, SHED_CAUSES, ContainerEvent, EventKind
from rm_proxy.domain.records import CompletionRecord
from rm_proxy.estimates.estimator import EstimateSource
from rm_proxy.store.rows import NodeEvent
from rm_proxy.store.store import Store
from rm_proxy.views import explain
from rm_proxy.views.container_models import ChoiceInfo, EventInfo, Explanation, Score
from tests.rm_proxy.api.test_app import APP, WAITING, State, app_of, choice, grant
from tests.rm_proxy.store.test_store import APP as RECORD

FIRST, SECOND, THIRD = (grant(number).container_id for number in (1, 2, 4))


def happened(seq: int, container_id: str, kind: EventKind, at_s: float, **more: Any) -> NodeEvent:
    return NodeEvent("n1:1", "boot", ContainerEvent(seq=seq, container_id=container_id, kind=kind, at_s=at_s, **more))


@pytest.fixture
def state(store: Store) -> Iterator[State]:
    """A task was shed, asked for again, stolen by an idle node, killed, and came back guaranteed."""
    again: dict[str, Any] = {"retries": 1, "follows": FIRST, "expected_by": "stage", "spread_s": 1.5}
    second = {"container_id": SECOND, "node_id": "n1:1"}
    shrunk: dict[str, Any] = {"attained_s": 9.0, "times_shrunk": 2, "saved_s": 8.5, "cause": THIRD}
    scores = (("n1:1", 2.0), ("n2:1", float("inf")))
    steered: dict[str, Any] = {"node_id": "n1:1", "reason": "n2:1 did not grant it", "scores": scores}
    shadow = {"alternative": "calm", "other": "nothing", "container_id": FIRST, "node_id": "n1:1"}
    store.write(
        [
            RECORD,
            grant(1, expected_by="default"),
            happened(1, FIRST, EventKind.SHED, 1001.0, cause="shed", reason="starts in 9 s, later than 4 s"),
            CompletionRecord(FIRST, APP, -102, None, "Not started by quicksilver: shed", 1001.5, own=True),
            grant(2, granted_s=1002.0, asked_s=1001.9, **again),
            happened(2, SECOND, EventKind.STARTED, 1003.0, waited_s=1.0),
            choice(3, at_s=1004.0, slot="promote", policy="on_start", chosen="asked", **second),
            happened(3, SECOND, EventKind.ENDED, 1020.0, ran_s=17.0, **shrunk),
            grant(4, kind=Kind.GUARANTEED, granted_s=1030.0, asked_s=1029.0, retries=2, follows=SECOND),
            happened(4, THIRD, EventKind.KILLED, 1040.0, ran_s=5.0, cause="room", reason="makes room for x"),
            choice(1),
            choice(2, slot="place", policy="topk_wait", chosen="n1:1", **steered),
            choice(4, slot="shed", policy="mean_sigma", chosen="shed", reason="c is 3", **shadow),
            choice(5, weight=40, app_id="application_1_0002"),
        ]
    )
    yield State(store)


@pytest.fixture
def client(state: State) -> TestClient:
    return TestClient(app_of(state), raise_server_exceptions=False)


def ids(client: TestClient, **params: Any) -> list[str]:
    return [one["id"] for one in client.get("/v1/choices", params=params).json()["items"]]


def test_choices_newest_first_by_filters_and_pages(client: TestClient) -> None:
    assert ids(client) == ["d5", "d4", "d3", "d2", "d1"]
    assert ids(client, slot="place") == ["d2"]
    assert ids(client, app="application_1_0002") == ["d5"]
    assert ids(client, node="n1:1") == ["d4", "d3", "d2"]
    assert ids(client, container=FIRST) == ["d4"]
    assert ids(client, alternative="calm") == ["d4"]
    assert ids(client, alternative="", app=APP) == ["d3", "d2", "d1"]
    assert ids(client, since=1002.0, until=1004.0) == ["d2"]
    assert ids(client, limit=2, offset=1) == ["d4", "d3"]
    (steered,) = client.get("/v1/choices", params={"slot": "place"}).json()["items"]
    assert steered["scores"] == [{"node": "n1:1", "score": 2.0}, {"node": "n2:1", "score": None}]
    assert client.get("/v1/choices", params={"limit": 5}).json()["more"] is False


def test_the_last_choices_from_memory_by_the_same_filters(client: TestClient) -> None:
    assert ids(client, recent=True) == ["d9", "d8"]
    assert ids(client, recent=True, slot="steal") == ["d9"]
    assert ids(client, recent=True, container="container_9", since=1009.0, until=1009.1) == ["d9"]
    assert ids(client, recent=True, until=1009.0) == ["d8"]
    page = client.get("/v1/choices", params={"recent": True, "limit": 1}).json()
    assert page["more"] and len(page["items"]) == 1


def test_decisions_by_node_kind_and_time(client: TestClient) -> None:
    def found(**params: Any) -> list[str]:
        return [one["container_id"] for one in client.get("/v1/decisions", params=params).json()["items"]]

    assert found(kind="G") == [THIRD] and found(kind="Q") == [SECOND, FIRST]
    assert found(node="n1:1", until=1002.0) == [FIRST] and found(since=1030.0) == [THIRD] and found(node="n9:1") == []
    assert client.get("/v1/decisions", params={"kind": "O"}).status_code == 422


def test_the_story_of_a_chain_of_containers(client: TestClient) -> None:
    first, second, third = (client.get(f"/v1/containers/{one}").json() for one in (FIRST, SECOND, THIRD))
    assert first["story"][-4:] == [
        "At n1:1 it was removed from the queue before it started (the shed policy: starts in 9 s, later than 4 s).",
        "In shadow, calm (shed: mean_sigma) at n1:1 would have decided nothing: c is 3.",
        "Its application master received exit status -102: Not started by quicksilver: shed",
        f"Requested in its place: {SECOND}.",
    ]
    assert "Expected run time 10 s (the default: nothing is known of this job yet)." in first["story"]
    assert second["story"][0] == f"It replaces {FIRST}; its task was lost once before."
    assert "Expected run time 10 s, give or take 1.5 s (as its siblings took)." in second["story"]
    assert second["story"][-4:] == [
        "At n1:1 the NodeManager started it after 1.0 s in the queue.",
        "Decided (promote: on_start) at n1:1: asked: its quota is 3.",
        f"At n1:1 its process ended after 17.0 s, used 9.0 s of CPU, shrunk 2 times, the last time for {THIRD}, "
        "which saved 8.5 s of CPU that kills would have lost.",
        f"Requested in its place: {THIRD}.",
    ]
    assert (second["decision"]["follows"], second["followed_by"], third["decision"]["retries"]) == (FIRST, [THIRD], 2)
    assert third["story"][-1] == (
        "At n1:1 it was preempted: killed to make room after 5.0 s (room for a guaranteed container: makes room for x)."
    )


def test_a_container_of_which_only_a_decision_is_known(client: TestClient, state: State) -> None:
    state.store.write([choice(77, container_id="container_77", node_id="n2:1", slot="steal", policy="hawk")])
    known = client.get("/v1/containers/container_77").json()
    assert known["story"] == ["Decided (steal: hawk) at n2:1: G: its quota is 3."]


def test_when_a_waiting_one_is_expected_to_start(client: TestClient, state: State) -> None:
    state.live = WAITING.model_copy(update={"starts_in_s": 7.25})
    story = client.get(f"/v1/containers/{WAITING.container_id}").json()["story"]
    assert "It is expected to start 7.2 s after the last report." in story


def test_the_story_of_an_application(client: TestClient) -> None:
    known = client.get(f"/v1/applications/{APP}/story").json()
    assert known["story"] == [
        "1 container was requested as guaranteed:",
        "  1: rule 2: queue root.a",
        "2 containers were requested as queueable:",
        "  2: rule 2: queue root.a",
        "The guaranteed ones were allocated after 1.000 s (median), 1.000 s (p95), 1.000 s at most.",
        "The queueable ones were allocated after 0.004 s (median), 0.100 s (p95), 0.100 s at most.",
        "The queueable ones were queued at their nodes for 1.000 s (median), 1.000 s (p95), 1.000 s at most.",
        "2 containers replaced others that were lost, killed or removed from a queue.",
        "At the nodes a container was preempted: killed to make room, cause room: once.",
        "At the nodes a container was removed from the queue before it started, cause shed: once.",
        "Decided (place): n1:1: once.",
        "Decided (promote): asked: once.",
        "Decided (quota): G: once.",
        "Kills lost 5.0 task-seconds of 14.0.",
        "Shrinking 2 times saved 8.5 task-seconds that kills would have lost.",
    ]
    assert known["application"]["name"] == "wordcount" and known["ledger"]["lost_s"] == 5.0
    answer = client.get("/v1/applications/application_9/story")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown-application")


def test_the_story_of_an_application_that_was_granted_nothing_yet(client: TestClient) -> None:
    known = client.get("/v1/applications/application_1_0003/story").json()
    assert known["story"] == [
        "It runs in active mode. Pending: 0 guaranteed and 3 queueable containers; allocated: 0 and 0."
    ]


def test_many_reasons_are_summed_up(client: TestClient, state: State) -> None:
    grants = [grant(n, app_id="application_7", route_reason=f"because of {n}") for n in range(100, 130)]
    state.store.write([*grants, grant(150, app_id="application_7", route_reason="because of 100")])
    routes = client.get("/v1/applications/application_7/story").json()["routes"]
    assert (routes[0]["why"], routes[0]["count"]) == ("because of 100", 2)
    assert routes[-1] == {"what": "Q", "why": "other reasons", "count": 10} and len(routes) == 21


def test_the_ledger_in_pages_and_as_csv(client: TestClient) -> None:
    page = client.get("/v1/ledger", params={"by": "day", "limit": 1}).json()
    assert [(one["key"], one["lost_s"], one["saved_s"]) for one in page["items"]] == [("1970-01-01", 5.0, 8.5)]
    assert not page["more"]
    later = client.get("/v1/ledger", params={"by": "day", "zone_min": 18 * 60, "since": 1035.0}).json()["items"]
    assert [(one["key"], one["containers_g"]) for one in later] == [("1970-01-01", 0)]
    answer = client.get("/v1/ledger.csv", params={"by": "app", "since": 1035.0})
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="ledger-app.csv"'
    header, line = csv.reader(io.StringIO(answer.text, newline=""))
    assert dict(zip(header, line, strict=True))["lost_s"] == "5.0" and line[:2] == [APP, "wordcount"]
    for bad in ({"by": "week"}, {"zone_min": 2000}, {"since": "soon"}):
        answer = client.get("/v1/ledger", params=bad)
        assert answer.status_code == 422 and next(iter(bad)) in answer.json()["error"]["message"]


def test_csv_of_nothing_is_its_header(client: TestClient) -> None:
    text = client.get("/v1/ledger.csv", params={"by": "user", "since": 1e9}).text
    assert text.startswith("user,containers_g,") and text.count("\n") == 1


def test_every_event_and_cause_has_words() -> None:
    assert {kind.value for kind in EventKind} == explain._EVENTS.keys()
    assert {source.value for source in EstimateSource} == explain._ESTIMATES.keys()
    assert explain._CAUSES.keys() == SHED_CAUSES | KILL_CAUSES


TEXT = st.text(max_size=20)
SECONDS = st.floats(0, 1e9)
SCORES = st.lists(st.builds(Score, node=TEXT, score=st.none() | SECONDS))


@given(
    st.lists(
        st.builds(
            EventInfo,
            node_id=TEXT,
            kind=st.sampled_from([kind.value for kind in EventKind]) | TEXT,
            at_s=SECONDS,
            reason=TEXT,
            cause=TEXT,
            waited_s=SECONDS,
            ran_s=st.none() | SECONDS,
            saved_s=SECONDS,
            times_shrunk=st.integers(0, 3),
        ),
        max_size=6,
    ),
    st.lists(
        st.builds(ChoiceInfo, scores=st.lists(st.builds(Score, node=TEXT, score=st.none() | SECONDS))), max_size=3
    ),
    st.lists(TEXT, max_size=9),
)
def test_a_story_tells_everything_in_the_order_of_time(
    events: list[EventInfo], choices: list[ChoiceInfo], later: list[str]
) -> None:
    known = Explanation(container_id="c", events=events, choices=choices, followed_by=later)
    story = explain.tell(known)
    assert len(story) == len(events) + len(choices) + bool(later)
    in_time = [explain._event(event) for event in sorted(events, key=lambda event: event.at_s)]
    assert [sentence for sentence in story if sentence in in_time] == in_time
