"""Reads descriptions of applications; every mistake is one line with its file, line, place and remedy.

`read` makes an `Application` of a file, with its parameters filled in; `load` a `Template`, which is filled in later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quicksilver_apps.description.checks import (
    environment_mistakes,
    file_mistakes,
    service_mistakes,
    whole_mistakes,
)
from quicksilver_apps.description.document import Document, data_document, parse_text, read_text
from quicksilver_apps.description.mistakes import MAX_MISTAKES, DescriptionError, DescriptionMistake, Steps
from quicksilver_apps.description.model import Application, File, Parameter, Service
from quicksilver_apps.description.templates import (
    FilledData,
    Value,
    as_text,
    chosen_values,
    parameters_of,
    substitute,
    with_stand_ins,
)
from quicksilver_apps.description.upgrades import upgrade, version_mistake
from quicksilver_apps.description.validation import keys_of, valid, validate


@dataclass(frozen=True, slots=True)
class Template:
    """A description with its parameters, some of which a submission has to give."""

    document: Document
    parameters: Mapping[str, Parameter]
    folder: Path | None
    """Where its local files are; None: they are not looked for."""

    def fill(self, values: Mapping[str, Value] | None = None) -> Application:
        """Return the application with these values. Raises DescriptionError with all mistakes."""
        application, mistakes, _ = self._checked(dict(values or {}), frozenset())
        if application is None or mistakes:
            raise self.document.error(mistakes)
        return application

    def check(self, values: Mapping[str, Value] | None = None) -> CheckResult:
        """Return all mistakes; values that are not given yet are none, and what depends on them is not checked."""
        values = dict(values or {})
        stand_ins = frozenset(with_stand_ins(self.parameters, values)) - values.keys()
        _, mistakes, filled = self._checked(with_stand_ins(self.parameters, values), stand_ins)
        error = self.document.error(mistakes) if mistakes else None
        unused = [name for name in self.parameters if name not in filled.used]
        warnings = [
            f"{self.document.name}: parameters.{name}: no ${{parameters.{name}}} refers to it; remove it"
            for name in ([] if error else unused)
        ]
        return CheckResult(error, tuple(warnings), tuple(sorted(stand_ins)))

    def _checked(
        self, values: Mapping[str, Value], stand_ins: frozenset[str]
    ) -> tuple[Application | None, list[DescriptionMistake], FilledData]:
        data = self.document.data
        if not isinstance(data, Mapping):
            problem, remedy = "must be a mapping", f"begin with `version: 1`; keys: {', '.join(keys_of(Application))}"
            return None, [*self.document.mistakes, DescriptionMistake((), problem, remedy)], FilledData()
        if (wrong := version_mistake(data)) is not None:
            return None, [wrong], FilledData()
        data = upgrade(dict(data))
        parameters, mistakes = parameters_of(data)
        arguments, more = chosen_values(data, parameters, values)
        filled = substitute(data, arguments, stand_ins)
        application, wrong_form = _form(filled)
        mistakes = [*self.document.mistakes, *_parameters_form(data), *mistakes, *more, *filled.mistakes, *wrong_form]
        mistakes += _meaning(filled.data, self.folder)
        sure = [mistake for mistake in mistakes if filled.unsure.isdisjoint((mistake.path, *mistake.depends_on))]
        return application, sure, filled


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check."""

    error: DescriptionError | None
    warnings: tuple[str, ...]
    to_give: tuple[str, ...]
    """Parameters without a default, whose values a submission has to give."""


def read(path: Path | str, values: Mapping[str, Value] | None = None) -> Application:
    """Return the application that a file describes, in YAML or JSON, with its parameters filled in.

    Local files that it names are sought from its folder. Raises DescriptionError with all mistakes.
    """
    return load(path).fill(values)


def parse(text: str, name: str, values: Mapping[str, Value] | None = None, folder: Path | None = None) -> Application:
    """Return the application that a text describes; `name` is what errors name. Raises DescriptionError."""
    return parse_template(text, name, folder).fill(values)


def from_data(data: object, name: str = "description", values: Mapping[str, Value] | None = None) -> Application:
    """Return the application that JSON data describes, as an API gets it; errors have no lines.

    Local files are not looked for. Raises DescriptionError.
    """
    return template_from_data(data, name).fill(values)


def load(path: Path | str) -> Template:
    """Return the template that a file holds. Raises DescriptionError when it is no YAML or JSON, or cannot be read."""
    path = Path(path)
    return parse_template(read_text(path), str(path), path.parent)


def parse_template(text: str, name: str, folder: Path | None = None) -> Template:
    """Return the template that a text holds. Raises DescriptionError when it is no YAML or JSON."""
    return _template(parse_text(text, name), folder)


def template_from_data(data: object, name: str = "description") -> Template:
    """Return the template that JSON data holds. Raises DescriptionError when it is too large."""
    return _template(data_document(data, name), None)


def _template(document: Document, folder: Path | None) -> Template:
    parameters, _ = parameters_of(document.data) if isinstance(document.data, Mapping) else ({}, [])
    return Template(document, parameters, folder)


def _parameters_form(data: Mapping[str, Any]) -> list[DescriptionMistake]:
    """Return the mistakes of the key `parameters` as a whole, and of the names in it."""
    _, mistakes = validate(Application, {**_LEAST, "parameters": data.get("parameters", {})})
    return mistakes


_LEAST = {"version": 1, "name": "a", "services": [{"name": "a", "command": "a", "resources": {"memory_mb": 1}}]}
"""An application that is right but for its parameters."""


def _form(filled: FilledData) -> tuple[Application | None, list[DescriptionMistake]]:
    """Return the application and the mistakes of its form; a whole value where text is wanted becomes text."""
    application, mistakes = validate(Application, filled.data)
    texts = [
        mistake.path
        for mistake in mistakes
        if mistake.path in filled.whole and mistake.problem.startswith("must be text, got")
    ]
    if texts:
        for path in texts:
            _put_text(filled.data, path)
        application, mistakes = validate(Application, filled.data)
    return application, mistakes


def _put_text(data: Any, path: Steps) -> None:
    *above, last = path
    for step in above:
        data = data[step]
    data[last] = as_text(data[last])


def _meaning(data: Mapping[str, Any], folder: Path | None) -> list[DescriptionMistake]:
    """Return the mistakes beyond the form, in the parts whose form is right."""
    entries = data["services"] if isinstance(data.get("services"), list) else []
    services: dict[int, Service] = {}
    for number, entry in enumerate(entries):
        if (service := valid(Service, entry)) is not None:
            services[number] = service
    mistakes = [*whole_mistakes(data, services)]
    common = _files(data.get("files"))
    mistakes += file_mistakes(common, folder)
    for number, service in services.items():
        if len(mistakes) >= MAX_MISTAKES:
            break  # more are not shown, and would cost seconds
        place: Steps = ("services", number)
        mistakes += service_mistakes(service, place)
        own = [((*place, "files", at), file) for at, file in enumerate(service.files)]
        theirs = {(mistake.path, mistake.problem) for mistake in mistakes}
        mistakes += [
            mistake
            for mistake in file_mistakes([*common, *own], folder)
            if (mistake.path, mistake.problem) not in theirs
        ]
    environment = data.get("environment")
    return [*mistakes, *environment_mistakes(environment if isinstance(environment, Mapping) else {}, ())]


def _files(entries: object) -> list[tuple[Steps, File]]:
    """Return the files of all services whose form is right, with their places."""
    right: list[tuple[Steps, File]] = []
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if (file := valid(File, entry)) is not None:
            right.append((("files", number), file))
    return right
