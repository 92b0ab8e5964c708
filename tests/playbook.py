"""A test as a playbook: what is told to a machine, and the commands that it must answer with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Machine(Protocol):
    """Anything with one way in."""

    def handle(self, event: Any) -> Sequence[Any]: ...


def play(machine: Machine, *steps: tuple[Any, Sequence[Any]]) -> None:
    """Tell each event to `machine` and compare its commands, in order, with those of the step."""
    for number, (event, expected) in enumerate(steps, 1):
        commands = list(machine.handle(event))
        assert commands == list(expected), (
            f"step {number}, {event}:\n  got      {commands}\n  expected {list(expected)}"
        )
