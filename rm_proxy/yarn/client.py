"""The ResourceManager's REST API: nodes, applications, queues and its own state, as frozen values.

Tried with Hadoop 3.4.2 (Capacity, Fair and FIFO scheduler), and with the Capacity Scheduler of 3.1.1 to 3.5.0; fields
that we do not read are skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import thread_time
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from policies.model import Resources
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.hadoop.hadoop_version import ENABLED, NODES_USED, HadoopVersion
from quicksilver.common.http.async_client import AsyncRestClient, json_of
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver.common.kerberos.keytab import Keytab
from quicksilver.common.kerberos.login import Negotiate
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.listing import records
from rm_proxy.yarn.models import (
    AmountJson,
    AppAnswer,
    AppJson,
    AppsAnswer,
    CapacityQueueJson,
    FairQueueJson,
    InfoAnswer,
    MetricsAnswer,
    NodeJson,
    NodesAnswer,
    PartitionJson,
    PropertyAnswer,
    SchedulerAnswer,
    YarnCluster,
    YarnMetrics,
    YarnNode,
    YarnQueue,
)

ALIVE_STATES: Final = ("SUBMITTED", "ACCEPTED", "RUNNING")
_APP_DESELECTS: Final = "resourceRequests,timeouts,appNodeLabelExpression,amNodeLabelExpression,resourceInfo"
_ROOT: Final = "/ws/v1/cluster"
AUTO_UPDATE: Final = "yarn.resourcemanager.auto-update.containers"
"""With it the ResourceManager informs the NodeManager of a promotion; without, only application masters would."""
_REMEDY: Final = "is the ResourceManager up, and is proxy.rm_web its web address?"
MAX_ANSWER: Final = 1 << 30
"""Bytes of an answer; lists of a large cluster have hundreds of megabytes at most."""
M = TypeVar("M", bound=BaseModel)
V = TypeVar("V")


class YarnRestError(QuicksilverError):
    """The ResourceManager's answer has an unknown form."""


