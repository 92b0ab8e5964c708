"""Build contexts of the images, below build/docker: what Dockerfiles copy, brought there without a registry."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.runtime.jars import Jars, hadoop_jars
from quicksilver_lab.cluster.runtime.java import find_java
from quicksilver_lab.workloads.containers.engine import BUILD_S, Progress
from quicksilver_lab.workloads.errors import WorkloadError

CHECKOUT: Final = Path(__file__).parents[4]
SOURCE: Final = CHECKOUT / "docker"
_PLATFORMS: Final = ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")
"""glibc of the wheels: those that a Debian 12 or RHEL 8 has."""
_LAUNCHER: Final = """\
#!/bin/sh
# Runs quicksilver with the Python packages beside it.
home=$(dirname "$(dirname "$(readlink -f "$0")")")
PYTHONPATH="$home/lib${PYTHONPATH:+:$PYTHONPATH}" exec python3 -m quicksilver "$@"
"""


def fill_quicksilver(target: Path, python: str, progress: Progress) -> None:
    """Fill `target` with bin/quicksilver, lib/ and healthcheck.py, as /opt/quicksilver of the images.

    python: the image's minor version, such as "3.11". Raises WorkloadError, also where this is no checkout.
    """
    _need_checkout()
    progress(f"bringing the wheels of requirements.lock for Python {python}")
    shutil.rmtree(target, ignore_errors=True)
    library, launcher = target / "lib", target / "bin" / "quicksilver"
    wheels = [f"--platform=manylinux_{glibc}_{platform.machine()}" for glibc in _PLATFORMS]
    options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", *wheels]
    into = ["install", "--no-compile", "--target", str(library)]
    _pip([*into, "--require-hashes", *options, "-r", str(CHECKOUT / "requirements.lock")])
    shutil.rmtree(library / "bin", ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="quicksilver-wheel-") as folder:
        _pip(
            ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, str(CHECKOUT), str(CHECKOUT / "apps")]
        )
        _pip([*into, "--no-deps", *(str(wheel) for wheel in Path(folder).glob("*.whl"))])
    shutil.rmtree(library / "bin")
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER)
    launcher.chmod(0o755)
    shutil.copy(SOURCE / "healthcheck.py", target)


def fill_from_archive(target: Path, archive: Path) -> None:
    """Fill `target` from an archive of `make packages` instead. Raises WorkloadError when it has no bin/quicksilver."""
    _need_checkout()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    _call(["tar", "-xf", str(archive), "-C", str(target), "--strip-components=1", "--no-same-owner"])
    if not (target / "bin" / "quicksilver").is_file():
        raise WorkloadError("it has no bin/quicksilver", place=str(archive), remedy="name one of `make packages`")
    shutil.copy(SOURCE / "healthcheck.py", target)


def fill_hadoop(target: Path, progress: Progress, jars: Jars | None = None) -> None:
    """Fill `target` with Hadoop's jars, brought by Maven unless the cache has them, and the start script."""
    _need_checkout()
    jars = jars or hadoop_jars(find_java(), progress)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SOURCE / "hadoop", target)
    library = target / "lib"
    library.mkdir()
    for jar in sorted(jars.lib.glob("*.jar")):
        _link(jar, library / jar.name)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # the cache is on another file system
        shutil.copy(source, target)


def _need_checkout() -> None:
    if not SOURCE.is_dir():
        raise WorkloadError("the folder docker/ is not there", place=str(CHECKOUT), remedy="run this in a checkout")


def _pip(arguments: Sequence[str]) -> None:
    _call([sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"])


def _call(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=BUILD_S)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise WorkloadError(f"`{' '.join(argv[1:5])}` failed:\n{last}", place="images")
