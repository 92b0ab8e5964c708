"""Reads quicksilver.yaml, and reports every mistake in it with line, column and remedy.

One file for all: `policies:` (what is chosen and how), `proxy:`, `sidecar:`, `tracker:`, `app_server:`, `security:`,
`hadoop_conf_dir:`. A program checks only the sections that it uses.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.tag import Tag

from policies.config.notes import notes
from policies.config.policy_set import Policies
from policies.config.presets import DEFAULT
from policies.config.registry import Registry
from policies.config.unintended import unintended
from policies.config.validation import Path as Steps
from policies.config.validation import shorten, validate
from policies.errors import Mistake, SettingsMistakesError, close_to
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.security import SecuritySettings
from quicksilver.common.process.masking import masked
from quicksilver.common.settings.calendar import calendar_mistakes
from quicksilver.common.settings.start_checks import refused_at_start

M = TypeVar("M", bound=BaseModel)

FILE_NAME: Final = "quicksilver.yaml"
VARIABLE: Final = "QUICKSILVER_CONFIG"
SYSTEM_WIDE: Final = Path("/etc/quicksilver") / FILE_NAME
SECTIONS: Final = ("policies", "proxy", "sidecar", "tracker", "app_server", "security", "audit", "tracing")
TOP_LEVEL: Final = (*SECTIONS, "hadoop_conf_dir")
UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError)
"""What the YAML library raises for a value that is not of its explicit type, such as `!!int x` or a 13th month."""
EMPTY: Final = (
    "is empty, as after an interrupted write; write `policies: {}` for the defaults, under which all YARN queues may "
    "have queueable containers, or `policies: {preset: stock}` for none"
)
_PLACE: Final = re.compile(r".*?:(\d+):(\d+): ")
MAX_BYTES: Final = 1 << 20
MAX_VALUES: Final = 50_000
MAX_DEPTH: Final = 30


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the file, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class At:
    """Where a setting's key and its value stand; list items have the same for both."""

    key: Position
    value: Position


class SettingsFileError(QuicksilverError):
    """The settings file cannot be used; one line for each mistake, as `file:line:column: setting: what is wrong`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(masked("".join(c if c.isprintable() else " " for c in line)) for line in lines)
        super().__init__("\n".join(self.lines))


class NoYamlError(SettingsFileError):
    """The file, or a section of it, is no YAML."""

    def __init__(self, lines: Sequence[str], line: int) -> None:
        super().__init__(lines)
        self.line = line
        """Where the section begins to be none, from 1."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as it was read, or the defaults when there is none (`path` is None)."""

    path: Path | None
    data: Mapping[str, Any] = field(default_factory=dict)
    positions: Mapping[Steps, At] = field(default_factory=dict)
    """Where each setting stands, by its keys and list positions from the top."""

    def section(self, name: str, model: type[M]) -> M:
        """Return a top-level section, checked; the model's defaults when it is not there.

        Raises SettingsFileError with all mistakes of the section.
        """
        section, mistakes = validate(model, self.data.get(name), (name,))
        if section is None:
            raise self.error(mistakes)
        return section

    def policies(self, registry: Registry | None = None) -> Policies:
        """Return the policies of the `policies:` section; without one, or with an empty one, the preset `default`.

        Raises SettingsFileError with all mistakes of the section.
        """
        try:
            return _policies(self.data.get("policies"), registry)
        except SettingsMistakesError as error:
            raise self.error(error.mistakes) from error

    def security(self) -> SecuritySettings:
        """Return the section `security:`, checked. Raises SettingsFileError."""
        return self.section("security", SecuritySettings)

    @property
    def hadoop_conf_dir(self) -> Path | None:
        """Return the directory of Hadoop's own configuration files, if the file names one."""
        value = self.data.get("hadoop_conf_dir")
        return None if value is None else Path(value).expanduser()

    def error(self, mistakes: Sequence[Mistake]) -> SettingsFileError:
        """Return the error for these mistakes, in the order of the file."""
        name = str(self.path or FILE_NAME)
        placed = sorted(((self.position(m), m) for m in mistakes), key=lambda p: (p[0].line, p[0].column, str(p[1])))
        return SettingsFileError([f"{name}:{at.line}:{at.column}: {mistake}" for at, mistake in placed])

    def position(self, mistake: Mistake) -> Position:
        """Return where a mistake stands; what is missing stands at the key that should hold it."""
        steps = mistake.path
        at = self.positions.get(steps)
        if at is not None:
            return at.key if mistake.on_key else at.value
        while steps and steps not in self.positions:
            steps = steps[:-1]
        return self.positions[steps].key if steps else Position(1, 1)