class YarnRest:
    """Calls of one ResourceManager's REST, one at a time.

    Every method raises UnreachableError, RefusedError, or YarnRestError when the answer is unknown. Answers are parsed
    in a thread, long lists record by record: those of a large cluster have many megabytes.
    """

    def __init__(self, base_url: str, timeout_s: float = 5.0, keytab: Keytab | None = None) -> None:
        """`base_url` is that of its web server, e.g. http://rmhost:8088; `keytab`: who logs in there."""
        self._base_url = base_url.rstrip("/")
        login = Negotiate(keytab) if keytab else None
        self._client = AsyncRestClient(
            timeout_s=timeout_s,
            remedy=_REMEDY,
            login=login,
            max_answer=MAX_ANSWER,
            redirects=True,  # a standby sends its callers to the active ResourceManager
        )
        self.cost_s = {"/nodes": 0.0, "/apps": 0.0}
        """CPU seconds that the last answer took to parse, by path."""

    async def nodes(self) -> list[YarnNode]:
        """Return all nodes that the ResourceManager lists, lost and decommissioned ones left out by Hadoop itself."""

        def whole(answer: NodesAnswer) -> list[YarnNode]:
            return [node.value() for node in (answer.nodes.node if answer.nodes else [])]

        def value(node: Any) -> YarnNode:
            return NodeJson.model_validate(node).value()

        return await self._list(NodesAnswer, whole, value, "/nodes", "node")

    async def apps(self, states: Iterable[str] = ALIVE_STATES, since_s: float = 0.0) -> list[AppRecord]:
        """Return the applications in `states`; `since_s`: only those that were submitted later, by its own clock."""
        params = {"states": ",".join(states), "deSelects": _APP_DESELECTS}
        if since_s > 0:
            params["startedTimeBegin"] = str(int(since_s * 1000))

        def whole(answer: AppsAnswer) -> list[AppRecord]:
            return [app.value() for app in (answer.apps.app if answer.apps else [])]

        def value(app: Any) -> AppRecord:
            return AppJson.model_validate(app).value()

        return await self._list(AppsAnswer, whole, value, "/apps", "app", params)

    async def app(self, app_id: str) -> AppRecord | None:
        """Return one application in whatever state, None when the ResourceManager does not know it."""
        try:
            path = f"/apps/{quote(app_id, safe='')}"
            return await self._get(AppAnswer, lambda answer: answer.app.value(), path, {"deSelects": _APP_DESELECTS})
        except RefusedError as error:
            if error.status == 404:
                return None
            raise

    async def queues(self) -> list[YarnQueue]:
        """Return all queues, parents before their children."""
        answer = await self._get(SchedulerAnswer, _queues, "/scheduler")
        if isinstance(answer, list):
            return answer
        if answer == "fifoScheduler":
            total = await self.metrics()
            return [YarnQueue("root.default", True, "RUNNING", total.total, total.allocated, frozenset("*"), "")]
        raise YarnRestError(
            f"unknown scheduler {answer!r}",
            place=f"{self._base_url}{_ROOT}/scheduler",
            remedy="use the Capacity, Fair or FIFO scheduler",
        )

    async def cluster(self) -> YarnCluster:
        """Return the state of the ResourceManager; a standby answers this too."""
        info = await self._get(InfoAnswer, lambda answer: answer.clusterInfo, "/info")
        active = info.haState == "ACTIVE"
        return YarnCluster(info.id, info.startedOn / 1000, info.state, active, info.resourceManagerVersion)

    async def auto_update(self) -> bool:
        """Return the ResourceManager's own AUTO_UPDATE, as it was started with."""
        value = await self.property(AUTO_UPDATE)
        return (value or "").strip().lower() == "true"

    async def why_no_grants(self) -> str:
        """Return why the ResourceManager, by version and configuration, grants no queueable container; "" if it may."""
        version = HadoopVersion((await self.cluster()).version)
        return version.why_no_grants(await self.property(ENABLED), await self.property(NODES_USED))

    async def property(self, name: str) -> str | None:
        """Return one of the ResourceManager's properties, as it was started with; None when it has no value."""
        return await self._get(PropertyAnswer, lambda answer: answer.property.value, "/conf", {"name": name}, root="")

    async def metrics(self) -> YarnMetrics:
        """Return the totals of the cluster."""
        m = await self._get(MetricsAnswer, lambda answer: answer.clusterMetrics, "/metrics")
        return YarnMetrics(
            Resources(m.totalMB, m.totalVirtualCores),
            Resources(m.allocatedMB, m.allocatedVirtualCores),
            m.activeNodes,
            m.appsRunning,
            m.appsPending,
            m.containersAllocated,
        )

    def begin_anew(self) -> None:
        """Note that another ResourceManager may answer now. Nothing is stored here, but in a worker of several."""

    async def close(self) -> None:
        """Close the kept connections."""
        await self._client.close()

    async def _list(
        self,
        model: type[M],
        whole: Callable[[M], list[V]],
        value: Callable[[Any], V],
        path: str,
        name: str,
        params: dict[str, str] | None = None,
    ) -> list[V]:
        """Return the values of a list: of each of its records, else (it has another form) of the `whole` answer."""
        url = f"{self._base_url}{_ROOT}{path}"
        body, kind = await self._client.get_bytes(url, params)

        def parsed() -> list[V]:
            begun_s = thread_time()
            try:
                return [value(record) for record in records(body, path[1:], name)]
            except (ValueError, RecursionError):  # pydantic's ValidationError, too: the whole answer names the place
                return whole(_validated(model, json_of(body, kind, url), url))
            finally:
                self.cost_s[path] = thread_time() - begun_s

        return await asyncio.get_running_loop().run_in_executor(None, parsed)

    async def _get(
        self,
        model: type[M],
        value: Callable[[M], V],
        path: str,
        params: dict[str, str] | None = None,
        root: str = _ROOT,
    ) -> V:
        """Return `value` of an answer; it is called in the thread that parses the answer."""
        url = f"{self._base_url}{root}{path}"
        body, kind = await self._client.get_bytes(url, params)

        def parsed() -> V:
            return value(_validated(model, json_of(body, kind, url), url))

        return await asyncio.get_running_loop().run_in_executor(None, parsed)


