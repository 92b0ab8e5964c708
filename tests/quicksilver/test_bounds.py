"""The list of bounds: the page shows it as it is, and it has every constant by which something is forgotten."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver import bounds
from quicksilver_apps import bounds as app_bounds
from tests.paths import DOCS, ROOT

PRODUCT = ("hadoop_rpc", "rm_proxy", "sidecar", "quicksilver/common")
FORGETS = re.compile(r"(?<!nearly )forgotten|remembered|are kept|without an answer|that (still )?wait", re.IGNORECASE)
NUMBER = (ast.Constant, ast.BinOp)


def constants(file: Path) -> Iterator[str]:
    """Yield the constants of a module with a number, of which its words say that something is forgotten beyond it."""
    body = ast.parse(file.read_text()).body
    for at, node in enumerate(body[:-1]):
        words = body[at + 1]
        if (
            not isinstance(node, ast.AnnAssign)
            or not isinstance(node.target, ast.Name)
            or node.target.id.endswith("_S")
        ):
            continue
        said = isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant) and str(words.value.value)
        number = isinstance(node.value, NUMBER) and "'" not in ast.unparse(node.value)
        named = "MAX" in node.target.id or node.target.id.startswith("REMEMBERED")
        if number and named and said and FORGETS.search(said):
            yield node.target.id


def test_the_page_shows_the_bounds_as_they_are() -> None:
    page = (DOCS / "operations.md").read_text()
    remedy = "python -m quicksilver.bounds docs/operations.md"
    assert page == bounds.with_tables(page), f"the page is not up to date; {remedy}"


def test_every_constant_by_which_something_is_forgotten_has_a_row() -> None:
    text = Path(bounds.__file__).read_text()
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for part in PRODUCT
        for file in (ROOT / part).rglob("*.py")
        for name in constants(file)
    }
    assert len(found) > 15
    missing = {one for one in found if not re.search(rf"\b{one.rpartition(' ')[2]}\b", text)}
    assert not missing, "give each a row in quicksilver/bounds.py"


def test_the_page_of_the_app_server_shows_its_bounds_as_they_are() -> None:
    page = (DOCS / "app-server.md").read_text()
    assert page == bounds.with_tables(page, app_bounds.PARTS, app_bounds.COMMAND), (
        f"not up to date; {app_bounds.COMMAND}"
    )


def test_rows_are_whole_and_settings_exist() -> None:
    rows = [row for part in (bounds.PARTS | app_bounds.PARTS).values() for row in part]
    assert len(rows) > 50 and all(row.subject and row.limit and row.beyond for row in rows)
    assert bounds.setting("proxy.max_frame_mb") == "`max_frame_mb` (128)"
    with pytest.raises(KeyError):
        bounds.setting("proxy.no_such_setting")


def test_sizes_have_the_unit_that_fits() -> None:
    assert [bounds.size(one) for one in (1 << 30, 3 << 20, 1 << 16, 1000)] == ["1 GB", "3 MB", "64 KB", "1000 bytes"]


def test_a_page_without_a_place_for_the_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="has no lines <!-- bounds"):
        bounds.with_tables("# Operations\n")
