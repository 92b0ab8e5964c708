"""Elements of a lazy sequence are built once, when somebody looks at them."""

from __future__ import annotations

from rm_proxy.domain.lazy_sequence import LazySequence


def test_an_element_is_built_when_somebody_looks_at_it_and_once() -> None:
    built: list[str] = []

    def build(name: str) -> str:
        built.append(name)
        return name.upper()

    letters = LazySequence(["a", "b", "c", "d"], build)
    assert (len(letters), built) == (4, [])
    assert (letters[2], letters[2], built) == ("C", "C", ["c"])
    assert next(iter(letters)) == "C", "a search builds no others while those at hand will do"
    assert list(letters[1:3]) == ["B", "C"]
    assert built == ["c", "b"], "a part of it shares what was built"
    assert list(letters) == ["C", "B", "A", "D"]
