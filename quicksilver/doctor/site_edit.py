"""Hadoop's site files changed as text: what is not touched stays as it is, byte for byte.

Positions come from the XML parser, never from searching the text; after each change the file is parsed again, and every
other property must still have its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import laid_over
from quicksilver.common.hadoop.defaults import NEW_NAMES
from quicksilver.common.hadoop.xml import Property, decoded, encoding, parse_site

EMPTY: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n</configuration>\n'
"""A site file without properties."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment right below `<configuration>`, with the byte offset of its beginning."""

    text: str
    start: int


@dataclass(slots=True)
class Layout:
    """Where things stand in a site file, as Hadoop reads it. Offsets are in the file's own bytes."""

    elements: list[Property] = field(default_factory=list)
    """What stands in the file itself, neither included nor in an entity."""
    comments: list[Comment] = field(default_factory=list)
    end: int = -1
    """The place of `</configuration>`."""

    def effective(self) -> dict[str, Property]:
        """Return the property that counts of each name: the last one, unless an earlier is final."""
        return laid_over(self.elements, {}, {})[0]

    def finals(self) -> dict[str, Property]:
        """Return what cannot be overridden."""
        return laid_over(self.elements, {}, {})[1]

    def values(self) -> dict[str, str]:
        """Return the value of each name, without substitution."""
        return {name: element.value.strip() for name, element in self.effective().items()}


def layout(text: bytes, file: Path) -> Layout:
    """Return where the properties of a site file stand.

    Raises SettingsError with file and line for what is no site file, or one that cannot be edited as text.
    """
    codec, mark = encoding(text, file)
    plain = decoded(text, file)
    if mark + plain.encode(codec, "replace") != text or "<".encode(codec) != b"<":
        raise SettingsError(
            f"its {codec.upper()} cannot be changed as text", place=str(file), remedy="save it as UTF-8"
        )
    utf8, read = plain.encode(), parse_site(text, file)
    if read.root != "configuration":
        raise SettingsError(f"the root is <{read.root}>", place=str(file), remedy="it must be <configuration>")

    def own(at: int) -> int:
        return len(mark) + len(utf8[:at].decode().encode(codec))

    elements = [replace(p, start=own(p.start), end=own(p.end)) for p in read.properties if p.start >= 0]
    comments = [Comment(comment, own(at)) for comment, at in read.comments]
    if not utf8.startswith(b"</", read.end):
        message = "an empty <configuration/> has no place for properties"
        raise SettingsError(message, place=str(file), remedy="write it as <configuration> and </configuration>")
    return Layout([element for element in elements if element.file == file], comments, own(read.end))


def newline(text: bytes) -> bytes:
    """Return how lines end in a file."""
    return b"\r\n" if b"\r\n" in text else b"\n"


def property_xml(properties: Mapping[str, str], indent: str = "  ") -> str:
    """Return `<property>` elements, as they stand in a site file."""
    lines: list[str] = []
    for name, value in properties.items():
        inner = (f"<name>{escape(name)}</name>", f"<value>{escape(value)}</value>")
        lines += [f"{indent}<property>", *(f"{indent}{indent}{line}" for line in inner), f"{indent}</property>"]
    return "\n".join(lines)


def line_start(text: bytes, at: int) -> int:
    """Return where the line of offset `at` begins, if only blanks come before `at`, else `at` itself."""
    begin = text.rfind(b"\n", 0, at) + 1
    return begin if not text[begin:at].strip() else at


def insert(text: bytes, addition: str, file: Path) -> bytes:
    """Put lines before `</configuration>`; `addition` has newlines as `\\n` and none at its end."""
    at = line_start(text, layout(text, file).end)
    end = newline(text)
    added = addition.encode("ascii", "xmlcharrefreplace").replace(b"\n", end) + end
    return text[:at] + added + text[at:]


def without(text: bytes, names: Iterable[str], file: Path) -> bytes:
    """Remove all properties of these names, with lines that would be left empty."""
    targets = set(names)
    for element in reversed(layout(text, file).elements):
        if element.name in targets or NEW_NAMES.get(element.name) in targets:
            start, end = line_start(text, element.start), element.end
            rest = text.find(b"\n", end)
            if start != element.start and rest >= 0 and not text[end:rest].strip():
                end = rest + 1
            text = text[:start] + text[end:]
    return text


def apply(text: bytes, put: Mapping[str, str], remove: Iterable[str], file: Path) -> bytes:
    """Return a site file with `remove` taken out and `put` said, wherever it was said before.

    Raises SettingsError for what is no site file.
    """
    changed = without(text, {*put, *remove}, file)
    if put:
        changed = insert(changed, property_xml(put), file)
    before, after = layout(text, file).values(), layout(changed, file).values()
    target = {name: value for name, value in before.items() if name not in {*remove, *put}}
    target |= {name: value for name, value in put.items() if value}  # Hadoop takes an empty value for none
    if after != target:
        raise SettingsError("could not be changed as text", place=str(file), remedy="change it by hand")
    return changed
