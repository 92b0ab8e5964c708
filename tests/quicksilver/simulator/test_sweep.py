"""What a study runs, from its options."""

from __future__ import annotations

import pytest

from quicksilver.simulator.errors import UnknownSystemError
from quicksilver.simulator.sweep import StudyError, SweepChoice, SweepWish, cases, choice, split, value_of, variants
from tests.quicksilver.simulator.queues import register


@pytest.fixture(autouse=True)
def _systems(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("topk_wait", "topk_wait"),
        ('"10"', "10"),
        ("[1]", [1]),
    ],
)
def test_values(text: str, value: object) -> None:
    assert value_of(text) == value


def test_commas_within_brackets_and_quotes_stay() -> None:
    assert split('1, [2,3],{"a":4,"b":5},"x,]y",z') == ["1", "[2,3]", '{"a":4,"b":5}', '"x,]y"', "z"]


def test_choices() -> None:
    assert choice("place.k=10,20,20,50", "--sweep") == SweepChoice("place.k", (10, 20, 50))
    assert choice("a=1,1.0,true", "--sweep").values == (1, 1.0, True)
    assert choice("a=x,y", "--set", several=False).values == ("x,y",)
    for text in ("a", "=1", "a=", "a=1,,2"):
        with pytest.raises(StudyError, match="--sweep: "):
            choice(text, "--sweep")


def test_sweeps_are_combined_and_each_system_takes_what_it_has() -> None:
    wanted = SweepWish(
        ("queues", "others"),
        (SweepChoice("cutoff_s", (5,)), SweepChoice("others.choices", (4,))),
        (SweepChoice("queues.choices", (1, 2)), SweepChoice("fails_at", (0, 7))),
        cutoff_s=90.0,
    )
    varied = variants(wanted)
    assert [variant.label for variant in varied] == [
        "queues choices=1 fails_at=0",
        "queues choices=1 fails_at=7",
        "queues choices=2 fails_at=0",
        "queues choices=2 fails_at=7",
        "others fails_at=0",
        "others fails_at=7",
    ]
    assert varied[3].settings == {"choices": 2, "cutoff_s": 5.0, "fails_at": 7, "policies": None}
    assert varied[3].varied == {"queues.choices": 2, "fails_at": 7}
    assert varied[4].settings["choices"] == 4
    assert len({variant.key for variant in varied}) == 6
    assert [(case.variant.label, case.seed) for case in cases(varied[:2], (1, 2))][1:3] == [
        ("queues choices=1 fails_at=7", 1),
        ("queues choices=1 fails_at=0", 2),
    ]


def test_the_study_s_cutoff_and_policies_reach_who_takes_them() -> None:
    section = {"place": {"policy": "topk_wait", "settings": {"k": 5}}}
    wanted = SweepWish(("queues",), (), (SweepChoice("place.k", (10, 20)),), section, 90.0)
    varied = variants(wanted)
    assert [variant.settings["cutoff_s"] for variant in varied] == [90.0, 90.0]
    assert varied[1].settings["policies"] == {"place": {"policy": "topk_wait", "settings": {"k": 20}}}
    assert section["place"]["settings"] == {"k": 5}
    (one,) = variants(SweepWish(("queues",), (SweepChoice("place", ("random",)),)))
    assert one.settings["policies"] == {"place": {"policy": "random"}}
    with pytest.raises(StudyError, match=r"queues\.policies\.place\.settings\.k: must be >= 1, got 0"):
        variants(SweepWish(("queues",), (), (SweepChoice("place.k", (0,)),), section))


def test_policies_that_are_the_system_s_own_are_changed_not_replaced() -> None:
    section = {"queues": ["a"], "place": {"policy": "topk_wait"}}
    wanted = SweepWish(("mercury", "opportunistic"), (), (SweepChoice("place.k", (7,)),), section)
    mercury, opportunistic = (variant.settings["policies"] for variant in variants(wanted))
    assert (mercury["queues"], mercury["place"]) == (["a"], {"policy": "topk_wait", "settings": {"k": 7}})
    assert opportunistic["place"] == {"policy": "least_queue", "settings": {"k": 7}}
    assert opportunistic["order"] == {"policy": "fifo"}
    (other,) = variants(
        SweepWish(("opportunistic",), (SweepChoice("place", ("random",)), SweepChoice("route", ("only_g",))))
    )
    assert other.settings["policies"]["place"] == {"policy": "random"}
    assert other.settings["policies"]["routes"] == [{"policy": "only_g"}]


