"""Apollo's figures: what an oracle would need, and that runs are compared on the same jobs."""

import json
from itertools import permutations
from random import Random

import pytest
from click.testing import CliRunner

from quicksilver.simulator.model import JobOutcome, SimResult, SimulatedJob
from quicksilver_lab.bench.sim.apollo import PAIRS, RUNS, apollo, figures, measure, oracle_s
from quicksilver_lab.bench.sim.matching import soonest


def test_an_oracle_never_waits_for_a_slot() -> None:
    job = SimulatedJob(1, 0.0, (4.0, 1.0, 2.0, 3.0), 2.5)
    assert [oracle_s(job, tokens) for tokens in (1, 2, 3, 100)] == [10.0, 6.0, 4.0, 4.0]


@pytest.mark.parametrize("seed", range(20))
def test_the_best_end_is_the_least_of_all_ways_to_seat_the_tasks(seed: int) -> None:
    rng = Random(seed)
    tasks = [[(float(rng.randrange(9)), server) for server in "abcd"] for _ in range(4)]
    times = [{server: seconds for seconds, server in task} for task in tasks]
    ways = (max(times[n][server] for n, server in enumerate(servers)) for servers in permutations("abcd"))
    assert soonest([sorted(task) for task in tasks]) == min(ways)


def test_figures_of_a_run() -> None:
    jobs = [SimulatedJob(1, 0.0, (4.0,), 4.0), SimulatedJob(2, 10.0, (2.0,), 2.0)]
    outcomes = [JobOutcome(1, 0.0, 6.0, 1, 4.0), JobOutcome(2, 10.0, 13.0, 1, 2.0)]
    counts = {"tasks": 2, "duplicates": 1, "duplicates_won": 1, "stragglers": 4, "reruns": 2, "reruns_won": 1}
    found = figures(SimResult("apollo", 1, outcomes, [(0.0, 1.0), (10.0, 0.5), (20.0, 0.0)], counts), jobs)
    assert found["by_oracle"] == 9 / 6
    assert found["busy"] == 0.75, "while jobs arrive"
    assert (found["duplicates"], found["duplicates_won"]) == (0.5, 1.0)
    assert (found["stragglers_caught"], found["reruns_won"]) == (0.5, 0.5)


def test_a_small_measurement_has_all_runs() -> None:
    rows, raw = measure([0.8], 60, (1, 2))
    assert [row["load"] for row in rows] == [0.8] and len(raw["0.8"]) == 2
    assert set(rows[0]["runs"]) == set(RUNS)
    assert set(rows[0]["ratios"]) == {f"{a} / {b}" for a, b in PAIRS}
    assert rows[0]["runs"]["no opportunistic"]["opportunistic_share"]["max"] == 0


def test_matching_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quicksilver_lab.bench.sim.apollo.write", lambda *_: "nowhere")
    monkeypatch.setattr("quicksilver_lab.bench.sim.apollo.MATCHING", ((20, 10.0),))
    result = CliRunner().invoke(apollo, ["--part", "matching", "--draws", "2"])
    row = json.loads(result.stdout)["matching"][0]
    assert (row["tasks"], row["draws"]) == (20, 2) and row["greedy"] >= row["stable"] >= 1
