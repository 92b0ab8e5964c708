"""What `cluster start` and `cluster status` print."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver_lab.cluster import ClusterSpec
from quicksilver_lab.cluster.cli import _print
from quicksilver_lab.cluster.cluster import ClusterStatus, DaemonStatus


def test_paths_of_logs_are_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were in a column of a table, which cut them: `resourc…`."""
    monkeypatch.setenv("COLUMNS", "40")
    logs = [Path("/a/folder/with/a/long/name/run/cluster/logs") / f"{name}.log" for name in ("rm", "nodemanager-node1")]
    daemons = tuple(DaemonStatus(log.stem, 1, alive=True, up=True, log=log) for log in logs)
    _print(ClusterStatus(ClusterSpec(), daemons, {}, 0), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("log of")] == [f"log of {log.stem}: {log}" for log in logs]
