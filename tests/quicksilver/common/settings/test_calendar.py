"""When windows open: crontab's weekdays, time zones and summer time, begins that prolong, what never comes."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.schema import Window
from policies.config.windows import Coming, Hours
from quicksilver.common.settings.calendar import Calendar, calendar_mistakes

BERLIN = ZoneInfo("Europe/Berlin")


def window(cron: str, length_s: float = 3600, name: str = "w", **more: Any) -> Window:
    return Window.model_validate({"name": name, "cron": cron, "length_s": length_s, "use": "x"} | more)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


def open_at(cron: str, *times: str, length_s: float = 3600) -> str:
    calendar = Calendar([window(cron, length_s)], "Europe/Berlin")
    return "".join("x" if calendar.hours(at(text)).open else "." for text in times)


def test_opens_at_its_begin_and_closes_after_its_length() -> None:
    assert (
        open_at("0 20 * * *", "2026-03-10 19:59:59", "2026-03-10 20:00", "2026-03-10 20:59:59", "2026-03-10 21:00")
        == ".xx."
    )


def test_is_open_when_the_daemon_starts_within_it_and_when_the_clock_is_set_back() -> None:
    assert open_at("0 20 * * *", "2026-03-11 03:00", length_s=8 * 3600) == "x"
    assert open_at("0 20 * * *", "2026-03-10 22:00", "2026-03-10 20:30", "2026-03-10 22:00") == ".x."


@pytest.mark.parametrize(
    ("weekday", "days"),
    [
        ("0", "s......"),
        ("7", "s......"),
        ("1-5", ".mtwtf."),
        ("5-7", "s....fs"),
        ("mon-fri", ".mtwtf."),
        ("1-5/2", ".m.w.f."),
        ("sat,0", "s.....s"),
    ],
)
def test_weekdays_are_those_of_crontab(weekday: str, days: str) -> None:
    sunday_first = [f"2026-03-{8 + day:02} 12:30" for day in range(7)]
    assert open_at(f"0 12 * * {weekday}", *sunday_first) == "".join("." if day == "." else "x" for day in days)


def test_summer_time() -> None:
    assert open_at("0 20 * * *", "2026-03-28 20:00", "2026-03-29 20:00", "2026-03-29 19:59") == "xx."
    assert open_at("30 2 * * *", "2026-03-29 03:45", "2026-03-30 02:45") in ("xx", ".x")


def test_a_begin_within_an_opening_prolongs_it() -> None:
    calendar = Calendar([window("*/30 8-9 * * *", 3600, drain_s=60)], "Europe/Berlin")
    times = [f"2026-03-10 {t}" for t in ("08:00", "09:00", "09:59:30", "10:15", "10:29:30", "10:30")]
    hours = [calendar.hours(at(text)) for text in times]
    assert [bool(h.open) for h in hours] == [True, True, True, True, True, False]
    assert [h.coming for h in hours[:4]] == [()] * 4
    assert hours[4] == Hours(("w",), (Coming("w", False, at("2026-03-10 10:30"), ()),))


@settings(deadline=None)
@given(minutes=st.lists(st.integers(0, 3 * 24 * 60), min_size=1, max_size=30))
def test_what_is_kept_is_what_a_new_calendar_says(minutes: list[int]) -> None:
    windows = [window("*/20 6-22 * * mon-thu", 1500, "a", drain_s=300), window("0 */5 * * *", 7200, "b", drain_s=60)]
    calendar = Calendar(windows, "Europe/Berlin")
    for minute in minutes:
        now_s = at("2026-03-10 00:00") + 60 * minute
        assert calendar.hours(now_s) == Calendar(windows, "Europe/Berlin").hours(now_s)


@pytest.mark.parametrize(
    ("cron", "why"),
    [
        ("0 25 * * *", "is no cron expression: Error validating expression '25'"),
        ("0 0 30 2 *", "is no cron expression: never comes"),
        ("0 0 * * 8", "is no cron expression: 8 is no weekday; 0 to 7, or mon to sun"),
        ("0 0 * * 5-1", "is no cron expression: 5-1 is no weekday"),
        ("x * * * *", "is no cron expression: Unrecognized expression"),
    ],
)
def test_times_that_there_are_not(cron: str, why: str) -> None:
    (mistake,) = calendar_mistakes({"windows": [{"cron": "0 0 * * *"}, {"cron": cron}]}, ("policies",))
    assert mistake.where == "policies.windows[1].cron" and mistake.text.startswith(why)


@pytest.mark.parametrize("zone", ["Europe/Berlni", "../../etc/passwd", "/etc", "Europe"])
def test_unknown_time_zones(zone: str) -> None:
    (mistake,) = calendar_mistakes({"windows": [{"cron": "0 0 * * *"}], "time_zone": zone}, ("policies",))
    assert mistake.where == "policies.time_zone" and "unknown time zone" in mistake.text
