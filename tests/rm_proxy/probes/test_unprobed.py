"""Which tasks alternatives are asked about that alone would probe nodes."""

from __future__ import annotations

from policies.model import AppView, Resources
from policies.waiting import WaitingApp
from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.probes import unprobed
from rm_proxy.probes.unprobed import Unprobed


def of(wanted: int) -> Demand:
    return Demand(WaitingApp(AppView("a"), wanted), {("", Resources(1024, 1)): wanted})


def test_further_tasks_are_asked_about_once() -> None:
    waits = Unprobed()
    assert [waits.more("a", of(wanted), 1.0) for wanted in (3, 3, 1, 2)] == [3, 0, 0, 1]
    waits.forget("a")
    assert waits.more("a", of(2), 1.0) == 2


def test_few_are_asked_about_in_a_second() -> None:
    waits = Unprobed()
    names = [f"a{number}" for number in range(unprobed.MAX_ASKED + 1)]
    assert [bool(waits.more(name, of(1), 1.0)) for name in names] == [True] * unprobed.MAX_ASKED + [False]
    assert waits.more(names[-1], of(1), 2.0) == 1, "its turn comes"
