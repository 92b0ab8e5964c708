"""The application master on a real cluster of stock YARN, as the client submits it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from tests.real.applications.running_app import RunningApp

pytestmark = pytest.mark.hadoop

SIZE = {"resources": {"memory_mb": 128}}
SERVER = {
    "name": "server",
    "core": 1,
    "command": "exec python3 -m http.server $PORT_WEB",
    "ports": [{"name": "web", "link": "http"}],
    "ready": {"port": "web"},
    **SIZE,
}
WORKER = {
    "name": "worker",
    "core": 1,
    "elastic": 3,
    "command": "cp $QUICKSILVER_PEERS peers.json; echo $SERVER_HOST:$SERVER_PORT_WEB; exec sleep 3600",
    "after": ["server"],
    "ready": {"log": ":[0-9]+$"},
    **SIZE,
}
Submit = Callable[[dict[str, Any]], RunningApp]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes of stock YARN whose ResourceManager recovers."""
    made = Cluster(
        ClusterSpec(
            workdir=tmp_path_factory.mktemp("apps"),
            base_port=free_base_port(2),
            nodes=2,
            yarn_only=True,
            overlay=False,
            rm_recovery=True,
            min_allocation_mb=128,
            queues={"default": 100},
            extra_site={"capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"}},
        )
    )
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def submit(cluster: Cluster, tmp_path: Path) -> Iterator[Submit]:
    """Submit applications; those that still run at the end of the test are killed."""
    apps: list[RunningApp] = []

    def make(description: dict[str, Any]) -> RunningApp:
        apps.append(RunningApp(cluster, tmp_path, description))
        return apps[-1]

    yield make
    for app in apps:
        if app.report()["state"] not in ("FINISHED", "FAILED", "KILLED"):
            app.kill()


def test_services_start_in_order_with_ports_and_peers(submit: Submit, cluster: Cluster) -> None:
    app = submit({"name": "ordered", "services": [SERVER, WORKER]})
    [*_] = app.wait_ready("worker", 4)
    state = app.state()
    server, workers = (each["instances"] for each in state["services"])
    assert [(each["index"], each["kind"]) for each in workers] == [
        (0, "core"),
        (1, "elastic"),
        (2, "elastic"),
        (3, "elastic"),
    ]
    texts = [(each["service"], each["text"].split(" in ")[0]) for each in state["events"]]
    assert texts.index(("server", "is ready")) < texts.index(("worker", "starts"))
    port = server[0]["ports"]["web"]
    assert requests.get(server[0]["links"]["web"], timeout=10).status_code == 200
    where = f"{server[0]['node']}:{port}"
    output = next(cluster.spec.workdir.rglob(f"{workers[0]['container_id']}/stdout"))
    assert output.read_text() == f"{where}\n"
    assert app.report()["trackingUrl"].endswith(f"/proxy/{app.id}/")
    assert requests.get(app.report()["trackingUrl"], timeout=10).text.startswith("<!doctype html>")
    assert requests.get(workers[0]["log_url"], timeout=10).status_code == 200


def test_a_service_scales_up_and_down(submit: Submit) -> None:
    app = submit({"name": "scaled", "services": [{**WORKER, "name": "pool", "after": [], "ready": {}}]})
    first = app.wait_ready("pool", 4)
    assert app.scale("pool", 1)["wanted"] == 2
    left = app.wait_ready("pool", 2)
    app.wait("two instances", lambda: len(app.service("pool")["instances"]) == 2)
    assert [each["index"] for each in left] == [0, 1]
    gone = [each for each in first if each["index"] > 1]
    app.wait("processes gone", lambda: not any(app.processes(each["container_id"]) for each in gone))
    app.scale("pool", 3)
    app.wait_ready("pool", 4)
    app.stop("succeeded", "enough")
    report = app.wait_ended()
    assert (report["finalStatus"], report["diagnostics"]) == ("SUCCEEDED", "enough")


@pytest.mark.parametrize("victim", ["command", "launcher"])
def test_an_instance_that_is_killed_starts_again(submit: Submit, victim: str) -> None:
    app = submit({"name": "killed", "services": [SERVER]})
    [before] = app.wait_ready("server", 1)
    processes = app.processes(before["container_id"])
    launcher = next(each for each in processes if "launch" in each.cmdline())
    os.kill(launcher.pid if victim == "launcher" else launcher.children()[0].pid, signal.SIGKILL)
    app.wait("restarted", lambda: [each for each in app.instances("server", "ready") if each["restarts"] == 1])
    [after] = app.wait_ready("server", 1)
    assert after["container_id"] != before["container_id"]
    app.wait("processes gone", lambda: not any(each.is_running() for each in processes))


