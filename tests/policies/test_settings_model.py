"""Descriptions of settings are read from the source when they are asked for, with pydantic's own rules."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.settings_model import SettingsModel, descriptions


class Plain(SettingsModel):
    rate: float = 1.0
    """Calls in a second;
    at most."""
    named: int = Field(2, description="Given in the field.")
    """Not this."""
    bare: int = 3

    def method(self) -> int:
        """No field's."""
        return self.bare


class Wider(Plain):
    """Has fields of its own, one of them in place of an inherited one."""

    rate: float = 2.0
    inner: Plain = Plain()
    """A group."""


class Native(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)

    rate: float = 1.0
    """Calls in a second;
    at most."""


def test_docstrings_are_descriptions() -> None:
    assert descriptions(Plain) == {"rate": "Calls in a second;\nat most.", "named": "Given in the field.", "bare": ""}


def test_a_replaced_field_has_no_inherited_description() -> None:
    assert descriptions(Wider) == {"rate": "", "named": "Given in the field.", "bare": "", "inner": "A group."}


def test_a_class_in_a_function_has_them_too() -> None:
    class Local(SettingsModel):
        field: int = 1
        """Of a local class."""

    assert descriptions(Local) == {"field": "Of a local class."}


def test_other_models_have_pydantics_own() -> None:
    assert descriptions(Native) == {"rate": "Calls in a second;\nat most."}


def test_the_json_schema_has_them_in_groups_as_well() -> None:
    schema = Wider.model_json_schema()
    assert schema["properties"]["inner"]["description"] == "A group."
    assert "description" not in schema["properties"]["rate"]
    group = schema["$defs"]["Plain"]["properties"]
    assert group["rate"]["description"] == Native.model_json_schema()["properties"]["rate"]["description"]
    assert "description" not in group["bare"]


def test_settings_are_frozen_and_closed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Plain().rate = 3.0  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Plain.model_validate({"rates": 3.0})
