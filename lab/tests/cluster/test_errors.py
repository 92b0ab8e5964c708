"""What cannot be done is refused with place and remedy, by the API and by the commands."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver_lab.cluster import Cluster, ClusterSpec, DaemonFailedError, PortInUseError, StateError
from quicksilver_lab.cluster.commands import Launcher
from quicksilver_lab.cluster.daemon_processes import DaemonProcesses
from quicksilver_lab.cluster.daemons import Daemon
from quicksilver_lab.cluster.errors import CommandFailedError
from quicksilver_lab.cluster.ports import Listen, check_free
from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.runtime.java import Java
from quicksilver_lab.cluster.spec import HostPort
from quicksilver_lab.cluster.state import exclusive


@pytest.fixture
def taken() -> Iterator[HostPort]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield HostPort(*listener.getsockname())


def test_a_taken_port_is_named_with_purpose_holder_and_remedy(taken: HostPort) -> None:
    free = HostPort("127.0.0.77", taken.port)
    with pytest.raises(PortInUseError) as caught:
        check_free([Listen(free, "free one"), Listen(taken, "RM web")], "Choose another.")
    assert str(caught.value).startswith(f"in use: {taken} (RM web) by process ")
    assert str(caught.value).endswith("). Choose another.")
    assert "free one" not in str(caught.value)


def test_a_listener_on_all_addresses_takes_the_port_of_each(taken: HostPort) -> None:
    with pytest.raises(PortInUseError):
        check_free([Listen(HostPort("0.0.0.0", taken.port), "shuffle")], "")


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(PortInUseError, match=r"192.0.2.1:5000 \(x\) cannot be listened on: Cannot assign"):
        check_free([Listen(HostPort("192.0.2.1", 5000), "x")], "")


def test_two_commands_on_one_folder_exclude_each_other(tmp_path: Path) -> None:
    with exclusive(tmp_path), pytest.raises(StateError, match="another command is starting or stopping"):
        Cluster(ClusterSpec(workdir=tmp_path)).stop()


def test_a_command_may_wait_for_its_turn(tmp_path: Path) -> None:
    held, done = threading.Event(), threading.Event()

    def first() -> None:
        with exclusive(tmp_path):
            held.set()
            done.wait(5)

    thread = threading.Thread(target=first)
    thread.start()
    assert held.wait(5)
    threading.Timer(0.1, done.set).start()
    with exclusive(tmp_path, wait_s=5):
        assert done.is_set()
    thread.join()


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(StateError, match=r"cluster.json is damaged"):
        Cluster.attach(tmp_path)


def test_yarn_of_a_stopped_cluster_cannot_restart(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"is not running. Start it first"):
        Cluster(ClusterSpec(workdir=tmp_path)).restart_yarn(overlay=False)


def test_a_daemon_that_ends_is_reported_with_log_and_the_rest_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'cannot bind' >&2; exit 3\n")
    java.chmod(0o755)
    monkeypatch.setattr("quicksilver_lab.cluster.launchers.find_java", lambda **_: Java(java.parent.parent, 17))
    monkeypatch.setattr("quicksilver_lab.cluster.launchers.hadoop_jars", lambda *_, **__: Jars(tmp_path))
    (tmp_path / "work" / "hdfs" / "name" / "current").mkdir(parents=True)
    (tmp_path / "work" / "hdfs" / "name" / "current" / "VERSION").touch()
    monkeypatch.setattr(DaemonProcesses, "check_ports", lambda *_: None)
    spec = ClusterSpec(workdir=tmp_path / "work", nodes=1)
    with pytest.raises(DaemonFailedError, match=r"(?s)ended while starting. Its log is .*\.log; .*cannot bind"):
        Cluster(spec).start()
    assert Cluster.attach(tmp_path / "work").status().daemons == ()


def test_a_daemon_that_stays_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(ClusterSpec(workdir=tmp_path, start_timeout_s=0.3))
    (tmp_path / "logs").mkdir()
    cluster.log("mute").write_text("thinking\n")
    monkeypatch.setattr(DaemonProcesses, "alive", lambda _: {"mute": object()})
    mute = Daemon("mute", "x.Y", tmp_path, 64, (), is_up=lambda: False)
    with pytest.raises(DaemonFailedError, match=r"(?s)mute: not up after 0.3 s.*thinking"):
        cluster.processes.wait([mute], lambda _: None)


def test_a_client_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexec sleep 60\n")
    java.chmod(0o755)
    launcher = Launcher(Java(tmp_path, 17), Jars(tmp_path), tmp_path / "hosts")
    with pytest.raises(CommandFailedError, match=r"fs -ls /: not done after 0.2 s. Is the proxy running"):
        launcher.run("fs", ["-ls", "/"], tmp_path, None, 0.2, check=True)


def test_settings_for_another_hadoop_do_not_reach_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_OPTS", "-Dx")
    monkeypatch.setenv("YARN_CONF_DIR", "/elsewhere")
    env = Launcher(Java(tmp_path, 17), Jars(tmp_path), tmp_path / "hosts").env(tmp_path / "conf", user="alice")
    assert "HADOOP_OPTS" not in env
    assert "YARN_CONF_DIR" not in env
    assert (env["HADOOP_CONF_DIR"], env["HADOOP_USER_NAME"]) == (str(tmp_path / "conf"), "alice")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["status"], "no cluster was started here. Start one with: quicksilver cluster start --dir"),
        (["stop"], "no cluster was started here"),
        (["start", "--spnego"], "spnego needs kerberos"),
        (["run", "fs", "-ls", "/"], "no cluster was started here"),
        (["start", "--base-port", "32700"], "must stay below 32768: choose a lower base_port"),
        (["start", "--nodes", "0"], "nodes: Input should be greater than or equal to 1"),
    ],
)
def test_commands_show_one_clear_line(tmp_path: Path, args: list[str], complaint: str) -> None:
    result = CliRunner().invoke(cli, ["cluster", args[0], "--dir", str(tmp_path / "none"), *args[1:]])
    assert result.exit_code == 1
    assert result.output.startswith("quicksilver: error: ")
    assert complaint in result.output
    assert isinstance(result.exception, SystemExit)
    assert not (tmp_path / "none").exists()
