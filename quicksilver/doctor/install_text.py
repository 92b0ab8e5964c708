"""What installing adds, as text for managers that write the site files themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quicksilver.doctor.install import PropertyChange
from quicksilver.doctor.site_edit import layout, property_xml

XML: Final = "xml"
FORMATS: Final = (XML, "properties")


def as_text(changes: Sequence[PropertyChange], form: str) -> str:
    """Return the properties that changes add, file by file, each file's name in a comment.

    form: `xml` for Cloudera Manager's safety valves, `properties` for Ambari's bulk property add mode.
    """
    parts = []
    for change in changes:
        mark = f"<!-- {change.file.name} -->" if form == XML else f"# {change.file.name}"
        parts.append(mark)
        if change.file.suffix != ".xml":
            before, after = ((text or b"").decode().splitlines() for text in (change.before, change.after))
            parts += [line for line in after if line not in before and not line.startswith("#")]
            continue
        old, new = (layout(text, change.file).values() if text else {} for text in (change.before, change.after))
        values = {name: value for name, value in new.items() if old.get(name) != value}
        parts += [property_xml(values)] if form == XML else [f"{name}={value}" for name, value in values.items()]
    return "".join(f"{part}\n" for part in parts)
