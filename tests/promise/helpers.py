"""What the modules with real jobs share: daemons for a with block, jobs that wait for a file, what is left."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import requests

from hadoop_rpc.protos.yarn_pb2 import ApplicationIdProto
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.siteconf import read_site
from quicksilver_lab.cluster.spec import NodeAddresses
from quicksilver_lab.workloads.clients import Client, application_id
from quicksilver_lab.workloads.faults import checks
from quicksilver_lab.workloads.mapreduce import JobOptions, make_text
from quicksilver_lab.workloads.records import RecordedGrants, application_of
from quicksilver_lab.workloads.rest import get_json, get_text
from tests.promise.conftest import daemons
from tests.real.requester import rm_client

T = TypeVar("T")
TEXT: Final = make_text(400)
WITHIN_S: Final = 180.0
"""What must come may take this long where three clusters share two cores."""
_POLL_S: Final = 0.2
_SHED: Final = re.compile(r'event="container shed" container=(container_\w+)')
_STOPPED: Final = re.compile(
    r'event="container stopped" container=(container_\w+) .*why="stopped by the application master"'
)
_PLAIN: Final[Mapping[str, str]] = {
    "mapreduce.map.speculative": "false",  # a slow attempt beside a second one would be killed
    "mapreduce.reduce.speculative": "false",
    "mapreduce.job.reduce.slowstart.completedmaps": "1",
    "mapreduce.map.memory.mb": "512",
}


def options(*further: Mapping[str, str]) -> JobOptions:
    """Return what jobs are submitted with; further: properties besides."""
    return JobOptions(properties={key: value for some in (_PLAIN, *further) for key, value in some.items()})


def behind(cluster: Cluster, kind: str, gate: Path) -> dict[str, str]:
    """Return the property by which the JVMs of a job's tasks (`map` or `reduce`) begin once a file is there.

    A shell starts each JVM: it waits before, in a container that runs, and has written `GATE.CONTAINER_ID`.
    """
    name = f"mapreduce.{kind}.java.opts"
    before = read_site(cluster.conf_dir / "mapred-site.xml")[name]
    return {name: f"{before} -Dgate=$(: > {gate}.$CONTAINER_ID; until [ -e {gate} ]; do sleep 0.3; done)"}


def until(what: str, found: Callable[[], T], within_s: float = WITHIN_S, seen: Callable[[], object] | None = None) -> T:
    """Return the first true answer of `found`; an HTTP error counts as none. Raises AssertionError after `within_s`.

    what: that which must come; seen: what there is instead, by default the last answer.
    """
    end_s = time.monotonic() + within_s
    last: object = None
    while True:
        try:
            if answer := found():
                return answer
            last = answer
        except requests.RequestException as error:
            last = error
        if time.monotonic() > end_s:
            raise AssertionError(f"{what}: not within {within_s:g} s; instead: {seen() if seen else last}")
        time.sleep(_POLL_S)


def group(name: str) -> str:
    """Return the control group of the daemons of that name, as `daemons` makes it."""
    return f"quicksilver-{name}-{os.getpid()}"


@contextmanager
def running(
    cluster: Cluster,
    policies: Mapping[str, Any],
    name: str,
    *,
    supervised: bool = True,
    proxy: Mapping[str, Any] | None = None,
) -> Iterator[LocalDaemons]:
    """Run proxy and sidecars for the time of a with block; at its end nothing may be left, and no log has an error.

    supervised: whether they are restarted when they end, which costs a process more for each; proxy: settings of the
    proxy besides. A cluster that a test
    has turned plain is turned back before.
    """
    if not cluster.spec.overlay:
        cluster.restart_yarn(overlay=True)
    stack = daemons(cluster, policies, name, proxy)
    stack.supervised = supervised
    stack.start()
    try:
        yield stack
        nothing_left(cluster, stack, name)
    except BaseException:
        end_applications(cluster)  # of a test that failed: the next one needs their places
        raise
    finally:
        stack.stop()
    no_traceback(stack)


def nothing_left(cluster: Cluster, stack: LocalDaemons, name: str) -> None:
    """Check that YARN, proxy, sidecars and control groups hold nothing, and that nothing was started twice."""
    left = checks.leftovers(cluster, stack, groups=group(name))
    assert not left, "\n".join(left)
    assert checks.launched_twice(checks.node_logs(cluster)) == []


def end_applications(cluster: Cluster) -> None:
    """Have the ResourceManager kill all applications; without waiting."""
    url = f"{cluster.rm_rest}/ws/v1/cluster/apps?states=NEW,SUBMITTED,ACCEPTED,RUNNING"
    apps = (get_json(url, cluster.web_auth).get("apps") or {}).get("app", [])

    async def kill() -> None:
        async with rm_client(cluster) as rm:
            for app in apps:
                _, stamp, number = app["id"].split("_")
                await rm.kill(ApplicationIdProto(cluster_timestamp=int(stamp), id=int(number)), diagnostics="given up")

    asyncio.run(kill())


def no_traceback(stack: LocalDaemons) -> None:
    """Check the logs of proxy and sidecars."""
    for log in sorted(stack.folder.glob("*.log")):
        assert "Traceback" not in log.read_text(errors="replace"), log


def at_node(stack: LocalDaemons, node: NodeAddresses) -> list[dict[str, Any]]:
    """Return the containers of a node's sidecar. Raises requests.RequestException."""
    found: list[dict[str, Any]] = requests.get(f"{stack.sidecar_rest(node).url}/v1/containers", timeout=30).json()
    return found


def by_state(stack: LocalDaemons, app: str = "") -> dict[str, set[str]]:
    """Return the queueable containers at all sidecars by state; app: those of this application only."""
    found: dict[str, set[str]] = {}
    for node in stack.cluster.spec.node_addresses:
        for row in at_node(stack, node):
            if row["kind"] == "Q" and app in ("", row["app_id"]):
                found.setdefault(row["state"], set()).add(row["container_id"])
    return found


def alive(stack: LocalDaemons, app: str = "") -> set[str]:
    """Return the queueable containers whose programs run, be it on little CPU, at all sidecars."""
    found = by_state(stack, app)
    return found.get("running", set()) | found.get("shrunk", set())


def submitted(client: Client) -> str:
    """Return the application that a client has submitted, "" as long as it has not; it must run."""
    assert client.poll() is None, client.text
    text = client.text
    return application_id(text) if "Submitted application" in text else ""


def taken_back(stack: LocalDaemons, granted: RecordedGrants, app: str) -> int:
    """Return how many of an application's containers its sidecars gave back before they started.

    Its master gives others back, such as the second copy of a task whose first one ended. On a machine that is busy a
    place may come free late: what was bound to it ahead goes to another node then.
    """
    back = {container for container in granted.released if application_of(container) == app}
    logs = "".join(stack.log(node.name).read_text() for node in stack.cluster.spec.node_addresses)
    back -= set(_STOPPED.findall(logs))
    shed = set(_SHED.findall(logs))
    assert back <= shed, f"given back, and no sidecar says why: {back - shed}"
    return len(back)


def logged(cluster: Cluster, container: str, log: str) -> str:
    """Return a log of a finished container, by the JobHistoryServer. Raises requests.RequestException."""
    return get_text(f"{cluster.spec.jobhistory_web.url}/ws/v1/history/containerlogs/{container}/{log}")
