"""The jars of a framework that Hadoop's own lack: brought once by Maven into a cache folder, by a pom beside this."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.errors import DownloadError
from quicksilver_lab.cluster.runtime.jars import Jars, Progress, cache_dir, locked
from quicksilver_lab.cluster.runtime.java import Java, find_maven
from quicksilver_lab.cluster.runtime.tools import run_tool

_ARTIFACT: Final = re.compile(r"(.+?)-\d")
_VERSION: Final = re.compile(r"<framework.version>(.+?)</framework.version>")
_BESIDE: Final = frozenset({"jline"})
"""Artifacts of which two versions go together: Hive needs jline 2, whose packages are others than those of Hadoop's."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A folder of a framework's jars, to be put behind Hadoop's on a class path."""

    name: str
    version: str
    lib: Path

    def classpath(self, hadoop: Jars) -> str:
        """Return Hadoop's jars and these, as Java understands it."""
        return f"{hadoop.classpath}:{self.lib}/*"

    def archive(self) -> bytes:
        """Return the jars as an uncompressed tar archive, which YARN's localizer unpacks."""
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w") as tar:
            for jar in sorted(self.lib.glob("*.jar")):
                tar.add(jar, arcname=jar.name)
        return target.getvalue()


def framework(name: str, java: Java, hadoop: Jars, progress: Progress = lambda _: None, version: str = "") -> Framework:
    """Return `tez` or `hive`, downloading its jars when the cache lacks them or its pom or Hadoop's jars changed.

    version: in place of its pom's. Raises DownloadError, MissingToolError.
    """
    pom = Path(__file__).with_name(f"{name}.xml")
    version = version or _VERSION.findall(pom.read_text())[0]
    cache = cache_dir().parent / f"{name}-{version}-on-{hadoop.version}"  # two clusters may run at once
    cache.mkdir(parents=True, exist_ok=True)
    theirs = sorted(jar.name for jar in hadoop.lib.glob("*.jar"))
    digest = hashlib.sha256(pom.read_bytes() + "\n".join(theirs).encode()).hexdigest()
    lib, stamp = cache / "lib", cache / "lib" / ".digest"
    with locked(cache / ".lock"):
        if not (stamp.is_file() and stamp.read_text() == digest):
            progress(f"bringing the jars of {name} {version}")
            shutil.rmtree(lib, ignore_errors=True)
            _download(pom, version, java, lib)
            _leave_out(lib, {artifact(jar) for jar in theirs} - _BESIDE)
            stamp.write_text(digest)
    return Framework(name, version, lib)


def artifact(jar: str) -> str:
    """Return a jar's name without version: "tez-dag" of "tez-dag-0.10.4.jar"."""
    match = _ARTIFACT.match(jar)
    return match[1] if match else jar.removesuffix(".jar")


def _leave_out(lib: Path, names: set[str]) -> None:
    """Delete what Hadoop has in a version of its own, and what is no jar."""
    for file in lib.iterdir():
        if file.suffix != ".jar" or artifact(file.name) in names:
            file.unlink()


def _download(pom: Path, version: str, java: Java, target: Path) -> None:
    argv = [str(find_maven()), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    argv += ["-DincludeScope=runtime", f"-DoutputDirectory={target}", f"-Dframework.version={version}"]
    try:
        run_tool(argv, java, f"Maven could not bring what {pom} lists")
    except DownloadError:
        shutil.rmtree(target, ignore_errors=True)
        raise
