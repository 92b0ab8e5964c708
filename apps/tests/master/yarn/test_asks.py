"""Rows of allocate requests, as YARN's schedulers want them."""

from __future__ import annotations

from typing import Any

import pytest

from apps.tests.master.descriptions import app
from quicksilver_apps.master.yarn.asks import rows


def asked(constraints: dict[str, Any]) -> dict[str, tuple[int, bool, str]]:
    """Return count, relaxing and label by name."""
    service = app({"name": "one", "core": 1}, {"name": "two", "core": 3, "constraints": constraints}).services[1]
    found = rows(service, 3, {"n1": "/east"})
    assert {(row.priority.priority, row.capability.memory, row.allocation_request_id) for row in found} == {
        (11, 128, 0)
    }
    return {row.resource_name: (row.num_containers, row.relax_locality, row.node_label_expression) for row in found}


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({}, {"*": (3, True, "")}),
        ({"label": "gpu"}, {"*": (3, True, "gpu")}),
        (
            {"nodes": ["n1", "n2"]},
            {
                "n1": (3, True, ""),
                "n2": (3, True, ""),
                "/east": (3, False, ""),
                "/default-rack": (3, False, ""),
                "*": (3, False, ""),
            },
        ),
        ({"racks": ["east"]}, {"/east": (3, True, ""), "*": (3, False, "")}),
        (
            {"nodes": ["n1"], "racks": ["/east"]},
            {"n1": (3, True, ""), "/east": (3, True, ""), "*": (3, False, "")},
        ),
        (
            {"nodes": ["n1"], "strict": False, "label": "x"},
            {"n1": (3, True, ""), "/east": (3, True, ""), "*": (3, True, "x")},
        ),
    ],
)
def test_constraints(constraints: dict[str, Any], expected: dict[str, Any]) -> None:
    assert asked(constraints) == expected
