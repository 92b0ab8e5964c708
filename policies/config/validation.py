"""Checks settings by a pydantic model; its texts of mistakes name the place and the remedy.

Values are checked strictly: text is no number, and yes/no is neither. Lists serve for tuples and sets, whole numbers
for fractions, `.inf` for infinity.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from policies.errors import Mistake, close_to
from policies.settings_model import descriptions

M = TypeVar("M", bound=BaseModel)
Path = tuple[str | int, ...]

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text (quote it)",
    "list": "a list ([a, b], or one '- item' a line)",
    "tuple": "a list ([a, b], or one '- item' a line)",
    "set": "a list ([a, b], or one '- item' a line)",
    "frozen_set": "a list ([a, b], or one '- item' a line)",
    "dict": "a mapping (key: value)",
    "model": "a mapping (key: value)",
    "model_attributes": "a mapping (key: value)",
}


def validate(model: type[M], data: object, path: Path = (), owner: str = "") -> tuple[M | None, list[Mistake]]:
    """Return `data` as a `model`, or None and the mistakes.

    `path` is where `data` stands in the file; `owner` is named before the description of a wrong setting.
    """
    try:
        text = json.dumps({} if data is None else data, default=str)
        return model.model_validate_json(text, strict=True), []
    except ValidationError as error:
        return None, [_mistake(model, detail, path, owner) for detail in error.errors(include_url=False)]


def _mistake(model: type[BaseModel], detail: ErrorDetails, path: Path, owner: str) -> Mistake:
    loc = tuple(step for step in detail["loc"] if step != "[key]")
    where = (*path, *loc)
    if detail["type"] == "extra_forbidden":
        known = list(model_at(model, loc[:-1]).model_fields)
        return Mistake(where, f"unknown setting; {close_to(str(loc[-1]), known)}", on_key=True)
    about = describe(model, loc, limits=detail["type"] not in ("enum", "literal_error"))
    remedy = ": ".join(part for part in (owner, about) if part)
    text = _say(detail, any(_is_secret(field.annotation) for _, _, field in _fields(model, loc) if field is not None))
    return Mistake(where, f"{text} ({remedy})" if remedy else text)


def _is_secret(annotation: object) -> bool:
    return annotation is SecretStr or any(_is_secret(argument) for argument in get_args(annotation))


def _say(detail: ErrorDetails, secret: bool) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    got = "***" if secret else shorten(detail["input"])
    limits = {"greater_than": (">", "gt"), "greater_than_equal": (">=", "ge"), "less_than": ("<", "lt")}
    limits["less_than_equal"] = ("<=", "le")
    if kind == "missing":
        return "is missing"
    if kind in limits:
        sign, name = limits[kind]
        return f"must be {sign} {context[name]:g}, got {got}"
    if kind == "finite_number":
        return f"must be finite, got {got}"
    if kind in ("enum", "literal_error"):
        return f"must be {context['expected'].replace(chr(39), '')}, got {got}"
    if kind in ("value_error", "assertion_error"):
        return f"{context['error']}, got {got}"
    stem = kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    if stem in _KINDS:
        return f"must be {_KINDS[stem]}, got {got}"
    return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, got {got}"


def shorten(value: object) -> str:
    """Return a value as settings write it, in at most 60 characters."""
    text = json.dumps(value, default=str) if not isinstance(value, str) else f"'{value}'"
    return text if len(text) <= 60 else f"{text[:57]}..."


def plain(value: Any) -> Any:
    """Return `value` with infinite numbers as the text that settings write, `.inf`, since JSON has none."""
    if isinstance(value, float) and not isfinite(value):
        return ".nan" if value != value else ".inf" if value > 0 else "-.inf"
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _fields(model: type[BaseModel], loc: Path) -> Iterator[tuple[type[BaseModel], str, FieldInfo | None]]:
    """Walk along `loc`: yield each model with the field of it that `loc` takes and its name, the last one without."""
    for step in loc:
        if not isinstance(step, str) or step not in model.model_fields:
            continue
        field = model.model_fields[step]
        yield model, step, field
        model = next(_models(field.annotation), model)
    yield model, "", None


def model_at(model: type[BaseModel], loc: Path) -> type[BaseModel]:
    """Return the model of the mapping at `loc`."""
    return list(_fields(model, loc))[-1][0]


def describe(model: type[BaseModel], loc: Path, limits: bool = True) -> str:
    """Return meaning and range of the setting at `loc`, e.g. `nodes to draw from, 1..`; empty when not known."""
    fields = [(owner, name, field) for owner, name, field in _fields(model, loc) if field is not None]
    if not fields:
        return ""
    owner, name, field = fields[-1]
    first = descriptions(owner)[name].split(";")[0].split(". ")[0].split("\n")[0].rstrip(".")
    if first[1:2].islower() or first[1:2] == " ":
        first = first[:1].lower() + first[1:]
    return ", ".join(part for part in (first, bounds(field) if limits else "") if part)


def bounds(field: FieldInfo) -> str:
    """Return the range of a setting: `1..`, `0..100`, `> 0`, `active | shadow`, `true | false`, or nothing."""
    limits = {name: getattr(m, name) for m in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(m, name)}
    if "ge" in limits and limits.keys() <= {"ge", "le"}:
        return f"{limits['ge']:g}..{limits['le']:g}" if "le" in limits else f"{limits['ge']:g}.."
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    if limits:
        return " and ".join(f"{signs[name]} {limit:g}" for name, limit in limits.items())
    kinds = get_args(field.annotation) if get_origin(field.annotation) in (Union, UnionType) else (field.annotation,)
    choices = [_choices(kind) for kind in kinds]
    return " | ".join(choices) if all(choices) else ""


def _choices(kind: Any) -> str:
    """Return the values of a type that has few; "" for any other one."""
    if kind is bool:
        return "true | false"
    if get_origin(kind) is Literal:
        return " | ".join(str(value) for value in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " | ".join(str(member.value) for member in kind)
    return ""


_UNITS = {"s": "s", "ms": "ms", "mb": "MB", "cores": "cores", "vcores": "vcores", "ratio": "ratio", "percent": "%"}


def setting_rows(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Return the settings of a model: name, type, default, unit, range, doc and source of each.

    Those of a group of settings (a `Damping`) follow it, with the group's name and a dot before theirs.
    """
    rows, docs = [], descriptions(model)
    for name, field in model.model_fields.items():
        extra: Mapping[str, Any] = field.json_schema_extra if isinstance(field.json_schema_extra, Mapping) else {}
        ending = "" if field.annotation is bool else _UNITS.get(name.rsplit("_", 1)[-1], "")
        default = field.get_default(call_default_factory=True, validated_data={})
        rows.append(
            {
                "name": name,
                "type": _type_name(field.annotation),
                "default": plain(json.loads(json.dumps(default, default=_jsonable)))
                if not field.is_required()
                else None,
                "required": field.is_required(),
                "unit": str(extra.get("unit", ending)),
                "range": bounds(field),
                "doc": " ".join(docs[name].split()),
                "source": str(extra.get("source", "")),
            }
        )
        rows.extend(_group_rows(name, default))
    return rows


def _group_rows(group: str, defaults: object) -> list[dict[str, Any]]:
    """Return the settings of a group whose default values are these; none when it is no group."""
    if not isinstance(defaults, BaseModel):
        return []
    values = defaults.model_dump(mode="json")
    rows = setting_rows(type(defaults))
    own = [row | {"default": plain(values[row["name"]])} if "." not in row["name"] else row for row in rows]
    return [row | {"name": f"{group}.{row['name']}"} for row in own]


def _jsonable(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


def _type_name(annotation: object) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return "str"
    name = getattr(origin or annotation, "__name__", str(annotation))
    return f"{name}[{', '.join(_type_name(argument) for argument in arguments)}]" if arguments else name
