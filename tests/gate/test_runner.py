"""Toy trees of tests, run by the runner of `make test`: bounds, hangs, leftovers, interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.gate import leftovers
from tests.gate.steps import ALL, FOREIGN, GATE, UNITS
from tests.paths import ROOT

DRIVER: Final = """
import json, sys
from pathlib import Path
from tests.gate import leftovers, main, runner
from tests.gate.steps import Step

runner.TEARDOWN_S = float(sys.argv[2])
leftovers.GRACE_S = 1
folder = Path.cwd()
machine = lambda: leftovers.Machine(leftovers.Machine.now(folder / "groups").cgroups, frozenset(), ())
steps = [Step(**one) for one in json.loads(sys.argv[1])]
sys.exit(main.run_steps(steps, folder / "run", goes_on=False, root=folder, runner=runner.Runner(machine)))
"""
"""What other tests mount, and their control groups, are not looked at."""
PLUGINS: Final = ("-p", "pytest_timeout", "-p", "xdist", "-p", "no:cacheprovider")
PASSES: Final = "def test_it():\n    pass\n"
SLEEP: Final = "[sys.executable, '-c', 'import time\\ndef asleep(): time.sleep(300)\\nasleep()']"
STARTS: Final = f"import signal, subprocess, sys, time\nSLEEPER = {SLEEP}\n"


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., Path]:
    """Write modules into a folder."""

    def write(**modules: str) -> Path:
        (tmp_path / "groups").mkdir(exist_ok=True)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)
        return tmp_path

    return write


def start(folder: Path, *steps: dict[str, Any], teardown_s: int = 2) -> subprocess.Popen[str]:
    given = json.dumps([{"wall_limit_s": 60, **step, "arguments": [*PLUGINS, *step["arguments"]]} for step in steps])
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    command = [sys.executable, "-c", DRIVER, given, str(teardown_s)]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def gate(folder: Path, *steps: dict[str, Any]) -> tuple[int, str, list[dict[str, Any]]]:
    """Run steps; returns the exit status, the output, and gate.json."""
    process = start(folder, *steps)
    output = process.communicate(timeout=110)[0]
    return process.returncode, output, json.loads((folder / "run" / "gate.json").read_text())


def test_all_steps_pass_and_say_what_they_took(toy: Callable[..., Path]) -> None:
    folder = toy(test_one=PASSES, test_two=PASSES)
    status, output, kept = gate(
        folder, {"name": "a", "arguments": ["test_one.py"]}, {"name": "b", "arguments": ["test_two.py"]}
    )
    assert status == 0, output
    assert [one["result"] for one in kept] == ["passed", "passed"]
    assert output.count("= 1 passed in ") == 2, "the closing line of pytest is seen"
    assert all(0 < one["cpu_s"] < 60 and 0 < one["wall_s"] < 60 for one in kept)
    assert 'tests="1"' in (folder / "run" / "junit-b.xml").read_text()


def test_after_a_failure_the_next_step_is_not_begun(toy: Callable[..., Path]) -> None:
    folder = toy(test_one="def test_it():\n    assert False\n", test_two=PASSES)
    status, output, kept = gate(
        folder, {"name": "a", "arguments": ["test_one.py"]}, {"name": "b", "arguments": ["test_two.py"]}
    )
    assert status == 1 and "tests: a failed: exit status 1" in output
    assert [one["result"] for one in kept] == ["failed", "not begun"]
    assert not (folder / "run" / "junit-b.xml").exists()


def test_a_failure_is_printed_as_it_comes(toy: Callable[..., Path]) -> None:
    folder = toy(
        test_one="import pytest\n@pytest.fixture\ndef broken(): raise ValueError('odd')\ndef test_it(broken): pass\n"
    )
    (folder / "conftest.py").write_text("from tests.gate.plugin import pytest_configure\n")
    status, output, _ = gate(folder, {"name": "a", "arguments": ["test_one.py"]})
    before, line, after = output.partition("test_one.py::test_it failed in its setup: ValueError: odd")
    assert status == 1 and line and "Traceback" not in before and "short test summary" in after, output


@pytest.mark.long
def test_cpu_time_of_orphans_is_counted_and_bounded(toy: Callable[..., Path]) -> None:
    """The shell ends at once; who works on has no parent in the tree of tests any more."""
    burns = "import time\\nwhile time.process_time() < 2: pass\\nopen('burnt', 'w').close()"
    orphan = f"""
