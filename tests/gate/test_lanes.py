"""Who runs in which process: what shares a cluster stays together, two lanes have clusters, the longest begin first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.gate import report
from tests.gate.lanes import DEFAULTS_S, Module, default_s, groups, places
from tests.paths import ROOT


def module(path: str, duration_s: float, *shared: str, hadoop: bool = False) -> Module:
    return Module(path, frozenset({"hadoop"} if hadoop else ()), frozenset(shared), duration_s)


def test_modules_that_share_something_are_one_group_be_it_through_others() -> None:
    made = [module("a", 1, "x"), module("b", 1, "y"), module("c", 1), module("d", 5, "x", "y")]
    assert [[one.path for one in group] for group in groups(made)] == [["a", "b", "d"], ["c"]]


def test_clusters_are_dealt_to_two_lanes_longest_first_and_others_stand_alone() -> None:
    made = [module(name, seconds, hadoop=True) for name, seconds in (("a", 50), ("b", 40), ("c", 30), ("d", 10))]
    made += [module("s1", 20, "one", hadoop=True), module("s2", 25, "one", hadoop=True)]
    made += [module("short", 1), module("long", 99), module("docker1", 30, "dockerd"), module("docker2", 30, "dockerd")]
    found = places(made)
    lanes = {lane: [path for path, place in found.items() if place.unit == lane] for lane in ("lane 0", "lane 1")}
    assert lanes == {"lane 0": ["a", "c", "d"], "lane 1": ["s1", "s2", "b"]}, "90 s and 85 s"
    rest = [path for path, place in found.items() if not place.unit.startswith("lane")]
    assert rest == ["long", "docker1", "docker2", "short"]
    assert found["docker1"].unit == found["docker2"].unit != found["long"].unit
    assert found["s1"].group == found["s2"].group != found["b"].group


def test_what_is_not_known_is_guessed_by_its_dearest_marker() -> None:
    assert default_s({"hadoop", "kerberos"}) == DEFAULTS_S["hadoop"] > default_s({"kerberos"}) > default_s({"x"}) == 1
    assert default_s(()) == 1


CONFTEST: Final = """
import os, pytest
from tests.gate.plugin import (
    pytest_collection_modifyitems, pytest_configure_node, pytest_runtest_protocol, pytest_runtest_teardown,
    pytest_unconfigure, pytest_xdist_make_scheduler,
)

def note(*words):
    with open("log", "a") as log:
        log.write(" ".join([os.environ["PYTEST_XDIST_WORKER"], *words]) + "\\n")

@pytest.fixture(scope="session")
def shared_cluster():
    note("start", "shared")
    yield note
    note("stop", "shared")

@pytest.fixture(scope="module")
def own_cluster(request):
    note("start", request.node.name)
    yield note
    note("stop", request.node.name)
"""
TEST: Final = """
import pytest
pytestmark = pytest.mark.hadoop
@pytest.mark.parametrize("number", range(3))
def test_it({fixture}, number):
    {fixture}("{name}")
"""
SHARING: Final = """
def test_other(shared_cluster):
    shared_cluster("gs")
"""


def test_a_shared_cluster_starts_once_and_ends_before_the_next_group_begins(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = hadoop\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, fixture in (("a", "shared"), ("b", "own"), ("c", "shared"), ("d", "own"), ("e", "own"), ("f", "shared")):
        (tmp_path / f"test_{name}.py").write_text(TEST.format(fixture=f"{fixture}_cluster", name=name))
    both = TEST.format(fixture="own_cluster", name="g") + SHARING
    (tmp_path / "test_g.py").write_text(both)
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "pytest_timeout", "-p", "no:cacheprovider", "-q"]
    command += ["-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TMPDIR": str(tmp_path)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0 and "22 passed" in done.stdout, done.stdout + done.stderr
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    by_worker = [[line[1:] for line in lines if line[0] == worker] for worker in ("gw0", "gw1")]
    (shared,) = [log for log in by_worker if ["start", "shared"] in log]
    assert [words[0] for words in shared if words[-1] in {"shared", "a", "c", "f", "gs"}] == [
        *("start", *"aaacccfff", "gs", "stop")
    ]
    for log in by_worker:
        running = 0
        for word, *_ in log:
            running += {"start": 1, "stop": -1}.get(word, 0)
            assert running <= 1, f"two clusters in one process: {log}"
        assert running == 0
    assert (
        sum(
            log.count(["start", name])
            for log in by_worker
            for name in ("test_b.py", "test_d.py", "test_e.py", "test_g.py")
        )
        == 4
    )
    assert not list(tmp_path.glob("quicksilver-units-*")), "no file is left"


JUNIT: Final = """<testsuites><testsuite tests="3">
<testcase classname="tests.x.test_one.TestThis" name="test_a" time="2.04">
<properties><property name="cpu_s" value="1.26"/></properties></testcase>
<testcase classname="tests.x.test_one" name="test_b" time="1.0"/>
<testcase classname="tests.test_two" name="test_c" time="0.2"/>
</testsuite></testsuites>"""


def test_durations_are_kept_by_module(tmp_path: Path) -> None:
    (tmp_path / "tests" / "x").mkdir(parents=True)
    for name in ("x/test_one.py", "test_two.py", "test_three.py"):
        (tmp_path / "tests" / name).write_text("pytestmark = pytest.mark.docker" if "three" in name else "")
    junit, kept = tmp_path / "junit-units.xml", tmp_path / "durations.json"
    junit.write_text(JUNIT)
    kept.write_text(json.dumps({"tests/test_gone.py": 7, "tests/test_three.py": 0.5, "tests/x/test_one.py": 99}))
    assert report.save_durations([junit, tmp_path / "junit-never-written.xml"], kept, tmp_path) == 2
    assert json.loads(kept.read_text()) == {"tests/test_three.py": 0.5, "tests/x/test_one.py": 3.0}
    tests = report.tests_of(junit, tmp_path)
    assert report.by_folder(tests) == [
        "       3 s        1 CPU s      2 tests  tests/x",
        "       0 s        0 CPU s      1 tests  tests",
    ]
    assert report.longest(tests, 1) == ["     2.0 s      1.3 CPU s  tests/x/test_one.py::test_a"]
