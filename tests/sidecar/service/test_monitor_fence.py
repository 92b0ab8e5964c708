"""The look at memory once a second, on a real group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.address import Address
from sidecar.config import Place, SidecarSettings
from sidecar.memory.memory_guard import MemoryGuard
from sidecar.memory.pressure import Gauge
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.service.dispatcher import Dispatcher
from sidecar.service.monitor import Monitor
from sidecar.service.resizing.resize_executor import ResizeExecutor
from sidecar.service.server import Sidecar
from tests.sidecar.resizer.containers import NAME, PARENT, container, groups_left, needs_cgroup1

NOBODY = Address("127.0.0.1", 1)


class NoGuardian:
    """Undoes nothing; the test does."""

    def put(self, container_id: str, undo: Mapping[str, object]) -> bool:
        return True

    def drop(self, container_id: str) -> None: ...

    def clean(self, groups: Sequence[str]) -> None: ...


@pytest.mark.cgroup
def test_what_the_fence_leaves_is_what_is_free() -> None:
    needs_cgroup1()
    machine_mb = psutil.virtual_memory().available >> 20
    if machine_mb < 4000:
        pytest.skip("too little memory for a fence well below it")
    settings = SidecarSettings(fence_memory=True, fence_keep_mb=machine_mb - 1500)
    place = Place(NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, "", "", "n", Resources(2048, 2), (Path("/nowhere"),))
    sidecar = Sidecar(settings, place, Policies.load(None), "http://127.0.0.1:1")
    resizer = Cgroup1(PARENT)
    resizing = ResizeExecutor(resizer, NoGuardian(), sidecar.metrics, sidecar.queue.put)
    guard = MemoryGuard(settings.guard_rules(24_000))
    parts = sidecar.dispatcher
    dispatcher = Dispatcher(parts.gates, parts.watcher, parts.reporter, resizing)
    monitor = Monitor(dispatcher, guard, Gauge(), NoGuardian())
    with container("sleep 1000") as leader:
        resizer.attach(NAME, leader)
        first_mb, then_mb = monitor.check_memory(), monitor.check_memory()
        monitor.lift_fence()
        resizer.close()
    assert then_mb < 3000 < first_mb  # the fence is made at the end of the first look
    assert groups_left() == []
