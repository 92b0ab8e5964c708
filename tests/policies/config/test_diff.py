"""What differs between two settings: each place by itself, lists of other lengths and kinds as a whole."""

from policies.config.diff import Change, changes


def test_each_place_by_itself() -> None:
    before = {"place": {"policy": "topk_wait", "settings": {"k": 50}}, "queues": ["a", "b"], "retries_to_g": 3}
    after = {"place": {"policy": "topk_wait", "settings": {"k": 20}}, "queues": ["a", "c"], "mode": "shadow"}
    assert changes(before, after) == [
        Change("policies.place.settings.k", "50", "20"),
        Change("policies.queues[1]", '"b"', '"c"'),
        Change("policies.retries_to_g", "3", ""),
        Change("policies.mode", "", '"shadow"'),
    ]
    assert changes(before, before) == []


def test_lists_of_other_lengths_and_kinds_change_as_a_whole() -> None:
    assert changes({"q": ["a"]}, {"q": ["a", "b"]}) == [Change("policies.q", '["a"]', '["a", "b"]')]
    assert changes({"q": [["a"]]}, {"q": ["a"]}) == [Change("policies.q[0]", '["a"]', '"a"')]
    assert changes({"q": "ab"}, {"q": ["a", "b"]}) == [Change("policies.q", '"ab"', '["a", "b"]')]
    assert changes({"q": 1}, {"q": True}) == [Change("policies.q", "1", "true")]
