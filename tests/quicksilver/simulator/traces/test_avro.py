"""Values in Avro's binary form; schemas whose values could nest without bound are refused."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from quicksilver.simulator.traces.formats.avro import reader
from quicksilver.simulator.traces.formats.registry import read_specs
from quicksilver.simulator.traces.lines import TraceError

EVENT: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "namespace": "of.history",
    "fields": [
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "names", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "size", "type": ["null", "int"]},
        {"name": "again", "type": "Kind"},
    ],
}


def test_values_are_read_one_after_the_other() -> None:
    one = b"\x02" + b"\x04\x02a\x02b\x00" + b"\x02\x02x\x80\x01\x00" + b"\x02\x0d" + b"\x00"
    file, read = BytesIO(one * 2), reader(EVENT)
    expected = {"kind": "B", "names": ["a", "b"], "counts": {"x": 64}, "size": -7, "again": "A"}
    assert [read(file), read(file)] == [expected, expected]
    with pytest.raises(ValueError, match="ends within a value"):
        read(file)


@pytest.mark.parametrize(
    "octets", [b"\x06", b"\x02\x01", b"\x00\x00\x00\x04", b"\x00\x02\x07", b"\x00\x02\x02\xff\x00"]
)
def test_bytes_that_do_not_fit_are_a_value_error(octets: bytes) -> None:
    with pytest.raises(ValueError):
        reader(EVENT)(BytesIO(octets))


def nested(depth: int) -> Any:
    return {"type": "array", "items": nested(depth - 1)} if depth else "int"


def chain(length: int) -> list[Any]:
    first = {"type": "record", "name": "R0", "fields": []}
    rest = [
        {"type": "record", "name": f"R{n}", "fields": [{"name": "f", "type": f"R{n - 1}"}]} for n in range(1, length)
    ]
    return [first, *rest]


def test_values_may_nest_thirty_deep() -> None:
    assert reader(nested(30))(BytesIO(b"\x00")) == []
    assert reader(chain(29))(BytesIO(b"\x00")) == {}
    for schema in (nested(31), nested(500), chain(31), chain(100_000)):
        with pytest.raises(ValueError, match="too deep"):
            reader(schema)


def test_a_recursive_schema_is_refused() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    with pytest.raises(ValueError, match="Node is recursive"):
        reader(node)


@pytest.mark.parametrize("schema", [None, 7, "strin", {"type": "record"}, {"type": "map"}, [{}], {"type": ["x"]}, {}])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError):
        reader(schema)


def test_events_without_bytes_are_no_endless_history(tmp_path: Path) -> None:
    empty = {"type": "record", "name": "Nothing", "fields": []}
    fields = [{"name": "type", "type": "null"}, {"name": "event", "type": empty}]
    path = tmp_path / "a.jhist"
    path.write_text(f"Avro-Binary\n{json.dumps({'type': 'record', 'name': 'Event', 'fields': fields})}\nrest")
    with pytest.raises(TraceError, match="no event: has no bytes"):
        list(read_specs(path, "jhist"))
