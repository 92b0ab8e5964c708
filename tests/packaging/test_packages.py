"""The archive and the packages for this machine's Python, built of the packages of the tests' own environment."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

import pytest

from deploy.packages import layout
from deploy.packages.build import collect, epoch_of, pack, version_of
from deploy.packages.wheels import PYTHONS, BuildError, check_architecture, overlay, own_wheels
from tests.packaging.environment_wheels import environment_wheels
from tests.paths import ROOT
from tests.quicksilver.simulator.queues import write_trace

pytestmark = [pytest.mark.packages, pytest.mark.timeout(1800)]
MACHINE: Final = platform.machine()
VERSION: Final = version_of(ROOT)
NAME: Final = f"yarn-quicksilver-{VERSION}"
POLICY: Final = """
from policies.order.fifo import POLICY as FIFO
from dataclasses import replace
POLICY = replace(FIFO, name="by_moon")
"""
UNITS: Final = ("app-server", "proxy", "sidecar", "tracker")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages, by the end of their names."""
    folder = tmp_path_factory.mktemp("packages")
    wheels = [*own_wheels(ROOT, folder / "own"), *environment_wheels(folder / "wheels")]
    return {path.suffix: path for path in pack(wheels, MACHINE, folder / "dist", epoch_of(ROOT))}


@pytest.fixture(scope="module")
def moved(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked and then moved to a folder with a blank in its name."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(built[".gz"]) as archive:
        archive.extractall(folder, filter="tar")
    target = folder / "some where" / "quick"
    target.parent.mkdir()
    shutil.move(folder / NAME, target)
    gone = target / "lib" / "gone" / "__pycache__"
    gone.mkdir(parents=True)  # as an older version leaves it
    done = run(target / "libexec" / "compile")
    assert done.returncode == 0, done.stderr
    assert not gone.parent.exists()
    return target


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "QUICKSILVER", "HADOOP"))
    }
    env |= {"QUICKSILVER_PYTHON": os.path.realpath(sys.executable)} | environment
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env, check=False, timeout=60)


def test_the_moved_archive_runs_by_a_relative_link(moved: Path, tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to(moved / "bin" / "quicksilver")
    (tmp_path / "second").symlink_to("first")
    decoy = tmp_path / "pydantic"
    decoy.mkdir()
    (decoy / "__init__.py").write_text("raise ImportError('a package of somebody else')")
    done = run(tmp_path / "second", "--version", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"quicksilver, version {VERSION}\n"), done.stderr


def test_all_policies_are_found_and_compiled_modules_load(moved: Path) -> None:
    program = moved / "bin" / "quicksilver"
    done = run(program, "policy", "list", "--json")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r'"package": "yarn-quicksilver', done.stdout)) > 40
    code = "import uvloop, httptools, psycopg, cryptography.hazmat.bindings._rust, sqlalchemy.engine._row_cy, sys"
    check = moved / "lib" / "checked_here.py"
    check.write_text(f"{code}\nprint(uvloop.__file__, sys.flags.isolated)")
    launcher = moved / "lib" / "quicksilver" / "process" / "launcher.py"
    done = run(sys.executable, "-I", "-S", launcher, "-m", "checked_here")
    check.unlink()
    assert done.stdout.startswith(str(moved)) and done.stdout.endswith("1\n"), done.stderr


def test_a_policy_of_somebody_else_is_unpacked_into_the_plugins(moved: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "moon-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("moon.py", POLICY)
        archive.writestr("moon-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: moon\nVersion: 1.0\n")
        archive.writestr("moon-1.0.dist-info/entry_points.txt", "[quicksilver.order]\nby_moon = moon:POLICY\n")
    program = moved / "bin" / "quicksilver"
    assert "moon" not in run(program, "policy", "list", "--json").stdout
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(moved / "plugins")], check=True)
    assert '"moon 1.0"' in run(program, "policy", "list", "--json").stdout
    elsewhere = tmp_path / "elsewhere"
    (moved / "plugins").rename(elsewhere)
    assert '"moon 1.0"' in run(program, "policy", "list", "--json", QUICKSILVER_PLUGINS=str(elsewhere)).stdout
    elsewhere.rename(moved / "plugins")


def test_supervised_processes_run_with_the_same_packages(moved: Path, tmp_path: Path) -> None:
    done = run(moved / "bin" / "quicksilver", "supervise", "--", "proxy", "run", "--conf-dir", tmp_path / "absent")
    assert done.returncode == 1
    assert "absent: no such directory" in done.stderr and "Traceback" not in done.stderr


def test_processes_of_the_simulator_have_the_packages(moved: Path, tmp_path: Path) -> None:
    program = moved / "bin" / "quicksilver"
    trace = write_trace(tmp_path / "trace.jsonl")
    done = run(program, "simulate", trace, "--system", "quicksilver", "--nodes", "10", "--processes", "2", "--json")
    assert done.returncode == 0 and '"variants"' in done.stdout, done.stderr


