"""Where the relay to the resource tracker stands, what it hides, and that all of it is documented."""

from __future__ import annotations

import configparser
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quicksilver.common.address import Address
from quicksilver.common.errors import QuicksilverError, SettingsError
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver.common.settings.settings_file import SettingsFileError
from quicksilver_lab.cluster.confdirs import read_overlay
from sidecar.tracker.cli import tracker
from sidecar.tracker.config import Ends, RmEnds, TrackerPlace, TrackerSettings
from sidecar.tracker.relay import ContainerSize
from tests.paths import DOCS

DOC = DOCS / "tracker.md"
OVERLAY = dict(read_overlay("tracker"))
NODE = OVERLAY | {"yarn.resourcemanager.hostname": "rm1", "yarn.nodemanager.resource.cpu-vcores": "8"}
TRACKER = "yarn.resourcemanager.resource-tracker.address"
HA = {
    "yarn.resourcemanager.ha.enabled": "true",
    "yarn.resourcemanager.ha.rm-ids": "a,b",
    "yarn.resourcemanager.hostname.a": "hosta",
    "yarn.resourcemanager.hostname.b": "hostb",
    f"{TRACKER}.a": "127.0.0.1:18031",
    f"{TRACKER}.b": "127.0.0.1:18032",
}


def conf_dir(folder: Path, properties: dict[str, str]) -> Path:
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    (folder / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    return folder


def place(folder: Path, properties: dict[str, str], **settings: Any) -> TrackerPlace:
    return TrackerSettings.model_validate(settings).place(load_hadoop_conf(conf_dir(folder, properties)))


def test_the_overlay_and_a_host_name_are_enough(tmp_path: Path) -> None:
    relay = place(tmp_path, NODE)
    assert relay == TrackerPlace((Ends("", Address("127.0.0.1", 18031), Address("rm1", 8031)),), ContainerSize(0, 0))


@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        ({"rm_vcores": 5}, ContainerSize(0, 3)),
        ({"extra_vcores": 3}, ContainerSize(0, 3)),
        ({"rm_vcores": 8}, ContainerSize(0, 0)),
        ({"rm_memory_mb": 8000, "extra_vcores": 1}, ContainerSize(192, 1)),
        ({"extra_memory_mb": 192}, ContainerSize(192, 0)),
    ],
)
def test_what_is_hidden(tmp_path: Path, settings: dict[str, int], extra: ContainerSize) -> None:
    assert place(tmp_path, NODE, **settings).extra == extra


def test_a_difference_needs_no_size_in_the_configuration(tmp_path: Path) -> None:
    detects = {
        "yarn.nodemanager.resource.cpu-vcores": "-1",
        "yarn.nodemanager.resource.detect-hardware-capabilities": "true",
    }
    assert place(tmp_path, NODE | detects, extra_vcores=3).extra == ContainerSize(0, 3)
    with pytest.raises(SettingsError, match=r"detects its size by itself; set tracker\.extra_vcores instead"):
        place(tmp_path, NODE | detects, rm_vcores=3)


def test_one_listener_for_each_resourcemanager(tmp_path: Path) -> None:
    relay = place(tmp_path, NODE | HA, rms={"b": {"upstream": "hostb:9031"}})
    assert relay.ends == (
        Ends("a", Address("127.0.0.1", 18031), Address("hosta", 8031)),
        Ends("b", Address("127.0.0.1", 18032), Address("hostb", 9031)),
    )


@pytest.mark.parametrize(
    ("properties", "settings", "words"),
    [
        ({}, {"upstream": "127.0.0.1:18031"}, "tracker: the relay would relay to itself"),
        ({"yarn.resourcemanager.hostname": "0.0.0.0"}, {}, "hostname: the ResourceManager's host is not known"),
        ({}, {"rm_vcores": 9}, "tracker.rm_vcores: the NodeManager has 8, so the ResourceManager cannot see 9; raise"),
        ({}, {"extra_vcores": 8}, "tracker.extra_vcores: the NodeManager has 8, so the ResourceManager cannot see 0"),
        ({}, {"rm_vcores": 4, "extra_vcores": 4}, "tracker: both rm_vcores and extra_vcores are set"),
        ({}, {"rms": {"a": {}}}, "tracker.rms: there is one ResourceManager only"),
        (HA, {"rms": {"c": {}}}, "tracker.rms.c: the ResourceManagers are a, b"),
        (HA, {"listen": "127.0.0.1:1"}, "tracker.listen, tracker.upstream: the ResourceManagers are a, b"),
        (
            {"yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage": "true"},
            {"extra_vcores": 4},
            "strict-resource-usage: each container would get less CPU",
        ),
        (
            {"yarn.nodemanager.elastic-memory-control.enabled": "true"},
            {"extra_memory_mb": 4},
            "elastic-memory-control.enabled: all containers together",
        ),
    ],
)
def test_what_cannot_work_is_said(
    tmp_path: Path, properties: dict[str, str], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        place(tmp_path, NODE | properties, **settings)
    assert words in str(raised.value)


def run(tmp_path: Path, settings: str, *more: str) -> str:
    config = tmp_path / "quicksilver.yaml"
    config.write_text(settings)
    result = CliRunner().invoke(tracker, ["run", "--config", str(config), *more])
    assert isinstance(result.exception, QuicksilverError | SettingsFileError), result.exception
    return str(result.exception)


def test_the_command_names_place_and_remedy(tmp_path: Path) -> None:
    assert "quicksilver.yaml:2:3: tracker.rm_cores" in run(tmp_path, "tracker:\n  rm_cores: 3\n")
    assert "quicksilver.yaml:4:7: tracker.rms.a.port" in run(tmp_path, "tracker:\n  rms:\n    a:\n      port: 3\n")
    folder = conf_dir(tmp_path, NODE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"tracker:\n  listen: 127.0.0.1:{port}\n"
        assert f"127.0.0.1:{port}: cannot listen: Address already in use" in run(
            tmp_path, text, "--conf-dir", str(folder)
        )


def test_each_setting_is_documented() -> None:
    text, settings = DOC.read_text(), (DOCS / "settings.md").read_text()
    for heading, fields in (("## Section `tracker`", TrackerSettings), ("### `tracker.rms.ID`", RmEnds)):
        part = settings.partition(f"\n{heading}")[2].partition("\n## ")[0]
        assert [name for name in fields.model_fields if f"| `{name}` |" not in part] == []
    for name in OVERLAY:
        assert name in text or name.startswith("quicksilver."), name


def test_the_unit_starts_the_command_for_ever() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(overlay_root() / "systemd" / "quicksilver-tracker.service")
    assert unit["Service"]["ExecStart"].endswith("quicksilver tracker run")
    assert (unit["Service"]["Restart"], unit["Unit"]["StartLimitIntervalSec"]) == ("always", "0")
