"""A few of Zoe's applications on a real ResourceManager with emulated servers, from the command to the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver_lab.bench.zoe.figure1 import PAPER_S, figure1
from quicksilver_lab.bench.zoe.run import zoe
from quicksilver_lab.cluster.ports import free_base_port

APPLICATIONS = 8


@pytest.mark.hadoop
@pytest.mark.long
@pytest.mark.alone
def test_applications_end_on_stock_yarn_and_with_quicksilver(tmp_path: Path) -> None:
    words = ["--systems", "stock,default", "--applications", str(APPLICATIONS), "--scale", "40"]
    words += ["--base-port", str(free_base_port(1)), "--dir", str(tmp_path / "run"), "--results", str(tmp_path)]
    outcome = CliRunner().invoke(zoe, words)
    assert outcome.exit_code == 0, outcome.output
    found = json.loads(outcome.stdout.splitlines()[-1])
    systems, simulated = found["seeds"]["1"]["systems"], found["seeds"]["1"]["simulated"]["rigid"]
    for figures in systems.values():
        assert (figures["applications"], figures["ended"]) == (APPLICATIONS, APPLICATIONS)
        assert [figures[name] for name in ("lost", "doubled", "strays", "refused")] == [0, 0, 0, 0]
        assert figures["slowdown_p50"] >= 1
        assert 0 < figures["allocation"] <= figures["allocation_peak"] <= 1
    assert systems["stock"]["preempted"] == systems["stock"]["lost_core"] == 0
    assert systems["stock"]["turnaround_mean_s"] < 3 * simulated["turnaround_mean_s"]
    assert found["ratios"]["default/stock"]["turnaround_mean"]["median"] > 0
    assert len(list(tmp_path.glob("zoe-*.html"))) == 1


@pytest.mark.hadoop
@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("name", PAPER_S)
def test_figure_1_within_a_tenth(tmp_path: Path, name: str) -> None:
    words = ["--systems", name, "--base-port", str(free_base_port(1))]
    outcome = CliRunner().invoke(figure1, [*words, "--dir", str(tmp_path / "run"), "--results", str(tmp_path)])
    assert outcome.exit_code == 0, outcome.output
    found = json.loads(outcome.stdout.splitlines()[-1])["systems"][name]
    assert found["met"] and found["ratio"] == pytest.approx(1, abs=0.1)
    ends_s = list(found["scaled_s"].values())
    assert ends_s == sorted(ends_s), "first come, first served"
