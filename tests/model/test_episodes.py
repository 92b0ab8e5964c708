"""Random histories are those of the day: equal for an equal seed, in CI too, and others for another."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.gate.steps import SEED, SHARE
from tests.model.episodes import of_the_day


def drawn(monkeypatch: pytest.MonkeyPatch, seed: str, share: str) -> tuple[list[int], int]:
    """Return the numbers that histories of a seed draw, and how many histories were wanted."""
    numbers: list[int] = []

    class Draws(RuleBasedStateMachine):
        @rule(number=st.integers())
        def draws(self, number: int) -> None:
            numbers.append(number)

    monkeypatch.setenv(SEED, seed)
    monkeypatch.setenv(SHARE, share)
    case = of_the_day(Draws, 10, 5)
    run_state_machine_as_test(Draws, settings=case.settings)
    return numbers, case.settings.max_examples


def test_histories_are_those_of_their_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    today = drawn(monkeypatch, "20261125", "1")
    assert len(today[0]) > 20 and today == drawn(monkeypatch, "20261125", "1")
    assert today[0] != drawn(monkeypatch, "20261126", "1")[0]


def test_a_step_may_want_a_share_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [drawn(monkeypatch, "1", share)[1] for share in ("1", "0.4")] == [10, 4]
