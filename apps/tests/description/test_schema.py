"""The JSON schema of descriptions: it accepts what the reader accepts, and the page has the model's fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from ruamel.yaml import YAML

from apps.tests.description.examples import SMALL, SPARK
from apps.tests.description.test_reader import descriptions
from quicksilver_apps.description.field_tables import BEGIN, END, field_tables, with_tables
from quicksilver_apps.description.model import Application, Service, as_json
from quicksilver_apps.description.reader import load, parse, parse_template, read
from quicksilver_apps.description.schema import schema
from tests.paths import DOCS, ROOT

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in requirements.lock: `make setup` installs it")
PAGE = DOCS / "app-descriptions.md"
COMMENTED = ROOT / "apps" / "quicksilver_apps" / "description" / "example.yaml"
EXAMPLES = [COMMENTED, *sorted((ROOT / "examples").rglob("*.yaml")), *sorted((ROOT / "examples").rglob("*.json"))]


def wrong(data: Any) -> list[str]:
    found = jsonschema.Draft202012Validator(schema()).iter_errors(data)
    return ["/".join(map(str, error.absolute_path)) for error in found]


def loaded(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize("text", [SPARK, SMALL])
def test_what_the_reader_accepts_is_right(text: str) -> None:
    assert wrong(loaded(text)) == []
    assert wrong(as_json(parse(text, "app.yaml", {"input": "in"} if text is SPARK else {}))) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_right(path: Path) -> None:
    data = loaded(path.read_text())
    if isinstance(data, dict) and "services" in data:  # other files may lie beside descriptions
        assert wrong(data) == []
        assert load(path).check().error is None


def test_the_commented_example_is_whole_on_the_page() -> None:
    assert COMMENTED.read_text() in PAGE.read_text()
    found = read(COMMENTED, {"input": "hdfs:///text", "workers": 7})
    assert [(one.name, one.core, one.elastic) for one in found.services] == [
        ("master", 1, 0),
        ("worker", 1, 7),
        ("job", 1, 0),
    ]


def test_the_output_on_the_page_is_that_of_the_check() -> None:
    broken = COMMENTED.read_text().replace("memory_mb: 4096", "memory_mb: 4g")
    broken = broken.replace("after: [master, worker]", "after: [mastr, worker]")
    error = parse_template(broken, "job.yaml").check().error
    assert error is not None and f"```output\n{error}\n```" in PAGE.read_text()


@given(descriptions())
def test_any_application_is_right(data: dict[str, Any]) -> None:
    assert wrong(as_json(Application.model_validate(data))) == []


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("version: 1", "version: 2", "version"),
        ("name: small", "name: Small", "name"),
        ("name: small", "nam: small", ""),
        ("core: 1", "core: -1", "services/0/core"),
        ("core: 1", "core: one", "services/0/core"),
        ("core: 1", "core: a ${parameters.n}", "services/0/core"),
        ("core: 1", "cor: 1", "services/0"),
        ("memory_mb: 64", "memory: 64", "services/0/resources"),
        ("name: small", "name: small\nclass: slow", "class"),
        ("name: small", "name: small\nenvironment: {A-B: c}", "environment"),
        ("name: small", "name: small\nparameters: {A: {}}", "parameters"),
        ("name: small", "name: small\nparameters: {a: {type: text}}", "parameters/a/type"),
        ("core: 1", "core: 1\n    main: sometimes", "services/0/main"),
    ],
)
def test_what_the_reader_refuses_is_wrong_at_its_place(old: str, new: str, where: str) -> None:
    assert where in wrong(loaded(SMALL.replace(old, new)))


@pytest.mark.parametrize(
    "new",
    [
        "core: ${parameters.n}",
        "core: 1\n    main: ${parameters.m}",
        "core: 1\n    after: ['a-${parameters.m}']",
        "core: 1\n    restart: {policy: '${parameters.m}', limit: '${parameters.n}'}",
        "core: 1\n    ready: {timeout_s: '${parameters.n}'}",
    ],
)
def test_references_are_right_where_values_are(new: str) -> None:
    assert wrong(loaded(SMALL.replace("core: 1", new))) == []


def test_each_field_is_described() -> None:
    found = schema()
    parts = [found, *(part for part in found["$defs"].values() if "properties" in part)]
    assert len(parts) == 9
    assert [key for part in parts for key, field in part["properties"].items() if not field.get("description")] == []
    assert "Unit: MB." in found["$defs"]["ServiceResources"]["properties"]["memory_mb"]["description"]
    assert found["$defs"]["Service"]["properties"].keys() == Service.model_fields.keys()


def test_the_page_has_the_fields_of_the_model() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "run python -m quicksilver_apps.description.field_tables " + str(PAGE)
    assert "| `memory_mb` | MB | must be set | 1..1e+07 |" in page
    with pytest.raises(ValueError, match="the page has no lines"):
        with_tables("no marks")
    assert with_tables(f"a\n{BEGIN}\nold\n{END}\nb") == f"a\n{BEGIN}\n\n{field_tables()}\n{END}\nb"
