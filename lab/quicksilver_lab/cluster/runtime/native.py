"""Hadoop's native library, without which a secure cluster serves no map output: brought by Maven like the jars.

Hadoop itself publishes it in no jar; Trino's build of Hadoop 3.3.5 carries it, and its calls are those of 3.4.
"""

import platform
import zipfile
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.errors import DownloadError
from quicksilver_lab.cluster.runtime.jars import Jars, Progress, locked
from quicksilver_lab.cluster.runtime.java import Java, find_maven
from quicksilver_lab.cluster.runtime.releases import POM
from quicksilver_lab.cluster.runtime.tools import run_tool

_ARTIFACT: Final = ("io.trino.hadoop", "hadoop-apache", "3.3.5-3")
_FOLDERS: Final = {"x86_64": "Linux-amd64", "aarch64": "Linux-aarch64", "ppc64le": "Linux-ppc64le"}
_FILE: Final = "libhadoop.so"


def hadoop_native(java: Java, jars: Jars, progress: Progress = lambda _: None) -> Path:
    """Return the folder of libhadoop.so, downloading it when the cache lacks it. Raises DownloadError."""
    target = jars.native / _FILE
    if not target.is_file():
        with locked(jars.lib.parent / ".lock"):
            if not target.is_file():
                progress("bringing Hadoop's native library")
                _unpack(_download(java, jars.lib.parent), target)
    return jars.native


def _download(java: Java, cache: Path) -> Path:
    group, name, version = _ARTIFACT
    argv = [str(find_maven()), "-q", "-B", "-f", str(POM), "dependency:copy"]
    argv += [f"-Dartifact={group}:{name}:{version}", f"-DoutputDirectory={cache}"]
    run_tool(argv, java, f"Maven could not bring {name} {version}")
    jar = cache / f"{name}-{version}.jar"
    if not jar.is_file():
        raise DownloadError(f"Maven brought no {jar.name}.")
    return jar


def _unpack(jar: Path, target: Path) -> None:
    machine = platform.machine()
    if machine not in _FOLDERS:
        raise DownloadError(f"{jar.name} has no {_FILE} for {machine}: no cluster with Kerberos can run here.")
    with zipfile.ZipFile(jar) as archive:
        content = archive.read(f"nativelib/{_FOLDERS[machine]}/{_FILE}")
    target.parent.mkdir(exist_ok=True)
    fresh = target.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(target)
    jar.unlink()
