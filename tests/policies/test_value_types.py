"""Value types: as frozen dataclasses, but cheap."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError, dataclass, field
from inspect import signature

import pytest

from policies.model import AppView, Ask, NodeView, QueueView, Resources
from policies.value_types import changer, replace, value_type


@dataclass(frozen=True, slots=True)
class Plain:
    """A dataclass as it comes."""

    name: str
    size: int = 1
    parts: list[int] = field(default_factory=list)


@value_type
@dataclass(frozen=True, slots=True)
class Quick:
    """The same as a value type."""

    name: str
    size: int = 1
    parts: list[int] = field(default_factory=list)

    @property
    def whole(self) -> str:
        """Return name and size."""
        return f"{self.name}{self.size}"


def test_it_is_made_as_a_dataclass_is() -> None:
    for arguments, named in ((("a",), {}), (("a", 2), {}), ((), {"name": "a", "parts": [3]}), (("a", 2, [3]), {})):
        assert dataclasses.asdict(Quick(*arguments, **named)) == dataclasses.asdict(Plain(*arguments, **named))
    assert Quick("a").parts is not Quick("a").parts and Quick("a", 2).whole == "a2"
    assert repr(Quick("a")) == "Quick(name='a', size=1, parts=[])"
    assert list(signature(Quick).parameters) == ["name", "size", "parts"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        Quick("a", sise=2)  # type: ignore[call-arg]


def test_it_is_frozen_and_compared_by_its_fields() -> None:
    size = Resources(1024, 2)
    with pytest.raises(FrozenInstanceError):
        size.memory_mb = 1  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        size.gpus = 1  # type: ignore[attr-defined]
    assert size == Resources(1024, 2.0) and size != Resources(1024, 1) and size != (1024, 2)
    assert {size: "a"}[Resources(1024, 2)] == "a"
    assert type(size) is Resources and size + size - size == size and hash(size) == hash((1024, 2))


@pytest.mark.parametrize("change", [replace, dataclasses.replace])
def test_a_replaced_one_differs_in_the_given_fields_alone(change: Callable[..., Quick]) -> None:
    before = Quick("a", 2, [3])
    after = change(before, size=5)
    assert (after.name, after.size, after.whole) == ("a", 5, "a5") and after.parts is before.parts
    assert before.size == 2 and type(after) is Quick
    with pytest.raises(FrozenInstanceError):
        after.size = 6  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        change(before, sise=5)


def test_other_dataclasses_are_replaced_too() -> None:
    assert replace(Plain("a"), size=2) == Plain("a", 2)


@pytest.mark.parametrize("copied", [copy, deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_it_can_be_copied_and_pickled(copied: Callable[[object], object]) -> None:
    app = AppView("a", tags=frozenset({"t"}))
    for value in (app, Ask(app, 1, Resources(1, 1)), NodeView("n:1", limit_q=Resources()), QueueView("root.q")):
        assert copied(value) == value and type(copied(value)) is type(value)


def test_classes_that_do_more_when_they_are_made_are_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        size: int

        def __post_init__(self) -> None:
            raise AssertionError("never made")

    for refused in (Checked, type("Loose", (), {})):
        with pytest.raises(TypeError):
            value_type(refused)


def test_a_changer_sets_its_fields_in_order_and_keeps_all_others() -> None:
    change, before = changer(Quick, "parts", "name"), Quick("a", 2, [3])
    after = change(before, [4], "b")
    assert (after, before) == (Quick("b", 2, [4]), Quick("a", 2, [3])) and type(after) is Quick
    with pytest.raises(FrozenInstanceError):
        after.name = "c"  # type: ignore[misc]
    assert replace(after, name="c") == Quick("c", 2, [4]) and replace(after, name="d").name == "d"
