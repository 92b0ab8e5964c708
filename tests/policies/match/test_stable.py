"""Who gets the node that several containers want."""

from policies.base import NoSettings
from policies.match.none import match as none
from policies.match.stable import Stable, match


def test_who_would_lose_most_elsewhere_gets_the_node() -> None:
    easy = [("n1", 10.0), ("n2", 11.0)]
    local = [("n1", 12.0), ("n2", 20.0)]
    assert match([easy, local], Stable()) == ["n2", "n1"]
    assert none([easy, local], NoSettings()) == [None, None]


def test_no_node_twice_and_none_beyond_the_rounds() -> None:
    same = [("n1", 1.0), ("n2", 2.0)]
    assert match([same, same, same], Stable()) == ["n1", "n2", None]
    assert match([same, same], Stable(max_rounds=1)) == ["n1", None]
    assert match([], Stable()) == []
    assert match([[]], Stable()) == [None]
