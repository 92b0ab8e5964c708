"""Site files changed as text, and names that are nearly Hadoop's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.defaults import DEFAULTS
from quicksilver.common.hadoop.xml import read_properties
from quicksilver.doctor.site_edit import EMPTY, apply, insert, layout, property_xml
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


@pytest.mark.parametrize("final", ["TRUE", " true ", "yes", "false"])
def test_only_true_is_final(final: str) -> None:
    text = f"<configuration><property><name>a</name><value>1</value><final>{final}</final></property></configuration>"
    assert layout(text.encode(), FILE).finals() == {}
    assert layout(insert(text.encode(), property_xml({"a": "2"}), FILE), FILE).values() == {"a": "2"}


@pytest.mark.parametrize(("codec", "word"), [("gb2312", "节点"), ("Shift_JIS", "ノード"), ("iso-8859-1", "Größe")])
def test_a_file_keeps_its_encoding_and_what_hadoop_passes_over(codec: str, word: str) -> None:
    head = f'<?xml version="1.0" encoding="{codec}"?>\n<configuration>\n'
    rest = f"<!-- {word} --><property><value>1</value></property>\n"
    rest += f"<property><name>{word}</name><value>{word}</value></property>\n"
    text = f"{head}{rest}  <property><name>a</name><value>1</value></property>\n</configuration>\n".encode(codec)
    changed = apply(text, {"a": "2"}, (), FILE)
    assert changed.startswith((head + rest).encode(codec))
    assert layout(changed, FILE).values() == {word: word, "a": "2"}
    assert apply(changed, {}, ("a",), FILE) == f"{head}{rest}</configuration>\n".encode(codec)


def test_an_old_name_is_overridden_and_removed_as_the_new_one() -> None:
    text = b"<configuration>\n  <property><name>fs.default.name</name><value>1</value></property>\n</configuration>\n"
    assert layout(text, FILE).values() == {"fs.defaultFS": "1"}
    assert layout(apply(text, {"fs.defaultFS": "2"}, (), FILE), FILE).values() == {"fs.defaultFS": "2"}
    assert apply(text, {}, ("fs.defaultFS",), FILE) == b"<configuration>\n</configuration>\n"


def test_what_stands_in_an_unused_fallback_or_another_file_is_no_part(tmp_path: Path) -> None:
    file = tmp_path / "yarn-site.xml"
    (tmp_path / "more.xml").write_text(
        "<configuration><property><name>b</name><value>1</value></property></configuration>"
    )
    (tmp_path / "part").write_text("<property><name>c</name><value>1</value></property>")
    text = (
        b'<!DOCTYPE configuration [<!ENTITY part SYSTEM "part">]>\n<configuration><include href="more.xml"><fallback>'
        b"<property><name>a</name><value>1</value></property></fallback></include>&part;\n</configuration>"
    )
    assert layout(text, file).values() == {}
    assert layout(apply(text, {"b": "2"}, (), file), file).values() == {"b": "2"}


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
