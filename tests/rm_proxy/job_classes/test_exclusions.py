"""Names on the ResourceManager's blacklist of an application that its master never sees."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.job_classes.exclusions import Exclusions

AB = frozenset({"a", "b"})


def request(add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> y.AllocateRequestProto:
    made = y.AllocateRequestProto()
    made.blacklist_request.blacklist_additions.extend(add)
    made.blacklist_request.blacklist_removals.extend(remove)
    return made


def lists(sent: y.AllocateRequestProto) -> tuple[list[str], list[str]]:
    listed = sent.blacklist_request
    return list(listed.blacklist_additions), list(listed.blacklist_removals)


def test_hosts_are_added_once_and_removed_once() -> None:
    ours, sent = Exclusions(), request()
    assert ours.rewrite(sent, AB, frozenset())
    assert lists(sent) == (["a", "b"], [])
    ours.answered()
    assert not ours.due(AB) and not ours.rewrite(request(), AB, frozenset())
    sent = request()
    assert ours.due(frozenset("b")) and ours.rewrite(sent, frozenset("b"), frozenset())
    assert lists(sent) == ([], ["a"])
    ours.answered()
    assert ours.maybe == {"b"}


def test_what_was_not_answered_goes_out_again() -> None:
    ours = Exclusions()
    ours.rewrite(request(), AB, frozenset())
    ours.refused()
    sent = request()
    assert ours.due(AB) and ours.rewrite(sent, AB, frozenset())
    assert lists(sent) == (["a", "b"], [])
    sent = request()
    assert ours.rewrite(sent, frozenset(), frozenset()), "it may have them"
    assert lists(sent) == ([], ["a", "b"])


def test_the_masters_own_list_stays_its_own() -> None:
    ours, sent = Exclusions(), request(add=("a",))
    ours.rewrite(sent, AB, frozenset("a"))
    assert lists(sent) == (["a", "b"], [])
    ours.answered()
    sent = request(remove=("a", "z"))
    assert ours.rewrite(sent, AB, frozenset()), "it does not want a off any more, and we do"
    assert lists(sent) == ([], ["z"])
    ours.answered()
    sent = request(add=("b",))
    ours.rewrite(sent, frozenset(), frozenset("b"))
    assert lists(sent) == (["b"], ["a"]), "it wants b off itself"


def test_a_successor_removes_what_its_predecessor_sent() -> None:
    ours, sent = Exclusions(), request()
    ours.restore(["a", "b"])
    assert ours.due(frozenset())
    ours.rewrite(sent, frozenset("b"), frozenset())
    assert lists(sent) == (["b"], ["a"])


HOSTS = st.frozensets(st.sampled_from("abcd"))
STEPS = st.lists(
    st.tuples(HOSTS, HOSTS, HOSTS, st.sampled_from(["answered", "lost", "handled, answer lost"])), max_size=12
)


@given(STEPS)
def test_the_resourcemanager_has_what_both_want(
    steps: list[tuple[frozenset[str], frozenset[str], frozenset[str], str]],
) -> None:
    """Whatever gets lost: after an answer its blacklist is the master's own and ours together."""
    ours, at_rm, own = Exclusions(), set[str](), frozenset[str]()
    for add, remove, wanted, fate in steps:
        own = (own | add) - (remove - add)
        gone = frozenset("abcd") - own
        sent = request(tuple(sorted(own)), tuple(sorted(gone)))  # a master that says all of its own each time
        ours.rewrite(sent, wanted, own)
        end: Callable[[], None] = ours.answered if fate == "answered" else ours.refused
        if fate != "lost":
            additions, removals = lists(sent)
            at_rm = (at_rm | set(additions)) - set(removals)
        end()
        if fate == "answered":
            assert at_rm == own | wanted
