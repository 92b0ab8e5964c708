"""Each command of the machines has a handler."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
from structlog.testing import capture_logs

from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.address import Address
from sidecar.config import Place, SidecarSettings
from sidecar.cpu_sharing.events import LasCommand, Restore, Shrink
from sidecar.gate.events import GateCommand
from sidecar.node.events import Command, Tick
from sidecar.service import node_commands
from sidecar.service.server import Sidecar

NOBODY = Address("127.0.0.1", 1)


def test_each_command_of_a_gate_and_of_the_node_has_a_handler(tmp_path: Path) -> None:
    place = Place(NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, "", "", "n", Resources(2048, 2), (tmp_path,))
    sidecar = Sidecar(SidecarSettings(state_dir=tmp_path), place, Policies.load(None), "http://127.0.0.1:1")
    dispatcher = sidecar.dispatcher
    assert set(dispatcher.commands.handlers) == set(get_args(Command))
    assert set(dispatcher.gates.commands.handlers) == set(get_args(GateCommand))


async def test_the_timer_is_set_anew_only_for_another_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, "", "", "n", Resources(2048, 2), (tmp_path,))
    sidecar = Sidecar(SidecarSettings(state_dir=tmp_path), place, Policies.load(None), "http://127.0.0.1:1")
    dispatcher = sidecar.dispatcher
    deadline_s: float | None = time.time() + 50
    monkeypatch.setattr(dispatcher.node, "deadline_s", lambda: deadline_s)

    def timer() -> asyncio.TimerHandle | None:
        dispatcher.put(Tick(time.time()))
        return dispatcher._timer

    first = timer()
    assert first is not None and timer() is first
    deadline_s = time.time() + 20
    second = timer()
    assert second is not None and second is not first and first.cancelled()
    deadline_s = None
    assert timer() is None and second.cancelled()
    deadline_s = time.time() + 0.05
    third = timer()
    await asyncio.sleep(0.1)
    assert dispatcher._timer not in (None, third), "it did not fire, or was not set again"
    await dispatcher.close()
    assert dispatcher._timer is None


@pytest.mark.parametrize("is_debugging", [False, True])
async def test_lines_of_resizes_are_of_level_debug(
    is_debugging: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, "", "", "n", Resources(2048, 2), (tmp_path,))
    sidecar = Sidecar(SidecarSettings(state_dir=tmp_path), place, Policies.load(None), "http://127.0.0.1:1")
    commands, executed = sidecar.dispatcher.commands, list[LasCommand]()
    monkeypatch.setattr(commands, "_resizing", SimpleNamespace(execute=executed.append))
    monkeypatch.setattr(node_commands, "_is_debugging", lambda: is_debugging)
    orders: list[Shrink | Restore] = [Shrink("c1", 0.5, "c2", "c2 has attained less"), Restore("c1", "its turn")]
    with capture_logs() as lines:
        for order in orders:
            commands.handlers[type(order)](order)
    assert executed == orders
    shown = [(line["log_level"], line["event"], line["why"], line.get("by")) for line in lines]
    expected = [("debug", "shrink", "c2 has attained less", "c2"), ("debug", "restore", "its turn", None)]
    assert shown == (expected if is_debugging else [])
    await sidecar.dispatcher.close()
