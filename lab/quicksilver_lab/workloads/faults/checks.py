"""What must hold after a campaign, checked from outside: logs and REST of RM and NMs, processes, control groups."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import requests

from quicksilver.common.own_numbers import FIRST_NUMBER
from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.processes import containers_below
from quicksilver_lab.workloads.rest import get_json

_LAUNCH: Final = re.compile(r"launchContainer: \[.*/(container_\w+)/default_container_executor\.sh")
_UNLAUNCHED: Final = re.compile(
    r"Can't handle this event at current state: Current: \[NEW\], eventType: \[CONTAINER_EXITED_WITH_FAILURE\],"
    r"\s+container: \[(container_\w+)\]"
)
"""What a NodeManager logs when it recovers a container, and drops the news that its launch failed."""
_RECOVERED: Final = re.compile(r"Recovering (container_\w+) in state QUEUED")
_GROUPS: Final = Path("/sys/fs/cgroup")
_QUIET_S: Final = 90.0
_POLL_S: Final = 1.0


def launched_twice(logs: Iterable[Path]) -> list[str]:
    """Return the containers whose program was started more than once according to the NodeManagers' logs."""
    launches = Counter[str]()
    for log in logs:
        launches.update(_LAUNCH.findall(log.read_text(errors="replace")))
    return sorted(container for container, count in launches.items() if count > 1)


def launches(logs: Iterable[Path]) -> int:
    """Return how many containers the NodeManagers started."""
    return sum(len(_LAUNCH.findall(log.read_text(errors="replace"))) for log in logs)


def own_grants(logs: Iterable[Path]) -> int:
    """Return how many of the containers that NodeManagers started were granted by the proxy itself."""
    started = {container for log in logs for container in _LAUNCH.findall(log.read_text(errors="replace"))}
    return sum(int(container.rpartition("_")[2]) > FIRST_NUMBER for container in started)


def never_launched(logs: Iterable[Path]) -> list[str]:
    """Return the containers that NodeManagers lost for their own launcher when they were restarted.

    On plain YARN too each stays in its NodeManager's list, until the next restart.
    """
    return sorted({container for log in logs for container in _UNLAUNCHED.findall(log.read_text(errors="replace"))})


def recovered_in_queue(logs: Iterable[Path]) -> set[str]:
    """Return the containers that NodeManagers were to launch when they were killed.

    What such a NodeManager (3.4) launches at its recovery has none of its local resources.
    """
    return {container for log in logs for container in _RECOVERED.findall(log.read_text(errors="replace"))}


def node_logs(cluster: Cluster) -> list[Path]:
    """Return the NodeManagers' logs."""
    return [cluster.log(f"nodemanager-{node.name}") for node in cluster.spec.node_addresses]


def leftovers(cluster: Cluster, stack: LocalDaemons | None, groups: str = "quicksilver") -> list[str]:
    """Return what is still there of jobs that are all over, after giving it time to go; empty when nothing is.

    What `never_launched` names is in the lists of NodeManagers and sidecars until the NodeManager is restarted.
    """
    end_s, stay = time.monotonic() + _QUIET_S, never_launched(node_logs(cluster))
    while (remains := _remains(cluster, stack, groups, stay)) and time.monotonic() < end_s:
        time.sleep(_POLL_S)
    return remains


def _remains(cluster: Cluster, stack: LocalDaemons | None, groups: str, stay: Container[str]) -> list[str]:
    texts = [f"process {p.pid} of a container" for p in containers_below(cluster.spec.workdir / "local")]
    try:
        texts += _left_in_yarn(cluster, stay)
        if stack is not None:
            texts += _left_in_stack(stack, stay)
    except requests.RequestException as error:
        texts.append(f"a daemon does not answer: {error}")
    return texts + [f"control group {path}" for path in _container_groups(groups)]


def _left_in_yarn(cluster: Cluster, stay: Container[str]) -> list[str]:
    states, auth = "NEW,SUBMITTED,ACCEPTED,RUNNING", cluster.web_auth
    apps = get_json(f"{cluster.rm_rest}/ws/v1/cluster/apps?states={states}", auth).get("apps") or {}
    texts = [f"{app['id']} is {app['state']}" for app in apps.get("app", [])]
    staying: dict[str, list[Mapping[str, Any]]] = {}
    for address in cluster.spec.node_addresses:
        url = f"{address.web.url}/ws/v1/node/containers"
        listed = (get_json(url, auth).get("containers") or {}).get("container", [])
        texts += [f"{address.name} shows {row['id']} as {row['state']}" for row in listed if row["id"] not in stay]
        staying[str(address.rpc)] = [row for row in listed if row["id"] in stay]
    for node in (get_json(f"{cluster.rm_rest}/ws/v1/cluster/nodes", auth).get("nodes") or {}).get("node", []):
        texts += left_at_node(node, staying.get(node["id"], []))
    return texts


def left_at_node(node: Mapping[str, Any], staying: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the ResourceManager counts at a node beside what stays in the NodeManager's list.

    node, staying: as the REST of the two has them.
    """
    texts = [] if node["state"] == "RUNNING" else [f"{node['id']} is {node['state']}"]
    expected = dict.fromkeys(("numContainers", "numRunningOpportContainers", "numQueuedContainers"), len(staying))
    expected["usedMemoryMB"] = sum(container["totalMemoryNeededMB"] for container in staying)
    for key, most in expected.items():
        if node.get(key, 0) > most:  # after a recovery the NodeManager itself may count below zero
            texts.append(f"the ResourceManager counts {key}={node[key]} at {node['id']}")
    return texts


def _left_in_stack(stack: LocalDaemons, stay: Container[str]) -> list[str]:
    texts = []
    for app in stack.get("/v1/applications?limit=1000")["items"]:
        counts = {key: app[key] for key in ("wanted_g", "wanted_q", "live_g", "live_q") if app.get(key)}
        if counts and app["finished_s"] is None:
            texts.append(f"the proxy holds of {app['id']}: {counts}")
    for node in stack.get("/v1/nodes?limit=1000")["items"]:
        if not node["usable"]:
            texts.append(f"{node['id']} takes no queueables: {node['why_unusable']}")
        detail = stack.get(f"/v1/nodes/{node['id']}")
        there = {c["container_id"]: c["state"] for c in detail["containers"]}
        texts += [f"{node['id']}'s sidecar has {cid} as {state}" for cid, state in there.items() if cid not in stay]
    return texts


def _container_groups(name: str) -> list[Path]:
    """Return the control groups of containers below those of our sidecars."""
    groups: list[Path] = []
    for root in {path.resolve() for path in (*_GROUPS.glob("*"), _GROUPS)}:
        groups += [path for path in (root / name).glob("*/*") if path.is_dir()]
    return sorted(groups)


def proxy_counts(stack: LocalDaemons) -> dict[str, Any]:
    """Return the events of containers in the store, by kind."""
    summary = stack.get("/v1/summary")
    return {key: summary[key] for key in ("guaranteed", "queueable", "queueing", "events")}
