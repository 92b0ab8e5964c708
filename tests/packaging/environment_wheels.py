"""Wheels of the locked packages, made of the environment of the tests, whose hashes setup checked: no network."""

from __future__ import annotations

import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.paths import ROOT


def locked_for_here(**elsewhere: str) -> list[Requirement]:
    """Return the requirements of requirements.lock that apply to this machine and Python.

    elsewhere: what is to be otherwise, by the names of markers.
    """
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    found = [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]
    return [
        requirement for requirement in found if requirement.marker is None or requirement.marker.evaluate(elsewhere)
    ]


def environment_wheels(folder: Path) -> list[Path]:
    """Write a wheel for each locked package into `folder`; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_wheel(distribution(requirement.name), folder) for requirement in locked_for_here()]


def _wheel(found: Distribution, folder: Path) -> Path:
    tag = next(line for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: "))
    target = folder / f"{found.name.replace('-', '_')}-{found.version}-{tag.removeprefix('Tag: ')}.whl"
    with zipfile.ZipFile(target, "w") as wheel:
        for file in found.files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and path.suffix != ".pyc" and path.is_file():
                wheel.write(path, str(file))
    return target