import os, subprocess, sys, time
def test_it():
    environment = os.environ | {{"PYTHON": sys.executable, "BURN": "{burns}"}}
    subprocess.run(["sh", "-c", '"$PYTHON" -c "$BURN" &'], env=environment, check=True)
    while not os.path.exists("burnt"):
        time.sleep(0.05)
"""
    folder = toy(test_calm=PASSES, test_hot=orphan)
    status, output, kept = gate(
        folder,
        {"name": "calm", "arguments": ["test_calm.py"], "cpu_limit_s": 10.0},
        {"name": "hot", "arguments": ["test_hot.py"], "cpu_limit_s": 0.1},
    )
    assert status == 1, output
    assert [one["result"] for one in kept] == ["passed", "failed"], kept
    (reason,) = kept[1]["reasons"]
    assert "1 passed" in output and "s of CPU time, more than its bound: 0.1 s, times " in reason
    assert 1 <= kept[1]["slowness"] < 20
    assert kept[1]["cpu_s"] > 2


@pytest.mark.long
def test_a_step_that_hangs_ends_with_all_stacks(toy: Callable[..., Path]) -> None:
    hangs = f"""{STARTS}
def test_it():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    subprocess.Popen(SLEEPER)
    never_over()
def never_over():
    open("hanging", "w").close()
    while True:
        time.sleep(1)
"""
    folder = toy(test_hang=hangs)
    began_s = time.monotonic()
    status, output, kept = gate(folder, {"name": "a", "arguments": ["test_hang.py"], "wall_limit_s": 15})
    assert status == 1 and time.monotonic() - began_s < 100
    assert (folder / "hanging").exists(), "it came so far"
    assert "never_over (" in output, output
    assert "asleep (<string>" in output, "the process that it started, too"
    assert "-m pytest" in output
    assert kept[0]["reasons"][1] == "it hung: it was not over after 15 s, its limit"
    assert "its teardown was not over after 2 s" in kept[0]["reasons"]
    assert not of_folder(folder)


def of_folder(folder: Path) -> list[psutil.Process]:
    """Return the processes that run there."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.long
def test_what_a_green_step_leaves_behind_is_named_and_ended(toy: Callable[..., Path]) -> None:
    leaves = f"""{STARTS}
from pathlib import Path
def test_it():
    subprocess.Popen(SLEEPER, start_new_session=True)
    Path("groups/quicksilver-x/inner").mkdir(parents=True)
"""
    folder = toy(test_leaves=leaves)
    status, output, kept = gate(folder, {"name": "a", "arguments": ["test_leaves.py"]})
    assert status == 1 and "1 passed" in output and "asleep" in output
    process, group = kept[0]["reasons"]
    assert process.startswith("left behind: process ") and "time.sleep(300)" in process
    assert group == f"left behind: control group {folder}/groups/quicksilver-x"
    assert not of_folder(folder) and not list((folder / "groups").iterdir())


