"""The figures of hand-made runs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.config.notes import notes
from policies.config.policy_set import Policies
from quicksilver_lab.bench.emulator.model import EmulatedSample, JobRecord, RunResult, TaskRecord
from quicksilver_lab.bench.emulator.raw import packed, unpacked
from quicksilver_lab.bench.mercury.competitors import ALL, Competitor
from quicksilver_lab.bench.mercury.figures import MeasuredWindow, figures, summary
from quicksilver_lab.bench.mercury.phases import idle_ratios, phases


def run_of(competitor: str, ends_s: list[float], seed: int = 1, workload: str = "fixed_2s") -> RunResult:
    """Return a run with a window from 10 to 20 s and a job of one task for each end, submitted 4 s before it."""
    jobs = []
    for number, end_s in enumerate(ends_s):
        task = TaskRecord(number, 0, end_s - 3, end_s - 2.5, end_s - 2, end_s, attempts=1)
        jobs.append(JobRecord(number, "2s", end_s - 4, end_s - 3.5, end_s, [task]))
    samples = [EmulatedSample(float(at), 3, 0, 3) for at in range(25)]
    return RunResult(competitor, workload, seed, 2, 4, 10.0, 10.0, jobs, samples, kills=1, work_lost_s=0.5)


def test_only_what_ends_within_the_window_counts() -> None:
    found = figures(run_of("a", [9.99, 10.0, 15.0, 19.9, 20.0]))
    assert found["tasks_per_s"] == pytest.approx(0.3)
    assert found["jobs_per_s"] == pytest.approx(0.3)
    assert found["utilisation"] == 0.75
    assert found["latency_p50_s"] == found["latency_p95_s"] == 4.0
    assert found["wait_p50_s"] == 1.0


def test_a_run_without_ends_has_rates_alone() -> None:
    assert figures(run_of("a", [])) == {"tasks_per_s": 0, "jobs_per_s": 0, "utilisation": 0.75}
    assert "latency_p95_s" not in summary([run_of("a", [])], draws=10)


def test_a_window_without_length_is_refused() -> None:
    run = run_of("a", [11.0])
    run.window_s = 0.0
    with pytest.raises(ValueError, match="a, fixed_2s, seed 1: a window of 0 s"):
        figures(run)


def test_equal_blocks_have_no_spread() -> None:
    found = summary([run_of("a", [11.0, 16.0]), run_of("a", [12.0, 17.0], seed=2)], draws=50)
    assert found["tasks_per_s"] == {"value": 0.2, "ci_low": 0.2, "ci_high": 0.2}
    assert found["kills"] == 2
    assert found["kills_per_1000_tasks"] == 500
    assert found["classes"] == {"2s": {"jobs": 4, "latency_p50_s": 4.0, "latency_p95_s": 4.0}}


@given(st.lists(st.floats(0, 30), max_size=40))
def test_blocks_share_the_window(ends_s: list[float]) -> None:
    run = run_of("a", ends_s)
    window = MeasuredWindow.of(run)
    in_blocks = sum(sum(block.has(end_s) for end_s in ends_s) for block in window.blocks())
    assert in_blocks == pytest.approx(figures(run)["tasks_per_s"] * window.length_s)


@pytest.mark.parametrize("competitor", ALL, ids=lambda competitor: competitor.name)
def test_policies_of_competitors_are_valid(competitor: Competitor) -> None:
    assert competitor.quicksilver == (competitor.kind == "quicksilver")
    if competitor.policies is not None:
        assert notes(Policies.load(competitor.policies)) == []


def test_packed_runs_come_back() -> None:
    run = run_of("a", [11.0, 12.5])
    assert unpacked(json.loads(json.dumps(packed(run)))) == run


def test_phases_name_where_time_goes() -> None:
    found = phases([run_of("a", [12.0, 16.0])])
    assert found == {
        "wanted_to_granted_s": 0.5,
        "granted_to_started_s": 0.5,
        "started_to_ended_s": 2.0,
        "submitted_to_registered_s": 0.5,
        "submitted_to_first_start_s": 2.0,
        "first_to_last_start_s": 0.0,
        "last_start_to_last_end_s": 2.0,
        "last_end_to_over_s": 0.0,
        "idle_ratio": 0.25,
        "idle_while_queued_ratio": 0.0,
    }


def test_samples_that_come_late_show() -> None:
    run = run_of("a", [12.0])
    assert summary([run], draws=10)["late_s"] == 0
    run.samples = [EmulatedSample(at_s, 0, 0, 0) for at_s in (11.0, 12.5, 13.0)]
    assert summary([run], draws=10)["late_s"] == 0.5


def test_idle_slots_count_as_misplaced_up_to_what_waits() -> None:
    run = run_of("a", [12.0])
    run.samples = [EmulatedSample(11.0, 1, 2, 1), EmulatedSample(12.0, 3, 5, 3)]
    assert idle_ratios(run) == {"idle_ratio": 0.5, "idle_while_queued_ratio": 0.375}
