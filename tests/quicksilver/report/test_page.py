"""The page as text: nothing of a result gets out of its place, and nothing is asked of the network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.report.cells import number, shown
from quicksilver.report.html import html
from quicksilver.report.markdown import markdown
from quicksilver.report.model import (
    Axis,
    Bars,
    Block,
    Estimate,
    Lines,
    Page,
    Prose,
    Section,
    Series,
    Span,
    Spans,
    Table,
    Value,
)
from quicksilver.report.svg import COLOURS, colours_of, draw

LINES = Lines("rate", Axis("s"), Axis("tasks/s"), [Series("a", [0, 1], [1, 2], [0, 1], [2, 3]), Series("b", [0], [1])])
BARS = Bars("kills", Axis("kills"), ["a", "b"], [("all", [Estimate(2, 1, 3), None])], reference=1.0)
SPANS = Spans("slots", Axis("s", most=9), ["n1", "n2"], [("b", [Span(1, 2, 5)]), ("idle", [])])
TABLE = Table(["name", "x|y"], [["p", 1.5], ["q", Estimate(1, 0.5, 2)], ["r", None]], "what")


def page(*blocks: Block) -> Page:
    return Page("a <b>", [("machine", "2 & 3")], [Section("one", blocks)])


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link"):
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href"):
                self.addresses.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


def test_a_page_is_whole_and_has_all_it_needs_in_itself() -> None:
    text = html(page(Prose("see `x<y`"), TABLE, LINES, BARS, SPANS, LINES))
    tags = parsed(text)
    assert len(tags.ids) == len(set(tags.ids))
    assert all(address.startswith(("#", "data:")) for address in tags.addresses)
    assert "<title>a &lt;b&gt;</title>" in text
    assert "<code>x&lt;y</code>" in text
    assert text.count("<svg") == 4
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]+"|http-equiv', "", text)


@given(st.text(max_size=30))
def test_no_text_of_a_result_is_taken_for_markup(text: str) -> None:
    found = html(Page(text, [(text, text)], [Section(text, [Prose(text), Table([text], [[text]], text)])]))
    expected = html(Page("", [("", "")], [Section("", [Prose(""), Table([""], [[""]], "")])]))
    known = parsed(expected).open
    assert parsed(found).open == known
    assert found.count("<script") == 1


def test_a_series_has_its_colour_in_all_plots_and_bars_have_that_of_their_label() -> None:
    other = Lines("later", Axis("s"), Axis("n"), [Series("c", [0], [1]), Series("b", [0], [1])])
    assert colours_of([LINES, BARS, other]) == {"a": 0, "b": 1, "c": 2}
    drawn = draw(other, {"b": 1, "c": 2}, "x")
    assert "var(--c1)" in drawn
    assert "var(--c2)" in drawn
    assert "var(--c0)" not in drawn
    assert "#0b0b" not in drawn
    assert "#0c0c" not in drawn


def test_spans_are_pieces_of_their_rows_in_their_colours() -> None:
    assert colours_of([LINES, SPANS]) == {"a": 0, "b": 1, "idle": 2}
    drawn = draw(SPANS, {"b": 1, "idle": 2}, "x")
    words = [text.strip() for text in ElementTree.fromstring(drawn).itertext()]
    assert words.index("n1") < words.index("n2")
    assert "fill: var(--c1)" in drawn and "var(--c2)" not in drawn
    assert html(page(SPANS)).count("<li>") == 2


def test_the_ninth_line_differs_from_the_first() -> None:
    many = Lines("many", Axis("s"), Axis("n"), [Series(str(at), [0, 1], [at, at]) for at in range(COLOURS + 1)])
    drawn = draw(many, colours_of([many]), "x")
    assert drawn.count("stroke-dasharray") == 1
    assert "border-top-style:dashed" in html(page(many))


def test_svg_is_well_formed_and_equal_each_time() -> None:
    drawn = draw(LINES, {"a": 0, "b": 1}, "x")
    ElementTree.fromstring(drawn)
    assert draw(LINES, {"a": 0, "b": 1}, "x") == drawn


def test_labels_are_text_that_can_be_found() -> None:
    drawn = draw(Bars("t", Axis("seconds & more"), ["<slow>"], [("all", [1.0])]), {"<slow>": 0}, "x")
    assert "".join(ElementTree.fromstring(drawn).itertext()).count("<slow>") == 1
    assert "seconds & more" in "".join(ElementTree.fromstring(drawn).itertext())


def test_a_logarithmic_axis_has_plain_numbers() -> None:
    plot = Lines("g", Axis("nodes", log=True), Axis("ms", log=True), [Series("a", [64, 1000], [0.2, 20])], marks=True)
    words = [text.strip() for text in ElementTree.fromstring(draw(plot, {"a": 0}, "x")).itertext()]
    assert {"100", "1,000", "0.5", "10"} <= set(words)


def test_markdown_has_facts_and_tables() -> None:
    assert markdown(page(Prose("see `x`"), TABLE, LINES)) == (
        "### a <b>\n\nmachine: 2 & 3.\n\n**one**\n\nsee `x`\n\nwhat:\n\n"
        "| name | x\\|y |\n|---|---:|\n| p | 1.50 |\n| q | 1 (0.500 to 2) |\n| r | – |\n"
    )


def test_markdown_of_a_table_without_rows_has_its_head() -> None:
    assert markdown(page(Table(["a", "b"], []))).endswith("| a | b |\n|---|---|\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (0.0, "0"),
        (1234.56, "1,235"),
        (12345, "12,345"),
        (0.04567, "0.0457"),
        (99.96, "100.0"),
        (-3.14159, "-3.14"),
        (1e-12, "1.00e-12"),
        (float("nan"), "nan"),
        ("text", "text"),
        (1.0, "1.00"),
        (Estimate(1.424, 1.361, 1.48), "1.42 (1.36 to 1.48)"),
    ],
)
def test_cells(value: Value, text: str) -> None:
    assert shown(value) == text


@given(st.floats(1e-6, 1e12))
def test_three_digits_are_kept(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        Estimate(1, 2, 3)
    with pytest.raises(ValueError, match="'a': x, y, low and high have not the same length"):
        Series("a", [1, 2], [1])
    with pytest.raises(ValueError, match="'a': x, y, low and high have not the same length"):
        Series("a", [1], [1], low=[0])
    with pytest.raises(ValueError, match="'a': a number is not finite"):
        Series("a", [1], [float("nan")])
    with pytest.raises(ValueError, match="'all' has 1 values, not 2"):
        Bars("t", Axis("x"), ["a", "b"], [("all", [1.0])])
    with pytest.raises(ValueError, match="'b' has row 2 of 2"):
        Spans("slots", Axis("s"), ["n1", "n2"], [("b", [Span(2, 0, 1)])])
    with pytest.raises(ValueError, match="3 <= 2 does not hold"):
        Span(0, 3, 2)
    with pytest.raises(ValueError, match="a row has 1 cells, not 2"):
        Table(["a", "b"], [["x"]])


def test_bars_of_nothing_begin_at_0_and_a_narrow_logarithmic_axis_has_more_than_one_label() -> None:
    nothing = Bars("kills", Axis("kills"), ["a"], [("all", [0.0])])
    words = [text.strip() for text in ElementTree.fromstring(draw(nothing, {"a": 0}, "x")).itertext()]
    assert not any(word.startswith(("-", "−")) for word in words)
    narrow = Lines("g", Axis("s", log=True), Axis("share"), [Series("a", [7, 11], [0, 1])])
    words = [text.strip() for text in ElementTree.fromstring(draw(narrow, {"a": 0}, "x")).itertext()]
    assert {"8", "9", "10"} <= set(words)


def test_a_wide_logarithmic_axis_has_labels_at_decades_alone() -> None:
    wide = Lines("g", Axis("s", log=True), Axis("share"), [Series("a", [1, 50_000], [0, 1])])
    words = {text.strip() for text in ElementTree.fromstring(draw(wide, {"a": 0}, "x")).itertext()}
    assert {"1", "10", "10,000"} <= words
    assert not {"2", "5", "20", "5,000"} & words


def test_a_level_line_does_not_lie_on_the_border() -> None:
    level = Lines("g", Axis("k"), Axis("s"), [Series("a", [2, 4], [2184, 2184], [2183.9, 2183.9], [2184.1, 2184.1])])
    text = draw(level, {"a": 0}, "x")
    paths = re.findall(r'<path d="M [\d.]+ ([\d.]+) \nL [\d.]+ ([\d.]+) \n"[^>]*stroke: var\(--(grid|c0)\)', text)
    top = min(float(end) for begin, end, of in paths if of == "grid" and begin != end)
    (drawn,) = {float(begin) for begin, _, of in paths if of == "c0"}
    assert drawn > top + 5


def test_the_head_of_a_column_of_numbers_stands_over_them() -> None:
    text = html(page(TABLE))
    assert '<th scope="col"><button>name' in text and '<th class="n" scope="col"><button>x|y' in text
