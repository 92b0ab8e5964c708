"""Features are on the way of messages only while their slots have a policy."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from policies.config.policy_set import Policies
from policies.model import JobClass
from rm_proxy.domain.hooks import Hooks
from tests.rm_proxy.yarn_messages import ALL_Q, APP, coordinator

SHADOW = {"alternatives": {"fifo": {"order": {"policy": "fifo"}}}, "shadow": ["fifo"]}
ALWAYS = {"emptied", "rounds"}
"""Steps of notices: they do something only after an admin ordered it."""
ADDS = {
    "zoe": {"kept_off", "reported", "over_share"} | ALWAYS,
    "hawk": {"kept_off", "worked", "watches", "reported"} | ALWAYS,
}


def added(hooks: Hooks) -> set[str]:
    return {field.name for field in fields(Hooks) if getattr(hooks, field.name)}


def test_the_default_preset_adds_nothing_of_its_own() -> None:
    world = coordinator({"preset": "default"})
    assert added(world.hooks) == ALWAYS
    assert world.line is world.central and world.apps is world.inventory and world.placer.prober is None


@pytest.mark.parametrize("preset", ADDS)
def test_a_preset_adds_its_steps_and_takes_them_back(preset: str) -> None:
    world = coordinator({"preset": "default"})
    world.use(Policies.load({"preset": preset}), 1.0)
    assert added(world.hooks) == ADDS[preset]
    assert (world.line is world.features.prober) is (world.apps is world.features.classes) is (preset == "hawk")
    world.use(Policies.load({"preset": "default"}), 2.0)
    assert added(world.hooks) == ALWAYS and world.line is world.central and world.apps is world.inventory


def test_notices_of_kills_are_looked_for_where_they_are_wanted() -> None:
    assert added(coordinator({**ALL_Q, "notice": {"wait_s": 5}}).hooks) == {"reported"} | ALWAYS


def test_alternatives_in_shadow_are_asked() -> None:
    assert added(coordinator({**ALL_Q, **SHADOW}).hooks) == {"routed", "placed", "reported"} | ALWAYS


def test_applications_lose_their_classes_with_the_policy() -> None:
    world = coordinator({"preset": "hawk"})
    world.inventory.apps[APP] = replace(world.inventory.apps[APP], job_class=JobClass.LONG)
    world.use(Policies.load({"preset": "default"}), 1.0)
    assert world.inventory.apps[APP].job_class is JobClass.NONE
