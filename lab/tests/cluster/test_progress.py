"""Progress where there is no terminal: a download is a few lines, everything else is printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quicksilver_lab.cluster.cli import _with_progress
from quicksilver_lab.cluster.progress import FewLines
from quicksilver_lab.workloads.environment import Progresses


def downloaded(files: int) -> str:
    return f"Hadoop 3.4.2: {files} files downloaded, 0 jars in place"


def test_of_a_download_one_line_in_ten_seconds_is_printed() -> None:
    now_s = 0.0
    lines = FewLines(lambda: now_s)
    printed = []
    for files in range(691):
        now_s = files * 0.05
        printed += [files] if lines.prints(downloaded(files)) else []
    assert printed == [0, 200, 400, 600]
    assert lines.prints("node1 starting") and lines.prints("node1 starting")


def report(progress: Callable[[str], None]) -> None:
    for files in range(691):
        progress(downloaded(files))
    progress("resourcemanager up after 2.0 s")


def as_a_command() -> None:
    _with_progress("YARN", report)


def as_a_workload() -> None:
    report(Progresses())


@pytest.mark.parametrize("show", [as_a_command, as_a_workload])
def test_without_a_terminal_a_download_is_few_lines_and_not_none(
    show: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    show()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= 4
    assert lines[0].endswith(downloaded(0)) and lines[-1].endswith("resourcemanager up after 2.0 s")
