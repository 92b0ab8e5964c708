"""`quicksilver bench`: what it lists is there, and documented."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from quicksilver.common.process.version import LAB, version
from quicksilver_lab.bench.cli import BENCHMARKS, bench
from quicksilver_lab.bench.experiment.plan import plans
from tests.paths import DOCS, LAB_DOCS, ROOT


@pytest.mark.parametrize("name", [*BENCHMARKS, "page"])
def test_each_command_is_found_and_has_help(name: str) -> None:
    done = CliRunner().invoke(bench, [name, "--help"], prog_name="quicksilver bench", catch_exceptions=False)
    assert done.exit_code == 0
    assert f"Usage: quicksilver bench {name} " in done.stdout


def test_a_package_that_is_not_there_is_one_line_with_the_distribution_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("quicksilver_lab.bench.scale")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    done = CliRunner().invoke(bench, ["scale", "--help"])
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        f"Error: `quicksilver bench scale` needs numpy, which is not installed; run pip install {LAB}=={version()}, "
        "which brings it"
    ]


def test_the_list_has_what_help_has() -> None:
    listed = CliRunner().invoke(bench, ["list", "--json"], catch_exceptions=False)
    assert list(json.loads(listed.stdout)) == [*BENCHMARKS, *(f"run {name}" for name in plans())]
    as_table = CliRunner().invoke(bench, ["list"], catch_exceptions=False).stdout
    helped = CliRunner().invoke(bench, ["--help"], catch_exceptions=False).stdout
    for name in BENCHMARKS:
        assert re.search(rf"^ *{name}  ", as_table, re.MULTILINE)
        assert re.search(rf"^ *{name}  ", helped, re.MULTILINE)


def test_each_benchmark_is_documented_and_has_a_target_or_a_module() -> None:
    commands, targets = (DOCS / "cli.md").read_text(), (ROOT / "Makefile").read_text()
    pages = "".join(page.read_text() for folder in (DOCS, LAB_DOCS) for page in folder.glob("*.md"))
    for name, entry in BENCHMARKS.items():
        assert f"`{name}`" in commands.partition("`quicksilver bench NAME`")[2]
        module = entry.place.partition(":")[0].removesuffix(".__main__").removesuffix(".run")
        assert f"-m {module} " in targets or f"python -m {module}" in pages


def test_an_unknown_one_is_an_error_of_usage() -> None:
    done = CliRunner().invoke(bench, ["nothing"])
    assert (done.exit_code, "no command 'nothing'" in done.stderr) == (2, True)


def test_help_imports_no_benchmark() -> None:
    code = (
        "import sys, quicksilver_lab.bench.cli\n"
        "print([name for name in sys.modules if name.startswith('quicksilver_lab.bench.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['quicksilver_lab.bench.cli']"


def test_all_are_click_commands() -> None:
    context = click.Context(bench)
    assert all(bench.get_command(context, name) is not None for name in bench.list_commands(context))
