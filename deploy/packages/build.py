"""`make packages`: a Debian package, a Red Hat package and an archive with all locked Python packages inside."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import click

from deploy.packages import formats, layout
from deploy.packages.wheels import (
    ARCHITECTURES,
    PYTHONS,
    BuildError,
    check_architecture,
    download,
    overlay,
    own_wheels,
    strip,
)

ROOT: Final = Path(__file__).parents[2]
FORMATS: Final = ("archive", "deb", "rpm")


def version_of(root: Path) -> str:
    """Return the version of yarn-quicksilver in a checkout."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def epoch_of(root: Path) -> int:
    """Return the time that all files get: SOURCE_DATE_EPOCH, else that of the last commit; seconds."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise BuildError("this is no checkout of git; set SOURCE_DATE_EPOCH to the time of the release") from error


def pack(
    wheels: Sequence[Path], architecture: str, out: Path, epoch_s: int, wanted: Sequence[str] = FORMATS
) -> list[Path]:
    """Write packages of these wheels (ours among them) into `out`; return their paths.

    Raises BuildError when the wheels do not fit together, or a program of the build fails.
    """
    version = version_of(ROOT)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="quicksilver-packages-") as name:
        work = Path(name)
        tree = work / "tree"
        prefix = tree / layout.PREFIX
        overlay(wheels, prefix / "lib")
        check_architecture(prefix / "lib", architecture)
        if not strip(prefix / "lib", architecture):
            click.echo(f"{architecture}: no strip (Debian: llvm); compiled modules stay twice as large", err=True)
        layout.common(prefix, ROOT)
        layout.normalize(tree, layout.PROGRAMS, epoch_s)
        made = [formats.archive(prefix, version, architecture, out, epoch_s)] if "archive" in wanted else []
        for kind, units in (("deb", "lib/systemd/system"), ("rpm", "usr/lib/systemd/system")):
            if kind in wanted:
                layout.system(tree, Path(units))
                if kind == "deb":
                    made.append(formats.debian(tree, version, architecture, out, epoch_s))
                else:
                    made.append(formats.redhat(tree, version, architecture, out, epoch_s, work))
                for beside in ("etc", "lib", "usr"):
                    shutil.rmtree(tree / beside, ignore_errors=True)
    return made


def collect(architecture: str, pythons: Sequence[str], store: Path) -> list[Path]:
    """Return the locked wheels for all versions of Python, brought where they are not in `store` yet."""
    lock = ROOT / "requirements.lock"
    folder = store / hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    with ThreadPoolExecutor(len(pythons)) as pool:
        folders = [folder / f"{architecture}-{python}" for python in pythons]
        found = list(
            pool.map(lambda at: download(lock, at[0], architecture, at[1]), zip(folders, pythons, strict=True))
        )
    if len({len(wheels) for wheels in found}) != 1:
        raise BuildError(f"{architecture}: the lock has another number of packages for some Python")
    names = {wheel.name: wheel for wheels in found for wheel in wheels}
    return list(names.values())


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=ROOT / "dist", show_default="dist")
@click.option("--arch", "architectures", type=click.Choice(ARCHITECTURES), multiple=True, help="Default: all.")
@click.option("--python", "pythons", type=click.Choice(PYTHONS), multiple=True, help="Default: all.")
@click.option("--format", "wanted", type=click.Choice(FORMATS), multiple=True, help="Default: all.")
def main(out: Path, architectures: tuple[str, ...], pythons: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Build the packages of this checkout for air-gapped hosts."""
    began_s = time.monotonic()
    try:
        epoch_s = epoch_of(ROOT)
        with tempfile.TemporaryDirectory() as folder:
            own = own_wheels(ROOT, Path(folder))
            for architecture in architectures or ARCHITECTURES:
                wheels = [*own, *collect(architecture, pythons or PYTHONS, ROOT / "build" / "wheels")]
                for path in pack(wheels, architecture, out, epoch_s, wanted or FORMATS):
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    click.echo(f"{path}: {path.stat().st_size / 1e6:.1f} MB, sha256 {digest}")
    except BuildError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"built in {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
