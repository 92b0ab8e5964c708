"""The ResourceManager's REST API: nodes, applications, queues and its own state, as frozen values.

Tried with Hadoop 3.4.2 (Capacity, Fair and FIFO scheduler); fields that we do not read are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from policies.model import Resources
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_client import RestClient
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver.common.kerberos.login import Keytab
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.models import (
    AmountJson,
    AppAnswer,
    AppsAnswer,
    CapacityQueueJson,
    FairQueueJson,
    InfoAnswer,
    MetricsAnswer,
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
"""With it the ResourceManager tells the NodeManager of a promotion; without, only application masters would."""
_REMEDY: Final = "is the ResourceManager up, and is proxy.rm_web its web address?"
M = TypeVar("M", bound=BaseModel)


class YarnRestError(QuicksilverError):
    """The ResourceManager's answer has not the form that we know."""


class YarnRest:
    """Calls of one ResourceManager's REST; not for several threads at the same time.

    Every method raises UnreachableError, RefusedError, or YarnRestError when the
    answer is unknown.
    """

    def __init__(self, base_url: str, timeout_s: float = 5.0, keytab: Keytab | None = None) -> None:
        """`base_url` is that of its web server, e.g. http://rmhost:8088; `keytab`: who logs in there."""
        auth = keytab.auth() if keytab else None
        self._client = RestClient(base_url, timeout_s=timeout_s, remedy=_REMEDY, auth=auth)

    def nodes(self) -> list[YarnNode]:
        """Return all nodes that the ResourceManager lists, lost and decommissioned ones left out by Hadoop itself."""
        answer = self._get(NodesAnswer, "/nodes")
        return [node.value() for node in (answer.nodes.node if answer.nodes else [])]

    def apps(self, states: Iterable[str] = ALIVE_STATES) -> list[AppRecord]:
        """Return the applications in `states`."""
        params = {"states": ",".join(states), "deSelects": _APP_DESELECTS}
        answer = self._get(AppsAnswer, "/apps", params)
        return [app.value() for app in (answer.apps.app if answer.apps else [])]

    def app(self, app_id: str) -> AppRecord | None:
        """Return one application in whatever state, None when the ResourceManager does not know it."""
        try:
            return self._get(AppAnswer, f"/apps/{quote(app_id, safe='')}", {"deSelects": _APP_DESELECTS}).app.value()
        except RefusedError as error:
            if error.status == 404:
                return None
            raise

    def queues(self) -> list[YarnQueue]:
        """Return all queues, parents before their children."""
        info = self._get(SchedulerAnswer, "/scheduler").scheduler.info
        if info.type == "capacityScheduler":
            return _capacity_queues(info)
        if info.type == "fairScheduler" and info.rootQueue:
            return _fair_queues(info.rootQueue)
        if info.type == "fifoScheduler":
            total = self.metrics()
            return [YarnQueue("root.default", True, "RUNNING", total.total, total.allocated, frozenset("*"), "")]
        raise YarnRestError(
            f"unknown scheduler {info.type!r}",
            place=f"{self._client.base_url}{_ROOT}/scheduler",
            remedy="use the Capacity, Fair or FIFO scheduler",
        )

    def cluster(self) -> YarnCluster:
        """Return the state of the ResourceManager; a standby answers this too."""
        info = self._get(InfoAnswer, "/info").clusterInfo
        active = info.haState == "ACTIVE"
        return YarnCluster(info.id, info.startedOn / 1000, info.state, active, info.resourceManagerVersion)

    def auto_update(self) -> bool:
        """Return the ResourceManager's own AUTO_UPDATE, as it was started with."""
        answer = self._get(PropertyAnswer, "/conf", {"name": AUTO_UPDATE}, root="")
        return (answer.property.value or "").strip().lower() == "true"

    def metrics(self) -> YarnMetrics:
        """Return the totals of the cluster."""
        m = self._get(MetricsAnswer, "/metrics").clusterMetrics
        return YarnMetrics(
            Resources(m.totalMB, m.totalVirtualCores),
            Resources(m.allocatedMB, m.allocatedVirtualCores),
            m.activeNodes,
            m.appsRunning,
            m.appsPending,
            m.containersAllocated,
        )

    def close(self) -> None:
        """Close the kept connections."""
        self._client.close()

    def _get(self, model: type[M], path: str, params: dict[str, str] | None = None, root: str = _ROOT) -> M:
        body = self._client.get(root + path, params)
        try:
            return model.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise YarnRestError(
                f"unexpected answer: {where}: {first['msg']}",
                place=f"{self._client.base_url}{root}{path}",
                remedy=_REMEDY,
            ) from error


def _capacity_queues(root: CapacityQueueJson) -> list[YarnQueue]:
    """Flatten the Capacity Scheduler's tree; the root tells no use of its own, so its children's are added up."""
    found: list[YarnQueue] = []
    stack = [(root.queuePath or root.queueName, root)]
    while stack:
        path, queue = stack.pop()
        children = queue.queues.queue if queue.queues else []
        found.append(_capacity_queue(path, queue, not children))
        stack.extend((child.queuePath or f"{path}.{child.queueName}", child) for child in reversed(children))
    tops = root.queues.queue if root.queues else []
    found[0] = replace(found[0], used=sum((top.resourcesUsed.value() for top in tops), Resources()))
    return found


def _capacity_queue(path: str, queue: CapacityQueueJson, leaf: bool) -> YarnQueue:
    partition = queue.capacities.default()
    most = partition.effectiveMaxResource if partition else AmountJson()
    least = partition.effectiveMinResource if partition else AmountJson()
    users = queue.users.user if queue.users else []
    return YarnQueue(
        path=path,
        leaf=leaf,
        state=queue.state,
        max_capacity=most.value(),
        used=queue.resourcesUsed.value(),
        labels=frozenset(label for label in queue.nodeLabels if label),
        default_label=(queue.defaultNodeLabelExpression or "").replace("<DEFAULT_PARTITION>", "").strip(),
        user_used={user.username: user.resourcesUsed.value() for user in users},
        user_limit=_user_limit(queue, partition),
        priority=queue.queuePriority,
        capacity=least.value(),
    )


def _user_limit(queue: CapacityQueueJson, partition: PartitionJson | None) -> Resources | None:
    """Return what one user may have, as the Capacity Scheduler's UsersManager caps it; a negative factor is no cap.

    The answer has whole vcores, so that a small share may read 0: one vcore is granted in any case.
    """
    factor = queue.userLimitFactor
    share = partition.effectiveMinResource.value() if partition else Resources()
    if factor is None or factor < 0 or not share.memory_mb:
        return None
    return Resources(int(share.memory_mb * factor), max(1.0, share.vcores * factor))


def _fair_queues(root: FairQueueJson) -> list[YarnQueue]:
    """Flatten the Fair Scheduler's tree; its queues know no labels, and their names are full paths already."""
    found: list[YarnQueue] = []
    stack = [root]
    while stack:
        queue = stack.pop()
        children = queue.childQueues.queue if queue.childQueues else []
        used = queue.usedResources.value()
        most = queue.maxResources.value()
        found.append(YarnQueue(queue.queueName, not children, "RUNNING", most, used, frozenset(), ""))
        stack.extend(reversed(children))
    return found