def test_an_interruption_lets_tests_tear_down_and_leaves_nothing(toy: Callable[..., Path]) -> None:
    waits = f"""{STARTS}
import pytest
@pytest.fixture
def sleeper():
    with subprocess.Popen(SLEEPER) as process:
        yield process
        process.kill()
    open("torn-down", "w").close()
def test_it(sleeper):
    open("begun", "w").close()
    time.sleep(300)
"""
    folder = toy(test_waits=waits, test_two=PASSES)
    steps = {"name": "a", "arguments": ["test_waits.py"]}, {"name": "b", "arguments": ["test_two.py"]}
    process = start(folder, *steps, teardown_s=50)
    while not (folder / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and "a failed: interrupted by SIGTERM" in output
    assert "left behind" not in output and (folder / "torn-down").exists(), output
    kept = json.loads((folder / "run" / "gate.json").read_text())
    assert [one["result"] for one in kept] == ["failed", "not begun"]
    assert not of_folder(folder)


@pytest.mark.long
def test_a_test_that_passes_its_limit_shows_stacks_and_ends_even_if_its_teardown_hangs(
    toy: Callable[..., Path],
) -> None:
    hooks = """
from tests.gate import plugin
from tests.gate.plugin import pytest_runtest_protocol, pytest_runtest_teardown, pytest_timeout_set_timer
plugin.TEARDOWN_S = 3
"""
    hangs = f"""{STARTS}
import pytest
@pytest.fixture
def stubborn():
    yield
    teardown_that_hangs()
def teardown_that_hangs():
    time.sleep(300)
def test_it(stubborn):
    subprocess.Popen(SLEEPER)
    time.sleep(300)
"""
    folder = toy(conftest=hooks, test_hang=hangs)
    arguments = ["-n", "1", "-o", "timeout=3", "--max-worker-restart=0", "test_hang.py"]
    status, output, kept = gate(folder, {"name": "a", "arguments": arguments, "wall_limit_s": 240})
    assert status == 1, output
    limit, _, teardown = output.partition("test_hang.py::test_it does not end after its failure")
    assert "test_hang.py::test_it passed its limit" in limit and "asleep (<string>" in limit, output
    assert "teardown_that_hangs" in teardown
    assert "it hung" not in str(kept), "the test ended by its own limit"


def test_marks_and_bounds_of_the_steps() -> None:
    assert [step.name for step in (*GATE, *ALL)] == ["units", "promise", "together", "alone"]
    assert all(f"not {marker}" in UNITS.arguments[UNITS.arguments.index("-m") + 1] for marker in FOREIGN)
    registered = (ROOT / "pyproject.toml").read_text()
    assert [marker for marker in FOREIGN if f'\n  "{marker}: ' not in registered] == []
    assert all(step.cpu_limit_s for step in GATE)
    assert sum(step.wall_limit_s for step in GATE) < 4000, "with set-up and checks less than .ci/run's own limit"


def test_mounts_and_lines_of_hosts_that_were_left_are_named() -> None:
    before = leftovers.Machine(frozenset(), frozenset({"/"}), ("127.0.0.1 localhost", "10.0.0.1 rm"))
    mounts = frozenset({"/", "/mnt/x", "/tmp/of this test/x", "/tmp/of this test"})
    now = leftovers.Machine(frozenset(), mounts, ("127.0.0.1 localhost", "127.0.0.2 kdc"))
    assert leftovers.changes(before, now, Path("/tmp")) == [
        "mount /mnt/x",
        "/etc/hosts: '127.0.0.2 kdc' is new",
        "/etc/hosts: '10.0.0.1 rm' is gone",
    ]
    assert leftovers.changes(before, before, Path("/tmp")) == []
    lines = leftovers.unmount(before, now, Path("/tmp"))
    assert [line.partition(",")[0] for line in lines] == ["mount /tmp/of this test/x", "mount /tmp/of this test"]
    assert all("cannot be unmounted" in line for line in lines), "there is none"
    assert "/proc" in leftovers.Machine.now().mounts, "the root of a chroot may be none"


@pytest.mark.root
def test_a_mount_is_unmounted_unless_a_process_names_its_folder(tmp_path: Path) -> None:
    own, another = tmp_path / "own" / "netns", tmp_path / "another" / "netns"
    before = leftovers.Machine.now()
    with ExitStack() as mounts:
        for folder in (own, another):
            folder.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
            mounts.callback(subprocess.run, ["umount", "-q", folder], check=False)
        sleeper = mounts.enter_context(
            subprocess.Popen([sys.executable, "-c", "input()", another], stdin=subprocess.PIPE)
        )
        mounts.callback(sleeper.kill)
        assert leftovers.unmount(before, leftovers.Machine.now(), tmp_path) == [f"mount {own}"]
        assert not own.is_mount() and another.is_mount()


def test_a_control_group_with_processes_is_left_to_its_owner(tmp_path: Path) -> None:
    before = leftovers.Machine.now(tmp_path)
    used, idle, other = (tmp_path / name for name in ("quicksilver-used", f"quicksilver-x-{os.getpid()}", "other"))
    for group in (used, idle, other):
        group.mkdir()
    (used / "cgroup.procs").write_text("17\n")
    assert leftovers.remove_groups(before, leftovers.Machine.now(tmp_path)) == []
    assert used.is_dir() and idle.is_dir() and other.is_dir()


def test_a_test_that_no_step_would_find_is_refused(toy: Callable[..., Path]) -> None:
    marks = "import pytest\n\nMARKS = [pytest.mark.alone]\n"
    folder = toy(marks=marks, test_hidden="from marks import MARKS\n\npytestmark = MARKS\n\n\n" + PASSES)
    command = [sys.executable, "-m", "pytest", *PLUGINS, "-p", "tests.gate.plugin", "test_hidden.py"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{folder}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "test_hidden.py::test_it runs alone, and is not found" in ended.stdout + ended.stderr
