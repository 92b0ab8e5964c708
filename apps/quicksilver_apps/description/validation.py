"""Checks data by a pydantic model strictly: text is no number; says what is wrong and what to write instead."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from policies.config.validation import bounds, describe, model_at, shorten
from policies.errors import close_names
from quicksilver_apps.description.mistakes import MAX_HINTS, MAX_MISTAKES, DescriptionMistake, Steps

M = TypeVar("M", bound=BaseModel)

_TYPES: Final = {
    "int": ("a whole number", "write digits alone, such as 2"),
    "float": ("a number", "write a number such as 1.5"),
    "bool": ("true or false", "write true or false without quotes"),
    "string": ("text", "put quotes around it"),
    "list": ("a list", "write [a, b], or one `- item` a line"),
    "tuple": ("a list", "write [a, b], or one `- item` a line"),
    "dict": ("a mapping", "write `key: value` lines below it"),
    "model": ("a mapping", "write `key: value` lines below it"),
    "model_attributes": ("a mapping", "write `key: value` lines below it"),
}
_LIMITS: Final = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_LENGTHS: Final = {
    "string_too_short": ("is empty", "write it: {about}"),
    "string_too_long": ("has more than {limit} characters", "shorten it"),
    "too_short": ("is empty", "write at least one entry"),
    "too_long": ("has more than {limit} entries", "remove some"),
}
MISSING: Final = "is missing"
_EXAMPLES: Final[Mapping[str | int, str]] = {"version": "1", "memory_mb": "1024"}
_NAME: Final = "begin with a small letter; then come small letters, digits or -, 40 characters at most"
_VARIABLE: Final = "write letters, digits and _ alone, not a digit first"
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt])(?:i?b)?\s*", re.IGNORECASE)
_MB: Final = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}


def validate(model: type[M], data: object, path: Steps = ()) -> tuple[M | None, list[DescriptionMistake]]:
    """Return `data` as a `model`, or None and the mistakes; `path` is where `data` stands in the description.

    `data` is what JSON can hold.
    """
    try:
        return _parsed(model, data), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        details = [
            detail for detail in details if detail["type"] != "too_short" or not detail["input"]
        ]  # wrong entries are none
        several = enumerate(details[:MAX_MISTAKES])
        mistakes = [_mistake(model, data, detail, path, number < MAX_HINTS) for number, detail in several]
        meant = {(*mistake.path[:-1], mistake.key_meant) for mistake in mistakes if mistake.key_meant}
        return None, [mistake for mistake in mistakes if mistake.path not in meant or mistake.problem != MISSING]


def valid(model: type[M], data: object) -> M | None:
    """Return `data` as a `model`, or None where `validate` names mistakes."""
    try:
        return _parsed(model, data)
    except ValidationError:
        return None


def _parsed(model: type[M], data: object) -> M:
    return model.model_validate_json(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), strict=True)


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys of a model's mapping, as descriptions write them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def size_mb(text: object) -> int | None:
    """Return the MB of a memory size with a unit, such as `2g` or `512 MB`; None for anything else."""
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else max(1, round(float(match[1]) * _MB[match[2].lower()]))


def _mistake(model: type[BaseModel], data: object, detail: ErrorDetails, path: Steps, hint: bool) -> DescriptionMistake:
    """Return what is wrong at one place. hint: whether close names are sought."""
    loc = tuple(step for step in detail["loc"] if step != "[key]")
    kind = detail["type"]
    here, union = _existing(data, loc, kind)
    where = (*path, *here)
    if union:
        problem = f"must be text, a number, true or false, got {_got(detail['input'])}"
        return DescriptionMistake(where, problem, "write one of these")
    if kind == "extra_forbidden":
        return _unknown_key(model_at(model, loc[:-1]), where, detail["input"], hint)
    if kind == "missing":
        about = describe(model, loc, limits=False)
        remedy = f"add `{where[-1]}: {_EXAMPLES.get(where[-1], '...')}`"
        return DescriptionMistake(where, MISSING, f"{remedy}: {about}" if about else remedy)
    problem, remedy = _wrong_value(model, loc, detail, hint)
    return DescriptionMistake(where, problem, remedy, on_key="[key]" in detail["loc"])


def _existing(data: object, loc: Steps, kind: str) -> tuple[Steps, bool]:
    """Return the part of `loc` that is in the data, and whether more was left: the name of a type of a union."""
    for number, step in enumerate(loc):
        in_list = isinstance(data, list | tuple) and isinstance(step, int)
        if not in_list and not (isinstance(data, Mapping) and step in data):
            return (loc, False) if kind == "missing" else (loc[:number], True)
        data = data[step]  # type: ignore[index]
    return loc, False


def _unknown_key(owner: type[BaseModel], where: Steps, value: object, hint: bool) -> DescriptionMistake:
    key, known = str(where[-1]), keys_of(owner)
    if key in ("memory", "mem") and "memory_mb" in known:
        mb = size_mb(value)
        remedy = f"write `memory_mb: {mb}`" if mb is not None else "write `memory_mb`, in MB"
        return DescriptionMistake(where, "unknown key", remedy, on_key=True, key_meant="memory_mb")
    close = close_names(key.lower(), known) if hint else []
    return DescriptionMistake(
        where, "unknown key", _choice(close, known), on_key=True, key_meant=close[0] if close else ""
    )


def _choice(close: Sequence[str], known: Sequence[str]) -> str:
    """Return a remedy for an unknown name: the closest known one, or all."""
    return f"write {close[0]}" if close else f"choose one of {', '.join(known)}"


def _wrong_value(model: type[BaseModel], loc: Steps, detail: ErrorDetails, hint: bool) -> tuple[str, str]:
    kind, context, got = detail["type"], detail.get("ctx", {}), _got(detail["input"])
    if kind in _LIMITS:
        words, name = _LIMITS[kind]
        return f"must be {words} {context[name]:g}, got {got}", f"choose a value of the range {_range(model, loc)}"
    if kind in ("enum", "literal_error"):
        choices = [each.strip("'") for each in re.findall(r"'[^']*'|\d+", str(context["expected"]))]
        close = close_names(str(detail["input"]), choices) if hint else []
        return f"must be {' or '.join(choices)}, got {got}", _choice(close, choices)
    if kind in _LENGTHS:
        problem, remedy = _LENGTHS[kind]
        about = describe(model, loc, limits=False)
        return problem.format(limit=context.get("max_length")), remedy.format(about=about)
    if kind == "string_pattern_mismatch" and loc[-1:] == ("queue",):
        return f"{got} is no name of a queue", "write it without spaces, line breaks and commas"
    if kind == "string_pattern_mismatch":
        is_name = str(context["pattern"]).startswith("^[a-z]")
        return f"{got} is no valid name", _NAME if is_name else _VARIABLE
    stem = kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    if stem in _TYPES:
        noun, remedy = _TYPES[stem]
        if detail["input"] is None:
            remedy = "write one, or remove the key"
        elif stem == "string" and isinstance(detail["input"], list | dict):
            remedy = "write plain text"
        mb = size_mb(detail["input"]) if stem == "int" and loc[-1:] == ("memory_mb",) else None
        return f"must be {noun}, got {got}", f"write {mb}, in MB" if mb is not None else remedy
    about = describe(model, loc)
    return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, got {got}", f"mend it{f': {about}' if about else ''}"


def _range(model: type[BaseModel], loc: Steps) -> str:
    """Return the range of a field, e.g. `1..10` or `> 0`."""
    steps = [step for step in loc if isinstance(step, str)]
    owner = model_at(model, loc[: len(loc) - 1])
    field = owner.model_fields.get(steps[-1]) if steps else None
    return bounds(field) if field is not None else ""


def _got(value: Any) -> str:
    return "nothing" if value is None else shorten(value)
