"""Benchmarks of the simulator: tasks per second of the systems, and Mercury's experiments."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.sim import mercury
from bench.sim.__main__ import LEFT_OUT, SETTINGS, sim, trace
from policies.registry import Registry
from policies.settings import Policies
from simulator.model import ClusterModel
from simulator.systems import SYSTEMS, load


def test_the_trace_keeps_the_slots_busy_as_asked() -> None:
    jobs = trace(5_000, 90.0, 1)
    assert sum(len(job.durations_s) for job in jobs[:-1]) < 5_000 <= sum(len(job.durations_s) for job in jobs)
    assert jobs == trace(5_000, 90.0, 1) != trace(5_000, 90.0, 2)


def test_what_is_set_can_be_set() -> None:
    assert SETTINGS.keys() | LEFT_OUT <= SYSTEMS.keys()
    for name, chosen in SETTINGS.items():
        load(name).Settings(**chosen)


def test_the_command_ends_with_one_json_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.results.RESULTS", tmp_path)
    monkeypatch.setattr("bench.sim.__main__.write", lambda *_: tmp_path)
    words = ["--nodes", "20", "--tasks", "40", "--system", "yarn_fifo", "--system", "kairos_slots"]
    result = CliRunner().invoke(sim, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout.splitlines()[-1])
    assert set(told["systems"]) == {"yarn_fifo", "kairos_slots"}
    assert all(one["tasks"] >= 40 and one["tasks_per_cpu_s"] > 0 for one in told["systems"].values())


def test_mercurys_runs_are_compared_with_runs_and_their_policies_load() -> None:
    listed = mercury.runs()
    names = [name for name, _, _, _ in listed]
    assert len(set(names)) == len(names) and {against for _, against, _, _ in listed} <= set(names)
    registry = Registry()
    for _, _, _, chosen in listed:
        Policies.load(chosen["policies"], registry)


def test_gains_are_of_tasks_per_second_over_only_g(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mercury, "CLUSTER", ClusterModel(nodes=2, slots=2))
    monkeypatch.setattr(mercury, "JOBS", {150: 1})
    monkeypatch.setattr(mercury, "_ROUNDS", 1)
    monkeypatch.setattr(mercury, "_TASKS", 6)
    policies = {"policies": mercury.only_q(place={"policy": "topk_wait"})}
    wanted = [("g", "g", 1.0, {"policies": mercury.ONLY_G}), ("q", "g", 1.0, policies)]
    result, raw = mercury.measure(wanted, [1])
    of = raw["1"]
    assert result["gains"]["q"]["median"] == pytest.approx(
        of["q"]["tasks_per_s"] / of["g"]["tasks_per_s"] - 1, abs=1e-4
    )
    assert of["q"]["tasks_per_s"] > of["g"]["tasks_per_s"] > 0
