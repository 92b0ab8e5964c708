"""Each preset, and unmodified frameworks as queueable containers, on one secure cluster: Kerberos and SPNEGO.

With QUICKSILVER_COMPATIBILITY in the environment the outcomes become cells of the table in docs/compatibility.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from click.testing import CliRunner

from policies.config.presets import DEFAULT, NAMES
from quicksilver.cli import cli
from quicksilver_apps.client.records import HOME
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.compatibility import recorded
from quicksilver_lab.frameworks import retail, spark_jobs
from quicksilver_lab.frameworks.flink.jars import flink
from quicksilver_lab.frameworks.flink.job import submit
from quicksilver_lab.frameworks.hive import Hive
from quicksilver_lab.frameworks.spark_jobs import SparkRounds
from quicksilver_lab.frameworks.tez import Tez
from quicksilver_lab.frameworks.tools import Tools
from quicksilver_lab.workloads import spark
from quicksilver_lab.workloads.clients import application_id
from quicksilver_lab.workloads.distributed_shell import reported, start_shell
from quicksilver_lab.workloads.hdfs import Hdfs
from quicksilver_lab.workloads.mapreduce import count_words, make_text, pi_estimate, put_text, read_counts, start_pi
from quicksilver_lab.workloads.records import RecordsWatch
from quicksilver_lab.workloads.rest import get_json
from tests.paths import ROOT
from tests.promise.conftest import CORES, EXTRA, promise_spec, running_cluster
from tests.promise.helpers import options, running, until
from tests.promise.test_presets import KINDS, kinds
from tests.real.frameworks.test_tez import _APPLICATION as APPLICATION

pytestmark = [pytest.mark.hadoop, pytest.mark.kerberos, pytest.mark.long, pytest.mark.timeout(900)]
VERSION: Final = "3.4.2 with Kerberos"
ENDED_S: Final = 300.0
TEXT: Final = make_text(600)
SOURCE: Final = "/secure/input/text"
QUERY: Final = "categories_of_a_year"
SPARK: Final = ROOT / spark.DEFAULT_PYTHON
MODES: Final[dict[str, Literal["G", "LAS"]]] = {"stock": "G", "zoe": "G", "kairos": "LAS"}
"""Of MapReduce's containers under a preset; Q under all others."""
OF_MAPREDUCE: Final = {"zoe": {"G", "Q"}}
"""One map and one reduce are core, the others elastic."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes with HDFS, a JobHistoryServer and a ZooKeeper for YARN services; nobody comes without a login."""
    vcores = 2 * (CORES + EXTRA)
    folder = tmp_path_factory.mktemp("secure")
    spec = promise_spec(folder, nodes=2, vcores=vcores, kerberos=True, spnego=True, services=True)
    service = {"yarn.service.am-resource.memory": "384", "yarn.service.am.java.opts": "-Xmx256m"}
    with running_cluster(spec.model_copy(update={"extra_site": {**spec.extra_site, "yarn": service}})) as cluster:
        put_text(cluster, SOURCE, TEXT)
        yield cluster


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[LocalDaemons]:
    """Proxy and sidecars of the default preset, with all frameworks queueable; after the presets."""
    with running(cluster, {"preset": DEFAULT, "routes": [{"policy": "only_q"}]}, "secure", supervised=False) as stack:
        yield stack


@pytest.mark.parametrize("name", [name for name in NAMES if name != DEFAULT])
def test_each_preset(cluster: Cluster, name: str) -> None:
    with (
        running(cluster, {"preset": name}, f"secure-{name}", supervised=False) as stack,
        recorded(VERSION, f"MapReduce, preset {name}", MODES.get(name, "Q")),
        RecordsWatch(cluster) as watch,
    ):
        result = start_pi(cluster, f"pi-{name}", 4, 100, options()).wait(ENDED_S)
        assert math.isclose(pi_estimate(result.text), math.pi, abs_tol=0.2)
        assert result.failed_attempts == 0
        tally = watch.tally(result.application_id)
        print(f"{name}: {result.wall_s:.1f} s, {tally}")
        assert tally.disagreeing == ()
        assert kinds(watch.granted(), result.application_id) <= (KINDS | OF_MAPREDUCE).get(name, {"Q"}), tally
        assert stack.get("/v1/health")["problems"] == []


def all_queueable(watch: RecordsWatch, application: str) -> None:
    """Check that all containers of an application but its master's were queueable."""
    tally = watch.tally(application)
    print(application, tally)
    assert tally.granted == tally.rm_opportunistic > 0 and tally.ran == tally.nm_opportunistic > 0, tally
    assert tally.disagreeing == ()


def test_streaming_and_distcp(stack: LocalDaemons) -> None:
    tools, cluster = Tools(stack.cluster), stack.cluster
    with recorded(VERSION, "Hadoop streaming", "Q"), RecordsWatch(cluster) as watch:
        result = tools.streaming("streaming", SOURCE, "/secure/lines", "cat", own=options().properties).wait(ENDED_S)
        all_queueable(watch, result.application_id)
    with recorded(VERSION, "distcp", "Q"), RecordsWatch(cluster) as watch:
        result = tools.copy("distcp", "/secure/input", "/secure/copy", options().properties).wait(ENDED_S)
        all_queueable(watch, result.application_id)
        hdfs = Hdfs(cluster)
        assert [hdfs.read(path) for path in hdfs.files("/secure/copy")] == [TEXT.encode()]


