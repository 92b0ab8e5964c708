"""Kept results: each can be read, drawn and repeated, and the docs list it."""

from __future__ import annotations

import json
import lzma
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quicksilver_lab.bench.keep import COMMAND, FIGURES, files, kept, main, repeatable, with_table
from quicksilver_lab.bench.page.pages import html_beside, load, page_of
from tests.paths import LAB_DOCS, ROOT

KEPT = files(ROOT / FIGURES)
RESULT = {"benchmark": "relay", "p50_ms": 1.5, "commit": "0123456789ab", "argv": ["/a/bin/quicksilver", "bench"]}


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=30)


def test_some_results_are_kept() -> None:
    assert KEPT


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name)
def test_a_kept_result_has_a_page_and_nothing_of_a_machine(file: Path) -> None:
    result = load(file)
    assert page_of(result).title
    assert result["about"] and not result["commit"].endswith("+")
    assert [word for word in result["argv"] if word.startswith("/")] == []


@pytest.mark.skipif(git("rev-parse", "--is-shallow-repository").stdout.strip() != "false", reason="no whole history")
@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name)
def test_the_commit_that_was_measured_is_an_ancestor(file: Path) -> None:
    commit = load(file)["commit"]
    assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, f"{commit} is not in this history"


def test_the_page_lists_them_as_they_are() -> None:
    page = LAB_DOCS / "figures.md"
    assert page.read_text() == with_table(page.read_text(), ROOT / FIGURES), f"the page is not up to date; {COMMAND}"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ["/a/.venv/bin/quicksilver", "bench", "run", "mixes", "--dir", "/b", "--seeds", "1"],
            "quicksilver bench run mixes --seeds 1",
        ),
        (
            ["python3/quicksilver", "bench", "run", "/a/mine.yaml", "--trace", "/b/trace.tsv"],
            "quicksilver bench run mine.yaml --trace trace.tsv",
        ),
        (
            ["/a/lab/quicksilver_lab/bench/zoe/figure1.py", "--results=/b"],
            "python -m quicksilver_lab.bench.zoe.figure1",
        ),
        (["/a/quicksilver/__main__.py", "bench", "relay"], "quicksilver bench relay"),
        (["quicksilver", "bench", "relay", "--base-port"], "quicksilver bench relay"),
    ],
)
def test_a_command_is_kept_without_folders_and_ports(argv: list[str], words: str) -> None:
    assert " ".join(repeatable(argv)) == words


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"commit": "0123456789ab+"}, "files differed from commit 0123456789ab; measure in a clean checkout"),
        ({"commit": ""}, "it names no commit; measure in a clean checkout"),
        ({"benchmark": "zoe"}, "not as bench-zoe writes it"),
    ],
)
def test_what_nobody_can_repeat_or_draw_is_refused(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        kept({**RESULT, **change}, "a relay")
    path = tmp_path / "relay-1.json"
    path.write_text(json.dumps({**RESULT, **change}))
    done = CliRunner().invoke(main, [str(path), "--about", "a relay", "--figures", str(tmp_path / "figures")])
    assert (done.exit_code, (tmp_path / "figures").exists()) == (1, False) and why in done.stderr


def test_a_result_is_kept_and_read_again(tmp_path: Path) -> None:
    path, folder = tmp_path / "relay-1.json", tmp_path / "figures"
    path.write_text(json.dumps(RESULT))
    done = CliRunner().invoke(main, [str(path), "--about", "a relay", "--figures", str(folder)], catch_exceptions=False)
    (file,) = files(folder)
    assert done.stdout.strip() == str(file) == str(folder / "relay-1.json.xz")
    assert load(file) == {**RESULT, "argv": ["quicksilver", "bench"], "about": "a relay"}
    assert html_beside(file) == folder / "relay-1.html"


def test_a_file_that_is_not_compressed_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "relay-1.json.xz"
    path.write_text("{}")
    with pytest.raises(ValueError, match="not compressed by xz"):
        load(path)
    path.write_bytes(lzma.compress(b"[]"))
    with pytest.raises(ValueError, match="not an object"):
        load(path)
