"""Promotion of running queueable containers, seen from the ResourceManager and from the application master."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind, Resources
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.effects import Completed, Decided, Effect
from rm_proxy.attempt.promotion_requests import MAX_OUTSTANDING, MAX_TRIES, RETRY_S
from rm_proxy.coordinator import promotion_choice
from rm_proxy.coordinator.cluster_state import Limits
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.yarn.models import YarnQueue
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    TIMESTAMP,
    Am,
    cid,
    container,
    container_proto,
    container_report,
    coordinator,
    ended,
    event,
    granted_rows,
    node_id,
    report,
    row,
    yarn_node,
)

ON_START: dict[str, Any] = {
    **ALL_Q,
    "promote": {"policy": "on_start"},
    "estimate": {"default_s": 60},
}


def updated(number: int, version: int = 1, kind: int = y.PROMOTE_EXECUTION_TYPE) -> y.UpdatedContainerProto:
    """Return what the ResourceManager says of a promotion that was carried out."""
    proto = y.UpdatedContainerProto(update_type=kind)
    proto.container.CopyFrom(container(number, 1, row("*")))
    proto.container.version = version
    return proto


def error(sent: y.UpdateContainerRequestProto, reason: str, version: int = 0) -> y.UpdateContainerErrorProto:
    proto = y.UpdateContainerErrorProto(reason=reason, current_container_version=version)
    proto.update_request.CopyFrom(sent)
    return proto


def theirs(
    number: int, version: int = 0, update_type: y.ContainerUpdateTypeProto.ValueType = y.INCREASE_RESOURCE
) -> y.UpdateContainerRequestProto:
    """Return an update that the application master asks for itself."""
    proto = y.UpdateContainerRequestProto(container_version=version, update_type=update_type)
    proto.container_id.CopyFrom(container_proto(number))
    proto.capability.memory = 2048
    return proto


class Site(Am):
    """An application master, and containers that run."""

    def __init__(self, count: int = 1, policies: dict[str, Any] | None = None, **more: Any) -> None:
        world = coordinator(policies or ON_START, **more)
        super().__init__(world)
        if not count:
            return
        self.asks(row("*", count))
        rows = granted_rows(self.sent.ask).values()
        self.gets(*(container(n, int(r.resource_name[4:]), r) for n, r in enumerate(rows, 1)))
        assert self.attempt.live.count_q == count
        for number in range(1, count + 1):
            self.attempt.containers.on_event(event(number, EventKind.STARTED), 0.0)

    def send(self, *updates: y.UpdateContainerRequestProto) -> list[y.UpdateContainerRequestProto]:
        """Send a heartbeat; returns its updates as the ResourceManager gets them."""
        raw = y.AllocateRequestProto(response_id=self.response_id, update_requests=updates).SerializeToString()
        rewritten = self.attempt.exchange.on_allocate(raw, self.now_s)
        self.sent = y.AllocateRequestProto.FromString(raw if rewritten is None else rewritten)
        return list(self.sent.update_requests)

    def answer(
        self,
        *done: y.UpdatedContainerProto,
        errors: Iterable[y.UpdateContainerErrorProto] = (),
        completed: Iterable[y.ContainerStatusProto] = (),
    ) -> y.AllocateResponseProto:
        self.response_id += 1
        answer = y.AllocateResponseProto(response_id=self.response_id, updated_containers=done)
        answer.update_errors.extend(errors)
        answer.completed_container_statuses.extend(completed)
        raw = answer.SerializeToString()
        rewritten = self.attempt.exchange.on_answer(raw, self.now_s)
        self.effects += self.attempt.take_effects()
        return y.AllocateResponseProto.FromString(raw if rewritten is None else rewritten)

    def round(self, now_s: float | None = None) -> list[tuple[str, str]]:
        """Let the coordinator choose; returns what was decided: container and verdict."""
        self.now_s = self.now_s if now_s is None else now_s
        self.world.rounds.all_parts(self.now_s)
        return decided(self.world.take_effects())


def decided(effects: Iterable[Effect]) -> list[tuple[str, str]]:
    return [(e.record.container_id, e.record.chosen) for e in effects if isinstance(e, Decided)]


def test_a_running_container_becomes_guaranteed_and_the_application_sees_nothing() -> None:
    site = Site()
    assert site.send() == []
    site.answer()
    assert site.round() == [(cid(1), "asked")]
    (update,) = site.send()
    assert (update.update_type, update.execution_type) == (y.PROMOTE_EXECUTION_TYPE, y.GUARANTEED)
    assert (update.container_id, update.container_version) == (container_proto(1), 0)
    assert not update.HasField("capability")
    site.answer()
    assert site.send() == [], "once"
    seen = site.answer(updated(1))
    assert not seen.updated_containers
    assert decided(site.effects) == [(cid(1), "promoted")]
    live = site.attempt.live
    assert (live.count_q, live.used_g, live.used_q) == (0, Resources(1024, 1), Resources())
    queue = site.world.inventory.queue("root.default")
    assert queue is not None and queue.used_q == Resources(), "it is charged no more"
    assert site.round(1.0) == []


def test_who_waits_or_was_released_or_is_being_killed_is_not_promoted() -> None:
    site = Site(3)
    site.attempt.containers.on_event(event(1, EventKind.KILLED, reason="makes room"), 0.0)
    site.asks(release=[2])
    site.gets()
    assert site.round() == [(cid(3), "asked")]
    waiting = Site(0)
    waiting.asks(row("*"))
    (asked,) = granted_rows(waiting.sent.ask).values()
    waiting.gets(container(1, int(asked.resource_name[4:]), asked))
    waiting.attempt.containers.on_event(event(1, EventKind.HELD), 0.0)
    assert waiting.round() == []


def test_what_the_application_asked_for_as_opportunistic_stays_so() -> None:
    site = Site(0)
    site.asks(row("*", opportunistic=True))
    (asked,) = granted_rows(site.sent.ask).values()
    site.gets(container(1, int(asked.resource_name[4:]), asked))
    site.attempt.containers.on_event(event(1, EventKind.STARTED), 0.0)
    assert site.attempt.live.count_q == 1
    assert site.round() == []


def test_the_application_may_promote_what_it_asked_for_as_opportunistic() -> None:
    """It sees the type that it asked for, and the container counts as guaranteed."""
    site = Site(0)
    site.asks(row("*", opportunistic=True))
    (asked,) = granted_rows(site.sent.ask).values()
    site.gets(container(1, int(asked.resource_name[4:]), asked))
    site.attempt.containers.on_event(event(1, EventKind.STARTED), 0.0)
    own = theirs(1, update_type=y.PROMOTE_EXECUTION_TYPE)
    assert site.send(own) == [own]
    done = updated(1)
    done.container.allocation_request_id = asked.allocation_request_id
    (seen,) = site.answer(done).updated_containers
    assert (seen.container.execution_type, seen.container.version) == (y.GUARANTEED, 1)
    assert seen.container.allocation_request_id == -1
    assert (site.attempt.live.count_q, site.attempt.live.used_g) == (0, Resources(1024, 1))


def test_a_promotion_that_the_application_asks_for_as_well_is_its_own() -> None:
    site = Site()
    site.round()
    site.send(theirs(1, update_type=y.PROMOTE_EXECUTION_TYPE))
    assert len(site.answer(updated(1)).updated_containers) == 1
    assert site.attempt.live.count_q == 0


def test_one_that_ended_meanwhile_is_not_asked_for() -> None:
    site = Site(2)
    site.round()
    site.answer(completed=[ended(1)])
    assert [u.container_id.id for u in site.send()] == [2]
    site.answer(completed=[ended(2)])
    assert decided(site.effects) == [(cid(1), "ended"), (cid(2), "ended")]
    assert site.answer(updated(2)).updated_containers, "what nobody asked for passes"


def test_a_completion_beside_the_promotion_is_told_as_it_is() -> None:
    site = Site()
    site.round()
    site.send()
    seen = site.answer(updated(1), completed=[ended(1, -102, "preempted by the Capacity Scheduler")])
    (status,) = seen.completed_container_statuses
    assert (status.exit_status, status.diagnostics) == (-102, "preempted by the Capacity Scheduler")
    assert not seen.updated_containers and not len(site.attempt.live)


def test_a_kill_that_came_first_is_told_as_preempted() -> None:
    site = Site()
    site.round()
    site.send()
    site.attempt.containers.on_event(event(1, EventKind.KILLED, reason="makes room for x"), 0.0)
    site.answer(updated(1))
    (status,) = site.answer(completed=[ended(1, 137)]).completed_container_statuses
    assert status.exit_status == -102 and "makes room for x" in status.diagnostics


def test_a_refused_one_is_tried_again_with_back_off_and_then_left() -> None:
    site = Site()
    due_s = 0.0
    for refusals in range(1, MAX_TRIES + 1):
        assert site.round(due_s) == [(cid(1), "asked")]
        (sent,) = site.send()
        seen = site.answer(errors=[error(sent, "RESOURCE_OUTSIDE_ALLOWED_RANGE")])
        assert not seen.update_errors
        assert decided(site.effects)[-1] == (cid(1), "refused")
        due_s += RETRY_S * 2 ** (refusals - 1)
        assert site.round(due_s - 0.1) == []
    assert site.round(due_s + 1000) == []
    assert site.send() == []


def test_a_version_that_differs_is_learnt() -> None:
    site = Site()
    site.round()
    (sent,) = site.send()
    site.answer(errors=[error(sent, "INCORRECT_CONTAINER_VERSION_ERROR", 3)])
    site.round(RETRY_S)
    (again,) = site.send()
    assert again.container_version == 3


def test_one_that_is_outstanding_already_stays_so() -> None:
    site = Site()
    site.round()
    (sent,) = site.send()
    assert not site.answer(errors=[error(sent, "UPDATE_OUTSTANDING_ERROR")]).update_errors
    assert site.round(1000.0) == []
    assert not site.answer(updated(1)).updated_containers
    assert decided(site.effects)[-1] == (cid(1), "promoted")


# What the application updates itself


def test_what_the_application_updates_is_left_alone() -> None:
    site = Site(2)
    (sent,) = site.send(theirs(1))
    assert sent == theirs(1)
    seen = site.answer(updated(1, 1, y.INCREASE_RESOURCE), errors=[error(theirs(1), "UPDATE_OUTSTANDING_ERROR", 1)])
    assert [u.container.version for u in seen.updated_containers] == [1]
    assert seen.update_errors == [error(theirs(1), "UPDATE_OUTSTANDING_ERROR", 1)]
    assert site.round() == [(cid(2), "asked")]


def test_its_own_update_of_a_promoted_one_has_the_versions_that_it_knows() -> None:
    site = Site()
    site.round()
    site.send()
    site.answer(updated(1))
    (sent,) = site.send(theirs(1, 0))
    assert sent.container_version == 1, "which the ResourceManager wants"
    seen = site.answer(errors=[error(sent, "RESOURCE_OUTSIDE_ALLOWED_RANGE", 1)])
    (refusal,) = seen.update_errors
    assert (refusal.update_request, refusal.current_container_version) == (theirs(1, 0), 0)
    site.send(theirs(1, 0))
    seen = site.answer(updated(1, 2, y.INCREASE_RESOURCE))
    assert [u.container.version for u in seen.updated_containers] == [1]


def test_a_promoted_container_keeps_the_request_id_that_the_application_gave() -> None:
    site = Site(0)
    site.asks(row("*", request_id=7))
    (asked,) = granted_rows(site.sent.ask).values()
    site.gets(container(1, int(asked.resource_name[4:]), asked))
    site.attempt.containers.on_event(event(1, EventKind.STARTED), 0.0)
    site.round()
    site.send()
    site.answer(updated(1))
    increased = updated(1, 2, y.INCREASE_RESOURCE)
    increased.container.allocation_request_id = asked.allocation_request_id
    seen = site.answer(increased)
    assert [u.container.allocation_request_id for u in seen.updated_containers] == [7]
    later = site.world.attempt(f"appattempt_{TIMESTAMP}_0001_000002")
    kept = y.RegisterApplicationMasterResponseProto(containers_from_previous_attempts=[increased.container])
    rewritten = later.on_registered(kept.SerializeToString(), 1.0)
    assert rewritten is not None
    (adopted,) = y.RegisterApplicationMasterResponseProto.FromString(rewritten).containers_from_previous_attempts
    assert (adopted.allocation_request_id, adopted.execution_type) == (7, y.GUARANTEED)
    assert (later.live.count_q, later.live.used_g) == (0, Resources(1024, 1))


# Messages that come twice, and failures


def repeat(site: Site, *updates: y.UpdateContainerRequestProto, release: Iterable[int] = ()) -> list[int]:
    request = y.AllocateRequestProto(response_id=site.response_id, update_requests=updates)
    request.release.extend(container_proto(n) for n in release)
    raw = request.SerializeToString()
    rewritten = site.attempt.exchange.on_allocate(raw, site.now_s)
    sent = y.AllocateRequestProto.FromString(raw if rewritten is None else rewritten)
    return [u.container_id.id for u in sent.update_requests]


def test_a_repeated_request_carries_it_again_and_a_repeated_answer_is_the_same() -> None:
    site = Site(2)
    site.round()
    assert repeat(site) == [1, 2] == repeat(site)
    assert repeat(site, release=[9]) == [1, 2], "which the ResourceManager may never have seen"
    raw = y.AllocateResponseProto(
        response_id=site.response_id + 1, updated_containers=[updated(1)], num_cluster_nodes=3
    ).SerializeToString()
    rewritten = site.attempt.exchange.on_answer(raw, 0.0)
    assert rewritten is not None and not y.AllocateResponseProto.FromString(rewritten).updated_containers
    effects = decided(site.attempt.take_effects())
    assert repeat(site) == [], "the ResourceManager repeats its answer, and reads nothing"
    assert site.attempt.exchange.on_answer(raw, 0.0) == rewritten
    assert effects[-1] == (cid(1), "promoted") and decided(site.attempt.take_effects()) == []


def test_what_a_differing_repetition_adds_goes_out_again() -> None:
    """The ResourceManager may have taken the first one, and ignored the second."""
    site = Site()
    assert repeat(site) == []
    site.round()
    assert repeat(site, release=[9]) == [1]
    site.answer()
    assert [u.container_id.id for u in site.send()] == [1]
    site.answer()
    assert site.send() == []


def test_a_refused_request_is_asked_again() -> None:
    site = Site()
    site.round()
    assert len(site.send()) == 1
    site.attempt.exchange.on_refused()
    assert len(site.send()) == 1
    site.answer()
    assert site.send() == []


def test_after_a_restart_of_the_resourcemanager_all_is_asked_anew() -> None:
    site = Site()
    site.round()
    site.send()
    site.attempt.on_not_registered(1.0)
    site.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 2.0)
    assert site.round(3.0) == [(cid(1), "asked")]


def test_the_end_of_the_attempt_ends_it() -> None:
    site = Site()
    site.round()
    site.attempt.on_finished()
    assert list(site.attempt.promotion.outstanding()) == [] and not site.attempt.promotion.to_ask


# Which are asked for


def test_no_more_than_the_resourcemanager_has_room_for() -> None:
    site = Site(9, nodes=1)
    full = replace(yarn_node(1), used=Resources(5 * 1024, 5))
    site.world.yarn_nodes([full], 0.0)
    assert site.round() == [(cid(n), "asked") for n in (1, 2, 3)]
    assert site.round(1.0) == [], "what is asked for counts until it shows"
    site.send()
    site.answer(updated(1), updated(2), updated(3))
    assert site.round(2.0) == []
    site.world.yarn_nodes([replace(full, used=Resources(8 * 1024, 8))], 20.0)
    assert site.round(20.0) == []
    site.world.yarn_nodes([replace(full, used=Resources(6 * 1024, 6))], 40.0)
    assert len(site.round(40.0)) == 2


@pytest.mark.parametrize(("used", "asked"), [(Resources(2048, 9), 2), (Resources(2048, 7), 1), (Resources(7168, 9), 1)])
def test_vcores_count_until_the_resourcemanager_itself_exceeds_them(used: Resources, asked: int) -> None:
    site = Site(2, nodes=1)
    site.world.yarn_nodes([replace(yarn_node(1), used=used)], 0.0)
    assert len(site.round()) == asked


def test_not_beyond_the_maximum_capacity_of_the_queue() -> None:
    site = Site(3)
    size, used = Resources(4096, 4), Resources(2048, 2)
    for _ in range(2):  # what others use counts once two reports in a row have it
        site.world.inventory.update_queues([YarnQueue("root.default", True, "RUNNING", size, used, frozenset(), "")])
    assert len(site.round()) == 2


def test_not_beyond_what_the_queues_above_and_the_user_may_have() -> None:
    site = Site(3, queue="root.a")
    size, used = Resources(8192, 8), Resources(2048, 2)
    one = YarnQueue("root.a", True, "RUNNING", size, used, frozenset(), "", {"u": used}, Resources(3072, 3))
    root = YarnQueue("root", False, "RUNNING", Resources(9216, 9), Resources(7168, 7), frozenset(), "")
    site.world.inventory.update_queues([root, one])
    assert len(site.round()) == 1, "the user's limit"
    other = Site(3, queue="root.a")
    other.world.inventory.update_queues([root, replace(one, user_limit=None)])
    assert len(other.round()) == 2, "the root has room for two"


def test_no_more_than_some_at_once() -> None:
    site = Site(MAX_OUTSTANDING + 2, nodes=4)
    assert len(site.round()) == MAX_OUTSTANDING
    sent = site.send()
    assert len(sent) == MAX_OUTSTANDING
    site.answer(updated(sent[0].container_id.id))
    assert len(site.round(1.0)) == 1


def test_no_more_than_some_of_all_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion_choice, "MAX_OPEN", 2)
    site = Site(4)
    assert len(site.round()) == 4, "one attempt is not stopped halfway"
    site.send()
    site.answer(completed=[ended(1), ended(2)])
    site.attempt.live.add(replace(next(iter(site.attempt.live)), id="container_x"))
    assert site.round(1.0) == []


@pytest.mark.parametrize("mode", ["shadow", "bypass"])
def test_only_where_the_proxy_is_active(mode: str) -> None:
    site = Site()
    site.world.switch(coordinator({**ON_START, "mode": mode}).policies)
    assert site.round() == []


def test_nothing_where_the_resourcemanager_would_not_tell_the_node() -> None:
    site = Site()
    site.world.features.promoter.why_off = "yarn-site.xml: yarn.resourcemanager.auto-update.containers is not true"
    assert site.round() == []
    assert (
        Coordinator(site.world.policies, site.world.rng, Limits(no_promotion="off")).features.promoter.why_off == "off"
    )


def test_not_on_a_node_that_empties() -> None:
    site = Site(nodes=1)
    site.world.yarn_nodes([yarn_node(1, state="DECOMMISSIONING")], 0.0)
    assert site.round() == []


def test_what_a_sidecar_measured_counts_as_done() -> None:
    site = Site(nodes=1)
    one = container_report(1)
    site.world.reports.report(node_id(1), report(1, containers=[one.model_copy(update={"attained_s": 55.0})]), 300.0)
    assert site.round(300.0) == [], "5 s of 60 are left"
    site.world.reports.report(node_id(1), report(1, containers=[one.model_copy(update={"attained_s": 20.0})]), 301.0)
    assert len(site.round(301.0)) == 1


# What the sidecar is told


def shown(world: Coordinator, kind: str, now_s: float) -> list[str]:
    one = container_report(1, kind=kind)
    return world.reports.report(node_id(1), report(1, containers=[one]), now_s).promoted


def test_the_sidecar_is_told_until_it_takes_it_for_guaranteed() -> None:
    site = Site(nodes=1)
    assert shown(site.world, "Q", 0.0) == []
    site.round()
    site.send()
    assert shown(site.world, "Q", 1.0) == []
    site.answer(updated(1))
    assert shown(site.world, "Q", 2.0) == [cid(1)] == shown(site.world, "Q", 3.0), "an answer may be lost"
    assert shown(site.world, "G", 4.0) == []
    assert shown(site.world, "Q", 5.0) == []


def test_an_end_of_a_promoted_container_is_not_translated() -> None:
    site = Site()
    site.round()
    site.send()
    site.answer(updated(1))
    live = site.attempt.live.get(cid(1))
    assert live is not None and live.kind is Kind.GUARANTEED
    (status,) = site.answer(completed=[ended(1, -100)]).completed_container_statuses
    assert status.exit_status == -100
    assert [e.record.translated for e in site.effects if isinstance(e, Completed)] == [False]


def test_a_roll_out_promotes_for_its_applications_only() -> None:
    partly = {**ALL_Q, "estimate": {"default_s": 60}, "alternatives": {"new": {"promote": {"policy": "on_start"}}}}
    assert Site(policies={**partly, "rollout": [{"queue": "*", "percent": 100, "use": "new"}]}).round()
    assert Site(policies={**partly, "rollout": [{"queue": "*", "percent": 0, "use": "new"}]}).round() == []
