"""Which decisions are kept, and what routing writes down beside its grants."""

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.effects import Decided
from rm_proxy.config import ProxySettings
from rm_proxy.domain.records import DecisionRecord
from rm_proxy.service.sampling.decision_sampling import Decisions, Sampler, Sampling
from rm_proxy.service.server import Proxy
from rm_proxy.store.queries import DecisionFilter, History
from rm_proxy.store.store import Store
from tests.rm_proxy.yarn_messages import ALL_Q, Am, cid, container, coordinator, event, granted_rows, node_id, row


def made(number: int = 0, slot: str = "shed", weight: int = 1) -> DecisionRecord:
    return DecisionRecord(
        at_s=1.0,
        slot=slot,
        policy="p",
        chosen="shed",
        reason="why",
        app_id="a",
        container_id=f"c{number}",
        node_id="n",
        weight=weight,
    )


def test_all_are_kept_while_they_are_few_and_one_of_many_beyond() -> None:
    sampler = Sampler(Sampling(per_s=3, one_of=4), Random(1))
    weights = [sampler.weight("shed", "", 10.2) for _ in range(11)]
    assert weights[:3] == [1, 1, 1]
    assert sorted(weights[3:7]) == [0, 0, 0, 4] and sorted(weights[7:]) == [0, 0, 0, 4]
    assert sampler.weight("steal", "", 10.3) == 1, "each slot by itself"
    assert sampler.weight("shed", "other", 10.3) == 1, "and each alternative"
    assert [sampler.weight("shed", "", 11.0) for _ in range(3)] == [1, 1, 1], "a new second"


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.floats(0, 3)), max_size=300),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_the_weights_add_up(offered: list[tuple[str, float]], per_s: int, one_of: int, seed: int) -> None:
    sampler = Sampler(Sampling(per_s, one_of), Random(seed))
    now_s, kept = 0.0, dict.fromkeys("ab", 0)
    for slot, later_s in offered:
        now_s += later_s
        kept[slot] += sampler.weight(slot, "", now_s)
    for slot, weight in kept.items():
        assert abs(weight - sum(1 for one, _ in offered if one == slot)) < one_of


def test_what_is_drawn_is_not_always_the_same_place() -> None:
    sampler = Sampler(Sampling(per_s=1, one_of=10), Random(3))
    weights = [sampler.weight("shed", "", 0.0) for _ in range(1001)][1:]
    assert len({at % 10 for at, weight in enumerate(weights) if weight}) > 5


def test_kinds_are_bounded() -> None:
    sampler = Sampler(Sampling(), Random(1))
    for number in range(5000):
        sampler.weight("shed", f"alternative{number}", 0.0)
    assert len(sampler._kinds) == 512


def test_decisions_get_ids_and_weights_and_the_last_are_remembered() -> None:
    decisions = Decisions("here-1", Sampling(per_s=2, one_of=5, recent=3), Random(1))
    kept = [decisions.take(made(number, weight=2), 5.0) for number in range(12)]
    records = [one for one in kept if one is not None]
    assert [one.id for one in records] == ["here-1-1", "here-1-2", "here-1-3", "here-1-4"]
    assert [one.weight for one in records] == [2, 2, 10, 10]
    assert decisions.recent() == records[:0:-1]


def test_none_are_remembered_when_nobody_wants_it() -> None:
    decisions = Decisions("here-1", Sampling(recent=0), Random(1))
    assert decisions.take(made(), 5.0) is not None and decisions.recent() == []


def test_of_many_candidates_the_best_are_kept(store: Store) -> None:
    scores = tuple((f"n{number}", float(number)) for number in range(300))
    kept = Decisions("here-1", Sampling(), Random(1)).take(replace(made(), scores=scores), 5.0)
    assert kept is not None and kept.scores == scores[:100]
    store.write([kept, replace(kept, id="other", scores=scores)])
    assert {len(one.scores) for one in History(store).choices(limit=9).items} == {100}


