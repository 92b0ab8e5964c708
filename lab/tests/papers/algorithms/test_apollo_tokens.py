"""Apollo's opportunistic tasks (OSDI '14, §3.5): allowance, random pick by weight, upgrade."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.common.tokens import Tokens, allowance, weight
from policies.model import Resources
from quicksilver_lab.papers.algorithms.tokens import Extra, Wish, pick, regular_next

ONE = Resources(1024, 1)
CFG = Tokens(allowance_ratio=1.5)


def test_the_allowance_is_by_tokens() -> None:
    assert [allowance(tokens, CFG) for tokens in (0, 1, 4)] == [0, 1, 6]
    assert allowance(100, Tokens(allowance_ratio=0)) == 0


def test_weights_come_to_the_allowance() -> None:
    assert weight(4, 6, CFG) == 1
    assert weight(4, 3, CFG) == 2
    for out in (0, 7):
        with pytest.raises(ValueError, match="of 1 to 6"):
            weight(4, out, CFG)


def test_picks_are_by_weight_and_not_by_arrival() -> None:
    """A weight of 2 means twice as likely."""
    rng = Random(1)
    waiting = [Extra("early", ONE), Extra("late", ONE, 2.0)]
    first = Counter(pick(waiting, ONE, rng)[0] for _ in range(6000))
    assert first["late"] / first["early"] == pytest.approx(2, rel=0.1)


def test_what_is_too_large_is_passed_over() -> None:
    waiting = [Extra("large", Resources(4096, 4)), Extra("a", ONE), Extra("b", ONE), Extra("c", ONE)]
    picked = pick(waiting, Resources(2048, 2), Random(3))
    assert len(picked) == 2 and "large" not in picked


def test_tokens_go_to_the_most_urgent_whether_out_or_not() -> None:
    wishes = [Wish("new", 1), Wish("urgent", 5), Wish("out", 1, out=True), Wish("last", 0, out=True)]
    assert regular_next(wishes, tokens=4, regular=1) == ["urgent", "out", "new"]
    assert regular_next(wishes, tokens=2, regular=3) == []


extras = st.lists(
    st.builds(
        Extra,
        st.uuids().map(str),
        st.builds(Resources, st.integers(0, 4096), st.integers(0, 4)),
        st.floats(0.5, 4),
    ),
    max_size=8,
)


@given(extras, st.integers(0, 2**16))
def test_a_pick_fits_and_leaves_nothing_that_would(waiting: list[Extra], seed: int) -> None:
    room = Resources(4096, 4)
    picked = set(pick(waiting, room, Random(seed)))
    for one in waiting:
        if one.id in picked:
            room = room - one.size
    assert Resources().fits(room)
    assert not [one for one in waiting if one.id not in picked and one.size.fits(room)]
