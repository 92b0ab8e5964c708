"""A Flink job on YARN, in application mode or in a session, and what it wrote."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.baseconf import jvm_options
from quicksilver_lab.frameworks.flink.jars import JOB, Flink
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.rest import eventually, get_json

KEYS: Final = 16
"""As CountedNumbers has it."""
MASTER_MB, WORKER_MB = 768, 768
_CLIENT: Final = "org.apache.flink.client.cli.CliFrontend"
_SESSION: Final = "org.apache.flink.yarn.cli.FlinkYarnSessionCli"
_APPLICATION: Final = re.compile(r"(application_\d+_\d+)")
_EXPORTED: Final = (
    "java.base/sun.net.util",
    "java.rmi/sun.rmi.registry",
    "java.security.jgss/sun.security.krb5",
)
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.net",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
    "java.base/java.lang.reflect",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
)
"""As Flink's own config.yaml has them."""
_SUBMIT_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Written:
    """What a job wrote, over all its attempts."""

    records: int
    """Different numbers."""
    repeated: int
    """Lines beyond the first of each number: records that were processed again after a restart."""
    wrong: int
    """Numbers whose count is not the one that counting each record once gives."""
    first_s: float
    last_s: float
    """Unix seconds of the first and the last line."""
    longest_gap_s: float
    """The longest time without a new line."""
    gap_began_s: float


@dataclass(frozen=True, slots=True)
class Stream:
    """A job that was submitted."""

    cluster: Cluster
    name: str
    application: str
    folder: Path
    records: int

    def lines(self) -> list[tuple[int, int, int]]:
        """Return what is written so far: milliseconds, number, count."""
        lines = []
        for file in self.folder.glob("*.txt"):
            for line in file.read_text().splitlines(keepends=True):
                fields = line.split()
                if line.endswith("\n") and len(fields) == 3:
                    lines.append((int(fields[0]), int(fields[1]), int(fields[2])))
        return sorted(lines)

    def until_written(self, lines: int, within_s: float = 240.0) -> None:
        """Wait until there are so many lines. Raises OutputError."""
        eventually(f"{lines} lines of {self.name}", lambda: len(self.lines()) >= lines or None, within_s)

    def until_over(self, within_s: float = 300.0) -> str:
        """Wait until the application is over; return its final status. Raises OutputError."""

        def status() -> str | None:
            app = self.app()
            return str(app["finalStatus"]) if app["state"] in ("FINISHED", "FAILED", "KILLED") else None

        return eventually(f"the end of {self.name}", status, within_s)

    def app(self) -> dict[str, Any]:
        """Return what the ResourceManager says of the application. Raises requests.RequestException."""
        url = f"{self.cluster.rm_rest}/ws/v1/cluster/apps/{self.application}"
        app: dict[str, Any] = get_json(url, self.cluster.web_auth)["app"]
        return app

    def written(self) -> Written:
        """Return what is written so far. Raises OutputError when that is nothing."""
        return summary(self.lines(), self.name)


