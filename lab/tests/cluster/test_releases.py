"""Versions of Hadoop for a local cluster: their lists of jars, and which daemon has which."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from pydantic import ValidationError

from quicksilver_lab.cluster.confdirs import resourcemanager_overlay
from quicksilver_lab.cluster.errors import ReleaseError
from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.runtime.releases import DEFAULT, POM, RELEASES, release
from quicksilver_lab.cluster.spec import ClusterSpec, hadoop_version

TAG = "{http://maven.apache.org/POM/4.0.0}"
NODES_USED = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used"


def artifacts(version: str) -> dict[str, str]:
    project = ET.fromstring(release(version).pom())
    own = project.findtext(f"{TAG}properties/{TAG}hadoop.version", "")
    rows = project.iterfind(f"{TAG}dependencies/{TAG}dependency")
    texts = ((row.findtext(f"{TAG}artifactId", ""), row.findtext(f"{TAG}version", "")) for row in rows)
    return {name: text.replace("${hadoop.version}", own) for name, text in texts}


def test_the_default_is_the_list_itself() -> None:
    assert release(DEFAULT).pom() == POM.read_bytes()
    assert set(artifacts(DEFAULT).values()) == {DEFAULT}


@pytest.mark.parametrize("version", RELEASES)
def test_each_has_the_daemons_in_its_own_version(version: str) -> None:
    listed = artifacts(version)
    for name in ("hadoop-yarn-server-resourcemanager", "hadoop-yarn-server-nodemanager", "hadoop-hdfs"):
        assert listed[name] == version


def test_what_maven_central_lacks_is_left_out_or_of_another_release() -> None:
    newest, oldest = artifacts("3.5.0"), artifacts("3.1.1")
    assert "hadoop-yarn-applications-distributedshell" not in newest
    assert newest["hadoop-gridmix"] == newest["hadoop-mapreduce-examples"] == "3.4.2"
    assert (oldest["activation"], oldest["jaxb-api"]) == ("1.1.1", "2.3.1")
    gridmix = b"<artifactId>hadoop-gridmix</artifactId>\n      <version>3.4.2</version>\n    <exclusions>"
    assert gridmix in release("3.5.0").pom(), "it brings no other jars of its version"


def test_a_jar_is_named_by_its_own_version(tmp_path: Path) -> None:
    (tmp_path / "hadoop-gridmix-3.4.2.jar").touch()
    assert Jars(tmp_path, version="3.5.0").artifact("hadoop-gridmix").name == "hadoop-gridmix-3.4.2.jar"
    with pytest.raises(ReleaseError, match=r"has no hadoop-yarn-services-core 3\.5\.0\. Take Hadoop 3\.4\.2 for it"):
        Jars(tmp_path, version="3.5.0").artifact("hadoop-yarn-services-core")


def test_unknown_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"Hadoop 2\.7\.3 is not one of 3\.1\.1, "):
        release("2.7.3")
    for fields in ({"hadoop": "2.7.3"}, {"hadoop_of": {"nodemanager": "2.7.3"}}):
        with pytest.raises(ValidationError, match=r"hadoop: 2\.7\.3 is not one of"):
            ClusterSpec.model_validate({"workdir": tmp_path, **fields})


def test_a_daemon_has_its_own_version_that_of_its_kind_or_the_clusters() -> None:
    versions = {"nodemanager": "3.3.6", "nodemanager-node2": "3.4.1"}
    spec = ClusterSpec(hadoop="3.4.2", hadoop_of=versions)
    names = ("resourcemanager", "nodemanager-node1", "nodemanager-node2", "namenode")
    assert [hadoop_version(spec, name) for name in names] == ["3.4.2", "3.3.6", "3.4.1", "3.4.2"]


@pytest.mark.parametrize(("version", "value"), [("3.1.1", "-1"), ("3.2.4", "-1"), ("3.3.6", "0"), ("3.5.0", "0")])
def test_a_resource_manager_lists_nodes_as_its_version_needs_it(version: str, value: str) -> None:
    spec = ClusterSpec(hadoop=DEFAULT, hadoop_of={"resourcemanager": version})
    assert resourcemanager_overlay(spec, spec.resource_managers[0])[NODES_USED] == value
