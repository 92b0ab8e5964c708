"""Replays of real runs, without a cluster: what is run, what is found of it again, and what is made of the stores."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from policies.model import Kind, Resources
from quicksilver.common.messages import ContainerEvent, EventKind
from quicksilver.simulator.traces.formats.registry import read
from quicksilver_lab.bench.policies import real
from quicksilver_lab.bench.sim.replay import POLICIES, Replayed, Shuffling, compared, main, recordings, rumen
from rm_proxy.domain.records import AppRecord, GrantRecord
from rm_proxy.store.rows import NodeEvent
from rm_proxy.store.store import Store


def ran(folder: Path, policy: str, number: int, end_s: float) -> None:
    """Leave a run of one job with one task, asked for at 1000 s, begun at 1001 s."""
    here = folder / "sleeping" / "policies" / f"quicksilver-{policy}-1-{number}"
    here.mkdir(parents=True)
    (variant,), _ = real.variants([policy])
    YAML().dump({"policies": real.section(real.RealPlan(), variant)}, here / "proxy.yaml")
    grant = GrantRecord(
        container_id="c_1",
        app_id="application_1_0001",
        attempt_id="appattempt_1_0001_000001",
        kind=Kind.QUEUEABLE,
        route_reason="rule 1",
        node_id="n1:1",
        wanted_node=None,
        place_reason="least wait",
        scores=(),
        unit="s",
        priority=15,
        resources=Resources(256, 1),
        expected_s=5.0,
        asked_s=1000.0,
        granted_s=1000.0,
    )
    ended = ContainerEvent(seq=1, container_id="c_1", kind=EventKind.ENDED, at_s=end_s, ran_s=end_s - 1001.0)
    app = AppRecord("application_1_0001", "root.batch", "ann", "YARN", "short", (), 0, 990.0)
    store = Store(f"sqlite:///{here / 'proxy.db'}")
    store.open()
    store.write((app, grant, NodeEvent("n1:1", "boot", ended)))
    store.close()


def test_kept_runs_are_simulated_with_their_own_settings_and_with_the_others(tmp_path: Path) -> None:
    for policy, number, end_s in (("mercury", 1, 1011.0), ("mercury", 2, 1012.0), ("baseline", 1, 1011.0)):
        ran(tmp_path, policy, number, end_s)
    words = ["--kept", "--dir", str(tmp_path), "--seeds", "2", "--results", str(tmp_path / "results")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[-1])["sleeping"]
    took_s = {11.0: 10.1005, 12.0: 11.1005}  # a start takes 0.1 s and the network's delay
    own = [round(simulated_s / recorded_s - 1, 3) for recorded_s, simulated_s in took_s.items()]
    assert found["error"]["mercury as mercury"]["mean"]["each"] == own
    assert found["error"]["baseline as mercury"]["mean"]["each"] == [round(10.1005 / 11.5 - 1, 3)]
    assert found["spread"]["mercury"]["mean"] == round(1 / 11.5, 3)
    assert found["recorded_s"]["baseline, jobs 1"]["makespan"] == 11.0


def test_what_the_other_policies_did_is_of_the_same_jobs() -> None:
    def one(policy: str, seed: int, real_s: float) -> Replayed:
        simulated = {settings: {"mean": 10.0} for settings in POLICIES}
        chance = {settings: {"mean": 0.1 * seed} for settings in POLICIES}
        return Replayed("sleeping", policy, seed, 1, {"mean": real_s}, simulated, chance)

    found = compared([one("mercury", 1, 8.0), one("baseline", 1, 20.0), one("mercury", 2, 40.0)])
    each = {name: error["mean"]["each"] for name, error in found["error"].items()}
    assert each == {
        "mercury as mercury": [0.25, -0.75],
        "mercury as baseline": [-0.5],  # the other set of jobs was not run with it
        "baseline as mercury": [0.25],
        "baseline as baseline": [-0.5],
    }
    assert found["chance"]["mercury as mercury"]["mean"] == 0.15


def test_a_folder_without_runs_is_one_error(tmp_path: Path) -> None:
    assert recordings(tmp_path) == []
    result = CliRunner().invoke(main, ["--kept", "--dir", str(tmp_path)])
    assert result.exit_code == 1 and "leave --kept out" in result.output


def test_gridmix_is_given_maps_and_reduces(tmp_path: Path) -> None:
    plan, trace = Shuffling(), tmp_path / "rumen.json"
    trace.write_text(rumen(plan, 1))
    jobs = list(read(trace))
    assert rumen(plan, 1) == rumen(plan, 1) != rumen(plan, 2)
    assert len(jobs) == plan.jobs and all(job.staged for job in jobs)
    assert jobs[0].arrives_s == 0 and jobs[-1].arrives_s <= plan.arrivals_s
    shortest_s, longest_s = plan.map_s
    for job in jobs:
        maps, reduces = job.stages
        assert plan.maps[0] <= maps <= plan.maps[1] and plan.reduces[0] <= reduces <= plan.reduces[1]
        assert all(shortest_s <= task_s <= longest_s for task_s in job.durations_s[:maps])


@pytest.mark.parametrize("wrong", ["spark", "sleeping,spark"])
def test_other_jobs_there_are_not(wrong: str) -> None:
    result = CliRunner().invoke(main, ["--jobs", wrong])
    assert result.exit_code == 2 and "spark: not one of sleeping, mapreduce" in result.output
