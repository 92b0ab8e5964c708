"""Playbooks of least attained service by job: of the widest job, over all nodes, a container gives way first."""

from __future__ import annotations

from typing import Any

from policies.model import Way
from sidecar.cpu_sharing.events import (
    Jobs,
    Joined,
    LasRules,
    Left,
    ReadyContainer,
    Restore,
    Ruled,
    Served,
    SharingTurn,
    Shrink,
)
from sidecar.cpu_sharing.las import Las
from tests.playbook import play
from tests.sidecar.cpu_sharing.words import MIN, come, las, running, settle

WIDE_S, SMALL_S = 5_000.0, 100.0
"""Levels 4 and 2."""
LESS = "its job attained more over all nodes than that of"


def node(cores: float = 2, by_job: bool = True, *, wide: str = "w", small: str = "s", **rules: Any) -> Las:
    """Return a node where one container of a wide job began at 6 s, and one of a small job ran from the start."""
    known = las(cores, by_job=by_job, **rules)
    settle(known, come(known, small, 0, app_id="small"), 0)
    settle(known, come(known, wide, 6, app_id="wide"), 6)
    settle(known, known.handle(Jobs({"wide": WIDE_S, "small": SMALL_S}, (), 7)), 7)
    return known


def test_a_container_of_the_widest_job_gives_way_though_it_attained_least_itself() -> None:
    play(
        node(),
        (Joined("n", 1, Way.SHRINK, 8, app_id="new"), []),
        (ReadyContainer("n", 8), [Shrink("w", MIN, "n", f"{LESS} n")]),
    )


def test_without_jobs_its_own_service_decides() -> None:
    known = node(by_job=False)
    assert come(known, "n", 8, app_id="new") == [Shrink("s", MIN, "n", "attained 8.0 s, n only 0.0 s")]


def test_a_freed_core_goes_to_the_container_of_the_smallest_job() -> None:
    known = node(cores=1)
    assert set(running(known)) == {"s"}, "the wide job's container waits"
    settle(known, come(known, "n", 8, app_id="new"), 8)
    assert set(running(known)) == {"n"}
    play(known, (Served({"s": 50.0, "w": 0.0}, 9), []), (Left("n", 9), [Restore("s", "its turn: attained 50.0 s")]))


def test_a_newcomer_of_a_wider_job_waits_for_a_core_and_one_of_its_level_does_not() -> None:
    known = node(cores=1)
    assert come(known, "v", 8, app_id="wide") == [Shrink("v", MIN, "", "others go first")]
    settle(known, known.handle(Left("v", 8)), 8)
    assert come(known, "t", 9, app_id="small") == [Shrink("s", MIN, "t", "attained 8.0 s, t only 0.0 s")]


def test_a_quantum_does_not_protect_from_containers_of_smaller_jobs() -> None:
    known = las(1, by_job=True)
    settle(known, come(known, "s", 0, app_id="small"), 0)
    settle(known, come(known, "w", 6, app_id="wide"), 6)
    assert set(running(known)) == {"w"}, "nothing is known of the jobs yet"
    play(
        known,
        (
            Jobs({"wide": WIDE_S, "small": SMALL_S}, (), 7),
            [Shrink("w", MIN, "s", f"{LESS} s"), Restore("s", "its turn: attained 6.0 s")],
        ),
    )


def test_where_as_many_containers_of_a_job_gave_way_as_may_one_of_another_job_does() -> None:
    known = node()
    assert known.handle(Jobs({"wide": WIDE_S, "small": SMALL_S}, ("wide",), 8)) == []
    assert come(known, "n", 9, app_id="new") == [Shrink("s", MIN, "n", f"{LESS} n")]
    known = node(cores=1)
    assert known.handle(Jobs({"wide": WIDE_S, "small": SMALL_S}, ("wide",), 8)) == [], "what is shrunk stays so"


def test_a_container_that_starves_runs_whatever_its_job_attained() -> None:
    known = node(cores=1, starve_quanta=3)
    assert set(running(known)) == {"s"}
    at_s = known.deadline_s()
    while "w" not in running(known):
        assert at_s is not None and at_s <= 7 + 3 * 10
        settle(known, known.handle(SharingTurn(at_s)), at_s)
        at_s = known.deadline_s()


def test_the_level_of_a_job_counts_from_the_first_answer_on_and_until_its_last_container_left() -> None:
    known = node(cores=1)
    known.handle(Left("w", 8))
    known.handle(Jobs({}, (), 9))
    known.handle(Jobs({}, (), 10))
    assert come(known, "v", 11, app_id="wide")[0].container_id == "s", "the node knows nothing of it any more"


def test_a_change_of_the_rules_counts_at_once() -> None:
    known = node(cores=1)
    rules = LasRules(1, 10.0, min_cores=MIN)
    commands = known.handle(Ruled(rules, 17))
    assert [command.container_id for command in commands] == ["s", "w"], "s had its quantum, w attained less"