def test_the_second_attempt_goes_on_with_all_instances(submit: Submit) -> None:
    app = submit({"name": "survivor", "services": [SERVER, WORKER]})
    app.wait_ready("worker", 4)
    app.scale("worker", 1)
    app.wait("scaled", lambda: len(app.service("worker")["instances"]) == 2)
    time.sleep(2)  # the notes for the next attempt are made each second
    before = app.state()
    app.kill_master()
    state = app.wait(
        "the second attempt", lambda: (now := app.state()) and now["started_s"] > before["started_s"] and now
    )
    app.wait_ready("worker", 2)
    app.wait_ready("server", 1)
    state = app.state()
    assert app.attempts() == 2
    fields = ("index", "kind", "container_id", "ports", "state", "restarts")
    assert [[{name: one[name] for name in fields} for one in each["instances"]] for each in state["services"]] == [
        [{name: one[name] for name in fields} for one in each["instances"]] for each in before["services"]
    ]
    app.scale("worker", 2)
    app.wait_ready("worker", 3)
    app.stop("killed", "over")
    assert app.wait_ended()["finalStatus"] == "KILLED"


def test_an_instance_that_ends_while_there_is_no_master_counts(submit: Submit, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.1; done; echo run >> {tmp_path}/runs-$QUICKSILVER_INSTANCE"
    stay = f"while [ ! -e {tmp_path}/leave ]; do sleep 0.1; done"
    job = {
        "name": "job",
        "core": 2,
        "main": True,
        "command": f"if [ $QUICKSILVER_INSTANCE = 0 ]; then {wait}; else {stay}; fi",
    }
    app = submit({"name": "ends", "services": [{**job, **SIZE}]})
    app.wait_ready("job", 2)
    time.sleep(2)  # the notes
    app.kill_master()
    go.touch()
    app.wait("the second attempt", lambda: app.attempts() == 2 and app.state())
    app.wait("the end is known", lambda: app.instances("job", "ended"))
    (tmp_path / "leave").touch()
    assert app.wait_ended()["finalStatus"] == "SUCCEEDED"
    assert (tmp_path / "runs-0").read_text() == "run\n"


def test_a_core_service_that_fails_fails_the_application(submit: Submit) -> None:
    bad = {"name": "bad", "core": 1, "command": "echo no such thing >&2; exit 9", "restart": {"limit": 1}, **SIZE}
    app = submit({"name": "failing", "attempts": 1, "services": [SERVER, bad]})
    report = app.wait_ended()
    assert report["finalStatus"] == "FAILED"
    assert report["diagnostics"] == (
        "service bad, instance 0 failed (exit status 9, 1 restarts): it ended with exit status 9\nno such thing"
    )


def test_main_ends_the_application_and_all_else(submit: Submit) -> None:
    main = {"name": "main", "core": 1, "main": True, "after": ["server"], "command": "sleep 1", **SIZE}
    app = submit({"name": "batch", "services": [SERVER, main]})
    [server] = app.wait_ready("server", 1)
    report = app.wait_ended()
    assert (report["state"], report["finalStatus"]) == ("FINISHED", "SUCCEEDED")
    until = time.monotonic() + 20
    while app.processes(server["container_id"]):
        assert time.monotonic() < until
        time.sleep(0.2)


def test_what_no_node_can_hold_is_refused_with_a_reason(submit: Submit) -> None:
    huge = {**SERVER, "resources": {"memory_mb": 1_000_000}}
    report = submit({"name": "huge", "services": [huge]}).wait_ended()
    assert report["finalStatus"] == "FAILED"
    assert "service server: memory_mb 1000000 is more than" in report["diagnostics"]


def test_it_goes_on_after_a_restart_of_the_resource_manager(submit: Submit, cluster: Cluster) -> None:
    app = submit({"name": "patient", "services": [SERVER, WORKER]})
    before = [each["container_id"] for each in app.wait_ready("worker", 4)]
    cluster.restart("resourcemanager")
    app.wait(
        "registered again", lambda: any("registered again" in each["text"] for each in app.state().get("events", []))
    )
    app.scale("worker", 2)
    app.wait("fewer", lambda: len(app.instances("worker", "ready")) == 3)
    app.scale("worker", 3)
    after = [each["container_id"] for each in app.wait_ready("worker", 4)]
    assert set(before[:3]) < set(after)
    assert app.attempts() == 1
