"""What can go wrong with a simulation, said so that the reader knows what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from quicksilver.common.process.version import LAB


class SimulatorError(Exception):
    """A simulation that cannot be done."""


class BrokenSystemError(SimulatorError):
    """A system that an installed package offers, and that cannot be loaded."""

    def __init__(self, name: str, place: str, why: Exception) -> None:
        """Name the place and the reason."""
        super().__init__(f"system {name} cannot be loaded from {place}: {why}; mend or remove the package that has it")


class UnknownSystemError(SimulatorError):
    """A name that no system has."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        """Say which there are."""
        names = sorted(known)
        close = get_close_matches(name, names, n=1)
        offer = f"use one of {', '.join(names)}; those of papers come with the package {LAB}"
        hint = f"did you mean '{close[0]}'?" if close else offer
        super().__init__(f"no system is named '{name}'; {hint}")
