"""`python -m quicksilver_lab.bench.reloads`: a hundred reloads, valid and broken, while GridMix runs through proxy and
sidecars.

Each valid file has a threshold and a placement policy of its own, so that the reason of every decision tells by which
settings it was made; a decision whose recorded version says otherwise is mixed.
"""

from __future__ import annotations

import json
import re
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import requests
from ruamel.yaml import YAML

from quicksilver_lab.bench import results
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.environment import Environment, Where, one_line_errors, running, where_options
from quicksilver_lab.workloads.gridmix_run import GridmixOutcome, GridmixPlan, make_history, run_gridmix
from quicksilver_lab.workloads.rumen import make_trace

TD_S: Final = 3600.0
PLACES: Final = ("topk_wait", "least_queue")
BROKEN: Final = (
    "policies: {queues: '*', routes: [",
    "policies:\n  queues: '*'\n  routs: []\n",
    "policies:\n  place: {policy: topk_wait, settings: {k: 0}}\n",
    "policies:\n  order: {policy: shortest}\n",
    "policies:\n  alternatives: {a: {}}\n  windows: [{name: a, cron: '0 25 * * *', length_s: 60, use: a}]\n",
    "policies:\n  queues: '*'\n\tmode: active\n",
)
_EVERY_BROKEN: Final = 3
_EVERY_HANGUP: Final = 10
_TIMEOUT_S: Final = 30.0


def policies(number: int) -> dict[str, Any]:
    """Return the section of the valid file of this number; number 0 is what proxy and sidecars start with."""
    return {
        "queues": "*",
        "routes": [{"policy": "hybrid_gq", "settings": {"td_s": TD_S + number, "pq": 60.0}}],
        "place": {"policy": PLACES[number % len(PLACES)]},
        "order": {"policy": "fifo" if number % 2 else "job_submission"},
        "quota": {"policy": "none"},
    }


@dataclass(slots=True)
class Reloads:
    """What the reloads did."""

    versions: dict[str, int] = field(default_factory=dict)
    """Number of the settings by their version."""
    ok: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    """Valid files that were refused, broken ones that were taken, sidecars that did not follow."""
    nodes_ok: int = 0
    took_ms: list[float] = field(default_factory=list)
    ended_s: float = 0.0


