"""Hadoop's classes parsed and checked once for all JVMs here (class data sharing): about half the time of a start.

Daemons, clients and MapReduce tasks map the archive when it is there and fits their Java and jars; else they ignore it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.errors import CommandFailedError
from quicksilver_lab.cluster.runtime.jars import Jars, archive_file, hadoop_jars, locked
from quicksilver_lab.cluster.runtime.java import Java, find_java
from quicksilver_lab.cluster.spec import ClusterSpec

_NUMBER: Final = re.compile(r" id: \d+$")
"""Of a class within its own list; Java 21 writes it."""
_DUMP_TIMEOUT_S: Final = 600.0
_JOB_TIMEOUT_S: Final = 240.0


def make_archive(base_port: int, progress: Callable[[str], None] = lambda _: None) -> Path | None:
    """Make the archive unless it is there; returns it, None when Java is too old.

    A plain cluster runs one small job at `base_port` meanwhile, to see which classes are loaded: about a minute on two
    cores. Raises as Cluster.start; CommandFailedError when the archive cannot be written.
    """
    java = find_java()
    jars = hadoop_jars(java, progress)
    archive = archive_file(jars.lib, java)
    if archive is None:
        return None
    with locked(archive.parent / ".classes.lock"):
        if not archive.is_file():
            progress("seeing which classes Hadoop loads")
            with tempfile.TemporaryDirectory(prefix="quicksilver-classes-") as folder:
                _write(archive, java, jars, _loaded(Path(folder), base_port))
    return archive


def _loaded(folder: Path, base_port: int) -> list[str]:
    """Return the class lists of all JVMs of a small cluster and a job, merged."""
    lists = folder / "lists"
    lists.mkdir()
    opts = (f"-XX:DumpLoadedClassList={lists}/%p.lst",)
    spec = ClusterSpec(workdir=folder / "cluster", base_port=base_port, nodes=1, overlay=False, jvm_opts=opts)
    cluster = Cluster(spec)
    cluster.start()
    try:
        cluster.hadoop("examples", "pi", "1", "10", timeout_s=_JOB_TIMEOUT_S)
    finally:
        cluster.stop()
    return merged(path.read_text() for path in sorted(lists.iterdir()))


def merged(lists: Iterable[str]) -> list[str]:
    """Return the lines of class lists (-XX:DumpLoadedClassList), each once, classes of their own loaders left out."""
    lines = (line for text in lists for line in text.splitlines())
    classes = (_NUMBER.sub("", line) for line in lines if line and not line.startswith("#") and "source:" not in line)
    return list(dict.fromkeys(classes))


def _write(archive: Path, java: Java, jars: Jars, lines: list[str]) -> None:
    fresh, names = archive.with_suffix(".new"), archive.with_suffix(".lst")
    names.write_text("\n".join(lines) + "\n")
    files = [f"-XX:SharedClassListFile={names}", f"-XX:SharedArchiveFile={fresh}"]
    argv = [str(java.executable), "-Xshare:dump", "-Xlog:disable", "-Xlog:all=error", "-XX:+UseSerialGC", *files]
    done = subprocess.run(
        [*argv, "-cp", jars.classpath],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_DUMP_TIMEOUT_S,
        check=False,
    )
    names.unlink()
    if done.returncode != 0:
        fresh.unlink(missing_ok=True)
        raise CommandFailedError(f"{archive}: java -Xshare:dump ended with {done.returncode}\n{done.stdout[-2000:]}")
    fresh.rename(archive)
