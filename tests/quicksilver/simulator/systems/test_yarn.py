"""Stock YARN: what its heartbeats cost, who goes first, and that nothing is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.papers.checks import wrong
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import load
from quicksilver.simulator.tally import Tally

EXACT = {"node_beat_s": 1.0, "master_beat_s": 1.0, "start_s": 0.0, "end_beats": False}


def run(name: str, jobs: list[SimulatedJob], cluster: ClusterModel, seed: int = 1, **chosen: object) -> SimResult:
    system = load(name)
    return system.run(jobs, cluster, system.Settings(**chosen), seed)


def job(number: int, arrives_s: float, *durations_s: float, queue: str = "default") -> SimulatedJob:
    return SimulatedJob(number, arrives_s, durations_s, estimate_s=1.0, queue=queue)


def test_a_task_waits_for_a_nodes_heartbeat_and_then_for_its_masters() -> None:
    result = run("yarn_fifo", [job(1, 0.0, 2.5)], ClusterModel(1, delay_s=0.0), **EXACT)
    assert [one.ended_s for one in result.jobs] == [1.0 + 2.5]
    assert result.jobs[0].wait_s == 1.0


def test_a_place_is_free_at_the_end_of_a_container_or_at_its_nodes_next_heartbeat() -> None:
    jobs, cluster = [job(1, 0.0, 2.5, 2.5)], ClusterModel(1, delay_s=0.0)
    exact = {**EXACT, "node_beat_s": 10.0}
    at_beats = run("yarn_fifo", jobs, cluster, **exact).jobs[0].ended_s
    at_ends = run("yarn_fifo", jobs, cluster, **{**exact, "end_beats": True}).jobs[0].ended_s
    first_began_s = at_beats - 10.0 - 2.5
    assert at_ends == first_began_s + 3.0 + 2.5  # its master heartbeats each second


def test_a_node_gets_one_container_in_a_heartbeat_and_more_where_that_is_set() -> None:
    cluster = ClusterModel(1, slots=3, delay_s=0.0)
    one = run("yarn_fifo", [job(1, 0.0, 9.0, 9.0, 9.0)], cluster, **EXACT)
    assert one.jobs[0].wait_s == (1.0 + 2.0 + 3.0) / 3
    three = run("yarn_fifo", [job(1, 0.0, 9.0, 9.0, 9.0)], cluster, **EXACT, off_switch=3)
    assert three.jobs[0].wait_s == 1.0


def test_the_oldest_application_goes_first() -> None:
    jobs = [job(1, 0.0, 5.0, 5.0, 5.0), job(2, 0.1, 1.0)]
    result = run("yarn_fifo", jobs, ClusterModel(1, delay_s=0.0), **EXACT)
    ended_s = {one.number: one.ended_s for one in result.jobs}
    assert ended_s[2] > ended_s[1]


def test_the_queue_that_uses_least_of_its_capacity_goes_first() -> None:
    queues = {"a": {"capacity": 0.5}, "b": {"capacity": 0.5}}
    jobs = [job(1, 0.0, *[5.0] * 6, queue="a"), job(2, 3.0, 1.0, queue="b")]
    result = run("yarn_capacity", jobs, ClusterModel(2, delay_s=0.0), **EXACT, queues=queues)
    ended_s = {one.number: one.ended_s for one in result.jobs}
    assert ended_s[2] < ended_s[1]


def test_a_queue_stays_within_its_maximum() -> None:
    queues = {"a": {"capacity": 0.5, "maximum": 0.5}}
    result = run("yarn_capacity", [job(1, 0.0, *[50.0] * 8, queue="a")], ClusterModel(4), queues=queues, sample_s=5.0)
    assert max(share for _, share in result.busy) == 0.5
    with pytest.raises(SimulatorError, match="one container is more than its maximum"):
        run("yarn_capacity", [job(1, 0.0, 1.0, queue="a")], ClusterModel(1), queues=queues)


def test_what_can_never_run_is_refused() -> None:
    with pytest.raises(SimulatorError, match="queue 'x' is none of default"):
        run("yarn_capacity", [job(1, 0.0, 1.0, queue="x")], ClusterModel(1))
    with pytest.raises(SimulatorError, match="wants 2 cores"):
        run("yarn_fifo", [SimulatedJob(1, 0.0, (1.0,), 1.0, cores=2.0)], ClusterModel(1))
    with pytest.raises(SimulatorError, match="sort the trace by arrival"):
        run("yarn_fifo", [job(1, 5.0, 1.0), job(2, 4.0, 1.0)], ClusterModel(1))
    with pytest.raises(SimulatorError, match="number each job once"):
        run("yarn_fifo", [job(1, 5.0, 9.0), job(1, 6.0, 1.0)], ClusterModel(1))


JOBS = st.lists(
    st.tuples(st.floats(0, 20), st.lists(st.floats(0, 30), min_size=1, max_size=8), st.sampled_from((1.0, 2.0))),
    min_size=1,
    max_size=8,
).map(
    lambda drawn: [
        SimulatedJob(number, at_s, tuple(durations), 1.0, cores=cores)
        for number, (at_s, durations, cores) in enumerate(sorted(drawn, key=lambda one: one[0]), 1)
    ]
)


@pytest.mark.parametrize("name", ("yarn_fifo", "yarn_capacity"))
@given(JOBS, st.integers(1, 5), st.integers(2, 4), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_nothing_is_lost_and_equal_seeds_are_equal(
    name: str, jobs: list[SimulatedJob], nodes: int, slots: int, off_switch: int
) -> None:
    cluster = ClusterModel(nodes, slots, memory_mb=2048)
    result = run(name, jobs, cluster, off_switch=off_switch)
    assert wrong(result, jobs, cluster) == []
    assert result == run(name, jobs, cluster, off_switch=off_switch)


def test_ends_at_one_moment_are_all_told() -> None:
    jobs = [job(number, 0.0, 0.0, 0.0, 2.0, 2.0) for number in (1, 2, 3)]
    cluster = ClusterModel(2, slots=2, delay_s=0.0)
    assert wrong(run("yarn_fifo", jobs, cluster, start_s=0.0), jobs, cluster) == []


def test_a_run_in_which_nothing_is_left_to_be_done_ends_with_an_error() -> None:
    clock, cluster = Clock(), ClusterModel(1)
    tally = Tally("none", 1, clock, cluster, 10.0)
    tally.feed([job(1, 0.0, 5.0)], tally.arrived)
    with pytest.raises(SimulatorError, match=r"at 10\.0 s nothing is left to be done, but 1 jobs have not ended"):
        clock.run()