class BenchReloader(threading.Thread):
    """Reloads `count` times, `pause_s` apart, beginning with the first."""

    def __init__(self, stack: LocalDaemons, count: int, pause_s: float) -> None:
        super().__init__(name="reloads")
        self.done = Reloads({stack.get("/v1/policies")["version"]: 0})
        self._stack, self._count, self._pause_s = stack, count, pause_s
        self._files = [stack.folder / f"{name}.yaml" for name in stack.processes]
        self._fine = {path: YAML(typ="safe").load(path) for path in self._files}

    def run(self) -> None:
        """Reload until done."""
        for number in range(1, self._count + 1):
            try:
                if number % _EVERY_BROKEN == 0:
                    self._broken(number)
                elif number % _EVERY_HANGUP == 0:
                    self._hang_up(number)
                else:
                    self._valid(number)
            except (requests.RequestException, KeyError, ValueError) as error:
                self.done.wrong.append(f"{number}: {type(error).__name__}: {error}")
            time.sleep(self._pause_s)
        self.done.ended_s = time.monotonic()

    def _write(self, number: int) -> None:
        for path, sections in self._fine.items():
            _replace(path, {**sections, "policies": policies(number)})

    def _post(self) -> requests.Response:
        begun_s = time.perf_counter()
        body = {"who": "bench", "command": True, "nodes": True}
        answer = requests.post(f"{self._stack.url}/v1/policies/reload", json=body, timeout=_TIMEOUT_S)
        self.done.took_ms.append(1000 * (time.perf_counter() - begun_s))
        return answer

    def _valid(self, number: int) -> None:
        self._write(number)
        answer = self._post()
        if not answer.ok:
            self.done.wrong.append(f"{number}: refused: {answer.text}")
            return
        report = answer.json()
        self.done.ok += 1
        self.done.versions[report["version"]] = number
        self.done.nodes_ok += sum(node["ok"] for node in report["nodes"])
        self.done.wrong += [
            f"{number}: {node['node_id']}: {node['error']}" for node in report["nodes"] if not node["ok"]
        ]

    def _hang_up(self, number: int) -> None:
        """Reload the proxy by SIGHUP."""
        self._write(number)
        before = self._stack.get("/v1/policies")["version"]
        self._stack.processes["proxy"].send_signal(signal.SIGHUP)
        end_s = time.monotonic() + _TIMEOUT_S
        while (version := self._stack.get("/v1/policies")["version"]) == before:
            if time.monotonic() > end_s:
                raise ValueError("SIGHUP changed nothing")
            time.sleep(0.02)
        self.done.ok += 1
        self.done.versions[version] = number

    def _broken(self, number: int) -> None:
        before = self._stack.get("/v1/policies")["version"]
        text = BROKEN[number // _EVERY_BROKEN % len(BROKEN)]
        for path in self._files:
            path.write_text(text)
        answer = self._post()
        after = self._stack.get("/v1/policies")["version"]
        if answer.status_code == 422 and answer.json()["error"]["code"] == "settings-refused" and after == before:
            self.done.refused += 1
        else:
            self.done.wrong.append(f"{number}: a broken file: {answer.status_code}, {before} -> {after}")


def _replace(path: Path, sections: Mapping[str, Any]) -> None:
    new = path.with_suffix(".new")
    with new.open("w") as file:
        YAML().dump(dict(sections), file)
    new.replace(path)


def judge(decisions: list[dict[str, Any]], versions: Mapping[str, int]) -> dict[str, Any]:
    """Compare each decision with the settings of its version; `versions`: their numbers.

    A decision that no policy made, such as that of an application master's own container, is not checked.
    """
    mixed, checked, by_version = [], 0, Counter[str]()
    for decision in decisions:
        threshold = re.search(r"td (\d+) s", decision["route_reason"])
        if decision["version"] and threshold:
            checked += 1
            by_version[decision["version"]] += 1
            if versions.get(decision["version"]) != int(threshold[1]) - TD_S:
                mixed.append(f"{decision['container_id']}: {decision['version']}: {decision['route_reason']}")
        placed = re.search("|".join(PLACES), decision["place_reason"])
        if decision["place_version"] and placed:
            checked += 1
            number = versions.get(decision["place_version"])
            if number is None or PLACES[number % len(PLACES)] != placed[0]:
                mixed.append(f"{decision['container_id']}: {decision['place_version']}: {decision['place_reason']}")
    return {
        "decisions": len(decisions),
        "checked": checked,
        "mixed_decisions": len(mixed),
        "mixed": mixed[:10],
        "by_version": dict(by_version),
    }


def run(env: Environment, jobs: int, count: int, pause_s: float) -> dict[str, Any]:
    """Make a history, run GridMix on it, and reload meanwhile; return the result."""
    assert env.stack is not None
    history = make_history(env, jobs)
    trace = make_trace(env.cluster, [job.job_id for job in history], env.progress)
    reloader = BenchReloader(env.stack, count, pause_s)
    reloader.start()
    begun_s = time.monotonic()
    outcome = run_gridmix(env, GridmixPlan(jobs=jobs, policy="STRESS", data_mb=2), trace)
    ended_s = time.monotonic()
    during = len(reloader.done.took_ms)
    reloader.join()
    return _result(env.stack, reloader.done, outcome, ended_s - begun_s, during)


def _result(
    stack: LocalDaemons, done: Reloads, outcome: GridmixOutcome, gridmix_s: float, during: int
) -> dict[str, Any]:
    changes = _all(stack, "/v1/policies/changes")
    failed = [name for name, (_, how) in outcome.outcomes.items() if how != "success"]
    return {
        "benchmark": "reloads",
        "reloads_ok": done.ok,
        "reloads_refused": done.refused,
        "reloads_wrong": len(done.wrong),
        "wrong": done.wrong[:10],
        "sidecar_reloads_ok": done.nodes_ok,
        "reloads_during_gridmix": during,
        "reload_p50_ms": round(statistics.median(done.took_ms), 1),
        "reload_max_ms": round(max(done.took_ms), 1),
        "jobs": outcome.summary.in_trace,
        "jobs_failed": len(failed) + (outcome.summary.in_trace - len(outcome.outcomes)),
        "gridmix_s": round(gridmix_s, 1),
        "recorded_versions": len({row["after"] for row in changes if row["path"] == "version"}),
        "recorded_refusals": sum(not row["ok"] for row in changes if not row["path"]),
        "policy_faults": _metric(stack, "quicksilver_proxy_policy_faults_total"),
        **judge(_all(stack, "/v1/decisions"), done.versions),
    }


def _all(stack: LocalDaemons, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    while True:
        page = stack.get(f"{path}?limit=1000&offset={len(items)}")
        items += page["items"]
        if not page["more"]:
            return items


def _metric(stack: LocalDaemons, name: str) -> float:
    text = requests.get(f"{stack.url}/metrics", timeout=_TIMEOUT_S).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


@click.command()
@where_options("reloads", route="hybrid_gq")
@click.option("--jobs", type=click.IntRange(1, 12), default=4, show_default=True, help="Jobs in GridMix's trace.")
@click.option("--reloads", "count", type=click.IntRange(1), default=100, show_default=True)
@click.option("--pause-s", type=click.FloatRange(0), default=0.5, show_default=True, help="Between two reloads.")
@one_line_errors
def main(where: Where, jobs: int, count: int, pause_s: float) -> None:
    """Reload valid and broken settings while GridMix runs; exit code 1 when a job fails or a decision is mixed."""
    machine = results.machine()
    with running(where) as env:
        assert env.stack is not None
        result = run(env, jobs, count, pause_s)
    result |= {"machine": machine, "commit": results.commit()}
    results.write("reloads", result, {})
    click.echo(json.dumps(result))
    if result["jobs_failed"] or result["mixed_decisions"] or result["reloads_wrong"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
