"""The measurement of idle connections, small."""

import asyncio

import pytest

from quicksilver_lab.bench.overload import run


@pytest.mark.long
def test_silent_connections_cost_no_upstream_and_a_master_is_served_beside_them() -> None:
    found = asyncio.run(run(silent=60, known=5))
    assert (found["silent"], found["logged_in"], found["upstream_of_silent"], found["refused"]) == (60, 5, 0, 0)
    assert found["kb_per_silent"] < 256
    assert all(len(took) == 200 for took in found["raw"].values())