def test_distributed_shell(stack: LocalDaemons) -> None:
    with recorded(VERSION, "distributed shell", "Q"), RecordsWatch(stack.cluster) as watch:
        application = application_id(start_shell(stack.cluster, "GUARANTEED", 3).wait(ENDED_S))
        all_queueable(watch, application)
        assert len(reported(stack.cluster, application, 3)) >= 3


def test_tez_and_hive(stack: LocalDaemons) -> None:
    tez = Tez(stack.cluster)
    tez.install()
    with recorded(VERSION, "Tez 0.10.4", "Q"), RecordsWatch(stack.cluster) as watch:
        text = tez.word_counts("tez", [(SOURCE, "/secure/tez")], maps=3).wait(ENDED_S)
        assert read_counts(stack.cluster, "/secure/tez") == count_words(TEXT)
        all_queueable(watch, application_of(text))
    rows = retail.tables(2000)
    hive = Hive(tez)
    hive.install(rows)
    with recorded(VERSION, "Hive 4.0.1 on Tez", "Q"), RecordsWatch(stack.cluster) as watch:
        session = hive.session("hive", (QUERY,))
        assert [result.rows for result in session.wait(ENDED_S)] == [retail.expected(rows)[QUERY]]
        all_queueable(watch, application_of(session.client.text))


def application_of(text: str) -> str:
    """Return the application that a client of Tez names."""
    match = APPLICATION.search(text)
    assert match, text[-2000:]
    return match[0]


def test_flink(stack: LocalDaemons) -> None:
    installation = flink(stack.cluster.launcher.java)
    with recorded(VERSION, "Flink 1.20.1", "Q"), RecordsWatch(stack.cluster) as watch:
        stream = submit(stack.cluster, installation, "flink", records=500, per_second=100.0)
        assert stream.until_over() == "SUCCEEDED"
        written = stream.written()
        assert (written.records, written.wrong) == (500, 0)
        all_queueable(watch, stream.application)


@pytest.mark.skipif(not SPARK.exists(), reason="`make spark` has not installed pyspark in .venv-spark")
def test_spark(stack: LocalDaemons) -> None:
    rounds = SparkRounds(tasks=6, task_s=1.0, rounds=1, pause_s=0.0, most_executors=2)
    with recorded(VERSION, "Spark 4", "Q"), RecordsWatch(stack.cluster) as watch:
        job = spark_jobs.submit(stack.cluster, spark.find_spark(SPARK), "spark", rounds)
        application, _ = job.wait(ENDED_S)
        all_queueable(watch, application)


def test_yarn_services(stack: LocalDaemons, tmp_path: Path) -> None:
    """A service without a keytab of its own: its master logs in with tokens alone."""
    component = {"number_of_containers": 2, "launch_command": "sleep 900", "resource": {"cpus": 1, "memory": "256"}}
    file = tmp_path / "service.json"
    file.write_text(json.dumps({"name": "web", "version": "1", "components": [{"name": "page", **component}]}))

    def app(*arguments: str) -> str:
        return stack.cluster.hadoop("application", "app", *arguments).stdout

    with recorded(VERSION, "YARN services", "Q"), RecordsWatch(stack.cluster) as watch:
        app("-launch", "web", str(file))
        url = f"{stack.cluster.rm_rest}/ws/v1/cluster/apps?applicationTypes=yarn-service"
        rows = (get_json(url, stack.cluster.web_auth)["apps"] or {}).get("app", [])
        (application,) = (row["id"] for row in rows)
        until("both of its containers", lambda: watch.tally(application).ran == 2)
        all_queueable(watch, application)
        app("-stop", "web")
        app("-destroy", "web")


def test_applications(stack: LocalDaemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application of quicksilver whose elastic containers are queueable, submitted with the tickets of kinit."""
    workers: dict[str, Any] = {"name": "worker", "core": 1, "elastic": 2, "command": "sleep 600"}
    main: dict[str, Any] = {"name": "main", "core": 1, "main": True, "command": "sleep 10"}
    services = [{**service, "resources": {"memory_mb": 256}} for service in (main, workers)]
    file = tmp_path / "app.yaml"
    file.write_text(json.dumps({"version": 1, "name": "secure", "services": services}))
    environment = stack.cluster.launcher.client_env(stack.cluster.conf_dir, None)
    for name in ("KRB5_CONFIG", "KRB5_KDC_PROFILE", "KRB5CCNAME", "HADOOP_CONF_DIR"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    with recorded(VERSION, "applications of quicksilver", "Q"), RecordsWatch(stack.cluster) as watch:
        result = CliRunner().invoke(cli, ["app", "run", str(file)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        application = application_of(result.output)
        tally = watch.tally(application)
        print(application, tally)
        assert tally.granted == tally.rm_opportunistic == 4 and tally.disagreeing == (), tally
        assert 3 <= tally.ran == tally.nm_opportunistic, tally  # of the four cores one is the master's
