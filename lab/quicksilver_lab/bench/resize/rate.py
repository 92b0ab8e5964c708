"""How many resizes one sidecar carries: its runtime and machines, real control groups, turns as fast as they can be.

Runs by itself, as `python -m quicksilver_lab.bench.resize.rate CONTAINERS CORES SECONDS`, with the log of a sidecar on
stderr; writes one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import uvloop

from policies.model import Resources
from policies.preempt.las import Las
from quicksilver.common.address import Address
from quicksilver.common.messages import ContainerEvent, Report
from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench.resize.calls import cgroup_resizer
from quicksilver_lab.bench.resize.stand_ins import APP, ResizeStandIn, StandInError, sleeping
from sidecar.config import SidecarSettings
from sidecar.connections.connection import connector
from sidecar.connections.event_queue import EventQueue
from sidecar.connections.gate_runner import GateRunner
from sidecar.cpu_sharing.events import Served
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import Adopted, Event, Tick
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.sharing import Sharing
from sidecar.resizer.base import Resizer
from sidecar.service.dispatcher import Dispatcher
from sidecar.service.processes.process_watch import ProcessWatcher
from sidecar.service.reporter import Reporter
from sidecar.service.resizing.resize_executor import ResizeExecutor

_READY_S: Final = 30.0
_STRETCH_S: Final = 0.5
_MEMORY_MB: Final = 256
_SETTINGS: Final = Las(quantum_s=50.0)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What was carried out in half a second; `cpu_s` is of the whole process."""

    seconds: float
    cpu_s: float
    resizes: int
    events: int


class NoGuardian:
    """Nobody is told: the guardian hears of a container when it is attached, not when it is resized."""

    def put(self, container_id: str, undo: Mapping[str, object]) -> bool:  # noqa: D102
        return True

    def drop(self, container_id: str) -> None:  # noqa: D102
        return

    def clean(self, groups: Sequence[str]) -> None:  # noqa: D102
        return


def measure(containers: int, cores: int, seconds: float) -> list[Stretch]:
    """Measure in a process of its own. Raises BenchError."""
    command = [sys.executable, "-m", "quicksilver_lab.bench.resize.rate", str(containers), str(cores), str(seconds)]
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, check=False, timeout=seconds + 120)
        if done.returncode != 0:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            raise StandInError(f"it ended with {done.returncode}: {log.read().decode(errors='replace')}", place="rate")
    return [Stretch(**row) for row in json.loads(done.stdout.splitlines()[-1])]


async def run(resizer: Resizer, stand_ins: Sequence[ResizeStandIn], cores: int, seconds: float) -> list[Stretch]:
    """Let quanta end one after the other for so long. Raises BenchError."""
    settings = SidecarSettings(reserve_mb=0)
    capacity = Resources(_MEMORY_MB * len(stand_ins), cores)
    rules = settings.rules(capacity, _SETTINGS.extra)
    node = SidecarNode(
        rules,
        NodePolicies(lambda waiting, now_s: (), lambda need, running, now_s: []),
        Sharing(_SETTINGS, rules),
    )
    metrics = SidecarMetrics()
    queue = EventQueue()
    gates = GateRunner(node, settings, metrics, queue, connector(Address("127.0.0.1", 1)))
    resizing = ResizeExecutor(resizer, NoGuardian(), metrics, queue.put)
    watcher = ProcessWatcher((), settings.watch_poll_s, lambda container_id: None)
    reporter = Reporter([], settings, metrics, _no_report, lambda ack: False)
    dispatcher = Dispatcher(gates, watcher, reporter, resizing)
    try:
        for stand_in in stand_ins:
            dispatcher.put(Adopted(stand_in.id, APP, Resources(_MEMORY_MB, 1), True, time.time()))
            resizing.attach(stand_in.id, stand_in.leader)
        await _all_ready(node)
        watcher.close()  # it looks for pid files, of which there are none
        return await _stretches(dispatcher, Turns(node), seconds)
    finally:
        watcher.close()
        await resizing.close()
        await dispatcher.close()


def _no_report(events: list[ContainerEvent]) -> Report:
    raise AssertionError("there is no proxy to report to")


async def _all_ready(node: SidecarNode) -> None:
    until_s = time.monotonic() + _READY_S
    while not all(share.ready for share in node.state.sharing.shares().values()):
        if time.monotonic() > until_s:
            raise StandInError(f"not all containers were in hand within {_READY_S:g} s", place="rate")
        await asyncio.sleep(0.02)


class Turns:
    """Time that passes by the quantum, and runs ahead of the clock: who runs has attained a quantum each time."""

    def __init__(self, node: SidecarNode) -> None:
        self._node, self._now_s = node, time.time()
        self._cpu_s = dict.fromkeys(node.state.sharing.shares(), 0.0)

    def next(self) -> tuple[Event, Event]:
        """Return the two events of a turn: what was measured, and the time."""
        self._now_s += _SETTINGS.quantum_s
        running = [cid for cid, share in self._node.state.sharing.shares().items() if share.running]
        for container_id in running:
            self._cpu_s[container_id] += _SETTINGS.quantum_s
        return Served({cid: self._cpu_s[cid] for cid in running}, self._now_s), Tick(self._now_s)


async def _stretches(dispatcher: Dispatcher, turns: Turns, seconds: float) -> list[Stretch]:
    stretches: list[Stretch] = []
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        begun_s, cpu_s, resizes, events = time.monotonic(), time.process_time(), _resizes(dispatcher), 0
        while (spent_s := time.monotonic() - begun_s) < _STRETCH_S:
            for event in turns.next():
                dispatcher.put(event)
                events += 1
        stretches.append(Stretch(spent_s, time.process_time() - cpu_s, _resizes(dispatcher) - resizes, events))
        await asyncio.sleep(0)
    return stretches


def _resizes(dispatcher: Dispatcher) -> int:
    """Return how many resizes were carried out; those that are refused do not count."""
    samples = [sample for family in dispatcher.metrics.resizes.collect() for sample in family.samples]
    return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))


def main(containers: int, cores: int, seconds: float) -> None:
    """Measure, and write one line."""
    configure_logs(level="info")

    async def story() -> list[Stretch]:
        with sleeping(containers) as stand_ins, cgroup_resizer() as resizer:
            return await run(resizer, stand_ins, cores, seconds)

    print(json.dumps([asdict(stretch) for stretch in uvloop.run(story())]))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
