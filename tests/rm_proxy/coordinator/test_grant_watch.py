"""A ResourceManager that grants no queueable containers: the proxy learns it, and asks again from time to time."""

from __future__ import annotations

from rm_proxy.coordinator.grant_watch import LEARNT, REFUSED, TRIAL_S, GrantWatch
from tests.rm_proxy.yarn_messages import Am, container, coordinator, granted_rows, row, shown

CONFIGURED = "Hadoop 3.1.1 grants none with nodes-used=0"


def test_the_first_containers_tell_and_others_are_tried_later() -> None:
    watch = GrantWatch()
    assert not watch.round(0.0) and watch.why_none == ""
    for _ in range(REFUSED - 1):
        watch.refused(1.0)
    assert watch.why_none == ""
    watch.refused(1.0)
    assert watch.why_none == LEARNT
    assert watch.round(2.0) and not watch.round(3.0), "they are decided on anew, once"
    assert watch.round(1.0 + TRIAL_S) and watch.why_none == "", "a trial"
    watch.granted()
    for _ in range(REFUSED):
        watch.refused(99.0)
    assert watch.why_none == "", "it has granted some: these nodes were full, or away"


def test_version_and_configuration_tell_at_once() -> None:
    watch = GrantWatch()
    watch.configured(CONFIGURED)
    assert watch.round(0.0) and watch.why_none == CONFIGURED
    assert not watch.round(10 * TRIAL_S) and watch.why_none == CONFIGURED, "no trial: it is known"
    watch.configured("")
    assert watch.why_none == "" and watch.round(10 * TRIAL_S)


def test_refusals_before_the_configuration_was_mended_do_not_count() -> None:
    watch = GrantWatch()
    for _ in range(REFUSED):
        watch.refused(0.0)
    watch.configured(CONFIGURED)
    watch.configured("")
    assert watch.why_none == ""


def test_containers_go_guaranteed_at_once_where_none_are_granted() -> None:
    am = Am(coordinator(nodes=3))
    am.world.grants.configured(CONFIGURED)
    assert shown(am.asks(row("*", 4))) == [("*", 4, "G", -1)]
    (reason,) = {reason.text for entry in am.attempt.table.entries.values() for reason in entry.g_reasons}
    assert reason == CONFIGURED


def test_containers_that_are_asked_for_already_go_guaranteed_with_the_next_request() -> None:
    am = Am(coordinator(nodes=3))
    am.asks(row("*", 5))
    assert len(granted_rows(am.sent.ask)) == 5
    am.world.grants.configured(CONFIGURED)
    am.world.rounds.all_parts(am.now_s)
    am.gets()
    am.asks()
    assert not granted_rows(am.sent.ask)
    assert [(name, count) for name, count, kind, _ in shown(am.sent.ask) if kind == "G" and count] == [("*", 5)]


def test_a_resource_manager_that_grants_nothing_is_learnt_from_three_containers() -> None:
    am = Am(coordinator(nodes=2))
    am.asks(row("*", REFUSED))
    for _ in range(2):  # each is steered to the other node, and given up then
        am.gets()
        am.asks()
    assert am.world.grants.why_none == LEARNT
    am.gets()
    assert shown(am.asks(row("*", 7, priority=9))) == [("*", 7, "G", -1)]


def test_a_grant_says_that_there_are_some() -> None:
    am = Am(coordinator(nodes=2))
    am.asks(row("*", 1))
    (asked,) = granted_rows(am.sent.ask).values()
    am.gets(container(1, int(asked.resource_name.removeprefix("host")), asked))
    for _ in range(REFUSED):
        am.world.grants.refused(am.now_s)
    assert am.world.grants.why_none == ""
