"""Hadoop's configuration files: what is read, merged and written, and how bad ones are refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.cluster.errors import SiteFileError
from quicksilver_lab.cluster.siteconf import expand, merge, read_site, write_site

NAMES = st.from_regex(r"[a-z]{1,8}(\.[a-z-]{1,8}){0,3}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_characters="\x7f\x85")).map(str.strip)


def site(folder: Path, text: str) -> Path:
    path = folder / "yarn-site.xml"
    path.write_text(text)
    return path


@given(st.dictionaries(NAMES, VALUES))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]) -> None:
    path = tmp_path_factory.mktemp("conf") / "sub" / "core-site.xml"
    write_site(path, properties)
    assert read_site(path) == properties


def test_the_last_of_two_equal_names_counts_and_blanks_go(tmp_path: Path) -> None:
    text = """<?xml version="1.0"?><!-- c --><configuration>
      <property><name> a </name><value>1</value></property>
      <property><name>a</name><value> 2 </value><final>true</final></property></configuration>"""
    assert read_site(site(tmp_path, text)) == {"a": "2"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<configuration>", r"yarn-site.xml: not XML \(.*line 1.*Correct that line"),
        ("<project/>", "outermost element is <project>, it must be <configuration>"),
        ("<configuration><property><name>a</name></property></configuration>", r"property number 1 \(a\) needs"),
        ("<configuration><property><value>1</value></property></configuration>", r"number 1 \(without a name\) needs"),
    ],
)
def test_a_bad_file_is_named_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SiteFileError, match=complaint):
        read_site(site(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SiteFileError, match=r"none.xml: No such file"):
        read_site(tmp_path / "none.xml")


def test_the_later_layer_wins() -> None:
    assert merge({"a": "1", "b": "1"}, {"b": "2"}, {"c": "3"}) == {"a": "1", "b": "2", "c": "3"}


def test_own_variables_are_expanded_and_foreign_ones_left() -> None:
    properties = {"host": "h", "port": "${base}1", "base": "8", "address": "${host}:${port}", "dir": "${env.HOME}/x"}
    assert expand(properties)["address"] == "h:81"
    assert expand(properties)["dir"] == "${env.HOME}/x"


def test_a_circle_is_refused() -> None:
    with pytest.raises(SiteFileError, match=r"property a: its variables name each other in a circle \(\$\{b\}\)"):
        expand({"a": "${b}", "b": "${a}"})
