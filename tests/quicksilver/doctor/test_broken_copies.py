"""Broken copies of the local cluster's configuration: each is named, and the XML that is printed makes it clean."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver.common.hadoop.xml import read_properties
from quicksilver.doctor.codes import CODES
from quicksilver.doctor.queue_names import STORE, fair_queues
from quicksilver.doctor.site_edit import apply
from tests.quicksilver.doctor.words import ALL_Q, LAS, copy_of, cure, serious

_RM = "yarn.resourcemanager"
_NM = "yarn.nodemanager"
_O = f"{_RM}.opportunistic-container-allocation"
_DOMINANT = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
_FAIR = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
_MONITOR = {f"{_RM}.scheduler.monitor.enable": "true"}
PROMOTE = ALL_Q.replace("policies: {", "policies: {promote: {policy: when_room}, ")
BATCH = ALL_Q.replace("'*'", "[batch]")


@dataclass(frozen=True)
class Broken:
    """What is changed in a copy, and what the doctor has to say about which property."""

    code: str
    role: str
    put: dict[str, str]
    property: str = ""
    remove: tuple[str, ...] = ()
    file: str = "yarn-site.xml"
    settings: str = ALL_Q
    spec: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code} {self.role} {next(iter(self.put.items()), self.remove)}"


BROKEN = [
    Broken("opportunistic-off", "rm", {}, f"{_O}.enabled", (f"{_O}.enabled",)),
    Broken("opportunistic-off", "rm", {f"{_O}.enabled": "false"}),
    Broken("nodes-used", "rm", {f"{_O}.nodes-used": "10"}),
    Broken("load-comparator", "rm", {f"{_RM}.nm-container-queuing.load-comparator": "QUEUE_LENGTH"}),
    Broken("scheduler-not-moved", "rm", {f"{_RM}.scheduler.address": "127.0.0.1:18030"}),
    Broken("opportunistic-rate", "rm", {f"{_RM}.opportunistic.max.container-allocation.per.am.heartbeat": "5"}),
    Broken(
        "own-grants",
        "rm",
        {},
        f"{_NM}.distributed-scheduling.enabled",
        (f"{_NM}.distributed-scheduling.enabled",),
        settings=ALL_Q.replace("proxy: {", "proxy: {own_grants: true, "),
        spec={"own_grants": True},
    ),
    Broken("auto-update-off", "rm", {f"{_RM}.auto-update.containers": "false"}, settings=PROMOTE),
    Broken(
        "resource-calculator",
        "rm",
        {},
        "yarn.scheduler.capacity.resource-calculator",
        ("yarn.scheduler.capacity.resource-calculator",),
        file="capacity-scheduler.xml",
        settings=LAS,
        spec={"resource_calculator": "dominant"},
    ),
    Broken("rm-preemption", "rm", _MONITOR, "yarn.scheduler.capacity.root.disable_preemption"),
    Broken("rm-preemption", "rm", _MONITOR, "yarn.scheduler.capacity.root.batch.disable_preemption", settings=BATCH),
    Broken("rm-preemption", "rm", {"yarn.scheduler.fair.preemption": "true", f"{_RM}.scheduler.class": _FAIR}),
    Broken(
        "rm-work-preserving",
        "rm",
        {f"{_RM}.recovery.enabled": "true", f"{_RM}.work-preserving-recovery.enabled": "false"},
        f"{_RM}.work-preserving-recovery.enabled",
    ),
    Broken("am-liveness", "rm", {"yarn.am.liveness-monitor.expiry-interval-ms": "3000"}),
    Broken("token-expiry", "rm", {f"{_RM}.rm.container-allocation.expiry-interval-ms": "20000"}),
    Broken("nm-queue-length", "nm", {f"{_NM}.opportunistic-containers-max-queue-length": "0"}),
    Broken("nm-queue-policy", "nm1", {f"{_NM}.opportunistic-containers-queue-policy": "BY_RESOURCES"}),
    Broken("nm-pause", "nm", {f"{_NM}.opportunistic-containers-use-pause-for-preemption": "true"}),
    Broken("nm-hostname", "nm1", {f"{_NM}.address": "0.0.0.0:18100"}),
    Broken("nm-hostname", "nm1", {f"{_NM}.webapp.address": "0.0.0.0:18102"}),
    Broken("nm-port", "nm1", {f"{_NM}.address": "127.0.0.11:0"}),
    Broken("nm-port", "nm1", {f"{_NM}.webapp.address": "127.0.0.11:http"}),
    Broken("nm-port-high", "nm1", {f"{_NM}.address": "127.0.0.11:45454"}),
    Broken("nm-bind-host", "nm", {}, f"{_NM}.bind-host", (f"{_NM}.bind-host",)),
    Broken("nm-bind-host", "nm1", {f"{_NM}.bind-host": "0.0.0.0"}),
    Broken("nm-localizer", "nm1", {f"{_NM}.localizer.address": "127.1.2.3.example:18101"}),
    Broken(
        "nm-collector",
        "nm",
        {
            "yarn.timeline-service.enabled": "true",
            "yarn.timeline-service.version": "2.0f",
            f"{_NM}.collector-service.address": "node1.example:8048",
        },
        f"{_NM}.collector-service.address",
    ),
    Broken("nm-vcores", "nm", {f"{_NM}.resource.cpu-vcores": "2"}),
    Broken(
        "nm-capacity",
        "nm",
        {f"{_NM}.resource.cpu-vcores": "6"},
        settings=LAS,
        spec={"resource_calculator": "dominant"},
    ),
    Broken("nm-memory", "nm", {f"{_NM}.resource.memory-mb": "2048"}, settings=f"{ALL_Q}sidecar: {{memory_mb: 4096}}\n"),
    Broken("nm-strict-usage", "nm1", {f"{_NM}.linux-container-executor.cgroups.strict-resource-usage": "true"}),
    Broken("nm-elastic-memory", "nm", {f"{_NM}.elastic-memory-control.enabled": "true"}),
    Broken("federation", "nm", {f"{_NM}.amrmproxy.enabled": "true"}),
    Broken("federation", "nm1", {f"{_NM}.distributed-scheduling.enabled": "true"}),
    Broken("scheduler-not-at-proxy", "nm1", {f"{_RM}.scheduler.address": "127.0.0.1:18035"}),
    Broken("scheduler-not-at-proxy", "client", {f"{_RM}.scheduler.address": "127.0.0.1:18035"}),
    Broken("retry-interval", "nm", {}, f"{_RM}.connect.retry-interval.ms", (f"{_RM}.connect.retry-interval.ms",)),
    Broken("task-timeout", "client", {"mapreduce.task.timeout": "30000"}, file="mapred-site.xml"),
    Broken("rpc-protection", "all", {"hadoop.rpc.protection": "privacy"}, file="core-site.xml"),
    Broken("rpc-protection", "nm", {"hadoop.rpc.protection": "integrity,privacy"}, file="core-site.xml"),
    Broken("rpc-protection", "client", {"hadoop.rpc.protection": "integrity"}, file="core-site.xml"),
    Broken(
        "misspelt",
        "nm",
        {"yarn.nodemanger.bind-host": "127.0.0.1"},
        "yarn.nodemanger.bind-host",
        (f"{_NM}.bind-host",),
    ),
    Broken("misspelt", "rm", {"yarn.resourcemanager.recovery_enabled": "false"}),
    Broken("misspelt", "client", {"mapreduce.task.timeuot": "30000"}, file="mapred-site.xml"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_each_is_named_and_its_remedy_makes_it_clean(broken: Broken, tmp_path: Path) -> None:
    copy = copy_of(tmp_path, broken.settings, **broken.spec)
    assert serious(copy.look()) == []
    copy.change(broken.role, broken.file, broken.put, *broken.remove)
    sick = copy.look()
    wanted = broken.property or next(iter(broken.put))
    found = [one for one in sick["findings"] if one["code"] == broken.code and one["property"] == wanted]
    assert len(found) >= 1
    assert all(one["why"] and one["wanted"] and one["found"] for one in found)
    assert all(name in one["remedy"]["xml"] for one in found for name in one["remedy"]["put"])
    roles = {place["directory"] for one in found for place in one["places"]}
    assert roles == {str(folder) for folder in copy.folders(broken.role)}
    for _ in range(3):  # a remedy may bring the next thing to light
        if serious(sick):
            cure(sick)
            sick = copy.look()
    assert serious(sick) == []


def test_there_are_enough_of_them() -> None:
    assert len({broken.code for broken in BROKEN}) >= 20
    assert {broken.code for broken in BROKEN} <= CODES.keys()


def test_exit_codes_and_the_last_line(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    done = copy.run()
    assert (done.exit_code, done.stdout.splitlines()[-1].split(":")[0]) == (0, "clean")
    copy.change("client", "yarn-site.xml", {f"{_RM}.connect.retry-interval.ms": "30000"})
    assert copy.run().exit_code == 0
    assert copy.run("--strict").exit_code == 1
    copy.change("nm", "yarn-site.xml", {}, f"{_NM}.bind-host")
    done = copy.run("-v")
    assert done.exit_code == 1
    assert "error nm-bind-host: yarn.nodemanager.bind-host is not set" in done.stdout
    assert f"<name>{_NM}.bind-host</name>" in done.stdout
    assert done.stdout.splitlines()[-1] == "not clean: 1 error, 1 warning, 3 notes; 2 things not checked"
    (copy.conf.client / "yarn-site.xml").write_text("<configuration>\n<property>\n</configuration>\n")
    done = copy.run()
    assert done.exit_code == 2
    assert f"{copy.conf.client / 'yarn-site.xml'}:3: not well-formed XML" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_line_is_named_and_a_final_in_another_file_too(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    core = copy.conf.nodemanagers[0] / "core-site.xml"
    text = f"<property><name>{_NM}.bind-host</name><value>0.0.0.0</value><final>true</final></property>"
    core.write_text(f"<configuration>\n{text}\n</configuration>\n")
    (found,) = [one for one in serious(copy.look()) if one["code"] == "nm-bind-host"]
    assert found["places"] == [
        {
            "host": "127.0.0.11",
            "role": "nodemanager",
            "directory": str(core.parent),
            "file": str(core),
            "line": 2,
        }
    ]
    assert found["remedy"]["file"] == "core-site.xml"


def test_what_is_the_same_on_all_nodes_is_said_once(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    copy.change("nm", "yarn-site.xml", {f"{_NM}.opportunistic-containers-max-queue-length": "0"})
    (found,) = serious(copy.look())
    assert [place["host"] for place in found["places"]] == ["127.0.0.11", "127.0.0.12", "127.0.0.13"]


def test_mistakes_of_quicksilver_yaml_have_their_line(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    copy.yaml.write_text(f"{ALL_Q}sidecar:\n  recerve_mb: 5\n")
    found = [one for one in serious(copy.look()) if one["code"] == "settings"]
    assert [(one["places"][0]["line"], "reserve_mb" in one["found"]) for one in found] == [(4, True)]


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        ("proxy-upstream", ALL_Q.replace("18035", "18099")),
        ("hold-limit", ALL_Q.replace("18035'", "18035', max_hold_by_type_s: {TEZ: 400}")),
        ("no-queues", "policies: {preset: stock}\nproxy: {upstream: '127.0.0.1:18035'}\n"),
        ("front-places", "proxy: {upstream: '127.0.0.1:18035'}\n"),
        ("proxy-upstream", "proxy: {round_s: 2}\n"),
        ("rest-insecure", "security: {insecure: true}\n"),
    ],
)
def test_settings_that_do_not_fit(code: str, settings: str, tmp_path: Path) -> None:
    assert code in {one["code"] for one in copy_of(tmp_path, settings).look()["findings"]}


def test_a_relay_that_no_settings_speak_of(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    put = {f"{_RM}.resource-tracker.address": "127.0.0.1:18031", f"{_RM}.hostname": "rm.example"}
    copy.change("nm1", "yarn-site.xml", put)
    assert [one["code"] for one in serious(copy.look())] == ["nm-tracker"]
    copy.yaml.write_text(f"{ALL_Q}tracker: {{rm_vcores: 8}}\n")
    assert serious(copy.look()) == []


def test_each_resourcemanager_of_several_has_an_address(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    ha = {
        f"{_RM}.ha.enabled": "true",
        f"{_RM}.ha.rm-ids": "rm1,rm2",
        f"{_RM}.hostname.rm1": "one.example",
        f"{_RM}.hostname.rm2": "two.example",
    }
    copy.change("all", "yarn-site.xml", ha)
    found = serious(copy.look())
    names = {one["property"]: one["remedy"]["put"] for one in found if one["code"] == "scheduler-not-moved"}
    assert names == {
        f"{_RM}.scheduler.address.rm1": {f"{_RM}.scheduler.address.rm1": "one.example:18035"},
        f"{_RM}.scheduler.address.rm2": {f"{_RM}.scheduler.address.rm2": "two.example:18035"},
    }
    cure({"findings": found})
    assert serious(copy.look()) == []
    copy.change("all", "yarn-site.xml", {f"{_RM}.hostname.rm2": ""})
    assert {one["code"] for one in serious(copy.look())} >= {"ha-incomplete"}


def test_the_recipe_for_encrypted_clusters_is_what_the_doctor_wants(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    recipe = {prop.name: prop.value for prop in read_properties(overlay_root() / "secure" / "core-site.xml")}
    copy.change("all", "core-site.xml", {"hadoop.rpc.protection": recipe["hadoop.rpc.protection"]})
    (found,) = [one for one in serious(copy.look()) if one["places"][0]["role"] == "resourcemanager"]
    assert found["remedy"]["put"]["ingress.port.sasl.configured.ports"] == "18035,18031,18032,18033"
    assert found["remedy"]["put"]["ingress.port.sasl.prop.18035"] == "authentication"
    assert "ingress.port.sasl.prop.18032" not in found["remedy"]["put"], "it offers privacy without a property"
    own = {name.replace("18030", "18035").replace("8041", "18100"): value for name, value in recipe.items()}
    own["ingress.port.sasl.configured.ports"] = "18035,18031,18032,18033,18100,18101"
    for role in ("client", "rm", "nm1"):
        copy.change(role, "core-site.xml", own)
    assert [place["host"] for one in serious(copy.look()) for place in one["places"]] == ["127.0.0.12", "127.0.0.13"]
    copy.change("nm1", "core-site.xml", {"ingress.port.sasl.prop.18100": "privacy"})
    assert "127.0.0.11" in [place["host"] for one in serious(copy.look()) for place in one["places"]]


def test_ports_of_a_cluster_of_integrity_stay_as_they_are(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    copy.change("all", "core-site.xml", {"hadoop.rpc.protection": "integrity"})
    (found,) = [one for one in serious(copy.look()) if one["places"][0]["role"] == "resourcemanager"]
    put = found["remedy"]["put"]
    assert put["hadoop.rpc.protection"] == "integrity,authentication"
    assert {name[-5:]: value for name, value in put.items() if name.startswith("ingress.port.sasl.prop.")} == {
        "18035": "authentication",
        "18031": "integrity",
        "18032": "integrity",
        "18033": "integrity",
    }


def test_a_cluster_with_high_availability(tmp_path: Path) -> None:
    copy = copy_of(tmp_path, "policies: {queues: '*'}\n", ha=True)
    assert serious(copy.look()) == []
    second = copy.conf.resourcemanagers[1] / "yarn-site.xml"
    name = f"{_RM}.scheduler.address.rm2"
    public = copy.conf.spec.resource_managers[1].scheduler
    second.write_bytes(apply(second.read_bytes(), {name: str(public), f"{_RM}.recovery.enabled": "false"}, (), second))
    sick = copy.look()
    assert {one["code"] for one in serious(sick)} == {"scheduler-not-moved", "rm-recovery"}
    assert {place["directory"] for one in serious(sick) for place in one["places"]} == {str(second.parent)}
    cure(sick)
    assert serious(copy.look()) == []
    copy.change("client", "yarn-site.xml", {"yarn.client.failover-sleep-max-ms": "30000"})
    (found,) = serious(copy.look())
    assert (found["code"], found["property"]) == ("retry-interval", "yarn.client.failover-sleep-max-ms")


_CAPACITY = "yarn.scheduler.capacity.root"
QUEUES = {f"{_CAPACITY}.queues": "prod, dev", f"{_CAPACITY}.dev.queues": "adhoc"}
NAMED = """\
proxy: {upstream: '127.0.0.1:18035'}
policies:
  queues: [root.bacth, root.dev, 'root.p*', prod]
  modes: [{queue: root.dev.adhok, mode: shadow}]
  rollout: [{queue: root.nowhere, use: b}]
  windows: [{queue: root.prod, name: w, cron: '0 1 * * *', length_s: 60, use: b}]
  routes: [{match: {queue: adhoc}, policy: only_g}]
  estimate: {rules: [{match: {queue: root.dev.adhoc}, expected_s: 5}]}
  alternatives: {b: {queues: [root.prod, root.old]}}
