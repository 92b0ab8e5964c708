"""The production machines as systems: nothing lost, seeds, limits on jobs, and whatever quicksilver.yaml chooses."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.tests.papers.checks import wrong
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import load
from quicksilver.simulator.systems.mercury import MERCURY, world
from quicksilver.simulator.world.outcome import outcome

CLUSTER = ClusterModel(nodes=3, slots=2, memory_mb=4096)


def run(
    name: str, jobs: list[SimulatedJob], seed: int = 1, cluster: ClusterModel = CLUSTER, **chosen: object
) -> SimResult:
    system = load(name)
    return system.run(jobs, cluster, system.Settings(**chosen), seed)


def job(number: int, arrives_s: float, *durations_s: float) -> SimulatedJob:
    return SimulatedJob(number, arrives_s, durations_s, estimate_s=sum(durations_s) / len(durations_s))


@pytest.mark.parametrize("name", ("kairos", "mercury", "opportunistic", "quicksilver"))
@given(
    st.lists(st.tuples(st.floats(0, 9), st.lists(st.floats(0.1, 9), min_size=1, max_size=6)), min_size=1, max_size=4),
    st.integers(0, 9),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_is_lost(name: str, drawn: list[tuple[float, list[float]]], seed: int) -> None:
    jobs = [job(number, at_s, *durations_s) for number, (at_s, durations_s) in enumerate(sorted(drawn), 1)]
    result = run(name, jobs, seed, sample_s=5.0)
    assert wrong(result, jobs, CLUSTER) == []
    assert result.counts["faults"] == 0 and result.extra["over_capacity"] == 0


@given(
    st.lists(st.tuples(st.floats(0, 9), st.lists(st.floats(0.1, 9), min_size=1, max_size=6)), min_size=1, max_size=4),
    st.sampled_from((None, 0.0, 0.5)),
    st.booleans(),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_is_lost_where_containers_are_reused_and_killed(
    drawn: list[tuple[float, list[float]]], reuse_s: float | None, counted: bool
) -> None:
    jobs = [job(number, at_s, *durations_s) for number, (at_s, durations_s) in enumerate(sorted(drawn), 1)]
    half = {**MERCURY, "routes": [{"policy": "hybrid_gq", "settings": {"td_s": 1e6, "pq": 50}}]}
    chosen = {"policies": half, "reuse_s": reuse_s, "counted": counted, "end_beats": True, "launch_s": 0.5}
    result = run("mercury", jobs, sample_s=5.0, **chosen)
    assert wrong(result, jobs, CLUSTER) == []
    assert result.counts["faults"] == 0 and result.extra["over_capacity"] == 0


def test_equal_seeds_are_equal() -> None:
    jobs = [job(1, 0.0, *[2.0] * 9), job(2, 1.0, *[4.0] * 5)]
    assert run("mercury", jobs) == run("mercury", jobs)


def test_queueable_ones_start_before_guaranteed_ones_would() -> None:
    jobs = [job(1, 0.0, *[2.0] * 6)]
    only_q = run("mercury", jobs)
    only_g = run("mercury", jobs, policies={"routes": [{"policy": "only_g"}]})
    assert only_q.jobs[0].completion_s < only_g.jobs[0].completion_s
    assert only_q.counts["granted Q"] == 6 and "granted Q" not in only_g.counts


def test_jobs_beyond_the_limit_wait() -> None:
    jobs = [job(number, 0.0, 5.0, 5.0) for number in (1, 2, 3)]
    at_once, one_by_one = run("mercury", jobs), run("mercury", jobs, max_jobs=1)
    assert max(one.ended_s for one in at_once.jobs) < 10 < 15 < max(one.ended_s for one in one_by_one.jobs)
    assert wrong(one_by_one, jobs, CLUSTER) == []


def test_a_master_holds_its_container_until_its_job_is_over() -> None:
    jobs, node = [job(1, 0.0, 5.0, 5.0), job(2, 1.0, 5.0)], ClusterModel(nodes=1, slots=2, delay_s=0.0)
    elsewhere, here = (run("mercury", jobs, cluster=node, master_cores=cores) for cores in (0, 1))
    assert [one.completion_s for one in elsewhere.jobs] == pytest.approx([5.1, 9.2])
    first, second = (one.completion_s for one in here.jobs)
    assert first == pytest.approx(10.2), "one task after the other, beside the master"
    assert 15.2 < second + 1.0 < 18.0, "its master finds room when the first is gone"
    assert wrong(here, jobs, node) == [] and here.counts["started"] == 3


@given(
    st.lists(st.tuples(st.floats(0, 9), st.lists(st.floats(0.1, 9), min_size=1, max_size=6)), min_size=1, max_size=5),
    st.integers(1, 3),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_masters_never_leave_tasks_without_room(drawn: list[tuple[float, list[float]]], nodes: int) -> None:
    jobs = [job(number, at_s, *durations_s) for number, (at_s, durations_s) in enumerate(sorted(drawn), 1)]
    jobs = [replace(one, cores=float(1 + one.number % 2)) for one in jobs]
    cluster = ClusterModel(nodes, slots=3)
    result = run("quicksilver", jobs, cluster=cluster, sample_s=5.0, master_cores=1)
    assert wrong(result, jobs, cluster) == []
    assert result.counts["faults"] == 0 and result.extra["over_capacity"] == 0


def test_a_container_that_gave_way_to_masters_goes_on() -> None:
    """Three masters take all cores of a node where queueable containers run, which are shrunk and not killed."""
    rng = Random(0)
    rng.randint(1, 3)
    times = [
        (rng.choice((0.0, rng.uniform(0, 9))), [rng.uniform(0.1, 9) for _ in range(rng.randint(1, 6))])
        for _ in range(rng.randint(1, 5))
    ]
    jobs = [job(number, at_s, *durations_s) for number, (at_s, durations_s) in enumerate(sorted(times), 1)]
    jobs = [replace(one, cores=float(1 + one.number % 2)) for one in jobs]
    result = run("quicksilver", jobs, cluster=ClusterModel(2, slots=3), sample_s=5.0, master_cores=1)
    assert wrong(result, jobs, ClusterModel(2, slots=3)) == [] and result.counts["shrink"] > 0


def test_a_master_that_never_finds_room_beside_a_task_is_an_error() -> None:
    with pytest.raises(SimulatorError, match="job 1: no node has room for its master beside a task; lower"):
        run("mercury", [job(1, 0.0, 1.0)], cluster=ClusterModel(nodes=1), master_cores=1)
    assert run("mercury", [job(1, 0.0, 1.0)], cluster=ClusterModel(nodes=2), master_cores=1).jobs


def test_a_master_takes_the_place_of_a_queueable_container() -> None:
    node = ClusterModel(nodes=1, slots=3, delay_s=0.0)
    jobs = [job(1, 0.0, 9.0, 9.0), job(2, 3.0, 1.0)]
    result = run("mercury", jobs, cluster=node, master_cores=1)
    assert result.counts["kills"] == 1 and wrong(result, jobs, node) == []


def one_slot(*durations_s: float, **chosen: object) -> SimResult:
    """Run one job on one node of one slot, guaranteed, with heartbeats that are far apart."""
    settings = {"policies": {"routes": [{"policy": "only_g"}]}, "node_beat_s": 50.0, "start_s": 1.0, **chosen}
    return run("mercury", [job(1, 0.0, *durations_s)], cluster=ClusterModel(nodes=1, delay_s=0.0), **settings)


def test_a_place_is_given_again_when_its_node_heartbeats() -> None:
    late, soon = one_slot(2.0, 2.0), one_slot(2.0, 2.0, end_beats=True)
    assert late.jobs[0].ended_s > 50 + soon.jobs[0].wait_s
    # A task takes 1 + 2 s; its master fetches a grant within 1 s.
    assert late.jobs[0].ended_s - soon.jobs[0].ended_s == pytest.approx(50 - 3, abs=1.0)


def test_a_container_takes_the_next_task_of_its_job() -> None:
    reused = one_slot(2.0, 3.0, 4.0, reuse_s=0.5)
    jobs = [job(1, 0.0, 2.0, 3.0, 4.0)]
    assert wrong(reused, jobs, ClusterModel(nodes=1)) == []
    first_s = one_slot(2.0).jobs[0].ended_s
    assert reused.jobs[0].ended_s == pytest.approx(first_s + 0.5 + 3.0 + 0.5 + 4.0)
    assert reused.counts["events"] < one_slot(2.0, 3.0, 4.0).counts["events"]


def test_a_job_begins_when_its_master_does() -> None:
    early, late = run("mercury", [job(1, 0.0, 2.0)]), run("mercury", [job(1, 0.0, 2.0)], master_start_s=8.0)
    assert late.jobs[0].ended_s == pytest.approx(early.jobs[0].ended_s + 8.0, abs=0.01)


def test_schedulers_that_do_not_count_placements_go_to_the_same_nodes() -> None:
    cluster = ClusterModel(nodes=8, slots=2)
    jobs = [job(number, 0.0, *[4.0] * 4) for number in range(1, 5)]
    place = {"policy": "topk_wait", "settings": {"k": 2, "max_ratio": 1.0}}
    policies = {**load("mercury").Settings().model_dump()["policies"], "place": place}
    counted, blind = (
        run("mercury", jobs, cluster=cluster, policies=policies, report_s=3.0, counted=known) for known in (True, False)
    )
    assert max(one.ended_s for one in counted.jobs) < 5 < 8 < max(one.ended_s for one in blind.jobs)
    assert wrong(blind, jobs, cluster) == []


def test_more_waits_where_waits_are_told_too_short() -> None:
    cluster = ClusterModel(nodes=4, slots=1)
    jobs = [job(number, 0.7 * number, 2.0, 2.0, 2.0) for number in range(1, 9)]
    right, wrong_ones = (
        run("mercury", jobs, cluster=cluster, wrong_nodes=share, wrong_times=50.0) for share in (0.0, 0.25)
    )
    assert max(one.ended_s for one in wrong_ones.jobs) > max(one.ended_s for one in right.jobs) + 2
    assert wrong(wrong_ones, jobs, cluster) == []


def test_what_cannot_be_run_is_refused() -> None:
    with pytest.raises(SimulatorError, match=r"policies: .*place.*nope"):
        run("mercury", [job(1, 0.0, 1.0)], policies={"place": {"policy": "nope"}})
    with pytest.raises(SimulatorError, match="YARN counts whole cores"):
        run("mercury", [replace(job(1, 0.0, 1.0), cores=0.5)])
    with pytest.raises(SimulatorError, match="sort by arrival"):
        run("mercury", [job(1, 2.0, 1.0), job(2, 1.0, 1.0)])


def las(quantum_s: float, extra: int) -> dict[str, object]:
    chosen = {"quantum_s": quantum_s, "extra": extra}
    section = load("kairos").Settings().model_dump()["policies"]
    return {**section, "preempt": {"policy": "las", "settings": chosen}}


def test_a_newcomer_preempts_and_the_least_attained_goes_on() -> None:
    one = ClusterModel(nodes=1, delay_s=0.0)
    jobs = [job(1, 0.0, 10.0), job(2, 3.0, 2.0), job(3, 4.0, 0.25)]
    result = run("kairos", jobs, cluster=one, policies=las(100.0, 2), start_s=0.0)
    ended_s = {outcome.number: outcome.ended_s for outcome in result.jobs}
    # 1 runs from 0 to 3, 2 from 3 to 4, 3 from 4 to 4.25, then 2 (attained 1 s) to 5.25, 1 to 12.25.
    assert ended_s == pytest.approx({1: 12.25, 2: 5.25, 3: 4.25}, abs=1e-3)
    assert (result.counts["shrink"], result.counts["restore"], result.counts["kills"]) == (2, 2, 0)


def test_after_its_quantum_a_task_gives_way_to_one_that_attained_no_more() -> None:
    one = ClusterModel(nodes=1, delay_s=0.0)
    result = run("kairos", [job(1, 0.0, 10.0), job(2, 1.0, 10.0)], cluster=one, policies=las(4.0, 1), start_s=0.0)
    # 1 0..1, 2 1..5, 1 (1 s) 5..9, 2 (4 s) 9..13, 1 (5 s) 13..17, 2 (8 s) 17..19, 1 (9 s) 19..20.
    assert {o.number: round(o.ended_s, 3) for o in result.jobs} == {1: 20.0, 2: 19.0}


def windows(cron: str, length_s: int, **more: object) -> dict[str, object]:
    """Return policies that are all guaranteed but in a window of queueable ones."""
    window = {"name": "night", "cron": cron, "length_s": length_s, "use": "open", **more}
    late = {"routes": [{"policy": "only_q"}], "order": {"policy": "srpt"}, "preempt": {"policy": "kill_newest"}}
    base = {"queues": ["*"], "routes": [{"policy": "only_g"}], "time_zone": "Europe/Berlin"}
    return {**base, "alternatives": {"open": late}, "windows": [window]}


def test_windows_open_and_close_by_the_time_at_which_the_trace_begins() -> None:
    """Jobs at 30, 90, 190 s after 21:59 in Berlin; the window opens at 22:00 for two minutes."""
    jobs = [job(number, at_s, 1.0) for number, at_s in enumerate((30.0, 90.0, 190.0), 1)]
    night = windows("0 22 * * mon", 120)
    result = run("quicksilver", jobs, policies=night, begins="2026-11-23T21:59")
    assert (result.counts["granted G"], result.counts["granted Q"]) == (2, 1)
    assert result.counts["windows changed"] == 2
    other_day = run("quicksilver", jobs, policies=night, begins="2026-11-24T21:59")
    assert "granted Q" not in other_day.counts and "windows changed" not in other_day.counts


def test_before_a_window_ends_only_short_queueable_ones_start() -> None:
    """The window ends at 60 s; in its last 30 s a task of 90 s would not end before, one of 5 s would."""
    jobs = [job(1, 5.0, 90.0), job(2, 40.0, 90.0), job(3, 41.0, 5.0)]
    result = run("quicksilver", jobs, policies=windows("0 22 * * *", 60, drain_s=30), begins="2026-11-23T22:00")
    assert (result.counts["granted Q"], result.counts["granted G"]) == (2, 1)
    assert wrong(result, jobs, CLUSTER) == []


def test_a_begin_that_is_no_time_is_refused() -> None:
    with pytest.raises(SimulatorError, match="begins is a time such as"):
        run("quicksilver", [job(1, 0.0, 1.0)], policies=windows("0 22 * * *", 60), begins="tonight")


def test_jobs_that_are_cut_off_are_counted() -> None:
    system, jobs = load("mercury"), [job(1, 0.0, 2.0), job(2, 0.0, 500.0)]
    made = world(iter(jobs), CLUSTER, system.Settings(), 1, until_s=60.0)
    made.go()
    result = outcome(made, "mercury", 1, [])
    assert [one.number for one in result.jobs] == [1] and result.counts["unfinished"] == 1
