"""The archive runs by itself, and equal packages make equal archives."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from quicksilver_apps.master.archive import build

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
sys.argv[1:] = ["surplus", "arguments"]
import runpy
try:
    runpy.run_path(sys.path[0], run_name="__main__")
except SystemExit as end:
    assert end.code == 2, end.code
from google.protobuf.internal import api_implementation
assert api_implementation.Type() == "python", api_implementation.Type()
import quicksilver_apps.master.process
loaded = [(name, getattr(module, "__file__", None) or "") for name, module in sys.modules.items()]
ours = ("google", "hadoop_rpc", "quicksilver", "quicksilver_apps")
strangers = [name for name, file in loaded if name.split(".")[0] in ours and sys.path[0] not in file]
assert not strangers, strangers
third = [name for name, file in loaded if "site-packages" in file and name != "_distutils_hack"]
assert not third, third
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("archive") / "quicksilver-app.zip")


def test_it_is_made_alike_each_time(archive: Path, tmp_path: Path) -> None:
    assert build(tmp_path / "again.zip").read_bytes() == archive.read_bytes()


def test_it_has_what_the_master_needs_and_nothing_of_the_submitter(archive: Path) -> None:
    names = zipfile.ZipFile(archive).namelist()
    assert "__main__.py" in names
    assert "google/protobuf/LICENSE" in names
    assert "quicksilver_apps/master/launcher/launcher.py" in names
    assert not [name for name in names if name.endswith((".so", "archive.py")) or "description" in name]


def test_all_that_it_imports_is_inside(archive: Path) -> None:
    done = subprocess.run([sys.executable, "-I", "-c", PROGRAM, str(archive)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_protobuf_on_the_node_does_no_harm(archive: Path, tmp_path: Path) -> None:
    decoy = tmp_path / "google" / "protobuf"
    decoy.mkdir(parents=True)
    for folder in (decoy.parent, decoy):
        (folder / "__init__.py").write_text("raise ImportError('the wrong protobuf')\n")
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, str(archive)], capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "CONTAINER_ID is not set; YARN starts this program" in done.stderr
