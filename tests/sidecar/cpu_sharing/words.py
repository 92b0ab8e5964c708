"""A small vocabulary for tests of least attained service."""

from __future__ import annotations

from typing import Any

from policies.model import Way
from sidecar.cpu_sharing.events import Joined, LasCommand, LasRules, ReadyContainer, Resized
from sidecar.cpu_sharing.las import Las

MIN = 0.05


def las(cores: float = 1, **rules: Any) -> Las:
    return Las(LasRules(cores, **({"quantum_s": 10.0, "min_cores": MIN} | rules)))


def done(container_id: str, now_s: float) -> Resized:
    return Resized(container_id, "", now_s)


def come(
    node: Las, container_id: str, now_s: float, vcores: float = 1, way: Way = Way.SHRINK, **more: Any
) -> list[LasCommand]:
    """A container comes and is in hand at once."""
    commands = node.handle(Joined(container_id, vcores, way, now_s, **more))
    return commands + node.handle(ReadyContainer(container_id, now_s))


def settle(node: Las, commands: list[LasCommand], now_s: float) -> list[LasCommand]:
    """Carry out all commands and those that follow; return them all."""
    said = list(commands)
    for command in said:
        said += node.handle(done(command.container_id, now_s))
    return said


def running(node: Las) -> dict[str, float]:
    """Return the granted cores of who runs."""
    return {s.id: s.vcores if s.cores is None else s.cores for s in node.shares.values() if s.running}


def full(cores: float = 1, *names: str, gap_s: float = 1, **rules: Any) -> Las:
    """Return a node on which containers of 1 vcore came one after another, every `gap_s`, all resized."""
    node = las(cores, **rules)
    for number, name in enumerate(names):
        settle(node, come(node, name, number * gap_s), number * gap_s)
    return node


def running_vcores(node: Las) -> float:
    """Return the vcores of those that run: as granted, and in full of those that are never resized."""
    return sum(s.vcores if s.untouchable else s.amount(s.granted) for s in node.shares.values() if s.running)
