"""Figures, options and stand-ins of bench-resize."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver_lab.bench.resize import calls, run, waking
from quicksilver_lab.bench.resize.burn import BYTES, GAPS
from quicksilver_lab.bench.resize.crowd import Crowd
from quicksilver_lab.bench.resize.stand_ins import StandInError, name, sleeping
from quicksilver_lab.workloads.servers import dockerd
from sidecar.resizer.processes import look


def test_figures_are_median_and_p99() -> None:
    assert calls.figure([1.0, 2.0, 3.0]) == {"median": 2.0, "p99": 3.0, "samples": 3}
    with pytest.raises(ValueError, match="no samples"):
        calls.figure([])


def test_the_headline_is_of_both_directions_and_beside_the_bare_write() -> None:
    samples = {
        "shrink_us": [30.0, 30.0],
        "restore_us": [50.0, 50.0],
        "write_shrink_us": [8.0],
        "write_restore_us": [12.0],
    }
    found = run.cgroup_keys(samples | {"attach_ms": [1.0]}, "2_emulated")
    assert (found["resize_us_cgroup2_emulated"], found["write_us_cgroup2_emulated"]) == (40, 10)
    assert found["resize_by_write_ratio_cgroup2_emulated"] == 4
    assert found["calls_cgroup2_emulated"]["shrink_us"]["median"] == 30


def test_a_crowds_cpu_is_a_part_of_one_core() -> None:
    memory = {"sidecar": {"rss": 70.0, "pss": 66.0}, "guardian": {"rss": 15.0, "pss": 9.0}}
    found = Crowd(200, 100, 2.5, 4.0, 3, {"sidecar": [0.02, 0.06], "guardian": [0.0, 0.0]}, memory).result()
    assert (found["sidecar_cpu_ratio"], found["guardian_cpu_ratio"]) == (0.02, 0)
    assert (found["sidecar_pss_mb"], found["guardian_rss_mb"], found["resizes_meanwhile"]) == (66, 15, 3)


def test_notes_tell_when_a_burner_went_on(tmp_path: Path) -> None:
    notes = waking.Notes(tmp_path / "notes")
    try:
        raw = memoryview(bytearray((tmp_path / "notes").read_bytes())).cast("q")
        raw[0], raw[1], raw[2], raw[3] = 100, 200, 300, 450
        raw[2 * GAPS], raw[2 * GAPS + 1] = 2, 500
        with (tmp_path / "notes").open("r+b") as file:
            file.write(raw.tobytes())
        assert len(raw.tobytes()) == BYTES and notes.ran_ns == 500
        assert [notes.went_on_ns(at) for at in (99, 100, 250, 449, 450)] == [None, 200, None, 450, None]
    finally:
        notes.close()


def test_stand_ins_lead_sessions_and_are_gone_afterwards(tmp_path: Path) -> None:
    with sleeping(2) as (one, other):
        process = look(one.leader.pid)
        assert process is not None and process.session == one.leader.pid and other.id == name(3)
        one.write_pid_file(tmp_path)
        [pid_file] = tmp_path.glob(f"nmPrivate/application_*_0001/{one.id}/{one.id}.pid")
        assert int(pid_file.read_text()) == one.leader.pid
    assert look(one.leader.pid) is None and look(other.leader.pid) is None


def test_stand_ins_end_with_who_started_them() -> None:
    script = "import os\nfrom quicksilver_lab.bench.resize.stand_ins import sleeping\n"
    script += "with sleeping(1) as (one,):\n    print(one.leader.pid, flush=True)\n    os._exit(0)"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=30)
    until_s = time.monotonic() + 10
    while (process := look(int(done.stdout))) is not None and not process.over:
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_wrong_parts_are_one_line() -> None:
    done = CliRunner().invoke(run.resize, ["--parts", "cgroup,dokcer"])
    assert done.exit_code == 2 and "dokcer: not one of cgroup" in done.output


def test_what_is_not_here_is_skipped_and_what_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: run.ResizePlan) -> run.Measured:
        raise StandInError("no room", place="cgroup")

    monkeypatch.setitem(run._MEASURES, "cgroup", broken)
    monkeypatch.setattr(dockerd, "missing", lambda: "runc not found")
    result, raw = run.measure(run.ResizePlan(("cgroup", "docker")), lambda text: None)
    assert result["broken"].keys() == {"cgroup"} and "no room" in result["broken"]["cgroup"]
    assert result["skipped"].keys() == {"docker"} and "runc not found" in result["skipped"]["docker"] and raw == {}
