"""Descriptions with tens of thousands of mistakes: close names are sought for the first ones alone."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import pytest

from policies import errors
from policies.errors import MAX_CANDIDATES, MAX_COMPARED_CHARACTERS, MAX_LISTED, close_names, close_to
from quicksilver_apps.description.mistakes import MAX_HINTS, MAX_LINES, MAX_MISTAKES
from quicksilver_apps.description.reader import template_from_data

SERVICE: dict[str, Any] = {"name": "a", "core": 1, "command": "a", "resources": {"memory_mb": 1}}
BASE: dict[str, Any] = {"version": 1, "name": "a", "services": [SERVICE]}


def names(count: int, stem: str = "name") -> list[str]:
    return [f"{stem}-{number:05d}" for number in range(count)]


class Comparisons:
    """Counts the pairs of names that are compared."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        patch.setattr(errors, "get_close_matches", self._compare)

    def _compare(self, name: str, known: Sequence[str], n: int, cutoff: float) -> list[str]:
        self.count += len(known)
        return get_close_matches(name, known, n, cutoff)


MANY: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "values": ({**BASE, "parameters": {name: {} for name in names(400)}}, dict.fromkeys(names(400, "other"), "x")),
    "after": (
        {**BASE, "services": [{**SERVICE, "name": f"s{at}", "after": names(900)} for at in range(50)]},
        {},
    ),
    "keys": ({**BASE, "services": [{**SERVICE, **dict.fromkeys(names(2000), 1)}]}, {}),
    "references": (
        {
            **BASE,
            "parameters": {name: {} for name in names(400)},
            "environment": {"A": " ".join(f"${{parameters.{name}}}" for name in names(2000, "other"))},
        },
        {},
    ),
    "words": ({**BASE, "environment": {"A": " ".join(f"${{p{at}.x}}" for at in range(2000))}}, {}),
    "kinds": ({**BASE, "files": [{"source": f"hdfs://n/{at}", "kind": "fil"} for at in range(2000)]}, {}),
    "doubled": ({**BASE, "services": [{**SERVICE, "after": ["b"] * 900}] * 50}, {}),
}


@pytest.mark.parametrize("case", MANY)
def test_few_names_are_compared(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, values = MANY[case]
    compared = Comparisons(monkeypatch)
    found = template_from_data(data).check(values)
    assert compared.count <= 2 * MAX_HINTS * MAX_CANDIDATES
    if case != "words":
        assert found.error is not None
        assert 1 <= len(found.error.lines) <= MAX_LINES and len(found.error.mistakes) <= 4 * MAX_MISTAKES


def test_a_hint_is_bounded() -> None:
    assert close_names("x" * (MAX_COMPARED_CHARACTERS + 1), ["x" * MAX_COMPARED_CHARACTERS]) == []
    known = names(MAX_CANDIDATES + 1)
    assert close_names(known[-2], known) == [known[-2]], "the first ones are compared"
    assert close_to("zz", known).endswith(f" and {len(known) - MAX_LISTED} more")
