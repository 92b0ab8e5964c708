"""Benchmarks of the simulator: tasks per second of the systems, and Mercury's experiments."""

import json
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner

from policies.config.policy_set import Policies
from policies.config.registry import Registry
from quicksilver.simulator.model import ClusterModel
from quicksilver.simulator.systems import SYSTEMS, load
from quicksilver.simulator.systems.mercury import Production
from quicksilver_lab.bench.sim import mercury
from quicksilver_lab.bench.sim.__main__ import LEFT_OUT, SETTINGS, sim, trace


def test_the_trace_keeps_the_slots_busy_as_asked() -> None:
    jobs = trace(5_000, 90.0, 1)
    assert sum(len(job.durations_s) for job in jobs[:-1]) < 5_000 <= sum(len(job.durations_s) for job in jobs)
    assert jobs == trace(5_000, 90.0, 1) != trace(5_000, 90.0, 2)


def test_what_is_set_can_be_set() -> None:
    assert SETTINGS.keys() | LEFT_OUT <= SYSTEMS.keys()
    for name, chosen in SETTINGS.items():
        load(name).Settings(**chosen)


def test_the_command_ends_with_one_json_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quicksilver_lab.bench.results.RESULTS", tmp_path)
    monkeypatch.setattr("quicksilver_lab.bench.sim.__main__.write", lambda *_: tmp_path)
    words = ["--nodes", "20", "--tasks", "40", "--system", "yarn_fifo", "--system", "kairos_slots"]
    result = CliRunner().invoke(sim, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout.splitlines()[-1])
    assert set(told["systems"]) == {"yarn_fifo", "kairos_slots"}
    assert all(one["tasks"] >= 40 and one["tasks_per_cpu_s"] > 0 for one in told["systems"].values())


def test_mercurys_runs_are_compared_with_runs_and_their_policies_load() -> None:
    listed = [run for part in mercury.runs().values() for run in part]
    names = {run.name for run in listed}
    assert len(names) == len(listed) and {mercury.against(name) for name in names} <= names
    registry = Registry()
    for policies in {json.dumps(run.settings["policies"], sort_keys=True) for run in listed}:
        Policies.load(json.loads(policies), registry)
    for run in listed:
        Production(**run.settings)
        begin_s, until_s = mercury.window(run)
        assert 2 * run.cycle_s < begin_s < until_s


def test_mercurys_jobs_are_alike_whatever_is_compared() -> None:
    one, other = (mercury.MercuryRun(name, (2.0, 50.0), {"launch_s": 4.0}) for name in ("a: only-G", "a: only-Q"))
    first = list(islice(mercury.jobs(one, 1), 80))
    assert first == list(islice(mercury.jobs(other, 1), 80)) != list(islice(mercury.jobs(one, 2), 80))
    assert [job.estimate_s for job in first].count(6.1) == 40
    assert first[40].arrives_s < first[74].arrives_s == first[79].arrives_s


def test_gains_are_over_only_g_within_the_window() -> None:
    small = ClusterModel(nodes=2, slots=2)
    wanted = [
        mercury.MercuryRun(f"x: only-{kind}", (1.0,), {"policies": policies}, small, 2, (5.0, 20.0))
        for kind, policies in (("G", mercury.ONLY_G), ("Q", mercury.only_q()))
    ]
    result, raw = mercury.measure(wanted, [1])
    guaranteed, queueable = raw["1"]["x: only-G"], raw["1"]["x: only-Q"]
    for figure in ("tasks_per_s", "latency_mean_s"):
        gain = queueable[figure] / guaranteed[figure] - 1
        assert result["gains"][figure]["x: only-Q"]["median"] == pytest.approx(gain, abs=1e-4)
    assert 4 / 1.1 >= queueable["tasks_per_s"] > guaranteed["tasks_per_s"] > 0
    assert guaranteed["faults"] == queueable["faults"] == 0
