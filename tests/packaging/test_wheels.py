"""The wheels, installed as on a node: the locked packages alone, beside packages and folders with generic names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from quicksilver.common.hadoop.overlays import overlay_root
from tests.packaging.environment_wheels import locked_for_here
from tests.paths import ROOT
from tests.quicksilver.simulator.queues import write_trace

pytestmark = pytest.mark.packages

GENERIC: Final = ("cluster", "report", "shell", "bench", "common")
OTHERS: Final = ("PYTHON", "QUICKSILVER", "HADOOP")
"""Prefixes of variables that would change what the programs see."""
IMPORT_ALL: Final = """
import importlib, json, sys
failed, strange = {}, []
for name in json.load(sys.stdin):
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        failed[name] = repr(error)
    else:
        if not (module.__file__ or "").startswith(sys.prefix):
            strange.append(name)
print(json.dumps([failed, strange]))
"""


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels by the name of their distribution."""
    folder = tmp_path_factory.mktemp("dist")
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder, ".", "./apps", "./lab")
    return {path.name.split("-")[0]: path for path in folder.iterdir()}


class Installation:
    """A virtual environment without pip, and a working folder with decoys."""

    def __init__(self, root: Path) -> None:
        self.venv, self.work = root / "venv", root / "work"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.venv)], check=True)
        (self.site,) = (self.venv / "lib").glob("python*/site-packages")
        self.python, self.program = self.venv / "bin" / "python", self.venv / "bin" / "quicksilver"
        for folder in (self.site, self.work):
            for name in GENERIC:
                (folder / name).mkdir(parents=True)
                (folder / name / "__init__.py").write_text("raise ImportError('a package of somebody else')")

    def link(self, requirement: Requirement) -> None:
        """Link the files of a locked package from the environment of the tests, which setup checked by its hashes."""
        found = distribution(requirement.name)
        assert requirement.specifier.contains(found.version), f"{requirement}: {found.version} is installed"
        for file in found.files or ():
            if ".." in file.parts or not Path(str(file.locate())).exists():
                continue
            target = self.site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(str(file.locate()))

    def install(self, wheel: Path) -> None:
        pip("--python", self.python, "install", "--no-deps", "--no-index", "--no-compile", wheel)

    def run(self, *command: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "QUICKSILVER", "HADOOP"))
        }
        return subprocess.run(
            list(map(str, command)), input=stdin, capture_output=True, text=True, cwd=self.work, env=env, check=False
        )

    def quicksilver(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, "-m", "quicksilver", *arguments)


