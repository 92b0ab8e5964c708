"""The text of a description as data, with the line of each value. YAML 1.2 or JSON, within bounds."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from quicksilver_apps.description.mistakes import MAX_LINES, DescriptionError, DescriptionMistake, Steps

MAX_BYTES: Final = 1 << 18
MAX_CHARACTERS: Final = 4 << 20
"""Of all values together, each alias counted where it stands."""
MAX_VALUES: Final = 50_000
MAX_DEPTH: Final = 30
_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = frozenset(f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp"))
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError)
"""What the YAML library raises for a value that is not of its explicit type, such as `!!int x`."""
_SMALLER: Final = "keep descriptions small; put data into files"

Lines = Mapping[Steps, tuple[int, int]]
"""The lines of each key and of its value, from 1; list items have the same for both."""


@dataclass(frozen=True)
class Document:
    """A description as it was read; it may have any form."""

    name: str
    """As errors name it."""
    data: Any
    text: str = ""
    """"": it came as data, so that errors have no lines."""
    built: Lines | None = None
    """Lines, where they are known already."""
    mistakes: tuple[DescriptionMistake, ...] = ()
    """Those of its form: doubled keys, values that are no text."""

    @cached_property
    def lines(self) -> Lines:
        """The lines of all values; for JSON they are sought at the first mistake."""
        if self.built is not None or not self.text:
            return self.built or {}
        try:
            builder = _built_of_json(self.text)
        except (YAMLError, RecursionError, _TooMuchError):
            return {}  # JSON that is no YAML: its mistakes are at line 1
        return builder.lines

    def line(self, mistake: DescriptionMistake) -> int:
        """Return the line of a mistake; what is missing stands at the key that should hold it."""
        at = self.lines.get(mistake.path)
        if at is not None:
            return at[0] if mistake.on_key else at[1]
        steps = mistake.path
        while steps and steps not in self.lines:
            steps = steps[:-1]
        return self.lines[steps][0] if steps in self.lines else 1

    def error(self, mistakes: Iterable[DescriptionMistake]) -> DescriptionError:
        """Return the error for these mistakes, in the order of the file, the first of each place alone."""
        first: dict[tuple[Steps, bool], DescriptionMistake] = {}
        for mistake in mistakes:
            first.setdefault((mistake.path, mistake.on_key), mistake)
        placed = sorted(first.values(), key=lambda mistake: (self.line(mistake), mistake.place, mistake.problem))
        shown = placed if len(placed) <= MAX_LINES else placed[: MAX_LINES - 1]
        lines = [
            f"{self.name}:{self.line(mistake)}: {mistake}" if self.text else f"{self.name}: {mistake}"
            for mistake in shown
        ]
        if len(placed) > len(shown):
            lines.append(f"{self.name}: {len(placed) - len(shown)} more mistakes; mend these first")
        return DescriptionError(lines, placed)


def read_text(path: Path) -> str:
    """Return the text of a file. Raises DescriptionError when it cannot be read, is too large, or is no UTF-8."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise DescriptionError([f"{path}: cannot be read: {why}; name a file that can be read"]) from error
    if len(content) > MAX_BYTES:
        raise DescriptionError([f"{path}: is larger than {MAX_BYTES} bytes; {_SMALLER}"])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DescriptionError([f"{path}:{line}: syntax: is no UTF-8 text; save the file as UTF-8"]) from error


def parse_text(text: str, name: str) -> Document:
    """Return the data of YAML or JSON text; a name that ends in `.json` says which.

    Raises DescriptionError when it is neither, or too large.
    """
    if len(text) > MAX_BYTES:
        raise DescriptionError([f"{name}: is larger than {MAX_BYTES} bytes; {_SMALLER}"])
    try:
        if name.endswith(".json") or text.lstrip().startswith("{"):
            try:
                return _json(text, name)
            except ValueError as error:
                if name.endswith(".json"):
                    raise _json_error(error, name) from error
        return _yaml(text, name)
    except RecursionError as error:
        raise DescriptionError([f"{name}: holds more than {MAX_DEPTH} levels; {_SMALLER}"]) from error
    except _TooMuchError as error:
        raise DescriptionError([f"{name}: {error}"]) from error


