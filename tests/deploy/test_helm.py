"""The chart: what helm makes of it, read by what reads it in a pod. Without helm only its files are looked at."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from quicksilver.cli import cli
from quicksilver.common.hadoop.conf import load_hadoop_conf
from tests.paths import ROOT

CHART: Final = ROOT / "deploy" / "helm" / "quicksilver"
HELM: Final = shutil.which("helm")
SET: Final = "images.hadoop=h,images.proxy=p,images.sidecar=s,quicksilver.keysSecret=keys"
RM: Final = "yarn-resourcemanager-0.yarn-resourcemanager.jobs.svc.cluster.local"
needs_helm = pytest.mark.skipif(HELM is None, reason="no helm on PATH")
Objects = dict[tuple[str, str], dict[str, Any]]


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False, timeout=60)


def rendered(*words: str, values: str = SET) -> Objects:
    done = helm("template", "yarn", str(CHART), "--namespace", "jobs", "--set", values, *words)
    assert done.returncode == 0, done.stderr
    every = [each for each in YAML(typ="safe").load_all(done.stdout) if each]
    found = {(each["kind"], each["metadata"]["name"]): each for each in every}
    assert len(found) == len(every)
    return found


def unpack(objects: Objects, role: str, folder: Path) -> Path:
    """Write a ConfigMap of site files; includes lead into the folder."""
    folder.mkdir()
    for name, text in objects["ConfigMap", f"yarn-{role}-conf"]["data"].items():
        (folder / name).write_text(text.replace("/etc/hadoop/conf", str(folder)))
    return folder


def containers(objects: Objects, name: str) -> dict[str, dict[str, Any]]:
    pod = objects["StatefulSet", name]["spec"]["template"]["spec"]
    return {each["name"]: each for each in [*pod.get("initContainers", []), *pod["containers"]]}


def test_templates_take_only_values_that_there_are() -> None:
    values = YAML(typ="safe").load((CHART / "values.yaml").read_text())
    text = "".join(file.read_text() for file in (CHART / "templates").iterdir())
    names = set(re.findall(r"\.Values((?:\.\w+)+)", text))
    assert len(names) > 15
    for name in names:
        at: Any = values
        for word in name.strip(".").split("."):
            assert word in at, name
            at = at[word]


def test_the_overlays_are_those_of_all_clusters() -> None:
    assert (CHART / "overlays").resolve() == ROOT / "hadoop-conf"


@needs_helm
def test_helm_finds_no_fault() -> None:
    done = helm("lint", "--strict", str(CHART), "--set", SET)
    assert done.returncode == 0, done.stdout
    done = helm("template", "yarn", str(CHART), "--set", SET.partition(",quicksilver")[0])
    assert done.returncode == 1 and "name the Secret with tokens, ca.crt and ca.key" in done.stderr


@needs_helm
def test_the_files_of_each_role_satisfy_the_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = rendered("--set", "quicksilver.policies.mode=active")
    folders = {role: unpack(objects, role, tmp_path / role) for role in ("client", "resourcemanager", "nodemanager")}
    monkeypatch.setenv("QUICKSILVER_NODE", "yarn-nodemanager-0.yarn-nodemanager.jobs.svc.cluster.local")
    clients = load_hadoop_conf(folders["client"])
    assert str(clients.rm_address("yarn.resourcemanager.scheduler.address")) == f"{RM}:8030"
    own = load_hadoop_conf(folders["resourcemanager"], resourcemanager=True)
    assert str(own.rm_address("yarn.resourcemanager.scheduler.address")) == f"{RM}:18030"
    node = load_hadoop_conf(folders["nodemanager"])
    assert node.address("yarn.nodemanager.address").host.startswith("yarn-nodemanager-0.")
    assert node.text("yarn.nodemanager.resource.cpu-vcores") == "16"  # memory alone counts

    settings = tmp_path / "quicksilver.yaml"
    text = objects["ConfigMap", "yarn-quicksilver"]["data"]["quicksilver.yaml"]
    for secret in ("tls.crt", "tls.key", "ca.crt", "tokens"):
        (tmp_path / secret).write_text("")
        (tmp_path / secret).chmod(0o600)
    settings.write_text(text.replace("/tls/", f"{tmp_path}/"))
    dirs = ["--conf-dir", folders["client"], "--rm-conf-dir", folders["resourcemanager"]]
    words = ["doctor", "--offline", "--config", settings, *dirs, "--nm-conf-dir", folders["nodemanager"]]
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exit_code == 0, done.output


@needs_helm
def test_where_vcores_count_a_node_has_one_more(tmp_path: Path) -> None:
    objects = rendered("--set", "nodemanager.countsVcores=true")
    conf = load_hadoop_conf(unpack(objects, "nodemanager", tmp_path / "nodemanager"))
    assert conf.text("yarn.nodemanager.resource.cpu-vcores") == "9"


@needs_helm
def test_only_the_first_container_of_a_pod_sees_the_keys() -> None:
    objects = rendered()
    for name, daemon in (("yarn-resourcemanager", "proxy"), ("yarn-nodemanager", "sidecar")):
        every = containers(objects, name)
        mounts = {each: {mount["name"] for mount in container["volumeMounts"]} for each, container in every.items()}
        assert [each for each, volumes in mounts.items() if volumes & {"keys", "work"}] == ["certificate"]
        assert {"settings", "tls", "state"} <= mounts[daemon]
        assert every["certificate"]["image"] == every[daemon]["image"]  # the same user
        pod = objects["StatefulSet", name]["spec"]["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        claims = objects["StatefulSet", name]["spec"].get("volumeClaimTemplates", [])
        assert set().union(*mounts.values()) <= volumes | {claim["metadata"]["name"] for claim in claims}
        names = [entry["name"] for entry in every[daemon]["env"]]
        assert names.index("POD_NAME") < names.index("QUICKSILVER_NODE")  # a variable refers to earlier ones alone
    assert objects["StatefulSet", "yarn-nodemanager"]["spec"]["template"]["spec"]["shareProcessNamespace"] is True
    assert objects["Service", "yarn-nodemanager"]["spec"]["publishNotReadyAddresses"] is True


@needs_helm
def test_disabled_it_is_stock_yarn(tmp_path: Path) -> None:
    objects = rendered(values="images.hadoop=h,quicksilver.enabled=false")
    assert containers(objects, "yarn-resourcemanager").keys() == {"resourcemanager"}
    assert containers(objects, "yarn-nodemanager").keys() == {"nodemanager"}
    assert ("ConfigMap", "yarn-quicksilver") not in objects
    for role in ("resourcemanager", "nodemanager"):
        conf = load_hadoop_conf(unpack(objects, role, tmp_path / role))
        assert conf.text("yarn.nodemanager.bind-host") in (None, "") and "quicksilver" not in str(
            conf.properties.keys()
        )
    assert conf.text("yarn.nodemanager.resource.cpu-vcores") == "8"


@needs_helm
def test_a_change_of_settings_restarts_pods() -> None:
    def sums(objects: Objects) -> set[str]:
        sets = [each for (kind, _), each in objects.items() if kind == "StatefulSet"]
        return {each["spec"]["template"]["metadata"]["annotations"]["checksum/files"] for each in sets}

    assert sums(rendered()) == sums(rendered()) != sums(rendered("--set", "yarnSite.a=b"))
