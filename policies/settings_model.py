"""Base of all settings: frozen, unknown keys are errors, and the docstring under a field is its description.

Descriptions are for documents, editors and errors. Pydantic's own `use_attribute_docstrings` reads them from the source
while a module is imported, a tenth of what a daemon's start costs; here they are read at first use.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema


class SettingsModel(BaseModel):
    """Frozen, and unknown keys are errors; the docstring under a field describes it (`descriptions`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema with the descriptions."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in descriptions(cls).items():
            if text and name in properties:
                properties[name]["description"] = text
        return schema


@cache
def descriptions(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the description of each field, "" where it has none.

    `Field(description=...)` comes before a docstring; without source (Python's -OO aside, an installation of bytecode
    alone) there are no docstrings.
    """
    docs: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, SettingsModel):
            own = vars(owner).get("__annotations__", {})
            docs = {name: text for name, text in docs.items() if name not in own} | dict(_docstrings(owner))
    return {name: field.description or docs.get(name, "") for name, field in model.model_fields.items()}


def _docstrings(owner: type) -> Iterator[tuple[str, str]]:
    """Yield the annotated names of a class body that a docstring follows, with its text."""
    try:
        source = inspect.getsource(owner)
    except OSError:
        return  # no source is installed, so nothing describes the fields
    (body,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(body, ast.ClassDef)
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(text):
            yield field.target.id, inspect.cleandoc(text.value.value)  # type: ignore[attr-defined]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
