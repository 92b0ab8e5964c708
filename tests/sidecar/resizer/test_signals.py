"""Pausing by signals, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from sidecar.resizer.base import ContainerUsage, Leader, ResizeRefusedError
from sidecar.resizer.processes import leader_of, look, scan
from sidecar.resizer.signals import Signals, undo_signals
from tests.sidecar.resizer.containers import BURNER, NAME, THREE, container, end_session, session, wait_until

STORM = "storm() { (sleep 0.02; sleep 0.05 & sleep 0.05 & wait) & wait; }; while :; do storm; done"


@pytest.fixture
def resizer() -> Iterator[Signals]:
    resizer = Signals()
    yield resizer
    resizer.close()


def states(leader: Leader) -> set[str]:
    return {p.state for p in scan().values() if p.session == leader.pid and not p.over}


def used_s(resizer: Signals) -> float:
    used = resizer.usage(NAME).cpu_s
    assert used is not None
    return used


def test_a_shrunk_container_stands_still_and_a_restored_one_goes_on(resizer: Signals) -> None:
    with container(BURNER) as leader:
        resizer.attach(NAME, leader)
        resizer.shrink(NAME, 0.05)
        assert states(leader) == {"T"}
        assert resizer.holds(NAME)
        time.sleep(0.1)  # what it ran last is counted
        before = used_s(resizer)
        time.sleep(0.3)
        assert used_s(resizer) == before
        resizer.restore(NAME)
        assert states(leader).isdisjoint("T")
        wait_until(lambda: used_s(resizer) > before, "CPU")


def test_a_fork_storm_is_stopped_fully(resizer: Signals) -> None:
    with container(STORM) as leader:
        wait_until(lambda: len(session(leader.pid)) >= 3, "a storm")
        resizer.attach(NAME, leader)
        for _ in range(5):
            resizer.freeze(NAME)
            members = session(leader.pid)
            assert states(leader) == {"T"}
            time.sleep(0.1)
            assert session(leader.pid) == members
            resizer.restore(NAME)
            assert resizer.holds(NAME)


def test_what_goes_on_by_itself_is_stopped_again(resizer: Signals) -> None:
    with container(THREE) as leader:
        wait_until(lambda: len(session(leader.pid)) == 3, "three processes")
        resizer.attach(NAME, leader)
        resizer.freeze(NAME)
        os.kill(leader.pid, signal.SIGCONT)
        wait_until(lambda: states(leader) != {"T"}, "it goes on")
        assert not resizer.holds(NAME)
        resizer.reassert(NAME)
        assert states(leader) == {"T"}


def test_what_others_stopped_stays_stopped(resizer: Signals) -> None:
    with container(THREE) as leader:
        wait_until(lambda: len(session(leader.pid)) == 3, "three processes")
        other = max(session(leader.pid))
        os.kill(other, signal.SIGSTOP)
        wait_until(lambda: "T" in states(leader), "a stopped one")
        resizer.attach(NAME, leader)
        resizer.freeze(NAME)
        undo_signals(resizer.undo(NAME))
        process = look(other)
        assert process is not None
        assert process.stopped
        assert len(states(leader)) > 1


def test_children_that_were_waited_for_count(resizer: Signals) -> None:
    with container("timeout 0.5 bash -c 'while :; do :; done'; sleep 1000") as leader:
        resizer.attach(NAME, leader)
        wait_until(lambda: any(p.session == leader.pid and p.ticks == 0 for p in scan().values()), "the sleep")
        wait_until(lambda: used_s(resizer) >= 0.05, "CPU of the child that has ended")
        assert resizer.usage(NAME).memory_mb is not None


def test_a_stopped_container_can_be_killed(resizer: Signals) -> None:
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        leader = leader_of(process.pid)
        assert leader is not None
        resizer.attach(NAME, leader)
        resizer.freeze(NAME)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        assert resizer.usage(NAME) == ContainerUsage(None, None)
        resizer.detach(NAME)
        resizer.detach(NAME)
    finally:
        end_session(process.pid)
        process.wait(60)


def test_another_process_with_a_recycled_number_is_not_touched(resizer: Signals) -> None:
    with container() as leader:
        with pytest.raises(ResizeRefusedError) as caught:
            resizer.attach(NAME, Leader(leader.pid, leader.began_s - 1000))
        assert caught.value.gone
        undo_signals({"container": NAME, "pid": leader.pid, "began_s": leader.began_s - 1000, "stopped": []})


def test_the_sidecar_does_not_stop_itself(resizer: Signals) -> None:
    leader = leader_of(os.getppid())
    assert leader is not None
    with pytest.raises(ResizeRefusedError, match="the sidecar itself"):
        resizer.attach(NAME, leader)


def test_what_is_not_attached_is_refused(resizer: Signals) -> None:
    with pytest.raises(ResizeRefusedError) as caught:
        resizer.freeze(NAME)
    assert caught.value.gone
    assert not resizer.holds(NAME)


def test_without_rights_attaching_is_refused_with_a_remedy() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become nobody")
    script = (
        "import os, sys; from sidecar.resizer.signals import Signals; from sidecar.resizer.base import *\n"
        "from sidecar.resizer.processes import leader_of\n"
        "leader = leader_of(int(sys.argv[1])); os.setgroups([]); os.setuid(65534)\n"
        "try: Signals().attach('c', leader)\n"
        "except ResizeRefusedError as error: print(error)"
    )
    with container() as leader:
        outcome = subprocess.run(
            [sys.executable, "-c", script, str(leader.pid)], capture_output=True, text=True, timeout=30, check=True
        )
    assert "Operation not permitted" in outcome.stdout
    assert "run the sidecar as root" in outcome.stdout
