"""Installing adds what is needed and nothing else; uninstalling leaves every byte as it was."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.cli import cli
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver.doctor.install import BEGIN, END, WantedValue, install, merged, uninstall
from quicksilver.doctor.model import CLIENT, NM, RM, Role
from quicksilver.doctor.site_edit import apply, layout, property_xml
from tests.quicksilver.doctor.words import ALL_Q, LAS, copy_of, serious

ROLES: tuple[Role, ...] = (RM, NM, CLIENT)
BIND = "yarn.nodemanager.bind-host"
ADMINS = """\
<?xml version="1.0"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- ours, since 2019 -->
<configuration>

	<property><name>yarn.resourcemanager.hostname</name><value>rm.example</value></property>
  <property>
      <!-- asked for by the data team -->
      <value>node7.example</value>
      <name>yarn.nodemanager.hostname</name>
  </property>
  <property><name>yarn.nodemanager.bind-host</name> <value>0.0.0.0</value></property>
  <property><name>yarn.nodemanager.address</name><value>${yarn.nodemanager.hostname}:45454</value></property>
</configuration>
<!-- end -->
"""


def site(folder: Path, text: str = ADMINS) -> Path:
    file = folder / "yarn-site.xml"
    file.write_bytes(text.encode())
    return file


def put(folder: Path, role: Role, extras: tuple[str, ...] = (), host: str = "") -> None:
    for change in install(folder, WantedValue({role: extras}, host), overlay_root()):
        assert change.after is not None
        change.file.write_bytes(change.after)


def take(folder: Path) -> None:
    for change in uninstall(folder):
        if change.after is None:
            change.file.unlink()
        else:
            change.file.write_bytes(change.after)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "text",
    [
        ADMINS,
        ADMINS.replace("\n", "\r\n"),
        ADMINS.replace("</property>\n</configuration>\n<!-- end -->\n", "</property></configuration>"),
        ADMINS.replace("\n</configuration>", "\n   </configuration>"),
        ADMINS.replace("<!-- end -->", "<!-- </configuration> ü -->"),
    ],
    ids=["plain", "crlf", "one line", "indented", "comment"],
)
def test_nothing_is_left_of_it(role: Role, text: str, tmp_path: Path) -> None:
    file = site(tmp_path, text)
    put(tmp_path, role, ("sharing", "tracker"))
    assert file.read_bytes() != text.encode()
    assert install(tmp_path, merged(tmp_path, [role], ("sharing", "tracker"), "", False), overlay_root()) == []
    take(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"yarn-site.xml": text.encode()}


def test_what_is_said_already_is_not_said_again_and_what_differs_is_overridden(tmp_path: Path) -> None:
    file = site(tmp_path)
    put(tmp_path, NM)
    conf = load_hadoop_conf(tmp_path)
    assert conf.text(BIND) == "127.0.0.1"
    assert conf.text("yarn.nodemanager.address") == "node7.example:45454"  # others know this port
    assert conf.text("yarn.nodemanager.webapp.address") == "node7.example:8042"
    text = file.read_text()
    assert text.startswith(ADMINS.partition("</configuration>")[0])
    assert f"<!-- overrides {BIND}: 0.0.0.0 -->" in text
    assert text.count("<name>yarn.nodemanager.hostname</name>") == 1


def test_a_node_with_nftables_keeps_its_address(tmp_path: Path) -> None:
    copy = copy_of(tmp_path, f"{ALL_Q}sidecar: {{intercept: nftables}}\n", overlay=False, nodes=1)
    put(copy.conf.nodemanagers[0], NM, ("nftables",))
    conf = load_hadoop_conf(copy.conf.nodemanagers[0])
    assert (conf.text(BIND), conf.text("yarn.nodemanager.localizer.address")) == ("0.0.0.0", "127.0.0.11:18101")
    assert [one["code"] for one in serious(copy.look()) if one["places"][0]["role"] == "nodemanager"] == []
    copy.change("nm", "yarn-site.xml", {BIND: "127.0.0.1"})
    assert "nm-bind-host" in {one["code"] for one in serious(copy.look())}


def test_an_older_installation_is_replaced(tmp_path: Path) -> None:
    file = site(tmp_path)
    put(tmp_path, NM, ("tracker",))
    put(tmp_path, RM)
    assert file.read_text().count(BEGIN) == file.read_text().count(END) == 1
    assert "tracker" not in file.read_text()
    take(tmp_path)
    assert file.read_text() == ADMINS


def test_the_scheduler_moves_on_its_own_hosts(tmp_path: Path) -> None:
    site(tmp_path)
    put(tmp_path, RM)
    address = "yarn.resourcemanager.scheduler.address"
    assert load_hadoop_conf(tmp_path).text(address) == "rm.example:18030"
    names = {"ha.enabled": "true", "ha.rm-ids": "a,b", "hostname.a": "one", "hostname.b": "two"}
    file = site(tmp_path)
    file.write_bytes(
        apply(file.read_bytes(), {f"yarn.resourcemanager.{name}": text for name, text in names.items()}, (), file)
    )
    put(tmp_path, RM)
    conf = load_hadoop_conf(tmp_path)
    assert [str(conf.rm_address(address, rm_id)) for rm_id in ("a", "b")] == ["one:18030", "two:18030"]
    assert (conf.boolean("yarn.resourcemanager.recovery.enabled"), conf.text(f"{address}.rm1")) == (True, None)
    take(tmp_path)
    put(tmp_path, NM)
    assert load_hadoop_conf(tmp_path).text("yarn.client.failover-sleep-max-ms") == "1000"


def test_a_node_needs_a_name(tmp_path: Path) -> None:
    site(tmp_path, ADMINS.replace("node7.example", "0.0.0.0"))
    with pytest.raises(SettingsError, match=r"yarn-site\.xml:\d+: yarn\.nodemanager\.hostname: names no host.*--host"):
        install(tmp_path, WantedValue({NM: ()}), overlay_root())
    put(tmp_path, NM, host="node8.example")
    assert load_hadoop_conf(tmp_path).text("yarn.nodemanager.address") == "node8.example:45454"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ADMINS.replace("0.0.0.0</value>", "0.0.0.0</value><final>true</final>"), r"yarn-site\.xml:12: .* is final"),
        (ADMINS.replace("<property>", "<property", 1), r"yarn-site\.xml:\d+: not well-formed XML"),
        ("<configuration/>", "no place for properties"),
        ("<conf></conf>", "must be <configuration>"),
        (ADMINS.replace("ours", END), "node8"),
        (f"<configuration><!-- {END} --></configuration>", "by hand"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(text: str, why: str, tmp_path: Path) -> None:
    site(tmp_path, text)
    if why == "node8":  # outside of the configuration such a comment is only a comment
        put(tmp_path, NM)
        return
    with pytest.raises(SettingsError, match=why):
        install(tmp_path, WantedValue({NM: ()}, "node8"), overlay_root())
    assert (tmp_path / "yarn-site.xml").read_text() == text


def test_a_final_that_says_the_same_is_fine(tmp_path: Path) -> None:
    site(tmp_path, ADMINS.replace("0.0.0.0</value>", "127.0.0.1</value><final>true</final>"))
    put(tmp_path, NM)
    assert load_hadoop_conf(tmp_path).text(BIND) == "127.0.0.1"


BLANKS = st.text(" \t\n", max_size=6)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="<>&-\r", exclude_categories=("Cc", "Cs")), max_size=20)
NAMES = st.sampled_from([BIND, "yarn.nodemanager.hostname", "yarn.x", "quicksilver.nodemanager.port", "a.b"])


@settings(deadline=None)  # files are written
@given(st.lists(st.tuples(BLANKS, NAMES, TEXTS, BLANKS, TEXTS), max_size=6), BLANKS, st.sampled_from(ROLES))
def test_any_file_comes_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str, str, str, str]], end: str, role: Role
) -> None:
    folder = tmp_path_factory.mktemp("any")
    body = "".join(
        f"{a}<property><name>{n}</name>{b}<value>{v}</value></property><!--{c}-->" for a, n, v, b, c in parts
    )
    host = "<property><name>yarn.resourcemanager.hostname</name><value>rm</value></property>"
    text = f"<configuration>{host}{body}{end}</configuration>{end}"
    file = site(folder, text)
    try:
        put(folder, role, host="node1")
    except SettingsError:  # as for a host name that is none; then nothing was written
        assert file.read_bytes() == text.encode()
        return
    before, after = layout(text.encode(), file).values(), layout(file.read_bytes(), file)
    assert before.items() <= after.values().items() | {(n, before[n]) for n in before if n in text}
    take(folder)
    assert file.read_bytes() == text.encode()


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(words))
    return done.exit_code, done.output


def test_the_command_shows_and_does_it(tmp_path: Path) -> None:
    folder, out = tmp_path / "conf", tmp_path / "copy"
    folder.mkdir()
    file = site(folder)
    file.chmod(0o640)
    code, text = run("install", "--conf-dir", str(folder), "--role", "nodemanager", "--dry-run")
    assert code == 0
    assert "+    <value>127.0.0.1</value>\n" in text
    assert not [line for line in text.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert file.read_text() == ADMINS
    code, text = run("install", "--conf-dir", str(folder), "--role", "nodemanager", "--out", str(out))
    assert (code, file.read_text()) == (0, ADMINS)
    assert BEGIN in (out / "yarn-site.xml").read_text()
    assert "restart: NodeManager" in text
    assert run("install", "--conf-dir", str(folder), "--role", "client", "--out", str(out))[0] == 1
    code, text = run("install", "--conf-dir", str(folder), "--role", "nodemanager", "--in-place")
    (backup,) = folder.glob("yarn-site.xml.before-quicksilver-*")
    assert (code, backup.read_text(), file.stat().st_mode & 0o777) == (0, ADMINS, 0o640)
    code, text = run("uninstall", "--conf-dir", str(folder), "--in-place")
    assert (code, file.read_text()) == (0, ADMINS)
    assert "nothing to change" in run("uninstall", "--conf-dir", str(folder), "--dry-run")[1]
    assert run("uninstall", "--conf-dir", str(folder))[0] == 2


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, folder = tmp_path / "real", tmp_path / "conf"
    real.mkdir()
    folder.mkdir()
    file = site(real)
    (folder / "yarn-site.xml").symlink_to(file)
    assert run("install", "--conf-dir", str(folder), "--role", "nodemanager", "--in-place")[0] == 0
    assert (folder / "yarn-site.xml").is_symlink()
    assert BEGIN in file.read_text()


@pytest.mark.parametrize("settings", [ALL_Q, LAS], ids=["all", "las"])
def test_a_plain_cluster_with_it_installed_is_clean(settings: str, tmp_path: Path) -> None:
    """What hadoop-conf/ says is what the doctor wants."""
    copy = copy_of(tmp_path, settings.replace("18035", "18030"), base_port=19000, overlay=False, client_overlay=False)
    before = {one["code"] for one in serious(copy.look())}
    assert before > {"nm-bind-host", "opportunistic-off", "retry-interval", "scheduler-not-moved"}
    extras = ("sharing",) if settings is LAS else ()
    put(copy.conf.resourcemanager, RM, extras)
    for folder in copy.conf.nodemanagers:
        put(folder, NM, extras)
    put(copy.conf.client, CLIENT)
    assert serious(copy.look()) == []


def test_a_second_role_is_added_to_the_first(tmp_path: Path) -> None:
    file = site(tmp_path)
    assert (
        run("install", "--conf-dir", str(tmp_path), "--role", "nodemanager", "--with", "sharing", "--in-place")[0] == 0
    )
    code, text = run("install", "--conf-dir", str(tmp_path), "--role", "resourcemanager", "--in-place")
    assert code == 0
    assert "installed before and kept: nodemanager;" in text and "restart: ResourceManager, NodeManager" in text
    conf = load_hadoop_conf(tmp_path)
    assert conf.text(BIND) == "127.0.0.1" and conf.boolean(
        "yarn.resourcemanager.opportunistic-container-allocation.enabled"
    )
    strict = "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage"
    assert conf.properties[strict].value == "false"  # of `--with sharing`
    both = file.read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    site(other)
    words = ("--role", "resourcemanager", "--role", "nodemanager", "--in-place")
    assert run("install", "--conf-dir", str(other), *words)[0] == 0
    assert run("install", "--conf-dir", str(other), "--role", "nodemanager", "--with", "sharing", "--in-place")[0] == 0
    assert (other / "yarn-site.xml").read_bytes() == both
    take(tmp_path)
    assert {path.name for path in tmp_path.iterdir() if path.is_file() and "before" not in path.name} == {
        "yarn-site.xml"
    }
    assert file.read_text() == ADMINS


def test_two_roles_in_one_directory_move_the_scheduler_of_the_resourcemanager_alone(tmp_path: Path) -> None:
    site(tmp_path)
    code, _ = run("install", "--conf-dir", str(tmp_path), "--role", "resourcemanager", "--role", "client", "--in-place")
    address = "yarn.resourcemanager.scheduler.address"
    assert code == 0
    assert str(load_hadoop_conf(tmp_path).rm_address(address)) == "rm.example:8030"
    assert str(load_hadoop_conf(tmp_path, resourcemanager=True).rm_address(address)) == "rm.example:18030"


@pytest.mark.parametrize("env", [None, "", "# ours\n", "export A=1"], ids=["none", "empty", "line", "no end of line"])
def test_a_shared_directory_names_each_node_by_its_environment(env: str | None, tmp_path: Path) -> None:
    text = ADMINS.replace("node7.example", "0.0.0.0")
    file, script = site(tmp_path, text), tmp_path / "yarn-env.sh"
    if env is not None:
        script.write_text(env)
    wanted = merged(tmp_path, [RM, NM, CLIENT], (), "", True)
    for change in install(tmp_path, wanted, overlay_root()):
        assert change.after is not None
        change.file.write_bytes(change.after)
    assert install(tmp_path, merged(tmp_path, [RM], (), "", False), overlay_root()) == []
    for host in ("node1", "node2"):
        own = load_hadoop_conf(tmp_path, {"QUICKSILVER_NODE": host})
        assert str(own.address("yarn.nodemanager.address")) == f"{host}:45454"
    command = f". {script}; echo $QUICKSILVER_NODE; echo $YARN_RESOURCEMANAGER_OPTS; echo $A"
    done = subprocess.run(
        ["bash", "-ec", command], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    named, options, a = done.stdout.split("\n")[:3]
    assert named == load_hadoop_conf(tmp_path, {}).text("yarn.nodemanager.hostname")  # as the sidecar reads it
    assert options == "-Dquicksilver.resourcemanager.scheduler.port=18030"
    assert a == ("1" if env == "export A=1" else "")
    take(tmp_path)
    assert file.read_text() == text
    assert (script.read_text() if script.exists() else None) == env


def test_a_part_of_a_block_in_yarn_env_is_not_guessed_at(tmp_path: Path) -> None:
    site(tmp_path)
    (tmp_path / "yarn-env.sh").write_text("# quicksilver install: end\n")
    with pytest.raises(SettingsError, match=r"yarn-env\.sh: has a part of what quicksilver installed"):
        uninstall(tmp_path)


def test_one_name_for_all_nodes_is_refused(tmp_path: Path) -> None:
    site(tmp_path)
    code, text = run(
        "install", "--conf-dir", str(tmp_path), "--role", "nodemanager", "--shared", "--host", "n", "--dry-run"
    )
    assert code == 2 and "--host names one node" in text


def test_the_directory_is_found_as_by_all_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site(tmp_path)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert "+    <value>127.0.0.1</value>" in run("install", "--role", "nodemanager", "--dry-run")[1]
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "absent"))
    code, text = run("install", "--role", "nodemanager", "--dry-run")
    assert code == 1 and "absent: no such directory; set HADOOP_CONF_DIR" in text


def test_a_safety_valve_names_no_node(tmp_path: Path) -> None:
    file = tmp_path / "yarn-site.xml"
    own = {"yarn.nodemanager.address": "node7.example:8041", "yarn.nodemanager.webapp.address": "node7.example:8042"}
    file.write_text(f"<configuration>{property_xml(own)}</configuration>")
    text = run("install", "--conf-dir", str(tmp_path), "--role", "nodemanager", "--format", "xml")[1]
    found = layout(f"<configuration>{text}</configuration>".encode(), file).values()
    assert found[BIND] == "127.0.0.1" and found["yarn.nodemanager.localizer.address"].startswith("127.0.0.1:")
    assert "node7" not in text and "yarn.nodemanager.hostname" not in text
    assert not own.keys() & found.keys() and "quicksilver.nodemanager.port" not in found
    own["yarn.nodemanager.address"] = "node7.example:0"
    file.write_text(f"<configuration>{property_xml(own)}</configuration>")
    text = run("install", "--conf-dir", str(tmp_path), "--role", "nodemanager", "--format", "xml")[1]
    found = layout(f"<configuration>{text}</configuration>".encode(), file).values()
    assert found["yarn.nodemanager.hostname"] == "node7.example"
    assert found["quicksilver.nodemanager.port"] == "8041"


def test_managers_get_the_properties_as_text(tmp_path: Path) -> None:
    file = site(tmp_path)
    code, text = run("install", "--conf-dir", str(tmp_path), "--role", "nodemanager", "--format", "properties")
    lines = text.splitlines()
    assert code == 0 and lines[0] == "# yarn-site.xml"
    assert "yarn.nodemanager.address=${yarn.nodemanager.hostname}:${quicksilver.nodemanager.port}" in lines
    assert f"{BIND}=127.0.0.1" in lines
    text = run("install", "--conf-dir", str(tmp_path), "--role", "resourcemanager", "--format", "xml")[1]
    found = layout(f"<configuration>{text}</configuration>".encode(), file).values()
    assert found["yarn.resourcemanager.opportunistic-container-allocation.nodes-used"] == "0"
    words = ("--role", "resourcemanager", "--with", "hadoop31", "--format", "properties")
    text = run("install", "--conf-dir", str(tmp_path), *words)[1]
    assert "yarn.resourcemanager.opportunistic-container-allocation.nodes-used=-1\n" in text
    words = ("--role", "resourcemanager", "--role", "nodemanager", "--format", "properties")
    text = run("install", "--conf-dir", str(tmp_path), *words)[1]
    assert "# yarn-env.sh\nexport YARN_RESOURCEMANAGER_OPTS=" in text
    assert file.read_text() == ADMINS
