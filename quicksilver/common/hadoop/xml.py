"""One Hadoop site file as a list of properties with their lines."""

from __future__ import annotations

import xml.sax
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from quicksilver.common.errors import SettingsError

_MAX_INCLUDES: Final = 10
_FIELDS: Final = ("name", "value", "final")


@dataclass(frozen=True, slots=True)
class Property:
    """One `<property>`; `value` is as written, without substitution."""

    name: str
    value: str
    final: bool
    file: Path
    line: int


def read_properties(file: Path, depth: int = 0) -> list[Property]:
    """Return the properties of a site file in order, included files in their place.

    Raises SettingsError with file and line when it cannot be read, is not XML, or its root is not `<configuration>`.
    """
    handler = _Properties(file, depth)
    try:
        with file.open("rb") as source:
            xml.sax.parse(source, handler)
    except xml.sax.SAXParseException as error:
        place = f"{file}:{error.getLineNumber()}"
        raise SettingsError(f"not well-formed XML: {error.getMessage()}", place=place, remedy="mend the file") from None
    except OSError as error:
        raise SettingsError(
            f"cannot be read: {error.strerror}", place=str(file), remedy="check the path and its permissions"
        ) from None
    return handler.found


class _Properties(ContentHandler):
    """Collects properties; unknown elements are skipped, as Hadoop does."""

    def __init__(self, file: Path, depth: int) -> None:
        super().__init__()
        self.found: list[Property] = []
        self._file, self._depth = file, depth
        self._path: list[str] = []
        self._texts: dict[str, str] = {}
        self._locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        if not self._path and name != "configuration":
            raise SettingsError(f"the root is <{name}>", place=self._place(), remedy="it must be <configuration>")
        self._path.append(name)
        if name == "property":
            self._texts = {key: attrs[key] for key in _FIELDS if key in attrs}
        elif name in _FIELDS and self._path[-2:-1] == ["property"]:
            self._texts[name] = ""
        elif name in ("xi:include", "include"):
            self._include(str(attrs.get("href", "")))

    def characters(self, content: str) -> None:
        if self._path and self._path[-1] in _FIELDS and self._path[-2:-1] == ["property"]:
            self._texts[self._path[-1]] += content

    def endElement(self, name: str) -> None:
        self._path.pop()
        if name != "property":
            return
        key = self._texts.get("name", "").strip()
        if not key:
            raise SettingsError("a <property> without a <name>", place=self._place(), remedy="name it or remove it")
        if "value" in self._texts:
            final = self._texts.get("final", "").strip().lower() == "true"
            self.found.append(Property(key, self._texts["value"], final, self._file, self._line()))

    def _include(self, href: str) -> None:
        if self._depth >= _MAX_INCLUDES:
            raise SettingsError("includes go round in circles", place=self._place(), remedy="remove this include")
        target = self._file.parent / href.removeprefix("file://")
        if not href or not target.is_file():
            raise SettingsError(f"there is no file {href!r} to include", place=self._place(), remedy="correct href")
        self.found.extend(read_properties(target, self._depth + 1))

    def _line(self) -> int:
        return int(self._locator.getLineNumber() or 0) if self._locator else 0

    def _place(self) -> str:
        return f"{self._file}:{self._line()}"
