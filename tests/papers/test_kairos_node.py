"""Algorithm 2 of Kairos (thesis §4.3.2), line by line, against the machine of the node."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isclose
from statistics import pvariance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model import Way
from sidecar.cpu_sharing.events import Joined, LasEvent, LasRules, Left, ReadyContainer, Resized, SharingTurn
from sidecar.cpu_sharing.las import Las
from tests.examples import of_share

W = 50.0


class Algorithm2:
    """The pseudocode: a core and a timer for each running task, starvation prevention not shown. Ties go by name."""

    def __init__(self, cores: int) -> None:
        self.idle_cores = cores
        self.attained: dict[str, float] = {}
        self.start: dict[str, float] = {}
        self.timer: dict[str, float] = {}
        """Of running tasks; the others are idle."""

    def _stop(self, task: str, now_s: float) -> None:
        self.attained[task] += now_s - self.start[task]
        del self.timer[task]

    def _run(self, task: str, now_s: float) -> None:
        self.start[task], self.timer[task] = now_s, now_s + W

    def _youngest_idle(self) -> str | None:
        idle = self.attained.keys() - self.timer.keys()
        return min(idle, key=lambda t: (self.attained[t], t), default=None)

    def arrives(self, task: str, now_s: float) -> None:
        """Lines 2 to 18."""
        if self.idle_cores:
            self.idle_cores -= 1
        else:
            oldest = max(self.timer, key=lambda t: (self.attained[t] + now_s - self.start[t], t))
            self._stop(oldest, now_s)
        self.attained[task] = 0.0
        self._run(task, now_s)

    def finishes(self, task: str, now_s: float) -> None:
        """Lines 19 to 29."""
        del self.timer[task], self.attained[task]
        youngest = self._youngest_idle()
        if youngest is None:
            self.idle_cores += 1
        else:
            self._run(youngest, now_s)

    def fires(self, now_s: float) -> None:
        """Lines 30 to 44, for each timer that is due."""
        for task in sorted(t for t, at_s in self.timer.items() if at_s <= now_s):
            attained = self.attained[task] + now_s - self.start[task]
            youngest = self._youngest_idle()
            self._stop(task, now_s)
            if youngest is not None and self.attained[youngest] <= attained:
                self._run(youngest, now_s)
            else:
                self._run(task, now_s)

    def variance(self, now_s: float) -> float:
        """Line 48; of what is attained now."""
        return pvariance([a + (now_s - self.start[t] if t in self.timer else 0) for t, a in self.attained.items()])


def tell(node: Las, *events: LasEvent) -> None:
    """Tell events, and that all commands were carried out at once."""
    waiting = list(events)
    while waiting:
        event = waiting.pop(0)
        done = [Resized(command.container_id, "", event.now_s) for command in node.handle(event)]
        waiting = [*done, *waiting]


def running(node: Las) -> set[str]:
    return {share.id for share in node.shares.values() if share.running}


def new_node(cores: int) -> Las:
    return Las(LasRules(cores, quantum_s=W, starve_quanta=10**6))


def arrive(node: Las, task: str, now_s: float) -> None:
    tell(node, Joined(task, 1, Way.SHRINK, now_s), ReadyContainer(task, now_s))


def test_line_8_an_idle_core_runs_the_newcomer() -> None:
    node = new_node(2)
    arrive(node, "t1", 0)
    arrive(node, "t2", 10)
    assert running(node) == {"t1", "t2"}


def test_line_11_the_highest_attained_is_preempted() -> None:
    node = new_node(2)
    arrive(node, "t1", 0)
    arrive(node, "t2", 10)
    arrive(node, "t3", 30)  # t1 30 s, t2 20 s
    assert running(node) == {"t2", "t3"}
    arrive(node, "t4", 45)  # t2 35 s, t3 15 s
    assert running(node) == {"t3", "t4"}
    assert {s.id: s.attained_s for s in node.shares.values()} == {"t1": 30, "t2": 35, "t3": 15, "t4": 0}


def test_line_22_the_lowest_attained_is_resumed() -> None:
    node = new_node(1)
    arrive(node, "t1", 0)
    arrive(node, "t2", 20)  # t1 20 s
    arrive(node, "t3", 25)  # t2 5 s
    tell(node, Left("t3", 40))
    assert running(node) == {"t2"}
    tell(node, Left("t2", 50))
    assert running(node) == {"t1"}


def test_line_34_who_attained_no_more_takes_over_when_the_timer_fires() -> None:
    node = new_node(1)
    arrive(node, "t1", 0)
    arrive(node, "t2", 49)  # t1 49 s
    tell(node, SharingTurn(98.9))
    assert running(node) == {"t2"}
    tell(node, SharingTurn(99))  # t2 50 s
    assert running(node) == {"t1"}


def test_line_34_equal_service_is_enough() -> None:
    node = new_node(1)
    arrive(node, "t1", 0)
    arrive(node, "t2", W)
    tell(node, SharingTurn(2 * W))
    assert running(node) == {"t1"}


def test_line_43_the_timer_is_set_again() -> None:
    node = new_node(1)
    arrive(node, "t1", 0)
    tell(node, SharingTurn(50))
    arrive(node, "t2", 90)  # t1 90 s
    tell(node, SharingTurn(140))  # t2 50 s: goes on
    assert running(node) == {"t2"}
    tell(node, SharingTurn(150))
    assert running(node) == {"t2"}
    assert node.deadline_s() == 190
    tell(node, SharingTurn(190))  # t2 100 s
    assert running(node) == {"t1"}


def test_three_tasks_share_a_core_in_turns() -> None:
    """Same sizes, all there at once: equal service after each three quanta."""
    node = new_node(1)
    for task in ("t1", "t2", "t3"):
        arrive(node, task, 0)
    while (at_s := node.deadline_s()) is not None and at_s <= 9 * W:
        tell(node, SharingTurn(at_s))
    assert {s.attained_s for s in node.shares.values()} == {3 * W}
    assert node.spread_s() == 0


def replay(cores: int, arrivals: Sequence[float], lengths: Sequence[float]) -> int:
    """Run tasks of `lengths` (CPU seconds) that come at `arrivals` through both; return how many ended."""
    paper, node = Algorithm2(cores), new_node(cores)
    length = {f"t{number:02}": seconds for number, seconds in enumerate(lengths)}
    coming = sorted(zip(arrivals, length, strict=True))
    ends, now_s = 0, 0.0
    while coming or paper.attained:
        finish = {t: paper.start[t] + length[t] - paper.attained[t] for t in paper.timer}
        first = min(finish, key=lambda t: (finish[t], t), default="")
        times = (finish.get(first, inf), coming[0][0] if coming else inf, min(paper.timer.values(), default=inf))
        now_s = max(now_s, min(times))
        if times[0] == min(times):
            paper.finishes(first, now_s)
            tell(node, Left(first, now_s))
            ends += 1
        elif times[1] == min(times):
            _, task = coming.pop(0)
            paper.arrives(task, now_s)
            arrive(node, task, now_s)
        else:
            paper.fires(now_s)
            tell(node, SharingTurn(now_s))
        assert running(node) == set(paper.timer), now_s
        if len(paper.attained) > 1:
            assert isclose(node.spread_s() ** 2, paper.variance(now_s), rel_tol=1e-6, abs_tol=1e-3)
    assert node.shares == {}
    return ends


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_a_hand_made_sequence(cores: int) -> None:
    """Short tasks among long ones; arrivals that meet no timer."""
    arrivals = [0, 3, 7, 12, 61, 64, 133, 211, 214, 377]
    lengths = [401.5, 35.25, 35.5, 160.5, 15.25, 230.5, 15.5, 61.25, 112.5, 30.75]
    assert replay(cores, arrivals, lengths) == 10


tasks = st.lists(st.tuples(st.integers(0, 600), st.integers(1, 400)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=of_share(200))
@given(tasks, st.integers(1, 4))
def test_any_sequence(drawn: list[tuple[int, int]], cores: int) -> None:
    """Binary fractions are exact, and keep things from happening at the same time, where there is no order."""
    arrivals = [at_s + (number + 1) / 64 for number, (at_s, _) in enumerate(drawn)]
    lengths = [seconds + (number + 1) / 4096 for number, (_, seconds) in enumerate(drawn)]
    assert replay(cores, arrivals, lengths) == len(drawn)
