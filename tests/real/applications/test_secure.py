"""Applications on a secure cluster: logins by keytab and by the tickets of kinit, files of HDFS read by its token."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quicksilver.cli import cli
from quicksilver_apps.client.records import HOME
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.kerberos import REALM
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec

pytestmark = [pytest.mark.hadoop, pytest.mark.kerberos]
Program = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("secure"),
        base_port=free_base_port(1),
        nodes=1,
        overlay=False,
        kerberos=True,
        spnego=True,
        min_allocation_mb=256,
        queues={"default": 100},
    )
    made = Cluster(spec)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def program(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    for name, value in {**cluster.kerberos.env, "HADOOP_CONF_DIR": str(cluster.conf_dir)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    return lambda *arguments: CliRunner().invoke(cli, ["app", *map(str, arguments)], catch_exceptions=False)


def described(folder: Path) -> Path:
    (folder / "words.txt").write_text("read by its token")
    path = folder / "app.yaml"
    path.write_text(
        "version: 1\nname: secure\nfiles: [{source: words.txt}]\nservices:\n- name: main\n  core: 1\n  main: true\n"
        '  resources: {memory_mb: 256}\n  command: grep -q "read by its token" words.txt\n'
    )
    return path


def test_by_keytab(cluster: Cluster, program: Program, tmp_path: Path) -> None:
    user = getpass.getuser()
    login = ("--principal", f"{user}@{REALM}", "--keytab", cluster.kerberos.keytab(user))
    result = program("run", described(tmp_path), *login)
    assert result.exit_code == 0, result.output
    assert re.search(r"succeeded after [\d.]+ s$", result.output.strip())


def test_by_tickets(cluster: Cluster, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cluster.kerberos.tickets(getpass.getuser())}")
    result = program("run", described(tmp_path))
    assert result.exit_code == 0, result.output


def test_without_a_login_nothing_is_submitted(program: Program, tmp_path: Path) -> None:
    assert not Path(os.environ["KRB5CCNAME"].removeprefix("FILE:")).exists()
    result = program("submit", described(tmp_path))
    assert result.exit_code == 1 and result.stdout == ""
    assert "no Kerberos login at HTTP@127.0.0.1" in result.stderr
    assert "get tickets with `kinit`, or name --principal and --keytab" in result.stderr
    waiting = program("wait", "application_1_0001")
    assert waiting.exit_code == 1 and "get tickets with `kinit`" in waiting.stderr
