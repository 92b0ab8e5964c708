"""What a run comes to in a second: messages, bytes, cores of each process; and the memory of each."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quicksilver_lab.bench.procstat import pss_mb
from quicksilver_lab.bench.task.proxy_process import PROXY, CpuReading, ProxyProcess
from quicksilver_lab.bench.task.traffic import Ports, Volume, between, volumes
from quicksilver_lab.bench.task.workers_process import WorkersProcess
from quicksilver_lab.bench.task.yarn import ClusterLog
from rm_proxy.config import ProxySettings

_REPORT_PARTS: Final = ("report_frames", "report_state")


@dataclass(frozen=True, slots=True)
class RunReading:
    """What was counted up to a moment."""

    at_s: float
    cpu: CpuReading
    counts: Counter[str]
    volumes: Mapping[Ports, Volume]


async def read(proxy: ProxyProcess | WorkersProcess, log: ClusterLog) -> RunReading:
    """Return what was counted up to now. Raises ChildError."""
    counts, at_s = log.counts + Counter({"own_granted": log.own_grants.total()}), time.monotonic()
    cpu = await asyncio.get_running_loop().run_in_executor(None, proxy.reading)
    return RunReading(at_s, cpu, counts, volumes())


def memory_mb(proxy: ProxyProcess | WorkersProcess) -> dict[str, float]:
    """Return the memory of each process: its own, and its part of what it shares."""
    return {name: pss_mb(pid) for name, pid in proxy.pids().items()}


def rates(before: RunReading, after: RunReading, peers: Mapping[int, str], processes: Iterable[str]) -> dict[str, Any]:
    """Return the figures of the time between two readings. peers: names of the ends of connections, by port."""
    seconds = after.at_s - before.at_s
    counts = after.counts - before.counts
    bytes_ = between(before.volumes, after.volumes, peers)
    return {
        "seconds": round(seconds, 1),
        "cores": {name: round(_spent_s(name, before.cpu, after.cpu) / seconds, 4) for name in processes},
        "per_s": {name: round(count / seconds, 1) for name, count in sorted(counts.items())},
        "bytes_per_s": {name: round(count / seconds) for name, count in sorted(bytes_.items())},
        **_by_clock(before.cpu, after.cpu, counts["reports"], seconds),
    }


def _spent_s(process: str, before: CpuReading, after: CpuReading) -> float:
    if process == PROXY:
        return after.process_s - before.process_s
    return after.threads_s.get(process, 0.0) - before.threads_s.get(process, 0.0)


def _by_clock(before: CpuReading, after: CpuReading, reports: int, seconds: float) -> dict[str, float]:
    """Return the CPU time of a report and of a round of the coordinator, where the parts have a clock."""
    if not after.parts_s:
        return {}
    spent_s = {part: after.parts_s.get(part, 0.0) - before.parts_s.get(part, 0.0) for part in after.parts_s}
    report_s = sum(spent_s.get(part, 0.0) for part in _REPORT_PARTS)
    rounds = seconds / ProxySettings().round_s
    return {
        "report_us": round(report_s * 1e6 / max(1, reports), 1),
        "round_ms": round(spent_s.get("rounds", 0.0) * 1e3 / rounds, 2),
    }
