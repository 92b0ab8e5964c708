"""Hadoop's jars: brought once by Maven into a cache folder for each version, by the list in pom.xml."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quicksilver_lab.cluster.errors import DownloadError
from quicksilver_lab.cluster.runtime.java import Java, find_maven
from quicksilver_lab.cluster.runtime.releases import DEFAULT, POM, HadoopRelease, release

ARCHIVE_JAVA = 17
"""The oldest Java for which an archive of classes is made."""
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Jars:
    """A folder full of jars, Hadoop's and all they need."""

    lib: Path
    archive: Path | None = None
    """Their classes parsed and checked already (cluster/archive.py), when it exists for this Java.
    """
    version: str = DEFAULT
    """Hadoop's."""

    @property
    def sharing(self) -> list[str]:
        """The JVM options by which the archive is used; it is of use only to a classpath that begins with the jars."""
        return [f"-XX:SharedArchiveFile={self.archive}"] if self.archive else []

    @property
    def classpath(self) -> str:
        """All of them, as Java and `yarn.application.classpath` understand it."""
        return f"{self.lib}/*"

    @property
    def native(self) -> Path:
        """The folder of libhadoop.so; there once a secure cluster was started (runtime/native.py)."""
        return self.lib.parent / "native"

    def artifact(self, name: str) -> Path:
        """Return the jar of a Hadoop artifact, such as "hadoop-mapreduce-examples".

        Raises DownloadError, and ReleaseError for one that Maven Central does not have in this version.
        """
        jar = self.lib / f"{name}-{release(self.version).version_of(name)}.jar"
        if not jar.is_file():
            raise DownloadError(
                f"{jar} is not there; {POM} does not list {name}, or delete {self.lib} and start again."
            )
        return jar


def cache_dir(version: str = DEFAULT) -> Path:
    """Return the folder of the jars: QUICKSILVER_CACHE, or ~/.cache/quicksilver, and the version below it."""
    root = os.environ.get("QUICKSILVER_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "quicksilver").absolute() / f"hadoop-{version}"


def hadoop_jars(
    java: Java, progress: Progress = lambda _: None, cache: Path | None = None, version: str = DEFAULT
) -> Jars:
    """Return Hadoop's jars, downloading them when the cache lacks them or the list of this version changed.

    Several processes may ask at once: one downloads, the others wait. Raises DownloadError, MissingToolError;
    ReleaseError for a version that is not in `releases`.
    """
    cache, listed = cache_dir(version) if cache is None else cache, release(version)
    lib, stamp = cache / "lib", cache / "lib" / ".pom.sha256"
    pom = listed.pom()
    digest = hashlib.sha256(pom).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return _with_archive(lib, java, version)
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"{cache}: {error.strerror}. Set QUICKSILVER_CACHE to a folder that can be written."
        ) from error
    with locked(cache / ".lock"):
        if not (stamp.is_file() and stamp.read_text() == digest):
            fresh = cache / "lib.new"
            shutil.rmtree(fresh, ignore_errors=True)
            (cache / "pom.xml").write_bytes(pom)
            _download(find_maven(), java, listed, cache, progress)
            (fresh / stamp.name).write_text(digest)
            shutil.rmtree(lib, ignore_errors=True)
            fresh.rename(lib)
    return _with_archive(lib, java, version)


def _with_archive(lib: Path, java: Java, version: str) -> Jars:
    archive = archive_file(lib, java)
    return Jars(lib, archive if archive is not None and archive.is_file() else None, version)


def archive_file(lib: Path, java: Java) -> Path | None:
    """Return where the archive for this Java and these jars lies or would lie; None for a Java too old for one."""
    if java.version < ARCHIVE_JAVA:
        return None
    about = (java.home / "release", lib / ".pom.sha256")
    made_for = "".join(path.read_text() for path in about if path.is_file())
    return lib.parent / f"classes-{hashlib.sha256(f'{java.home} {made_for}'.encode()).hexdigest()[:12]}.jsa"


def _download(maven: Path, java: Java, listed: HadoopRelease, cache: Path, progress: Progress) -> None:
    log = cache / "maven.log"
    argv = [str(maven), "-B", "-f", str(cache / "pom.xml"), "dependency:copy-dependencies"]
    argv += ["-DincludeScope=runtime", f"-DoutputDirectory={cache / 'lib.new'}"]
    env = os.environ | {"JAVA_HOME": str(java.home)}
    fetched = copied = 0
    with (
        log.open("w") as out,
        subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            out.write(line)
            fetched += "Downloaded from" in line
            copied += bool(re.search(r"\bCopying .*\.jar", line))
            progress(f"Hadoop {listed.version}: {fetched} files downloaded, {copied} jars in place")
    if process.returncode != 0:
        errors = [line for line in log.read_text().splitlines() if "ERROR" in line]
        why = errors[0] if errors else f"exit code {process.returncode}"
        raise DownloadError(
            f"Maven could not bring Hadoop {listed.version}: {why} (all of it: {log}). Is there a network?"
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file of the cache for the time of a with block."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
