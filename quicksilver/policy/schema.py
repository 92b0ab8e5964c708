"""The JSON schema of quicksilver.yaml, generated from the settings' models for editors.

Each policy's settings hang on its name; descriptions end in unit and source. Values that hang together are checked by
`quicksilver policy check` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from pydantic import BaseModel

from policies.base import SLOTS
from policies.config.binding import CHOICES
from policies.config.registry import Registry, doc_of
from policies.config.schema import PoliciesSection, PolicySet
from policies.config.validation import setting_rows
from policies.errors import PolicyError
from quicksilver.common.http.security import SecuritySettings
from quicksilver.common.process.audit_log import AuditSettings
from quicksilver.common.process.tracing import TracingSettings
from rm_proxy.config import ProxySettings
from sidecar.config import SidecarSettings
from sidecar.tracker.config import TrackerSettings

Schema = dict[str, Any]
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ENTRY_POINTS: Final = "quicksilver.settings"
"""The entry points of models of sections that another distribution has: yarn-quicksilver-apps has `app_server`."""
SECTIONS: Final[Mapping[str, type[BaseModel]]] = {
    "proxy": ProxySettings,
    "sidecar": SidecarSettings,
    "tracker": TrackerSettings,
    **{entry.name: entry.load() for entry in entry_points(group=ENTRY_POINTS, name="app_server")},
    "security": SecuritySettings,
    "audit": AuditSettings,
    "tracing": TracingSettings,
}
_ADDRESS: Final[Schema] = {"type": "string", "description": "host:port"}
_NAMED: Final[Schema] = {"required": ["policy"]}
_NUMBERS: Final[Schema] = {"type": "array", "items": {"type": "integer"}}


def schema(registry: Registry | None = None) -> Schema:
    """Return the schema of the whole file, with the policies of all installed packages."""
    registry = registry or Registry()
    defs: Schema = {}
    policies = _model(PoliciesSection, "policies", defs)
    alternative = _model(PolicySet, "alternative", defs)
    for slot in SLOTS:
        defs[f"slot.{slot}"] = _slot(slot, registry, defs)
    for section in (policies, alternative):
        _adapt(section)
    for name in ("Match", "ModeRule", "Notice", "Protection", "Rollout", "Window"):
        _globs(defs[f"policies.{name}"])
    defs["policies.Match"]["properties"]["priority"] = {
        "description": defs["policies.Match"]["properties"]["priority"].get("description", ""),
        "anyOf": [{"type": "integer"}, _NUMBERS, {"$ref": "#/$defs/policies.Priorities"}],
    }
    defs["alternative"] = alternative
    alternatives = policies["properties"]["alternatives"]
    (pattern,) = alternatives["patternProperties"]
    alternatives |= {"patternProperties": {pattern: {"$ref": "#/$defs/alternative"}}, "additionalProperties": False}
    sections = {name: _nullable(_model(model, name, defs)) for name, model in SECTIONS.items()}
    directory = {"type": ["string", "null"], "description": "Directory of Hadoop's own site files."}
    return {
        "$schema": DIALECT,
        "title": "quicksilver.yaml",
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {"policies": _nullable(policies), **sections, "hadoop_conf_dir": directory},
        "$defs": defs,
    }


def _model(model: type[BaseModel], prefix: str, defs: Schema) -> Schema:
    """Return a model's schema; what it refers to goes to `defs` under names that begin with `prefix`."""
    root = model.model_json_schema(ref_template=f"#/$defs/{prefix}.{{model}}")
    for name, definition in root.pop("$defs", {}).items():
        defs[f"{prefix}.{name}"] = _ADDRESS if name == "Address" else definition
    for row in setting_rows(model):
        _describe(_at(root, row["name"].split("."), defs), row)
    return root


def _at(model: Schema, steps: list[str], defs: Schema) -> Schema:
    """Return the schema of a setting, in groups of settings too."""
    setting: Schema = model["properties"][steps[0]]
    if len(steps) == 1:
        return setting
    group = defs[setting["$ref"].removeprefix("#/$defs/")]
    return _at(group, steps[1:], defs)


def _describe(setting: Schema, row: Mapping[str, Any]) -> None:
    parts = [row["doc"]]
    parts += [f"Unit: {row['unit']}."] if row["unit"] else []
    parts += [f"Source: {row['source']}."] if row["source"] else []
    setting["description"] = " ".join(part for part in parts if part)
    setting.pop("unit", None)
    setting.pop("source", None)


def _slot(slot: str, registry: Registry, defs: Schema) -> Schema:
    """Return the schema of one choice: its settings hang on the policy's name."""
    names, cases = [], []
    for offer in registry.offers(slot):
        try:
            policy = registry.get(slot, offer.name)
        except PolicyError:
            continue  # a broken package takes nothing from the others; `policy list` shows it
        names.append({"const": offer.name, "description": doc_of(policy)})
        settings = _model(policy.config, f"{slot}.{offer.name}", defs)
        then: Schema = {"properties": {"settings": settings}}
        if settings.get("required"):
            then["required"] = ["settings"]
        cases.append({"if": {"properties": {"policy": {"const": offer.name}}, **_NAMED}, "then": then})
    properties: Schema = {"policy": {"description": "Name of the policy.", "oneOf": names}, "settings": {}}
    if slot == "route":
        properties["match"] = {"$ref": "#/$defs/policies.Match"}
    named = _NAMED if slot == "route" else {}
    return {"type": "object", **named, "additionalProperties": False, "properties": properties, "allOf": cases}


def _adapt(section: Schema) -> None:
    """Put the slots into a section, and what it takes in more than one form.

    Beside a preset a choice may have settings alone: they are those of the preset's policy.
    """
    properties = section["properties"]
    for slot in CHOICES:
        properties[slot] = {"description": properties[slot]["description"], "$ref": f"#/$defs/slot.{slot}"}
    quota: Schema = {"$ref": "#/$defs/slot.quota"}
    many = {"type": "array", "items": {"allOf": [quota, _NAMED]}, "minItems": 1}
    either: Schema = {"if": {"type": "array"}, "then": many, "else": quota}
    properties["quota"] = {"description": properties["quota"]["description"], **either}
    routes = {"type": "array", "items": {"$ref": "#/$defs/slot.route"}}
    properties["routes"] = {"description": properties["routes"]["description"], **routes}
    section["if"] = {"not": {"required": ["preset"]}}
    section["then"] = {"properties": {slot: {"if": {"type": "object"}, "then": _NAMED} for slot in (*CHOICES, "quota")}}
    _globs(section)


def _globs(model: Schema) -> None:
    """Let lists of names be one name too."""
    for name, setting in model["properties"].items():
        if name != "shadow" and setting.get("type") == "array" and setting.get("items") == {"type": "string"}:
            model["properties"][name] = {**setting, "type": ["array", "string"]}


def _nullable(model: Schema) -> Schema:
    """Let a mapping be empty, as YAML writes a key without a value."""
    return {**model, "type": ["object", "null"]}
