"""Configuration directories of Cloudera Manager, which are new at each start of a daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop import managed
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.common.hadoop.managed import newest, process_dir

NODE = "yarn-NODEMANAGER"


def process(root: Path, name: str, port: int) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    text = f"<property><name>yarn.nodemanager.address</name><value>node7.example:{port}</value></property>"
    (folder / "yarn-site.xml").write_text(f"<configuration>{text}</configuration>")
    return folder


def test_the_directory_with_the_highest_number_counts(tmp_path: Path) -> None:
    for number, port in ((99, 1), (1009, 3), (546, 2)):
        process(tmp_path, f"{number}-{NODE}", port)
    process(tmp_path, "2000-yarn-RESOURCEMANAGER", 4)
    pattern = tmp_path / f"*-{NODE}"
    assert newest(pattern).name == f"1009-{NODE}"
    assert load_hadoop_conf(pattern).address("yarn.nodemanager.address").port == 3
    assert load_hadoop_conf(None, {"HADOOP_CONF_DIR": str(pattern)}).directory == newest(pattern)
    latest = process(tmp_path, f"1010-{NODE}", 5)
    assert load_hadoop_conf(pattern).directory == latest


def test_a_pattern_that_nothing_matches_is_named_as_it_is(tmp_path: Path) -> None:
    pattern = tmp_path / f"*-{NODE}"
    with pytest.raises(SettingsError, match=r"\*-yarn-NODEMANAGER: no such directory"):
        load_hadoop_conf(pattern)
    assert newest(tmp_path / "conf") == tmp_path / "conf"


def test_a_daemon_of_this_host_is_found_by_its_role(tmp_path: Path) -> None:
    assert process_dir("nodemanager", tmp_path) is None
    latest = process(tmp_path, f"12-{NODE}", 1)
    assert process_dir("nodemanager", tmp_path) == latest
    (latest / "yarn-site.xml").unlink()
    assert process_dir("nodemanager", tmp_path) is None


def test_the_doctor_looks_at_what_a_node_runs_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latest = process(tmp_path / "process", f"12-{NODE}", 8041)
    monkeypatch.setattr(managed, "PROCESSES", tmp_path / "process")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(process(tmp_path, "clients", 1)))
    text = CliRunner().invoke(cli, ["doctor", "--offline", "--node"]).output
    assert f"node7.example ({latest})" in text
    other = process(tmp_path, "named", 2)
    text = CliRunner().invoke(cli, ["doctor", "--offline", "--node", "--conf-dir", str(other)]).output
    assert str(other) in text and str(latest) not in text
