"""Finding policies: every way in which a name may be wrong has an error that says what and what to do."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from policies.base import SLOTS, NoSettings, Policy
from policies.config.registry import PARAMETERS, Registry, doc_of
from policies.errors import AmbiguousPolicyError, BrokenPolicyError, SettingsMistakesError, UnknownPolicyError
from policies.settings_model import descriptions
from tests.paths import ROOT


class SomeDist:
    version = "2.0"

    def __init__(self, name: str) -> None:
        self.name = name


def offered(slot: str, name: str, value: str, package: str = "acme") -> EntryPoint:
    entry = EntryPoint(name, value, f"quicksilver.{slot}")
    vars(entry)["dist"] = SomeDist(package)
    return entry


@pytest.fixture
def acme() -> Iterator[ModuleType]:
    module = ModuleType("acme_policies")
    module.NOT_A_POLICY = 7  # type: ignore[attr-defined]
    module.ORDER = Policy("mine", NoSettings, lambda waiting, cfg, now_s: (0.0,))  # type: ignore[attr-defined]
    module.NO_CONFIG = Policy("mine", dict, lambda ask, cfg, rng: None)  # type: ignore[attr-defined, arg-type]
    module.NO_FUNCTION = Policy("mine", NoSettings, "route")  # type: ignore[attr-defined, arg-type]
    sys.modules["acme_policies"] = module
    yield module
    del sys.modules["acme_policies"]


def test_all_of_ours_load_and_are_documented() -> None:
    registry = Registry()
    found = {(slot, name) for slot in SLOTS for name in registry.names(slot)}
    files = {(slot, path.stem) for slot in SLOTS for path in (ROOT / "policies" / slot).glob("[!_]*.py")}
    assert files == found
    for slot, name in found:
        policy = registry.get(slot, name)
        assert policy.name == name
        assert len(doc_of(policy)) > 20
        assert all(descriptions(policy.config).values())


def test_parameters_of_slots() -> None:
    assert PARAMETERS["route"] == ("ask", "cfg", "rng")
    assert PARAMETERS["place"] == ("ask", "nodes", "cfg", "rng")
    assert set(PARAMETERS) == set(SLOTS)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownPolicyError) as caught:
        Registry().get("place", "topk")
    assert str(caught.value) == (
        "unknown place policy 'topk'; did you mean topk_wait? "
        "known: completion_time, late, least_queue, random, topk_wait, variance"
    )


def test_name_of_another_slot_is_told() -> None:
    with pytest.raises(UnknownPolicyError, match=r"'fifo' is a policy for dispatch and order"):
        Registry().get("route", "fifo")


def test_unknown_slot() -> None:
    with pytest.raises(UnknownPolicyError, match=r"unknown slot 'plac'; did you mean place or police\?"):
        Registry().get("plac", "random")


def test_package_that_does_not_import_is_named_and_disturbs_nobody_else() -> None:
    ours = [offer.entry for slot in SLOTS for offer in Registry().offers(slot)]
    registry = Registry([*ours, offered("route", "mine", "acme_is_not_there:POLICY")])
    assert registry.get("route", "only_g").name == "only_g"
    with pytest.raises(BrokenPolicyError) as caught:
        registry.get("route", "mine")
    assert "package acme 2.0" in str(caught.value)
    assert "No module named 'acme_is_not_there'" in str(caught.value)


@pytest.mark.parametrize(
    ("attribute", "says"),
    [
        ("ABSENT", "cannot be imported: AttributeError"),
        ("NOT_A_POLICY", "is a int, not a policies.base.Policy; name the POLICY object"),
        ("ORDER", "takes (waiting, cfg, now_s), but route takes (ask, cfg, rng); it fits the group quicksilver.order"),
        ("NO_CONFIG", "not a subclass of policies.base.PolicyConfig"),
        ("NO_FUNCTION", "its decide is a str, not a function"),
    ],
)
def test_object_that_does_not_fit(acme: ModuleType, attribute: str, says: str) -> None:
    registry = Registry([offered("route", "mine", f"acme_policies:{attribute}")])
    with pytest.raises(BrokenPolicyError) as caught:
        registry.get("route", "mine")
    assert says in str(caught.value)
    assert "route policy 'mine' of package acme 2.0" in str(caught.value)


def test_names_must_agree(acme: ModuleType) -> None:
    with pytest.raises(BrokenPolicyError, match="calls itself 'mine'"):
        Registry([offered("order", "yours", "acme_policies:ORDER")]).get("order", "yours")


def test_two_packages_with_one_name_are_both_named(acme: ModuleType) -> None:
    first = offered("order", "mine", "acme_policies:ORDER")
    second = offered("order", "mine", "other_policies:POLICY", "other")
    registry = Registry([first, second])
    with pytest.raises(AmbiguousPolicyError) as caught:
        registry.get("order", "mine")
    assert str(caught.value) == (
        "order policy 'mine' is offered by acme 2.0 (acme_policies:ORDER) and other 2.0 (other_policies:POLICY); "
        "uninstall one of them"
    )
    assert Registry([first, first]).get("order", "mine") is acme.ORDER


def test_settings_are_checked_when_bound() -> None:
    registry = Registry()
    bound = registry.bind("place", "topk_wait", {"k": 7})
    assert bound.cfg.model_dump()["k"] == 7
    with pytest.raises(SettingsMistakesError) as caught:
        registry.bind("place", "topk_wait", {"k": "7", "rack_wait": 1})
    assert [str(mistake) for mistake in caught.value.mistakes] == [
        "k: must be a whole number, got '7' (topk_wait: nodes to draw from, 1..)",
        "rack_wait: unknown setting; known: k, max_ratio, locality_wait_s",
    ]
    with pytest.raises(SettingsMistakesError, match="must be a mapping"):
        registry.bind("place", "topk_wait", [7])