def find_settings() -> Path | None:
    """Return $QUICKSILVER_CONFIG, ./quicksilver.yaml or /etc/quicksilver/quicksilver.yaml: the first that is there.

    A file that $QUICKSILVER_CONFIG names is returned even when it does not exist, so that reading it says so.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    return next((path for path in (Path(FILE_NAME), SYSTEM_WIDE) if path.exists()), None)


def load_settings(path: Path | str | None = None) -> SettingsFile:
    """Read a settings file, or the one that `find_settings` finds; no file there means all defaults.

    Raises SettingsFileError when the file cannot be read, is no YAML, or has unknown or doubled keys.
    """
    file = find_settings() if path is None else Path(path)
    return SettingsFile(None) if file is None else parse_settings(_read(file), file)


@dataclass(frozen=True, slots=True)
class Settings:
    """A settings file, checked as a whole."""

    path: Path | None
    sections: Mapping[str, BaseModel]
    """Those that were asked for, by name."""
    policies: Policies


def read_settings(
    path: Path | str | None, models: Mapping[str, type[BaseModel]], registry: Registry | None = None
) -> Settings:
    """Read a settings file once and check all of it: its form, `policies:`, and the sections of `models`.

    Raises SettingsFileError with all mistakes, in the order of the file.
    """
    file = find_settings() if path is None else Path(path)
    if file is None:
        return _checked(SettingsFile(None), [], models, registry)
    return _read_whole(_read(file), file, models, registry)


def _read_whole(text: str, path: Path, models: Mapping[str, type[BaseModel]], registry: Registry | None) -> Settings:
    """Read and check a text; where a section is no YAML, the others are checked all the same."""
    try:
        file, mistakes = _parse(text, path)
    except NoYamlError as error:
        rest = without_section(text, error.line)
        if rest.strip():
            try:
                _read_whole(rest, path, models, registry)
            except NoYamlError as more:
                further = [line for line in more.lines if "found undefined alias" not in line]
                raise NoYamlError(_by_line([*error.lines, *further]), more.line) from error
            except SettingsFileError as more:
                raise SettingsFileError(_by_line([*error.lines, *more.lines])) from error
        raise
    return _checked(file, mistakes, models, registry)


def _checked(
    file: SettingsFile,
    mistakes: list[Mistake],
    models: Mapping[str, type[BaseModel]],
    registry: Registry | None,
) -> Settings:
    data: Mapping[str, Any] = file.data if isinstance(file.data, Mapping) else {}
    sections: dict[str, BaseModel] = {}
    for name, model in models.items():
        if isinstance(data.get(name), Mapping | None):  # else it is among the mistakes already
            section, wrong = validate(model, data.get(name), (name,))
            mistakes = _first_of_each(mistakes, wrong)
            if section is not None:
                sections[name] = section
    try:
        raw = data.get("policies")
        policies = _policies(raw if isinstance(raw, Mapping) else None, registry)
    except SettingsMistakesError as error:
        raise file.error(_first_of_each(mistakes, error.mistakes)) from error
    if mistakes:
        raise file.error(mistakes)
    return Settings(file.path, sections, policies)


def _by_line(lines: Sequence[str]) -> list[str]:
    """Return lines of mistakes in the order of the file."""

    def key(line: str) -> tuple[int, int]:
        match = _PLACE.match(line)
        return (int(match[1]), int(match[2])) if match is not None else (0, 0)

    return sorted(lines, key=key)


def without_section(text: str, line: int) -> str:
    """Return the text with the top-level section around a line (from 1) left blank; "" if nothing else is left.

    Other lines keep their numbers. Without a section there, the line itself is left blank.
    """
    lines = text.splitlines()
    heads = [number for number, row in enumerate(lines) if row[:1].strip() and row[0] not in "#-}]"]
    at = min(line, len(lines)) - 1
    first = max((number for number in heads if number <= at), default=at)
    end = min((number for number in heads if number > first), default=len(lines))
    result = [*lines[:first], *[""] * (end - first), *lines[end:]]
    return "\n".join(result) if any(row.strip() and not row.lstrip().startswith("#") for row in result) else ""


def _policies(data: Mapping[str, Any] | None, registry: Registry | None) -> Policies:
    mistakes = calendar_mistakes(data or {}, ("policies",))
    try:
        policies = Policies.load(data or {"preset": DEFAULT}, registry, ("policies",))
    except SettingsMistakesError as error:
        raise SettingsMistakesError([*error.mistakes, *mistakes]) from error
    if mistakes:
        raise SettingsMistakesError(mistakes)
    return policies


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check; each line names file, line and column."""

    path: Path | None
    mistakes: list[str]
    """In the order of the file."""
    warnings: list[str]
    """Settings that are allowed, but are probably not meant, or with which a daemon does not start on this host."""
    notes: list[str]
    """Remarks on the section `policies`, without a place."""


