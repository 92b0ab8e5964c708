"""The tables of metrics in docs/operations.md and docs/sidecar.md, made of the metrics of proxy and sidecar.

`python -m quicksilver.metric_tables docs/operations.md docs/sidecar.md` writes them anew; a test compares them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from rm_proxy.metrics import ProxyMetrics
from sidecar.metrics import SidecarMetrics

PAGES: Final[dict[str, Callable[[], CollectorRegistry]]] = {
    "operations.md": lambda: ProxyMetrics().registry,
    "sidecar.md": lambda: SidecarMetrics().registry,
}
"""The metrics of each page."""
COMMAND: Final = "python -m quicksilver.metric_tables docs/operations.md docs/sidecar.md"
_BEGIN: Final = f"<!-- metrics: made by `{COMMAND}` -->\n"
_END: Final = "<!-- end of metrics -->\n"
_SUFFIXES: Final = {"counter": "_total", "info": "_info"}


def table(registry: CollectorRegistry) -> str:
    """Return the metrics as a table in Markdown, without those of the process, which have the usual names."""
    return "\n".join(_lines(registry))


def with_table(page: str, registry: CollectorRegistry) -> str:
    """Return a page with its table as it is now. Raises ValueError when it has no place for it."""
    if _BEGIN not in page or _END not in page:
        raise ValueError(f"the page has no lines {_BEGIN.strip()} and {_END.strip()}; add them")
    made = f"{_BEGIN}{table(registry)}\n{_END}"
    return re.sub(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", lambda _: made, page, flags=re.DOTALL)


def _lines(registry: CollectorRegistry) -> Iterator[str]:
    yield "| metric | type | meaning |"
    yield "|---|---|---|"
    for family in registry.collect():
        if "_process_" not in family.name:
            text = family.documentation.replace("|", "\\|")
            yield f"| `{family.name}{_SUFFIXES.get(family.type, '')}` | {family.type} | {text} |"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        file.write_text(with_table(file.read_text(), PAGES[file.name]()))
