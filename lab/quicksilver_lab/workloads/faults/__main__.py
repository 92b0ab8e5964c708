"""`python -m quicksilver_lab.workloads.faults`: a campaign of faults on a real local cluster."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import psutil
import requests

from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.spec import MASTER, HostPort, NodeAddresses
from quicksilver_lab.cluster.tracker_relays import TrackerRelays
from quicksilver_lab.workloads.clients import Progress
from quicksilver_lab.workloads.environment import Progresses, interruptible, one_line_errors
from quicksilver_lab.workloads.faults import causes, checks, plan
from quicksilver_lab.workloads.faults.inject import AM_PROXY, PROXY_RM, Injector
from quicksilver_lab.workloads.faults.jobs import MAPREDUCE, SHELL, SPARK, FaultJobs, FaultOutcome, Lane
from quicksilver_lab.workloads.faults.master_keys import SeenMasterKeys, search, search_environments
from quicksilver_lab.workloads.faults.toxic import Between, Toxics
from quicksilver_lab.workloads.servers.postgres import Postgres
from quicksilver_lab.workloads.spark import DEFAULT_PYTHON, find_spark

NODES: Final = 3
_EXPIRY: Final = "yarn.nm.liveness-monitor.expiry-interval-ms"
_SITE: Final[Mapping[str, str]] = {
    "yarn.resourcemanager.am.max-attempts": "20",
    "yarn.resourcemanager.connect.retry-interval.ms": "1000",
    "yarn.nodemanager.resourcemanager.connect.retry_interval.secs": "1",
    _EXPIRY: "60000",
    "yarn.am.liveness-monitor.expiry-interval-ms": "60000",
}
POLICIES: Final[Mapping[str, Any]] = {
    "queues": "*",
    "routes": [{"policy": "hybrid_gq", "settings": {"td_s": 3600.0, "pq": 80.0}}],
    "quota": {"policy": "none"},
    "shed": {"policy": "queue_length", "settings": {"min_length": 1, "max_length": 4}},
}
_ROLLED: Final = ("container-tokens", "nm-tokens")
_OTHER_PROXY, _TOXIC_UPSTREAM, _TOXIC_REST = 38, 39, 91
_OTHER_SIDECAR, _TOXIC_NM, _TOXIC_SIDECAR_REST = 7, 8, 9
_TOXIC_TRACKER: Final = 4
_KINDS: Final[Mapping[str, float]] = {**plan.KINDS, **plan.OWN_GRANTS}
_END_S: Final = 480.0
_AGAIN_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class CampaignOptions:
    """What a campaign is run with."""

    workdir: Path
    base_port: int
    faults: int
    minutes: float
    pause_s: float
    seed: int
    plain: bool
    preempt: str
    store: str
    lanes: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    each_first: bool = False
    """One of each kind before any comes twice; who aims at what is away waits for it."""
    own_grants: bool = False
    ahead: bool = False
    """The proxy grants containers itself, and master keys roll; it is searched for them in the end."""
    roll_s: int = 70
    """Seconds between master keys with own grants."""


def links(spec: ClusterSpec, rest: HostPort) -> dict[str, Between]:
    """Return the relays between each two parts: public addresses stay what they are."""
    relays = {
        AM_PROXY: Between(spec.scheduler, spec.master(_OTHER_PROXY)),
        PROXY_RM: Between(spec.master(_TOXIC_UPSTREAM), spec.moved_scheduler),
        "sidecar-proxy": Between(spec.master(_TOXIC_REST), rest),
    }
    for node in spec.node_addresses:
        relays |= {
            f"AM-{node.name}": Between(node.rpc, _beside(node, _OTHER_SIDECAR)),
            f"{node.name}-NM": Between(HostPort("127.0.0.1", node.rpc.port + _TOXIC_NM), node.loopback_rpc),
            f"proxy-{node.name}": Between(_beside(node, _TOXIC_SIDECAR_REST), _beside(node, 5)),
            _nm_rm(node): Between(tracker_of(spec, node), spec.resource_tracker),
        }
    return relays


def _nm_rm(node: NodeAddresses) -> str:
    return f"NM-RM {node.name}"


def tracker_of(spec: ClusterSpec, node: NodeAddresses) -> HostPort:
    """Return where a node's link to the ResourceManager begins: at the NodeManager, or at its tracker relay."""
    return HostPort(MASTER, node.rpc.port + _TOXIC_TRACKER) if spec.own_grants else node.tracker


