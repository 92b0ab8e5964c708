"""Finding a Java that Hadoop runs on, and Maven."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from quicksilver_lab.cluster.errors import MissingToolError

OLDEST, NEWEST = 8, 21
"""Java 22 and later: Hadoop's UserGroupInformation needs Subject.getSubject, which fails there."""

REMEDY = "apt-get install -y openjdk-17-jre-headless maven"
_VERSION = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation."""

    home: Path
    version: int

    @property
    def executable(self) -> Path:
        """The launcher."""
        return self.home / "bin" / "java"


def find_java(
    env: Mapping[str, str] | None = None,
    jvm_dir: Path = Path("/usr/lib/jvm"),
    oldest: int = OLDEST,
    newest: int = NEWEST,
) -> Java:
    """Choose Java 8 to 21: JAVA_HOME, then the one on PATH, then those in `jvm_dir`, newest first.

    env: os.environ unless given; oldest, newest: the versions that are allowed. Raises MissingToolError, which
    lists what was found and how to get one.
    """
    env = os.environ if env is None else env
    seen: list[str] = []
    for origin, home in _candidates(env, jvm_dir):
        version = _version(home)
        if version is not None and oldest <= version <= newest:
            return Java(home, version)
        seen.append(f"{origin} {home} is {f'Java {version}' if version is not None else 'no Java'}")
    reasons = "; ".join(dict.fromkeys(seen)) or f"JAVA_HOME, PATH and {jvm_dir} have none"
    raise MissingToolError(
        f"Hadoop needs Java {oldest} to {newest} ({reasons}). Install one, for example: {REMEDY}, or set JAVA_HOME."
    )


def find_maven(env: Mapping[str, str] | None = None) -> Path:
    """Return the path of `mvn`. Raises MissingToolError when PATH has none."""
    env = os.environ if env is None else env
    path = shutil.which("mvn", path=env.get("PATH", ""))
    if path is None:
        raise MissingToolError(
            f"Maven (mvn) is not on PATH; it brings Hadoop's jars. Install it, for example: {REMEDY}"
        )
    return Path(path)


def _candidates(env: Mapping[str, str], jvm_dir: Path) -> Iterator[tuple[str, Path]]:
    if env.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(env["JAVA_HOME"])
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path).resolve().parent.parent
    if jvm_dir.is_dir():
        homes = {home.resolve() for home in jvm_dir.iterdir() if (home / "bin" / "java").exists()}
        for home in sorted(homes, key=lambda home: (-(_version(home) or 0), home)):
            yield "installed", home


def _version(home: Path) -> int | None:
    """Return the major version of the Java in `home`, or None when there is none."""
    launcher, release = home / "bin" / "java", home / "release"
    if not os.access(launcher, os.X_OK):
        return None
    match = _VERSION.search(release.read_text(errors="replace")) if release.is_file() else None
    if match is None:
        try:
            shown = subprocess.run([launcher, "-version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        match = _VERSION.search(shown.stderr + shown.stdout)
    return int(match.group(1)) if match else None
