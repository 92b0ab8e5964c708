"""The tables of fields in docs/app-descriptions.md, made of the model; a test holds the page equal to it.

`python -m quicksilver_apps.description.field_tables PAGE` writes them into the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from policies.config.validation import setting_rows
from quicksilver.manual.made_parts import with_part
from quicksilver_apps.description.model import (
    Application,
    Constraints,
    File,
    Parameter,
    Part,
    Port,
    Ready,
    Restart,
    Service,
    ServiceResources,
)

BEGIN: Final = "<!-- fields: made of apps/quicksilver_apps/description/model.py -->"
END: Final = "<!-- end of fields -->"
_TABLES: Final[tuple[tuple[str, type[Part]], ...]] = (
    ("The whole description", Application),
    ("`parameters.NAME`", Parameter),
    ("`services[]`", Service),
    ("`resources` and `master`", ServiceResources),
    ("`ports[]`", Port),
    ("`files[]`", File),
    ("`constraints`", Constraints),
    ("`ready`", Ready),
    ("`restart`", Restart),
)


def field_tables() -> str:
    """Return the tables as Markdown, one for each part of a description."""
    return "\n".join(line for title, part in _TABLES for line in _table(title, part))


def with_tables(page: str) -> str:
    """Return a page with the tables between its two marks. Raises ValueError when it has not both."""
    return with_part(page, BEGIN, f"\n\n{field_tables()}\n", END)


def _table(title: str, part: type[Part]) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    yield "| field | unit | default | range | meaning |"
    yield "|---|---|---|---|---|"
    for row in setting_rows(part):
        if "." not in row["name"]:
            key = part.model_fields[row["name"]].alias or row["name"]
            cells = (f"`{key}`", row["unit"], _default(part, row), row["range"], row["doc"])
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _default(part: type[Part], row: dict[str, Any]) -> str:
    if row["required"]:
        return "must be set"
    value = part.model_fields[row["name"]].default
    if isinstance(value, BaseModel):
        return f"`{json.dumps(value.model_dump(exclude_defaults=True))}`"
    return f"`{json.dumps(row['default'])}`" if row["default"] is not None else ""


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text()))
