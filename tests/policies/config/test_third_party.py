"""A package that knows quicksilver only as a library offers a policy, and it works by its name."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from policies.base import SLOTS
from policies.config.policy_set import Policies
from policies.config.registry import PARAMETERS, Registry
from policies.decisions.choice import choose
from policies.model import (
    AppView,
    Ask,
    ContainerView,
    Gap,
    JobClass,
    JobView,
    Kind,
    NodeQueue,
    NodeUse,
    NodeView,
    QueueView,
    Resources,
    WorkShares,
)
from policies.probes import NewTasks, ProbedNode
from policies.waiting import WaitingApp
from quicksilver.common.settings.settings_file import SettingsFileError, load_settings
from quicksilver.policy.cli import policy
from tests.paths import ROOT

FILE = """\
policies:
  queues: [batch]
  routes:
    - policy: tagged_q
      settings: {tag: TAG}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "third_party"
    package = Path(__file__).parent / "third_party"
    for file in package.rglob("*"):
        if file.suffix in (".py", ".toml"):
            (source / file.relative_to(package)).parent.mkdir(parents=True, exist_ok=True)
            (source / file.relative_to(package)).write_bytes(file.read_bytes())
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target


def test_unknown_before_it_is_installed() -> None:
    assert "tagged_q" not in Registry().names("route")


def test_is_found_used_and_shown_by_name(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    file = tmp_path / "quicksilver.yaml"
    file.write_text(FILE.replace("TAG", "late"))
    policies = load_settings(file).policies()
    tagged = Ask(AppView("application_1_1", queue="batch", tags=frozenset({"late"})), 1, Resources(1024, 1))
    assert policies.route(tagged, Random(1)).kind is Kind.QUEUEABLE
    plain = Ask(AppView("application_1_2", queue="batch"), 1, Resources(1024, 1))
    assert policies.route(plain, Random(1)).kind is Kind.GUARANTEED
    assert "tagged_q: lacks the tag late" in policies.route(plain, Random(1)).reason

    shown = CliRunner().invoke(policy, ["show", "tagged_q", "--json"])
    assert shown.exit_code == 0
    [one] = json.loads(shown.output)
    assert one["package"] == "night-shift 1.2.3"
    assert one["settings"][0]["default"] == "night"
    assert one["settings"][0]["source"] == "the night shift"


def test_an_order_of_applications_is_found_and_used(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    policies = Policies.load({"dispatch": {"policy": "night_first", "settings": {"user": "owl"}}}, Registry())
    keys = {
        user: policies.cluster.dispatch_key(WaitingApp(AppView("a", user=user, submitted_s=7.0), 3), 9.0)
        for user in ("owl", "lark")
    }
    assert keys == {"owl": (0.0, 7.0), "lark": (1.0, 7.0)}


NIGHT: dict[str, Any] = {
    "queues": "*",
    "routes": [{"policy": "tagged_q", "settings": {"tag": "late"}}],
    "classify": {"policy": "night_owls"},
    "partition": {"policy": "night_first_node"},
    "dispatch": {"policy": "night_first"},
    "probe": {"policy": "night_probe"},
    "place": {"policy": "night_last"},
    "match": {"policy": "night_match"},
    "order": {"policy": "night_longest"},
    "fill": {"policy": "night_short"},
    "preempt": {"policy": "night_all"},
    "headroom": {"policy": "night_half"},
    "quota": {"policy": "night_no_owls"},
    "admit": {"policy": "night_tokens"},
    "shed": {"policy": "night_one"},
    "steal": {"policy": "night_thief"},
    "correct": {"policy": "night_correct"},
    "police": {"policy": "night_police"},
    "promote": {"policy": "night_larks"},
}


def test_each_slot_takes_a_policy_of_theirs(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    assert {"route" if slot == "routes" else slot for slot in NIGHT} - {"queues"} == set(SLOTS)
    policies = Policies.load(NIGHT, Registry())
    owl, lark = AppView("a", user="owl"), AppView("b", user="lark", tags=frozenset({"late"}))
    size, four = Resources(1024, 1), Resources(4096, 4)
    nodes = [NodeView(name, name, capacity=four) for name in ("n1", "n2")]
    waiting = ContainerView("c1", "a", Kind.QUEUEABLE, size, expected_s=5.0)
    queue, here = QueueView("root.default"), NodeQueue(nodes[0], waiting=(waiting,))
    of_node, of_all, rng = policies.node, policies.cluster, Random(1)
    assert of_all.classify(JobView(owl, 1.0, known=True)) is JobClass.LONG
    assert of_all.partition(nodes, WorkShares()) == {"n1"}
    probed = [ProbedNode(node) for node in nodes]
    assert of_all.probe(NewTasks(lark, 2), probed, rng) == ["n1", "n1"]
    assert policies.place(Ask(lark, 1, size), nodes, rng).node == "n2"
    assert of_all.match([[("n1", 1.0), ("n2", 2.0)]]) == ["n2"]
    assert of_node.order_key(waiting, 0.0) == (-5.0,)
    assert of_node.fill(waiting, Gap(waiting, 6.0, 0.0)) and not of_node.fill(waiting, Gap(waiting, 4.0, 0.0))
    assert of_node.victims(size, [waiting], 0.0) == ["c1"]
    assert policies.headroom(four, owl) == Resources(2048, 2)
    assert choose(policies, Ask(lark, 1, size), queue, rng, 0.0).kind is Kind.QUEUEABLE
    late_owl = replace(lark, user="owl")
    assert choose(policies, Ask(late_owl, 1, size), queue, rng, 0.0).reason == "no owls"
    bat = choose(policies, Ask(replace(lark, user="bat"), 1, size), queue, rng, 0.0)
    assert (bat.kind, bat.slot, bat.reason) == (Kind.GUARANTEED, "admit", "bats have tokens")
    assert {name: target.max_queue for name, target in of_all.shed(nodes, 0.0).items()} == {"n1": 1, "n2": 1}
    assert of_all.steal(nodes[1], [here], rng, 0.0) == ["c1"]
    assert of_all.correct(waiting, here, nodes[1], 0.0) == "the night is short"
    limit = of_all.police(NodeUse("n1", four, size), 0.0)
    assert limit is not None and limit.resources == Resources(3072, 3)
    assert (policies.promote(waiting, lark, queue, 0.0), policies.promote(waiting, owl, queue, 0.0)) == ("a lark", None)


def test_its_settings_are_checked_too(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    file = tmp_path / "quicksilver.yaml"
    file.write_text(FILE.replace("TAG", "7"))
    with pytest.raises(SettingsFileError) as caught:
        load_settings(file).policies()
    assert str(caught.value) == (
        f"{file}:5:23: policies.routes[0].settings.tag: must be text (quote it), got 7 "
        "(tagged_q: tag of the applications whose tasks are queueable)"
    )


def test_the_page_has_the_parameters_of_each_slot() -> None:
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    rows = [f"| `{slot}` | `{', '.join(parameters)}` |" for slot, parameters in PARAMETERS.items()]
    assert [row for row in rows if row not in page] == []
