"""Flink's jars, brought once by Maven into the cache folder, and the job's jar, compiled of its source beside them."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.runtime.jars import Progress, cache_dir, locked
from quicksilver_lab.cluster.runtime.java import Java, find_maven
from quicksilver_lab.cluster.runtime.tools import run_tool

VERSION: Final = "1.20.1"
POM: Final = Path(__file__).with_name("pom.xml")
JOB: Final = Path(__file__).with_name("CountedNumbers.java")
_JAVA_RELEASE: Final = "11"
"""The oldest that Flink runs on."""


@dataclass(frozen=True, slots=True)
class Flink:
    """An installed Flink."""

    lib: Path
    """As `lib` of its distribution."""
    job: Path
    """The jar of CountedNumbers."""


def flink(java: Java, progress: Progress = lambda _: None, cache: Path | None = None) -> Flink:
    """Return Flink and the job, bringing and compiling them when the cache lacks them or a source of them changed.

    Raises DownloadError, MissingToolError.
    """
    home = cache_dir().with_name(f"flink-{VERSION}") if cache is None else cache
    stamp = home / ".made-of"
    digest = hashlib.sha256(POM.read_bytes() + JOB.read_bytes()).hexdigest()
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / ".lock"):
        if not (stamp.is_file() and stamp.read_text() == digest):
            progress(f"bringing Flink {VERSION}")
            lib, tools = home / "lib", home / "tools"
            for folder in (lib, tools):
                shutil.rmtree(folder, ignore_errors=True)
            _copy(java, lib, "runtime")
            _copy(java, tools, "provided", "-DincludeArtifactIds=ecj")
            _compile(java, lib, tools, home / "job")
            stamp.write_text(digest)
    return Flink(home / "lib", home / "job" / f"{JOB.stem}.jar")


def _copy(java: Java, target: Path, scope: str, *more: str) -> None:
    argv = [str(find_maven()), "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    argv += [f"-DincludeScope={scope}", f"-DoutputDirectory={target}", *more]
    run_tool(argv, java, f"Maven could not bring Flink {VERSION}")


def _compile(java: Java, lib: Path, tools: Path, target: Path) -> None:
    classes = target / "classes"
    shutil.rmtree(target, ignore_errors=True)
    classes.mkdir(parents=True)
    (compiler,) = tools.glob("ecj-*.jar")
    classpath = ":".join(str(jar) for jar in sorted(lib.glob("*.jar")))
    argv = [str(java.executable), "-jar", str(compiler), "--release", _JAVA_RELEASE, "-nowarn"]
    run_tool([*argv, "-cp", classpath, "-d", str(classes), str(JOB)], java, f"{JOB.name} does not compile")
    with zipfile.ZipFile(target / f"{JOB.stem}.jar", "w") as jar:
        for file in sorted(classes.rglob("*.class")):
            jar.write(file, file.relative_to(classes))
