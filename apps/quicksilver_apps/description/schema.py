"""The JSON schema (draft 2020-12) of descriptions, made of the model for editors.

Where a value is no free text, it also accepts a string with `${parameters.NAME}`. What hangs together across parts is
checked by `quicksilver app check` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from policies.config.validation import setting_rows
from policies.settings_model import descriptions
from quicksilver_apps.description import model
from quicksilver_apps.description.model import Application

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NAME: Final = "[a-z][a-z0-9-]{0,39}"
_REFERENCE: Final = {"$ref": "#/$defs/Reference"}
_WHOLE_REFERENCE: Final = {"$ref": "#/$defs/WholeReference"}
_WITHOUT: Final = frozenset(("Parameter", "AppClass"))
"""Definitions whose values refer to no parameter, or are referred to from a field that may."""


def schema() -> dict[str, Any]:
    """Return the schema of a description."""
    root = Application.model_json_schema(by_alias=True)
    definitions: dict[str, Any] = root.pop("$defs")
    root["properties"]["class"] = {"$ref": "#/$defs/AppClass", "default": "batch"}
    _describe(Application, root)
    for owner, part in _parts(definitions):
        _describe(owner, part)
    for name, part in definitions.items():
        if name not in _WITHOUT:
            _accept_references(part)
    literals = {key: root["properties"][key] for key in ("version", "parameters")}
    _accept_references(root)
    root["properties"] |= literals
    _plain([root, *definitions.values()])
    references = {
        "Reference": _reference(rf"\$\{{parameters\.{_NAME}\}}", "Text with a parameter."),
        "WholeReference": _reference(rf"^\$\{{parameters\.{_NAME}\}}$", "A parameter, whose value stands here."),
    }
    return {"$schema": DIALECT, **root, "title": "Application", "$defs": definitions | references}


def _parts(definitions: Mapping[str, Any]) -> Iterator[tuple[type[BaseModel], dict[str, Any]]]:
    for name, definition in definitions.items():
        owner = getattr(model, name)
        if isinstance(owner, type) and issubclass(owner, BaseModel):
            yield owner, definition


def _describe(owner: type[BaseModel], part: dict[str, Any]) -> None:
    """Give each field its docstring and its unit."""
    units = {row["name"]: row["unit"] for row in setting_rows(owner)}
    for name, text in descriptions(owner).items():
        unit = f" Unit: {units[name]}." if units[name] else ""
        key = owner.model_fields[name].alias or name
        part["properties"][key]["description"] = f"{' '.join(text.split())}{unit}"


def _reference(pattern: str, description: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern, "description": description}


def _accept_references(part: dict[str, Any]) -> None:
    """Let the fields of a part that are no free text be references too."""
    for name, field in part.get("properties", {}).items():
        part["properties"][name] = _or_reference(field)


def _or_reference(field: dict[str, Any]) -> dict[str, Any]:
    if field.get("type") == "array":
        return field | {"items": _or_reference(field["items"])}
    about: dict[str, Any] = {key: field[key] for key in ("description", "default") if key in field}
    bare = {key: value for key, value in field.items() if key not in ("description", "default", "title")}
    if bare.get("type") in ("integer", "number", "boolean") or "enum" in bare or "anyOf" in bare or _is_enum(bare):
        return {**about, "anyOf": [*bare.get("anyOf", [bare]), _WHOLE_REFERENCE]}
    return {**about, "anyOf": [bare, _REFERENCE]} if "pattern" in bare else field


def _is_enum(field: Mapping[str, Any]) -> bool:
    return field.get("$ref") == "#/$defs/AppClass"


def _plain(parts: list[dict[str, Any]]) -> None:
    """Remove titles, which repeat the keys, and close the mappings whose keys have a pattern."""
    for part in parts:
        part.pop("title", None)
        for field in part.get("properties", {}).values():
            field.pop("title", None)
            if "patternProperties" in field:
                field["additionalProperties"] = False
