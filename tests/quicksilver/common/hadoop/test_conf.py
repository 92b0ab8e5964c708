from pathlib import Path

import pytest

from quicksilver.common.address import Address, parse_address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf


def conf(directory: Path, env: dict[str, str] | None = None, **files: dict[str, str]) -> HadoopConf:
    for name, properties in files.items():
        rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>\n" for k, v in properties.items())
        (directory / f"{name}-site.xml").write_text(f"<configuration>\n{rows}</configuration>")
    return load_hadoop_conf(directory, env or {})


def test_defaults_fill_what_no_file_sets_and_follow_the_hostname(tmp_path: Path) -> None:
    read = conf(tmp_path, yarn={"yarn.resourcemanager.hostname": "rm.example"})
    assert read.rm_address("yarn.resourcemanager.scheduler.address") == Address("rm.example", 8030)
    assert read.rm_web_url() == "http://rm.example:8088"
    assert read.text("no.such.property") is None
    assert not read.ha and read.rm_ids() == [] and read.rm_id() is None


def test_later_files_override_and_final_stays(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>a</name><value>core</value><final>true</final></property>"
        "<property><name>b</name><value>core</value></property></configuration>"
    )
    read = conf(tmp_path, yarn={"a": "yarn", "b": "yarn"})
    assert (read.text("a"), read.text("b")) == ("core", "yarn")
    assert read.place("a") == f"{tmp_path / 'core-site.xml'}:1: a"


def test_variables_of_properties_environment_and_system(tmp_path: Path) -> None:
    read = conf(
        tmp_path,
        {"HOST": "node7", "HADOOP_HOME": "/opt/hadoop", "HADOOP_USER_NAME": "yarn", "EMPTY": ""},
        yarn={
            "x": "${y}-${env.HOST}-${env.NONE:-fall}-${env.EMPTY:-back}-${env.NONE-other}",
            "y": "${z}",
            "z": "deep",
            "self": "${self}!",
            "unknown": "${nobody}",
        },
    )
    assert read.text("x") == "deep-node7-fall-back-other"
    assert read.text("self") == "${self}!"
    assert read.text("unknown") == "${nobody}"
    assert read.names("yarn.nodemanager.local-dirs") == ["/tmp/hadoop-yarn/nm-local-dir"]
    assert read.text("yarn.nodemanager.log-dirs") == "/opt/hadoop/logs/userlogs"


def test_variables_in_circles_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"needs 20 substitutions or more"):
        conf(tmp_path, yarn={"a": "${b}", "b": "x${a}"}).text("a")


@pytest.mark.parametrize(
    ("text", "seconds"), [("600000", 600.0), ("10s", 10.0), ("5m", 300.0), ("250ms", 0.25), ("2h", 7200.0)]
)
def test_durations(tmp_path: Path, text: str, seconds: float) -> None:
    assert conf(tmp_path, yarn={"t": text}).duration_s("t") == seconds


def test_typed_values_and_their_errors_name_file_and_line(tmp_path: Path) -> None:
    read = conf(tmp_path, yarn={"n": "0x10", "y": "yes", "t": "TRUE", "l": " a, ,b ", "bad": "many", "addr": "host:x"})
    assert (read.integer("n"), read.boolean("t"), read.names("l")) == (16, True, ["a", "b"])
    assert (read.boolean("y"), read.boolean("y", True)) == (False, True), "Hadoop takes the default"
    for call in (read.integer, read.duration_s):
        with pytest.raises(SettingsError, match=r"yarn-site\.xml:6: bad: 'many' is not"):
            call("bad")
    with pytest.raises(SettingsError, match=r"yarn-site\.xml:7: addr: 'host:x' is not an address"):
        read.address("addr")
    with pytest.raises(SettingsError, match=r"mapreduce\.absent is not set; add this property"):
        read.integer("mapreduce.absent")


HA = {
    "yarn.resourcemanager.ha.enabled": "true",
    "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
    "yarn.resourcemanager.hostname.rm1": "one",
    "yarn.resourcemanager.hostname.rm2": "two",
    "yarn.resourcemanager.scheduler.address.rm2": "two:18030",
}


