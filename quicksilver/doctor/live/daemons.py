"""Queries the running daemons; those that do not answer are reported as unchecked."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Final, Generic, TypeVar

import requests
from pydantic import BaseModel, ValidationError
from requests.auth import AuthBase

from quicksilver.common.address import Address, parse_address
from quicksilver.common.errors import QuicksilverError, SettingsError
from quicksilver.common.hadoop.conf import reachable
from quicksilver.common.http.rest_client import rest_session
from quicksilver.common.http.security import Credentials, client_context
from quicksilver.common.http.tokens import Role, read_tokens
from quicksilver.common.kerberos.login import Negotiate
from quicksilver.common.process.version import version
from quicksilver.doctor.collect import from_daemon
from quicksilver.doctor.live.answers import (
    ClusterAnswer,
    ConfAnswer,
    HealthAnswer,
    JobAnswer,
    LiveAppsAnswer,
    LiveNodesAnswer,
    NodeAnswer,
    SidecarRow,
    SidecarsAnswer,
    VersionAnswer,
)
from quicksilver.doctor.model import (
    NM,
    RM,
    DoctorDaemon,
    DoctorJob,
    DoctorNode,
    DoctorProxy,
    DoctorSite,
    Facts,
    Live,
    Unchecked,
)
from rm_proxy.yarn.client import YarnRest

_TIMEOUT_S: Final = 5.0
_WORKERS: Final = 16
_JOBS: Final = 20
_SEEN_WITHIN_S: Final = 1.0
_POLL_S: Final = 0.05
_PAGES: Final = 100
"""Of a proxy's nodes, 1000 each."""
_OPENED: Final = "quicksilver_sidecar_connections_opened_total"
T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M", bound=BaseModel)


@dataclass(slots=True)
class DaemonAnswer(Generic[M]):
    """An answer; `skew_s` is the server's clock minus ours."""

    data: M
    skew_s: float | None


@dataclass(slots=True)
class Asker:
    """Calls REST, and records what did not answer.

    credentials: what proxy and sidecars are shown; auth: who logs in at Hadoop's web servers.
    """

    credentials: Credentials | None = None
    auth: AuthBase | None = None
    failed: list[Unchecked] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def ask(
        self, url: str, model: type[M], subject: str = "", *, own: bool = False, follows: bool = True, **params: str
    ) -> DaemonAnswer[M] | None:
        """GET a URL; None when there is no answer as `model`, which is kept as unchecked if `subject` names it.

        own: it is a proxy's or a sidecar's; follows: whether a redirect is followed.
        """
        try:
            before_s = time.time()
            response = self._get(url, params, own, follows)
            now_s = (before_s + time.time()) / 2
            response.raise_for_status()
            return DaemonAnswer(
                model.model_validate_json(response.content), _skew_s(response.headers.get("Date"), now_s)
            )
        except (requests.RequestException, QuicksilverError, ValidationError) as error:
            self.miss(subject, url, error)
            return None

    def text(self, url: str) -> str | None:
        """GET a URL of a proxy or sidecar as text; None when nobody answers."""
        try:
            response = self._get(url, {}, own=True)
        except (requests.RequestException, QuicksilverError):
            return None
        return response.text if response.ok else None

    def _get(self, url: str, params: Mapping[str, str], own: bool, follows: bool = True) -> requests.Response:
        shown = self.credentials if own else None
        with rest_session(1, shown, redirects=follows) as session:
            session.auth = None if own else self.auth
            headers = shown.headers(url) if shown else {}
            return session.get(url, params=params, headers=headers, timeout=_TIMEOUT_S)

    def miss(self, subject: str, url: str, error: Exception) -> None:
        """Record that something could not be checked."""
        if subject:
            response = error.response if isinstance(error, requests.RequestException) else None
            why = f"answered {response.status_code}" if response is not None else "no usable answer"
            if isinstance(error, QuicksilverError):
                why = str(error)
            with self._lock:
                self.failed.append(Unchecked(subject, f"{url}: {why}", "is it up, and may this host ask it?"))


