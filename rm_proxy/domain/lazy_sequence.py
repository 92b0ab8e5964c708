"""A sequence whose elements are built when somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """Elements by name, each built once: `build` gets its name."""

    def __init__(self, names: Sequence[str], build: Callable[[str], T]) -> None:
        self._names, self._build = names, build
        self._built: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...

    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        if isinstance(at, slice):
            return LazySequence(self._names[at], self._of)
        return self._of(self._names[at])

    def __iter__(self) -> Iterator[T]:
        """Yield all elements, those built before first: a search among them builds no others."""
        built = dict(self._built)
        yield from built.values()
        yield from (self._of(name) for name in self._names if name not in built)

    def _of(self, name: str) -> T:
        if name not in self._built:
            self._built[name] = self._build(name)
        return self._built[name]
