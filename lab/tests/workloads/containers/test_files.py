"""The files of docker/: they name no registry, agree with each other and with the code, and Compose accepts them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from quicksilver_lab.workloads.containers import compose
from quicksilver_lab.workloads.containers.checks import TARGETS
from quicksilver_lab.workloads.containers.images import NAMES
from tests.paths import ROOT

DOCKER: Final = ROOT / "docker"
DOCKERFILES: Final = sorted(DOCKER.glob("*Dockerfile"))
COMPOSE_FILES: Final = sorted(DOCKER.glob("compose*.yaml"))
FILES: Final = sorted(path for path in DOCKER.rglob("*") if path.is_file())
_FROM: Final = re.compile(r"^FROM (\S+)(?: AS (\w+))?$", re.MULTILINE)
_DEFAULT: Final = re.compile(r"\$\{\w+:-([^}]*)\}")


def names_registry(image: str) -> bool:
    """Whether Docker would ask a host named by this image."""
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def services(*files: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in files:
        found |= YAML(typ="safe").load(file)["services"]
    return found


def configured(*files: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    argv = [*compose.program(), *(word for file in files for word in ("-f", file)), "config"]
    return subprocess.run(argv, cwd=DOCKER, env={**os.environ, **(env or {})}, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("image", "named"), [("a/b:1", False), ("b", False), ("host.example/b", True), ("host:5000/b", True)]
)
def test_a_registry_in_a_name_is_found(image: str, named: bool) -> None:
    assert names_registry(image) == named


def test_no_file_names_a_registry() -> None:
    images = [base for file in DOCKERFILES for base, _ in _FROM.findall(file.read_text())]
    images += re.findall(r"^ARG BASE=(\S+)$", "\n".join(file.read_text() for file in DOCKERFILES), re.MULTILINE)
    images += [_DEFAULT.sub(r"\1", service["image"]) for service in services(DOCKER / "compose.yaml").values()]
    assert len(images) > 20 and not [image for image in images if names_registry(image)]


def test_no_file_names_a_host_of_the_network() -> None:
    ours = {*compose.ADDRESSES, "127.0.0.1", "www.w3.org"}
    hosts = {host for file in FILES for host in re.findall(r"https?://([\w.-]+)", file.read_text())}
    assert hosts <= ours, hosts - ours


def test_each_dockerfile_takes_the_base_from_outside() -> None:
    for file in DOCKERFILES:
        stages = _FROM.findall(file.read_text())
        assert stages[0][0] == "${BASE}", file
        assert {base for base, _ in stages[1:]} <= {name for _, name in stages}, file


def test_no_image_runs_as_root_and_each_has_a_health_check() -> None:
    for file in DOCKERFILES:
        last = re.split(r"^FROM ", file.read_text(), flags=re.MULTILINE)
        for stage in last[2:] if file.name == "Dockerfile" else last[1:]:
            users = re.findall(r"^USER (\S+)$", stage, re.MULTILINE)
            assert users and users[-1].split(":")[0] not in ("0", "root"), file
            assert "HEALTHCHECK" in stage, file


def test_the_sidecar_is_the_user_of_the_node_managers_containers() -> None:
    hadoop, quicksilver = ((DOCKER / name).read_text() for name in ("hadoop.Dockerfile", "Dockerfile"))
    assert "USER 10002:10002" in hadoop and "USER 10002:10002" in quicksilver.split("AS sidecar")[1]


@pytest.mark.daemon
@pytest.mark.parametrize(
    "files", [("compose.yaml",), ("compose.yaml", "compose.cgroup.yaml"), ("compose.yaml", "compose.grafana.yaml")]
)
def test_compose_accepts_the_files(files: tuple[str, ...]) -> None:
    done = configured(*files, env={"GRAFANA_IMAGE": "grafana"})
    assert done.returncode == 0, done.stderr
    assert set(YAML(typ="safe").load(done.stdout)["services"]) == set(services(*(DOCKER / file for file in files)))


@pytest.mark.daemon
def test_grafana_without_an_image_is_a_clear_error() -> None:
    done = configured("compose.yaml", "compose.grafana.yaml", env={"GRAFANA_IMAGE": ""})
    assert done.returncode != 0 and "name an image of Grafana" in done.stderr


def test_addresses_of_compose_and_code_agree() -> None:
    found = services(DOCKER / "compose.yaml")
    hosts = dict(line.split(":", 1) for line in found["proxy"]["extra_hosts"])
    named = {name: _DEFAULT.sub(r"\1", address) for name, address in hosts.items()}
    assert named == {name: f"{compose.NET}.{last}" for name, (last, _) in compose.ADDRESSES.items()} | {
        "grafana": f"{compose.NET}.7"
    }
    assert {service["image"].split("/")[1].split(":")[0] for service in found.values()} == set(NAMES)
    ports = [_DEFAULT.sub(r"\1", found[f"node{n}"]["environment"]["NM_PORT"]) for n in (1, 2, 3)]
    assert ports == [f"{compose.PORTS}{n}0" for n in (1, 2, 3)]


def test_prometheus_scrapes_what_the_demo_expects() -> None:
    jobs = YAML(typ="safe").load(DOCKER / "prometheus.yml")["scrape_configs"]
    assert {target for job in jobs for part in job["static_configs"] for target in part["targets"]} == TARGETS


def conf(tmp_path: Path, role: str, env: dict[str, str] | None = None) -> HadoopConf:
    """Return what a container of this role reads, with its mounts in `tmp_path`."""
    mounts = {"/etc/hadoop/cluster": DOCKER / "conf", "/etc/hadoop/quicksilver": ROOT / "hadoop-conf"}
    for mount in services(DOCKER / "compose.yaml")["node1"]["volumes"][:2]:
        here, there = mount.split(":")[:2]
        assert (DOCKER / here).resolve() == mounts[there]
    folder = tmp_path / role
    folder.mkdir()
    for file in (DOCKER / "conf" / role).iterdir():
        text = file.read_text()
        for there, real in mounts.items():
            text = text.replace(there, str(real))
        (folder / file.name).write_text(text)
    return load_hadoop_conf(folder, env or {})


def test_site_files_are_stock_yarn_with_the_overlays(tmp_path: Path) -> None:
    node = {"NODE": "node1", "NM_PORT": "22110", "NM_WEB_PORT": "22112"}
    client, rm = conf(tmp_path, "client"), conf(tmp_path, "resourcemanager")
    nm, plain = conf(tmp_path, "nodemanager", node), "yarn.resourcemanager.scheduler.address"
    assert str(client.address(plain)) == str(nm.address(plain)) == "resourcemanager:8030"
    assert str(rm.address(plain)) == "resourcemanager:18030"
    assert nm.text("yarn.nodemanager.bind-host") == "127.0.0.1"
    assert str(nm.address("yarn.nodemanager.address")) == "node1:22110"
    assert str(nm.address("yarn.nodemanager.webapp.address")) == "node1:22112"
    assert str(nm.address("yarn.nodemanager.localizer.address")) == "127.0.0.1:8040"
    assert nm.integer("yarn.nodemanager.resource.cpu-vcores") == 8