def _beside(node: NodeAddresses, offset: int) -> HostPort:
    return HostPort(node.host, node.rpc.port + offset)


def node_settings(node: NodeAddresses) -> dict[str, Any]:
    """Return the settings of a node's sidecar that put it behind the relays."""
    return {
        "listen": str(_beside(node, _OTHER_SIDECAR)),
        "upstream": f"127.0.0.1:{node.rpc.port + _TOXIC_NM}",
        "rest_url": _beside(node, _TOXIC_SIDECAR_REST).url,
        "node_id": str(node.rpc),
    }


@dataclass(slots=True)
class CampaignSite:
    """What runs in a campaign; None with plain YARN, and the tracker relays without own grants."""

    cluster: Cluster
    stack: LocalDaemons | None = None
    toxics: Toxics | None = None
    store: Postgres | None = None
    relays: TrackerRelays | None = None
    keys: SeenMasterKeys = field(default_factory=SeenMasterKeys)

    def where_keys_are(self) -> list[str]:
        """Return where master keys stand in what the campaign wrote, and in its processes' environments.

        NodeManagers keep theirs for their recovery themselves: their own folders for it are left out.
        """
        spec, keys = self.cluster.spec, self.keys.keys
        folders = [spec.workdir, *([self.store.folder] if self.store is not None else []), *Path.cwd().glob("core*")]
        own = [spec.workdir / "local" / f"{node.name}-recovery" for node in spec.node_addresses]
        parents = [p for part in (self.stack, self.relays) if part is not None for p in part.processes.values()]
        running = [psutil.Process(parent.pid) for parent in parents if parent.poll() is None]
        running += [child for process in running for child in process.children(recursive=True)]
        return [*search(folders, keys, own), *search_environments(running, keys)]


