"""A tiny mix on a real ResourceManager, from the command to the page."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver_lab.bench.mixes.run import mixes
from quicksilver_lab.cluster.ports import free_base_port


@pytest.mark.hadoop
@pytest.mark.long
@pytest.mark.alone
def test_a_tiny_mix_is_compared_with_stock_and_bound(tmp_path: Path) -> None:
    words = ["--quick", "--nodes", "4", "--cores", "2", "--seeds", "1", "--mixes", "facebook_77"]
    words += ["--competitors", "only_g_fair_preempt,quicksilver_late", "--base-port", str(free_base_port(1))]
    outcome = CliRunner().invoke(mixes, [*words, "--dir", str(tmp_path / "run"), "--results", str(tmp_path)])
    assert outcome.exit_code == 0, outcome.output
    found = json.loads(outcome.stdout.splitlines()[-1])
    assert (found["runs"], found["lost_tasks"], found["doubled_tasks"]) == (2, 0, 0)
    figures = found["mixes"]["facebook_77"]["competitors"]
    means = {name: one["latency_mean_s"]["value"] for name, one in figures.items()}
    assert all(one["unfinished_jobs"] == 0 for one in figures.values())
    assert means["bound_endless"] <= means["bound"] < min(means["only_g_fair_preempt"], means["quicksilver_late"])
    assert found["goals"]["facebook_77.unfinished_jobs"]["met"]
    assert len(list(tmp_path.glob("mixes-*.html"))) == 1
