"""One Hadoop site file as a list of properties with their places, read as Hadoop's `Configuration` does.

Hadoop takes no notice of how elements are nested: a `<property>` counts wherever it stands, and `<name>`, `<value>` and
`<final>` add to the property that began last. tests/data/hadoop/site_files shows each case with Hadoop's own answer.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

from quicksilver.common.errors import SettingsError

_MAX_INCLUDES: Final = 10
_TEXTS: Final = ("name", "value", "final", "source", "tag")
_BLANKS: Final = "".join(map(chr, range(33)))
_DECLARATION: Final = re.compile(r"<\?xml\s[^>]*\?>")
_ENCODING: Final = re.compile(rb"<\?xml\s[^>]*?encoding\s*=\s*[\"']([\w.:-]+)[\"']")
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_STRICT: Final = ("utf-8", "ascii")
"""In other encodings Java replaces what is no character."""


@dataclass(frozen=True, slots=True)
class Property:
    """One `<property>`; `value` is as written, without substitution."""

    name: str
    value: str
    final: bool
    file: Path
    line: int
    empty: bool = False
    """Whether there is no value, so that it sets nothing. It can be final even so."""
    start: int = -1
    """Its place, in bytes of the decoded file as UTF-8; -1: it stands in another file or in an entity."""
    end: int = -1


@dataclass(frozen=True, slots=True)
class Ignored:
    """A place of a site file that Hadoop passes over in silence, although it looks like a mistake."""

    file: Path
    line: int
    text: str


@dataclass(slots=True)
class SiteFile:
    """What a file says: properties in order, included files in their place. Offsets are as in Property."""

    properties: list[Property] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    comments: list[tuple[str, int]] = field(default_factory=list)
    """Comments right below the root, with their places."""
    root: str = ""
    """The root's name; Hadoop takes any."""
    end: int = -1
    """The place of the root's end tag."""


def trimmed(text: str) -> str:
    """Return a text without blanks at its ends, as Java's String.trim has it."""
    return text.strip(_BLANKS)


def read_site(file: Path, root: Path | None = None, depth: int = 0) -> SiteFile:
    """Read a site file.

    root: where included files lie, the directory of the configuration, which is the file's own unless given.

    Raises SettingsError with file and line when it cannot be read, or not by Hadoop.
    """
    return parse_site(_bytes(file), file, root, depth)


def read_properties(file: Path) -> list[Property]:
    """Return the properties of a site file in order, otherwise as `read_site`."""
    return read_site(file).properties


def parse_site(data: bytes, file: Path, root: Path | None = None, depth: int = 0) -> SiteFile:
    """Read the bytes of a site file; `file` is its name, otherwise as `read_site`."""
    return _Reader(file, root or file.parent, depth).read(data)


