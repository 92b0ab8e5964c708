"""Effects and their intervals; the variants that are compared; the page."""

import click
import pytest

from policies.config.policy_set import Policies
from policies.config.registry import Registry
from quicksilver.report.model import Bars, Prose
from quicksilver.report.stats import effect, interval
from quicksilver_lab.bench.page.pages import page_of
from quicksilver_lab.bench.policies.effects import effects, means
from quicksilver_lab.bench.policies.run import selection
from quicksilver_lab.bench.policies.variants import ALONE, BASE, available


def test_the_interval_is_students() -> None:
    # Student's own sleep data (Biometrika 1908): differences of 10 patients, mean 1.58, interval 0.70 to 2.46.
    mean, low, high = interval([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    assert (mean, low, high) == pytest.approx((1.58, 0.70, 2.46), abs=0.005)


def test_one_run_has_no_interval() -> None:
    with pytest.raises(ValueError, match="use at least two seeds"):
        interval([1.0])


def test_what_is_above_zero_is_a_ratio_of_pairs() -> None:
    assert effect([1, 10, 100], [2, 20, 200]) == {"kind": "ratio", "effect": 2.0, "ci_low": 2.0, "ci_high": 2.0}
    found = effect([10, 10, 10], [5, 20, 10])
    assert found["effect"] == 1.0 and found["ci_low"] < 1 < found["ci_high"]
    assert found["ci_low"] == pytest.approx(1 / found["ci_high"], abs=0.001)


def test_with_zeros_it_is_a_difference() -> None:
    assert effect([0, 0], [3, 3]) == {"kind": "difference", "effect": 3.0, "ci_low": 3.0, "ci_high": 3.0}


def test_kills_are_differences_always() -> None:
    found = effects([{"kills_per_1000": 2.0}] * 2, [{"kills_per_1000": 6.0}] * 2)["kills_per_1000"]
    assert (found["kind"], found["effect"]) == ("difference", 4.0)


def test_a_run_without_partner_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        effect([1.0, 2.0], [1.0])


def test_effects_and_means_are_by_metric() -> None:
    base, other = [{"a": 1.0, "b": 4.0}, {"a": 2.0, "b": 4.0}], [{"a": 2.0, "b": 2.0}, {"a": 4.0, "b": 2.0}]
    assert {name: found["effect"] for name, found in effects(base, other).items()} == {"a": 2.0, "b": 0.5}
    assert means(base) == {"a": 1.5, "b": 4.0}


def test_all_that_is_installed_is_compared_and_loads() -> None:
    variants, absent = available(Registry())
    names = [variant.name for variant in variants]
    assert {"baseline", "place_topk_wait", "mercury", "all", "told_0.9", "estimates_0.9"} <= set(names)
    assert set(names) | set(absent) >= {variant.name for variant in ALONE}
    assert not set(names) & set(absent)
    for variant in variants:
        assert variant.against in names
        Policies.load(variant.policies)


def test_alone_means_one_slot_changed() -> None:
    for variant in ALONE:
        assert [slot for slot in variant.policies if variant.policies[slot] != BASE.get(slot)] == [
            slot for slot, _ in variant.choices()
        ]
        assert len(variant.section) == 1


def test_a_chosen_variant_brings_what_it_is_compared_with() -> None:
    names = [variant.name for variant in selection("estimates_0.6", Registry())[0]]
    assert names == ["told_0.6", "estimates_0.6"]
    with pytest.raises(click.BadParameter, match="nope: not one of baseline"):
        selection("nope", Registry())


def test_both_parts_are_bars_and_sentences() -> None:
    sure = {"kind": "ratio", "effect": 1.1, "ci_low": 1.05, "ci_high": 1.2}
    chance = {"kind": "ratio", "effect": 1.1, "ci_low": 0.9, "ci_high": 1.2}
    part = {"effects": {"place_topk_wait": {"tasks_per_s": sure}, "all": {"tasks_per_s": chance}}}
    nothing = {"effects": {"all": {"tasks_per_s": chance}}}
    page = page_of({"benchmark": "policies", "virtual": part, "real": nothing, "commit": "c"})
    assert page.sections[0].blocks == [
        Prose("Under a virtual clock, task throughput: `place_topk_wait` 1.1 times."),
        Prose("On a real local cluster, task throughput: nothing differs beyond chance."),
    ]
    bars = [plot for plot in page.plots() if isinstance(plot, Bars)]
    assert [(one.labels, one.reference) for one in bars] == [(["place_topk_wait", "all"], 1.0), (["all"], 1.0)]
