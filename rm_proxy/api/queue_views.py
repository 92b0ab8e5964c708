"""YARN's queues for the REST API: the ResourceManager's figures, with those of queueable containers."""

from __future__ import annotations

from policies.config.policy_set import Policies
from policies.config.schema import full_queue
from policies.model import QueueView, Resources
from policies.quota.queue_share import QueueShare
from rm_proxy.api.yarn_pages import YarnPages
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.history.queue_counts import held_by_app, sample_queues
from rm_proxy.views.cluster_models import QueueAbove, QueueDetail, QueueInfo, QueueUser
from rm_proxy.views.queue_models import QueueNode, QueueTree


def all_queues(coordinator: Coordinator, pages: YarnPages) -> list[QueueInfo]:
    """Return the leaf queues, ordered by name."""
    leaves = sorted(path for path, queue in coordinator.queues.items() if queue.leaf)
    views = [view for path in leaves if (view := coordinator.inventory.queue(path)) is not None]
    return [_info(view, coordinator.policies, pages) for view in views]


def one_queue(coordinator: Coordinator, name: str, pages: YarnPages) -> QueueDetail | None:
    """Return a queue by its full path, or its name right below root, with its users; None when there is no such one."""
    view = coordinator.inventory.queue(full_queue(name, coordinator.queues))
    if view is None:
        return None
    users = sorted({*view.user_used_g, *view.user_used_q})
    return QueueDetail(
        **_info(view, coordinator.policies, pages).model_dump(),
        user_limit=_within(view.user_limit, view.max_capacity) if view.user_limit is not None else None,
        users=[_user(view, user, coordinator.policies) for user in users],
        above=[QueueAbove.of(parent) for parent in view.parents],
        cluster=view.cluster,
        cluster_used_q=view.cluster_used_q,
    )


def _within(limit: Resources, max_capacity: Resources) -> Resources:
    """Return a limit of one user, at most the queue's maximum: YARN multiplies by the user limit factor alone."""
    memory_mb = min(limit.memory_mb, max_capacity.memory_mb or limit.memory_mb)
    return Resources(memory_mb, min(limit.vcores, max_capacity.vcores or limit.vcores))


def queue_tree(coordinator: Coordinator) -> QueueTree:
    """Return all queues with what their applications want and use."""
    counts: dict[str, int] = {}
    held_by_app(coordinator.nodes.values(), counts)
    samples, items = sample_queues(coordinator, counts), []
    cluster = Resources()
    for path, queue in sorted(coordinator.queues.items()):
        view = coordinator.inventory.queue(path)
        if view is None:
            continue
        sample, cluster, policies = samples[path], view.cluster, coordinator.policies
        item = QueueNode(
            name=path,
            leaf=queue.leaf,
            state=queue.state,
            priority=queue.priority,
            capacity=queue.capacity,
            max_capacity=queue.max_capacity,
            used_g=view.used_g,
            used_q=view.used_q,
            left_q=_room(view, policies) if queue.leaf else None,
            queueable=policies.listed(path),
            quotas=[bound.name for bound in policies.quotas_of(path)],
            wanted_g=sample.wanted_g,
            wanted_q=sample.wanted_q,
            held=sample.held,
            apps=sample.apps,
            users=len({*view.user_used_g, *view.user_used_q}),
        )
        items.append(item)
    return QueueTree(items=items, cluster=cluster)


def _info(view: QueueView, policies: Policies, pages: YarnPages) -> QueueInfo:
    page = pages.queue(view.name)
    return QueueInfo.of(view, queueable=policies.listed(view.name), left_q=_room(view, policies), rm_page=page)


def _user(view: QueueView, user: str, policies: Policies) -> QueueUser:
    used_g, used_q = view.user_used_g.get(user, Resources()), view.user_used_q.get(user, Resources())
    return QueueUser(user=user, used_g=used_g, used_q=used_q, left_q=_room(view, policies, user))


def _room(view: QueueView, policies: Policies, user: str | None = None) -> Resources | None:
    """Return the resources that quotas by queue leave to queueable containers; None without such quotas."""
    shares = [b.cfg for b in policies.quotas_of(view.name) if isinstance(b.cfg, QueueShare)]
    lefts = [cfg.room(view) if user is None else cfg.room_for(view, user) for cfg in shares]
    if not lefts:
        return None
    return Resources(min(each.memory_mb for each in lefts), min(each.vcores for each in lefts))
