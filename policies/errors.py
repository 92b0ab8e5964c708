"""Errors of policies and of their settings; all derive from PolicyError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

_MANY = 15
"""From more known names on, close ones stand alone."""
MAX_LISTED: Final = 40
"""Known names that a hint lists."""
MAX_CANDIDATES: Final = 200
"""Known names that are compared with an unknown one; each comparison takes some 50 us."""
MAX_COMPARED_CHARACTERS: Final = 100
"""A longer unknown name is compared with none."""


class PolicyError(Exception):
    """Base of all errors of this package."""


class UnknownPolicyError(PolicyError):
    """No package offers a policy of this name for this slot."""


class BrokenPolicyError(PolicyError):
    """A package offers the policy, but it cannot be used: it does not import, or its slot wants another signature."""


class AmbiguousPolicyError(PolicyError):
    """Several packages offer a policy of this name for this slot."""


class PolicyFaultError(PolicyError):
    """A policy failed in a decision, or gave an answer that its slot does not allow."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in the settings: its place, the mistake and the remedy."""

    path: tuple[str | int, ...]
    """Keys and list positions from the top of the file."""
    text: str
    on_key: bool = False
    """Whether the key itself is wrong, rather than its value."""

    @property
    def where(self) -> str:
        """Return the path as in `policies.routes[0].settings.k`."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return steps.removeprefix(".")

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.path else self.text


class SettingsMistakesError(PolicyError):
    """Settings that are wrong in one or more places."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


def close_to(name: str, known: Sequence[str]) -> str:
    """Return a hint for an unknown `name`: the closest known ones, and all of them unless they are many."""
    close = close_names(name.lower(), known, n=2)
    if close and len(known) > _MANY:
        return f"did you mean {' or '.join(close)}?"
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
    return f"{hint}known: {', '.join(known[:MAX_LISTED]) if known else 'none'}{more}"


def close_names(name: str, known: Sequence[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known names that are closest to an unknown one, `n` at most; of many known ones the first count.

    Settings and descriptions come from strangers: the bounds keep one name at some milliseconds.
    """
    if len(name) > MAX_COMPARED_CHARACTERS:
        return []
    return get_close_matches(name, known[:MAX_CANDIDATES], n, cutoff)