def test_settings_of_a_slot_that_is_not_named_are_those_of_the_default_policy() -> None:
    for_k, for_share = SweepChoice("place.k", (7,)), SweepChoice("quota.factor", (0.5,))
    (one,) = variants(SweepWish(("quicksilver",), (for_k, for_share), policies={"queues": ["*"]}))
    assert one.settings["policies"]["place"] == {"policy": "topk_wait", "settings": {"k": 7}}
    assert one.settings["policies"]["quota"]["policy"] == "queue_share"


def test_equal_settings_are_run_once() -> None:
    assert len(variants(SweepWish(("queues",), (), (SweepChoice("cutoff_s", (5, 5.0)),)))) == 1


def test_mistakes_are_told_before_anything_runs() -> None:
    with pytest.raises(StudyError, match=r"--sweep: queues and others have no setting 'choises'; did you mean choices"):
        variants(SweepWish(("queues", "others"), (), (SweepChoice("choises", (1,)),)))
    with pytest.raises(StudyError, match=r"queues\.choices: must be >= 1, got 0 \(queues to look at, 1\.\.\)"):
        variants(SweepWish(("queues",), (), (SweepChoice("choices", (0,)),)))
    with pytest.raises(StudyError, match=r"--set: queues has no setting 'others\.choices'"):
        variants(SweepWish(("queues",), (SweepChoice("others.choices", (1,)),)))
    with pytest.raises(UnknownSystemError):
        variants(SweepWish(("queue",)))


def test_single_settings_go_to_the_policy_of_the_preset() -> None:
    (one,) = variants(SweepWish(("quicksilver",), (SweepChoice("preempt.quantum_s", (20,)),)))
    assert one.settings["policies"] == {"preset": "default", "preempt": {"settings": {"quantum_s": 20}}}
    assert one.label == "quicksilver preset=default preempt.quantum_s=20"


def test_rows_are_named_after_the_policies_that_run() -> None:
    only_q = {"queues": ["*"], "routes": [{"policy": "only_q"}], "place": {"policy": "late"}}
    systems = ("quicksilver", "kairos", "opportunistic")
    assert [one.label for one in variants(SweepWish(systems))] == [
        "quicksilver preset=default",
        "kairos",
        "opportunistic",
    ]
    found = variants(
        SweepWish(systems, (), (SweepChoice("place", ("late", "random")),), {"preset": "mercury", **only_q})
    )
    assert [one.label for one in found] == [
        "quicksilver preset=mercury route=only_q place=late",
        "quicksilver preset=mercury route=only_q place=random",
        "kairos preset=mercury route=only_q place=late",
        "kairos preset=mercury route=only_q place=random",
        "opportunistic place=late",
        "opportunistic place=random",
    ]


def test_a_base_line_varies_with_the_world_and_not_with_the_policies() -> None:
    swept = (SweepChoice("place.k", (5, 9)), SweepChoice("report_s", (1, 2)))
    found = variants(SweepWish(("yarn_fifo", "quicksilver"), (), swept, {"queues": ["*"]}, base_line=True))
    assert [one.label for one in found] == [
        "quicksilver only_g report_s=1",
        "quicksilver only_g report_s=2",
        "yarn_capacity",
        "yarn_fair",
        "opportunistic report_s=1",
        "opportunistic report_s=2",
        "yarn_fifo",
        *(f"quicksilver  place.k={k} report_s={s}".replace("  ", " ") for k in (5, 9) for s in (1, 2)),
    ]
    assert {one.settings["policies"]["routes"][0]["policy"] for one in found[:2]} == {"only_g"}
    (shipped,) = variants(SweepWish(("opportunistic",)))
    assert [one.settings["policies"] for one in found[4:6]] == [shipped.settings["policies"]] * 2
    named = [one.label for one in variants(SweepWish(("yarn_fair", "quicksilver"), base_line=True))]
    assert named.count("yarn_fair") == 1 and len(named) == 5
