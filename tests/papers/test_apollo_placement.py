"""Apollo's placement (OSDI '14, §3.2, §3.3, §5.5): its Figures 4, 5 and 12, and what always holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.common.completion_time import CompletionTime, Input, Server, estimate_s
from policies.common.stable_matching import dispatch_order, greedy, match, preference
from policies.model import Resources
from quicksilver_lab.bench.sim.matching import compare, soonest
from sidecar.node.queue.wait_estimate import CoreRoom, WaitingJob, wait_matrix

CFG = CompletionTime()
INPUTS = [Input(100, "A", "left"), Input(5000, "C", "right")]
"""Figure 4: 100 MB on A, 5 GB on C; A and B share a rack, C and D another."""
CHOICES = [Server("A", "left"), Server("B", "left"), Server("C", "right", 40), Server("D", "right", 5)]


def test_figure_4() -> None:
    seconds = {server.host: estimate_s(INPUTS, 0, server, CFG) for server in CHOICES}
    assert seconds == pytest.approx({"A": 63.125, "B": 63.5, "C": 72.5, "D": 56.25})
    assert min(seconds, key=seconds.__getitem__) == "D"


def test_what_may_fail_counts_as_slower() -> None:
    """C = P E + K (1 - P) E with E = I + W + R."""
    server = Server("D", "right", 5, init_s=2, success_ratio=0.9)
    done_s = 2 + 5 + 51.25 + 10
    cfg = CompletionTime(fail_ratio=4)
    assert estimate_s(INPUTS, 10, server, cfg) == pytest.approx(0.9 * done_s + 4 * 0.1 * done_s)


def test_figure_5() -> None:
    """Tasks 1 and 2 read from A, task 3 from B; whoever chooses one after the other takes B from task 3."""
    local, far = 1.0, 2.0
    tasks = [
        preference({"A": local, "B": far, "C": far}),
        preference({"A": local, "B": far, "C": far}),
        preference({"A": far, "B": local, "C": far}),
    ]
    assert greedy(tasks) == ["A", "B", "C"]
    assert match(tasks) == ["A", "C", "B"]


def test_a_server_takes_whom_it_saves_most() -> None:
    tasks = [preference({"A": 1.0, "B": 2.0}), preference({"A": 5.0, "B": 9.0})]
    assert match(tasks) == ["B", "A"]
    assert match([*tasks, preference({"A": 7.0})]) == ["B", None, "A"], "one that has no other place goes first"
    assert match(tasks, max_rounds=1) == [None, "A"], "the other one is for the next batch"
    assert match([[], *tasks]) == [None, "B", "A"]


def test_those_that_wait_least_are_sent_first() -> None:
    assert dispatch_order(["A", None, "B", "C"], {"A": 3.0, "B": 0.0, "C": 3.0}) == [2, 0, 3]


@pytest.mark.long
def test_figure_12_within_5_percent_of_the_best_and_greedy_far_behind() -> None:
    """50 tasks of which each is ten times as fast where it prefers to be; over 8 draws, in the mean."""
    found = compare(50, 10, 8)
    assert 1 <= found["stable"] < 1.05
    assert found["greedy"] > 1.3


def test_the_best_that_figure_12_compares_with() -> None:
    """Task 1 takes what is left: 3 s on A beside 2 s on B is better than 1 s on A beside 9 s on B."""
    assert soonest([preference({"A": 1.0, "B": 2.0}), preference({"A": 3.0, "B": 9.0})]) == 3.0


offers = st.lists(st.dictionaries(st.sampled_from("ABCDE"), st.sampled_from([1.0, 2.0, 3.5, 7.0])), max_size=7)


@given(offers)
def test_a_matching_is_one_to_one_and_nobody_prefers_an_idle_server(drawn: list[dict[str, float]]) -> None:
    chosen = match([preference(offer) for offer in drawn])
    servers = [server for server in chosen if server is not None]
    assert len(servers) == len(set(servers))
    for offer, server in zip(drawn, chosen, strict=True):
        idle = offer.keys() - servers
        if server is None:
            assert not idle
        else:
            assert all(offer[server] <= offer[other] for other in idle)


def test_a_matrix_by_playing_the_node_forward() -> None:
    """4 cores and 8 GB free but for 2 cores; one runs for 10 s more on 2 cores and 4 GB, one of 2 cores waits."""
    running = [WaitingJob(Resources(4096, 2), 10.0), WaitingJob(Resources(4096, 1), 25.0)]
    waiting = [WaitingJob(Resources(2048, 2), 30.0)]
    cells = [Resources(memory_mb, vcores) for memory_mb in (1024, 6144) for vcores in (1, 4)]
    found = wait_matrix(CoreRoom(Resources(4096, 1)), running, waiting, cells, now_s=100.0)
    assert found.wait_s == {
        Resources(1024, 1): 10.0,
        Resources(1024, 4): 40.0,
        Resources(6144, 1): 10.0,
        Resources(6144, 4): 40.0,
    }
    assert found.wait(Resources(512, 1), 103.0) == 7.0
    assert found.wait(Resources(512, 2), 103.0) == 37.0
    assert found.wait(Resources(9000, 1), 103.0) == float("inf")


jobs = st.lists(
    st.builds(
        WaitingJob, st.builds(Resources, st.integers(0, 4096), st.integers(0, 4)), st.floats(0.1, 100), st.floats(0, 50)
    ),
    max_size=6,
)


@given(jobs, jobs, st.floats(0, 1e4))
def test_a_larger_size_never_waits_less(running: list[WaitingJob], waiting: list[WaitingJob], age_s: float) -> None:
    cells = [Resources(memory_mb, vcores) for memory_mb in (1024, 4096) for vcores in (1, 2, 4)]
    matrix = wait_matrix(CoreRoom(Resources(4096, 4)), running, waiting, cells, now_s=0.0)
    for one in cells:
        assert matrix.wait(one, age_s) >= 0
        for other in cells:
            if one.fits(other):
                assert matrix.wait_s[one] <= matrix.wait_s[other]
