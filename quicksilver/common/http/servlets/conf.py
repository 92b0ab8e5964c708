"""The settings in force with their sources, in the forms of Hadoop's ConfServlet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

from pydantic import BaseModel, SecretStr

from quicksilver.common.process.masking import masked

REDACTED: Final = "<redacted>"
DEFAULT: Final = "default"
HADOOP: Final = "Hadoop's configuration"
_SENSITIVE: Final = re.compile(r"(secret|password|credential|private_?key)s?$", re.I)
_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class ShownProperty:
    """One setting: its keys with dots between, its value as text, and where the value comes from."""

    name: str
    value: str
    source: str


def section_rows(
    name: str, section: BaseModel, file: str, derived: Mapping[str, object] | None = None
) -> Iterator[ShownProperty]:
    """Yield the settings of a section.

    file: the source of those that are set; derived: values of settings that are not set and that Hadoop's
    configuration, or the host, decides.
    """
    for key in type(section).model_fields:
        value, source = getattr(section, key), file if key in section.model_fields_set else DEFAULT
        if value is None and key in (derived or {}):
            value, source = (derived or {})[key], HADOOP
        if isinstance(value, SecretStr):
            value = REDACTED
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json")
        yield from _flat(f"{name}.{key}", value, source)


def policy_rows(
    described: Mapping[str, Any], set_keys: frozenset[str] | set[str], file: str
) -> Iterator[ShownProperty]:
    """Yield the settings of section `policies` as `policies.config.policy_set.Policies.describe` returns them.

    set_keys: the keys that are set, by the file or by the preset that it names.
    """
    for key, value in described.items():
        yield from _flat(f"policies.{key}", value, file if key in set_keys else DEFAULT)


def as_json(properties: Sequence[ShownProperty], *, single: bool = False) -> bytes:
    """Return Hadoop's JSON: `{"properties": [...]}`, or `{"property": {...}}` of a single one."""
    rows = [{"key": p.name, "value": p.value, "isFinal": False, "resource": p.source} for p in properties]
    return json.dumps({"property": rows[0]} if single else {"properties": rows}, indent=1).encode()


def as_xml(properties: Sequence[ShownProperty]) -> str:
    """Return Hadoop's XML: a `configuration` of properties with name, value, final and source."""
    rows = [
        f"<property><name>{_xml(p.name)}</name><value>{_xml(p.value)}</value><final>false</final>"
        f"<source>{_xml(p.source)}</source></property>\n"
        for p in properties
    ]
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?><configuration>\n' + "".join(rows) + "</configuration>"
    )


def _flat(name: str, value: object, source: str) -> Iterator[ShownProperty]:
    """Yield a value, and the values of a mapping each by itself; lists are JSON."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner, source)
    elif _SENSITIVE.search(name):
        yield ShownProperty(name, REDACTED, source)
    else:
        yield ShownProperty(name, masked(_text(value)), source)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple | dict | bool):
        return json.dumps(value, default=str)
    return str(value)


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub("?", text))
