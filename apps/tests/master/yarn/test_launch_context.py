"""What NodeManagers are given for an instance."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from apps.tests.master.descriptions import app
from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.master.launcher.launcher import KEY_VARIABLE, SPEC_VARIABLE
from quicksilver_apps.master.launcher.rendezvous import instance_key
from quicksilver_apps.master.machine.spec import SpecError
from quicksilver_apps.master.yarn.launch_context import Contexts, LaunchResources, local_resource

RESOURCES: dict[str, Any] = {
    "archive": {"uri": "hdfs://nn:8020/a b/app.zip", "size": 9, "timestamp_ms": 7},
    "files": [
        {"service": "", "name": "all.txt", "uri": "file:///x/all.txt", "size": 1, "timestamp_ms": 2, "kind": "file"},
        {"service": "one", "name": "one", "uri": "hdfs:///one.zip", "size": 1, "timestamp_ms": 2, "kind": "archive"},
        {"service": "two", "name": "two", "uri": "hdfs:///two", "size": 1, "timestamp_ms": 2, "kind": "file"},
    ],
    "rm_scheduler": ["rm1:8030", "rm2:8030"],
}


def context(user: str = "", tokens: bytes = b"", **service: Any) -> y.ContainerLaunchContextProto:
    one = app({"name": "one", "core": 1, "environment": {"A": "$B \"'"}, "ports": [{"name": "web"}], **service})
    contexts = Contexts(one, "application_1_0001", LaunchResources.read(RESOURCES), "key", "http://m:1", tokens, user)
    return contexts.make("c7", "node", one.services[0], 4, "elastic")


def test_an_instance_gets_its_files_and_the_launcher() -> None:
    made = context()
    files = {each.key: each.value for each in made.localResources}
    assert files.keys() == {"quicksilver-app.zip", "all.txt", "one"}
    assert files["one"].type == y.ARCHIVE
    archive = files["quicksilver-app.zip"]
    assert (archive.resource.scheme, archive.resource.host, archive.resource.port) == ("hdfs", "nn", 8020)
    assert (archive.resource.file, archive.size, archive.timestamp) == ("/a b/app.zip", 9, 7)
    assert (
        "exec python3 -I quicksilver-app.zip launch <LOG_DIR> 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr" in made.command[0]
    )
    assert not made.HasField("tokens")


def test_what_a_shell_would_change_is_not_seen_by_it() -> None:
    variables = {each.key: each.value for each in context().environment}
    assert variables.keys() == {SPEC_VARIABLE, KEY_VARIABLE}
    assert variables[KEY_VARIABLE] == instance_key("key", "c7")
    spec = json.loads(base64.b64decode(variables[SPEC_VARIABLE]))
    assert spec["environment"] == {"A": "$B \"'"}
    assert (spec["service"], spec["index"], spec["container_id"], spec["command"]) == ("one", 4, "c7", "work")
    assert spec["variables"]["QUICKSILVER_KIND"] == "elastic"
    assert spec["variables"]["QUICKSILVER_HOST"] == "node"
    assert spec["ports"] == [{"name": "web", "number": 0}]


def test_users_tokens_and_images() -> None:
    made = context("ann", b"HDTS..", image="repo/image:1")
    variables = {each.key: each.value for each in made.environment}
    assert variables["HADOOP_USER_NAME"] == "ann"
    assert variables["YARN_CONTAINER_RUNTIME_TYPE"] == "docker"
    assert variables["YARN_CONTAINER_RUNTIME_DOCKER_IMAGE"] == "repo/image:1"
    assert made.tokens == b"HDTS.."


@pytest.mark.parametrize(
    ("ready", "launcher_checks"),
    [
        ({"log": "up"}, ("up", "")),
        ({"command": "true"}, ("", "true")),
        ({"port": "web", "log": "up"}, ("", "")),
    ],
)
def test_the_first_check_that_is_named_counts(ready: dict[str, str], launcher_checks: tuple[str, str]) -> None:
    variables = {each.key: each.value for each in context(ready=ready).environment}
    check = json.loads(base64.b64decode(variables[SPEC_VARIABLE]))["ready"]
    assert (check["log"], check["command"]) == launcher_checks


@pytest.mark.parametrize("change", [{"archive": None}, {"rm_scheduler": []}, {"rm_scheduler": ["rm"]}, {"files": 3}])
def test_a_broken_file_is_one_clear_error(change: dict[str, Any]) -> None:
    data = {name: value for name, value in (RESOURCES | change).items() if value is not None}
    with pytest.raises(SpecError, match=r"resources\.json cannot be used"):
        LaunchResources.read(data)


def test_a_file_without_a_host_has_none() -> None:
    made = local_resource({"uri": "file:///x", "size": 1, "timestamp_ms": 1})
    assert not made.resource.HasField("host")
    assert not made.resource.HasField("port")
