"""What `cluster hosts` and `cluster on` say of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver_lab.cluster.errors import ClusterError
from quicksilver_lab.cluster.hosts.cli import hosts, on
from quicksilver_lab.cluster.hosts.network import READY_FILE


def test_a_network_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="racks: Input should be greater than or equal to 1"):
        CliRunner().invoke(hosts, ["--dir", str(tmp_path), "--racks", "0"], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"no network of hosts runs here. Start one: quicksilver cluster hosts"):
        CliRunner().invoke(on, ["--dir", str(tmp_path), "client", "true"], catch_exceptions=False)
    (tmp_path / READY_FILE).write_text(json.dumps({"pid": 1, "hosts": {"client": 1, "rm1": 1}}))
    with pytest.raises(ClusterError, match=r"node9: no such host. Take one of: client, rm1"):
        CliRunner().invoke(on, ["--dir", str(tmp_path), "node9", "true"], catch_exceptions=False)
