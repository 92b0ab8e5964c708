"""Tables of reference in docs/ that are made of the code: metrics of proxy and sidecar, codes of the doctor, slots.

`python -m quicksilver.reference_tables` with the names of the pages in `PAGES` writes them anew; a test compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from policies.config.registry import PARAMETERS
from quicksilver.doctor.codes import CODES
from quicksilver.manual.made_parts import with_part
from rm_proxy.metrics import ProxyMetrics
from sidecar.metrics import SidecarMetrics

_SUFFIXES: Final = {"counter": "_total", "info": "_info"}


def metric_rows(registry: CollectorRegistry) -> Iterator[str]:
    """Yield a table of metrics, without those of the process, which have the usual names."""
    yield "| metric | type | meaning |"
    yield "|---|---|---|"
    for family in registry.collect():
        if "_process_" not in family.name:
            text = family.documentation.replace("|", "\\|")
            yield f"| `{family.name}{_SUFFIXES.get(family.type, '')}` | {family.type} | {text} |"


def code_rows() -> Iterator[str]:
    """Yield a table of the doctor's codes."""
    yield "| code | severity | means |"
    yield "|---|---|---|"
    for code, (severity, meaning) in CODES.items():
        yield f"| `{code}` | {severity.name.lower()} | {meaning} |"


def parameter_rows() -> Iterator[str]:
    """Yield a table of the parameters of each slot's function."""
    yield "| slot | parameters |"
    yield "|---|---|"
    for slot, parameters in PARAMETERS.items():
        yield f"| `{slot}` | `{', '.join(parameters)}` |"


PAGES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "operations.md": lambda: metric_rows(ProxyMetrics().registry),
    "sidecar.md": lambda: metric_rows(SidecarMetrics().registry),
    "doctor.md": code_rows,
    "policies.md": parameter_rows,
}
"""The lines of the table that a page has."""
COMMAND: Final = f"python -m quicksilver.reference_tables {' '.join(f'docs/{name}' for name in PAGES)}"
_BEGIN: Final = f"<!-- reference: made by `{COMMAND}` -->\n"
_END: Final = "<!-- end of reference -->\n"


def with_table(page: str, rows: Iterable[str]) -> str:
    """Return a page with its table as it is now. Raises ValueError when it has no place for it."""
    return with_part(page, _BEGIN, "".join(f"{row}\n" for row in rows), _END)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        file.write_text(with_table(file.read_text(), PAGES[file.name]()))
