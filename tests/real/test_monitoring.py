"""Monitoring on a real cluster: Prometheus, Grafana's queries, Hadoop's own daemonlog, the audit log, and traces."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import requests
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.workloads.mapreduce import JobOptions, make_text, put_text, start_wordcount
from quicksilver_lab.workloads.rest import eventually
from tests.otlp_collector import Collector, collector
from tests.paths import ROOT
from tests.prometheus_server import Prometheus, prometheus, settings

pytestmark = pytest.mark.hadoop
NEVER: Final = Span()
DASHBOARDS: Final = sorted((ROOT / "deploy" / "monitoring" / "grafana" / "dashboards").glob("*.json"))
MAPS_Q: Final = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}
QUIET: Final = {
    "Kills by cause",
    "Sheds by cause",
    "Falls to guaranteed",
    "Kills",
    "Work lost",
    "Work saved by shrinking",
    "Sheds",
    "Preempted containers",
    "Time of a resize, p99",
    "Refused connections",
    "Faults",
    "Failed calls of YARN's REST",
    "Time to make room, p95",
    "Work lost today",
    "Work saved today",
}
"""Panels without data on a cluster where nothing is killed, shed, refused or resized."""


@pytest.fixture(scope="module")
def traces() -> Iterator[Collector]:
    with collector() as made:
        yield made


@pytest.fixture(scope="module")
def stack(overlay_cluster: Cluster, traces: Collector) -> Iterator[LocalDaemons]:
    audit = overlay_cluster.spec.workdir / "audit.log"
    sections = {
        "audit": {"file": str(audit)},
        "tracing": {"otlp_endpoint": traces.url, "sampled_ratio": 1.0, "every_s": 0.2},
    }
    made = LocalDaemons(overlay_cluster, MAPS_Q, sidecar={"vcores": 2}, sections=sections)
    made.folder = overlay_cluster.spec.workdir / f"quicksilver-{time.time_ns()}"
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def server(stack: LocalDaemons, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus while a job runs; yields when the job is over."""
    assert shutil.which("prometheus"), "install Debian's package prometheus (`make setup`)"
    folder, cluster = tmp_path_factory.mktemp("prometheus"), stack.cluster
    put_text(cluster, "/monitoring/input.txt", make_text(2000))
    with prometheus(folder, settings(folder, stack.url), free_base_port(1)) as made:
        until("all targets are up", lambda: len(made.query('up{job="quicksilver"} == 1')) == 4)
        target = f"/monitoring/{time.time_ns()}"
        options = JobOptions(properties={"mapreduce.map.speculative": "false"})
        start_wordcount(cluster, "/monitoring/input.txt", target, maps=12, options=options).wait(timeout_s=240)
        until("grants are scraped", lambda: bool(made.query('quicksilver_proxy_queue_grants_total{kind="Q"} > 0')))
        time.sleep(2)  # the last events, in two scrapes
        yield made


def until(what: str, true: Callable[[], bool]) -> None:
    eventually(what, lambda: true() or None, timeout_s=120)


def test_all_targets_are_found_by_the_proxy_and_up(server: Prometheus, stack: LocalDaemons) -> None:
    targets = server.get("targets")["activeTargets"]
    assert [one["lastError"] for one in targets] == [""] * 4
    nodes = {str(node.rpc) for node in stack.cluster.spec.node_addresses}
    assert {one["labels"]["node"] for one in targets if one["labels"]["part"] == "sidecar"} == nodes
    assert [one["labels"]["instance"] for one in targets if one["labels"]["part"] == "proxy"] == [stack.url[7:]]


