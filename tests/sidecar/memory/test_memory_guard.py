"""When memory runs short: what is held back, who goes, and why."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.memory.memory_guard import (
    Alarm,
    GuardRuled,
    GuardRules,
    HeldMemory,
    Kill,
    Level,
    Memory,
    MemoryGuard,
    Squeeze,
    rules_for,
)
from tests.playbook import play

RULES = GuardRules(reserve_mb=512, last_resort_mb=128, settle_s=3, kill_wait_s=10, stall_wait_s=5, calm_s=5)
LOW = "400 MB of memory free, less than 512 MB"
LAST = "100 MB of memory free, less than 128 MB"


def held(container_id: str, kind: str = "Q", **fields: Any) -> HeldMemory:
    """Return a container of 500 MB that uses 400 MB; queueable ones can be killed."""
    base: dict[str, Any] = {"allocated_mb": 500, "used_mb": 400, "killable": kind == "Q"}
    return HeldMemory(container_id, kind, **(base | fields))


def memory(now_s: float, free_mb: int, *containers: HeldMemory, stall: float | None = None) -> Memory:
    """Return a measurement."""
    return Memory(now_s, free_mb, stall, containers)


def victim(*containers: HeldMemory, free_mb: int = 100) -> Kill | None:
    """Return whom a fresh guard kills at once."""
    kills = [c for c in MemoryGuard(RULES).handle(memory(0, free_mb, *containers)) if isinstance(c, Kill)]
    assert len(kills) <= 1
    return kills[0] if kills else None


def test_squeezed_below_the_reserve_and_until_memory_is_back_for_a_while() -> None:
    guard = MemoryGuard(RULES)
    play(
        guard,
        (memory(0, 600), []),
        (memory(1, 400), [Squeeze(True, LOW)]),
        (memory(2, 300), []),
        (memory(3, 600), []),  # less than 1.25 times the reserve
        (memory(4, 640), []),
        (memory(8, 639), []),  # back to the start
        (memory(9, 700), []),
        (memory(13.9, 700), []),
        (memory(14, 700), [Squeeze(False, "700 MB of memory free again")]),
        (memory(15, 600), []),
    )
    assert (guard.level, guard.why) == (Level.OK, "")


def test_stall_squeezes_only_while_memory_is_low() -> None:
    why = "all stood still for memory 20% of the time, 900 MB free"
    play(
        MemoryGuard(RULES),
        (memory(0, 5000, stall=0.9), []),  # somebody presses against a limit of his own
        (memory(1, 900, stall=0.05), []),
        (memory(2, 900, stall=0.2), [Squeeze(True, why)]),
        (memory(3, 900, stall=0.06), []),  # not quiet yet
        (memory(20, 900, stall=0.05), []),
        (memory(25, 900, stall=0.0), [Squeeze(False, "900 MB of memory free again")]),
    )


def test_plenty_of_memory_ends_a_squeeze_whatever_stalls() -> None:
    play(
        MemoryGuard(RULES),
        (memory(0, 400, stall=0.9), [Squeeze(True, LOW)]),
        (memory(1, 5000, stall=0.9), []),
        (memory(6, 5000, stall=0.9), [Squeeze(False, "5000 MB of memory free again")]),
    )


def test_last_resort_is_one_at_a_time() -> None:
    a, b = held("a", attained_s=5), held("b", attained_s=9)
    guard = MemoryGuard(RULES)
    first = (
        f"last resort, {LAST}: running, with 5.0 s the least attained service of 2 queueable containers that can go; "
        "it holds 400 MB"
    )
    second = (
        f"last resort, {LAST}: running, with 9.0 s the least attained service of 1 queueable containers that can go; "
        "it holds 400 MB"
    )
    play(
        guard,
        (memory(0, 100, a, b), [Squeeze(True, LAST), Kill("a", first)]),
        (memory(1, 100, b), []),  # gone, but its memory may still come back
        (memory(2.9, 100, b), []),
        (memory(3, 100, b), [Kill("b", second)]),
    )
    assert guard.level is Level.CRITICAL
    assert guard.handle(memory(4, 600)) == []
    assert guard.level is Level.SQUEEZED


def test_a_victim_that_stays_holds_up_the_next_for_kill_wait_s() -> None:
    a, b = held("a", attained_s=5), held("b", attained_s=9)
    guard = MemoryGuard(RULES)
    assert [type(c) for c in guard.handle(memory(0, 100, a, b))] == [Squeeze, Kill]
    for now_s in range(1, 10):
        assert guard.handle(memory(now_s, 100, a, b)) == []
    [kill] = guard.handle(memory(10, 100, a, b))
    assert isinstance(kill, Kill)
    assert kill.container_id == "b"


def test_stall_kills_only_when_it_lasts_and_the_reserve_is_used() -> None:
    a, b = held("a"), held("b")
    guard = MemoryGuard(RULES)
    why = "all stood still for memory 50% of the time for 5 s, 400 MB free"
    text = f"last resort, {why}: running, with 0.0 s the least attained service of 1 queueable containers that can go"
    play(
        guard,
        (memory(0, 900, a, stall=0.9), [Squeeze(True, "all stood still for memory 90% of the time, 900 MB free")]),
        (memory(9, 900, a, stall=0.9), []),
        (memory(10, 400, a, stall=0.5), []),
        (memory(14, 400, a, stall=0.3), []),  # it let go for a moment
        (memory(15, 400, a, stall=0.5), []),
        (memory(19.9, 400, a, stall=0.5), []),
        (memory(20, 400, a, stall=0.5), [Kill("a", f"{text}; it holds 400 MB")]),
        (memory(21, 400, b, stall=0.5), []),  # a stall after a kill has to last anew
        (memory(25.9, 400, b, stall=0.5), []),
        (memory(26, 400, b, stall=0.5), [Kill("b", f"{text}; it holds 400 MB")]),
    )


def test_who_took_more_than_he_asked_for_goes_first() -> None:
    modest = held("modest", attained_s=0)
    slight = held("slight", used_mb=524, attained_s=0)  # within 5 %
    over = held("over", used_mb=600, attained_s=50)
    most = held("most", used_mb=900, attained_s=5000)
    assert victim(modest, slight, over, most) == Kill(
        "most", f"last resort, {LAST}: it uses 900 MB and asked for 500 MB"
    )
    assert victim(modest, slight, over) == Kill("over", f"last resort, {LAST}: it uses 600 MB and asked for 500 MB")
    assert (kill := victim(held("young", attained_s=1), held("slight", used_mb=524, attained_s=2)))
    assert kill.container_id == "young"


def test_those_who_would_die_in_vain_are_not_counted() -> None:
    assert (kill := victim(held("a"), held("b", used_mb=27), held("c", used_mb=28, attained_s=1)))
    assert kill.why.endswith(
        "with 0.0 s the least attained service of 2 queueable containers that can go; it holds 400 MB"
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"attained_s": 1}, {"attained_s": 2}),
        ({"attained_s": 1, "started_s": 1}, {"attained_s": 2, "started_s": 9}),
        ({"shrunk": True}, {"shrunk": False}),
        ({"shrunk": True, "started_s": 1}, {"shrunk": False, "started_s": 9}),
        ({"started_s": 9}, {"started_s": 1}),
        ({"used_mb": 30, "attained_s": 9}, {"used_mb": 20, "attained_s": 1}),  # 28 MB are short: 20 would die in vain
        ({"used_mb": 20, "attained_s": 1}, {"used_mb": 25, "attained_s": 2}),  # neither is enough
        ({"used_mb": None, "attained_s": 1}, {"attained_s": 2}),
    ],
)
def test_whose_loss_costs_least(first: dict[str, Any], second: dict[str, Any]) -> None:
    for pair in ((held("x", **first), held("y", **second)), (held("y", **second), held("x", **first))):
        assert (kill := victim(*pair))
        assert kill.container_id == "x"


def test_guaranteed_foreign_and_masters_stay_and_it_is_said_loudly() -> None:
    others = (
        held("g", "G", used_mb=3000, killable=True),
        held("o", "O", killable=True),
        held("am", am=True),
        held("q", killable=False),
    )
    why = (
        f"{LAST}, and no queueable container can be killed (2 there): others hold 3400 MB, "
        "which is for YARN's own monitor and the kernel to judge"
    )
    play(
        MemoryGuard(RULES),
        (memory(0, 100, *others), [Squeeze(True, LAST), Alarm(why)]),
        (memory(1, 100, *others), []),
        (memory(60, 100, *others), [Alarm(why)]),
        (memory(61, 200, *others), []),
        (memory(62, 100, *others), [Alarm(why)]),  # a new emergency
    )


def test_clock_that_is_set_back_neither_kills_twice_nor_never() -> None:
    a, b = held("a", attained_s=1), held("b", attained_s=2)
    guard = MemoryGuard(RULES)
    assert [type(c) for c in guard.handle(memory(5000, 100, a, b))] == [Squeeze, Kill]
    assert guard.handle(memory(100, 100, b)) == []
    assert guard.handle(memory(102, 100, b)) == []
    assert [type(c) for c in guard.handle(memory(103, 100, b))] == [Kill]


def test_new_rules_act_with_the_next_measurement() -> None:
    guard = MemoryGuard(RULES)
    play(
        guard,
        (memory(0, 400), [Squeeze(True, LOW)]),
        (GuardRuled(GuardRules(reserve_mb=0, last_resort_mb=0)), []),
        (memory(1, 400), []),
        (memory(6, 400), [Squeeze(False, "400 MB of memory free again")]),
        (memory(7, 0, held("a"), stall=1.0), []),  # off
    )


@pytest.mark.parametrize(
    ("total_mb", "reserve_mb", "last_resort_mb"),
    [(1000, 125, 31), (2048, 256, 64), (24_000, 512, 128), (40_000, 512, 200), (262_144, 512, 256)],
)
def test_rules_fit_the_machine(total_mb: int, reserve_mb: int, last_resort_mb: int) -> None:
    assert rules_for(total_mb, 512) == GuardRules(reserve_mb=reserve_mb, last_resort_mb=last_resort_mb)


def test_rules_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="last_resort_mb 600"):
        GuardRules(reserve_mb=512, last_resort_mb=600)
    with pytest.raises(ValueError, match="last_resort_stall_ratio"):
        GuardRules(squeeze_stall_ratio=0.5)


def test_protected_containers_go_last_but_for_those_above_their_allocation() -> None:
    young = held("young", attained_s=1.0, protected=True)
    killed = victim(young, held("old", attained_s=90.0))
    assert killed is not None and killed.container_id == "old"
    greedy = held("greedy", attained_s=1.0, protected=True, allocated_mb=1000, used_mb=2000)
    killed = victim(greedy, held("old", attained_s=90.0))
    assert killed is not None and killed.container_id == "greedy"
