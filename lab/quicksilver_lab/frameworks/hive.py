"""Hive on Tez on a local cluster: its command line with a metastore in Derby, tables in HDFS, sessions of queries."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.baseconf import jvm_options
from quicksilver_lab.cluster.siteconf import Properties, write_site
from quicksilver_lab.frameworks import retail
from quicksilver_lab.frameworks.jars import Framework, framework
from quicksilver_lab.frameworks.tez import Tez
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.hdfs import Hdfs

_CLI: Final = "org.apache.hadoop.hive.cli.CliDriver"
_CLIENT_HEAP_MB: Final = 700
_TABLES: Final = "/retail"
_FACT_FILES: Final = 6
_TIME: Final = re.compile(r"^Time taken: ([\d.]+) seconds", re.MULTILINE)
_OPENED: Final = (
    "lang.invoke",
    "lang.reflect",
    "math",
    "text",
    "time",
    "util.concurrent",
    "util.concurrent.atomic",
    "util.regex",
)
"""Packages besides those of `jvm_options` that Hive's serializer of plans looks into; it was written for Java 8."""
_LOG4J: Final = """\
log4j.rootLogger=WARN,console
log4j.logger.org.apache.hadoop.yarn.client.api.impl=INFO
log4j.logger.org.apache.tez.client=INFO
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""
_MARK: Final = "query:"
_COLLECTIONS: Final = "commons-collections-3*.jar"
"""Hive's tasks need it, and Hadoop has brought it no more since 3.4.2."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """One query of a session: its rows, and the seconds that Hive says it took."""

    query: str
    rows: list[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class HiveSession:
    """A running command line of Hive; its rows go to a file of their own."""

    client: Client
    output: Path
    queries: tuple[str, ...]

    def times(self) -> list[float]:
        """Return the seconds that each statement took so far."""
        return [float(seconds) for seconds in _TIME.findall(self.client.text)]

    def wait(self, timeout_s: float = clients.TIMEOUT_S) -> list[QueryResult]:
        """Wait for the end; return the result of each statement. Raises JobFailedError, OutputError."""
        self.client.wait(timeout_s)
        times = self.times()
        parts = re.split(rf"^{_MARK}(\w+)$", self.output.read_text(), flags=re.MULTILINE)[1:]
        names, contents = parts[::2], parts[1::2]
        if len(times) != len(self.queries) or tuple(names) != self.queries:
            raise OutputError(
                f"{len(times)} times and {len(names)} results of {len(self.queries)} queries",
                place=str(self.client.log),
                remedy="read it and the file beside it",
            )
        results = zip(names, contents, times, strict=True)
        return [QueryResult(name, content.strip().splitlines(), seconds) for name, content, seconds in results]


def java_options(cluster: Cluster, heap_mb: int) -> list[str]:
    """Return the options of Hive's JVMs, those of its containers included."""
    opened = (f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED)
    return [*jvm_options(cluster.conf.hosts_file, heap_mb), *opened]


class Hive:
    """Hive on one cluster, which has Tez installed; one command line at a time has the metastore."""

    def __init__(self, tez: Tez, extra: Mapping[str, str] | None = None) -> None:
        """Prepare; `extra` is laid over hive-site.xml. Raises DownloadError, MissingToolError."""
        self.tez, self.cluster = tez, tez.cluster
        self.extra = dict(extra or {})
        launcher = self.cluster.launcher
        self.jars: Framework = framework("hive", launcher.java, launcher.jars)
        self.conf_dir: Path = self.cluster.spec.workdir / "conf" / "hive"

    def settings(self) -> Properties:
        """Return hive-site.xml: small containers, several tasks even for small tables, the rest as Hive ships it."""
        scratch = self.cluster.spec.workdir / "tmp" / "hive"
        options = " ".join(java_options(self.cluster, heap_mb=400))
        return {
            "hive.execution.engine": "tez",
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={scratch}/metastore;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": "/warehouse",
            "hive.metastore.warehouse.external.dir": _TABLES,
            "hive.exec.scratchdir": "/tmp/hive",
            "hive.exec.local.scratchdir": str(scratch / "local"),
            "hive.querylog.location": str(scratch / "log"),
            "hive.downloaded.resources.dir": str(scratch / "resources"),
            "hive.user.install.directory": "/user",
            "hive.aux.jars.path": f"file://{next(self.jars.lib.glob(_COLLECTIONS))}",
            "hive.tez.container.size": "512",
            "hive.tez.java.opts": options,
            "tez.am.launch.cmd-opts": options,
            "hive.exec.reducers.bytes.per.reducer": "1000000",
            "hive.exec.submit.local.task.via.child": "false",
            "hive.async.log.enabled": "false",
            "tez.grouping.min-size": "200000",
            "tez.grouping.max-size": "1000000",
        }

    def install(self, rows: Mapping[str, Sequence[retail.Row]]) -> None:
        """Write hive-site.xml, and the tables into HDFS and the metastore. Raises JobFailedError."""
        write_site(self.conf_dir / "hive-site.xml", self.settings() | self.extra)
        (self.conf_dir / "log4j.properties").write_text(_LOG4J)
        hdfs, statements = Hdfs(self.cluster), []
        for name, content in rows.items():
            files = _FACT_FILES if name == "store_sales" else 1
            for number in range(files):
                hdfs.put(f"{_TABLES}/{name}/{number}.csv", retail.as_text(list(content[number::files])).encode())
            place = f"row format delimited fields terminated by ',' location '{_TABLES}/{name}'"
            statements.append(f"create external table {name} ({retail.COLUMNS[name]}) {place}")
        self._start("hive-tables", statements).client.wait()

    def session(self, name: str, queries: Sequence[str] = tuple(retail.QUERIES), gate: str = "") -> HiveSession:
        """Start a session with queries by their names; before each, `gate` with the number of the query is run."""
        statements = []
        for number, query in enumerate(queries):
            statements += [f"{gate} {number}"] if gate else []
            statements += [f"!echo {_MARK}{query}", retail.QUERIES[query]]
        return self._start(name, statements, tuple(queries))

    def _start(self, name: str, statements: Sequence[str], queries: tuple[str, ...] = ()) -> HiveSession:
        launcher, folder = self.cluster.launcher, self.cluster.spec.workdir / "logs" / "clients"
        log = clients.log_file(self.cluster.spec.workdir, name)
        script, output = folder / f"{name}.sql", folder / f"{name}.out"
        script.write_text("".join(f"{statement.strip()};\n" for statement in statements))
        jars = f"{self.tez.jars.classpath(launcher.jars)}:{self.jars.lib}/*"
        folders = f"{self.conf_dir}:{self.tez.conf_dir}:{self.cluster.conf_dir}"
        tmp = self.cluster.spec.workdir / "tmp"  # its console leaves a library there when it is killed
        options = [*java_options(self.cluster, _CLIENT_HEAP_MB), f"-Djava.io.tmpdir={tmp}", *launcher.java_opts]
        with log.open("w") as errors, output.open("w") as lines:
            process = subprocess.Popen(
                [str(launcher.java.executable), *options, "-cp", f"{jars}:{folders}", _CLI, "-f", str(script)],
                env=launcher.client_env(self.cluster.conf_dir, None),
                cwd=tmp,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=errors,
            )
        return HiveSession(Client(name, process, log), output, queries)
