"""The page as text: nothing of a result gets out of its place, and nothing is asked of the network."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.report.cells import number, shown
from quicksilver.report.charts import COLOURS, chart, colours_of, ticks
from quicksilver.report.html import html
from quicksilver.report.model import (
    Axis,
    Bars,
    Block,
    Code,
    Lines,
    Page,
    Prose,
    ReportEstimate,
    ReportSection,
    ReportSpan,
    ReportTable,
    Series,
    Spans,
    Value,
)
from quicksilver_lab.markdown import markdown

LINES = Lines("rate", Axis("s"), Axis("tasks/s"), [Series("a", [0, 1], [1, 2], [0, 1], [2, 3]), Series("b", [0], [1])])
BARS = Bars("kills", Axis("kills"), ["a", "b"], [("all", [ReportEstimate(2, 1, 3), None])], reference=1.0)
SPANS = Spans("slots", Axis("s", most=9), ["n1", "n2"], [("b", [ReportSpan(1, 2, 5)]), ("idle", [])])
TABLE = ReportTable(["name", "x|y"], [["p", 1.5], ["q", ReportEstimate(1, 0.5, 2)], ["r", None]], "what")


def page(*blocks: Block) -> Page:
    return Page("a <b>", [("machine", "2 & 3")], [ReportSection("one", blocks)])


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
    assert (text.count('class="lines"'), text.count('class="rows')) == (2, 2)
    assert re.findall(r"https?:[^ ]+", text) == ["https://github.com/leeoniya/uPlot"]  # the library's notice


@given(st.text(max_size=30))
def test_no_text_of_a_result_is_taken_for_markup(text: str) -> None:
    found = html(Page(text, [(text, text)], [ReportSection(text, [Prose(text), ReportTable([text], [[text]], text)])]))
    expected = html(Page("", [("", "")], [ReportSection("", [Prose(""), ReportTable([""], [[""]], "")])]))
    known = parsed(expected).open
    assert parsed(found).open == known
    assert found.count("<script") == expected.count("<script")


def data_of(plot: Lines, **colours: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(chart(plot, colours or colours_of([plot])).data)
    return found


def test_a_series_has_its_colour_in_all_plots_and_bars_have_that_of_their_label() -> None:
    other = Lines("later", Axis("s"), Axis("n"), [Series("c", [0], [1]), Series("b", [0], [1])])
    assert colours_of([LINES, BARS, other]) == {"a": 0, "b": 1, "c": 2}
    assert [(one["name"], one["colour"]) for one in data_of(other, b=1, c=2)["series"]] == [("c", 2), ("b", 1)]
    assert [row.bars[0] and row.bars[0].colour for row in chart(BARS, {"a": 4, "b": 5}).bars] == [4, None]


def test_lines_have_their_points_by_x_and_their_intervals() -> None:
    plot = Lines("t", Axis("s"), Axis("n", most=9), [Series("a", [2, 1], [20, 10], [19, 9], [21, 11])], reference=3)
    found = data_of(plot)
    assert found["series"] == [
        {
            "name": "a",
            "colour": 0,
            "dash": 0,
            "dashed": False,
            "x": [1, 2],
            "y": [10, 20],
            "low": [9, 19],
            "high": [11, 21],
        }
    ]
    assert found["reference"] == 3 and found["y"] == {"label": "n", "log": False, "most": 9, "grounded": True}


def test_a_logarithmic_axis_omits_what_is_not_above_0() -> None:
    plot = Lines("t", Axis("s", log=True), Axis("n"), [Series("a", [0, 1, 2], [1, 0, 3])])
    assert data_of(plot)["series"][0]["x"] == [1, 2]
    rate = Lines("t", Axis("s"), Axis("n", log=True), [Series("a", [0, 1, 2], [1, 0, 3]), Series("b", [0], [0])])
    assert [one["x"] for one in data_of(rate)["series"]] == [[0, 2], []]


def test_data_cannot_end_its_script() -> None:
    plot = Lines("</script><b>", Axis("<"), Axis("n"), [Series("</script>", [0], [1])])
    assert "<" not in chart(plot, colours_of([plot])).data
    assert data_of(plot)["title"] == "</script><b>"
    assert html(page(plot)).count("</script>") == html(page(LINES)).count("</script>")


def test_spans_are_pieces_of_their_rows_in_their_colours() -> None:
    assert colours_of([LINES, SPANS]) == {"a": 0, "b": 1, "idle": 2}
    (first, empty), (second, pieces) = chart(SPANS, {"b": 1, "idle": 2}).spans
    assert (first, second, list(empty)) == ("n1", "n2", [])
    (piece,) = pieces
    assert (piece.about, piece.colour) == ("b: 2.0 to 5.0", 1)
    assert (piece.begin, piece.width) == (pytest.approx(100 * 2 / 9), pytest.approx(100 * 3 / 9))
    text = html(page(SPANS))
    assert text.count("<li>") == 2 and 'title="b: 2.0 to 5.0"' in text


def test_the_ninth_line_differs_from_the_first() -> None:
    many = Lines("many", Axis("s"), Axis("n"), [Series(str(at), [0, 1], [at, at]) for at in range(COLOURS + 1)])
    assert [(one["colour"], one["dash"]) for one in data_of(many)["series"]][::COLOURS] == [(0, 0), (0, 1)]


def test_bars_stand_on_0_with_their_intervals_and_the_reference() -> None:
    found = chart(
        Bars("t", Axis("x"), ["a"], [("p", [ReportEstimate(2, 1, 4)]), ("q", [-4.0])], reference=1), {"p": 0, "q": 1}
    )
    one, other = found.bars[0].bars
    assert one is not None and other is not None and found.scale is not None
    assert (one.begin, one.width, one.low, one.high) == (50, 25, 62.5, 100)
    assert (other.begin, other.width, other.low) == (0, 50, None)
    assert found.scale.mark == 62.5
    assert [text for _, text in found.scale.ticks] == ["-4", "-3", "-2", "-1", "0", "1", "2", "3", "4"]
    assert one.about == "a, p: 2 (1 to 4)"


def test_labels_are_text_that_can_be_found() -> None:
    text = html(page(Bars("t", Axis("seconds & more"), ["<slow>"], [("all", [1.0])])))
    assert "<b>&lt;slow&gt;</b>" in text and "seconds &amp; more" in text


def test_bars_of_nothing_have_an_axis() -> None:
    found = chart(Bars("kills", Axis("kills"), ["a"], [("all", [0.0])]), {"a": 0})
    assert found.bars[0].bars[0] is not None and found.bars[0].bars[0].width == 0
    assert found.scale is not None and found.scale.ticks[0] == (0, "0")


@pytest.mark.parametrize(
    ("high", "expected"),
    [
        (0, [0]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (7, [0, 2, 4, 6]),
        (0.031, [0, 0.01, 0.02, 0.03]),
        (2400, [0, 500, 1000, 1500, 2000]),
    ],
)
def test_ticks_are_few_and_round(high: float, expected: list[float]) -> None:
    assert ticks(high) == pytest.approx(expected)


@given(st.floats(1e-9, 1e12))
def test_ticks_cover_the_axis(high: float) -> None:
    found = ticks(high)
    assert 2 <= len(found) <= 7 and found[0] == 0 and high / 2 < found[-1] <= high * (1 + 1e-9)


def test_code_is_shown_as_it_is() -> None:
    listing = Code("policies:\n  preset: <x>", "To run `it`")
    assert '<p>To run <code>it</code>:</p><pre tabindex="0"><code>policies:\n  preset: &lt;x&gt;</code></pre>' in html(
        page(listing)
    )
    assert markdown(page(listing)).endswith("To run `it`:\n\n```yaml\npolicies:\n  preset: <x>\n```\n")


def test_markdown_has_facts_and_tables() -> None:
    assert markdown(page(Prose("see `x`"), TABLE, LINES)) == (
        "### a <b>\n\nmachine: 2 & 3.\n\n**one**\n\nsee `x`\n\nwhat:\n\n"
        "| name | x\\|y |\n|---|---:|\n| p | 1.50 |\n| q | 1 (0.500 to 2) |\n| r | – |\n"
    )


def test_markdown_of_a_table_without_rows_has_its_head() -> None:
    assert markdown(page(ReportTable(["a", "b"], []))).endswith("| a | b |\n|---|---|\n")


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
        (ReportEstimate(1.424, 1.361, 1.48), "1.42 (1.36 to 1.48)"),
    ],
)
def test_cells(value: Value, text: str) -> None:
    assert shown(value) == text


@given(st.floats(1e-6, 1e12))
def test_three_digits_are_kept(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        ReportEstimate(1, 2, 3)
    with pytest.raises(ValueError, match="'a': x, y, low and high have not the same length"):
        Series("a", [1, 2], [1])
    with pytest.raises(ValueError, match="'a': x, y, low and high have not the same length"):
        Series("a", [1], [1], low=[0])
    with pytest.raises(ValueError, match="'a': a number is not finite"):
        Series("a", [1], [float("nan")])
    with pytest.raises(ValueError, match="'all' has 1 values, not 2"):
        Bars("t", Axis("x"), ["a", "b"], [("all", [1.0])])
    with pytest.raises(ValueError, match="'b' has row 2 of 2"):
        Spans("slots", Axis("s"), ["n1", "n2"], [("b", [ReportSpan(2, 0, 1)])])
    with pytest.raises(ValueError, match="3 <= 2 does not hold"):
        ReportSpan(0, 3, 2)
    with pytest.raises(ValueError, match="a row has 1 cells, not 2"):
        ReportTable(["a", "b"], [["x"]])


def test_the_head_of_a_column_of_numbers_stands_over_them() -> None:
    text = html(page(TABLE))
    assert '<th scope="col"><button>name' in text and '<th class="n" scope="col"><button>x|y' in text