def data_document(data: object, name: str) -> Document:
    """Return data of an API as a document, without lines. Raises DescriptionError when it is too large."""
    try:
        return Document(name, data, mistakes=tuple(_text_mistakes(data)))
    except _TooMuchError as error:
        raise DescriptionError([f"{name}: {error}"]) from error


class _TooMuchError(Exception):
    """It holds more than a description can mean."""


class _Bounds:
    """Counts what a description holds."""

    def __init__(self) -> None:
        self.values = self.characters = 0

    def add(self, characters: int, depth: int) -> None:
        """Count a value. Raises _TooMuchError."""
        self.values, self.characters = self.values + 1, self.characters + characters
        if self.values > MAX_VALUES or depth > MAX_DEPTH:
            remedy = "remove aliases that are used in themselves, or many times"
            raise _TooMuchError(f"holds more than {MAX_VALUES} values or {MAX_DEPTH} levels; {remedy}")
        if self.characters > MAX_CHARACTERS:
            raise _TooMuchError(f"holds more than {MAX_CHARACTERS} characters with all aliases; {_SMALLER}")


def _json(text: str, name: str) -> Document:
    doubled = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal doubled
        mapping = dict(items)
        doubled = doubled or len(mapping) < len(items)
        return mapping

    data = json.loads(text, object_pairs_hook=pairs)
    if not doubled:
        return Document(name, data, text, mistakes=tuple(_text_mistakes(data)))
    try:
        builder = _built_of_json(text)
    except YAMLError as error:
        raise DescriptionError([f"{name}:1: syntax: has a key twice in one object; keep one"]) from error
    return Document(name, data, text, builder.lines, (*builder.mistakes, *_text_mistakes(data)))


def _built_of_json(text: str) -> _Builder:
    """Return the lines of JSON, which is YAML once no tab is in it; they stand between values alone."""
    builder = _Builder()
    root = _compose(text.replace("\t", " "))
    if root is not None:
        builder.build(root, ())
    return builder


def _json_error(error: ValueError, name: str) -> DescriptionError:
    if not isinstance(error, json.JSONDecodeError):
        return DescriptionError([f"{name}:1: syntax: is no JSON: {error}; mend it"])
    problem = f"{error.msg[:1].lower()}{error.msg[1:]}"
    remedy = "check commas, quotes and brackets there"
    return DescriptionError([f"{name}:{error.lineno}: syntax: is no JSON: {problem}; {remedy}"])


def _yaml(text: str, name: str) -> Document:
    try:
        root = _compose(text)
    except YAMLError as error:
        raise DescriptionError([_syntax(error, name, text)]) from error
    if root is None:
        empty = DescriptionMistake((), "is empty", "begin with `version: 1`")
        return Document(name, None, text or "\n", {}, (empty,))
    builder = _Builder()
    data = builder.build(root, ())
    return Document(name, data, text, builder.lines, (*builder.mistakes, *_text_mistakes(data)))


def _compose(text: str) -> Node | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReusedAnchorWarning)  # YAML lets an anchor be set anew
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
        return root


def _syntax(error: YAMLError, name: str, text: str) -> str:
    """Return one line for a text that is no YAML."""
    if not isinstance(error, MarkedYAMLError):
        return f"{name}:1: syntax: is no YAML: {' '.join(str(error).split())}; save plain text"
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    near = lines[line - 1] if line <= len(lines) else ""
    if "\t" in near[: len(near) - len(near.lstrip())]:
        return f"{name}:{line}: syntax: a tab indents this line; use spaces"
    problem = ", ".join(" ".join(part.split()) for part in (error.context, error.problem) if part)
    return f"{name}:{line}: syntax: is no YAML: {problem}; check indentation, colons and quotes there"