def _validated(model: type[M], answer: Any, url: str) -> M:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise YarnRestError(f"unexpected answer: {where}: {first['msg']}", place=url, remedy=_REMEDY) from error


def _queues(answer: SchedulerAnswer) -> list[YarnQueue] | str:
    """Return the queues, or the type of a scheduler that has no queues in this answer."""
    info = answer.scheduler.info
    if info.type == "capacityScheduler":
        return _capacity_queues(info)
    if info.type == "fairScheduler" and info.rootQueue:
        return _fair_queues(info.rootQueue)
    return str(info.type)


def _capacity_queues(root: CapacityQueueJson) -> list[YarnQueue]:
    """Flatten the Capacity Scheduler's tree; the root reports no use of its own, so its children's are added up."""
    flat: list[YarnQueue] = []
    stack = [(root.queuePath or root.queueName, root)]
    while stack:
        path, queue = stack.pop()
        children = queue.queues.queue if queue.queues else []
        flat.append(_capacity_queue(path, queue, not children))
        stack.extend((child.queuePath or f"{path}.{child.queueName}", child) for child in reversed(children))
    tops = root.queues.queue if root.queues else []
    flat[0] = replace(flat[0], used=sum((top.resourcesUsed.value() for top in tops), Resources()))
    return flat


def _capacity_queue(path: str, queue: CapacityQueueJson, leaf: bool) -> YarnQueue:
    partition = queue.capacities.default()
    maximum = partition.effectiveMaxResource if partition else AmountJson()
    least = partition.effectiveMinResource if partition else AmountJson()
    users = queue.users.user if queue.users else []
    return YarnQueue(
        path=path,
        leaf=leaf,
        state=queue.state,
        max_capacity=maximum.value(),
        used=queue.resourcesUsed.value(),
        labels=frozenset(label for label in queue.nodeLabels if label),
        default_label=(queue.defaultNodeLabelExpression or "").replace("<DEFAULT_PARTITION>", "").strip(),
        user_used={user.username: user.resourcesUsed.value() for user in users},
        user_limit=_user_limit(queue, partition),
        priority=queue.queuePriority,
        capacity=least.value(),
        user_ratio=_user_ratio(queue),
        user_weights={user.username: user.userWeight for user in users if user.userWeight != 1},
    )


def _user_limit(queue: CapacityQueueJson, partition: PartitionJson | None) -> Resources | None:
    """Return one user's limit as the Capacity Scheduler's UsersManager computes it; a negative factor is no limit.

    The answer has whole vcores, so that a small share may read 0: one vcore is granted in any case.
    """
    factor = queue.userLimitFactor
    share = partition.effectiveMinResource.value() if partition else Resources()
    if factor is None or factor < 0 or not share.memory_mb:
        return None
    return Resources(int(share.memory_mb * factor), max(1.0, share.vcores * factor))


def _user_ratio(queue: CapacityQueueJson) -> float:
    """Return minimum-user-limit-percent as a ratio: 1 as shipped, and for a queue that is no leaf."""
    percent = queue.userLimit
    return 1.0 if percent is None or not 0 < percent < 100 else percent / 100


def _fair_queues(root: FairQueueJson) -> list[YarnQueue]:
    """Flatten the Fair Scheduler's tree; its queues know no labels, and their names are full paths already."""
    flat: list[YarnQueue] = []
    stack = [root]
    while stack:
        queue = stack.pop()
        children = queue.childQueues.queue if queue.childQueues else []
        used = queue.usedResources.value()
        maximum, share = queue.maxResources.value(), queue.steadyFairResources.value()
        flat.append(YarnQueue(queue.queueName, not children, "RUNNING", maximum, used, frozenset(), "", capacity=share))
        stack.extend(reversed(children))
    return flat
