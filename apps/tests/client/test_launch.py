"""The message that submits an application."""

from __future__ import annotations

import json

import pytest

from apps.tests.client.sites import application
from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.hdfs.staging import StagedFile
from quicksilver_apps.client.launch import ApplicationLaunch, NeededFile, resources_json, tags_of, url_of

ARCHIVE = StagedFile("hdfs://nn:8020/user/a/app.zip", 7, 1700)
OWN = StagedFile("file:///shared/application.json", 8, 1800)


def launch(**changes: object) -> ApplicationLaunch:
    app = application(queue="q", priority=3, attempts=4, labels={"team": "x"})
    fields = {"application": app, "archive": ARCHIVE, "description": OWN, "resources": OWN, "key": "secret"}
    return ApplicationLaunch(**(fields | changes))  # type: ignore[arg-type]


def test_the_context_has_all_that_is_described() -> None:
    app_id = y.ApplicationIdProto(id=7, cluster_timestamp=1)
    context = launch(user="alice", tokens=b"HDTS", view_acl="bob", modify_acl="carol ops", tags=("more:1",)).context(
        app_id
    )
    assert (context.application_id, context.queue, context.priority.priority) == (app_id, "q", 3)
    assert (context.maxAppAttempts, context.applicationType) == (4, "QUICKSILVER")
    assert context.keep_containers_across_application_attempts
    assert list(context.applicationTags) == ["core:10=1", "more:1", "team=x"]
    spec = context.am_container_spec
    assert spec.tokens == b"HDTS"
    assert {each.key: each.value for each in spec.environment} == {
        "HADOOP_USER_NAME": "alice",
        "QUICKSILVER_APP_KEY": "secret",
    }
    assert spec.command[0].startswith("env -u PYTHONPATH python3 quicksilver-app.zip 1><LOG_DIR>/stdout")
    acls = {each.accessType: each.acl for each in spec.application_ACLs}
    assert acls == {y.APPACCESS_VIEW_APP: "bob", y.APPACCESS_MODIFY_APP: "carol ops"}


def test_files_are_localised_as_they_were_staged() -> None:
    spec = launch().context(y.ApplicationIdProto(id=1)).am_container_spec
    files = {each.key: each.value for each in spec.localResources}
    assert sorted(files) == ["application.json", "quicksilver-app.zip", "resources.json"]
    archive = files["quicksilver-app.zip"]
    assert (archive.size, archive.timestamp, archive.visibility) == (7, 1700, y.PRIVATE)
    assert archive.resource == y.URLProto(scheme="hdfs", host="nn", port=8020, file="/user/a/app.zip")
    assert files["resources.json"].visibility == y.APPLICATION
    assert not spec.environment[0].key.startswith("HADOOP"), "no name on a secure cluster"


def test_the_queue_of_the_submitter_is_left_to_yarn() -> None:
    assert not launch(application=application()).context(y.ApplicationIdProto(id=1)).HasField("queue")


def test_urls() -> None:
    assert url_of("hdfs://ns/a/b c") == y.URLProto(scheme="hdfs", host="ns", file="/a/b c")
    assert url_of("file:///a") == y.URLProto(scheme="file", file="/a")


def test_tags_that_yarn_would_refuse() -> None:
    with pytest.raises(ClientError, match=r"labels: .* is no tag of YARN.*shorten it"):
        tags_of(application(labels={"a": "x" * 100}))
    with pytest.raises(ClientError, match=r"labels: .*is no tag"):
        tags_of(application(labels={"a": "\N{SNOWMAN}"}))
    with pytest.raises(ClientError, match=r"12 tags, of which 11 are labels; YARN takes 10"):
        tags_of(application(labels={f"l{number}": "x" for number in range(11)}))


def test_resources() -> None:
    files = [NeededFile("main", "data", "archive", OWN)]
    assert json.loads(resources_json(ARCHIVE, files, ["rm:8030"], "python3.11")) == {
        "archive": {"uri": ARCHIVE.uri, "size": 7, "timestamp_ms": 1700},
        "files": [
            {
                "service": "main",
                "name": "data",
                "kind": "archive",
                "uri": OWN.uri,
                "size": 8,
                "timestamp_ms": 1800,
            }
        ],
        "rm_scheduler": ["rm:8030"],
        "python": "python3.11",
    }
