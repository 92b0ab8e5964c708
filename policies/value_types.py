"""Frozen dataclasses that are made and changed as fast as mutable ones: many are made for each container.

A frozen dataclass sets each field through `object.__setattr__`, and `dataclasses.replace` reads each by its name. Here
a draft with the same slots is filled, which then becomes an instance of the class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

T = TypeVar("T")
_NO_VALUE: Final = object()
"""In place of a default that is made for each instance."""


def value_type(cls: type[T]) -> type[T]:
    """Return a class, made by `dataclass(frozen=True, slots=True)`, whose instances are cheap to make and to replace.

    Signature, equality, hash and refusal to be changed stay. The class has no `__post_init__` and no base.
    """
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    if cls.__bases__ != (object,) or hasattr(cls, "__post_init__") or list(getattr(cls, "__slots__", ())) != names:
        raise TypeError(f"{cls.__name__} is no plain frozen dataclass with slots")
    draft = type(f"{cls.__name__}Draft", (), {"__slots__": names})
    scope: dict[str, Any] = {
        "__name__": cls.__module__,
        "new": object.__new__,
        "Draft": draft,
        "NO_VALUE": _NO_VALUE,
        "_cls": cls,
    }
    arguments, body = [], []
    for field in fields(cls):  # type: ignore[arg-type]
        name, default = field.name, field.default
        if field.default_factory is not MISSING:
            default = _NO_VALUE
            scope[f"make_{name}"] = field.default_factory
            body.append(f"    if {name} is NO_VALUE: {name} = make_{name}()")
        scope[f"default_{name}"] = default
        arguments.append(name if default is MISSING else f"{name}=default_{name}")
        body.append(f"    draft.{name} = {name}")
    copies = [f"    draft.{name} = value.{name}" for name in names]
    source = [
        f"def __new__(cls, {', '.join(arguments)}):",
        "    draft = new(Draft)",
        *body,
        "    draft.__class__ = cls",
        "    return draft",
    ]
    exec("\n".join(source), scope)  # as dataclasses does it: one function for each class
    copier = ["def _draft_of(value):", "    draft = new(Draft)", *copies, "    return draft"]
    own_scope: dict[str, Any] = {"__name__": __name__, "new": object.__new__, "Draft": draft}
    exec("\n".join(copier), own_scope)
    scope["__new__"].__qualname__ = f"{cls.__qualname__}.__new__"
    cls.__new__ = scope["__new__"]  # type: ignore[method-assign]
    del cls.__init__
    cls._draft_of = own_scope["_draft_of"]  # type: ignore[attr-defined]
    cls.__reduce__ = _reduce  # type: ignore[assignment,method-assign]
    return cls


def _reduce(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return type(value), tuple(getattr(value, name) for name in value.__slots__)


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(value, **changes):
        """Return a value with other fields; as `dataclasses.replace`, which type checkers know."""
        try:
            draft = value._draft_of()
        except AttributeError:
            return dataclasses.replace(value, **changes)
        for name, field in changes.items():
            setattr(draft, name, field)
        draft.__class__ = value.__class__
        return draft