def _rolling(roll_s: int) -> dict[str, str]:
    """Return the settings with which master keys roll; the ResourceManager wants them to outlive three expiries."""
    rolls = {f"yarn.resourcemanager.{which}.master-key-rolling-interval-secs": str(roll_s) for which in _ROLLED}
    expiry_ms = min(int(_SITE[_EXPIRY]), (1000 * roll_s - 1) // 3)
    return rolls | {_EXPIRY: str(expiry_ms)}


def spec_of(options: CampaignOptions) -> ClusterSpec:
    """Return the cluster of a campaign."""
    return ClusterSpec(
        workdir=options.workdir,
        base_port=options.base_port,
        nodes=NODES,
        overlay=not options.plain,
        tracker_relay=not options.plain,
        node_vcores=3,
        node_memory_mb=3072,
        rm_recovery=True,
        nm_recovery=True,
        own_grants=options.own_grants,
        extra_site={"yarn": dict(_SITE) | (_rolling(options.roll_s) if options.own_grants else {})},
    )


@contextmanager
def site(options: CampaignOptions, progress: Progress) -> Iterator[CampaignSite]:
    """Run a cluster with relays between all parts, the store, proxy and sidecars for the time of a with block."""
    spec = spec_of(options)
    cluster = Cluster(spec)
    parts = CampaignSite(cluster)
    with ExitStack() as stack_of:
        stack_of.enter_context(interruptible())
        stack = None
        if not options.plain:
            parts.store = store = stack_of.enter_context(Postgres()) if options.store == "postgresql" else None
            own: dict[str, Any] = {
                "listen": str(spec.master(_OTHER_PROXY)),
                "upstream": str(spec.master(_TOXIC_UPSTREAM)),
                "own_grants": "ahead" if options.ahead else options.own_grants,
            }
            if store is not None:
                own["store_url"] = store.url
            parts.stack = stack = LocalDaemons(
                cluster,
                {**POLICIES, "preempt": {"policy": options.preempt}},
                proxy=own,
                sidecar=lambda node: {"proxy_url": spec.master(_TOXIC_REST).url, **node_settings(node)},
                standby=True,
            )
            readers = {_nm_rm(node): parts.keys.reader for node in spec.node_addresses} if options.own_grants else {}
            parts.toxics = stack_of.enter_context(Toxics(links(spec, stack.proxy_rest), options.seed, readers))
        if options.own_grants:
            upstreams = {node.name: tracker_of(spec, node) for node in spec.node_addresses}
            relays = TrackerRelays(cluster, [spec.master(_TOXIC_REST).url], upstreams=upstreams)
            parts.relays = stack_of.enter_context(relays)
        stack_of.callback(cluster.stop, progress)
        cluster.start(progress)
        if stack is not None:
            stack_of.callback(stack.stop)
            stack.start(progress)
        yield parts


def run(options: CampaignOptions, progress: Progress) -> dict[str, Any]:
    """Run a campaign; return its result."""
    with site(options, progress) as parts:
        cluster, stack, toxics = parts.cluster, parts.stack, parts.toxics
        stop = threading.Event()
        lanes = _lanes(options, cluster, stop)
        injector = Injector(cluster, stack, toxics, parts.store, progress, options.seed, parts.relays)
        begun_s = time.monotonic()
        for lane in lanes:
            lane.start()
        try:
            _inject(options, cluster, toxics, injector, begun_s)
        finally:
            stop.set()
            injector.settle()
        faults_s = time.monotonic() - begun_s
        progress("no more faults; the jobs end")
        for lane in lanes:
            lane.join(_END_S)
        progress("all jobs are over; checking what is left")
        leftovers = checks.leftovers(cluster, stack)
        if any(lane.is_alive() for lane in lanes):
            leftovers.append("a job does not end")
        outcomes = [outcome for lane in lanes for outcome in lane.outcomes]
        return {
            **_campaign(injector, outcomes, checks.node_logs(cluster)),
            "left": leftovers,
            "not_back": injector.problems,
            **(_own_grants(parts) if options.own_grants else {}),
            "proxy": None if stack is None else _counts(stack),
            "faults_s": round(faults_s, 1),
            "all_jobs": [outcome.as_dict() for outcome in outcomes],
            "all_faults": [injection.as_dict() for injection in injector.done],
        }


def _lanes(options: CampaignOptions, cluster: Cluster, stop: threading.Event) -> list[Lane]:
    marks = cluster.spec.workdir / "marks"
    jobs = FaultJobs(cluster, marks, find_spark(DEFAULT_PYTHON) if SPARK in options.lanes else None)
    runs: dict[str, Callable[[FaultOutcome], None]] = {MAPREDUCE: jobs.mapreduce, SHELL: jobs.shell, SPARK: jobs.spark}
    return [Lane(kind, runs[kind], stop, 10.0 if kind == SPARK else 0.0) for kind in options.lanes]


def _campaign(injector: Injector, outcomes: list[FaultOutcome], logs: list[Path]) -> dict[str, Any]:
    """Return what became of jobs and containers; marks failures that stock YARN has under the same faults."""
    faults = [injection.as_dict() for injection in injector.done]
    for outcome in outcomes:
        if outcome.kind == SHELL and not outcome.ok:
            outcome.as_stock = causes.shell_as_on_stock(outcome.said, faults)
    queued = checks.recovered_in_queue(logs)
    failures = [causes.explained(failure, faults, queued) for outcome in outcomes for failure in outcome.failures]
    return {
        "faults": len(injector.done),
        "by_kind": dict(Counter(injection.fault.kind for injection in injector.done)),
        "jobs": len(outcomes),
        "jobs_by_kind": dict(Counter(outcome.kind for outcome in outcomes)),
        "jobs_failed": [o.as_dict() for o in outcomes if not o.ok and not o.as_stock],
        "jobs_failed_as_stock": [o.as_dict() for o in outcomes if not o.ok and o.as_stock],
        "mapreduce_failed_attempts": [f.as_dict() for f in failures if not f.as_stock],
        "mapreduce_failed_as_stock": [f.as_dict() for f in failures if f.as_stock],
        "mapreduce_killed_attempts": sum(outcome.killed_attempts for outcome in outcomes),
        "containers_launched": checks.launches(logs),
        "launched_twice": checks.launched_twice(logs),
        "never_launched": checks.never_launched(logs),
    }


def _own_grants(parts: CampaignSite) -> dict[str, Any]:
    """Return how many containers the proxy granted itself, and where master keys were found."""
    return {
        "own_granted": checks.own_grants(checks.node_logs(parts.cluster)),
        "keys_seen": len(parts.keys.keys),
        "nodes_unread": parts.keys.unread,
        "keys_found": parts.where_keys_are(),
    }


def _counts(stack: LocalDaemons) -> dict[str, Any]:
    try:
        return checks.proxy_counts(stack)
    except requests.RequestException as error:
        return {"error": str(error)}


def _inject(
    options: CampaignOptions, cluster: Cluster, toxics: Toxics | None, injector: Injector, begun_s: float
) -> None:
    nodes = [node.name for node in cluster.spec.node_addresses]
    kinds = {kind: weight for kind, weight in plan.KINDS.items() if not options.plain or kind in plan.STOCK}
    if options.own_grants:
        kinds |= plan.OWN_GRANTS
    if options.kinds:
        kinds = {kind: weight for kind, weight in kinds.items() if kind in options.kinds}
    links = toxics.names if toxics else []
    drawn = plan.faults(options.seed, nodes, links, options.pause_s, kinds, options.each_first)
    while len(injector.done) < options.faults and time.monotonic() - begun_s < 60 * options.minutes:
        fault = next(drawn)
        time.sleep(fault.pause_s)
        while not injector.inject(fault) and len(injector.done) < len(kinds) and options.each_first:
            time.sleep(_AGAIN_S)


def noticed(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what somebody noticed, by kind; empty when nobody did."""
    kinds = ("jobs_failed", "mapreduce_failed_attempts", "launched_twice", "left", "not_back", "keys_found")
    noted = {kind: result[kind] for kind in kinds if result.get(kind)}
    return noted | {kind: 0 for kind in ("jobs", "own_granted", "keys_seen") if result.get(kind) == 0}


@click.command()
@click.option("--workdir", type=click.Path(file_okay=False, path_type=Path), default=Path("run/faults"))
@click.option("--base-port", default=18000, show_default=True)
@click.option("--faults", type=click.IntRange(1), default=220, show_default=True, help="Then it ends.")
@click.option("--minutes", type=click.FloatRange(0.1), default=32.0, show_default=True, help="Or then.")
@click.option("--pause-s", type=click.FloatRange(0.5), default=7.0, show_default=True, help="Between two, on average.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--plain", is_flag=True, help="Plain YARN, with the faults that it knows, for comparison.")
@click.option("--preempt", type=click.Choice(["las", "kill_newest", "freeze", "none"]), default="las")
@click.option("--store", type=click.Choice(["postgresql", "sqlite"]), default="postgresql", show_default=True)
@click.option("--lane", "lanes", type=click.Choice([MAPREDUCE, SHELL, SPARK]), multiple=True, help="Default: all.")
@click.option("--kind", "kinds", type=click.Choice([*_KINDS]), multiple=True, help="Default: all.")
@click.option("--own-grants", is_flag=True, help="The proxy grants containers itself, and master keys roll.")
@click.option("--ahead", is_flag=True, help="With --own-grants: ahead of the ResourceManager.")
@click.option("--roll-s", type=click.IntRange(40), default=70, show_default=True, help="How often they roll, seconds.")
@one_line_errors
def main(**values: Any) -> None:
    """Kill, cut and slow down parts of a cluster at random moments while real jobs run.

    Exit code 1 unless all jobs succeed, MapReduce counts no failed attempt, nothing was started twice or is left; and
    with own grants if there were none, or a master key stands in any file or environment of the campaign.
    """
    if values["own_grants"] and values["plain"]:
        raise click.UsageError("--own-grants does not go with --plain: plain YARN has no proxy. Leave one out.")
    if values["ahead"] and not values["own_grants"]:
        raise click.UsageError("--ahead says how the proxy grants containers itself: add --own-grants.")
    values["lanes"] = values["lanes"] or (MAPREDUCE, SHELL, SPARK)
    options = CampaignOptions(**values)
    begun_s = time.monotonic()
    result = run(options, Progresses())
    result = {"campaign": "faults", "yarn": "plain" if options.plain else "quicksilver", "seed": options.seed} | result
    result |= {"ok": not noticed(result), "wall_s": round(time.monotonic() - begun_s, 1)}
    (options.workdir / "result.json").write_text(json.dumps(result, indent=1))
    click.echo(json.dumps({key: value for key, value in result.items() if not key.startswith("all_")}))
    if not result["ok"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
