"""The `policies:` section: rules, modes and hints; every mistake named; faults of policies named too."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.base import NoSettings
from policies.config.binding import CHOICES
from policies.config.notes import notes
from policies.config.policy_set import Policies
from policies.config.registry import BoundPolicy, Registry
from policies.config.schema import PoliciesSection, full_queue, queue_test
from policies.decisions.quotas import exceeded_quota
from policies.errors import PolicyFaultError, SettingsMistakesError
from policies.model import AppView, Ask, ContainerView, Kind, NodeView, Placement, QueueView, Resources, Route

REGISTRY = Registry()


def load(**data: Any) -> Policies:
    return Policies.load(data, REGISTRY)


def mistakes(**data: Any) -> list[str]:
    with pytest.raises(SettingsMistakesError) as caught:
        Policies.load(data, REGISTRY, ("policies",))
    return [str(mistake) for mistake in caught.value.mistakes]


def ask(priority: int = 20, retries: int = 0, label: str = "", **app: Any) -> Ask:
    view = AppView(**({"id": "application_1_1", "queue": "root.batch", "type": "MAPREDUCE"} | app))
    return Ask(view, priority, Resources(1024, 1), retries=retries, label=label, expected_s=1)


def kinds(policies: Policies, *asks: Ask) -> str:
    return "".join(policies.route(one, Random(1)).kind.value for one in asks)


def rule(**match: Any) -> Policies:
    return load(queues="*", routes=[{"match": match, "policy": "only_q"}])


def test_without_settings_nothing_is_queueable() -> None:
    for data in (None, {}):
        route = Policies.load(data, REGISTRY).route(ask(), Random(1))
        assert route == Route(Kind.GUARANTEED, "queue root.batch is not listed in policies.queues")


def test_first_matching_rule_decides_and_is_named() -> None:
    policies = load(
        queues=["batch"],
        routes=[
            {"match": {"priority": 5}, "policy": "only_g"},
            {"match": {"type": "MAPREDUCE", "priority": [10, 20]}, "policy": "only_q"},
        ],
    )
    assert policies.route(ask(5), Random(1)).reason == "rule 1 (priority 5): only_g: everything is guaranteed"
    taken = policies.route(ask(20), Random(1))
    assert taken == Route(Kind.QUEUEABLE, "rule 2 (type MAPREDUCE, priority 10|20): only_q: everything is queueable")
    assert policies.route(ask(30), Random(1)).reason == "no rule of policies.routes matches"


def test_a_task_that_was_shed_too_often_goes_guaranteed() -> None:
    policies = load(queues="*", routes=[{"policy": "only_q"}], retries_to_g=3)
    assert kinds(policies, ask(retries=3), ask(retries=4)) == "QG"
    assert "4 times, more than 3" in policies.route(ask(retries=4), Random(1)).reason


@pytest.mark.parametrize(
    ("match", "fits", "fits_not"),
    [
        ({"queue": "batch"}, {"queue": "batch"}, {"queue": "root.batches"}),
        ({"queue": "root.batch"}, {"queue": "root.batch.etl"}, {"queue": "root.prod.batch"}),
        ({"queue": ["a*", "root.b"]}, {"queue": "root.abc"}, {"queue": "root.c"}),
        ({"user": "svc-*"}, {"user": "svc-etl"}, {"user": "ann"}),
        ({"type": "mapreduce"}, {"type": "MAPREDUCE"}, {"type": "SPARK"}),
        ({"name": "etl-*"}, {"name": "etl-7"}, {"name": "ETL-7"}),
        ({"tag": "quick"}, {"tags": frozenset({"x", "quick"})}, {"tags": frozenset({"slow"})}),
        ({"tag": ["a", "b"], "user": "ann"}, {"tags": frozenset("b"), "user": "ann"}, {"tags": frozenset("b")}),
        ({"priority": {"min": 10}}, {"priority": 20}, {"priority": 5}),
        ({"priority": {"min": 10, "max": 19}}, {"priority": 10}, {"priority": 20}),
        ({"priority": [5, 20]}, {"priority": 20}, {"priority": 10}),
        ({"priority": 0}, {"priority": 0}, {"priority": 1}),
        ({"progress": {"min": 0.8}}, {"progress": 0.8}, {"progress": 0.79}),
        (
            {"progress": {"max": 0.5}, "user": "ann"},
            {"progress": 0.5, "user": "ann"},
            {"progress": 0.51, "user": "ann"},
        ),
    ],
)
def test_matches(match: dict[str, Any], fits: dict[str, Any], fits_not: dict[str, Any]) -> None:
    assert kinds(rule(**match), ask(**fits), ask(**fits_not)) == "QG"


def test_progress_is_for_routes_alone() -> None:
    (hint,) = mistakes(estimate={"rules": [{"match": {"progress": {"min": 0.5}}, "expected_s": 5}]})
    assert "estimate.rules[0].match" in hint and "progress is for routes" in hint
    (range_,) = mistakes(routes=[{"match": {"progress": {"min": 50}}, "policy": "only_q"}])
    assert "routes[0].match.progress.min: must be <= 1" in range_


def test_queue_names() -> None:
    assert full_queue("batch") == full_queue("root.batch") == "root.batch"
    assert full_queue("") == "root.default"
    assert full_queue("root") == "root"
    assert full_queue("etl", ["root.prod.etl", "root.batch"]) == "root.prod.etl"
    assert full_queue("etl", ["root.prod.etl", "root.dev.etl"]) == "root.etl"
    assert not queue_test([])("root.batch")
    assert queue_test(["root"])("batch") and queue_test(["*"])("batch")
    assert load(queues=["root.batch"]).listed("batch")


def test_modes_by_queue_and_percent() -> None:
    policies = load(
        mode="active", modes=[{"queue": "x", "mode": "bypass"}, {"queue": "y", "mode": "shadow", "percent": 50}]
    )
    apps = [f"application_1700000000000_{number:04}" for number in range(1000)]
    assert policies.mode(AppView("a", queue="root.x")) == "bypass"
    assert policies.mode(AppView("a", queue="root.z")) == "active"
    in_y = [policies.mode(AppView(app, queue="y")) for app in apps]
    assert 430 < in_y.count("shadow") < 570
    assert in_y == [policies.mode(AppView(app, queue="root.y")) for app in apps]
    more = load(modes=[{"queue": "y", "mode": "shadow", "percent": 60}])
    assert all(
        more.mode(AppView(app, queue="y")) == "shadow" for app, was in zip(apps, in_y, strict=True) if was == "shadow"
    )
    for percent, expected in ((0, "active"), (100, "shadow")):
        all_of = load(modes=[{"mode": "shadow", "percent": percent}])
        assert {all_of.mode(AppView(app)) for app in apps} == {expected}


def test_expected_durations() -> None:
    hints = [{"match": {"priority": 10}, "expected_s": 90}, {"match": {"tag": "quick"}, "expected_s": 2}]
    policies = load(estimate={"default_s": 12, "rules": hints})
    assert policies.ruled_s(AppView("a"), 10) == 90
    assert policies.ruled_s(AppView("a", tags=frozenset({"quick"})), 20) == 2
    assert policies.ruled_s(AppView("a"), 20) is None and policies.estimate(AppView("a")).default_s == 12


def test_labels_of_the_queue() -> None:
    policies = load(quota={"policy": "none"})
    assert exceeded_quota(policies, ask(), QueueView("root.batch")) is None
    assert exceeded_quota(policies, ask(label="gpu"), QueueView("root.batch", labels=frozenset({"gpu"}))) is None
    assert exceeded_quota(policies, ask(label="gpu"), QueueView("root.batch", labels=frozenset({"*"}))) is None
    reason = exceeded_quota(policies, ask(label="gpu"), QueueView("root.batch", labels=frozenset({"ssd"})))
    assert reason == "queue root.batch may not use the node label gpu"


def test_defaults_are_bound() -> None:
    policies = load()
    node = NodeView("n:1", "n", capacity=Resources(4096, 4))
    assert policies.place(ask(), [node], Random(1)).node == "n:1"
    running = ContainerView("c", "a", Kind.QUEUEABLE, Resources(1024, 1), started_s=1)
    assert policies.node.victims(Resources(512, 1), [running], 5) == ["c"]
    assert policies.node.order_key(running, 5) == (0, 0, 0.0, 0, 0, 0.0)
    app = AppView("a", type="MAPREDUCE", used_q=Resources(1024, 1))
    assert policies.headroom(Resources(2048, 2), app) == Resources(1024, 1)
    described = policies.describe()
    assert described["place"]["policy"] == "topk_wait"
    assert described["place"]["settings"]["k"] == 50


def test_infinity_is_described_as_settings_write_it() -> None:
    routes = [{"policy": "hybrid_gq", "settings": {"td_s": float("inf")}}]
    [described] = load(queues="*", routes=routes).describe()["routes"]
    assert described["settings"] == {"td_s": ".inf", "pq": 70.0, "unknown": "Q"}
    assert described["match"]["priority"] == {"among": [], "min": None, "max": None}


def test_all_mistakes_at_once() -> None:
    found = mistakes(
        quues=[],
        mode="of",
        routes=[
            {"match": {"usr": "ann", "user": 7, "priority": "high"}, "policy": "only_gg"},
            {"policy": "hybrid_gq", "settings": {"pq": 101, "td": 1}},
            "only_q",
        ],
        place={"policy": "topk_wait", "settings": {"k": True}},
        order={"settings": {}},
        quota="none",
        modes=[{"mode": "shadow", "percent": -1}],
        estimate={"default_s": float("inf"), "rules": [{}]},
        retries_to_g=1.5,
    )
    text = "\n".join(found)
    for expected in (
        "policies.quues: unknown setting; did you mean queues?",
        "policies.mode: must be active, shadow or bypass, got 'of'",
        "policies.routes[0].match.usr: unknown setting; did you mean user?",
        "policies.routes[0].match.user: must be a list ([a, b], or one '- item' a line), got 7 (users, as globs)",
        "policies.routes[0].match.priority: must be a whole number, a list of them, or {min: .., max: ..}, got 'high'",
        "policies.routes[0].policy: unknown route policy 'only_gg'; did you mean only_g",
        "policies.routes[1].settings.pq: must be <= 100, got 101 (hybrid_gq: percent of those tasks",
        "policies.routes[1].settings.td: unknown setting; did you mean td_s? known: td_s, pq",
        "policies.routes[2]: must be a mapping (key: value), got 'only_q'",
        "policies.place.settings.k: must be a whole number, got true (topk_wait: nodes to draw from, 1..)",
        "policies.order.policy: is missing",
        "policies.quota: must be a policy ({policy: NAME}), or a list of them, got 'none'",
        "policies.modes[0].percent: must be >= 0, got -1",
        "policies.estimate.default_s: must be finite, got Infinity",
        "policies.estimate.rules[0].expected_s: is missing",
        "policies.retries_to_g: must be a whole number, got 1.5",
    ):
        assert expected in text
    assert len(found) == 16


def test_notes_on_what_is_hardly_meant() -> None:
    assert notes(load()) == []
    assert notes(load(queues="*")) == ["queues are listed, but routes is empty: every container stays guaranteed"]
    only_routes = load(routes=[{"policy": "only_q"}, {"match": {"user": "a"}, "policy": "only_g"}])
    assert notes(only_routes) == [
        "there are routes, but queues is empty: every container stays guaranteed",
        "routes[1] is never reached: routes[0] matches everything",
    ]
    assert notes(load(queues="*", routes=[{"match": {"user": "a"}, "policy": "only_g"}])) == []


def with_fault(slot: str, decide: Callable[..., Any]) -> Policies:
    bound = BoundPolicy(slot, "odd", "acme 2.0", NoSettings(), decide)
    choices = {at: REGISTRY.bind(at, getattr(PoliciesSection(), at).policy) for at in CHOICES}
    quotas = [REGISTRY.bind("quota", "none")]
    if slot == "route":
        section = PoliciesSection.model_validate({"queues": "*", "routes": [{"policy": "odd"}]})
        return Policies(section, choices, [bound], quotas)
    if slot == "quota":
        return Policies(PoliciesSection(), choices, [], [bound])
    return Policies(PoliciesSection(), choices | {slot: bound}, [], quotas)


def test_a_policy_that_raises_is_named() -> None:
    policies = with_fault("route", lambda ask, cfg, rng: 1 // 0)
    with pytest.raises(PolicyFaultError, match=r"route policy odd of acme 2\.0: ZeroDivisionError"):
        policies.route(ask(), Random(1))


def test_answers_that_a_slot_does_not_allow() -> None:
    with pytest.raises(PolicyFaultError, match=r"route policy odd of acme 2\.0: answered 'Q', a str"):
        with_fault("route", lambda ask, cfg, rng: "Q").route(ask(), Random(1))
    elsewhere = with_fault("place", lambda ask, nodes, cfg, rng: Placement("m:1"))
    with pytest.raises(PolicyFaultError, match="chose node m:1, where the ask may not go"):
        elsewhere.place(ask(), [NodeView("m:1", usable=False)], Random(1))
    guaranteed = ContainerView("g", "a", Kind.GUARANTEED, Resources(1, 1), started_s=1)
    with pytest.raises(PolicyFaultError, match="only running queueable containers may be killed"):
        with_fault("preempt", lambda need, running, cfg, now_s: ["g"]).node.victims(Resources(1, 1), [guaranteed], 2)
    negative = with_fault("headroom", lambda limit, app, cfg: Resources(-1, -1))
    assert negative.headroom(Resources(1, 1), AppView("a")) == Resources(0, 0)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
keys = st.sampled_from(
    [*PoliciesSection.model_fields, "policy", "settings", "match", "k", "user", "percent", "rules", "x"]
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@settings(deadline=None)
@given(st.dictionaries(keys, values, max_size=4))
def test_anything_is_accepted_or_explained(data: dict[str, Any]) -> None:
    try:
        policies = Policies.load(data, REGISTRY)
    except SettingsMistakesError as error:
        assert error.mistakes
        assert all(mistake.path and mistake.text for mistake in error.mistakes)
        return
    assert policies.route(ask(), Random(1)).kind in Kind