def _skew_s(date: str | None, now_s: float) -> float | None:
    """Return a Date header minus `now_s`; the header has whole seconds, so half a one is added."""
    try:
        moment = parsedate_to_datetime(date) if date else None
    except ValueError:
        return None
    if moment is None:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() + 0.5 - now_s


def ask_daemons(facts: Facts, urls: Sequence[str] = ()) -> Facts:
    """Return the facts with the running daemons; without a file, a configuration is the daemon's own."""
    asker = _asker(facts)
    rms = _rms(asker, facts)
    first = next((rm for rm in rms if rm.ha_state != "STANDBY"), None)
    nodes, web = _nodes(asker, first.url) if first else ([], {})
    scheme = facts.client.conf.web_scheme if facts.client else "http"
    nms = [nm for nm in _many(lambda node: _nm(asker, node, web, scheme), nodes) if nm is not None]
    proxies = [_proxy(asker, place, rm_id) for place, rm_id in _proxy_urls(facts, urls)]
    nodes = _with_sidecars(asker, nodes, [proxy.url for proxy in proxies if not proxy.error])
    live = Live(
        rms=tuple(rms),
        nms=tuple(nms),
        nodes=tuple(nodes),
        proxies=tuple(proxies),
        jobs=tuple(_jobs(asker, first.url) if first else ()),
        queues=tuple(_queues(asker, facts, first.url) if first else ()),
        own_version=version(),
    )
    return _completed(facts, live, asker.failed)


def _asker(facts: Facts) -> Asker:
    """Return who asks: with a token and the CA of the settings, and the proxy's Kerberos login, where there are any."""
    security, failed = facts.settings.security, list[Unchecked]()
    credentials = auth = None
    try:
        context = client_context(security.tls_ca) if security.tls_ca else None
        tokens = read_tokens(security.token_file, "security.token_file") if security.token_file else None
        token = tokens.first((Role.ADMIN, Role.READ)) if tokens else None
        if context or token:
            credentials = Credentials(lambda: token, context, security.tls_ca, security.insecure)
    except SettingsError as error:
        failed.append(Unchecked("proxy and sidecars, with credentials", str(error)))
    try:
        keytab = facts.settings.proxy.keytab()
        auth = Negotiate(keytab) if keytab else None
    except QuicksilverError as error:
        failed.append(Unchecked("Hadoop's web servers, with Kerberos", str(error)))
    return Asker(credentials, auth, failed)


def _completed(facts: Facts, live: Live, failed: Iterable[Unchecked]) -> Facts:
    """Take the daemons' own configurations where no files were read."""
    rms = facts.rms or tuple(_sites(live.rms))
    known = {site.host for site in facts.nms}
    nms = facts.nms + tuple(_sites(daemon for daemon in live.nms if daemon.host not in known))
    covered = {"the ResourceManager's files": rms, "NodeManagers' files": nms}
    unchecked = tuple(item for item in facts.unchecked if not covered.get(item.subject))
    return replace(facts, rms=rms, nms=nms, live=live, unchecked=unchecked + tuple(failed))


def _sites(daemons: Iterable[DoctorDaemon]) -> Iterable[DoctorSite]:
    for daemon in daemons:
        if daemon.conf is not None:
            yield from_daemon(daemon.role, daemon.host, f"{daemon.url}/conf", daemon.conf, daemon.ha_id)


def _many(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(work, items))


