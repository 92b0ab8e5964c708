"""Durations that the proxy corrects while containers wait and run: forecasts, reports and the queue follow."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.common.messages import Expected, Report, Targets
from sidecar.node.events import Answered, Granted, Outcome, SessionUp, Targeted
from sidecar.node.node import SidecarNode
from sidecar.node.report_view import fill_report
from tests.sidecar.words import APP, ATTEMPT, arrived, grant, node

BLANK = Report(node_id="n:1", boot="b", seq=1, sidecar_url="http://127.0.0.1:1", memory_mb=1024, vcores=1)


def busy(**of_q: Any) -> SidecarNode:
    """Return a node of one place: `r` runs since second 0 and `q` waits, both granted as tasks of 10 s."""
    full = node(memory_mb=1024, vcores=1)
    full.handle(SessionUp(ATTEMPT, 0))
    full.handle(Granted((grant("r", priority=20), grant("q", priority=10, **of_q)), 0))
    full.handle(arrived("r", 0))
    full.handle(Answered("r", Outcome.STARTED, "", 0))
    full.handle(arrived("q", 0))
    return full


def tell(full: SidecarNode, now_s: float, *news: tuple[int, float, float], app_id: str = APP) -> Report:
    """Have the proxy tell durations and spreads by priority; returns the report then."""
    expected = [Expected(app_id=app_id, priority=p, expected_s=mean_s, spread_s=sd_s) for p, mean_s, sd_s in news]
    full.handle(Targeted(Targets(expected=expected), (), (), now_s))
    return fill_report(BLANK, full, now_s)


def durations(report: Report) -> dict[str, float]:
    return {c.container_id: c.expected_s for c in report.containers}


def test_what_runs_is_reckoned_with_anew() -> None:
    full = busy()
    assert fill_report(BLANK, full, 8).queued_s == 2.0
    assert tell(full, 8, (20, 60.0, 0.0)).queued_s == 52.0
    assert fill_report(BLANK, full, 20).queued_s == 40.0, "it holds until something else is reported"
    spread = tell(full, 20, (20, 10.0, 20.0)).queued_s
    assert spread > 15.0, "one that outlived ten seconds by far, of tasks that vary, runs on"
    assert tell(full, 20).queued_s == spread


def test_what_waits_is_reckoned_with_anew() -> None:
    full = busy()
    assert durations(tell(full, 0, (10, 3.0, 1.0))) == {"r": 10.0, "q": 3.0}
    (waiting,) = full.state.queue
    assert (waiting.view.expected_s, waiting.view.spread_s) == (3.0, 1.0)
    assert durations(tell(full, 0, (10, 5.0, 1.0), app_id="application_1_0009")) == {"r": 10.0, "q": 3.0}


def test_a_rerun_keeps_what_is_known_of_its_task() -> None:
    full = busy(sheds=1)
    assert durations(tell(full, 0, (10, 3.0, 1.0)))["q"] == 10.0
    assert durations(tell(full, 0, (10, 30.0, 1.0)))["q"] == 30.0


def test_a_guaranteed_container_has_an_estimate_once_the_proxy_told_it() -> None:
    full = node(memory_mb=1024, vcores=1)
    full.handle(arrived("g", 0, q=False, priority=20))
    full.handle(Answered("g", Outcome.STARTED, "", 0))
    assert durations(fill_report(BLANK, full, 0)) == {"g": 0.0}
    report = tell(full, 5, (20, 60.0, 0.0))
    assert durations(report) == {"g": 60.0} and report.remaining_s == 55.0


@given(st.lists(st.tuples(st.sampled_from([10, 20, 30]), st.floats(0, 1e5), st.floats(0, 1e5)), max_size=6))
def test_forecasts_stay_finite_and_the_queue_whole(news: list[tuple[int, float, float]]) -> None:
    full = busy()
    for now_s, one in enumerate(news):
        report = tell(full, now_s, one)
        assert 0 <= report.queued_s < 1e9 and report.queue_length == len(full.state.queue) == 1


@pytest.mark.parametrize("field", ["expected_s", "spread_s"])
def test_negative_durations_are_refused(field: str) -> None:
    good = {"app_id": APP, "priority": 1, "expected_s": 1.0, "spread_s": 1.0}
    with pytest.raises(ValueError, match=field):
        Expected.model_validate(good | {field: -1.0})
