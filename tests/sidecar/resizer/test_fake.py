"""The resizer of other tests: it does what the contract says."""

from __future__ import annotations

import pytest

from sidecar.resizer.base import ContainerUsage, Leader, Resizer, ResizeRefusedError
from tests.sidecar.resizer.fake_resizer import Fake

LEADER = Leader(1, 0.0)


def test_limits_are_kept_and_given_back() -> None:
    fake = Fake()
    resizer: Resizer = fake
    resizer.attach("c", LEADER)
    assert fake.cores == {"c": None}
    resizer.shrink("c", 0.05)
    assert fake.cores == {"c": 0.05}
    resizer.attach("c", LEADER)
    assert fake.cores == {"c": 0.05}
    resizer.freeze("c")
    assert fake.cores == {"c": 0}
    fake.rewritten.add("c")
    assert not resizer.holds("c")
    resizer.reassert("c")
    assert resizer.holds("c")
    resizer.restore("c")
    assert fake.cores == {"c": None}
    fake.used["c"] = ContainerUsage(3.0, 100)
    assert resizer.usage("c") == ContainerUsage(3.0, 100)
    resizer.detach("c")
    resizer.detach("c")
    assert resizer.usage("c") == ContainerUsage(None, None)
    assert fake.calls[:3] == [("attach", "c"), ("shrink", "c"), ("attach", "c")]


def test_refusals_are_used_up_one_by_one() -> None:
    fake = Fake(pauses_only=True)
    fake.attach("c", LEADER)
    fake.refuse("shrink", "c", "busy", "gone")
    with pytest.raises(ResizeRefusedError, match="busy") as caught:
        fake.shrink("c", 1)
    assert not caught.value.gone
    with pytest.raises(ResizeRefusedError) as caught:
        fake.shrink("c", 1)
    assert caught.value.gone
    fake.shrink("c", 1)
    assert fake.cores == {"c": 0}


def test_what_is_not_attached_is_gone() -> None:
    fake = Fake()
    for call in (fake.freeze, fake.restore, fake.reassert):
        with pytest.raises(ResizeRefusedError) as caught:
            call("c")
        assert caught.value.gone
    assert not fake.holds("c")


def test_closing_lets_go_of_everything() -> None:
    fake = Fake()
    fake.attach("a", LEADER)
    fake.attach("b", LEADER)
    fake.close()
    assert fake.cores == {}
