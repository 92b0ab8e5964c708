"""From samples to figures, goals and the page; and what the command refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from quicksilver.report.model import Lines
from quicksilver_lab.bench.cli import bench
from quicksilver_lab.bench.grants.figures import figures, goals
from quicksilver_lab.bench.grants.probes import GrantSample, ProbeResult
from quicksilver_lab.bench.grants.run import result_of
from quicksilver_lab.bench.grants.systems import SYSTEMS, node_settings, priority, rm_options
from quicksilver_lab.bench.load.loadgen import Measured
from quicksilver_lab.bench.page.pages import page_of


def probed(call_ms: float = 1.0, calls: int = 1, number: int = 2**30 + 1, count: int = 100) -> ProbeResult:
    call_us = int(call_ms * 1000)
    sample = GrantSample(call_us, call_us * calls, calls, number)
    return ProbeResult(10.0, [sample] * count, [100] * count, skipped=1, cpu_s={"rm": 5.0, "proxy": 1.0})


def load(calls: int = 1000) -> Measured:
    return Measured(10.0, ([], [2000] * calls), late_ms=3.0, granted=250)


def test_a_step_has_the_percentiles_of_the_call_and_since_the_ask() -> None:
    step = figures([probed(1.0), probed(3.0, calls=2, number=2**30 + 2)], [load(), load(3000)])
    assert step["p50_ms"] == {"median": 2.0, "min": 1.0, "max": 3.0}
    assert step["since_ask_p99_ms"] == {"median": 3.5, "min": 1.0, "max": 6.0}
    assert (step["grants"], step["calls"], step["first_call_ratio"], step["own_ratio"]) == (200, 1.5, 0.5, 1.0)
    assert step["ahead_ratio"] == 0.5
    assert step["reached_per_s"] == {"median": 200, "min": 100, "max": 300}
    assert (step["load_grants_per_s"], step["load_late_ms"]) == (25.0, 3.0)
    assert step["load_p99_ms"]["median"] == 2.0 and step["probes_late_p99_ms"]["median"] == 0.1
    assert (step["skipped"], step["missing"], step["refused"]) == (2, 0, 0)
    assert (step["rm_cores"], step["proxy_cores"], step["reconnects"]) == (0.5, 0.1, 0)


def test_a_step_without_load_or_without_grants_says_so() -> None:
    step = figures([ProbeResult(10.0, missing=3)], [None])
    assert (step["p50_ms"], step["load_p50_ms"], step["own_ratio"], step["missing"]) == (None, None, None, 3)
    assert step["reached_per_s"]["median"] == 0
    assert goals([{"system": "own_grants", "load_per_s": 0, **step}])["own_grants"]["met"] is False


def steps() -> dict[str, Any]:
    samples = {
        ("stock", 0): [(probed(4.0, number=7), None)],
        ("own_grants_ahead", 0): [(probed(9.0), None)],
        ("own_grants_ahead", 2000): [(probed(0.5), load())],
        ("own_grants", 2000): [(probed(1.5), load())],
    }
    result, raw = result_of(samples)
    assert set(raw) == {"stock at 0", "own_grants_ahead at 0", "own_grants_ahead at 2000", "own_grants at 2000"}
    json.dumps(raw)
    return result


def test_the_goals_are_those_of_own_grants_under_the_highest_load() -> None:
    assert steps()["goals"] == {
        "own_grants": {"load_per_s": 2000, "p50_ms": 1.5, "p99_ms": 1.5, "met": False},
        "own_grants_ahead": {"load_per_s": 2000, "p50_ms": 0.5, "p99_ms": 0.5, "met": True},
    }


def test_containers_of_the_resourcemanager_are_no_own_ones() -> None:
    step = figures([probed(number=7), probed(number=2**30 + 3)], [None, None])
    assert (step["own_ratio"], step["ahead_ratio"]) == (0.5, 0.5)


def test_the_page_draws_each_system_over_the_load() -> None:
    page = page_of({"benchmark": "grants", **steps()})
    plots = [block for section in page.sections for block in section.blocks if isinstance(block, Lines)]
    assert [plot.title for plot in plots] == ["Grant, p50, ms", "Grant, p99, ms"]
    assert [(series.name, series.x, series.y) for series in plots[0].series] == [
        ("own_grants_ahead", [0, 2000], [9, 0.5])
    ]


def test_stock_asks_for_opportunistic_containers_and_quicksilver_for_usual_ones() -> None:
    assert [priority(system) for system in SYSTEMS.values()] == [19, 20, 20, 20]
    options = {name: rm_options(system, 26000, ("-Xmx512m",)) for name, system in SYSTEMS.items()}
    assert [each.behind_proxy for each in options.values()] == [False, True, True, True]
    assert [each.own_grants for each in options.values()] == [False, False, True, True]
    opportunistic = "yarn.resourcemanager.opportunistic-container-allocation.enabled"
    assert options["stock"].yarn[opportunistic] == "true"
    nodes = node_settings(SYSTEMS["quicksilver"], 8, 26000)
    assert nodes.relay.mark_guaranteed and nodes.vcores == 8 and nodes.port == 26300
    assert node_settings(SYSTEMS["stock"], 8, 26000).relay.extra.vcores == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--loads", "500,0"], "growing list of numbers from 0 on"),
        (["--loads", "many"], "growing list of numbers from 0 on"),
        (["--systems", "stock,fair"], "no system 'fair'; there are stock, quicksilver, own_grants, own_grants_ahead"),
        (["--rate", "0"], "--rate"),
    ],
)
def test_what_the_command_refuses(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(bench, ["grants", *arguments])
    assert done.exit_code == 2 and words in " ".join(done.stderr.split()).replace("│ ", "")
