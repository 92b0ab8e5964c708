"""The locked wheels for several versions of CPython, laid over each other into one folder.

Compiled modules have the version in their names (PEP 3149: `_http_parser.cpython-312-x86_64-linux-gnu.so`), and all
other files of a release are the same for every version: one folder serves all of them, and modules of pure Python are
in it once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""Versions of CPython that the packages run with, oldest first."""
ARCHITECTURES: Final = ("x86_64", "aarch64")
_GLIBC: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
_ELF_MACHINES: Final = {b"\x3e\x00": "x86_64", b"\xb7\x00": "aarch64"}
_OF_PIP: Final = ("RECORD", "WHEEL", "INSTALLER", "REQUESTED", "direct_url.json")
"""Files of *.dist-info that describe one wheel or one installation, not the release."""


class BuildError(Exception):
    """The packages cannot be built as they have to be."""


def download(lock: Path, folder: Path, architecture: str, python: str) -> list[Path]:
    """Bring the wheels of a lock, which pip checks by their hashes. Raises BuildError with pip's own words."""
    platforms = [word for name in _GLIBC for word in ("--platform", f"{name}_{architecture}")]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--require-hashes"]
    command += ["--no-deps", "--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
    run([*command, *platforms, "--requirement", str(lock), "--dest", str(folder)])
    return sorted(folder.glob("*.whl"))


def own_wheels(root: Path, folder: Path) -> list[Path]:
    """Build the wheels of yarn-quicksilver and yarn-quicksilver-apps from a checkout."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel", "--no-deps"]
    run([*command, "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), str(root), str(root / "apps")])
    return sorted(folder.glob("yarn_quicksilver*.whl"))


def overlay(wheels: Iterable[Path], library: Path) -> None:
    """Unpack wheels into one folder. Raises BuildError when two have different files of one name."""
    for wheel in sorted(set(wheels)):
        with zipfile.ZipFile(wheel) as archive:
            for name in _wanted(archive, wheel):
                _put(archive.read(name), library / name, wheel)


def _wanted(archive: zipfile.ZipFile, wheel: Path) -> Iterator[str]:
    for name in archive.namelist():
        top, _, rest = name.partition("/")
        if top.endswith(".data"):
            raise BuildError(f"{wheel.name}: {name} belongs outside the library, which the packages do not support")
        if name.endswith("/") or (top.endswith(".dist-info") and rest in _OF_PIP):
            continue
        yield name


def _put(content: bytes, target: Path, wheel: Path) -> None:
    if target.exists():
        if target.parent.name == "sboms":  # names its wheel; what it lists is the same
            return
        if hashlib.sha256(target.read_bytes()).digest() != hashlib.sha256(content).digest():
            raise BuildError(f"{wheel.name}: {target.name} differs from the file of the same name of another wheel")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def compiled(library: Path) -> list[Path]:
    """Return the compiled modules and libraries. They are recognized by their content."""
    files = (path for path in sorted(library.rglob("*.so*")) if path.is_file())
    return [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]


def check_architecture(library: Path, architecture: str) -> None:
    """Raise BuildError for a compiled module of another architecture."""
    for path in compiled(library):
        found = _ELF_MACHINES.get(path.read_bytes()[18:20], "an unknown architecture")
        if found != architecture:
            raise BuildError(f"{path}: is for {found}, not for {architecture}")


def strip(library: Path, architecture: str) -> bool:
    """Remove what only debuggers read: half of the size. Returns False when no program for it is installed.

    Libraries in `*.libs` stay: their producers have stripped and patched them.
    """
    own = "x86_64-linux-gnu-strip" if architecture == "x86_64" else "aarch64-linux-gnu-strip"
    program = shutil.which(own) or shutil.which("llvm-strip")
    modules = [path for path in compiled(library) if not path.parent.name.endswith(".libs")]
    if program is None:
        return False
    run([program, "--strip-unneeded", *map(str, modules)])
    return True


def run(command: list[str], **environment: str) -> str:
    """Run a program and return what it printed. Raises BuildError with its error output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is missing; install it (Debian: apt-get install rpm dpkg)") from None
    if done.returncode:
        raise BuildError(f"{' '.join(command[:6])} ...: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