@pytest.fixture(scope="module")
def node(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel of yarn-quicksilver and what requirements.lock lists, nothing else."""
    made = Installation(tmp_path_factory.mktemp("node"))
    for requirement in locked_for_here():
        made.link(requirement)
    made.install(wheels["yarn_quicksilver"])
    return made


def modules(wheel: Path) -> list[str]:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")]
    stores = ("rm_proxy/store", "quicksilver_apps/server/store")
    alembic = tuple(f"{store}/migrations/{part}" for store in stores for part in ("env.py", "versions/0"))
    return [
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for name in names
        if not name.startswith(alembic)  # alembic loads these by path
    ]


TREES: Final = {
    "yarn_quicksilver": {name: name for name in ("hadoop_rpc", "rm_proxy", "policies", "sidecar", "quicksilver")},
    "yarn_quicksilver_apps": {"quicksilver_apps": "apps/quicksilver_apps"},
    "yarn_quicksilver_lab": {"quicksilver_lab": "lab/quicksilver_lab"},
}
"""Package and folder of the checkout, by distribution."""


def test_each_wheel_has_its_own_packages_whole(wheels: dict[str, Path]) -> None:
    assert wheels.keys() == TREES.keys()
    beside = ("quicksilver/hadoop-conf/", "quicksilver/docs/", "quicksilver_lab/docs/")  # elsewhere in a checkout
    for name, packages in TREES.items():
        names = zipfile.ZipFile(wheels[name]).namelist()
        packed = {file for file in names if ".dist-info/" not in file and not file.startswith(beside)}
        assert packed == {
            f"{package}/{path.relative_to(ROOT / folder)}"
            for package, folder in packages.items()
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }


def test_the_main_wheel_has_its_bill_of_materials(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["yarn_quicksilver"]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/sboms/sbom.cdx.json"))
        assert wheel.read(name) == (ROOT / "sbom.cdx.json").read_bytes()


def test_each_module_of_the_main_wheel_can_be_imported(node: Installation, wheels: dict[str, Path]) -> None:
    names = modules(wheels["yarn_quicksilver"])
    assert len(names) > 300
    done = node.run(node.python, "-P", "-c", IMPORT_ALL, stdin=json.dumps(names))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{}, []]


def test_the_program_runs_beside_packages_of_the_same_generic_names(node: Installation) -> None:
    for done in (node.quicksilver("--version"), node.run(node.program, "--version")):
        assert (done.returncode, done.stdout) == (0, "quicksilver, version 0.1.0\n"), done.stderr


def test_doctor_reads_site_files(node: Installation) -> None:
    conf = overlay_root()
    done = node.quicksilver(
        "doctor", "--offline", "--json", "--conf-dir", conf / "client", "--rm-conf-dir", conf / "resourcemanager"
    )
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["findings"]


def test_install_finds_its_overlays(node: Installation) -> None:
    site = node.work / "conf"
    site.mkdir()
    (site / "yarn-site.xml").write_text("<configuration>\n</configuration>\n")
    done = node.quicksilver("install", "--role", "client", "--conf-dir", site, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "yarn-site.xml" in done.stdout


def test_simulate_runs_a_trace(node: Installation) -> None:
    trace = write_trace(node.work / "trace.jsonl")
    done = node.quicksilver("simulate", trace, "--system", "quicksilver", "--nodes", "10", "--processes", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["variants"]


@pytest.mark.parametrize(
    ("command", "brings"),
    [
        *((name, "yarn-quicksilver-lab") for name in ("bench", "cluster", "demo")),
        *((name, "yarn-quicksilver-apps") for name in ("app-server", "app run", "app check")),
    ],
)
def test_commands_of_other_distributions_name_them_in_one_line(node: Installation, command: str, brings: str) -> None:
    done = node.quicksilver(*command.split(), "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"quicksilver: error: `quicksilver {command}` is in {brings}, which is not installed; "
        f"run pip install {brings}==0.1.0\n"
    )


def test_settings_and_pages_do_without_the_other_distributions(node: Installation) -> None:
    schema = json.loads(node.quicksilver("policy", "schema").stdout)
    assert "proxy" in schema["properties"] and "app_server" not in schema["properties"]
    assert "app-server" not in node.quicksilver("man").stdout
    assert "submit" not in node.quicksilver("app", "--help").stdout


def test_with_the_others_their_commands_are_there(wheels: dict[str, Path], tmp_path: Path) -> None:
    whole = Installation(tmp_path)
    for requirement in locked_for_here():
        whole.link(requirement)
    for wheel in wheels.values():
        whole.install(wheel)
    for command in (("bench", "list"), ("cluster", "--help"), ("demo", "--help"), ("simulate", "--help")):
        done = whole.quicksilver(*command)
        assert done.returncode == 0 and done.stdout, done.stderr
    assert "app_server" in json.loads(whole.quicksilver("policy", "schema").stdout)["properties"]
    for command in (("app", "schema"), ("app-server", "--help")):
        done = whole.quicksilver(*command)
        assert done.returncode == 0 and done.stdout, done.stderr
    imported = whole.run(
        whole.python, "-P", "-c", IMPORT_ALL, stdin=json.dumps(modules(wheels["yarn_quicksilver_apps"]))
    )
    assert json.loads(imported.stdout) == [{}, []], imported.stderr