def test_a_host_without_a_python_is_informed(moved: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    text = (moved / "libexec" / "find-python").read_text()
    bare = tmp_path / "bare"
    shutil.copytree(moved, bare, symlinks=True)
    (bare / "libexec" / "find-python").write_text(text.replace("/usr/bin /usr/local/bin", str(tools)))
    (tools / "sh").symlink_to("/bin/sh")
    done = run("/bin/sh", bare / "bin" / "quicksilver", "--version", PATH=str(tools), QUICKSILVER_PYTHON="")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "quicksilver: error: this host has no Python of the versions 3.14 3.13 3.12 3.11; install"
    )
    done = run(bare / "bin" / "quicksilver", "--version", QUICKSILVER_PYTHON="/nowhere/python3")
    assert "QUICKSILVER_PYTHON=/nowhere/python3 is no program" in done.stderr
    old = tools / "python3.11"
    old.write_text('#!/bin/sh\necho chosen "$@"\n')
    old.chmod(0o755)
    done = run("/bin/sh", bare / "bin" / "quicksilver", "--version", PATH=str(tools), QUICKSILVER_PYTHON="")
    assert done.stdout.startswith("chosen -I -S ") and done.stdout.endswith("launcher.py --version\n")


def test_a_python_without_modules_of_the_package_is_named(moved: Path) -> None:
    name = next((moved / "lib" / "pydantic_core").glob("*.so"))
    hidden = name.with_suffix(".hidden")
    name.rename(hidden)
    try:
        done = run(moved / "bin" / "quicksilver", "policy", "list")
    finally:
        hidden.rename(name)
    assert done.returncode == 1
    assert "set QUICKSILVER_PYTHON" in done.stderr or "_pydantic_core" in done.stderr


def test_compiling_is_complete_and_removed_again(moved: Path, tmp_path: Path) -> None:
    sources = list((moved / "lib").rglob("*.py"))
    assert [source for source in sources if not Path(cache_from_source(source)).exists()] == [] and len(sources) > 1000
    copy = tmp_path / "copy"
    shutil.copytree(moved, copy)
    assert run(copy / "libexec" / "compile", "--remove").returncode == 0
    names = {path.relative_to(copy) for path in copy.rglob("*")}
    assert names == {path.relative_to(moved) for path in moved.rglob("*") if "__pycache__" not in path.parts}


def test_the_debian_package(built: dict[str, Path], tmp_path: Path) -> None:
    field = subprocess.run(["dpkg-deb", "--field", built[".deb"]], capture_output=True, text=True, check=True).stdout
    assert f"Version: {VERSION}-1\n" in field and "python3 (>= 3.11) | python3.14" in field
    subprocess.run(["dpkg-deb", "--raw-extract", built[".deb"], tmp_path / "deb"], check=True)
    tree = tmp_path / "deb"
    assert (tree / "usr/bin/quicksilver").readlink() == Path("/opt/quicksilver/bin/quicksilver")
    for unit in UNITS:
        text = (tree / f"lib/systemd/system/quicksilver-{unit}.service").read_text()
        assert text == (ROOT / "hadoop-conf" / "systemd" / f"quicksilver-{unit}.service").read_text()
    for name in (tree / "DEBIAN" / "conffiles").read_text().split():
        assert (tree / name.lstrip("/")).is_file()
    assert not list(tree.rglob("*.pyc"))
    assert len(list(tree.rglob("yarn_quicksilver-*.dist-info/sboms/sbom.cdx.json"))) == 1
    for script in ("postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", tree / "DEBIAN" / script], check=True)


EXPECTED_TAGS: Final = {
    "dir-or-file-in-opt",  # where packages of third parties belong
    "malformed-deb-archive",  # this lintian knows no zstd
    "no-changelog",
    "bogus-mail-host",
    "unknown-file-in-debian-source",
}


@pytest.mark.long
def test_lintian_finds_no_other_error(built: dict[str, Path]) -> None:
    command = ["lintian", "--allow-root", "--fail-on", "none", "--tag-display-limit", "0", built[".deb"]]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    tags = {line.split()[2] for line in found.splitlines() if line.startswith("E: ")}
    assert "dir-or-file-in-opt" in tags
    assert tags <= EXPECTED_TAGS