def encoding(data: bytes, file: Path) -> tuple[str, bytes]:
    """Return how a file is encoded, and the byte order mark at its beginning. Raises SettingsError if unknown."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name, mark
    if data.startswith((b"<\0", b"\0<")):
        return ("utf-16-le" if data[1] == 0 else "utf-16-be"), b""
    match = _ENCODING.match(data)
    name = match[1].decode() if match else "utf-8"
    try:
        b"".decode(name)
        return codecs.lookup(name).name, b""
    except LookupError:
        place, remedy = f"{file}:1", "save it as UTF-8"
        raise SettingsError(f"its encoding {name} is not known", place=place, remedy=remedy) from None


def decoded(data: bytes, file: Path) -> str:
    """Return the text of a file. Raises SettingsError with the line of what is no character."""
    name, mark = encoding(data, file)
    try:
        return data[len(mark) :].decode(name, "strict" if name in _STRICT else "replace")
    except UnicodeDecodeError as error:
        line, remedy = data[: len(mark) + error.start].count(b"\n") + 1, "say its encoding, or mend the file"
        raise SettingsError(f"is no {name.upper()}", place=f"{file}:{line}", remedy=remedy) from None


def plain(data: bytes, file: Path, *, keep_places: bool = True) -> bytes:
    """Return a file's text as UTF-8, without its declaration of an encoding and a version. Raises SettingsError.

    keep_places: blanks take its place.
    """
    text = decoded(data, file)
    if match := _DECLARATION.match(text):
        text = (re.sub(r"\S", " ", match[0]) if keep_places else "") + text[match.end() :]
    return text.encode("utf-8", "surrogatepass")


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        message, remedy = f"cannot be read: {error.strerror}", "check the path and its permissions"
        raise SettingsError(message, place=str(file), remedy=remedy) from None


class _Reader:
    """Collects properties."""

    def __init__(self, file: Path, root: Path, depth: int) -> None:
        self._site = SiteFile()
        self._root, self._nesting = root, depth
        self._files = [file]
        """The file, and within it the external entities that are being read."""
        self._parsers: list[expat.XMLParserType] = []
        self._source = b""
        self._depth = self._start = self._line = 0
        self._texts: dict[str, str] = {}
        self._token: list[str] = []
        self._missing: SettingsError | None = None
        """What is wrong with an include whose file is not there, unless it has a fallback."""
        self._in_fallback = False

    def read(self, data: bytes) -> SiteFile:
        parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.StartElementHandler, parser.EndElementHandler = self._begin, self._end
        parser.CharacterDataHandler, parser.CommentHandler = self._token.append, self._comment
        parser.ExternalEntityRefHandler, parser.SkippedEntityHandler = self._entity, self._undeclared
        self._parse(parser, data)
        return self._site

    def _parse(self, parser: expat.XMLParserType, data: bytes) -> None:
        """Parse the last file."""
        file = self._files[-1]
        source = plain(data, file, keep_places=len(self._files) == 1)
        self._parsers.append(parser)
        self._source = self._source or source
        try:
            parser.Parse(source, True)
        except expat.ExpatError as error:
            message = f"not well-formed XML: {expat.ErrorString(error.code)}"
            raise SettingsError(message, place=f"{file}:{error.lineno}", remedy="mend the file") from None
        self._parsers.pop()

    def _begin(self, full_name: str, attributes: Mapping[str, str]) -> None:
        name = full_name.rpartition(" ")[2]
        if not self._depth and not self._site.root:
            self._site.root = name
            if name != "configuration":
                self._ignore(f"the root is <{name}> instead of <configuration>")
        self._depth += 1
        own = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        if name == "property":
            self._start, self._line = self._parsers[-1].CurrentByteIndex, self._parsers[-1].CurrentLineNumber
            self._texts = {key: own[key] for key in _TEXTS if key in own}
        elif name in _TEXTS:
            self._token.clear()
        elif name == "include" and "href" in own:
            self._include(own["href"])
        elif name == "fallback":
            self._in_fallback = True

    def _end(self, full_name: str) -> None:
        name = full_name.rpartition(" ")[2]
        self._depth -= 1
        token = "".join(self._token)
        if name == "property":
            self._property()
        elif name == "final":
            self._texts[name] = token
        elif name in _TEXTS and token:
            self._texts[name] = trimmed(token) if name == "name" else token
        elif name == "include":
            if self._missing is not None and not self._in_fallback:
                raise self._missing
            self._missing, self._in_fallback = None, False
        if not self._depth and len(self._files) == 1:
            self._site.end = self._parsers[-1].CurrentByteIndex

    def _property(self) -> None:
        if self._in_fallback and self._missing is None:
            return
        name = self._texts.get("name", "")
        if not name or name != trimmed(name):
            self._ignore("a <property> without a <name>", self._line)
            return
        final, start, end = self._texts.get("final") == "true", self._start, -1
        if len(self._files) == 1 and self._source.startswith(b"<", start):
            at = self._parsers[-1].CurrentByteIndex
            end = self._source.index(b">", at) + 1 if self._source.startswith(b"</", at) else at
        place = (start, end) if end > start else (-1, -1)
        value, empty = self._texts.get("value", ""), "value" not in self._texts
        self._site.properties.append(Property(name, value, final, self._files[-1], self._line, empty, *place))

    def _comment(self, text: str) -> None:
        if self._depth == 1 and len(self._files) == 1:
            self._site.comments.append((text.strip(), self._parsers[-1].CurrentByteIndex))

    def _include(self, href: str) -> None:
        if self._nesting >= _MAX_INCLUDES:
            raise SettingsError("includes go round in circles", place=self._place(), remedy="remove this include")
        target = self._local(href, self._root)
        if not target.exists():
            message, remedy = f"there is no file {href!r} to include", "correct href, or put <xi:fallback/> into it"
            self._missing = SettingsError(message, place=self._place(), remedy=remedy)
            return
        there = read_site(target, self._root, self._nesting + 1)
        self._site.properties += there.properties
        self._site.ignored += there.ignored

    def _entity(self, context: str | None, base: str | None, name: str | None, public: str | None) -> int:
        file = self._local(name or "", self._files[-1].parent)
        parser = self._parsers[-1].ExternalEntityParserCreate(context, "utf-8")
        data = _bytes(file)
        self._files.append(file)
        self._parse(parser, data)
        self._files.pop()
        return 1

    def _undeclared(self, name: str, is_parameter: bool) -> None:
        raise SettingsError(f"the entity {name} is not declared", place=self._place(), remedy="write what it means")

    def _local(self, name: str, folder: Path) -> Path:
        """Return the file of a relative name, an absolute one, or a URL. Raises SettingsError for one elsewhere."""
        url = urlsplit(name)
        if len(url.scheme) > 1 and (url.scheme != "file" or url.netloc not in ("", "localhost")):
            remedy = "put a copy of it beside this file, and name that"
            raise SettingsError(f"{name} is not read over the network", place=self._place(), remedy=remedy)
        return folder / (unquote(url.path) if url.scheme == "file" else name)

    def _ignore(self, text: str, line: int = 0) -> None:
        line = line or self._parsers[-1].CurrentLineNumber
        self._site.ignored.append(Ignored(self._files[-1], line, text))

    def _place(self) -> str:
        return f"{self._files[-1]}:{self._parsers[-1].CurrentLineNumber}"
