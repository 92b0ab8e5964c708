"""Parameters of a description: `${parameters.NAME}` in its strings stands for a value that a submission gives.

A string that is one reference alone becomes the value with its type, so that `core: ${parameters.workers}` is a number.
`$${parameters.NAME}` stands for the text `${parameters.NAME}`. All else that begins with `$` is the shell's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from policies.errors import close_names, close_to
from quicksilver_apps.description.document import MAX_CHARACTERS, data_document
from quicksilver_apps.description.mistakes import MAX_HINTS, MAX_MISTAKES, DescriptionError, DescriptionMistake, Steps
from quicksilver_apps.description.model import Parameter
from quicksilver_apps.description.validation import validate

Value = str | int | float | bool
MAX_VALUE_CHARACTERS: Final = 10_000
_REFERENCE: Final = re.compile(r"(\$?)\$\{parameters\.([^}]*)(\}?)")
_ALONE: Final = re.compile(r"\$\{parameters\.([a-z][a-z0-9-]*)\}")
_OTHER: Final = re.compile(r"(?<!\$)\$\{([A-Za-z_]\w*)\.([^}]*)\}")
_KINDS: Final = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text"}
_STAND_INS: Final[Mapping[str, Value]] = {"string": "value", "integer": 1, "number": 1.0, "boolean": False}


@dataclass(slots=True)
class FilledData:
    """Data with values in place of references, and what is known of each place."""

    data: Any = None
    whole: dict[Steps, Value] = field(default_factory=dict)
    """The places that were one reference alone, with their values."""
    used: set[str] = field(default_factory=set)
    """The parameters that are referred to."""
    unsure: set[Steps] = field(default_factory=set)
    """The places whose value is not known: it has a stand-in, or is wrong."""
    mistakes: list[DescriptionMistake] = field(default_factory=list)


def fill(application_data: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Any]:
    """Return data of a description with its parameters filled in, and without the key `parameters`.

    Raises DescriptionError for missing, unknown and wrong values, and for references to no parameter.
    """
    document = data_document(application_data, "description")
    parameters, mistakes = parameters_of(application_data)
    arguments, more = chosen_values(application_data, parameters, values)
    filled = substitute(application_data, arguments)
    wrong = [*document.mistakes, *mistakes, *more, *filled.mistakes]
    if wrong:
        raise document.error(wrong)
    data: dict[str, Any] = filled.data
    return data


def escape(data: Any) -> Any:
    """Return filled data in which `${parameters.` is written so that a reader leaves it as it is."""
    if isinstance(data, str):
        return data.replace("${parameters.", "$${parameters.")
    if isinstance(data, Mapping):
        return {key: escape(value) for key, value in data.items()}
    return [escape(value) for value in data] if isinstance(data, list | tuple) else data


def command_line_values(items: Sequence[str]) -> dict[str, Value]:
    """Return the values of `--set NAME=VALUE` options, the last one of each name.

    Raises DescriptionError for one without a name or `=`.
    """
    values: dict[str, Value] = {}
    for item in items:
        name, sign, value = item.partition("=")
        if not sign or not name.strip():
            raise DescriptionError([f"--set {item}: is no NAME=VALUE; write --set NAME=VALUE"])
        values[name.strip()] = value
    return values


def parameters_of(data: Mapping[str, Any]) -> tuple[dict[str, Parameter], list[DescriptionMistake]]:
    """Return the parameters that are described, those alone that are right, and the mistakes in the others."""
    described = data.get("parameters")
    if not isinstance(described, Mapping):
        return {}, []  # the check of the whole description says that it must be a mapping
    parameters: dict[str, Parameter] = {}
    mistakes: list[DescriptionMistake] = []
    for name, content in described.items():
        parameter, wrong = validate(Parameter, content, ("parameters", str(name)))
        mistakes += wrong
        if parameter is not None:
            wrong = _parameter_mistakes(str(name), parameter)
            mistakes += wrong
            if not wrong:
                parameters[str(name)] = parameter
    return parameters, mistakes


def _parameter_mistakes(name: str, parameter: Parameter) -> list[DescriptionMistake]:
    place, noun = ("parameters", name), _KINDS[parameter.type]
    mistakes = [
        DescriptionMistake((*place, "choices", number), f"must be {noun}, as `type` says", "change it, or `type`")
        for number, choice in enumerate(parameter.choices)
        if not _is_of(choice, parameter.type)
    ]
    default = parameter.default
    if isinstance(default, str) and "${parameters." in default:
        mistakes.append(DescriptionMistake((*place, "default"), "refers to a parameter", "write the value itself"))
    elif default is not None and not _is_of(default, parameter.type):
        mistakes.append(
            DescriptionMistake((*place, "default"), f"must be {noun}, as `type` says", "change it, or `type`")
        )
    elif default is not None and parameter.choices and default not in parameter.choices:
        mistakes.append(
            DescriptionMistake((*place, "default"), "is none of the choices", f"write {_listed(parameter.choices)}")
        )
    return mistakes


def _is_of(value: object, kind: str) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole or (kind == "number" and isinstance(value, float))


def chosen_values(
    data: Mapping[str, Any], parameters: Mapping[str, Parameter], values: Mapping[str, Value]
) -> tuple[dict[str, Value], list[DescriptionMistake]]:
    """Return the value of each parameter, given or by default, with its type; text is converted.

    A missing or wrong one is a mistake at its parameter. `parameters` are those of `data` that are right.
    """
    described = data.get("parameters")
    known = {str(name): None for name in described} if isinstance(described, Mapping) else {}
    unknown = islice((name for name in values if name not in known), MAX_MISTAKES)
    mistakes = [
        DescriptionMistake(
            ("parameters",), f"there is no parameter '{name}'", _unknown_remedy(name, known, number), on_key=True
        )
        for number, name in enumerate(unknown)
    ]
    arguments: dict[str, Value] = {}
    for name, parameter in parameters.items():
        argument = values.get(name, parameter.default)
        if argument is None:
            remedy = f"give it with `--set {name}=VALUE`, or add a default"
            mistakes.append(DescriptionMistake(("parameters", name), "has no value", remedy, on_key=True))
            continue
        value, wrong = _typed(argument, parameter)
        if wrong:
            remedy = f"give {_listed(parameter.choices) if parameter.choices else _KINDS[parameter.type]}"
            mistakes.append(DescriptionMistake(("parameters", name), wrong, remedy, on_key=True))
        else:
            arguments[name] = value
    return arguments, mistakes


def _unknown_remedy(name: str, known: Collection[str], number: int) -> str:
    if not known:
        return "remove it; the description has no parameters"
    return f"remove it; {close_to(name, list(known))}" if number < MAX_HINTS else "remove it"


def _typed(argument: Value, parameter: Parameter) -> tuple[Value, str]:
    """Return a value with the parameter's type, and what is wrong with it or ""."""
    value: Value = argument
    if isinstance(argument, str) and parameter.type != "string":
        try:
            value = json.loads(argument)
        except (ValueError, RecursionError):
            value = argument
    if len(str(argument)) > MAX_VALUE_CHARACTERS:
        return value, f"has a value of more than {MAX_VALUE_CHARACTERS} characters"
    if isinstance(argument, str) and ("\0" in argument or any("\ud800" <= c <= "\udfff" for c in argument)):
        return value, "has a value with a NUL or half of a character"
    finite = not isinstance(value, float) or abs(value) < float("inf")  # not a number is no number either
    if not _is_of(value, parameter.type) or not finite:
        return argument, f"must be {_KINDS[parameter.type]}, got '{str(argument)[:60]}'"
    if parameter.choices and value not in parameter.choices:
        return value, f"'{str(argument)[:60]}' is none of the choices"
    return value, ""


