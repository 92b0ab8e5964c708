"""The files of deploy/monitoring: checked by promtool, their metrics exist, their alerts have a part of the docs."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

from rm_proxy.metrics import ProxyMetrics
from sidecar.metrics import SidecarMetrics
from tests.paths import DOCS, ROOT
from tests.test_docs import anchors

FOLDER = ROOT / "deploy" / "monitoring"
PROMETHEUS = FOLDER / "prometheus"
RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))
DASHBOARDS = sorted((FOLDER / "grafana" / "dashboards").glob("*.json"))
_NAME = re.compile(r"\bquicksilver_(?:proxy|sidecar)_\w+")
_RECORDED = re.compile(r"\bquicksilver:\w+:\w+")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grafana_dashboards", ROOT / "scripts" / "grafana_dashboards.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # its dataclasses look their module up
    spec.loader.exec_module(made)
    del sys.modules[spec.name]
    return made


def promtool(*arguments: str, folder: Path = PROMETHEUS) -> str:
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> list[dict[str, Any]]:
    return [rule for file in RULES for group in YAML(typ="safe").load(file)["groups"] for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str]]:
    """Yield all queries of rules and dashboards, each with where it stands."""
    yield from ((rule.get("alert") or rule["record"], rule["expr"]) for rule in rules())
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            yield from ((f"{file.stem}: {panel['title']}", target["expr"]) for target in panel["targets"])


def exposed() -> set[str]:
    """Return the names of all samples that the daemons can expose."""
    ends = {"counter": ("_total",), "info": ("_info",), "histogram": ("_bucket", "_sum", "_count")}
    families = [*ProxyMetrics().registry.collect(), *SidecarMetrics().registry.collect()]
    return {f"{family.name}{end}" for family in families for end in ends.get(family.type, ("",))}


@pytest.mark.daemon
def test_promtool_takes_the_configuration_and_the_rules() -> None:
    assert "rule files found" in promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", *(str(file) for file in RULES))


@pytest.mark.daemon
def test_each_alert_fires_where_it_should_and_none_on_a_healthy_cluster() -> None:
    tested = (PROMETHEUS / "tests" / "quicksilver_test.yml").read_text()
    alerts = [rule["alert"] for rule in rules() if "alert" in rule]
    assert [name for name in alerts if f"  - name: {name}\n" not in tested] == []
    assert "SUCCESS" in promtool("test", "rules", "quicksilver_test.yml", folder=PROMETHEUS / "tests")


@pytest.mark.daemon
def test_a_wrong_rule_is_found(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text("groups: [{name: x, rules: [{alert: A, expr: 'sum('}]}]\n")
    with pytest.raises(AssertionError, match="parse error"):
        promtool("check", "rules", "rules.yml", folder=tmp_path)


def test_all_metrics_of_rules_and_dashboards_exist() -> None:
    known, recorded = exposed(), {rule.get("record") for rule in rules()}
    found = list(queries())
    assert len(found) > 80
    assert [(where, name) for where, query in found for name in _NAME.findall(query) if name not in known] == []
    assert [(where, name) for where, query in found for name in _RECORDED.findall(query) if name not in recorded] == []


def test_each_alert_has_a_runbook_a_severity_and_a_text() -> None:
    headings = anchors(DOCS / "monitoring.md")
    for rule in rules():
        if "alert" not in rule:
            continue
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/monitoring.md" and anchor in headings, rule["alert"]


def test_dashboards_are_what_the_script_writes(generator: ModuleType) -> None:
    assert [file.stem for file in DASHBOARDS] == sorted(generator.DASHBOARDS)
    for file in DASHBOARDS:
        assert file.read_text() == generator.text(file.stem), "run scripts/grafana_dashboards.py"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_has_what_grafana_needs(file: Path) -> None:
    board = json.loads(file.read_text())
    panels = board["panels"]
    assert board["uid"] == f"quicksilver-{file.stem}" and len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24, "panels overlap"
    variables = {one["name"] for one in board["templating"]["list"]}
    used = {name for panel in panels for t in panel["targets"] for name in re.findall(r"\$(\w+)", t["expr"])}
    assert used - {"__rate_interval"} <= variables
