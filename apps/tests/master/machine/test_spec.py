"""application.json as the master reads it is what the description's model writes."""

from __future__ import annotations

import pytest

from quicksilver_apps.description import model
from quicksilver_apps.master.machine import spec


def described() -> model.Application:
    return model.Application.model_validate(
        {
            "version": 1,
            "name": "app",
            "class": "interactive",
            "environment": {"A": "1", "B": "2"},
            "services": [
                {"name": "plain", "command": "run", "resources": {"memory_mb": 100}},
                {
                    "name": "full",
                    "core": 2,
                    "elastic": 3,
                    "command": "go",
                    "image": "image:1",
                    "resources": {"memory_mb": 200, "vcores": 2},
                    "environment": {"B": "3"},
                    "ports": [{"name": "web", "number": 80, "link": "http"}],
                    "constraints": {"nodes": ["n1"], "racks": ["r1"], "label": "gpu", "strict": False},
                    "after": ["plain"],
                    "ready": {"log": "up", "timeout_s": 3, "every_s": 0.5},
                    "restart": {"policy": "always", "limit": 9},
                    "main": True,
                },
            ],
        }
    )


def test_all_fields_and_defaults_are_those_of_the_description() -> None:
    app = described()
    read = spec.read(model.as_json(app))
    assert (read.name, read.app_class) == (app.name, app.app_class)
    for mine, theirs in zip(read.services, app.services, strict=True):
        assert mine.priority == app.priority_of(mine.name)
        assert (mine.memory_mb, mine.vcores) == (theirs.resources.memory_mb, theirs.resources.vcores)
        assert mine.environment == {**app.environment, **theirs.environment}
        for name in ("name", "command", "core", "elastic", "image", "after", "main"):
            assert getattr(mine, name) == getattr(theirs, name), name
        for name in ("constraints", "ready", "restart"):
            part = getattr(mine, name)
            assert {each: getattr(part, each) for each in part.__slots__} == getattr(theirs, name).model_dump()
        assert [(each.name, each.number, each.link) for each in mine.ports] == [
            (each.name, each.number, each.link) for each in theirs.ports
        ]


@pytest.mark.parametrize("data", [{}, {"name": "x", "services": [{}]}, {"name": "x", "services": [{"ports": 3}]}, []])
def test_something_else_is_one_clear_error(data: object) -> None:
    with pytest.raises(spec.SpecError, match=r"not a filled description.*quicksilver app submit"):
        spec.read(data)  # type: ignore[arg-type]
