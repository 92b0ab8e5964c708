"""A secure cluster: Kerberos, SPNEGO and service-level authorization, with proxy and sidecars between.

With QUICKSILVER_COMPATIBILITY in the environment the outcomes become cells of the table in docs/compatibility.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from hadoop_rpc.errors import LocalProtocolError
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver_apps.yarn.yarn_client import AmClient, ContainerRefusedError, NmClient, RemoteCallError, RmClient
from quicksilver_lab.bench.las.master import container_name
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.local_daemons import LocalDaemons, running
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.siteconf import read_site
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.compatibility import recorded
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    JobResult,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver_lab.workloads.records import RecordsWatch
from quicksilver_lab.workloads.run_records import held_starts, measure
from tests.real.holder import Holder, holder, written

pytestmark = [pytest.mark.hadoop, pytest.mark.kerberos]
TEXT = make_text(2000)
OPTIONS = JobOptions(properties={"mapreduce.map.speculative": "false"})
POLICIES: dict[str, Any] = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}
ROLL_S = 40
PROTECTION = "hadoop.rpc.protection"
QOP = {"privacy": "auth-conf", "integrity": "auth-int"}
YARN = {
    "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs": str(ROLL_S),
    "yarn.am.liveness-monitor.expiry-interval-ms": "12000",
}
Secure = Callable[[Callable[[ClusterSpec], Mapping[str, str]]], LocalDaemons]
SEEN: list[bytes] = []
"""Secrets of the tests before."""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def secure(workdir: Path) -> Iterator[Secure]:
    """One secure cluster with proxy and sidecars, started anew when other settings of core-site.xml are wanted.

    Of a cluster that protects its RPC in that way already only YARN is: to no other daemon does hadoop-conf/secure
    belong.
    """
    spec = ClusterSpec(
        workdir=workdir,
        base_port=free_base_port(nodes=2),
        nodes=2,
        kerberos=True,
        spnego=True,
        extra_site={"yarn": YARN},
    )
    made = Cluster(spec)
    now: list[tuple[Mapping[str, str], LocalDaemons]] = []
    with ExitStack() as site, ExitStack() as ours:

        def start(wanted: Callable[[ClusterSpec], Mapping[str, str]]) -> LocalDaemons:
            core = wanted(spec)
            if not now or now[0][0] != core:
                ours.close()
                same = bool(now) and PROTECTION in core and protection(now[0][0]) == protection(core)
                if not same:
                    site.close()
                made.spec = made.spec.model_copy(update={"extra_site": {"yarn": YARN, "core": dict(core)}})
                made.conf = ConfDirs(made.spec)
                if same:
                    made.restart_yarn(overlay=True)
                else:
                    site.callback(made.stop)
                    made.start()
                    put_text(made, "/whole/input.txt", TEXT)
                now[:] = [(core, ours.enter_context(running(made, policies=POLICIES)))]
            return now[0][1]

        yield start


def protection(core: Mapping[str, str]) -> str:
    """Return what RPC is protected by: privacy, integrity, or nothing but the login."""
    return core.get(PROTECTION, "authentication").partition(",")[0]


@pytest.fixture(scope="module", params=["privacy", "integrity"])
def quality(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stack(secure: Secure) -> LocalDaemons:
    return secure(lambda _: {})


@pytest.fixture
def cluster(stack: LocalDaemons) -> Cluster:
    return stack.cluster


def wordcount(cluster: Cluster, name: str, maps: int = 3) -> JobResult:
    target = f"/whole/{name}-{time.time_ns()}"
    result = start_wordcount(cluster, "/whole/input.txt", target, maps=maps, options=OPTIONS).wait(timeout_s=200)
    assert read_counts(cluster, target) == count_words(TEXT)
    return result


def metric(url: str, name: str) -> float:
    text = requests.get(f"{url}/metrics", timeout=10).text
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def held_job(cluster: Cluster, stack: LocalDaemons, name: str) -> None:
    """Run a job all of whose maps were held, by every record there is."""
    with RecordsWatch(cluster) as watch:
        job = wordcount(cluster, name)
    way = measure(cluster, "quicksilver", job, watch, "")
    assert way.disagreeing == ()
    assert way.rm_opportunistic == job.maps == way.nm_opportunistic
    held = held_starts(stack, way)
    assert held.count == held.confirmed == job.maps


def test_maps_are_held_and_the_records_agree(cluster: Cluster, stack: LocalDaemons) -> None:
    held_job(cluster, stack, "held")
    assert stack.get("/v1/health")["problems"] == []
    assert metric(stack.url, "quicksilver_proxy_encrypted_connections_total") == 0
    refused = requests.get(f"{cluster.rm_rest}/ws/v1/cluster/apps", timeout=10)
    assert refused.status_code == 401  # nobody reads the ResourceManager without a login


def changed(container: y.ContainerProto, **fields: Any) -> y.ContainerProto:
    """Return a container whose token says something else; its password is that of the true one."""
    token = y.ContainerTokenIdentifierProto.FromString(container.container_token.identifier)
    for name, value in fields.items():
        getattr(token, name).CopyFrom(value)
    made = y.ContainerProto()
    made.CopyFrom(container)
    made.container_token.identifier = token.SerializeToString()
    made.id.CopyFrom(token.containerId)
    return made


def other_password(container: y.ContainerProto) -> y.ContainerProto:
    made = changed(container)
    made.container_token.password = bytes(byte ^ 1 for byte in made.container_token.password)
    return made


def larger(container: y.ContainerProto) -> y.ContainerProto:
    return changed(container, resource=y.ResourceProto(memory=2048, virtual_cores=1))


def never_granted(container: y.ContainerProto) -> y.ContainerProto:
    foreign = y.ContainerIdProto()
    foreign.CopyFrom(container.id)
    foreign.id += 1000
    return changed(container, containerId=foreign)


def on_nodes(stack: LocalDaemons) -> list[dict[str, Any]]:
    """Return the containers that sidecars know: waiting, starting, running."""
    found: list[dict[str, Any]] = []
    for node in stack.cluster.spec.node_addresses:
        found += requests.get(f"{stack.sidecar_rest(node).url}/v1/containers", timeout=10).json()
    return found


@pytest.mark.parametrize("forged", [other_password, larger])
def test_a_forged_token_is_refused_at_the_real_start(
    cluster: Cluster, stack: LocalDaemons, forged: Callable[[y.ContainerProto], y.ContainerProto]
) -> None:
    async def talk() -> None:
        async with holder(cluster, "forged") as app:
            (container,) = await app.granted(1)
            async with app.node(container) as node:
                await node.start(forged(container), "true")  # held: the answer is "started" in any case
            status = await app.finished(container)
            assert "Invalid container token used for starting container" in status.diagnostics
            assert on_nodes(stack) == []
            (honest,) = await app.granted(1, (container.nodeId.host,))
            async with app.node(honest) as node:
                await node.start(honest, "true")
            assert (await app.finished(honest)).exit_status == 0
            SEEN.extend(app.secrets())

    asyncio.run(talk())


def test_what_nobody_announced_or_another_application_owns_is_not_queued(cluster: Cluster, stack: LocalDaemons) -> None:
    async def talk() -> None:
        async with holder(cluster, "victim") as victim, holder(cluster, "thief") as thief:
            (own,) = await thief.granted(1)
            (theirs,) = await victim.granted(1, (own.nodeId.host,))
            assert own.nodeId == theirs.nodeId
            await refused(thief, never_granted(own), "Invalid container token")
            await refused(thief, theirs, "Unauthorized request to start container")
            assert on_nodes(stack) == []
            async with victim.node(theirs) as node:  # the theft did not cost it anything
                await node.start(theirs, "true")
            assert (await victim.finished(theirs)).exit_status == 0
            SEEN.extend(victim.secrets() + thief.secrets())
            await victim.until(lambda: "held" in kinds_of_events(stack, theirs), within_s=20)

    asyncio.run(talk())


def kinds_of_events(stack: LocalDaemons, container: y.ContainerProto) -> set[str]:
    """Return what the store has of a container."""
    return {event["kind"] for event in stack.get(f"/v1/containers/{container_name(container.id)}")["events"]}


async def refused(app: Holder, container: y.ContainerProto, why: str) -> None:
    async with NmClient(*_address(container), app.nm_tokens[_address(container)]) as node:
        with pytest.raises((ContainerRefusedError, RemoteCallError), match=why):
            await node.start(container, "true")


def _address(container: y.ContainerProto) -> tuple[str, int]:
    return container.nodeId.host, container.nodeId.port


def test_a_rolled_token_reaches_the_master_and_logs_it_in(cluster: Cluster, stack: LocalDaemons) -> None:
    async def talk() -> None:
        async with holder(cluster, "rolled") as app:
            (before,) = await app.granted(1)
            await app.until(lambda: app.fresh_token is not None, within_s=2 * ROLL_S + 20)
            assert app.fresh_token is not None
            assert app.fresh_token.password != app.token.password
            async with AmClient(*cluster.spec.scheduler, app.fresh_token) as again:
                again.response_id, app.am = app.am.response_id, again
                (after,) = await app.granted(1)
                for container in (before, after):
                    async with app.node(container) as node:
                        await node.start(container, "true")
                    assert (await app.finished(container)).exit_status == 0
            SEEN.extend(app.secrets())

    asyncio.run(talk())


def test_encrypted_connections_pass_and_it_is_said(secure: Secure, quality: str) -> None:
    stack = secure(lambda _: {PROTECTION: quality})
    cluster = stack.cluster
    with recorded(f"3.4.2 with Kerberos, {quality}", "MapReduce", "G"), RecordsWatch(cluster) as watch:
        job = wordcount(cluster, quality)
        assert watch.tally(job.application_id).rm_opportunistic == 0
    assert metric(stack.url, "quicksilver_proxy_encrypted_connections_total") >= 1
    assert any("pass unread" in problem for problem in stack.get("/v1/health")["problems"])
    assert QOP[quality] in stack.log("proxy").read_text()
    sidecars = [stack.sidecar_rest(node).url for node in cluster.spec.node_addresses]
    assert sum(metric(url, "quicksilver_sidecar_encrypted_connections_total") for url in sidecars) >= job.maps
    limits = [limit for url in sidecars for limit in requests.get(f"{url}/healthz", timeout=10).json()["limits"]]
    assert any("pass unread" in limit for limit in limits)


def recipe(spec: ClusterSpec, quality: str) -> dict[str, str]:
    """Return hadoop-conf/secure with this cluster's ports, of which each node has its own.

    quality: what stands in place of privacy.
    """
    overlay = read_site(overlay_root() / "secure" / "core-site.xml")
    rm, nodes = spec.resource_managers[0], spec.node_addresses
    ports = {
        "18030": [rm.moved_scheduler.port],
        "8031": [rm.tracker.port],
        "8032": [rm.client.port],
        "8033": [rm.admin.port],
        "8041": [node.rpc.port for node in nodes],
        "8040": [node.localizer.port for node in nodes],
    }
    found: dict[str, str] = {}
    for name, value in overlay.items():
        head, _, port = name.rpartition(".")
        if name == "ingress.port.sasl.configured.ports":
            found[name] = ",".join(str(p) for given in value.split(",") for p in ports[given])
        elif head == "ingress.port.sasl.prop":
            found |= {f"{head}.{p}": value.replace("privacy", quality) for p in ports[port]}
        else:
            found[name] = value.replace("privacy", quality)
    return found


def test_two_ports_that_speak_authentication_are_enough(secure: Secure, quality: str) -> None:
    stack = secure(lambda spec: recipe(spec, quality))
    with recorded(f"3.4.2 with Kerberos, {quality}, two ports", "MapReduce", "Q"):
        held_job(stack.cluster, stack, f"recipe-{quality}")
    assert stack.get("/v1/health")["problems"] == []
    with pytest.raises(LocalProtocolError, match=f"qop={QOP[quality]}"):
        asyncio.run(offered(stack.cluster))


async def offered(cluster: Cluster) -> None:
    """Knock at the ResourceManager's port for clients, which the recipe leaves encrypted."""
    async with RmClient(*cluster.spec.rm_client, token=TokenProto(identifier=b"x", password=b"y")):
        raise AssertionError("a login without encryption went through")


def test_no_secret_is_in_any_log_report_or_store(workdir: Path) -> None:
    assert len(SEEN) >= 10
    key = (workdir / "kerberos" / "quicksilver.keytab").read_bytes()[-36:-4]
    forms = {form for secret in (*SEEN, key) for form in written(secret)}
    looked_at = 0
    for path in (workdir / "quicksilver").rglob("*"):
        if path.name.startswith("attempts-"):  # the last answers, which a resync repeats with their tokens
            assert path.stat().st_mode & 0o077 == 0, path
        elif path.is_file():
            looked_at += 1
            content = path.read_bytes()
            assert not [form for form in forms if form in content], path
    assert looked_at >= 4
