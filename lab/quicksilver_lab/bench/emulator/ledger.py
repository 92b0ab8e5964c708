"""An independent count of what ran: it hears of every start and of every word of a task, and forgets nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from quicksilver_lab.bench.emulator.model import JobSpec

Task = tuple[int, int]
"""Number of a job and index of a task."""


class TaskLedger:
    """Knows nothing of asks, attempts or statuses: containers were given tasks, began them, said that they are done."""

    def __init__(self) -> None:
        """Begin empty."""
        self._task_of: dict[str, Task] = {}
        self._began: Counter[str] = Counter()
        self._done: Counter[Task] = Counter()
        self._given_up: set[str] = set()
        self.strays = 0
        """Words of containers that nobody was given."""
        self.late_begins = 0
        """Processes that began after their master knew that their container had ended."""
        self.late_ends = 0
        """Processes that were done when their master had been told so. Nothing is made of what they did; the task runs
        once more elsewhere."""

    def assigned(self, container_id: str, job: int, task: int) -> None:
        """Note that a container was given a task."""
        self._task_of[container_id] = (job, task)

    def given_up(self, container_id: str) -> None:
        """Record that a master learned of a container's end, or could not start it."""
        self._given_up.add(container_id)

    def heard(self, container_id: str, kind: str) -> None:
        """Record a report of the process in a container."""
        task = self._task_of.get(container_id)
        if task is None:
            self.strays += 1
        elif kind == "began":
            self._began[container_id] += 1
            self.late_begins += container_id in self._given_up
        elif container_id in self._given_up:
            self.late_ends += 1
        else:
            self._done[task] += 1

    def lost(self, ended: Iterable[JobSpec]) -> int:
        """Return how many tasks of these jobs, which are said to be over, were never done."""
        return sum((job.number, index) not in self._done for job in ended for index in range(len(job.tasks)))

    @property
    def doubled(self) -> int:
        """How often a task was done once more by a container not given up, or a container began once more."""
        return sum(count - 1 for counts in (self._done, self._began) for count in counts.values())
