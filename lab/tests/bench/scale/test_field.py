"""The processes of bench-scale begin, answer and end without a cluster."""

from __future__ import annotations

import os

import pytest

from quicksilver_lab.bench.load.child_process import ChildError
from quicksilver_lab.bench.load.loadgen import LoadPhase, LoadProcess
from quicksilver_lab.bench.scale.field import FieldProcess, Plot

NOWHERE = ("127.0.0.1", 1)


@pytest.mark.long
def test_emulated_nodes() -> None:
    with FieldProcess(Plot(NOWHERE, NOWHERE, NOWHERE, NOWHERE, {}, slots=1, first_port=2)) as field:
        assert field.sent() == (0, 0)
        with pytest.raises(ChildError, match="emulated nodes: "):
            field.grow(1)


def test_load() -> None:
    with LoadProcess(NOWHERE, NOWHERE, {"test": os.getpid()}) as load:
        load.connect([])
        measured = load.run(LoadPhase(0, 0.0, 0.01, share=0))
        assert measured.latency_us == ([], []) and set(measured.cpu_s) == {"test", "generator", "machine"}
        with pytest.raises(ChildError, match="load generator: "):
            load.connect([b"no token"])
