"""Presets: each is right, single settings lie over it, and mistakes name the place where the admin wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, get_args

import pytest

from policies.config.notes import notes
from policies.config.policy_set import Policies
from policies.config.presets import NAMES, PRESETS, PresetName, laid_over
from policies.config.registry import Registry
from policies.errors import SettingsMistakesError
from policies.model import AppView, Ask, Kind, Resources

REGISTRY = Registry()


def load(section: Mapping[str, Any]) -> Policies:
    return Policies.load(section, REGISTRY, ("policies",))


def kind(policies: Policies, app_type: str, name: str = "") -> Kind:
    app = AppView("application_1_1", "root.any", "ann", app_type, name)
    return policies.route(Ask(app, 20, Resources(1024, 1)), Random(1)).kind


def test_every_preset_is_right_and_says_what_it_is_good_and_bad_for() -> None:
    assert tuple(PRESETS) == NAMES == get_args(PresetName)
    for name, preset in PRESETS.items():
        policies = load({"preset": name})
        assert not notes(policies)
        assert policies.section.preset == name
        assert preset.doc.endswith(".") and preset.good_for and preset.bad_for
        for slot, choice in preset.section.items():
            if isinstance(choice, Mapping):
                assert policies.policy_name(slot) == choice["policy"]


TYPES = ("MAPREDUCE", "TEZ", "YARN", "SPARK", "Apache Flink", "yarn-service", "org-apache-slider", "TENSORFLOW", "own")


@pytest.mark.parametrize("preset", ["default", "mixed"])
def test_queueable_is_what_was_measured_and_nothing_else(preset: str) -> None:
    policies = load({"preset": preset})
    kinds = {app_type: kind(policies, app_type) for app_type in TYPES}
    assert [app_type for app_type, k in kinds.items() if k is Kind.QUEUEABLE] == ["MAPREDUCE"]
    assert kind(policies, "YARN", "DistributedShell of ann") is Kind.QUEUEABLE
    assert policies.node.shrinking() is not None


def test_stock_queues_nothing_and_without_a_preset_nothing_changes() -> None:
    assert kind(load({"preset": "stock"}), "MAPREDUCE") is Kind.GUARANTEED
    raw = {"queues": "*", "place": {"settings": {}}}
    assert laid_over(raw) == raw
    assert kind(load({}), "MAPREDUCE") is Kind.GUARANTEED


def test_single_settings_lie_over_a_preset() -> None:
    policies = load(
        {
            "preset": "kairos",
            "queues": ["root.a"],
            "preempt": {"settings": {"quantum_s": 5}},
            "place": {"policy": "topk_wait", "settings": {"k": 7}},
            "order": {"policy": "fifo"},
            "quota": [{"policy": "absolute"}],
        }
    )
    shown = policies.describe()
    assert shown["queues"] == ["root.a"]
    assert shown["preempt"]["policy"] == "las"
    assert {name: shown["preempt"]["settings"][name] for name in ("quantum_s", "extra")} == {"quantum_s": 5, "extra": 4}
    assert (shown["place"]["policy"], shown["place"]["settings"]["k"]) == ("topk_wait", 7)
    assert policies.policy_name("quota") == "absolute" and policies.policy_name("shed") == "none"


def test_another_policy_takes_none_of_the_presets_settings() -> None:
    assert laid_over({"preset": "kairos", "preempt": {"policy": "freeze"}})["preempt"] == {"policy": "freeze"}
    same = {"policy": "las", "settings": {"extra": 2}}
    assert laid_over({"preset": "default", "preempt": same})["preempt"]["settings"] == {
        "extra": 2,
        "quantum_s": 10,
        "by_job": True,
    }


def test_an_alternative_that_names_a_preset_lies_over_that_alone() -> None:
    policies = load(
        {
            "preset": "default",
            "alternatives": {
                "old": {"preset": "mercury", "shed": {"policy": "none"}},
                "wide": {"order": {"policy": "hrrn"}},
            },
            "shadow": ["old", "wide"],
        }
    )
    old, wide = policies.alternatives["old"], policies.alternatives["wide"]
    assert [old.policy_name(slot) for slot in ("place", "shed", "preempt", "quota")] == [
        "topk_wait",
        "none",
        "kill_newest",
        "none",
    ]
    assert [wide.policy_name(slot) for slot in ("place", "order", "quota")] == [
        policies.policy_name("place"),
        "hrrn",
        "queue_share",
    ]


@pytest.mark.parametrize(
    ("section", "mistake"),
    [
        (
            {"preset": "mercurry"},
            "policies.preset: must be default, mixed, mercury, kairos, hawk, eagle, apollo, zoe, opportunistic or ",
        ),
        ({"preset": 5}, "policies.preset: must be default"),
        (
            {"preset": "mercury", "place": {"settings": {"kk": 1}}},
            "policies.place.settings.kk: unknown setting; did you",
        ),
        ({"preset": "mercury", "place": {"settings": []}}, "policies.place.settings: must be a mapping"),
        ({"preset": "mercury", "place": None}, "policies.place: must be a mapping"),
        (
            {"alternatives": {"a": {"preset": "kairos", "preempt": {"settings": {"extra": -1}}}}, "shadow": ["a"]},
            "policies.alternatives.a.preempt.settings.extra: must be >= 0, got -1",
        ),
        ({"alternatives": {"a": {"preset": "no"}}, "shadow": ["a"]}, "policies.alternatives.a.preset: must be default"),
    ],
)
def test_mistakes_name_their_place(section: dict[str, Any], mistake: str) -> None:
    with pytest.raises(SettingsMistakesError) as error:
        load(section)
    (found,) = error.value.mistakes
    assert str(found).startswith(mistake)
