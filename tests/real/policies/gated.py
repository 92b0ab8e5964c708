"""A job whose tasks run as long as the test wants, so that what has to come about meanwhile may take its time."""

from __future__ import annotations

from pathlib import Path

from quicksilver_lab.bench.sleep_job import SleepJob, SleepTask


class Gated(SleepJob):
    """Its tasks run until the file `gate` is there, and for their seconds after that."""

    gate: Path

    def command(self, task: SleepTask) -> str:
        return f"while [ ! -e {self.gate} ]; do sleep 0.2; done; sleep {task.seconds:g}"

    def open(self) -> None:
        """Let the tasks come to their end."""
        self.gate.touch()
