"""The pages show the metrics of proxy and sidecar as they are."""

from __future__ import annotations

import pytest

from quicksilver.metric_tables import COMMAND, PAGES, table, with_table
from tests.paths import DOCS


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_the_metrics_as_they_are(name: str) -> None:
    page = (DOCS / name).read_text()
    assert page == with_table(page, PAGES[name]()), f"the page is not up to date; {COMMAND}"


@pytest.mark.parametrize("name", PAGES)
def test_each_metric_has_a_name_a_type_and_a_meaning(name: str) -> None:
    rows = [line.split(" | ") for line in table(PAGES[name]()).splitlines()[2:]]
    assert len(rows) > 40 and all(len(row) == 3 and all(row) for row in rows)
    assert f"| `quicksilver_{'proxy' if name == 'operations.md' else 'sidecar'}_settings_info`" in {r[0] for r in rows}


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has no lines <!-- metrics"):
        with_table("# Operations\n", PAGES["sidecar.md"]())
