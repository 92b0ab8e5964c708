"""The base image: a minimal Debian with Python, made by debootstrap and imported; nothing is pulled."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.runtime.jars import locked
from quicksilver_lab.workloads.containers.engine import BUILD_S, ContainerEngine, Progress
from quicksilver_lab.workloads.errors import WorkloadError

IMAGE: Final = "quicksilver/base"
PACKAGES: Final = ("python3",)
DEFAULT_SUITE: Final = "bookworm"
FRESH_S: Final = 7 * 86400.0
"""Age at which a base is made anew, because Debian mends packages."""
_LEFT_OUT: Final = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/log",
)


def cache_dir() -> Path:
    """Return the folder of the bases: QUICKSILVER_CACHE, or ~/.cache/quicksilver, and `docker` below it."""
    root = os.environ.get("QUICKSILVER_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "quicksilver").absolute() / "docker"


def suite_of(os_release: str) -> str:
    """Return the Debian suite to take: this host's where it is a Debian, else DEFAULT_SUITE.

    os_release: the text of /etc/os-release.
    """
    fields = dict(re.findall(r'^(ID|VERSION_CODENAME)="?([\w.-]+)"?$', os_release, re.MULTILINE))
    return fields.get("VERSION_CODENAME", DEFAULT_SUITE) if fields.get("ID") == "debian" else DEFAULT_SUITE


def make_base(engine: ContainerEngine, progress: Progress, suite: str | None = None, cache: Path | None = None) -> str:
    """Import the base image and return its name; the root is made once and cached. Raises WorkloadError."""
    suite = suite or suite_of(Path("/etc/os-release").read_text())
    cache = cache or cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / f"base-{suite}-{platform.machine()}.tar"
    with locked(cache / ".lock"):
        if not archive.is_file() or time.time() - archive.stat().st_mtime > FRESH_S:
            progress(f"making the base image: Debian {suite} by debootstrap (once; about a minute)")
            _debootstrap(suite, archive)
    name = f"{IMAGE}:{suite}"
    engine.docker("import", "--change", 'CMD ["/bin/sh"]', str(archive), name)
    return name


def python_of(engine: ContainerEngine, image: str) -> str:
    """Return the minor version of an image's python3, such as "3.11". Raises WorkloadError when it is too old."""
    code = "import sys; print(*sys.version_info[:2], sep='.')"
    version = engine.docker("run", "--rm", "--pull=never", "--network=none", "--entrypoint=python3", image, "-c", code)
    if tuple(map(int, version.split("."))) < (3, 11):
        raise WorkloadError(f"its Python is {version}", place=image, remedy="take a base with Python 3.11 or newer")
    return version


def _debootstrap(suite: str, archive: Path) -> None:
    if shutil.which("debootstrap") is None:
        raise WorkloadError("debootstrap is missing", place="base image", remedy="install it, or name one with --base")
    if os.geteuid() != 0:
        raise WorkloadError("debootstrap needs root", place="base image", remedy="be root, or name one with --base")
    with tempfile.TemporaryDirectory(prefix="base-", dir=archive.parent) as folder:
        root, log = Path(folder) / "root", Path(folder) / "log"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
        with log.open("wb") as out:
            done = subprocess.run(command, stdout=out, stderr=out, timeout=BUILD_S, env=_plain_env())
        if done.returncode != 0:
            last = " / ".join(log.read_text(errors="replace").splitlines()[-3:])
            remedy = "is a Debian mirror reachable?"
            raise WorkloadError(f"debootstrap ended with {done.returncode}: {last}", place="base image", remedy=remedy)
        fresh = Path(folder) / "root.tar"
        left_out = [f"--exclude=./{name}/*" for name in _LEFT_OUT]
        subprocess.run(
            ["tar", "-C", str(root), "--numeric-owner", *left_out, "-cf", str(fresh), "."], check=True, timeout=BUILD_S
        )
        fresh.replace(archive)


def _plain_env() -> Mapping[str, str]:
    return {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
