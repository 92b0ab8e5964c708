"""Every import of another project's package is a declared dependency of the distribution that has the module."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import metadata, packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.paths import ROOT

FOLDERS: Final = {
    "yarn-quicksilver": ("hadoop_rpc", "rm_proxy", "policies", "sidecar", "quicksilver"),
    "yarn-quicksilver-apps": ("apps/quicksilver_apps",),
    "yarn-quicksilver-lab": ("lab/quicksilver_lab",),
}
OURS: Final = frozenset(Path(folder).name for folders in FOLDERS.values() for folder in folders)
PROVIDERS: Final = {"google": {"protobuf"}, "pyspark": {"pyspark"}}
"""A namespace package of several projects; a package that the development lock leaves out."""

NOT_IMPORTED: Final = {"yarn-quicksilver": {"opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"}}
"""Extras that are looked up by their names."""
NODE_PACKAGES: Final = 30
IN_PACKAGES: Final = ("avro", "commands", "docker", "postgres", "proxy")
"""Extras that packages, archive and images have."""


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


MAIN: Final = project(ROOT)
APPS: Final = project(ROOT / "apps")
LAB: Final = project(ROOT / "lab")


def declared(found: dict[str, Any]) -> set[str]:
    extras = found.get("optional-dependencies", {}).values()
    lines = [*found["dependencies"], *(line for extra in extras for line in extra)]
    return {canonicalize_name(Requirement(line).name) for line in lines}


def modules(distribution: str) -> Iterator[Path]:
    for folder in FOLDERS[distribution]:
        yield from (ROOT / folder).rglob("*.py")


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level packages of all imports of a module, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("distribution", [MAIN, APPS, LAB], ids=lambda distribution: distribution["name"])
def test_what_is_imported_is_declared(distribution: dict[str, Any]) -> None:
    names, installed = declared(distribution), packages_distributions()
    missing: dict[str, Path] = {}
    for path in modules(distribution["name"]):
        for package in set(imported(path)) - sys.stdlib_module_names - OURS:
            providers = PROVIDERS.get(package) or {canonicalize_name(name) for name in installed.get(package, [])}
            if not providers & names:
                missing[package] = path.relative_to(ROOT)
    assert missing == {}


def test_all_distributions_have_one_version() -> None:
    assert APPS["version"] == LAB["version"] == MAIN["version"]
    assert f"{MAIN['name']}[proxy]=={MAIN['version']}" in APPS["dependencies"]
    assert f"{MAIN['name']}[commands,proxy]=={MAIN['version']}" in LAB["dependencies"]
    assert f"{APPS['name']}=={MAIN['version']}" in LAB["dependencies"]


def test_no_dependency_is_declared_that_nothing_imports() -> None:
    installed = packages_distributions()
    for distribution in (MAIN, APPS, LAB):
        packages = {package for path in modules(distribution["name"]) for package in imported(path)}
        used = {canonicalize_name(name) for package in packages for name in installed.get(package, [])}
        used |= {name for package in packages for name in PROVIDERS.get(package, ())}
        unused = declared(distribution) - used - {MAIN["name"], APPS["name"]}
        assert unused - NOT_IMPORTED.get(distribution["name"], set()) == set(), distribution["name"]


def node_packages() -> set[str]:
    """Return what the wheel brings without extras."""
    names, waiting = set[str](), [Requirement(line) for line in MAIN["dependencies"]]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in names or not (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            continue
        assert not requirement.extras, f"{requirement} brings more than this counts"
        names.add(name)
        waiting += [Requirement(line) for line in metadata(name).get_all("Requires-Dist") or ()]
    return names


def test_a_node_gets_few_packages() -> None:
    names = node_packages()
    assert len(names) <= NODE_PACKAGES, sorted(names)
    assert not names & {"aiohttp", "alembic", "cryptography", "docker", "fastavro", "jinja2", "psycopg", "rich"}


def test_the_main_distribution_imports_nothing_of_the_others() -> None:
    others = {"quicksilver_apps", "quicksilver_lab"}
    assert not [path for path in modules(MAIN["name"]) if others & set(imported(path))]
    assert not [path for path in modules(APPS["name"]) if "quicksilver_lab" in imported(path)]


def locked(name: str) -> dict[str, set[str]]:
    """Return the hashes of a lock by name and version; comments and markers are left out."""
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^ *#.*\n", "", (ROOT / name).read_text()))
    return {re.split(r"[ ;]", entry)[0]: set(re.findall(r"--hash=(\S+)", entry)) for entry in entries}


def test_the_runtime_lock_is_a_part_of_the_development_lock() -> None:
    runtime, development = locked("requirements.lock"), locked("requirements-dev.lock")
    assert len(runtime) > 30 and all(runtime.values())
    assert {name: development.get(name) for name in runtime} == runtime


def test_the_runtime_lock_has_every_dependency_of_what_runs_on_hosts() -> None:
    pinned = {canonicalize_name(Requirement(line).name) for line in locked("requirements.lock")}
    lines = {line for found in (MAIN, APPS) for line in found["dependencies"] if not line.startswith(MAIN["name"])}
    lines |= {line for extra in IN_PACKAGES for line in MAIN["optional-dependencies"][extra]}
    wanted = {canonicalize_name(Requirement(line).name) for line in lines}
    assert wanted <= pinned
    assert not {"matplotlib", "pyarrow", "pytest", "hatchling"} & pinned


def test_no_text_installs_the_package_of_a_stranger() -> None:
    pattern = re.compile(r"pip install ['\"]?quicksilver|(?<![\w-])quicksilver\[\w")
    folders = (*FOLDERS[MAIN["name"]], "docs", "hadoop-conf", "scripts", "apps", "lab")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".toml", ""}
    ]
    texts = [
        path for path in (*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile") if path.is_file()
    ]
    assert len(texts) > 500
    assert [path for path in texts if pattern.search(path.read_text())] == []
