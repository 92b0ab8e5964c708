"""Alternatives: laid over the base, used by roll-outs and windows, each decision by one set of policies alone."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.config.notes import notes
from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.config.schema import PoliciesSection, Window
from policies.config.windows import Coming, Hours, WindowSpan, hours, next_change_s
from policies.decisions.choice import choose
from policies.errors import SettingsMistakesError
from policies.model import AppView, Ask, ContainerView, Kind, QueueView, Resources

REGISTRY = Registry()
ONLY_Q: dict[str, Any] = {"queues": "*", "routes": [{"policy": "only_q"}], "quota": {"policy": "none"}}
DAY: dict[str, Any] = {"routes": [{"policy": "only_g"}]}


def load(**data: Any) -> Policies:
    return Policies.load(ONLY_Q | data, REGISTRY)


def mistakes(**data: Any) -> list[str]:
    with pytest.raises(SettingsMistakesError) as caught:
        Policies.load(ONLY_Q | data, REGISTRY, ("policies",))
    return [str(mistake) for mistake in caught.value.mistakes]


def app(number: int = 1, queue: str = "root.batch") -> AppView:
    return AppView(f"application_1_{number:04}", queue=queue)


def ask(number: int = 1, queue: str = "root.batch", expected_s: float = 10) -> Ask:
    return Ask(app(number, queue), 20, Resources(1024, 1), expected_s=expected_s)


def window(name: str = "day", **data: Any) -> dict[str, Any]:
    return {"name": name, "cron": "0 8 * * mon-fri", "length_s": 3600, "use": "day"} | data


def kind(policies: Policies, one: Ask, now_s: float = 0.0) -> str:
    return choose(policies, one, QueueView("root.batch"), Random(1), now_s).kind.value


def test_an_alternative_is_the_base_with_its_keys_replaced() -> None:
    policies = load(place={"policy": "random"}, alternatives={"day": DAY, "few": {"quota": {"policy": "absolute"}}})
    day, few = policies.alternatives["day"], policies.alternatives["few"]
    assert day.policy_name("place") == few.policy_name("place") == "random"
    assert (day.route(ask(), Random(1)).kind, few.route(ask(), Random(1)).kind) == (Kind.GUARANTEED, Kind.QUEUEABLE)
    assert (day.policy_name("quota"), few.policy_name("quota")) == ("none", "absolute")
    assert policies.differs(day, "route") and not policies.differs(day, "quota") and policies.differs(few, "quota")
    assert day.name == "day" and policies.name == ""


def test_mistakes_of_alternatives_stand_where_they_were_written() -> None:
    found = mistakes(
        place={"policy": "topk"},
        alternatives={"day": {"ordre": {}, "place": {"policy": "topk_wait", "settings": {"k": 0}}}, "all": {}},
        rollout=[{"percent": 101, "use": "day"}],
    )
    assert [line.split(":")[0] for line in found] == [
        "policies.rollout[0].percent",
        "policies.place.policy",
        "policies.alternatives.day.ordre",
        "policies.alternatives.day.place.settings.k",
    ]
    assert "did you mean order or mode?" in found[2]


def test_names_that_are_not_there_or_there_twice() -> None:
    found = mistakes(
        alternatives={"day": DAY, "night": {}},
        rollout=[{"use": "nigth"}],
        windows=[window(), window(use="dya"), window(name="other")],
        shadow=["day", "day", "x"],
    )
    assert found == [
        "policies.rollout[0].use: unknown alternative 'nigth'; did you mean night? known: day, night",
        "policies.windows[1].use: unknown alternative 'dya'; did you mean day? known: day, night",
        "policies.shadow[2]: unknown alternative 'x'; known: day, night",
        "policies.windows[1].name: another window is called 'day' too; choose another name",
        "policies.shadow[1]: 'day' is there twice; keep one",
    ]
    assert "must have five fields" in mistakes(alternatives={"day": DAY}, windows=[window(cron="0 8 * *")])[0]
    assert mistakes(alternatives={"a b": {}})[0].startswith("policies.alternatives.a b")


def test_an_alternative_has_none_of_its_own() -> None:
    assert mistakes(alternatives={"day": {"alternatives": {}}})[0].startswith(
        "policies.alternatives.day.alternatives: unknown setting"
    )


def test_a_roll_out_takes_a_steady_part_of_the_applications() -> None:
    def taken(percent: float) -> set[int]:
        policies = load(alternatives={"day": DAY}, rollout=[{"queue": "batch", "percent": percent, "use": "day"}])
        assert kind(policies, ask(1, "root.other")) == "Q"
        return {n for n in range(400) if kind(policies, ask(n)) == "G"}

    assert 70 < len(taken(25)) < 130
    assert taken(0) == set() < taken(25) < taken(60) < taken(100) == set(range(400))


def test_a_window_changes_applications_of_its_queues_and_nodes_only_when_it_is_of_all() -> None:
    policies = load(
        order={"policy": "fifo"},
        alternatives={"day": {**DAY, "order": {"policy": "job_submission"}}},
        windows=[window(queue="batch"), window("all")],
    )
    waiting = ContainerView("c", "a", Kind.QUEUEABLE, Resources(), arrived_s=7, job_submitted_s=3)
    of_batch, of_all = policies.at(Hours(("day",))), policies.at(Hours(("all",)))
    assert (kind(of_batch, ask()), kind(of_batch, ask(queue="root.x")), kind(of_all, ask(queue="root.x"))) == tuple(
        "GQG"
    )
    assert (
        of_batch.node.order_key(waiting, 9) == policies.node.order_key(waiting, 9) != of_all.node.order_key(waiting, 9)
    )
    assert policies.at(Hours()) is policies
    assert of_all.version == f"{policies.version}+all"


def test_ahead_of_a_window_nothing_begins_that_it_would_not_allow() -> None:
    policies = load(alternatives={"day": DAY}, windows=[window(drain_s=600)])
    coming = policies.at(Hours((), (Coming("day", True, 1000.0, ("day",)),)))
    assert kind(coming, ask(expected_s=99), 900) == "Q"
    assert kind(coming, ask(expected_s=101), 900) == "G"
    why = choose(coming, ask(expected_s=101), QueueView("root.batch"), Random(1), 900).reason
    assert why.startswith("window day begins in 100 s and would not allow it: rule 1 (everything): only_g")
    stop = load(alternatives={"day": {"mode": "bypass"}}, windows=[window()])
    assert kind(stop.at(Hours((), (Coming("day", True, 1000.0, ("day",)),))), ask(expected_s=200), 900) == "G"


def test_ahead_of_its_end_likewise() -> None:
    policies = Policies.load(
        {"queues": "*", "alternatives": {"day": ONLY_Q}, "windows": [window(drain_s=600)]}, REGISTRY
    )
    ending = policies.at(Hours(("day",), (Coming("day", False, 1000.0, ()),)))
    assert (kind(ending, ask(expected_s=50), 900), kind(ending, ask(expected_s=200), 900)) == ("Q", "G")


WINDOWS = [Window.model_validate(window("day", drain_s=100)), Window.model_validate(window("night", drain_s=0))]


def test_hours_of_given_spans() -> None:
    spans = {"day": WindowSpan(1000, 2000), "night": WindowSpan(1500, 3000)}
    assert hours(WINDOWS, spans, 800) == Hours()
    assert hours(WINDOWS, spans, 950) == Hours((), (Coming("day", True, 1000, ("day",)),))
    assert hours(WINDOWS, spans, 1000) == Hours(("day",))
    assert hours(WINDOWS, spans, 1950) == Hours(("day", "night"), (Coming("day", False, 2000, ("night",)),))
    assert [next_change_s(WINDOWS, spans, now) for now in (0, 900, 1000, 1500, 2999)] == [900, 1000, 1500, 1900, 3000]
    assert next_change_s(WINDOWS, spans, 3000) == float("inf")


@given(
    spans=st.fixed_dictionaries(
        {
            name: st.builds(lambda b, n: WindowSpan(b, b + n), st.integers(0, 5000), st.integers(1, 3000))
            for name in ("day", "night")
        }
    ),
    times=st.tuples(st.integers(0, 9000), st.integers(0, 9000)).map(sorted),
)
def test_hours_change_only_when_it_was_said(spans: dict[str, WindowSpan], times: list[int]) -> None:
    first, second = times
    if second < next_change_s(WINDOWS, spans, first):
        assert hours(WINDOWS, spans, first) == hours(WINDOWS, spans, second)


def test_versions_tell_settings_apart() -> None:
    one, same = load(alternatives={"day": DAY}), load(alternatives={"day": DAY})
    assert one.version == same.version and one.version.startswith("1-")
    assert one.numbered(2).version.startswith("2-") and one.version.startswith("1-")
    others = [load(), load(alternatives={"day": {}}), load(alternatives={"day": DAY}, place={"policy": "random"})]
    assert len({policies.digest for policies in (one, *others)}) == 4


def test_a_slot_can_be_kept_from_other_policies() -> None:
    old = load(preempt={"policy": "las"})
    new = load(
        preempt={"policy": "none"}, alternatives={"day": {"preempt": {"policy": "kill_newest"}}}, windows=[window()]
    )
    assert new.digest
    kept = new.keeping("preempt", old)
    assert kept.policy_name("preempt") == kept.alternatives["day"].policy_name("preempt") == "las"
    assert kept.at(Hours(("day",))).node.shrinking() is not None
    assert new.policy_name("preempt") == "none" and kept.digest != new.digest


def test_unused_alternatives_are_noted() -> None:
    policies = load(alternatives={"a": {}, "b": {}, "c": {}}, shadow=["a"], rollout=[{"use": "b"}])
    assert notes(policies) == ["alternative c is used nowhere"]
    assert set(PoliciesSection.model_fields) >= {"alternatives", "rollout", "windows", "shadow"}