def check_settings(
    path: Path | str | None = None,
    models: Mapping[str, type[BaseModel]] | None = None,
    registry: Registry | None = None,
) -> Checked:
    """Check all of a settings file at once: its form, `policies:`, and the sections that `models` has a model for."""
    file = find_settings() if path is None else Path(path)
    warning_lines = settings_warnings(file)
    try:
        return Checked(file, [], warning_lines, notes(read_settings(path, models or {}, registry).policies))
    except SettingsFileError as error:
        return Checked(file, list(error.lines), warning_lines, [])


def settings_warnings(path: Path | None) -> list[str]:
    """Return a line for each warning about a file; none for one that cannot be read."""
    try:
        file = SettingsFile(None) if path is None else _parse(_read(path), path)[0]
    except SettingsFileError:
        return []
    data = file.data if isinstance(file.data, Mapping) else {}
    raw = data.get("policies")
    mistakes = [*unintended(raw if isinstance(raw, Mapping) else {}, ("policies",)), *refused_at_start(data)]
    return list(file.error(mistakes).lines)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise SettingsFileError(
            [f"{path}: {why}; name a settings file that can be read (or set {VARIABLE})"]
        ) from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SettingsFileError([f"{path}:{line}:1: is not UTF-8 text; save the file as UTF-8"]) from error
    if len(content) > MAX_BYTES:
        raise SettingsFileError([f"{path}: is larger than {MAX_BYTES} bytes; is it a settings file?"])
    return text


def parse_settings(text: str, path: Path) -> SettingsFile:
    """Return the settings in `text`; `path` is what errors name. Raises SettingsFileError."""
    file, mistakes = _parse(text, path)
    if mistakes:
        raise file.error(mistakes)
    return file


def _parse(text: str, path: Path) -> tuple[SettingsFile, list[Mistake]]:
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True  # `_Walk` finds them, and the first one counts for further checks
    walk = _Walk()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # YAML lets an anchor be set anew
            root = yaml.compose(text)
        if root is None:
            return SettingsFile(path), [Mistake((), EMPTY)]
        walk.visit(root, (), 0)
        if not walk.constructible:
            return SettingsFile(path, positions=walk.positions), walk.mistakes
        data = _constructed(yaml, root, walk)
    except _TooMuchError as error:
        raise SettingsFileError([f"{path}: {error}"]) from error
    except YAMLError as error:
        raise NoYamlError([_syntax(error, path, text)], _begin(error)) from error
    except UNREADABLE as error:
        cannot = Mistake((), f"cannot be read: {error}")
        raise SettingsFile(path, positions=walk.positions).error([*walk.mistakes, cannot]) from error
    return SettingsFile(path, data, walk.positions), _first_of_each(walk.mistakes, _top_level(data))


def _constructed(yaml: YAML, root: Node, walk: _Walk) -> Any:
    """Return the values; one that its own YAML type cannot read is a mistake, and text in further checks."""
    try:
        return yaml.constructor.construct_document(root)
    except UNREADABLE:
        walk.take_unreadable_as_text()
        again = YAML(typ="safe", pure=True)
        again.allow_duplicate_keys = True
        return again.constructor.construct_document(root)


def _first_of_each(before: Sequence[Mistake], more: Sequence[Mistake]) -> list[Mistake]:
    """Return all mistakes, of `more` only those at other keys and values."""
    places = {(mistake.path, mistake.on_key) for mistake in before}
    return [*before, *(mistake for mistake in more if (mistake.path, mistake.on_key) not in places)]


