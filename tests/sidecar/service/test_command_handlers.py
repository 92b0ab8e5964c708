"""Each command of the machines has a handler."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.address import Address
from sidecar.config import Place, SidecarSettings
from sidecar.gate.events import GateCommand
from sidecar.node.events import Command
from sidecar.service.server import Sidecar

NOBODY = Address("127.0.0.1", 1)


def test_each_command_of_a_gate_and_of_the_node_has_a_handler(tmp_path: Path) -> None:
    place = Place(NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, "", "", "n", Resources(2048, 2), (tmp_path,))
    sidecar = Sidecar(SidecarSettings(state_dir=tmp_path), place, Policies.load(None), "http://127.0.0.1:1")
    dispatcher = sidecar.dispatcher
    assert set(dispatcher.commands.handlers) == set(get_args(Command))
    assert set(dispatcher.gates.commands.handlers) == set(get_args(GateCommand))