def test_what_the_machines_decide_reaches_store_memory_and_metrics(tmp_path: Path) -> None:
    async def crowd() -> Proxy:
        settings = ProxySettings.model_validate(
            {
                "listen": "127.0.0.1:1",
                "upstream": "127.0.0.1:2",
                "rm_web": "http://127.0.0.1:3",
                "store_url": f"sqlite:///{tmp_path / 'p.db'}",
                "decisions_per_s": 1,
                "decisions_one_of": 100,
                "keep_days": 1e6,
            }
        )
        proxy = Proxy(settings, Policies.load({}), HadoopConf(tmp_path, {}, {}), "")
        proxy.writer.start()
        proxy.effects.handle(Decided(made(number)) for number in range(1000))
        proxy.effects.handle([Decided(made(2000, slot="steal", weight=3))])
        assert proxy.writer.flush()
        proxy.writer.close()
        return proxy

    proxy = asyncio.run(crowd())
    sampled = History(proxy.store).choices(DecisionFilter(slot="shed"), limit=1000).items
    assert len(sampled) < 40 and abs(sum(one.weight for one in sampled) - 1000) < 100
    assert [one.slot for one in proxy.decisions.recent()].count("shed") == len(sampled)
    value = proxy.metrics.registry.get_sample_value
    assert value("quicksilver_proxy_decisions_total", {"slot": "shed"}) == 1000
    assert value("quicksilver_proxy_decisions_total", {"slot": "steal"}) == 3
    assert value("quicksilver_proxy_decisions_left_out_total", {"slot": "shed"}) == 1000 - len(sampled)
    assert value("quicksilver_proxy_store_rows_total", {"table": "decisions"}) == len(sampled) + 1
    proxy.store.close()


def decided(am: Am) -> list[DecisionRecord]:
    return [effect.record for effect in am.attempt.take_effects() if isinstance(effect, Decided)]


def test_equal_refusals_of_a_quota_are_one_decision_with_their_number() -> None:
    quota: dict[str, Any] = {"policy": "absolute", "settings": {"max_q": 2}}
    am = Am(coordinator(policies={**ALL_Q, "quota": quota}))
    am.asks(row("*", 7))
    (refused,) = decided(am)
    assert (refused.slot, refused.policy, refused.chosen, refused.weight) == ("quota", "absolute", "G", 5)
    assert "2" in refused.reason and refused.app_id == am.attempt.app_id


def test_a_steer_is_written_down_with_its_candidates_and_a_fall_to_guaranteed() -> None:
    am = Am(coordinator(nodes=2))
    am.asks(row("*", 1))
    (first,) = granted_rows(am.sent.ask).values()
    am.gets()
    am.asks()
    (steered,) = decided(am)
    (second,) = granted_rows(am.sent.ask).values()
    assert first.resource_name != second.resource_name
    old, new = (node_id(int(r.resource_name.removeprefix("host"))) for r in (first, second))
    assert (steered.slot, steered.chosen, steered.node_id) == ("place", new, new)
    assert steered.reason.startswith(f"{old} did not grant it") and dict(steered.scores).keys() == {new}
    am.gets()
    am.asks()
    (fell,) = decided(am)
    assert (fell.slot, fell.chosen) == ("place", "G")
    assert fell.reason == "fell back to guaranteed: 2 nodes did not grant it"


def test_a_grant_tells_which_nodes_did_not_grant_it() -> None:
    am = Am(coordinator(nodes=2))
    am.asks(row("*", 1))
    (first,) = granted_rows(am.sent.ask).values()
    am.gets()
    am.asks()
    (asked,) = granted_rows(am.sent.ask).values()
    am.gets(container(1, int(asked.resource_name.removeprefix("host")), asked))
    (record,) = (e.record for e in am.effects if type(e).__name__ == "Granted")
    other = node_id(int(first.resource_name.removeprefix("host")))
    assert record.place_reason.startswith(f"{other} did not grant it; ")


def test_what_goes_guaranteed_after_losses_still_names_what_it_follows() -> None:
    am = Am(coordinator(policies={**ALL_Q, "retries_to_g": 0}))
    am.asks(row("*", 1))
    am.gets(*(container(1, 1, asked) for asked in granted_rows(am.sent.ask).values()))
    am.attempt.containers.on_event(event(1, EventKind.SHED), 1.0)
    am.asks()
    am.gets()
    asked = row("*", 1)
    am.asks(asked)
    am.gets(container(2, 1, asked))
    (record,) = (e.record for e in am.effects if type(e).__name__ == "Granted")
    assert (record.kind, record.retries, record.follows) == ("G", 1, cid(1))


@pytest.mark.parametrize(("per_s", "one_of"), [(1, 1), (5, 1)])
def test_one_of_one_keeps_all(per_s: int, one_of: int) -> None:
    sampler = Sampler(Sampling(per_s, one_of), Random(1))
    assert [sampler.weight("shed", "", 0.0) for _ in range(20)] == [1] * 20
