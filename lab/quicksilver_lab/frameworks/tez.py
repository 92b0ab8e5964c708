"""Tez' own examples on a local cluster: ordered word counts, alone or several in one session, and sleeping DAGs.

YARN localises the jars of Tez from an archive in HDFS, as Tez' installation page has it; Hadoop's are the node's.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.baseconf import jvm_options
from quicksilver_lab.cluster.siteconf import Properties, write_site
from quicksilver_lab.frameworks.jars import Framework, framework
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.hdfs import Hdfs

APPLICATION_TYPE: Final = "TEZ"
_ARCHIVE: Final = "/apps/tez/tez.tar"
_WORD_COUNT: Final = "org.apache.tez.mapreduce.examples.TestOrderedWordCount"
_SLEEP: Final = "org.apache.tez.mapreduce.examples.MRRSleepJob"
_CLIENT_HEAP_MB: Final = 384


class Tez:
    """Tez on one cluster: its jars in HDFS, its settings in a folder of clients."""

    def __init__(self, cluster: Cluster, extra: Mapping[str, str] | None = None) -> None:
        """Prepare; `extra` is laid over tez-site.xml. Raises DownloadError, MissingToolError."""
        self.cluster = cluster
        self.extra = dict(extra or {})
        self.jars: Framework = framework("tez", cluster.launcher.java, cluster.launcher.jars)
        self.conf_dir: Path = cluster.spec.workdir / "conf" / "tez"

    def install(self) -> None:
        """Write tez-site.xml, and the archive into HDFS. Raises requests.RequestException."""
        Hdfs(self.cluster).put(_ARCHIVE, self.jars.archive())
        write_site(self.conf_dir / "tez-site.xml", self.settings() | self.extra)

    def settings(self) -> Properties:
        """Return tez-site.xml: containers of 512 MB, the rest as Tez ships it."""
        options = " ".join(jvm_options(self.cluster.conf.hosts_file, heap_mb=300))
        return {
            "tez.lib.uris": f"hdfs://{self.cluster.spec.namenode}{_ARCHIVE}",
            "tez.use.cluster.hadoop-libs": "true",
            "tez.am.resource.memory.mb": "512",
            "tez.task.resource.memory.mb": "512",
            "tez.am.launch.cmd-opts": options,
            "tez.task.launch.cmd-opts": options,
            "tez.runtime.io.sort.mb": "50",
            "tez.runtime.unordered.output.buffer.size-mb": "20",
            "tez.am.max.app.attempts": "2",
            "tez.am.tez-ui.webservice.enable": "false",  # needs JAX-RS 1, and Hadoop 3.5 brings 2
            "tez.staging-dir": "/tmp/tez-staging",
        }

    def word_counts(
        self, name: str, pairs: Sequence[tuple[str, str]], maps: int = 4, own: Mapping[str, str] | None = None
    ) -> Client:
        """Start ordered word counts of (source, target) one after the other, several in one session.

        `maps`: tasks of the first vertex of each; a file too small for that many has fewer. `own`: settings (-D).
        """
        size = max(int(entry["length"]) for source, _ in pairs for entry in Hdfs(self.cluster).entries(source))
        split = str(max(1, math.ceil(size / maps)))
        properties = {
            "USE_TEZ_SESSION": "true" if len(pairs) > 1 else "false",
            "USE_MR_CONFIGS": "false",
            "tez.grouping.split-count": str(maps),
            "mapreduce.input.fileinputformat.split.maxsize": split,
        }
        paths = [path for pair in pairs for path in pair]
        return self.start(name, _WORD_COUNT, [*_defined(properties | dict(own or {})), *paths])

    def sleep(
        self,
        name: str,
        maps: int,
        map_s: float,
        reduces: int = 1,
        reduce_s: float = 1,
        own: Mapping[str, str] | None = None,
    ) -> Client:
        """Start a DAG of maps that sleep, one vertex of reduces between, and reduces that sleep."""
        sizes = [
            "-m",
            maps,
            "-r",
            reduces,
            "-ir",
            reduces,
            "-mt",
            _ms(map_s),
            "-rt",
            _ms(reduce_s),
            "-irt",
            _ms(reduce_s),
        ]
        return self.start(name, _SLEEP, [*_defined(own or {}), *map(str, sizes)])

    def start(self, name: str, main: str, arguments: Sequence[str]) -> Client:
        """Start a client program of Tez; its output goes to logs/clients."""
        launcher = self.cluster.launcher
        classpath = f"{self.jars.classpath(launcher.jars)}:{self.conf_dir}:{self.cluster.conf_dir}"
        tmp = self.cluster.spec.workdir / "tmp"
        options = [*jvm_options(launcher.hosts_file, _CLIENT_HEAP_MB), f"-Djava.io.tmpdir={tmp}", *launcher.java_opts]
        log = clients.log_file(self.cluster.spec.workdir, name)
        with log.open("w") as output:
            process = subprocess.Popen(
                [str(launcher.java.executable), *options, "-cp", classpath, main, *arguments],
                env=launcher.client_env(self.cluster.conf_dir, None),
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return Client(name, process, log)


def _defined(properties: Mapping[str, str]) -> list[str]:
    return [f"-D{name}={value}" for name, value in properties.items()]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
