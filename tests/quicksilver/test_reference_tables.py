"""The tables of reference in docs/ are those that the code makes."""

from __future__ import annotations

import pytest

from quicksilver.reference_tables import COMMAND, PAGES, with_table
from tests.paths import DOCS


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_its_table_as_it_is(name: str) -> None:
    page = (DOCS / name).read_text()
    assert page == with_table(page, PAGES[name]()), f"the page is not up to date; {COMMAND}"


@pytest.mark.parametrize("name", PAGES)
def test_each_row_is_whole(name: str) -> None:
    rows = [row.split(" | ") for row in list(PAGES[name]())[2:]]
    columns, least = (2, 15) if name == "policies.md" else (3, 40)
    assert len(rows) > least and all(len(row) == columns and all(row) for row in rows)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("operations.md", "| `quicksilver_proxy_settings_info` | info |"),
        ("operations.md", "| `quicksilver_proxy_grants_total` | counter |"),
        ("sidecar.md", "| `quicksilver_sidecar_queue_length` | gauge |"),
        ("doctor.md", "| `nm-bind-host` | error |"),
        ("policies.md", "| `place` | `ask, nodes, cfg, rng` |"),
    ],
)
def test_a_row_has_the_name_that_is_looked_for(name: str, first: str) -> None:
    assert [row for row in PAGES[name]() if row.startswith(first)]


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has no lines <!-- reference"):
        with_table("# Operations\n", ["| a |"])
