"""Put each task where the least work waits (least work left, LWL).

Hawk and Eagle place long jobs so (thesis §2.3.7, §3.3.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence


def spread(tasks: int, task_s: float, waits: Iterable[tuple[float, int]], idle: Sequence[int] = ()) -> list[int]:
    """Return a node for each task, shape (tasks,): the one that waits least, which then waits `task_s` longer.

    waits: (wait in seconds, node), by wait; read as far as needed. idle: nodes that wait for nothing, all before those.
    Raises IndexError when there is no node.
    """
    assignment = list(idle[:tasks])
    rest = tasks - len(assignment)
    if not rest:
        return assignment
    longer = deque((task_s, node) for node in assignment)  # by wait as well: all grow by the same
    for wait_s, node in waits:
        while longer and longer[0][0] < wait_s:
            least_s, again = longer.popleft()
            assignment.append(again)
            longer.append((least_s + task_s, again))
            rest -= 1
            if not rest:
                return assignment
        assignment.append(node)
        longer.append((wait_s + task_s, node))
        rest -= 1
        if not rest:
            return assignment
    for _ in range(rest):
        assignment.append(longer[0][1])
        longer.rotate(-1)
    return assignment
