"""Users and roles: whose applications each caller sees and changes; quotas by user and role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.tests.server.fake_cluster import FakeCluster
from apps.tests.server.small_server import (
    Client,
    eventually,
    served,
    settings,
    simple,
    token_security,
)

ANN, BOB, ROOT, READER, NOBODY = ("a" * 40, "b" * 40, "r" * 40, "v" * 40, "n" * 40)
LINES = (f"user:ann {ANN}", f"user:bob {BOB}", f"admin:root {ROOT}", f"read {READER}", f"admin {NOBODY}")
QUOTAS = {
    "default": {"applications": 1, "waiting": 3},
    "roles": {"admin": {"applications": 5}},
    "users": {"bob": {"applications": None, "memory_mb": 1000, "elastic": 4}},
}


class People:
    def __init__(self, url: str, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.ann, self.bob, self.root = (Client(url, token) for token in (ANN, BOB, ROOT))
        self.reader, self.stranger, self.nobody = Client(url, READER), Client(url), Client(url, NOBODY)

    def close(self) -> None:
        for one in (self.ann, self.bob, self.root, self.reader, self.stranger, self.nobody):
            one.close()


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    cluster = FakeCluster()
    with served(settings(tmp_path, quotas=QUOTAS), cluster, token_security(tmp_path, *LINES)) as (_, url):
        made = People(url, cluster)
        yield made
        made.close()


def submit(client: Client, status: int = 202, **fields: Any) -> Any:
    return client("POST", "/v1/applications", status, **({"description": simple()} | fields))


def test_a_user_sees_and_changes_the_own_ones(people: People) -> None:
    mine, theirs = submit(people.ann)["id"], submit(people.bob)["id"]
    people.ann.until_state(mine, "accepted")
    assert [one["id"] for one in people.ann("GET", "/v1/applications", 200)["items"]] == [mine]
    assert people.ann("GET", "/v1/applications?user=bob", 200)["items"] == []
    for path in ("", "/history", "/logs/work/0"):
        assert people.ann("GET", f"/v1/applications/{theirs}{path}", 404)["error"]["code"] == "unknown-application"
    assert people.ann("POST", f"/v1/applications/{theirs}/kill", 404, reason="")["error"]["code"]
    assert {one["id"] for one in people.reader("GET", "/v1/applications", 200)["items"]} == {mine, theirs}
    assert people.reader("GET", f"/v1/applications/{mine}", 200)["may_change"] is False
    for method, path in (
        ("POST", "/v1/applications"),
        ("POST", f"/v1/applications/{mine}/kill"),
        ("PUT", "/v1/templates/x"),
    ):
        assert people.reader(method, path, 403, description=simple())["error"]["code"] == "forbidden"
    assert people.stranger("GET", "/v1/applications", 401)["error"]["code"] == "unauthenticated"
    assert people.root("GET", f"/v1/applications/{mine}", 200)["may_change"] is True
    people.root("POST", f"/v1/applications/{mine}/kill", 202, reason="a test")
    assert people.ann.until_state(mine, "killed")["why"] == "killed by root: a test"


def test_as_whom_an_application_runs(people: People) -> None:
    assert submit(people.ann, 403, user="bob")["error"]["message"] == "only an admin submits as bob"
    assert submit(people.root, user="bob")["user"] == "bob" and submit(people.root)["user"] == "root"
    eventually(lambda: {app.order.user for app in people.cluster.apps.values()} == {"bob", "root"})
    assert submit(people.reader, 403)["error"]["code"] == "forbidden"
    assert submit(people.nobody)["user"] == "lab", "an admin without a name is the user of open_user"


def test_beyond_the_quota_applications_wait(people: People) -> None:
    first, second, third = (submit(people.ann)["id"] for _ in range(3))
    people.ann.until_state(first, "accepted")
    found = people.ann.until_state(second, "queued")
    assert found["why"] == "with it 2 applications, the quota is 1"
    people.ann.until_state(third, "queued")
    (mine,) = people.ann("GET", "/v1/quotas", 200)["items"]
    assert (
        mine["user"] == "ann"
        and mine["quota"]["applications"] == 1
        and (mine["applications"], mine["waiting"]) == (1, 2)
    )
    submit(people.ann)
    assert submit(people.ann, 429)["error"]["message"] == "3 applications of ann wait already; try again later"
    people.cluster.end(people.ann("GET", f"/v1/applications/{first}", 200)["yarn_id"])
    people.ann.until_state(second, "accepted")
    assert people.ann.state(third) == "queued", "the oldest first"
    assert {one["user"] for one in people.root("GET", "/v1/quotas", 200)["items"]} == {"ann", "root"}


def test_quotas_of_a_user_and_of_a_role_go_before_the_default(people: People) -> None:
    two = [submit(people.root)["id"] for _ in range(2)]
    for one in two:
        people.root.until_state(one, "accepted")
    ids = [submit(people.bob)["id"] for _ in range(2)]
    people.bob.until_state(ids[0], "accepted")
    found = people.bob.until_state(ids[1], "queued")
    assert found["why"].startswith("with it 2 applications, the quota is 1"), (
        "what bob's leaves open the default bounds"
    )
    big = simple("big", services=[{"name": "a", "core": 4, "command": "x", "resources": {"memory_mb": 500}}])
    assert people.bob.until_state(submit(people.bob, description=big)["id"], "refused")["why"] == (
        "it alone is over the quota: with it 2256 MB of core memory, the quota is 1000"
    )


def test_templates_belong_to_who_stored_them(people: People) -> None:
    text = "version: 1\nname: t\nservices: [{name: a, core: 1, command: x, resources: {memory_mb: 1}}]\n"
    assert people.ann("PUT", "/v1/templates/mine", 200, text=text)["owner"] == "ann"
    assert people.bob("PUT", "/v1/templates/mine", 403, text=text)["error"]["code"] == "forbidden"
    assert people.bob("DELETE", "/v1/templates/mine", 403)["error"]["code"] == "forbidden"
    assert people.root("PUT", "/v1/templates/mine", 200, text=text)["owner"] == "ann"
    people.ann("DELETE", "/v1/templates/mine", 204)
    error = people.bob("PUT", "/v1/templates/mine", 403, text=text)["error"]
    assert error["message"] == "the template mine was ann's; store it under another name"
    assert people.root("PUT", "/v1/templates/mine", 200, text=text)["owner"] == "ann"
    people.ann("DELETE", "/v1/templates/mine", 204)
    assert people.ann("PUT", "/v1/templates/mine", 200, text=text)["version"] == 6


def test_users_and_queues_that_are_no_names(people: People) -> None:
    for user in ("../../x", "a/b", ".", "-a", "a\nb", "a b"):
        submit(people.root, 422, user=user)
    for queue in ("a\nb", "a b", "a\0", "a,b", "q" * 201):
        submit(people.ann, 422, queue=queue)
        error = submit(people.ann, 422, description=simple(queue=queue))["error"]
        assert error["code"] == "description" and "description: queue: " in error["message"]
        assert people.ann("POST", "/v1/check", 200, description=simple(queue=queue))["ok"] is False
    assert submit(people.ann, queue="root.users.ann-1")["queue"] == "root.users.ann-1"


def test_files_that_are_not_in_the_cluster(people: People) -> None:
    for source in ("http://127.0.0.1:8390/v1", "local:/etc/passwd", "HTTPS://x/y", "s3a://b/c", "file:///x", "/x", "x"):
        found = people.ann("POST", "/v1/check", 200, description=simple(files=[{"source": source}]))
        assert found["ok"] is False and "HDFS" in found["mistakes"][0], source
        error = submit(people.ann, 422, description=simple(files=[{"source": source}]))["error"]
        assert error["code"] == "description" and "hdfs://.." in error["message"]
    assert submit(people.ann, description=simple(files=[{"source": "hdfs:///a/b"}]))["state"] == "received"
