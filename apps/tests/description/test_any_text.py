"""Whatever the text: a description is read, or refused with one line for each mistake."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apps.tests.description.examples import SPARK
from quicksilver_apps.description.mistakes import MAX_LINES, DescriptionError
from quicksilver_apps.description.model import Application
from quicksilver_apps.description.reader import from_data, parse, parse_template
from quicksilver_apps.description.zapp import convert_text

PIECES = (
    "{",
    "}",
    "[",
    "]",
    "- ",
    ": ",
    "&a ",
    "*a",
    "<<: *a",
    "!!int ",
    "!!binary ",
    "!x ",
    "| ",
    "> ",
    "'",
    '"',
    "\n",
)
PIECES += (
    "\t",
    "${parameters.",
    "${parameters.x}",
    "$${parameters.x}",
    "null",
    ".inf",
    "1e999",
    "---\n",
    "%",
    "@",
    "\\u",
)
PIECES += (
    "\ud800",
    "\0",
    "\x85",
    "\ufeff",
    "2001-13-45",
    "0x",
    "=",
    "~",
    "? ",
    "#",
    "9" * 30,
    "name",
    "version",
    "core",
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(PIECES)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = tuple(field.alias or name for name, field in Application.model_fields.items())


def lines_of(error: DescriptionError, name: str) -> None:
    assert 1 <= len(error.lines) <= MAX_LINES
    for line in error.lines:
        assert line.startswith(name) and "; " in line and line.isprintable()


@given(
    st.lists(st.tuples(st.integers(0, len(SPARK)), st.integers(0, 12), st.sampled_from(PIECES)), min_size=1, max_size=3)
)
def test_any_change_of_a_text_is_read_or_refused(changes: list[tuple[int, int, str]]) -> None:
    text = SPARK
    for at, length, piece in changes:
        text = text[:at] + piece + text[at + length :]
    for name in ("app.yaml", "app.json"):
        try:
            assert isinstance(parse(text, name, {"input": "x"}), Application)
        except DescriptionError as error:
            lines_of(error, name)
        try:
            checked = parse_template(text, name).check()
        except DescriptionError as error:
            lines_of(error, name)
        else:
            assert checked.error is None or checked.error.mistakes


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), values, max_size=6) | values)
def test_any_data_is_read_or_refused(data: Any) -> None:
    try:
        from_data(data, "request")
    except DescriptionError as error:
        lines_of(error, "request")


@given(st.text(st.sampled_from("".join(sorted({*"".join(PIECES), *'{}[]",:0123 \n'}))), max_size=60))
def test_any_text_is_no_zapp_with_an_error(text: str) -> None:
    for name in ("zapp.yaml", "zapp.json"):
        try:
            convert_text(text, name)
        except DescriptionError as error:
            lines_of(error, name)
