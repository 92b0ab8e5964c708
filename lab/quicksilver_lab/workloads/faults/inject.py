"""Carries faults out on a running cluster, and brings back what it took."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.cluster import Cluster, ClusterError
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.tracker_relays import TrackerRelays
from quicksilver_lab.workloads.clients import Progress
from quicksilver_lab.workloads.faults import plan
from quicksilver_lab.workloads.faults.cutter import CallStep
from quicksilver_lab.workloads.faults.plan import Fault
from quicksilver_lab.workloads.faults.toxic import Toxics
from quicksilver_lab.workloads.records import is_master
from quicksilver_lab.workloads.servers.postgres import Postgres

RM: Final = "resourcemanager"
_MASTERS: Final = re.compile(r"MRAppMaster|distributedshell\.ApplicationMaster|DAGAppMaster")
"""Main classes of application masters that YARN starts again; Spark's of client mode ends its job."""
_STORE_AWAY_S: Final = (0.5, 4.0)
AM_PROXY, PROXY_RM = "AM-proxy", "proxy-RM"
_CALL_WITHIN_S: Final = 15.0
"""How long a call with own grants is waited for; without one there is no fault."""
_WORKER_ALONE: Final = 0.5
"""How often a tracker relay loses its worker alone."""


@dataclass(slots=True)
class Injected:
    """A fault that was carried out; `at_s` is Unix time."""

    fault: Fault
    at_s: float
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON knows it."""
        fault = self.fault
        return {
            "number": fault.number,
            "kind": fault.kind,
            "target": fault.target,
            "at_s": self.at_s,
            "note": self.note,
        }


class Injector:
    """Carries faults out; daemons are started again on threads. `problems` is what did not come back."""

    def __init__(
        self,
        cluster: Cluster,
        stack: LocalDaemons | None,
        toxics: Toxics | None,
        store: Postgres | None,
        progress: Progress,
        seed: int,
        relays: TrackerRelays | None = None,
    ) -> None:
        self.done: list[Injected] = []
        self.problems: list[str] = []
        self._cluster, self._stack, self._toxics, self._store = cluster, stack, toxics, store
        self._relays = relays
        self._progress, self._rng = progress, random.Random(seed)
        self._threads = ThreadPoolExecutor(8, "revive")
        self._away: dict[str, Future[None]] = {}

    def inject(self, fault: Fault) -> bool:
        """Carry one out; False when it cannot be now, as what it aims at is away."""
        actions: dict[str, Callable[[Fault], str | None]] = {
            plan.KILL_PROXY: self._kill_proxy,
            plan.KILL_SIDECAR: self._kill_sidecar,
            plan.KILL_BOTH: self._kill_both,
            plan.KILL_NM: lambda f: self._kill_daemon(f"nodemanager-{f.target}"),
            plan.KILL_RM: lambda f: self._kill_daemon(RM),
            plan.KILL_AM: self._kill_master,
            plan.KILL_STORE: self._kill_store,
            plan.CUT: self._cut,
            plan.HOLD: self._hold,
            plan.SLOW: self._slow,
            plan.KILL_RELAY: self._kill_relay,
            **{step.value: self._cut_call for step in CallStep},
        }
        at_s = time.time()
        note = actions[fault.kind](fault)
        if note is None:
            return False
        self.done.append(Injected(fault, at_s, note))
        self._progress(f"fault {fault}{f' ({note})' if note else ''}")
        return True

    def settle(self) -> None:
        """Wait until all that was taken is back."""
        for name, future in list(self._away.items()):
            try:
                future.result()
            except (QuicksilverError, ClusterError) as error:
                self.problems.append(f"{name} did not come back: {error}")
        self._threads.shutdown()

    def _kill_proxy(self, _fault: Fault) -> str | None:
        return self._kill("proxy")

    def _kill_sidecar(self, fault: Fault) -> str | None:
        return self._kill(fault.target)

    def _kill_both(self, fault: Fault) -> str | None:
        proxy, target = self._kill("proxy"), self._kill(fault.target)
        return None if proxy is None or target is None else f"{proxy}, {target}"

    def _kill(self, name: str) -> str | None:
        if self._stack is None:
            return None
        pid = self._stack.kill(name)
        return None if pid is None else f"pid {pid}"

    def _kill_daemon(self, name: str) -> str | None:
        before = self._away.get(name)
        if before is not None and not before.done():
            return None
        self._cluster.kill(name)
        self._away[name] = self._threads.submit(self._cluster.restart, name)
        return ""

    def _kill_master(self, _fault: Fault) -> str | None:
        candidates = masters(self._cluster.spec.workdir / "local")
        if not candidates:
            return None
        pid, container = self._rng.choice(sorted(candidates.items()))
        try:
            psutil.Process(pid).kill()
        except psutil.NoSuchProcess:
            return None
        return container

    def _kill_store(self, _fault: Fault) -> str | None:
        store, before = self._store, self._away.get("store")
        if store is None or (before is not None and not before.done()):
            return None
        away_s = self._rng.uniform(*_STORE_AWAY_S)
        store.kill()

        def back() -> None:
            time.sleep(away_s)
            store.start()

        self._away["store"] = self._threads.submit(back)
        return f"away for {away_s:.1f} s"

    def _kill_relay(self, fault: Fault) -> str | None:
        """Kill the worker, or all of the relay, which is started again then."""
        if self._relays is None:
            return None
        process = self._relays.processes[fault.target]
        workers = psutil.Process(process.pid).children()
        if workers and self._rng.random() < _WORKER_ALONE:
            workers[0].kill()
            return "its worker"
        process.kill()
        process.wait()
        psutil.wait_procs(workers)  # they end with it, and their port is free then
        self._relays.start(fault.target)
        return "all of it"

    def _cut_call(self, fault: Fault) -> str | None:
        if self._toxics is None:
            return None
        done = self._toxics.cut_call(PROXY_RM, AM_PROXY, CallStep(fault.kind), _CALL_WITHIN_S)
        return "" if done else None

    def _cut(self, fault: Fault) -> str | None:
        if self._toxics is None:
            return None
        return f"{self._toxics.cut(fault.target, fault.for_s)} connections"

    def _hold(self, fault: Fault) -> str | None:
        if self._toxics is None:
            return None
        self._toxics.hold(fault.target, fault.for_s)
        return ""

    def _slow(self, fault: Fault) -> str | None:
        if self._toxics is None:
            return None
        self._toxics.slow(fault.target, fault.delay_s, fault.for_s)
        return f"{1000 * fault.delay_s:.0f} ms"


def masters(local_root: Path) -> dict[int, str]:
    """Return the processes of application masters that may be killed, with their containers.

    local_root: where this cluster's NodeManagers have their files; other clusters' masters are left alone.
    """
    containers: dict[int, str] = {}
    for process in psutil.process_iter():
        try:
            if "java" not in process.name() or not _MASTERS.search(" ".join(process.cmdline())):
                continue
            environment = process.environ()
        except psutil.Error:
            continue  # ended meanwhile
        container = environment.get("CONTAINER_ID", "")
        if is_master(container) and environment.get("LOCAL_DIRS", "").startswith(f"{local_root}{os.sep}"):
            containers[process.pid] = container
    return containers
