"""Which connection makes room: against the plain reading of the rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.common.http.idle_connections import IdleConnections

STEPS = st.lists(st.tuples(st.sampled_from(["add", "discard", "pop"]), st.integers(0, 11)), max_size=80)


def test_the_host_with_most_loses_the_one_that_has_waited_longest() -> None:
    idle = IdleConnections[int]()
    for connection, host in enumerate(["a", "b", "b", "a", "b"]):
        idle.add(connection, host)
    assert [idle.pop() for _ in range(6)] == [1, 0, 2, 3, 4, None]


@given(STEPS)
def test_nothing_is_forgotten_or_counted_twice(steps: list[tuple[str, int]]) -> None:
    """Connection n is of host n % 3."""
    idle, waiting = IdleConnections[int](), list[int]()
    for step, number in steps:
        if step == "add":
            idle.add(number, f"h{number % 3}")
            waiting += [number] if number not in waiting else []
        elif step == "discard":
            idle.discard(number)
            waiting = [one for one in waiting if one != number]
        else:
            of_host = [[one for one in waiting if one % 3 == host] for host in range(3)]
            most = max(len(own) for own in of_host)
            gone = idle.pop()
            assert gone in [own[0] for own in of_host if own and len(own) == most] or (gone is None and not waiting)
            waiting = [one for one in waiting if one != gone]
        assert len(idle) == len(waiting)
    while waiting:
        waiting.remove(idle.pop() or 0)
    assert idle.pop() is None and not idle._of_host and not idle._hosts_with