def summary(lines: Sequence[tuple[int, int, int]], name: str = "the job") -> Written:
    """Return the summary of lines of milliseconds, number and count, in order. Raises OutputError for no lines."""
    if not lines:
        raise OutputError("nothing is written", place=name, remedy="read the logs of its containers")
    times_ms = [at_ms for at_ms, _, _ in lines]
    gap_ms, began_ms = max(((after - at, at) for at, after in pairwise(times_ms)), default=(0, times_ms[0]))
    by_number = Counter(number for _, number, _ in lines)
    wrong = {number for _, number, count in lines if count != number // KEYS + 1}
    return Written(
        records=len(by_number),
        repeated=len(lines) - len(by_number),
        wrong=len(wrong),
        first_s=times_ms[0] / 1000,
        last_s=times_ms[-1] / 1000,
        longest_gap_s=gap_ms / 1000,
        gap_began_s=began_ms / 1000,
    )


def configuration(cluster: Cluster, name: str, parallelism: int, more: Mapping[str, str]) -> dict[str, str]:
    """Return Flink's settings for small containers of one slot each, with a checkpoint every second.

    With a ZooKeeper in the cluster, a JobManager that died has a second attempt, which goes on from a checkpoint.
    """
    files = cluster.spec.workdir / "flink"
    java = [option for option in jvm_options(cluster.conf.hosts_file, heap_mb=1) if "-Xmx" not in option]
    java += [f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED]
    java += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
    values = {
        "env.java.opts.all": " ".join((*dict.fromkeys(java), f"-Djava.io.tmpdir={cluster.spec.workdir / 'tmp'}")),
        "jobmanager.memory.process.size": f"{MASTER_MB}m",
        "jobmanager.memory.jvm-metaspace.size": "128m",
        "jobmanager.memory.jvm-overhead.min": "64m",
        "jobmanager.memory.jvm-overhead.max": "64m",
        "jobmanager.memory.off-heap.size": "64m",
        "taskmanager.memory.process.size": f"{WORKER_MB}m",
        "taskmanager.memory.jvm-metaspace.size": "128m",
        "taskmanager.memory.jvm-overhead.min": "64m",
        "taskmanager.memory.jvm-overhead.max": "64m",
        "taskmanager.memory.framework.off-heap.size": "64m",
        "taskmanager.memory.network.min": "32m",
        "taskmanager.memory.network.max": "32m",
        "taskmanager.memory.managed.size": "16m",
        "taskmanager.numberOfTaskSlots": "1",
        "parallelism.default": str(parallelism),
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": f"file://{files / name / 'checkpoints'}",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "1s",
        "yarn.staging-directory": f"file://{files / 'staging'}",
        "yarn.application.name": name,
        "classloader.resolve-order": "parent-first",
    }
    if cluster.spec.has_zookeeper:
        values |= {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": str(cluster.spec.zookeeper),
            "high-availability.storageDir": f"file://{files / name / 'ha'}",
            "yarn.application-attempts": "2",
        }
    return values | dict(more)


def _client(cluster: Cluster, flink: Flink, name: str, main: str, arguments: Sequence[str]) -> Client:
    """Start one of Flink's client programs; its output goes to logs/clients."""
    conf = cluster.spec.workdir / "flink" / name / "conf"
    launcher = cluster.launcher
    classpath = f"{flink.lib}/*:{launcher.jars.classpath}:{cluster.conf_dir}"
    options = [*jvm_options(launcher.hosts_file, heap_mb=512), f"-Dlog4j.configurationFile={conf}/log4j-cli.properties"]
    argv = [str(launcher.java.executable), *options, "-cp", classpath, main, *arguments]
    env = launcher.client_env(cluster.conf_dir, None) | {
        "FLINK_CONF_DIR": str(conf),
        "FLINK_LIB_DIR": str(flink.lib),
        "FLINK_PLUGINS_DIR": str(conf),
    }
    log = clients.log_file(cluster.spec.workdir, f"{name}-{main.rsplit('.', 1)[-1]}-{time.time_ns()}")
    with log.open("w") as output:
        process = subprocess.Popen(
            argv, env=env, cwd=conf, text=True, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    return Client(name, process, log)


def _prepare(cluster: Cluster, name: str, values: Mapping[str, str]) -> None:
    conf = cluster.spec.workdir / "flink" / name / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "config.yaml").write_text("".join(f'{key}: "{value}"\n' for key, value in values.items()))
    (conf / "log4j.properties").write_text(_LOGGING)
    (conf / "log4j-cli.properties").write_text(_CLIENTS_LOGGING)


_LOGGING: Final = """rootLogger.level = INFO
rootLogger.appenderRef.file.ref = MainAppender
appender.main.name = MainAppender
appender.main.type = File
appender.main.fileName = ${sys:log.file}
appender.main.layout.type = PatternLayout
appender.main.layout.pattern = %d %-5p %c{1} - %m%n
"""
_CLIENTS_LOGGING: Final = """rootLogger.level = INFO
rootLogger.appenderRef.console.ref = Console
appender.console.name = Console
appender.console.type = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5p %c{1} - %m%n
"""


def submit(
    cluster: Cluster,
    flink: Flink,
    name: str,
    *,
    records: int,
    per_second: float,
    parallelism: int = 2,
    more: Mapping[str, str] | None = None,
) -> Stream:
    """Submit a job in application mode; `name` is new to this cluster. Raises JobFailedError, OutputError."""
    values = configuration(cluster, name, parallelism, more or {})
    values["yarn.flink-dist-jar"] = str(_dist(flink))
    _prepare(cluster, name, values)
    folder = cluster.spec.workdir / "flink" / name / "lines"
    arguments = ["run-application", "-t", "yarn-application", "-Dexecution.attached=false", "-c", JOB.stem]
    arguments += [str(flink.job), str(folder), str(records), str(per_second)]
    text = _client(cluster, flink, name, _CLIENT, arguments).wait(_SUBMIT_S)
    return Stream(cluster, name, application_of(text, name), folder, records)


def application_of(text: str, name: str) -> str:
    """Return the first application that a client's output names. Raises OutputError."""
    match = _APPLICATION.search(text)
    if match is None:
        raise OutputError("no application in it", place=name, remedy="read the logs in logs/clients")
    return match[1]


@dataclass(frozen=True, slots=True)
class FlinkSession:
    """A session on YARN that takes jobs."""

    cluster: Cluster
    flink: Flink
    name: str
    application: str

    def submit(self, name: str, *, records: int, per_second: float, parallelism: int = 2) -> Stream:
        """Submit a job to the session. Raises JobFailedError."""
        folder = self.cluster.spec.workdir / "flink" / self.name / f"lines-{name}"
        arguments = ["run", "-d", "-t", "yarn-session", f"-Dyarn.application.id={self.application}"]
        arguments += ["-p", str(parallelism), "-c", JOB.stem]
        arguments += [str(self.flink.job), str(folder), str(records), str(per_second)]
        _client(self.cluster, self.flink, self.name, _CLIENT, arguments).wait(_SUBMIT_S)
        return Stream(self.cluster, name, self.application, folder, records)


def session(cluster: Cluster, flink: Flink, name: str, more: Mapping[str, str] | None = None) -> FlinkSession:
    """Start a session; `name` is new to this cluster. It ends with the cluster. Raises JobFailedError, OutputError."""
    values = configuration(cluster, name, 2, more or {})
    values["yarn.flink-dist-jar"] = str(_dist(flink))
    _prepare(cluster, name, values)
    text = _client(cluster, flink, name, _SESSION, ["-d"]).wait(_SUBMIT_S)
    return FlinkSession(cluster, flink, name, application_of(text, name))


def _dist(flink: Flink) -> Path:
    """Return the jar that stands for flink-dist: its classes are those of the jars in `lib`."""
    return next(flink.lib.glob("flink-yarn-*.jar"))
