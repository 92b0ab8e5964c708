"""Values in Avro's binary form, one after the other, by a schema that stands elsewhere; fastavro reads them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException

_NESTED: Final = 100
"""Limit of the nesting of a schema's JSON."""
_DEEP: Final = 30
"""Limit of the nesting of values: fastavro reads them by recursion in C, which nothing else bounds."""
_NAMED: Final = ("record", "error", "enum", "fixed")


def reader(schema: Any) -> Callable[[IO[bytes]], Any]:
    """Return a function that reads the next value of a schema (from JSON) from a file; unions give the value alone.

    The function raises ValueError where the bytes do not fit. Raises ValueError for a schema that is none, is
    recursive, or is too deep.
    """
    _check_nesting(schema, _NESTED)
    try:
        parsed = parse_schema(schema)
        _height(parsed, {})
    except (SchemaParseException, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no schema: {error!r}") from error

    def read(file: IO[bytes]) -> Any:
        try:
            return schemaless_reader(file, parsed, None)
        except (EOFError, struct.error) as error:
            raise ValueError("ends within a value") from error
        except (IndexError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"does not fit the schema: {error!r}") from error

    return read


def _check_nesting(value: Any, depth: int) -> None:
    if not depth:
        raise ValueError("no schema: too deep")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_nesting(inner, depth - 1)


def _height(schema: Any, heights: dict[str, int | None]) -> int:
    """Return how deep values of a parsed schema nest. heights: of the named types so far; None within its own."""
    if isinstance(schema, str):
        height = heights.get(schema, 0)
        if height is None:
            raise ValueError(f"no schema: {schema} is recursive")
        return height
    name = schema.get("name") if isinstance(schema, Mapping) and schema["type"] in _NAMED else None
    if name is not None:
        heights[name] = None
    height = 1 + max((_height(inner, heights) for inner in _inner(schema)), default=0)
    if height > _DEEP:
        raise ValueError("no schema: too deep")
    if name is not None:
        heights[name] = height
    return height


def _inner(schema: Any) -> list[Any]:
    """Return the schemas directly inside of one."""
    if isinstance(schema, list):
        return schema
    kind = schema["type"]
    if kind in ("record", "error"):
        return [field["type"] for field in schema["fields"]]
    if kind in ("enum", "fixed"):
        return []
    return [schema[{"array": "items", "map": "values"}[kind]] if kind in ("array", "map") else kind]
