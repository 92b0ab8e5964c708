"""Every import of another project's package is a declared dependency of the distribution that has the module."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.paths import ROOT

OURS: Final = ("hadoop_rpc", "rm_proxy", "policies", "sidecar", "quicksilver")
PROVIDERS: Final = {"google": {"protobuf"}, "pyspark": {"pyspark"}}
"""A namespace package of several projects; a package that the development lock leaves out."""


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


MAIN: Final = project(ROOT)
LAB: Final = project(ROOT / "lab")


def lab_folders() -> list[Path]:
    wheel = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    return [ROOT / target for target in wheel["force-include"].values()]


def declared(found: dict[str, Any]) -> set[str]:
    lines = [*found["dependencies"], *(line for extra in found["optional-dependencies"].values() for line in extra)]
    return {canonicalize_name(Requirement(line).name) for line in lines}


def modules(lab: bool) -> Iterator[Path]:
    for package in OURS:
        for path in (ROOT / package).rglob("*.py"):
            if any(path.is_relative_to(folder) for folder in lab_folders()) is lab:
                yield path


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level packages of all imports of a module, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


@pytest.mark.parametrize(
    ("lab", "found"), [(False, MAIN), (True, LAB)], ids=["yarn-quicksilver", "yarn-quicksilver-lab"]
)
def test_what_is_imported_is_declared(lab: bool, found: dict[str, Any]) -> None:
    names, installed = declared(found), packages_distributions()
    missing: dict[str, Path] = {}
    for path in modules(lab):
        for package in set(imported(path)) - sys.stdlib_module_names - set(OURS):
            providers = PROVIDERS.get(package) or {canonicalize_name(name) for name in installed.get(package, [])}
            if not providers & names:
                missing[package] = path.relative_to(ROOT)
    assert missing == {}


def test_both_distributions_have_one_version() -> None:
    assert LAB["version"] == MAIN["version"]
    assert f"{MAIN['name']}=={MAIN['version']}" in LAB["dependencies"]


def test_the_main_distribution_imports_nothing_of_the_lab() -> None:
    names = {".".join(folder.relative_to(ROOT).parts) for folder in lab_folders()}
    lines = [
        line for path in modules(lab=False) for line in re.findall(r"^ *(?:from|import) +(\S+)", path.read_text(), re.M)
    ]
    assert not [line for line in lines if any(line == name or line.startswith(f"{name}.") for name in names)]


def locked(name: str) -> dict[str, set[str]]:
    """Return the hashes of a lock by name and version; comments and markers are left out."""
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^ *#.*\n", "", (ROOT / name).read_text()))
    return {re.split(r"[ ;]", entry)[0]: set(re.findall(r"--hash=(\S+)", entry)) for entry in entries}


def test_the_runtime_lock_is_a_part_of_the_development_lock() -> None:
    runtime, development = locked("requirements.lock"), locked("requirements-dev.lock")
    assert len(runtime) > 30 and all(runtime.values())
    assert {name: development.get(name) for name in runtime} == runtime


def test_the_runtime_lock_has_every_dependency_of_the_main_distribution() -> None:
    pinned = {canonicalize_name(Requirement(line).name) for line in locked("requirements.lock")}
    wanted = {canonicalize_name(Requirement(line).name) for line in MAIN["dependencies"]}
    assert wanted <= pinned
    assert not {"matplotlib", "pyarrow", "pytest", "hatchling"} & pinned


def test_no_text_installs_the_package_of_a_stranger() -> None:
    pattern = re.compile(r"pip install ['\"]?quicksilver|(?<![\w-])quicksilver\[\w")
    folders = (*OURS, "docs", "hadoop-conf", "scripts", "lab")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".toml", ""}
    ]
    texts = [
        path for path in (*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile") if path.is_file()
    ]
    assert len(texts) > 500
    assert [path for path in texts if pattern.search(path.read_text())] == []