def _rms(asker: Asker, facts: Facts) -> list[DoctorDaemon]:
    if facts.client is None:
        return []
    conf = facts.client.conf
    daemons = []
    ids: tuple[str | None, ...] = tuple(conf.rm_ids()) if conf.ha else (None,)
    for rm_id in ids:
        web = facts.settings.proxy.rm_web if rm_id is None else None
        try:
            url = (web or conf.rm_web_url(rm_id)).rstrip("/")
        except SettingsError as error:
            asker.failed.append(Unchecked(f"ResourceManager {rm_id}", str(error)))
            continue
        name = f"ResourceManager {rm_id}" if rm_id else "ResourceManager"
        answer = asker.ask(f"{url}/ws/v1/cluster/info", ClusterAnswer, name)
        if answer is None:
            continue
        info = answer.data.info
        values, programmatic = _conf(asker, url, name)
        release = info.version or info.hadoop_version
        daemons.append(DoctorDaemon(RM, name, url, release, values, programmatic, answer.skew_s, rm_id, info.ha_state))
    return daemons


def _conf(asker: Asker, url: str, name: str) -> tuple[Mapping[str, str] | None, frozenset[str]]:
    """Return what a daemon runs with, and what of it came from no file."""
    answer = asker.ask(f"{url}/conf", ConfAnswer, f"configuration of {name}", format="json")
    if answer is None:
        return None, frozenset()
    rows = [row for row in answer.data.properties if row.key]
    own = frozenset(row.key for row in rows if row.resource in ("programmatically", "Unknown"))
    return {row.key: row.value for row in rows}, own


def _nodes(asker: Asker, rm: str) -> tuple[list[DoctorNode], dict[str, str]]:
    """Return the nodes, and their web addresses by id."""
    answer = asker.ask(f"{rm}/ws/v1/cluster/nodes", LiveNodesAnswer, "the cluster's nodes")
    rows = answer.data.nodes.node if answer and answer.data.nodes else []
    nodes = [DoctorNode(row.id, row.state, row.version, health=row.health) for row in rows]
    return nodes, {row.id: row.web for row in rows if row.web}


def _nm(asker: Asker, node: DoctorNode, web: Mapping[str, str], scheme: str) -> DoctorDaemon | None:
    if node.state != "RUNNING" or node.id not in web:
        return None
    url, name = f"{scheme}://{web[node.id]}", f"NodeManager {node.id}"
    answer = asker.ask(f"{url}/ws/v1/node/info", NodeAnswer, name)
    if answer is None:
        return None
    values, programmatic = _conf(asker, url, name)
    release = answer.data.info.version
    return DoctorDaemon(NM, node.id.rpartition(":")[0], url, release, values, programmatic, answer.skew_s)


