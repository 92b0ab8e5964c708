"""Settings, the places they come from, the command's errors, and that all of it is documented."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from policies.model import Resources
from quicksilver.common.address import Address
from quicksilver.common.errors import QuicksilverError, SettingsError
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.common.settings.settings_file import SettingsFileError
from sidecar.cli import sidecar
from sidecar.config import SidecarSettings
from sidecar.metrics import SidecarMetrics
from tests.paths import DOCS

DOC = DOCS / "sidecar.md"
OVERLAY = {
    "yarn.nodemanager.address": "node1:8041",
    "yarn.nodemanager.webapp.address": "node1:8042",
    "yarn.nodemanager.bind-host": "127.0.0.1",
    "yarn.nodemanager.local-dirs": "/a/nm,file:///b/nm",
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.resourcemanager.hostname": "rm1",
}


def conf_dir(folder: Path, properties: dict[str, str]) -> Path:
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    (folder / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    return folder


def test_everything_comes_from_the_nodemanagers_configuration(tmp_path: Path) -> None:
    place = SidecarSettings().place(load_hadoop_conf(conf_dir(tmp_path, OVERLAY)))
    assert (place.listen, place.upstream) == (Address("node1", 8041), Address("127.0.0.1", 8041))
    assert (place.web_listen, place.web_upstream) == (Address("node1", 8042), Address("127.0.0.1", 8042))
    assert (place.rest_url, place.proxy_url) == ("http://node1:8391", "http://rm1:8390")
    assert (place.node_id, place.capacity) == ("node1:8041", Resources(4096, 8))
    assert place.local_dirs == (Path("/a/nm"), Path("/b/nm"))


@pytest.mark.parametrize(
    ("properties", "believed"),
    [
        ({}, (8, 4096)),
        ({"cpu-vcores": "5", "memory-mb": "6144"}, (5, 6144)),
        ({"cpu-vcores": "-1", "memory-mb": "-1"}, (8, 8192)),
        ({"detect-hardware-capabilities": "true", "cpu-vcores": "-1", "memory-mb": "-1"}, (0, 0)),
    ],
    ids=["as Hadoop has it", "set", "asked for Hadoop's own", "detected"],
)
def test_what_the_nodemanager_believes_to_have(
    tmp_path: Path, properties: dict[str, str], believed: tuple[int, int]
) -> None:
    given = {f"yarn.nodemanager.resource.{name}": value for name, value in properties.items()}
    settings = SidecarSettings(vcores=4, memory_mb=2048)
    place = settings.place(load_hadoop_conf(conf_dir(tmp_path, OVERLAY | given)))
    assert (place.capacity, place.nm_vcores, place.nm_memory_mb) == (Resources(2048, 4), *believed)


def test_with_high_availability_all_proxies_get_reports(tmp_path: Path) -> None:
    ha = {"yarn.resourcemanager.ha.enabled": "true", "yarn.resourcemanager.ha.rm-ids": "a,b"}
    hosts = {f"yarn.resourcemanager.hostname.{rm}": f"rm-{rm}" for rm in "ab"}
    conf = load_hadoop_conf(conf_dir(tmp_path, OVERLAY | ha | hosts))
    assert SidecarSettings().place(conf).proxies == ("http://rm-a:8390", "http://rm-b:8390")
    chosen = SidecarSettings(proxy_urls=["http://x:1/", "http://y:2"])
    assert chosen.place(conf).proxies == ("http://x:1", "http://y:2")
    assert SidecarSettings(proxy_url="http://x:1").place(conf).proxies == ("http://x:1",)


def test_the_nodemanager_has_its_public_name_in_kerberos(tmp_path: Path) -> None:
    conf = load_hadoop_conf(conf_dir(tmp_path, OVERLAY))
    assert SidecarSettings().place(conf).web_host == "node1"
    anywhere = SidecarSettings.model_validate({"web_listen": "0.0.0.0:8042", "web_upstream": "127.0.0.1:8043"})
    assert anywhere.place(conf).web_host == "node1"
    assert SidecarSettings().keytab() is None
    with pytest.raises(SettingsError, match=r"sidecar\.kerberos_keytab: .*is not there"):
        SidecarSettings(kerberos_principal="a@B", kerberos_keytab=tmp_path / "none").keytab()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"yarn.nodemanager.address": "node1:0"}, "yarn.nodemanager.address: node1:0 is no fixed address of this node"),
        ({"yarn.nodemanager.address": "127.0.0.1:8041"}, "sidecar.listen: the sidecar would relay to itself"),
        (
            {"yarn.nodemanager.webapp.address": "127.0.0.1:8042"},
            "sidecar.web_listen: the sidecar would relay to itself",
        ),
        (
            {
                "yarn.nodemanager.resource.memory-mb": "-1",
                "yarn.nodemanager.resource.detect-hardware-capabilities": "true",
            },
            "the NodeManager detects its size by itself; set sidecar.memory_mb",
        ),
    ],
)
def test_what_cannot_work_is_said(tmp_path: Path, changed: dict[str, str], words: str) -> None:
    conf = load_hadoop_conf(conf_dir(tmp_path, OVERLAY | changed))
    with pytest.raises(SettingsError) as raised:
        SidecarSettings().place(conf)
    assert words in str(raised.value)


def run(tmp_path: Path, settings: str, *more: str) -> str:
    config = tmp_path / "quicksilver.yaml"
    config.write_text(settings)
    result = CliRunner().invoke(sidecar, ["run", "--config", str(config), *more])
    assert isinstance(result.exception, QuicksilverError | SettingsFileError), result.exception
    return str(result.exception)


def test_the_command_names_place_and_remedy(tmp_path: Path) -> None:
    assert "quicksilver.yaml:2:3: sidecar.holdlimit" in run(tmp_path, "sidecar:\n  holdlimit: 3\n")
    assert "sidecar.report_s" in run(tmp_path, "sidecar:\n  report_s: 0\n")
    missing = run(tmp_path, "policies: {}\n", "--conf-dir", str(tmp_path / "none"))
    assert "no such directory; name the directory of the cluster's site files" in missing
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"sidecar:\n  listen: 127.0.0.1:{port}\n"
        assert f"127.0.0.1:{port}: cannot listen: Address already in use; stop what holds the port" in run(
            tmp_path, text, "--conf-dir", str(conf_dir(tmp_path, OVERLAY))
        )


def test_each_setting_metric_and_route_is_documented() -> None:
    text = DOC.read_text()
    settings = (DOCS / "settings.md").read_text().partition("\n## Section `sidecar`\n")[2].partition("\n## ")[0]
    for name in SidecarSettings.model_fields:
        assert f"| `{name}` |" in settings, name
    for family in SidecarMetrics().registry.collect():
        assert f"`{family.name}" in text or "_process_" in family.name, family.name
    for route in (
        "POST /v1/grants",
        "POST /v1/drain",
        "GET /v1/node",
        "GET /v1/containers",
        "GET /healthz",
        "GET /metrics",
    ):
        assert route in text, route
