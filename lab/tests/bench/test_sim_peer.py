"""The comparison with Eagle's public simulator: what it reads, and how the program is made to run."""

from pathlib import Path

import pytest

from quicksilver.report.stats import nearest_rank
from quicksilver.simulator.systems import load
from quicksilver_lab.bench.sim.peer import PEER, PeerRun, compared, finished, peer_arguments
from quicksilver_lab.bench.sim.translate import BITMAP, NoPeerError, python3, seeded

OLD = """import Queue
out = open('x', 'w')
random.seed(12)
class Event(object):
    pass

class JobArrival(Event, file):
\tdef run(self, roundnr):
\t    print >> out, "a", 1
\t    print 1, ": b", ;
\t    return roundnr/2

class TaskEndEvent():
    pass

self.worker_indices = range(TOTAL_WORKERS)
"""


def test_the_program_is_translated_and_seeded() -> None:
    new = python3(seeded(OLD, 7))
    assert "random.seed(7)" in new and "random.seed(12)" not in new
    assert 'print( "a", 1, file=out)' in new and "roundnr//2" in new and "list(range(TOTAL_WORKERS))" in new
    compile(new, "peer.py", "exec")
    space: dict[str, type] = {}
    exec(BITMAP, space)
    bits = space["BitMap"](3)
    bits.set(1)
    bits.flip(2)
    assert [bits.test(at) for at in range(3)] == [0, 1, 1]


def test_another_program_is_refused() -> None:
    with pytest.raises(NoPeerError, match="sets no seed"):
        seeded("import random\n", 1)
    with pytest.raises(NoPeerError, match=r"give eagle_simulation\.py"):
        python3("import random\n")


def test_what_the_peer_wrote_is_read() -> None:
    text = (
        "12.0  estimated_task_duration:  3  by_def:  0  total_job_running_time:  7.5\n"
        "99.0  estimated_task_duration:  300  by_def:  1  total_job_running_time:  80.25\n"
    )
    assert finished(text) == {"short": [7.5], "long": [80.25]}


def test_percentiles_and_ratios() -> None:
    values = [float(at) for at in range(1, 101)]
    assert [nearest_rank(values, q) for q in (50, 90, 99)] == [50.0, 90.0, 99.0]
    runs = [PeerRun(2.0, 30.0, {"short": values, "long": values})]
    fast = [PeerRun(0.5, 15.0, {"short": values, "long": values})]
    ratio = compared(100, runs, fast)["ratio"]
    assert (ratio["tasks_per_s"], ratio["rss_mb"], ratio["short_p99_s"]) == (4.0, 0.5, 1.0)


def test_what_is_not_within_its_bound_is_named_with_the_error_of_chance() -> None:
    def run(short_s: float, long_s: float) -> PeerRun:
        return PeerRun(1.0, 10.0, {"short": [short_s] * 100, "long": [long_s] * 100})

    found = compared(100, [run(99.0, 10.0), run(101.0, 10.0)], [run(107.0, 10.0), run(105.0, 10.0)])
    assert found["outside"] == ["short_p50_s", "short_p90_s"]  # 6 %; p99 may differ by 15 %
    assert found["error"]["long_p50_s"] == 0.0
    assert found["error"]["short_p50_s"] == pytest.approx(0.0137, abs=1e-4)  # sqrt(2 / 100**2 / 2 + 2 / 106**2 / 2)
    assert found["by_seed"]["ours"]["short_p99_s"] == [107.0, 105.0]


@pytest.mark.parametrize("system", PEER)
def test_each_system_of_the_peer_is_one_of_ours(system: str, tmp_path: Path) -> None:
    assert load(system).name == system
    assert len(peer_arguments(system, tmp_path, 10)) == 22
