"""Containers that the proxy grants itself, on real ResourceManagers and NodeManagers of each version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.runtime.releases import DEFAULT, RELEASES
from quicksilver_lab.cluster.tracker_relays import TrackerRelays
from tests.promise.conftest import running_cluster
from tests.promise.helpers import running, until
from tests.real.versions.jobs import RESTARTS, outlived, ran_pi, spec_of

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(1500)]
MAPS: Final = 6
FIRST: Final = 1 << 30
_KEYS_KNOWN: Final = "quicksilver_proxy_own_grant_nodes"


def own_containers(cluster: Cluster, application: str) -> set[str]:
    """Return the containers of our own that NodeManagers ran for an application."""
    _, stamp, number = application.split("_")
    text = "".join(cluster.log(f"nodemanager-{n.name}").read_text() for n in cluster.spec.node_addresses)
    ids = set(re.findall(rf"container_(?:e\d+_)?{stamp}_{number}_\d+_\d+", text))
    return {container for container in ids if int(container.rpartition("_")[2]) > FIRST}


def keys_are_known(stack: LocalDaemons) -> None:
    """Wait until the proxy has the keys of all nodes."""
    text = until("the keys of all nodes", lambda: re.search(rf"^{_KEYS_KNOWN} (.+)", metrics(stack), re.M))
    until(text[0], lambda: f"{_KEYS_KNOWN} {float(len(stack.cluster.spec.node_addresses))}" in metrics(stack))


def metrics(stack: LocalDaemons) -> str:
    """Return the proxy's metrics. Raises requests.RequestException."""
    return stack.call("GET", f"{stack.url}/metrics").text


def restarted_relay(relays: TrackerRelays) -> None:
    """Kill each relay, worker and supervisor, and start it again."""
    for name, process in list(relays.processes.items()):
        process.kill()
        process.wait()
        relays.start(name)


@pytest.mark.parametrize(
    ("version", "setting"), [*((version, True) for version in RELEASES), (DEFAULT, "ahead"), ("3.1.1", "ahead")]
)
def test_mapreduce_runs_on_containers_of_our_own(version: str, setting: bool | str, tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "cluster", version).model_copy(update={"own_grants": True, "tracker_relay": True})
    relayed = Cluster(spec)
    with (
        TrackerRelays(relayed, [LocalDaemons(relayed).proxy_rest.url]) as relays,
        running_cluster(spec) as cluster,
        running(cluster, {}, "own", proxy={"own_grants": setting}) as stack,
    ):
        keys_are_known(stack)
        result, tally = ran_pi(cluster, "own", MAPS)
        early = re.search(r'own_grants_total\{result="ahead"\} (\d+)', metrics(stack))
        assert (early is not None and int(early[1]) > 0) == (setting == "ahead"), early
        own = own_containers(cluster, result.application_id)
        assert tally.rm_opportunistic == 0 and len(own) >= MAPS, (tally, own)
        assert tally.nm_opportunistic == tally.ran, tally
        for disturbance, restart in RESTARTS.items():
            outlived(stack, disturbance.replace(" ", "-"), tmp_path, restart, own=True)
            keys_are_known(stack)
        outlived(stack, "relays", tmp_path, lambda _: restarted_relay(relays), own=True)
        assert stack.get("/v1/health")["problems"] == []


def test_a_resourcemanager_without_the_property_grants_as_before(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "cluster", "3.4.2").model_copy(update={"tracker_relay": True})
    relayed = Cluster(spec)
    with (
        TrackerRelays(relayed, [LocalDaemons(relayed).proxy_rest.url]),
        running_cluster(spec) as cluster,
        running(cluster, {}, "own", supervised=False, proxy={"own_grants": True}) as stack,
    ):
        keys_are_known(stack)
        result, tally = ran_pi(cluster, "own", MAPS)
        assert tally.rm_opportunistic > 0, tally
        assert own_containers(cluster, result.application_id) == set()
        assert 'own_grants_total{result="refused"} 1.0' in metrics(stack)