def test_the_red_hat_package(built: dict[str, Path]) -> None:
    query = ["rpm", "--query", "--package", built[".rpm"]]
    kept = subprocess.run([*query, "--configfiles"], capture_output=True, text=True, check=True).stdout.split()
    assert kept == ["/etc/logrotate.d/quicksilver", "/etc/quicksilver/quicksilver.yaml"]
    lines = subprocess.run([*query, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    for unit in UNITS:
        assert f"/usr/lib/systemd/system/quicksilver-{unit}.service" in lines
    done = subprocess.run(
        [*query, "--queryformat", "[%{REQUIRENAME} %{REQUIREVERSION}\n]"], capture_output=True, text=True, check=True
    )
    assert "python3.12" in done.stdout and "python(abi)" not in done.stdout and ".so" not in done.stdout


def test_units_agree_and_systemd_accepts_them(tmp_path: Path) -> None:
    for unit in UNITS:
        path = ROOT / "hadoop-conf" / "systemd" / f"quicksilver-{unit}.service"
        text = path.read_text()
        assert "\nExecStart=/opt/quicksilver/bin/quicksilver " in text
        assert "\nEnvironment=QUICKSILVER_CONFIG=/etc/quicksilver/quicksilver.yaml\n" in text
        assert "\nNoNewPrivileges=yes\n" in text and "\nDocumentation=file:/opt/quicksilver/share/doc/" in text
        page = re.search(r"share/doc/(\S+)", text)
        assert page and (ROOT / "docs" / page[1]).is_file()
        (tmp_path / path.name).write_text(text.replace("/opt/quicksilver/bin/quicksilver", "/bin/true"))
    command = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_daemon_has_a_user_of_its_own_and_the_rights_that_it_needs() -> None:
    users, groups = {}, {}
    for unit in UNITS:
        text = (ROOT / "hadoop-conf" / "systemd" / f"quicksilver-{unit}.service").read_text()
        assert text.count("\nCapabilityBoundingSet=") == 1
        fields = dict(re.findall(r"^(User|Group|SupplementaryGroups|CapabilityBoundingSet)=(.*)$", text, re.M))
        users[unit] = (fields.get("User"), fields.get("Group"), fields["CapabilityBoundingSet"] == "")
        groups[unit] = fields.get("SupplementaryGroups")
    assert users.pop("sidecar") == (None, None, False)
    assert users == {unit: (f"quicksilver-{unit}", f"quicksilver-{unit}", True) for unit in users}
    secrets = "quicksilver quicksilver-tls"
    assert groups == {"sidecar": None, "tracker": "quicksilver", "proxy": secrets, "app-server": secrets}
    setup = (ROOT / "deploy/packages/tree/setup-host").read_text()
    assert f"for daemon in {' '.join(unit for unit in UNITS if unit != 'sidecar')}; do" in setup


def test_the_start_takes_about_as_long_as_in_a_virtual_environment(moved: Path) -> None:
    package = min(_cpu_s(str(moved / "bin" / "quicksilver"), "--version") for _ in range(5))
    environment = min(_cpu_s(sys.executable, "-m", "quicksilver", "--version") for _ in range(5))
    assert package < environment + 0.05, (package, environment)


def _cpu_s(*command: str) -> float:
    before = os.times()
    assert run(*command).returncode == 0
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_wheels_that_differ_are_refused(tmp_path: Path) -> None:
    for python, text in (("cp311", "a = 1"), ("cp312", "a = 2")):
        with zipfile.ZipFile(tmp_path / f"x-1-{python}-{python}-linux.whl", "w") as wheel:
            wheel.writestr("x/__init__.py", text)
            wheel.writestr("x-1.dist-info/WHEEL", python)
    with pytest.raises(BuildError, match=r"cp312.*__init__.py differs"):
        overlay(tmp_path.glob("*.whl"), tmp_path / "lib")
    with zipfile.ZipFile(tmp_path / "y-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("y-1.data/scripts/y", "")
    with pytest.raises(BuildError, match="outside the library"):
        overlay([tmp_path / "y-1-py3-none-any.whl"], tmp_path / "lib2")


def test_a_module_of_another_architecture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.so").write_bytes(b"\x7fELF" + bytes(14) + b"\xb7\x00")
    check_architecture(tmp_path, "aarch64")
    with pytest.raises(BuildError, match="is for aarch64, not for x86_64"):
        check_architecture(tmp_path, "x86_64")


def test_definitions_have_no_name_without_a_value(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a @ONE@ @TWO@")
    with pytest.raises(BuildError, match="@TWO@"):
        layout.fill(tmp_path / "file", {"ONE": "1"})


@pytest.mark.long
def test_two_builds_of_all_pythons_are_the_same(tmp_path: Path) -> None:
    began_s = time.monotonic()
    own = own_wheels(ROOT, tmp_path)
    wheels = [*own, *collect(MACHINE, PYTHONS, ROOT / "build" / "wheels")]
    first, second = (
        [path.read_bytes() for path in pack(wheels, MACHINE, tmp_path / name, epoch_of(ROOT))] for name in ("a", "b")
    )
    assert first == second, f"after {time.monotonic() - began_s:.0f} s"