def _listed(choices: Sequence[Value]) -> str:
    return " or ".join(as_text(choice) for choice in choices)


def as_text(value: Value) -> str:
    """Return a value as it stands within a string."""
    return value if isinstance(value, str) else json.dumps(value)


def with_stand_ins(parameters: Mapping[str, Parameter], values: Mapping[str, Value]) -> dict[str, Value]:
    """Return values with a stand-in for each parameter that has neither a value nor a default."""
    return dict(values) | {
        name: parameter.choices[0] if parameter.choices else _STAND_INS[parameter.type]
        for name, parameter in parameters.items()
        if parameter.default is None and name not in values
    }


def substitute(
    data: Mapping[str, Any], arguments: Mapping[str, Value], stand_ins: frozenset[str] = frozenset()
) -> FilledData:
    """Return data with the chosen values in place of references, without `parameters`; its places are as before."""
    described = data.get("parameters")
    filler = _Filler(list(described) if isinstance(described, Mapping) else [], arguments, stand_ins)
    filler.filled.data = {key: filler.visit(value, (key,)) for key, value in data.items() if key != "parameters"}
    return filler.filled


class _Filler:
    """Walks through data and replaces references."""

    def __init__(self, known: Sequence[str], arguments: Mapping[str, Value], stand_ins: frozenset[str]) -> None:
        self.filled = FilledData()
        self._known, self._arguments, self._stand_ins = known, arguments, stand_ins
        self._lower = frozenset(name.lower() for name in known)
        self._characters = self._sought = 0

    def visit(self, value: Any, steps: Steps) -> Any:
        """Return a value, filled."""
        if isinstance(value, Mapping):
            return {key: self._entry(key, item, steps) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.visit(item, (*steps, number)) for number, item in enumerate(value)]
        return self._string(value, steps) if isinstance(value, str) and "${" in value else value

    def _entry(self, key: Any, value: Any, steps: Steps) -> Any:
        if isinstance(key, str) and "${parameters." in key:
            wrong = DescriptionMistake(
                (*steps, key), "a key refers to a parameter", "write the key itself", on_key=True
            )
            self.filled.mistakes.append(wrong)
        return self.visit(value, (*steps, key))

    def _string(self, text: str, steps: Steps) -> Any:
        self._check_others(text, steps)
        alone = _ALONE.fullmatch(text)
        if alone is not None and alone[1] in self._arguments:
            self._note(alone[1], steps)
            value = self._arguments[alone[1]]
            self.filled.whole[steps] = value
            return value
        result = _REFERENCE.sub(lambda match: self._replaced(match, steps), text)
        self._characters += len(result)
        if self._characters > MAX_CHARACTERS:
            self._characters = 0
            problem = f"makes more than {MAX_CHARACTERS} characters with its values"
            self.filled.mistakes.append(DescriptionMistake(steps, problem, "give shorter values"))
        return result if self._characters else text

    def _replaced(self, match: re.Match[str], steps: Steps) -> str:
        dollar, name, end = match.groups()
        if dollar:
            return match[0][1:]
        if not end:
            self._wrong(steps, f"'{match[0][:60]}' has no }}", "write ${parameters.NAME}")
        elif name in self._arguments:
            self._note(name, steps)
            return as_text(self._arguments[name])
        elif name.lower() in self._lower:  # its name, description or value is wrong
            self._note(name, steps)
        else:
            remedy = "describe it below the key `parameters`"
            if close := self._close(name, self._known):
                remedy = f"write ${{parameters.{close[0]}}}"
            self._wrong(steps, f"${{parameters.{name}}} is no parameter of this description", remedy)
        return match[0]

    def _check_others(self, text: str, steps: Steps) -> None:
        """Find references that mean a parameter and are misspelt; `${a.b}` is nothing in a shell either."""
        for match in _OTHER.finditer(text):
            word = match[1].lower()
            if match[1] != "parameters" and (word.startswith("param") or self._close(word, ["parameters"])):
                self._wrong(steps, f"{match[0]} is no reference", f"write ${{parameters.{match[2]}}}")

    def _note(self, name: str, steps: Steps) -> None:
        self.filled.used.add(name)
        if name in self._stand_ins or name not in self._arguments:
            self.filled.unsure.add(steps)

    def _close(self, name: str, known: Sequence[str]) -> list[str]:
        self._sought += 1
        return close_names(name, known) if self._sought <= MAX_HINTS else []

    def _wrong(self, steps: Steps, problem: str, remedy: str) -> None:
        if len(self.filled.mistakes) < MAX_MISTAKES:
            self.filled.mistakes.append(DescriptionMistake(steps, problem, remedy))
