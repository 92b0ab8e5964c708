"""An unmodified PySpark job on the local cluster, its executors as queueable containers.

`python -m quicksilver_lab.workloads.spark` does it through proxy and sidecars, with `--plain` on plain YARN. Spark
itself is PyPI's `pyspark`, in an environment of its own (.venv-spark); nothing of it is uploaded: all nodes are on this
machine.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.baseconf import jvm_options
from quicksilver_lab.workloads import clients, mapreduce
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.environment import Environment, Where, finish, one_line_errors, running, where_options
from quicksilver_lab.workloads.errors import WorkloadError
from quicksilver_lab.workloads.records import RecordsWatch, RecordTally

DEPLOY_MODES: Final = ("client", "cluster")
OLDEST_JAVA: Final = 17
DEFAULT_PYTHON: Final = Path(".venv-spark/bin/python")
PROGRAM: Final = Path(__file__).with_name("programs") / "word_totals.py"
_SOURCE: Final = "/spark-source/text"
_LINES: Final = 20_000
_PARTITIONS: Final = 12
_LOCALHOST: Final = "127.0.0.1"
_REMEDY: Final = "run `make spark`, which installs it, or name the right one with --python"


@dataclass(frozen=True, slots=True)
class Installation:
    """A Spark as PyPI's package brings it."""

    python: Path
    home: Path
    version: str


@dataclass(frozen=True, slots=True)
class SparkOutcome:
    """A Spark job that ended well."""

    application: str
    job_s: float
    """From the start of spark-submit to its end."""
    wrong_words: int
    """Words whose count differs from the true one."""
    tally: RecordTally


def find_spark(python: Path) -> Installation:
    """Return the Spark that `python` imports. Raises WorkloadError when there is none."""
    program = "import os, pyspark; print(os.path.dirname(pyspark.__file__)); print(pyspark.__version__)"
    if not python.is_file():
        raise WorkloadError("there is no such Python", place=str(python), remedy=_REMEDY)
    result = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    if result.returncode != 0:
        raise WorkloadError("pyspark cannot be imported there", place=str(python), remedy=_REMEDY)
    home, version = result.stdout.split("\n")[:2]
    return Installation(python.absolute(), Path(home), version)


def settings(cluster: Cluster, spark: Installation, executors: int) -> dict[str, str]:
    """Return Spark's configuration for a small job on this cluster: containers of 1 GB, one core each."""
    java = " ".join(option for option in jvm_options(cluster.conf.hosts_file, heap_mb=1) if "-Xmx" not in option)
    return {
        "spark.yarn.jars": f"local:{spark.home}/jars/*",
        "spark.yarn.maxAppAttempts": "1",
        "spark.yarn.am.memory": "512m",
        "spark.yarn.am.extraJavaOptions": java,
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": _LOCALHOST,
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": str(spark.python),
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java,
        "spark.driver.bindAddress": _LOCALHOST,
        "spark.driver.host": _LOCALHOST,
        "spark.executor.instances": str(executors),
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": java,
        "spark.executorEnv.SPARK_LOCAL_IP": _LOCALHOST,
        "spark.pyspark.python": str(spark.python),
        "spark.dynamicAllocation.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.ui.enabled": "false",
    }


def submit(
    cluster: Cluster,
    spark: Installation,
    name: str,
    arguments: list[str],
    conf: Mapping[str, str],
    mode: str,
    program: Path = PROGRAM,
) -> Client:
    """Start spark-submit with a program; its output goes to logs/clients. Raises WorkloadError for a Java too old."""
    java = cluster.launcher.java
    if java.version < OLDEST_JAVA:
        raise WorkloadError(
            f"Spark {spark.version} needs Java {OLDEST_JAVA} or newer, this is {java.version}",
            place=str(java.home),
            remedy="set JAVA_HOME",
        )
    scratch = cluster.spec.workdir / "tmp"
    scratch.mkdir(exist_ok=True)
    own = {"SPARK_HOME": str(spark.home), "SPARK_LOCAL_IP": _LOCALHOST, "SPARK_LOCAL_DIRS": str(scratch)}
    own |= {"PYSPARK_PYTHON": str(spark.python), "PYSPARK_DRIVER_PYTHON": str(spark.python)}
    inherited = cluster.launcher.client_env(cluster.conf_dir, None)
    env = {k: v for k, v in inherited.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))} | own
    command = [str(spark.home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode, "--name", name]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    log = clients.log_file(cluster.spec.workdir, name)
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, str(program), *arguments],
            env=env,
            cwd=scratch,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Client(name, process, log)