"""


def unknown(data: dict[str, Any]) -> list[str]:
    return sorted(one["found"] for one in data["findings"] if one["code"] == "unknown-queue")


def test_queues_that_capacity_scheduler_xml_has_not(tmp_path: Path) -> None:
    copy = copy_of(tmp_path, NAMED)
    copy.change("rm", "capacity-scheduler.xml", QUEUES)
    done = copy.run("--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    ending = "which is no queue in capacity-scheduler.xml"
    assert unknown(found) == [
        f"policies.alternatives.b.queues has root.old, {ending}",
        f"policies.modes[0].queue has root.dev.adhok, {ending}",
        f"policies.queues has root.bacth, {ending}",
        f"policies.rollout[0].queue has root.nowhere, {ending}",
        f"policies.routes[0].match.queue has adhoc, {ending}",
    ]
    remedies = [one["remedy"]["text"] for one in found["findings"] if "adhok" in one["found"]]
    assert remedies == ["did you mean root.dev.adhoc? Take one of root.dev, root.dev.adhoc, root.prod"]


@pytest.mark.parametrize(
    "more",
    [
        {f"{_CAPACITY}.auto-queue-creation-v2.enabled": "true"},
        {f"{_RM}.scheduler.class": "org.example.FairScheduler"},
        {f"{_RM}.scheduler.class": "org.example.CapacitySchedulerOfOurs", STORE: "zk"},
        {STORE: "zk"},
    ],
    ids=["queues that are made by themselves", "another scheduler", "an unknown scheduler", "queues in a store"],
)
def test_queues_that_no_file_has_to_name(more: dict[str, str], tmp_path: Path) -> None:
    copy = copy_of(tmp_path, NAMED)
    copy.change("rm", "capacity-scheduler.xml", QUEUES | more)
    found = copy.look()
    assert unknown(found) == []
    assert any(STORE in str(line) for line in found["not_checked"]) == (list(more) == [STORE])


def test_an_allocation_file_has_any_encoding(tmp_path: Path) -> None:
    file = tmp_path / "fair-scheduler.xml"
    text = (
        '<?xml version="1.0" encoding="GB2312"?><allocations><queue name="队列"><queue name="a"/></queue></allocations>'
    )
    file.write_bytes(text.encode("gb2312"))
    assert fair_queues(file) == {"root.队列", "root.队列.a"}


def test_queues_in_a_store_are_not_checked_and_that_is_said(tmp_path: Path) -> None:
    copy = copy_of(tmp_path, NAMED)
    for kind, lines in (("file", 0), ("leveldb", 1)):
        copy.change("rm", "yarn-site.xml", {STORE: kind})
        said = [line for line in copy.look()["not_checked"] if f"{STORE}={kind} keeps it in a store" in str(line)]
        assert len(said) == lines


def test_what_hadoop_passes_over_is_a_warning_with_its_line(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    (folder,) = copy.folders("rm")
    file = folder / "yarn-site.xml"
    file.write_bytes(
        file.read_bytes().replace(b"<configuration>", b"<configuration><property><value>1</value></property>")
    )
    line = file.read_text().splitlines().index("<configuration><property><value>1</value></property>") + 1
    (found,) = [one for one in copy.look()["findings"] if one["code"] == "site-file"]
    assert found["severity"] == "warning" and found["found"] == "a <property> without a <name>"
    assert [(one["file"], one["line"]) for one in found["places"]] == [(str(file), line)]


def test_times_have_units_and_properties_old_names(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    copy.change("rm", "yarn-site.xml", {"yarn.am.liveness-monitor.expiry-interval-ms": "3s"})
    (folder,) = copy.folders("client")
    old = "<property><name>mapred.task.timeout</name><value>30000</value></property></configuration>"
    file = folder / "mapred-site.xml"
    file.write_text(file.read_text().replace("</configuration>", old))
    codes = {one["code"] for one in copy.look()["findings"]}
    assert {"am-liveness", "task-timeout"} <= codes


def test_warnings_of_the_policy_check_are_notes(tmp_path: Path) -> None:
    settings = "policies: {queues: root.default, routes: [{match: {type: MAPRED}, policy: only_q}]}\n"
    notes = [one["found"] for one in copy_of(tmp_path, settings).look()["findings"] if one["code"] == "settings-note"]
    [note] = notes
    assert note.startswith("policies.routes[0].match.type: ") and "did you mean MAPREDUCE?" in note
