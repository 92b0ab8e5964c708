"""A benchmark's own process: calls, failures, and how it ends."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from quicksilver_lab.bench.load.child_process import ChildError, LoadChild


class Adder:
    def __init__(self, first: int, left: Path) -> None:
        self._sum, self._left = first, left

    async def add(self, one: int, other: int) -> tuple[int, int]:
        self._sum += one + other
        return self._sum, os.getpid()

    async def fail(self) -> None:
        raise LookupError("no such thing")

    async def end(self) -> None:
        os._exit(3)

    async def close(self) -> None:
        self._left.write_text(str(self._sum))


def test_calls_reach_what_lives_in_the_process_until_the_block_is_left(tmp_path: Path) -> None:
    with LoadChild("adder", partial(Adder, 10, tmp_path / "left")) as child:
        assert child.call("add", 1, 2) == (13, child.pid)
        with pytest.raises(ChildError, match="adder: LookupError: no such thing"):
            child.call("fail")
        assert child.call("add", 3, 4) == (20, child.pid)
        assert child.pid != os.getpid() and not (tmp_path / "left").exists()
    assert (tmp_path / "left").read_text() == "20"
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_a_process_that_ended_is_told(tmp_path: Path) -> None:
    with LoadChild("adder", partial(Adder, 0, tmp_path / "left")) as child:
        for _ in range(2):
            with pytest.raises(ChildError, match="adder: the process ended"):
                child.call("end")
