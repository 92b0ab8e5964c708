"""The features of the proxy: each adds its steps where its slot has a policy, and forgets what it knows where not.

An alternative of `policies.shadow`, of a roll-out or of a window that has a policy in the slot counts as well. The rest
of the coordinator knows hooks alone (`rm_proxy.domain.hooks`).
"""

from __future__ import annotations

from collections.abc import Iterable

from policies.config.policy_set import Policies
from policies.model import AppView
from rm_proxy.admission.admissions import Admissions, AdmissionWorld
from rm_proxy.admission.idle_containers import IdleContainers
from rm_proxy.admission.reclaim import Reclaimer
from rm_proxy.attempt.effects import Effect, Faulted
from rm_proxy.coordinator.app_modes import AppModes
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.nodes.node_queues import Cluster
from rm_proxy.coordinator.placement import Placer
from rm_proxy.coordinator.promotion_choice import Promoter, promotes
from rm_proxy.coordinator.shadow import Shadow
from rm_proxy.coordinator.shadow_rounds import ShadowRounds
from rm_proxy.coordinator.task_durations import TaskDurations
from rm_proxy.coordinator.yarn_inventory import YarnInventory
from rm_proxy.dispatch.central_queue import CentralQueue
from rm_proxy.domain.hooks import Hooks
from rm_proxy.job_classes.short_and_long import ShortAndLong
from rm_proxy.notices.notifier import NoticeWorld, Notifier
from rm_proxy.probes.corrector import Corrector
from rm_proxy.probes.order_shadow import OrderShadow
from rm_proxy.probes.probed_cluster import ProbedCluster
from rm_proxy.probes.prober import Prober
from rm_proxy.probes.thief import Thief
from rm_proxy.yarn.models import YarnNode