def _proxy_urls(facts: Facts, urls: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return the proxies' REST: those given, otherwise the settings'; with high availability one beside each RM."""
    listen, scheme = facts.settings.proxy.rest_listen, facts.settings.security.scheme
    if urls:
        return [(url.rstrip("/"), None) for url in urls]
    conf = facts.client.conf if facts.client else None
    if conf is None or not conf.ha:
        return [(f"{scheme}://{reachable(listen)}", None)]
    hosts = {rm_id: conf.text(f"yarn.resourcemanager.hostname.{rm_id}") for rm_id in conf.rm_ids()}
    return [(f"{scheme}://{Address(host, listen.port)}", rm_id) for rm_id, host in hosts.items() if host]


def _proxy(asker: Asker, url: str, rm_id: str | None) -> DoctorProxy:
    answer = asker.ask(f"{url}/v1/health", HealthAnswer, own=True)
    if answer is None:
        return DoctorProxy(url, error=f"no answer of {url}/v1/health", ha_id=rm_id)
    data = answer.data
    return DoctorProxy(
        url,
        version=data.version,
        mode=data.mode,
        listen=data.listen,
        upstream=data.upstream,
        problems=tuple(data.problems),
        skew_s=answer.skew_s,
        ha_id=rm_id,
    )


def _with_sidecars(asker: Asker, nodes: list[DoctorNode], proxies: list[str]) -> list[DoctorNode]:
    """Return the nodes with what the proxy and their sidecars report."""
    rows: dict[str, SidecarRow] = {}
    for url in proxies:
        offset = 0
        for _ in range(_PAGES):
            page = f"{url}/v1/nodes?limit=1000&offset={offset}"
            answer = asker.ask(page, SidecarsAnswer, "the proxy's nodes", own=True)
            items = answer.data.items if answer else []
            rows |= {row.id: row for row in items if row.usable or row.id not in rows}
            offset += len(items)
            if answer is None or not answer.data.more or not items:
                break
    if not proxies:
        return nodes
    return _many(lambda node: _with_sidecar(asker, node, rows.get(node.id)), nodes)


def _with_sidecar(asker: Asker, node: DoctorNode, row: SidecarRow | None) -> DoctorNode:
    if node.state != "RUNNING":
        return node
    if row is None:
        return replace(node, usable=False, why_unusable="the proxy does not know the node")
    url = row.sidecar_url.rstrip("/")
    node = replace(node, usable=row.usable, why_unusable=row.why_unusable, sidecar_url=url)
    answer = asker.ask(f"{url}/healthz", VersionAnswer, f"the sidecar of {node.id}", own=True) if url else None
    if answer is None:
        return node
    passes, release = _comes_through(asker, node.id, url), answer.data.version
    return replace(node, sidecar_version=release, sidecar_skew_s=answer.skew_s, passes=passes)


def _comes_through(asker: Asker, node_id: str, sidecar: str) -> bool | None:
    """Connect to the node's port, and return whether its sidecar counted that. None: it could not be tried."""
    before = _opened(asker.text(f"{sidecar}/metrics"))
    if before is None:
        asker.failed.append(Unchecked(f"who listens at {node_id}", f"{sidecar}/metrics: no answer"))
        return None
    try:
        address = parse_address(node_id, node_id)
        with socket.create_connection(address, timeout=_TIMEOUT_S):
            deadline_s = time.monotonic() + _SEEN_WITHIN_S
            while time.monotonic() < deadline_s:
                now = _opened(asker.text(f"{sidecar}/metrics"))
                if now is not None and now > before:
                    return True
                time.sleep(_POLL_S)
    except (OSError, QuicksilverError):
        asker.failed.append(Unchecked(f"who listens at {node_id}", "cannot connect", "is the node up?"))
        return None
    return False


def _opened(metrics: str | None) -> float | None:
    for line in (metrics or "").splitlines():
        if line.startswith(f"{_OPENED} "):
            return float(line.rpartition(" ")[2])
    return None


def _jobs(asker: Asker, rm: str) -> Iterable[DoctorJob]:
    """Yield some running MapReduce jobs with the scheduler address that they were submitted with.

    The ResourceManager passes the call on to the job's own application master, which may say anything.
    """
    url, limit = f"{rm}/ws/v1/cluster/apps", str(_JOBS)
    answer = asker.ask(url, LiveAppsAnswer, "running jobs", states="RUNNING", applicationTypes="MAPREDUCE", limit=limit)
    for row in answer.data.apps.app[:_JOBS] if answer and answer.data.apps else []:
        job = row.id.replace("application", "job")
        conf = asker.ask(f"{rm}/proxy/{row.id}/ws/v1/mapreduce/jobs/{job}/conf", JobAnswer, follows=False)
        values = {prop.name: prop.value for prop in conf.data.conf.properties} if conf else {}
        scheduler = values.get("yarn.resourcemanager.scheduler.address")
        if scheduler:
            yield DoctorJob(job, scheduler)


async def _queue_names(yarn: YarnRest) -> list[str]:
    try:
        return [queue.name for queue in await yarn.queues()]
    finally:
        await yarn.close()


def _queues(asker: Asker, facts: Facts, rm: str) -> list[str]:
    try:
        keytab = facts.settings.proxy.keytab() if asker.auth else None
        return asyncio.run(_queue_names(YarnRest(rm, _TIMEOUT_S, keytab)))
    except QuicksilverError as error:
        asker.failed.append(Unchecked("YARN's queues", str(error)))
        return []
