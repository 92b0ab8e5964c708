"""Figures of `bench moves`."""

from __future__ import annotations

import pytest

from quicksilver_lab.bench.moves import MoveDelays, delays
from quicksilver_lab.workloads.nm_log import Life


def test_each_start_belongs_to_one_move_before_it() -> None:
    lives = [Life("node1", 9.0), Life("node1", 10.2), Life("node1", 10.5), Life("node2", 10.3), Life("node2", None)]
    found, unused = delays([(10.0, "node1"), (10.1, "node1"), (10.0, "node2"), (11.0, "node3")], lives)
    assert found == pytest.approx([0.2, 0.3, 0.4])
    assert unused == 1


def test_clocks_that_round_do_not_lose_a_start() -> None:
    assert delays([(10.005, "node1")], [Life("node1", 10.0)]) == ([0.0], 0)
    assert delays([(10.05, "node1")], [Life("node1", 10.0)]) == ([], 1)


def test_figures() -> None:
    assert MoveDelays([0.1, 0.3, 0.2], unused=2).figures() == {
        "moves": 3,
        "unused": 2,
        "attempts_lost": 0,
        "p50_s": 0.2,
        "p95_s": 0.29,
        "max_s": 0.3,
    }
    assert MoveDelays().figures() == {"moves": 0, "unused": 0, "attempts_lost": 0}
