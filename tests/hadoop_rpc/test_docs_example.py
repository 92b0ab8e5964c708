"""The example of lab/docs/hadoop_rpc.md runs, and relays recorded conversations byte by byte."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import hadoop_rpc.connection
import hadoop_rpc.sasl
from hadoop_rpc.protos.yarn_pb2 import AllocateRequestProto
from tests.paths import LAB_DOCS

PAGE = LAB_DOCS / "hadoop_rpc.md"


@pytest.mark.parametrize("name", ["am_auth", "am_integrity", "am_privacy", "am_wrong_password", "nm_containers"])
def test_example_relays_what_was_recorded(recorded: Callable[[str], Any], name: str) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    seen: list[AllocateRequestProto] = []

    def change(request: AllocateRequestProto) -> bool:
        seen.append(request)
        return len(seen) == 1  # written again, though nothing changed: the subset loses no byte of this message

    names: dict[str, Any] = {**vars(hadoop_rpc.connection), **vars(hadoop_rpc.sasl), "change": change}
    names["AllocateRequestProto"] = AllocateRequestProto
    exec(found.group(1), names)
    for who, data in recorded(name).chunks:
        assert names["from_master" if who == "client" else "from_manager"](data) == data
    assert len(seen) == (3 if name == "am_auth" else 0)
    assert names["sasl"].done == (name != "am_wrong_password")
