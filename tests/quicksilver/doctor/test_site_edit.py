"""Site files changed as text, and names that are nearly Hadoop's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.defaults import DEFAULTS
from quicksilver.common.hadoop.xml import read_properties
from quicksilver.doctor.site_edit import EMPTY, apply, layout
from quicksilver.doctor.spelling import distance, known_names, nearest

FILE = Path("yarn-site.xml")
NAMES = st.sampled_from(["a.b", "a.c", "x.y.z"])
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12).map(str.strip)
PROPERTIES = st.dictionaries(NAMES, VALUES, max_size=3)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=5), PROPERTIES, st.sets(NAMES))
def test_what_is_put_is_there_and_the_rest_stays(
    parts: list[tuple[str, str]], put: dict[str, str], out: set[str]
) -> None:
    text = EMPTY
    for name, value in parts:
        text = apply(text, {name: value}, (), FILE)
    before = layout(text, FILE).values()
    after = layout(apply(text, put, out, FILE), FILE).values()
    assert after == {n: v for n, v in before.items() if n not in {*out, *put}} | {n: v for n, v in put.items() if v}


@settings(deadline=None)  # a file is written
@given(PROPERTIES)
def test_it_reads_what_hadoops_reader_reads(tmp_path_factory: pytest.TempPathFactory, put: dict[str, str]) -> None:
    file = tmp_path_factory.mktemp("site") / "yarn-site.xml"
    file.write_bytes(apply(EMPTY, put, (), file))
    assert {prop.name: prop.value.strip() for prop in read_properties(file)} == put
    assert all(prop.empty == (not put[prop.name]) for prop in read_properties(file))


def test_of_two_the_last_counts_unless_an_earlier_is_final() -> None:
    one, two = "<property><name>a</name><value>1</value>", "<property><name>a</name><value>2</value></property>"
    assert layout(f"<configuration>{one}</property>{two}</configuration>".encode(), FILE).values() == {"a": "2"}
    text = f"<configuration>{one}<final>true</final></property>\n{two}</configuration>".encode()
    assert layout(text, FILE).values() == {"a": "1"}
    assert layout(apply(text, {"a": "3"}, (), FILE), FILE).values() == {"a": "3"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"\xff\xfe<\x00", "UTF-16"),
        (b"<configuration>", "yarn-site.xml:1: not well-formed XML"),
        (b"", "not well-formed XML"),
        (b"<a></a>", "the root is <a>"),
    ],
)
def test_what_is_no_site_file_is_one_clear_error(text: bytes, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        layout(text, FILE)


def test_names() -> None:
    known = known_names()
    assert len(known) > 1500
    assert {name for name in DEFAULTS if "https" not in name and not name.startswith("dfs.")} <= known
    assert nearest("yarn.nodemanger.bind-host", known) == "yarn.nodemanager.bind-host"
    assert nearest("yarn.resourcemanager.Hostname", known) == "yarn.resourcemanager.hostname"
    assert nearest("yarn.something.else.entirely", known) is None
    assert nearest("io.x", known) is None


@given(st.text("ab.", max_size=6), st.text("ab.", max_size=6))
def test_the_distance_is_one(one: str, other: str) -> None:
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) is (one == other)
    assert distance(one, other) <= max(len(one), len(other))
    assert distance("ab", "ba") == 1
