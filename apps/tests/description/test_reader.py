"""Descriptions that are right: YAML and JSON, and the way back from an application to a description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.tests.description.examples import SMALL, SPARK
from quicksilver_apps.description.cli import as_yaml
from quicksilver_apps.description.mistakes import DescriptionError
from quicksilver_apps.description.model import AppClass, Application, as_json
from quicksilver_apps.description.reader import from_data, load, parse, read
from quicksilver_apps.description.templates import escape
from quicksilver_apps.description.upgrades import upgrade, version_mistake


def test_a_description_is_read_with_all_that_it_says() -> None:
    found = parse(SPARK, "app.yaml", {"input": "hdfs:///in", "workers": 9})
    master, worker, job = found.services
    assert (found.name, found.app_class, found.priority, found.labels) == (
        "spark",
        AppClass.INTERACTIVE,
        3,
        {"team": "data"},
    )
    assert [(one.core, one.elastic, one.after) for one in found.services] == [
        (1, 0, ()),
        (1, 9, ("master",)),
        (1, 0, ("master", "worker")),
    ]
    assert master.ports[1].link == "http/jobs" and master.ready.port == "rpc"
    assert worker.resources.memory_mb == 2048 and worker.constraints.racks == ("/rack1",)
    assert job.main and job.command.endswith("--input hdfs:///in --verbose=false")
    assert found.parameters == {}


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    application = parse(SPARK, "app.yaml", {"input": "in"})
    data = escape(as_json(application))
    yaml, with_tabs = tmp_path / "app.yaml", tmp_path / "app.json"
    yaml.write_text(as_yaml(data))
    with_tabs.write_text("\ufeff" + json.dumps(data, indent="\t"))
    assert read(yaml) == read(with_tabs) == from_data(data) == application


def test_flow_mappings_of_yaml_are_no_json() -> None:
    text = "{version: 1, name: a, services: [{name: a, core: 1, command: b, resources: {memory_mb: 1}}]}"
    assert parse(text, "app.yaml").services[0].command == "b"


def test_anchors_and_merges_of_yaml_count() -> None:
    text = SMALL + "  - <<: &base {core: 2, resources: {memory_mb: 8}}\n    name: two\n    command: a\n    core: 3\n"
    text += "  - <<: [*base]\n    name: three\n    command: a\n"
    assert [(one.core, one.resources.memory_mb) for one in parse(text, "app.yaml").services] == [
        (1, 64),
        (3, 8),
        (2, 8),
    ]


def test_dates_stay_as_they_are_written() -> None:
    text = SMALL + "    environment: {DAY: 2026-01-31, AT: 2026-01-31T10:00:00Z, ON: yes}\n"
    assert parse(text, "app.yaml").services[0].environment == {
        "DAY": "2026-01-31",
        "AT": "2026-01-31T10:00:00Z",
        "ON": "yes",
    }


def test_local_files_are_sought_from_the_folder_of_the_description(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(f"{SMALL}files: [{{source: lib/x.jar}}]\n")
    with pytest.raises(DescriptionError, match=r"app.yaml:8: files\[0\].source: there is no file"):
        read(tmp_path / "app.yaml")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "x.jar").touch()
    assert read(tmp_path / "app.yaml").files[0].source == "lib/x.jar"


def test_an_older_version_is_upgraded_step_by_step() -> None:
    upgrades = {
        1: lambda data: {**data, "version": 2, "title": data["name"]},
        2: lambda data: {**data, "version": 3, "name": "new"},
    }
    assert upgrade({"version": 1, "name": "old"}, upgrades) == {"version": 3, "name": "new", "title": "old"}
    assert upgrade({"version": 3, "name": "x"}, upgrades) == {"version": 3, "name": "x"}
    assert version_mistake({"version": 1}) is None and version_mistake({}) is None
    wrong = version_mistake({"version": 2})
    assert wrong is not None and "newer than this program" in wrong.problem


def test_a_check_needs_no_values_and_says_which_a_submission_has_to_give(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(SPARK)
    checked = load(tmp_path / "app.yaml").check()
    assert (checked.error, checked.warnings, checked.to_give) == (None, (), ("input",))
    assert load(tmp_path / "app.yaml").check({"input": "x"}).to_give == ()


def test_a_check_does_not_judge_what_depends_on_a_missing_value(tmp_path: Path) -> None:
    text = SMALL.replace(
        "version: 1", "version: 1\nparameters: {jar: {}, port: {type: integer}, old: {default: 1, type: integer}}"
    )
    text += "    ports: [{name: a, number: '${parameters.port}'}, {name: b, number: 1}]\n"
    text += "    files: [{source: '${parameters.jar}'}]\n"
    (tmp_path / "app.yaml").write_text(text)
    checked = load(tmp_path / "app.yaml").check()
    assert checked.error is None and checked.to_give == ("jar", "port")
    assert checked.warnings == (f"{tmp_path}/app.yaml: parameters.old: no ${{parameters.old}} refers to it; remove it",)
    wrong = load(tmp_path / "app.yaml").check({"jar": "gone.jar", "port": "1"})
    assert wrong.error is not None
    assert [line.split(": ")[1] for line in wrong.error.lines] == [
        "services[0].ports[1].number",
        "services[0].files[0].source",
    ]


names = st.from_regex(r"\A[a-z][a-z0-9-]{0,10}\Z")
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
resources = st.fixed_dictionaries({"memory_mb": st.integers(1, 10**6)}, optional={"vcores": st.integers(1, 99)})
variables = st.dictionaries(st.from_regex(r"\A[A-P_][A-Za-z0-9_]{0,8}\Z"), texts, max_size=3)
times = st.floats(0.001, 1e9)


@st.composite
def services_of(draw: st.DrawFn, name: str, before: list[str]) -> dict[str, Any]:
    ports = draw(st.lists(names, max_size=3, unique=True))
    main = draw(st.booleans())
    return {
        "name": name,
        "core": draw(st.integers(1, 100_000)),
        "elastic": draw(st.integers(0, 100_000)),
        "command": draw(texts.filter(bool)),
        "image": draw(texts),
        "resources": draw(resources),
        "environment": draw(variables),
        "ports": [{"name": one, "link": draw(st.sampled_from(["", "http", "https/a"]))} for one in ports],
        "after": draw(st.lists(st.sampled_from(before), unique=True)) if before else [],
        "ready": {"port": draw(st.sampled_from(["", *ports])), "timeout_s": draw(times)},
        "restart": {
            "policy": draw(st.sampled_from(["never", "on-failure", *([] if main else ["always"])])),
            "limit": draw(st.integers(0, 9)),
        },
        "main": main,
    }


@st.composite
def descriptions(draw: st.DrawFn) -> dict[str, Any]:
    order = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    found: dict[str, Any] = {
        "version": 1,
        "name": draw(names),
        "title": draw(texts),
        "class": draw(st.sampled_from(["batch", "interactive"])),
        "priority": draw(st.integers(0, 1000)),
        "labels": draw(st.dictionaries(texts.filter(lambda text: "$" not in text), texts, max_size=2)),
        "environment": draw(variables),
        "services": [draw(services_of(name, order[:at])) for at, name in enumerate(order)],
        "attempts": draw(st.integers(1, 10)),
    }
    return found | draw(st.fixed_dictionaries({}, optional={"expected_s": times, "idle_s": times, "master": resources}))


@given(descriptions())
def test_an_application_as_json_is_read_as_the_same_application(data: dict[str, Any]) -> None:
    application = Application.model_validate(data)
    written = as_json(application)
    assert Application.model_validate(json.loads(json.dumps(written))) == application
    text = json.dumps(escape(written))
    assert parse(text, "app.json") == application
    assert parse(as_yaml(escape(written)), "app.yaml") == application
