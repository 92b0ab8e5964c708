"""A sidecar's report as the proxy reads it: each number is finite, and within a bound.

A node's report goes into sums over all nodes. Infinity, NaN, or an integer that is no float any more, would make each
round and each allocate request fail, those of other nodes and applications too.
"""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from fastapi.exceptions import RequestValidationError
from pydantic import Field, TypeAdapter, ValidationError, create_model
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from quicksilver.common.messages import Message, Report
from quicksilver.common.reports.deltas import Delta

M = TypeVar("M", bound=Message)
MAX_NUMBER: Final = 10**24
"""Of a report. Sizes of forged tokens, which a node has until its NodeManager refuses them, are up to 2^63."""


def bounded(model: type[M]) -> type[M]:
    """Return a message with bounds for its numbers, those of the messages in it too."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind = _bounded(field.annotation)
        fields[name] = Annotated[(kind, *field.metadata)] if field.metadata else kind, field.default
    return create_model(model.__name__, __base__=model, **fields)


def _bounded(kind: Any) -> Any:
    if kind is int or kind is float:
        return Annotated[kind, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    if isinstance(kind, type) and issubclass(kind, Message):
        return bounded(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if not inner:
        return kind
    parts = tuple(_bounded(each) for each in inner)
    return Union[parts] if origin in (Union, UnionType) else origin[parts]  # noqa: UP007 - made of a tuple


_RECEIVED: Final = bounded(Report)


def _partial(model: type[Message]) -> CoreSchema:
    """Return the schema of a dict with those fields of a message that are there.

    It is read in half the time of the message, which has each field that is not there set to its default.
    """
    fields = {}
    for name, field in model.model_fields.items():
        kind: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        inner = isinstance(kind, type) and issubclass(kind, Message)
        schema = _partial(kind) if inner else TypeAdapter(kind).core_schema
        fields[name] = core_schema.typed_dict_field(schema, required=field.is_required())
    return core_schema.typed_dict_schema(fields)


_RECEIVED_DELTA: Final = SchemaValidator(_partial(bounded(Delta)))


def read_report(body: bytes) -> Report:
    """Return a report. Raises ValidationError."""
    return _RECEIVED.model_validate_json(body)


def read_delta(body: bytes) -> dict[str, Any]:
    """Return the fields of a delta that are there. Raises ValidationError."""
    fields: dict[str, Any] = _RECEIVED_DELTA.validate_json(body)
    return fields


def check_numbers(report: Report) -> None:
    """Check a report that was read without bounds. Raises RequestValidationError."""
    try:
        _RECEIVED.model_validate(report.model_dump())
    except ValidationError as error:
        faults = [{"loc": ("body", *fault["loc"]), "msg": fault["msg"]} for fault in error.errors(include_input=False)]
        raise RequestValidationError(faults) from error
