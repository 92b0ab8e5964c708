"""What conftest.py hooks into pytest: order of tests, ends of shared clusters, stacks of what hangs, failures."""

from __future__ import annotations

import json
import os
import resource
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import psutil
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from tests.gate import lanes, stacks
from tests.gate.steps import ALONE_MARK

TEARDOWN_S: Final = 300
"""What a test that failed has for its end and its teardown, before its process ends."""
_FILE: Final = "units"
CPU_S: Final = "cpu_s"
"""The property of a test in the junit file: CPU seconds of its process and of the ended processes that it started."""
_TIMED: Final = pytest.StashKey[bool]()
_BEGAN_CPU_S: Final = pytest.StashKey[float]()
_PLACES: Final = pytest.StashKey[dict[str, lanes.Place]]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell each process where it writes the units of work, which this one deals."""
    if node.config.getvalue("dist") == "loadscope":
        node.workerinput[_FILE] = str(_units_file(node.config))


def _units_file(config: pytest.Config) -> Path:
    return Path(tempfile.gettempdir()) / f"quicksilver-units-{os.getpid()}-{id(config)}.json"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a test that no step of `make test-all` would run. Raises pytest.UsageError."""
    if item.get_closest_marker("alone") is not None and ALONE_MARK not in item.path.read_text():
        raise pytest.UsageError(f"{item.nodeid} runs alone, and is not found: name {ALONE_MARK} in its own module")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests of a process of pytest-xdist, and write which belongs to which unit of work."""
    workerinput: dict[str, Any] = getattr(config, "workerinput", {})
    if _FILE not in workerinput:
        return
    config.stash[_PLACES] = places = lanes.arrange(items)
    file = Path(workerinput[_FILE])
    written = file.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps({nodeid: place.unit for nodeid, place in places.items()}))
    written.replace(file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> lanes.Scheduler | None:
    """With `--dist loadscope`, deal the tests as lanes.py says."""
    if config.getvalue("dist") != "loadscope":
        return None
    scheduler = lanes.Scheduler(config, log)
    scheduler.file = _units_file(config)
    return scheduler


def pytest_configure(config: pytest.Config) -> None:
    """Where a run of several processes is directed: print each failure as it comes, not only after an hour."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config))


class _Failures:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = str(crash.message if crash else report.longrepr).strip().partition("\n")[0]
            terminal.ensure_newline()
            terminal.write_line(f"{report.nodeid} failed in its {report.when}: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    _units_file(config).unlink(missing_ok=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note when a test begins, by the clock of CPU time."""
    item.stash[_BEGAN_CPU_S] = _cpu_s()
    return (yield)


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """End the clusters of the session once the next test is of another group; note the CPU time of this one."""
    try:
        yield from _teardown(item, nextitem)
    finally:
        item.user_properties.append((CPU_S, round(_cpu_s() - item.stash[_BEGAN_CPU_S], 3)))


def _teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    if item.stash.get(_TIMED, False) and signal.getitimer(signal.ITIMER_REAL)[0] == 0:  # pytest-timeout: it failed
        _Alarm(item, None).set(TEARDOWN_S)
    yield
    places = item.config.stash.get(_PLACES, {})
    if nextitem is None or item.nodeid not in places:
        return
    here, there = places[item.nodeid], places[nextitem.nodeid]
    if here.unit.startswith("lane") and here.group != there.group:
        item.session._setupstate.teardown_exact(None)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    """When a test passes its limit, print the stacks of all that it started; its process ends if it still goes on."""
    answer = yield
    raises = signal.getsignal(signal.SIGALRM)
    if settings.method == "signal" and callable(raises):
        item.stash[_TIMED] = True
        signal.signal(signal.SIGALRM, _Alarm(item, raises))
    return answer


class _Alarm:
    """Once: print the stacks, then let pytest-timeout raise. In a teardown that hangs: print them, and exit."""

    def __init__(self, item: pytest.Item, raises: Any | None) -> None:
        self.item, self.raises = item, raises

    def set(self, limit_s: float) -> None:
        signal.signal(signal.SIGALRM, self)
        signal.setitimer(signal.ITIMER_REAL, limit_s)

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        stderr = self.item.config.stash.get(fault_handler_stderr_fd_key, 2)
        what = "passed its limit" if self.raises else "does not end after its failure"
        stacks.write(stderr, f"\n{self.item.nodeid} {what}; stacks of its process and of what it started:\n")
        stacks.write(stderr, stacks.own_stacks())
        for text in stacks.dump(psutil.Process().children(recursive=True), limit=stacks.OF_A_TEST):
            stacks.write(stderr, text)
        if self.raises is None:
            os._exit(70)
        raises, self.raises = self.raises, None
        self.set(TEARDOWN_S)
        raises(signum, frame)