def run(
    env: Environment, spark: Installation, executors: int = 3, mode: str = "client", lines: int = _LINES
) -> SparkOutcome:
    """Run the word count with Spark and check its result. Raises JobFailedError, OutputError, WorkloadError."""
    text = mapreduce.make_text(lines)
    mapreduce.put_text(env.cluster, _SOURCE, text)
    target = f"/spark-{mode}-{time.strftime('%H%M%S')}"
    hdfs = f"hdfs://{env.cluster.spec.namenode}"
    arguments = [f"{hdfs}{_SOURCE}", f"{hdfs}{target}", str(_PARTITIONS)]
    with RecordsWatch(env.cluster) as watch:
        client = submit(env.cluster, spark, f"spark-{mode}", arguments, settings(env.cluster, spark, executors), mode)
        env.progress(f"Spark {spark.version} runs in {mode} mode; its output: {client.log}")
        application = clients.application_id(client.wait())
    counted = mapreduce.read_counts(env.cluster, target)
    wrong = len(mapreduce.differences(counted, mapreduce.count_words(text)))
    env.progress(f"Spark: {application} ended after {client.wall_s:.0f} s, {len(counted)} words counted, {wrong} wrong")
    return SparkOutcome(application, client.wall_s, wrong, watch.tally(application))


def as_result(env: Environment, where: Where, mode: str, outcome: SparkOutcome) -> dict[str, object]:
    """Return the outcome as JSON knows it; `opportunistic_executors` are those that RM and NMs both call so."""
    tally = outcome.tally
    return {
        "workload": "spark",
        "yarn": env.how,
        "route": None if env.stack is None else where.route,
        "deploy_mode": mode,
        "application": outcome.application,
        "succeeded": outcome.wrong_words == 0,
        "executors": tally.ran,
        "opportunistic_executors": min(tally.rm_opportunistic, tally.nm_opportunistic),
        "records": tally.as_dict(),
        "proxy": env.summary(),
        "job_s": round(outcome.job_s, 1),
    }


def is_right(env: Environment, where: Where, outcome: SparkOutcome, executors: int) -> bool:
    """Return whether the result is true and the executors were of the type that the route asks for."""
    tally = outcome.tally
    expected = {"only_q": tally.ran, "only_g": 0}.get("only_g" if env.stack is None else where.route)
    types_right = expected is None or tally.nm_opportunistic == tally.rm_opportunistic == expected
    return outcome.wrong_words == 0 and tally.ran >= executors and types_right and not tally.disagreeing


@click.command()
@where_options("spark")
@click.option(
    "--python", type=click.Path(path_type=Path), default=DEFAULT_PYTHON, show_default=True, help="With pyspark."
)
@click.option("--executors", type=click.IntRange(1, 8), default=3, show_default=True)
@click.option("--deploy-mode", "mode", type=click.Choice(DEPLOY_MODES), default="client", show_default=True)
@one_line_errors
def main(where: Where, python: Path, executors: int, mode: str) -> None:
    """Run a PySpark word count; exit code 1 unless it is right and its executors are of the expected type."""
    started_s = time.monotonic()
    spark = find_spark(python)
    with running(where) as env:
        outcome = run(env, spark, executors, mode)
        result = as_result(env, where, mode, outcome)
        ok = is_right(env, where, outcome, executors)
    result["wall_s"] = round(time.monotonic() - started_s, 1)
    finish(result, ok)


if __name__ == "__main__":
    main()