def _text_mistakes(data: object) -> Iterator[DescriptionMistake]:
    """Yield values that no JSON message and no shell can hold."""
    bounds = _Bounds()

    def visit(value: object, steps: Steps) -> Iterator[DescriptionMistake]:
        bounds.add(len(value) if isinstance(value, str) else 0, len(steps))
        if isinstance(value, str) and "\0" in value:
            yield DescriptionMistake(steps, "holds a NUL character", "remove it")
        elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            yield DescriptionMistake(
                steps, "holds half of a character (a lone surrogate)", "write the character itself"
            )
        elif isinstance(value, float) and not isfinite(value):
            yield DescriptionMistake(steps, "is no finite number", "write a number")
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield from visit(item, (*steps, str(key)))
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for number, item in enumerate(value):
                yield from visit(item, (*steps, number))

    return visit(data, ())


class _Builder:
    """Makes data of YAML nodes, with their lines; finds doubled keys and foreign types."""

    def __init__(self) -> None:
        self.lines: dict[Steps, tuple[int, int]] = {}
        self.mistakes: list[DescriptionMistake] = []
        self._bounds = _Bounds()
        self._constructor = YAML(typ="safe", pure=True).constructor

    def build(self, node: Node, steps: Steps) -> Any:
        """Return the value of a node. Raises _TooMuchError."""
        self._bounds.add(len(node.value) if isinstance(node, ScalarNode) else 0, len(steps))
        if not steps:
            self.lines[()] = (_line(node), _line(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, steps)
        if isinstance(node, SequenceNode):
            return [self._item(item, (*steps, number)) for number, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self._scalar(node, steps)

    def _item(self, node: Node, steps: Steps) -> Any:
        self.lines[steps] = (_line(node), _line(node))
        return self.build(node, steps)

    def _scalar(self, node: ScalarNode, steps: Steps) -> Any:
        tag = str(node.tag or f"{_TAG}str")
        if tag not in _SCALARS:
            kind = tag.replace(_TAG, "!!")
            self.mistakes.append(
                DescriptionMistake(steps, f"has the YAML type {kind}", "write text, a number, true or false")
            )
            return node.value
        if tag == f"{_TAG}timestamp":
            return node.value  # as it is written
        try:
            return self._constructor.construct_object(node)
        except _UNREADABLE:
            wrong = DescriptionMistake(steps, f"'{node.value}' is no {tag.removeprefix(_TAG)}", "put quotes around it")
            self.mistakes.append(wrong)
            return node.value

    def _mapping(self, node: MappingNode, steps: Steps) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: list[Node] = []
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.lines[(*steps, "?")] = (_line(key), _line(key))
                self.mistakes.append(DescriptionMistake((*steps, "?"), "a key is no text", "write `key: value`"))
            elif str(key.tag or "").endswith(":merge"):
                merged += value.value if isinstance(value, SequenceNode) else [value]
            elif key.value in mapping:
                where = (*steps, key.value)
                twice = f"is there twice, first in line {self.lines[where][0]}"
                self.mistakes.append(DescriptionMistake(where, twice, "keep one", on_key=True))
                self.lines[where] = (_line(key), self.lines[where][1])
            else:
                where = (*steps, key.value)
                self.lines[where] = (_line(key), _line(value))
                mapping[key.value] = self.build(value, where)
        for source in merged:
            self._merge(source, steps, mapping)
        return mapping

    def _merge(self, source: Node, steps: Steps, mapping: dict[str, Any]) -> None:
        """Add the keys of `<<: *source` that the mapping itself has not."""
        if not isinstance(source, MappingNode):
            self.mistakes.append(
                DescriptionMistake(steps, "has `<<` of something that is no mapping", "name a mapping's alias")
            )
            return
        self._bounds.add(0, len(steps))
        own = {step: self.lines[(*steps, step)] for step in mapping}
        for key, value in self._mapping(source, steps).items():
            mapping.setdefault(key, value)
        self.lines.update({(*steps, step): at for step, at in own.items()})


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
