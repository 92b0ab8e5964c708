"""GridMix without and with quicksilver: figures, goals, options that do not fit, and clusters that cannot be used."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.common.errors import QuicksilverError
from quicksilver.report.html import html
from quicksilver_lab.cluster.siteconf import write_site
from quicksilver_lab.workloads.errors import WorkloadError
from quicksilver_lab.workloads.gridmix import RESULT, main, read_before
from quicksilver_lab.workloads.gridmix_figures import GridmixRun, as_json, figures, goals, page, table
from quicksilver_lab.workloads.gridmix_run import GridmixOutcome
from quicksilver_lab.workloads.gridmix_site import RunningSite
from quicksilver_lab.workloads.gridmix_summary import parse_summary
from quicksilver_lab.workloads.history import FinishedJob
from quicksilver_lab.workloads.records import RecordTally
from tests.paths import DATA

SUMMARY = parse_summary((DATA / "workloads" / "gridmix.txt").read_text())
OUTCOME = GridmixOutcome(SUMMARY, {})


def job(number: int, submitted_s: float, finished_s: float, state: str = "SUCCEEDED", killed: int = 0) -> FinishedJob:
    times = (int(submitted_s * 1000), int(submitted_s * 1000) + 500, int(finished_s * 1000))
    return FinishedJob(f"job_1_000{number}", "GRIDMIX", "me", "default", state, 2, 1, *times, 0, killed)


def run(runtime_s: float, failed: int = 0) -> GridmixRun:
    return GridmixRun(runtime_s, 10.0, 20.0, 12.0, 6, failed, 4, 20, 0, 0, 51)


def test_figures_of_a_run() -> None:
    jobs = [job(at, at, at + 10) for at in range(5)] + [job(5, 5, 35, killed=2)]
    found = figures(OUTCOME, jobs, [RecordTally(4, 3, 4, 3, {}, ()), RecordTally(5, 5, 5, 5, {}, ())])
    assert (found.runtime_s, found.job_p50_s, found.job_mean_s) == (35, 10, pytest.approx(13.33))
    assert (found.guaranteed, found.queueable, found.killed_attempts) == (1, 8, 2)
    assert (found.jobs, found.failed_jobs) == (6, 0)


def test_a_job_that_fails_or_is_missing_counts_as_failed() -> None:
    jobs = [job(0, 0, 10), job(1, 0, 10, state="FAILED")]
    found = figures(OUTCOME, jobs, None)
    assert found.failed_jobs == 5
    assert (found.guaranteed, found.queueable) == (None, None)
    assert figures(OUTCOME, [], None).job_p50_s is None


def test_goals_need_both_ways() -> None:
    ways = {
        "plain": {"SLEEPJOB": run(50), "LOADJOB": run(60)},
        "quicksilver": {"SLEEPJOB": run(41), "LOADJOB": run(60, failed=1)},
    }
    assert goals(ways) == {
        "sleepjob_runtime_ratio": {"value": 0.82, "goal": 0.8, "met": False},
        "loadjob_runtime_ratio": {"value": 1.0, "goal": 1.0, "met": True},
        "failed_jobs": {"value": 1, "goal": 0, "met": False},
    }
    assert goals({"plain": {"SLEEPJOB": run(50)}}) == {"failed_jobs": {"value": 0, "goal": 0, "met": True}}


def test_table_and_page_show_what_was_run() -> None:
    ways = {"plain": {"SLEEPJOB": run(50)}, "quicksilver": {"SLEEPJOB": run(40)}}
    both = table(ways, "SLEEPJOB")
    assert both.columns == ["SLEEPJOB", "plain", "quicksilver", "ratio"]
    assert both.rows[0] == ["runtime, s", 50, 40, 0.8]
    assert table({"plain": ways["plain"]}, "SLEEPJOB").columns == ["SLEEPJOB", "plain"]
    text = html(page(ways, [("trace", "`t.json`")]))
    assert "sleepjob_runtime_ratio" in text and text.count('class="rows bars"') == 1


def test_an_earlier_result_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / RESULT
    runs = {"plain": {"SLEEPJOB": run(50)}}
    file.write_text(json.dumps({"ways": as_json(runs)}))
    assert read_before(file) == runs
    file.write_text("{}")
    with pytest.raises(WorkloadError, match="no result of GridMix on plain YARN"):
        read_before(file)


def error_of(*options: str) -> str:
    found = CliRunner().invoke(main, list(options))
    assert found.exit_code == 1
    assert "Traceback" not in found.output
    return found.output


def test_options_that_do_not_fit_are_one_error(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(b"\x1f\x8b\xff")
    assert "a running cluster needs a trace" in error_of("--conf-dir", str(tmp_path))
    assert "it is no text" in error_of("--trace", str(trace))
    trace.write_text("")
    assert "no job is in it" in error_of("--trace", str(trace))
    assert "only runs of one cluster compare" in error_of("--against", str(trace))
    both = error_of("--conf-dir", str(tmp_path), "--trace", str(trace), "--plain")
    assert "a running cluster is used as it is" in both


class Daemon(BaseHTTPRequestHandler):
    state = "ACTIVE"

    def do_GET(self) -> None:
        body = json.dumps({"clusterInfo": {"haState": self.state}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def daemon() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Daemon)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def conf_dir(folder: Path, daemon: str = "127.0.0.1:1", **changes: str) -> Path:
    core = {"fs.defaultFS": "hdfs://127.0.0.1:1"}
    yarn = {"yarn.resourcemanager.webapp.address": daemon}
    mapred = {"mapreduce.framework.name": "yarn", "mapreduce.jobhistory.webapp.address": daemon}
    for name, properties in (("core", core), ("yarn", yarn), ("mapred", mapred)):
        own = {key: value for key, value in changes.items() if key in properties or name == "core"}
        write_site(folder / f"{name}-site.xml", properties | own)
    return folder


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"hadoop.security.authentication": "kerberos"}, "a cluster with Kerberos is not supported"),
        ({"mapreduce.framework.name": "local"}, "MapReduce runs on 'local' here"),
        ({"fs.defaultFS": "file:///"}, "no file system that all nodes share"),
        ({}, "127.0.0.1:1/ws/v1/cluster/info does not answer"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_one_error(tmp_path: Path, changes: dict[str, str], why: str) -> None:
    with pytest.raises(WorkloadError, match=why) as caught:
        RunningSite(conf_dir(tmp_path, **changes), tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_folder_without_site_files_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(QuicksilverError, match=r"no core-site\.xml"):
        RunningSite(tmp_path, tmp_path)


@pytest.mark.hadoop  # its jars, which Maven fetches
def test_a_running_cluster_is_found_by_its_configuration(tmp_path: Path, daemon: str) -> None:
    site = RunningSite(conf_dir(tmp_path, daemon), tmp_path / "work")
    assert "ConsoleAppender" in (tmp_path / "work" / "log4j.properties").read_text()
    assert (site.rm_rest, site.history_rest) == (f"http://{daemon}", f"http://{daemon}")
    with pytest.raises(WorkloadError, match="GridMix has to write its input itself"):
        site.put_input("/folder")


def test_a_standby_alone_is_not_enough(tmp_path: Path, daemon: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Daemon, "state", "STANDBY")
    with pytest.raises(WorkloadError, match="no ResourceManager is active"):
        RunningSite(conf_dir(tmp_path, daemon), tmp_path)
