"""A tool of Java that fails, or hangs, is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver_lab.cluster.errors import DownloadError
from quicksilver_lab.cluster.runtime import tools
from quicksilver_lab.cluster.runtime.java import Java

JAVA = Java(Path("/java"), 17)


def test_a_tool_that_fails_is_named() -> None:
    with pytest.raises(DownloadError, match="the job does not compile: no such file"):
        tools.run_tool(["/bin/sh", "-c", "echo no such file; exit 2"], JAVA, "the job does not compile")


def test_a_tool_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "TIMEOUT_S", 0.05)
    with pytest.raises(DownloadError, match=r"the job does not compile: not done within 0\.05 s"):
        tools.run_tool(["/bin/sleep", "60"], JAVA, "the job does not compile")


def test_a_tool_runs_under_the_java_given(tmp_path: Path) -> None:
    tools.run_tool(["/bin/sh", "-c", f'echo "$JAVA_HOME" > {tmp_path}/home'], JAVA, "it does not run")
    assert (tmp_path / "home").read_text() == "/java\n"