def test_high_availability_chooses_by_id(tmp_path: Path) -> None:
    read = conf(tmp_path, yarn=HA)
    name = "yarn.resourcemanager.scheduler.address"
    assert read.rm_address(name, "rm1") == Address("one", 8030)
    assert read.rm_address(name, "rm2") == Address("two", 18030)
    with pytest.raises(SettingsError, match=r"several ResourceManagers \(rm1, rm2\).*set yarn.resourcemanager.ha.id"):
        read.rm_address(name)
    with pytest.raises(SettingsError, match=r"no ResourceManager has the id rm3; take one of rm1, rm2"):
        read.rm_address(name, "rm3")
    here = conf(tmp_path, yarn=HA | {"yarn.resourcemanager.ha.id": "rm1"})
    assert here.rm_id() == "rm1" and here.rm_address(name) == Address("one", 8030)


def test_https_web_addresses(tmp_path: Path) -> None:
    read = conf(
        tmp_path,
        yarn={
            "yarn.http.policy": "HTTPS_ONLY",
            "yarn.resourcemanager.hostname": "rm",
            "yarn.nodemanager.webapp.https.address": "node1:8044",
            "yarn.nodemanager.bind-host": "127.0.0.1",
        },
    )
    assert read.rm_web_url() == "https://rm:8090"
    assert read.nm_web_url() == "https://127.0.0.1:8044"


def test_includes_are_followed(tmp_path: Path) -> None:
    (tmp_path / "more.xml").write_text(
        "<configuration><property><name>a</name><value>in</value></property></configuration>"
    )
    (tmp_path / "yarn-site.xml").write_text(
        '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="more.xml"/></configuration>'
    )
    assert load_hadoop_conf(tmp_path, {}).text("a") == "in"
    (tmp_path / "more.xml").write_text('<configuration><include href="more.xml"/></configuration>')
    with pytest.raises(SettingsError, match="round in circles"):
        load_hadoop_conf(tmp_path, {})
    (tmp_path / "more.xml").unlink()
    with pytest.raises(SettingsError, match=r"yarn-site\.xml:1: there is no file 'more.xml' to include"):
        load_hadoop_conf(tmp_path, {})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<configuration>\n<property>\n</configuration>", r":3: not well-formed XML: mismatched tag; mend the file"),
        ("", r":1: not well-formed XML: no element found"),
        ('<?xml version="1.0" encoding="nobody"?><configuration/>', r":1: its encoding nobody is not known"),
        ("<configuration>\n<!-- \udce4 --></configuration>", r":2: is no UTF-8; say its encoding"),
        ("<configuration>\n&nbsp;</configuration>", r":2: not well-formed XML: undefined entity"),
        (
            '<!DOCTYPE c [<!ENTITY x SYSTEM "http://x.example/y">]>\n<configuration>&x;</configuration>',
            r":2: http://x.example/y is not read over the network; put a copy of it beside this file",
        ),
        (
            '<configuration>\n<include href="http://x.example/y"/></configuration>',
            r":2: http://x.example/y is not read over the network",
        ),
    ],
)
def test_malformed_files_name_file_and_line(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "yarn-site.xml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError, match=r"yarn-site\.xml" + error):
        load_hadoop_conf(tmp_path, {})


def test_what_hadoop_passes_over_is_kept_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration>\n<property><value>1</value></property>\n<property><name/><value>2</value></property>\n"
        "<property><name>a</name><value>3</value></property></configuration>"
    )
    (tmp_path / "mapred-site.xml").write_text("\n<html/>")
    read = load_hadoop_conf(tmp_path, {})
    assert read.text("a") == "3"
    assert [(each.file.name, each.line, each.text) for each in read.ignored] == [
        ("mapred-site.xml", 2, "the root is <html> instead of <configuration>"),
        ("yarn-site.xml", 2, "a <property> without a <name>"),
        ("yarn-site.xml", 3, "a <property> without a <name>"),
    ]


def test_a_missing_directory_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone: no such directory; set HADOOP_CONF_DIR"):
        load_hadoop_conf(None, {"HADOOP_CONF_DIR": str(tmp_path / "gone")})
    with pytest.raises(SettingsError, match=r"no core-site.xml and no yarn-site.xml there"):
        load_hadoop_conf(None, {"YARN_CONF_DIR": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("h:1", Address("h", 1)), (" 10.0.0.1:65535 ", Address("10.0.0.1", 65535)), ("[::1]:80", Address("::1", 80))],
)
def test_addresses(text: str, parsed: Address) -> None:
    assert parse_address(text, "here") == parsed
    assert str(parsed) == text.strip()


@pytest.mark.parametrize("text", ["", ":80", "h", "h:", "h:-1", "h:65536", "h:8o", "h:²"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(SettingsError, match=r"here: .* is not an address; write it as host:port"):
        parse_address(text, "here")
