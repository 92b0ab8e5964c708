"""How decisions are judged that were made while settings changed."""

from pathlib import Path

import pytest

from policies.config.policy_set import Policies
from quicksilver.common.settings.settings_file import SettingsFileError, parse_settings
from quicksilver_lab.bench.reloads import BROKEN, PLACES, judge, policies


def decision(version: str, td: int, place_version: str = "", place: str = "") -> dict[str, object]:
    return {
        "container_id": "c",
        "version": version,
        "route_reason": f"rule 1 (everything): hybrid_gq: expected 10 s, not above td {td} s, drew 1.0, below pq 60 %",
        "place_version": place_version,
        "place_reason": place,
    }


def test_a_decision_by_other_settings_than_those_of_its_version_is_mixed() -> None:
    versions = {"1-a": 0, "2-b": 1}
    fine = [
        decision("1-a", 3600),
        decision("2-b", 3601, "2-b", "least_queue: off-switch"),
        decision("1-a", 3600, "2-b", "least_queue: x"),
    ]
    assert judge(fine, versions)["mixed_decisions"] == 0 and judge(fine, versions)["checked"] == 5
    mixed = [decision("1-a", 3601), decision("1-a", 3600, "2-b", "topk_wait: x"), decision("9-z", 3600)]
    assert judge(mixed, versions)["mixed_decisions"] == 3


def test_decisions_that_no_policy_made_are_not_checked() -> None:
    assert judge([decision("", 1) | {"route_reason": "the application is not known yet"}], {})["checked"] == 0


def test_valid_files_are_valid_and_differ_and_broken_ones_are_broken() -> None:
    made = [Policies.load(policies(number)) for number in range(4)]
    assert len({one.digest for one in made}) == 4
    assert [one.policy_name("place") for one in made] == [*PLACES, *PLACES]
    for text in BROKEN:
        with pytest.raises(SettingsFileError):
            parse_settings(text, Path("x.yaml")).policies()
