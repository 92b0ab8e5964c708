"""`python -m quicksilver_lab.bench.upgrades`: proxy and sidecars upgraded again and again beside GridMix."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

import click
import requests

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.environment import Environment, Where, one_line_errors, running, where_options
from quicksilver_lab.workloads.gridmix_run import GridmixOutcome, GridmixPlan, make_history, run_gridmix
from quicksilver_lab.workloads.history import JobHistory
from quicksilver_lab.workloads.rumen import make_trace

_PAUSE_S: Final = 1.0


@dataclass(slots=True)
class Upgrades:
    """What was upgraded; how long until each answered again as a new process."""

    took_s: dict[str, list[float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Upgrader(threading.Thread):
    """Upgrades the proxy, then each sidecar, and begins again, until it is told to stop."""

    def __init__(self, stack: LocalDaemons) -> None:
        super().__init__(name="upgrades")
        self.done = Upgrades()
        self.stop = threading.Event()
        self._stack = stack

    def run(self) -> None:
        """Upgrade until told to stop, at least each one once."""
        names = list(self._stack.processes)
        first = True
        while first or not self.stop.is_set():
            for name in names:
                begun_s = time.monotonic()
                try:
                    self._stack.upgrade(name)
                    self._stack.wait()
                except (QuicksilverError, requests.RequestException) as error:
                    self.done.problems.append(f"{name}: {error}")
                self.done.took_s.setdefault(name, []).append(time.monotonic() - begun_s)
                self.stop.wait(_PAUSE_S)
            first = False


def run(env: Environment, jobs: int) -> dict[str, Any]:
    """Make a history, run GridMix on it, and upgrade all meanwhile; return the result."""
    assert env.stack is not None
    history = make_history(env, jobs)
    trace = make_trace(env.cluster, [job.job_id for job in history], env.progress)
    upgrader = Upgrader(env.stack)
    upgrader.start()
    begun_s = time.monotonic()
    try:
        outcome = run_gridmix(env, GridmixPlan(jobs=jobs, policy="STRESS", data_mb=2), trace)
    finally:
        upgrader.stop.set()
        upgrader.join()
    return _result(env, upgrader.done, outcome, time.monotonic() - begun_s)


def _result(env: Environment, done: Upgrades, outcome: GridmixOutcome, gridmix_s: float) -> dict[str, Any]:
    failed = [name for name, (_, how) in outcome.outcomes.items() if how != "success"]
    history = JobHistory(env.cluster)
    attempts = [history.job(job) for job, _ in outcome.outcomes.values()]
    proxies = done.took_s.get("proxy", [])
    sidecars = [took for name, each in done.took_s.items() if name != "proxy" for took in each]
    return {
        "benchmark": "upgrades",
        "proxy_upgrades": len(proxies),
        "sidecar_upgrades": len(sidecars),
        "problems": done.problems,
        "proxy_back_p50_s": round(percentile(proxies, 50), 2),
        "sidecar_back_p50_s": round(percentile(sidecars, 50), 2),
        "jobs": outcome.summary.in_trace,
        "jobs_failed": len(failed) + (outcome.summary.in_trace - len(outcome.outcomes)),
        "failed_attempts": sum(job.failed_attempts for job in attempts),
        "killed_attempts": sum(job.killed_attempts for job in attempts),
        "gridmix_s": round(gridmix_s, 1),
        "proxy": env.summary(),
    }


@click.command()
@where_options("upgrades")
@click.option("--jobs", type=click.IntRange(1, 12), default=6, show_default=True, help="Jobs in GridMix's trace.")
@one_line_errors
def main(where: Where, jobs: int) -> None:
    """Upgrade proxy and sidecars while GridMix runs; exit code 1 unless all jobs succeed."""
    machine = results.machine()
    with running(where) as env:
        result = run(env, jobs)
    result |= {"machine": machine, "commit": results.commit()}
    results.write("upgrades", result, {})
    click.echo(json.dumps(result))
    if result["jobs_failed"] or result["failed_attempts"] or result["problems"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
