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
    source = [
        f"def __new__(cls, {', '.join(arguments)}):",
        "    draft = new(Draft)",
        *body,
        "    draft.__class__ = cls",
        "    return draft",
    ]
    exec("\n".join(source), scope)  # as dataclasses does it: one function for each class
    scope["__new__"].__qualname__ = f"{cls.__qualname__}.__new__"
    cls.__new__ = scope["__new__"]  # type: ignore[method-assign]
    del cls.__init__
    cls._draft, cls._changers = draft, {}  # type: ignore[attr-defined]
    cls.__reduce__ = _reduce  # type: ignore[assignment,method-assign]
    return cls


def draft_of(cls: type) -> Any:
    """Return the class of drafts of a value type: one with all fields set becomes a value by its `__class__`."""
    return cls._draft  # type: ignore[attr-defined]


def changer(cls: type[T], *names: str) -> Callable[..., T]:
    """Return a function that takes a value of a class and, in order, these fields, and returns the value with them.

    It does what `replace` does, for places that are passed for each container.
    """
    draft = draft_of(cls)
    copies = [f"    draft.{name} = value.{name}" for name in draft.__slots__ if name not in names]
    source = [
        f"def changed(value, {', '.join(names)}):",
        "    draft = new(Draft)",
        *copies,
        *(f"    draft.{name} = {name}" for name in names),
        "    draft.__class__ = cls",
        "    return draft",
    ]
    scope: dict[str, Any] = {"__name__": cls.__module__, "new": object.__new__, "Draft": draft, "cls": cls}
    exec("\n".join(source), scope)
    changed: Callable[..., T] = scope["changed"]
    return changed


def _reduce(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return type(value), tuple(getattr(value, name) for name in value.__slots__)


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(value, **changes):
        """Return a value with other fields; as `dataclasses.replace`, which type checkers know."""
        cls = value.__class__
        names = tuple(changes)
        try:
            return cls._changers[names](value, *changes.values())
        except AttributeError:
            return dataclasses.replace(value, **changes)
        except KeyError:
            pass
        if not set(names) <= set(cls._draft.__slots__):
            raise TypeError(f"{cls.__name__} has not all of the fields {', '.join(names)}")
        change = cls._changers[names] = changer(cls, *names)
        return change(value, *changes.values())