def _top_level(data: object) -> list[Mistake]:
    if not isinstance(data, Mapping):
        return [Mistake((), f"must be a mapping with the keys {', '.join(TOP_LEVEL)}, got {shorten(data)}")]
    unknown = [key for key in data if key not in TOP_LEVEL]
    mistakes = [Mistake((str(key),), f"unknown section; {close_to(str(key), TOP_LEVEL)}", True) for key in unknown]
    for name in SECTIONS:
        if not isinstance(data.get(name), Mapping | None):
            mistakes.append(Mistake((name,), f"must be a mapping (key: value), got {shorten(data[name])}"))
    if not isinstance(data.get("hadoop_conf_dir"), str | None):
        mistakes.append(Mistake(("hadoop_conf_dir",), f"must be a directory, got {shorten(data['hadoop_conf_dir'])}"))
    return mistakes


def _begin(error: YAMLError) -> int:
    """Return the line where what is no YAML begins, from 1."""
    marks = (getattr(error, name, None) for name in ("context_mark", "problem_mark"))
    return next((mark.line + 1 for mark in marks if mark is not None), 1)


def _syntax(error: YAMLError, path: Path, text: str) -> str:
    """Return one line for a file that is no YAML."""
    if not isinstance(error, MarkedYAMLError):
        return f"{path}: is no YAML: {' '.join(str(error).split())}"
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    lines = text.splitlines()
    near = lines[line - 1] if line <= len(lines) else ""
    if "\t" in near[: len(near) - len(near.lstrip())]:
        return f"{path}:{line}:{near.index(chr(9)) + 1}: a tab indents this line; YAML takes only spaces"
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    return f"{path}:{line}:{column}: is no YAML: {problem}"


class _TooMuchError(Exception):
    """The file expands to more than a settings file can mean."""


class _Walk:
    """Finds the position of every value, and doubled keys; aliases count each time, within bounds."""

    def __init__(self) -> None:
        self.positions: dict[Steps, At] = {}
        self.mistakes: list[Mistake] = []
        self.scalars: list[tuple[Steps, ScalarNode]] = []
        self.seen = 0
        self.constructible = True
        """Whether all keys are text."""

    def visit(self, node: Node, steps: Steps, depth: int) -> None:
        self.seen += 1
        if self.seen > MAX_VALUES or depth > MAX_DEPTH:
            raise _TooMuchError(
                f"holds more than {MAX_VALUES} values or {MAX_DEPTH} levels; is an alias used in itself?"
            )
        if not steps:
            self.positions[()] = At(_start(node), _start(node))
        if isinstance(node, ScalarNode):
            self.scalars.append((steps, node))
        for at, step, value in self._children(node, steps):
            self.positions[(*steps, step)] = at
            self.visit(value, (*steps, step), depth + 1)

    def take_unreadable_as_text(self) -> None:
        """Find the values that their own YAML type cannot read, such as a date with month 13, and make them text."""
        for steps, node in self.scalars:
            try:
                YAML(typ="safe", pure=True).constructor.construct_object(node)
            except UNREADABLE as error:
                why = f"'{node.value}' cannot be read ({error}); quote it when it is text"
                self.mistakes.append(Mistake(steps, why))
                node.ctag = Tag(suffix="tag:yaml.org,2002:str")

    def _children(self, node: Node, steps: Steps) -> Iterator[tuple[At, str | int, Node]]:
        if isinstance(node, SequenceNode):
            for number, item in enumerate(node.value):
                yield At(_start(item), _start(item)), number, item
        elif isinstance(node, MappingNode):
            yield from self._pairs(node, steps)

    def _pairs(self, node: MappingNode, steps: Steps) -> Iterator[tuple[At, str | int, Node]]:
        first: dict[str, Position] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.mistakes.append(Mistake(steps, "a key must be plain text"))
                self.constructible = False
                continue
            if (key.tag or "").endswith(":merge"):
                merged = value.value if isinstance(value, SequenceNode) else [value]
                for source in merged:
                    yield from self._pairs(source, steps) if isinstance(source, MappingNode) else ()
                continue
            at = _start(key)
            if key.value in first:
                earlier = first[key.value]
                where = (*steps, key.value)
                self.positions[where] = At(at, self.positions[where].value)  # the first value counts for further checks
                self.mistakes.append(Mistake(where, f"is there twice, first in line {earlier.line}; keep one", True))
            else:
                first[key.value] = at
                yield At(at, _start(value)), key.value, value


def _start(node: Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)
