"""Hadoop's site files changed as text: what is not touched stays as it is, byte for byte.

Positions come from the XML parser, never from searching the text; after each change the file is parsed again, and every
other property must still have its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape

from quicksilver.common.errors import SettingsError

EMPTY: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n</configuration>\n'
"""A site file without properties."""
_TEXTS: Final = ("name", "value", "final")


@dataclass(frozen=True, slots=True)
class Element:
    """A `<property>` of a file: its value and its place. `start` and `end` are byte offsets."""

    name: str
    value: str
    final: bool
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment right below `<configuration>`, with the byte offset of its beginning."""

    text: str
    start: int


@dataclass(slots=True)
class Layout:
    """Where things stand in a site file. `end` is the byte offset of `</configuration>`."""

    elements: list[Element] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    end: int = -1

    def effective(self) -> dict[str, Element]:
        """Return the property that counts of each name: the last one, unless an earlier is final."""
        found: dict[str, Element] = {}
        for element in self.elements:
            before = found.get(element.name)
            if before is None or not before.final:
                found[element.name] = element
        return found

    def values(self) -> dict[str, str]:
        """Return the value of each name, without substitution."""
        return {name: element.value for name, element in self.effective().items()}


def layout(text: bytes, file: Path) -> Layout:
    """Return where the properties of a site file stand.

    Raises SettingsError with file and line for what is no site file, or one that cannot be edited as text.
    """
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise SettingsError("is UTF-16", place=str(file), remedy="save it as UTF-8")
    reader = _Reader(file)
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as error:
        what = f"not well-formed XML: {expat.ErrorString(error.code)}"
        raise SettingsError(what, place=f"{file}:{error.lineno}", remedy="mend the file") from None
    if not text[reader.found.end :].startswith(b"</configuration"):
        what = "an empty <configuration/> has no place for properties"
        raise SettingsError(what, place=str(file), remedy="write it as <configuration> and </configuration>")
    return reader.found


class _Reader:
    """Collects what lies right below the root, with offsets."""

    def __init__(self, file: Path) -> None:
        self.found = Layout()
        self._file, self._path = file, list[str]()
        self._texts: dict[str, str] = {}
        self._start = self._line = 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.CommentHandler = self._comment

    def _begin(self, name: str, attributes: Mapping[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        if not self._path and name != "configuration":
            raise SettingsError(
                f"the root is <{name}>", place=f"{self._file}:{line}", remedy="it must be <configuration>"
            )
        self._path.append(name)
        if self._path == ["configuration", "property"]:
            self._texts = {key: attributes[key] for key in _TEXTS if key in attributes}
            self._start, self._line = self.parser.CurrentByteIndex, line
        elif len(self._path) == 3 and self._path[1] == "property" and name in _TEXTS:
            self._texts[name] = ""

    def _text(self, data: str) -> None:
        if len(self._path) == 3 and self._path[1] == "property" and self._path[2] in _TEXTS:
            self._texts[self._path[2]] += data

    def _end(self, name: str) -> None:
        at = self.parser.CurrentByteIndex
        if self._path == ["configuration", "property"] and "value" in self._texts:
            texts = self._texts
            final = texts.get("final", "").strip().lower() == "true"
            end = at + len(f"</{name}>")
            key = texts.get("name", "").strip()
            self.found.elements.append(Element(key, texts["value"].strip(), final, self._line, self._start, end))
        elif self._path == ["configuration"]:
            self.found.end = at
        self._path.pop()

    def _comment(self, data: str) -> None:
        if self._path == ["configuration"]:
            self.found.comments.append(Comment(data.strip(), self.parser.CurrentByteIndex))


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
    wanted = set(names)
    for element in reversed(layout(text, file).elements):
        if element.name in wanted:
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
    wanted = {name: value for name, value in before.items() if name not in {*remove}} | dict(put)
    if after != wanted:
        raise SettingsError("could not be changed as text", place=str(file), remedy="change it by hand")
    return changed