class Features:
    """Notices, classes of jobs, probes, admission of whole applications, promotion, shadow."""

    def __init__(
        self,
        inventory: YarnInventory,
        attempts: AttemptIndex,
        modes: AppModes,
        durations: TaskDurations,
        central: CentralQueue,
        placer: Placer,
        mover: Mover,
        shadow: Shadow,
    ) -> None:
        state = placer.state
        self._state, self._inventory, self._attempts, self._modes = state, inventory, attempts, modes
        self._durations, self._central, self._placer = durations, central, placer
        self.classes = ShortAndLong(
            lambda: state.policies,
            inventory.apps,
            self._active,
            durations.outlook.task_time,
            self._failed,
            placer.compare,
        )
        self.notifier = self._notifier()
        self.admissions, self.idle = self._admissions(), IdleContainers()
        self.reclaimer = Reclaimer(
            self.admissions,
            self.idle,
            mover.shed,
            placer.has_room,
            self._emit,
            self.notifier.due_s,
            lambda queue: state.policies.kills.protect_s(queue),
        )
        self.prober = self._prober()
        moving = self.prober, lambda: state.policies, state.rng, self._emit, placer.compare
        self.thief, self.corrector = Thief(*moving), Corrector(*moving)
        self.promoter = Promoter(state.limits.no_promotion)
        probe_order = OrderShadow(
            self.prober, lambda: state.policies, placer.compare, lambda why: self._failed("", why)
        )
        self._shadow = ShadowRounds(state, shadow, central, probe_order, placer.compare)

    def _emit(self, effect: Effect) -> None:
        self._state.effects.append(effect)

    def _failed(self, app_id: str, why: str) -> None:
        self._emit(Faulted(app_id, why))

    def _active(self, app: AppView) -> bool:
        return self._modes.mode(app) == "active"

    def _notifier(self) -> Notifier:
        state, apps = self._state, self._inventory.apps

        def yarn_node(node_id: str) -> YarnNode | None:
            node = state.nodes.get(node_id)
            return node.yarn if node is not None else None

        def wait_s(app_id: str) -> float:
            return state.policies.kills.notice_s(apps.get(app_id, AppView(app_id)).type)

        return Notifier(NoticeWorld(self._attempts.holder, self._attempts.get, yarn_node, wait_s, self._emit))

    def _admissions(self) -> Admissions:
        inventory = self._inventory
        return Admissions(
            AdmissionWorld(
                policies=lambda: self._state.policies,
                living=self._attempts.living,
                app=inventory.app,
                active=self._active,
                room=inventory.room,
                crowded=inventory.crowded,
                failed=lambda why: self._failed("", why),
            )
        )

    def _prober(self) -> Prober:
        state, apps = self._state, self._inventory.apps
        return Prober(
            ProbedCluster(state.nodes, lambda app_id: apps.get(app_id, AppView(app_id)).job_class),
            self._central,
            state.free,
            state.rng,
            policies=lambda: state.policies,
            left_s=self._durations.outlook.job_remaining_s,
            failed=self._failed,
            compare=self._placer.compare,
        )

    def hooks(self, cluster: Cluster, policies: Policies) -> Hooks:
        """Return the hooks under these policies."""
        limits = self._state.limits
        hooks = Hooks(
            news=self.notifier.news,
            own_grants=limits.own_grants,
            early_answers=limits.own_grants and limits.early_answers,
        )
        self._hook_notices(policies, hooks)
        self._hook_admission(policies, hooks)
        self._hook_promotion(cluster, policies, hooks)
        self._hook_shadow(policies, hooks)
        self._hook_classes(cluster, policies, hooks)
        self._hook_probes(cluster, policies, hooks)
        return hooks

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self.thief.forget_node(node_id)
        self.idle.forget_node(node_id)
        self._shadow.forget_node(node_id)
        self.notifier.forget_node(node_id)

    def clear(self) -> None:
        """Forget all: another proxy serves now."""
        self.admissions.clear()
        self.idle.clear()
        self.prober.clear()
        self._shadow.clear()
        self.notifier.clear()

    # What each adds

    def _hook_notices(self, policies: Policies, hooks: Hooks) -> None:
        """Notices of kills (`policies.notice`), and of nodes that an admin empties, whatever the settings."""
        hooks.emptied.append(self.notifier.emptied)
        hooks.rounds.append(self.notifier.round)
        if policies.kills.wait_s > 0:
            hooks.reported.append(self.notifier.report)
        else:
            self.notifier.forget_containers()

    def _hook_admission(self, policies: Policies, hooks: Hooks) -> None:
        """Applications that are admitted as a whole (slot `admit`)."""
        settings, idle = policies.for_nodes.cluster.admission, self.idle
        if settings is None:
            self.admissions.clear()
            idle.clear()
            return
        hooks.kept_off.append(self.admissions.crowded)
        hooks.reported.append(lambda node_id, report, now_s: idle.report(report, settings.idle_ratio, now_s))
        hooks.over_share.append(self.reclaimer.over_share)
        hooks.rounds += (self.admissions.decide, self.reclaimer.round)

    def _hook_promotion(self, cluster: Cluster, policies: Policies, hooks: Hooks) -> None:
        """Queueable containers that become guaranteed (slot `promote`)."""
        if not promotes(policies):
            return

        def promote(now_s: float) -> None:
            self._state.effects += self.promoter.round(cluster, self._attempts.values(), now_s)

        hooks.rounds.append(promote)

    def _hook_shadow(self, policies: Policies, hooks: Hooks) -> None:
        """Decisions compared with those of alternatives (`policies.shadow`)."""
        if not policies.shadow:
            self._shadow.clear()
            return
        hooks.routed.append(self._shadow.routed)
        hooks.placed.append(self._shadow.placed)
        hooks.reported.append(self._shadow.reported)
        hooks.rounds.append(self._shadow.round)

    def _hook_classes(self, cluster: Cluster, policies: Policies, hooks: Hooks) -> None:
        """Short and long jobs, and the nodes that are kept for the short ones (slots `classify`, `partition`)."""
        classifies = _has(policies, "classify")
        cluster.apps = self.classes if classifies else self._inventory
        if classifies:
            hooks.kept_off.append(self.classes.kept_off)
            hooks.worked.append(self.classes.worked)
        if classifies or _has(policies, "partition"):
            hooks.watches.append(self._classify)
        else:
            self.classes.clear()

    def _classify(self, now_s: float) -> None:
        """Forget the classes of applications that ended, and choose the nodes that long ones are kept off."""
        living = {attempt.app_id for attempt in self._attempts.living()}
        self.classes.round((node.view for node in self._state.nodes.values() if node.yarn), living, now_s)

    def _hook_probes(self, cluster: Cluster, policies: Policies, hooks: Hooks) -> None:
        """Places of applications in the queues of nodes (slots `probe`, `steal`, `correct`)."""
        prober, partition = self.prober, self.classes.partition
        if not _has(policies, "probe"):
            prober.clear()
            cluster.line, self._placer.prober = self._central, None
            return
        cluster.line, self._placer.prober = prober, prober
        hooks.watches.append(lambda now_s: prober.round(partition.hosts, now_s))
        if _has(policies, "steal"):
            hooks.reported.append(lambda node_id, report, now_s: self.thief.look(node_id, now_s))
        if _has(policies, "correct"):
            hooks.rounds.append(self.corrector.round)


def _has(policies: Policies, *slots: str) -> bool:
    """Return whether any policies that may decide, or are compared, have a policy in one of these slots."""
    variants: Iterable[Policies] = (policies, *policies.alternatives.values())
    return any(variant.policy_name(slot) != "none" for variant in variants for slot in slots)