def test_every_rule_evaluates_and_no_alert_fires(server: Prometheus) -> None:
    rules = [rule for group in server.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 30
    assert {(rule["health"], rule.get("lastError", "")) for rule in rules} == {("ok", "")}
    assert [alert for alert in server.get("alerts")["alerts"] if alert["state"] == "firing"] == []
    empty = {rule["name"] for rule in rules if rule["type"] == "recording" and not server.query(rule["name"])}
    assert empty <= {"quicksilver:queue_kills:rate5m", "quicksilver:queue_lost_seconds:rate5m"}


@pytest.mark.parametrize("name", [file.stem for file in DASHBOARDS])
def test_every_query_of_a_dashboard_evaluates_and_has_data(name: str, server: Prometheus) -> None:
    (file,) = (one for one in DASHBOARDS if one.stem == name)
    panels = json.loads(file.read_text())["panels"]
    assert panels
    empty = [panel["title"] for panel in panels if not any(server.query(filled(t["expr"])) for t in panel["targets"])]
    assert set(empty) <= QUIET


def filled(expression: str) -> str:
    """Return a query as Grafana sends it with all queues and nodes chosen."""
    return re.sub(r"\$(queue|node)\b", ".*", expression.replace("$__rate_interval", "1m"))


def test_hadoops_own_daemonlog_shows_and_changes_levels(stack: LocalDaemons) -> None:
    rest = stack.url.removeprefix("http://")
    logger, log_level = "rm_proxy.service.effect_handlers", "org.apache.hadoop.log.LogLevel"
    changed = stack.cluster.hadoop(log_level, "-setlevel", rest, logger, "DEBUG")
    assert "Effective Level: DEBUG" in changed.stdout
    shown = requests.get(f"{stack.url}/logLevel", params={"log": logger, "level": "reset"}, timeout=10).text
    assert "Effective Level: <b>INFO</b>" in shown
    lines = (stack.cluster.spec.workdir / "audit.log").read_text().splitlines()
    mine = [line for line in lines if f"TARGET={logger}" in line]
    assert ["ARGUMENTS=DEBUG" in line for line in mine] == [True, False]


def test_both_daemons_have_hadoops_pages(stack: LocalDaemons) -> None:
    sidecar = f"http://{stack.sidecar_rest(stack.cluster.spec.node_addresses[0])}"
    for url, key, service in ((stack.url, "proxy.upstream", "Proxy"), (sidecar, "sidecar.vcores", "Sidecar")):
        assert requests.get(f"{url}/conf?name={key}&format=json", timeout=10).json()["property"]["value"]
        answer = requests.get(f"{url}/jmx?qry=Hadoop:service=Quicksilver{service},name=Process", timeout=10).json()
        assert answer["beans"][0]["Uptime"] > 0
        assert "asyncio tasks" in requests.get(f"{url}/stacks", timeout=10).text
        assert requests.get(f"{url}/readyz", timeout=10).json() == {"ready": True, "reasons": []}
        assert requests.get(f"{url}/healthz", timeout=10).json()["status"] == "ok"


def test_a_container_is_one_trace_from_its_ask_to_its_end(
    server: Prometheus, stack: LocalDaemons, traces: Collector
) -> None:
    assert server is not None  # its job has run
    grants = stack.get("/v1/decisions?kind=Q&limit=1000")["items"]
    assert len(grants) >= 6

    def spans(container_id: str) -> dict[str, Any]:
        return {span.name: (service, span) for service, span in traces.of(container_id)}

    def over(container_id: str) -> bool:
        """Whether its trace is complete: it ran, or its start was given up while it was held."""
        found = spans(container_id)
        ran = {"start", "run"} <= found.keys()
        return {"allocate", "announce"} <= found.keys() and (ran or found.get("hold", ("", NEVER))[1].status.code == 2)

    deadline_s = time.monotonic() + 20
    while not all(over(grant["container_id"]) for grant in grants) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    found = [spans(grant["container_id"]) for grant in grants]
    assert [one.keys() for one, grant in zip(found, grants, strict=True) if not over(grant["container_id"])] == []
    ran = [one for one in found if "run" in one]
    assert len(ran) > len(found) / 2
    for one in ran:
        assert one["allocate"][0] == "quicksilver-proxy" and one["run"][0] == "quicksilver-sidecar"
        assert len({span.trace_id for _, span in one.values()}) == 1
        asked, run = one["allocate"][1], one["run"][1]
        assert asked.start_time_unix_nano < run.start_time_unix_nano < run.end_time_unix_nano
    assert any("hold" in one for one in found), "more maps than places"


def test_drains_and_refused_reloads_are_in_the_audit_log(stack: LocalDaemons) -> None:
    node = stack.cluster.spec.node_addresses[0]
    for on in (True, False):
        body = {"on": on, "reason": "audit"}
        assert requests.post(f"{stack.url}/v1/nodes/{node.rpc}/drain", json=body, timeout=10).ok
    gone = {"file": "gone.yaml", "who": "ann"}
    assert requests.post(f"{stack.url}/v1/policies/reload", json=gone, timeout=10).status_code == 422
    lines = (stack.cluster.spec.workdir / "audit.log").read_text().splitlines()
    drains = [line for line in lines if "OPERATION=drain" in line and f"TARGET={node.rpc}" in line]
    assert len(drains) == 2 and all("RESULT=SUCCESS" in line and "IP=127." in line for line in drains)
    assert any("SAYS=ann\t" in line and "OPERATION=reload" in line and "RESULT=FAILURE" in line for line in lines)
    assert sum("OPERATION=start" in line for line in lines) == 4
