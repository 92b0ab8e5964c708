"""Tokens through the whole proxy: regular, opportunistic and waiting containers of an application (Apollo §3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.asks.ask_entry import AskEntry
from rm_proxy.attempt.effects import Decided, Faulted, FellBack
from rm_proxy.yarn.models import YarnQueue
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    Am,
    cid,
    container,
    coordinator,
    ended,
    event,
    row,
)


def tokens(**chosen: Any) -> dict[str, Any]:
    return {"policy": "tokens", "settings": {"job_tokens": 2, "allowance_ratio": 1.0, **chosen}}


TWO: Mapping[str, Any] = {**ALL_Q, "admit": tokens(), "estimate": {"default_s": 60}}


def entry_of(am: Am) -> AskEntry:
    (entry,) = am.attempt.entries
    return entry


def shares(am: Am) -> tuple[int, int, int]:
    """Return how many containers are guaranteed, asked for at nodes, and wait at the proxy."""
    entry = entry_of(am)
    return entry.g_share, len(entry.pending), entry.q_wanted


def beat(am: Am, *rows: y.ResourceRequestProto) -> None:
    am.now_s += 1
    am.asks(*rows)


def two_and_two(policies: Mapping[str, Any] = TWO, **world: Any) -> Am:
    """Return an application that asked for six and holds two of each kind: 1 and 2 are guaranteed, 3 and 4 are not."""
    am = Am(coordinator(policies, **world))
    am.asks(row("*", 6))
    assert shares(am) == (2, 2, 2)
    am.gets(container(1, 1, row()), container(2, 2, row()), *am.granted(3))
    beat(am, row("*", 2))
    assert shares(am) == (0, 0, 2), "two wait though nodes have room"
    am.gets()
    return am


def test_two_have_tokens_two_are_opportunistic_and_two_wait() -> None:
    am = two_and_two()
    for _ in range(5):
        beat(am)
        am.gets()
    assert shares(am) == (0, 0, 2), "that nothing guaranteed is asked for does not let them go"
    app = am.attempt.app
    assert app is not None and (app.live_g, app.live_q, app.asked_g) == (2, 4, 0)


def test_when_a_guaranteed_one_ends_one_that_waited_has_its_token() -> None:
    am = two_and_two()
    am.gets(completed=[ended(1)])
    beat(am)
    assert shares(am) == (1, 0, 1)
    (reason,) = entry_of(am).g_reasons
    assert (reason.text, reason.slot) == ("tokens: has a token", "admit")
    am.gets()
    records = [effect.record for effect in am.effects if isinstance(effect, Decided)]
    assert [(r.slot, r.policy, r.chosen, r.reason) for r in records] == [
        ("admit", "tokens", "G", "tokens: has a token")
    ]
    assert not any(isinstance(effect, FellBack) for effect in am.effects)
    beat(am)
    am.gets(container(5, 3, row()))
    beat(am, row("*", 1))
    assert shares(am) == (0, 0, 1)


def test_when_an_opportunistic_one_ends_one_that_waited_gets_a_node() -> None:
    am = two_and_two()
    am.gets(completed=[ended(3)])
    beat(am)
    assert shares(am) == (0, 1, 1)


def test_the_reasons_say_what_each_one_is() -> None:
    am = Am(coordinator(TWO))
    am.asks(row("*", 6))
    entry = entry_of(am)
    assert [(r.text, r.count, r.slot) for r in entry.g_reasons] == [("tokens: has a token", 2, "admit")]
    placed = [q.reason.text for q in entry.pending.values()]
    assert len(placed) == 2
    assert all(text.endswith("; admit: tokens: opportunistic, within its allowance of 2") for text in placed)
    (waiting,) = entry.q_reasons
    assert waiting.count == 2 and waiting.text.endswith("; admit: tokens: waits: beyond its allowance of 2")
    am.gets()
    records = [effect.record for effect in am.effects if isinstance(effect, Decided) and effect.record.slot == "admit"]
    assert [(r.chosen, r.policy, r.weight) for r in records] == [("G", "tokens", 2)]


def test_without_tokens_all_go_at_once() -> None:
    am = Am(coordinator({**TWO, "admit": {"policy": "none"}}))
    am.asks(row("*", 6))
    assert shares(am) == (0, 6, 0)


def test_what_a_route_guarantees_uses_tokens() -> None:
    first = {"match": {"priority": 5}, "policy": "only_g"}
    am = Am(coordinator({**TWO, "routes": [first, {"policy": "only_q"}]}))
    am.asks(row("*", 3, priority=5))
    am.asks(row("*", 4, priority=20))
    later = next(entry for entry in am.attempt.entries if entry.key.priority == 20)
    assert (later.g_share, len(later.pending), later.q_wanted) == (0, 2, 2)


def test_the_queue_has_tokens_too() -> None:
    world = coordinator({**TWO, "admit": tokens(job_tokens=0, allowance_ratio=0.5)})
    size = Resources(8192, 8)
    world.inventory.update_queues(
        [YarnQueue("root.default", True, "RUNNING", size, Resources(), frozenset(), "", capacity=Resources(4096, 4))]
    )
    am = Am(world)
    am.asks(row("*", 10))
    assert shares(am) == (4, 2, 4), "half as many as have tokens"


def test_other_settings_decide_again_on_what_waits() -> None:
    am = two_and_two()
    new = Policies.load({**TWO, "admit": tokens(allowance_ratio=1.5)})
    am.world.use(new, am.now_s)
    beat(am)
    assert shares(am) == (0, 1, 1)
    (waiting,) = entry_of(am).q_reasons
    assert waiting.text.count("admit:") == 1
    am.gets()
    am.world.use(Policies.load({**TWO, "admit": {"policy": "none"}}), am.now_s)
    beat(am)
    assert shares(am) == (0, 2, 0)


def test_an_alternative_has_tokens_of_its_own() -> None:
    rolled = {"alternatives": {"few": {"admit": tokens()}}, "rollout": [{"use": "few"}]}
    am = Am(coordinator({**TWO, "admit": {"policy": "none"}, **rolled}))
    am.asks(row("*", 6))
    assert shares(am) == (2, 2, 2)


def test_a_container_that_the_application_asks_for_as_opportunistic_is_left_alone() -> None:
    am = Am(coordinator(TWO))
    am.asks(row("*", 6, opportunistic=True))
    assert shares(am) == (0, 6, 0)


def test_a_quota_still_holds_for_what_has_no_token() -> None:
    am = Am(coordinator({**TWO, "quota": {"policy": "absolute", "settings": {"max_q": 1}}}))
    am.asks(row("*", 4))
    assert shares(am) == (3, 1, 0), "the quota makes the last one guaranteed"


def test_a_policy_that_fails_makes_containers_guaranteed() -> None:
    world = coordinator(TWO)

    def fails(ask: object, queue: object, cfg: object) -> None:
        raise ZeroDivisionError

    bound = world.policies.choices["admit"]
    world.policies.choices["admit"] = replace(bound, decide=fails)
    am = Am(world)
    am.asks(row("*", 2))
    assert shares(am) == (2, 0, 0)
    am.gets()
    assert any(isinstance(effect, Faulted) and "tokens" in effect.fault for effect in am.effects)


def promotions(am: Am) -> list[str]:
    """Let the coordinator choose; returns the containers whose promotion is not decided."""
    am.world.rounds.all_parts(am.now_s)
    return [live.id for live in am.attempt.promotion.outstanding()]


def test_a_running_opportunistic_one_is_promoted_when_a_token_is_free() -> None:
    promote = {"policy": "token", "settings": {"job_tokens": 2}}
    am = Am(coordinator({**TWO, "promote": promote}))
    am.asks(row("*", 4))
    am.gets(container(1, 1, row()), container(2, 2, row()), *am.granted(3))
    for number in (3, 4):
        am.attempt.containers.on_event(event(number, EventKind.STARTED), am.now_s)
    assert promotions(am) == [], "both tokens are in use"
    beat(am)
    am.gets(completed=[ended(1)])
    assert promotions(am) == [cid(3)]
    assert promotions(am) == [cid(3)], "one token, one promotion"
    app = am.attempt.app
    assert app is not None and (app.live_g, app.asked_g, app.live_q) == (1, 1, 2)
    beat(am, row("*", 1))
    assert shares(am) == (0, 0, 1), "the token is taken"
