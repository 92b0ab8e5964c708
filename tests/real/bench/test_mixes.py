"""A tiny mix on a real ResourceManager, from the command to the page."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver_lab.bench.experiment.run import run
from quicksilver_lab.cluster.ports import free_base_port

PLAN = """
about: half of the jobs of a trace on eight slots
promises: true
halved: true
seeds: 1
cluster: {nodes: 4, cores: 2}
workloads: [facebook_77]
competitors: [only_g_fair_preempt, quicksilver_late]
"""


@pytest.mark.hadoop
@pytest.mark.long
@pytest.mark.alone
def test_a_tiny_mix_is_compared_with_stock_and_bound(tmp_path: Path) -> None:
    plan = tmp_path / "mixes.yaml"
    plan.write_text(PLAN)
    words = [str(plan), "--base-port", str(free_base_port(1))]
    outcome = CliRunner().invoke(run, [*words, "--dir", str(tmp_path / "run"), "--results", str(tmp_path)])
    assert outcome.exit_code == 0, outcome.output
    found = json.loads(outcome.stdout.splitlines()[-1])
    assert (found["runs"], found["lost_tasks"], found["doubled_tasks"]) == (2, 0, 0)
    figures = found["mixes"]["facebook_77"]["competitors"]
    means = {name: one["latency_mean_s"]["value"] for name, one in figures.items()}
    assert all(one["unfinished_jobs"] == 0 for one in figures.values())
    assert means["bound_endless"] <= means["bound"] < min(means["only_g_fair_preempt"], means["quicksilver_late"])
    assert found["goals"]["facebook_77.unfinished_jobs"]["met"]
    assert len(list(tmp_path.glob("mixes-*.html"))) == 1
