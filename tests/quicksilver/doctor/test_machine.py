"""What is seen on the machine itself, judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from policies.config.policy_set import Policies
from quicksilver.doctor.checks.machine import check
from quicksilver.doctor.collect import CollectPlaces, read_files
from quicksilver.doctor.local import look_here
from quicksilver.doctor.model import DoctorDaemon, DoctorMachine, DoctorSettings, Facts, Live, Secret, Severity
from tests.quicksilver.doctor.words import LAS, copy_of

FINE = DoctorMachine(
    "here",
    is_node=True,
    is_proxy=True,
    root=True,
    systemd_units=frozenset({"quicksilver-proxy.service", "quicksilver-sidecar.service"}),
    open_files=65536,
    store_dir=Path("/var/lib/quicksilver"),
    store_mode=0o700,
    store_writable=True,
    secrets=(Secret(Path("/etc/t"), "security.token_file", 0o600),),
    memory_mb=16_000,
    cores=4,
    resizer="cgroup1",
    journal_dir=Path("/var/lib/quicksilver"),
    journal_writable=True,
    listeners={},
)
SHRINKS = DoctorSettings(policies=Policies.load({"queues": "*", "preempt": {"policy": "las"}}))


def codes(machine: DoctorMachine, settings: DoctorSettings = SHRINKS) -> dict[str, Severity]:
    return {found.code: found.severity for found in check(Facts(settings, machine=machine))}


def test_nothing_is_wrong_with_a_good_one() -> None:
    assert codes(FINE) == {}
    assert list(check(Facts())) == []


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("systemd-unit", {"systemd_units": frozenset({"quicksilver-proxy.service"})}),
        ("open-files", {"open_files": 1024}),
        ("store-open", {"store_mode": 0o770}),
        ("store-rights", {"store_writable": False}),
        ("secret-readable", {"secrets": (Secret(Path("/etc/t"), "security.token_file", 0o644),)}),
        ("secret-missing", {"secrets": (Secret(Path("/etc/t"), "security.tls_key", None),)}),
        ("no-resizer", {"resizer": "", "resizer_why": ("cgroup1: no right",)}),
        ("not-root", {"root": False}),
        ("cgroup-version", {"cgroup": "v2"}),
        ("journal-rights", {"journal_writable": False}),
        ("nm-hostname", {"listen_addresses": {"node1": ("127.0.1.1",)}}),
        ("journal-rights", {"journal_dir": None, "journal_writable": None}),
        ("node-listeners", {"listeners": {"10.0.0.7:8041": "NodeManager"}}),
    ],
)
def test_each_is_found(code: str, change: dict[str, Any]) -> None:
    assert codes(replace(FINE, **change)).keys() == {code}


def test_nobody_needs_a_resizer_where_nothing_is_shrunk() -> None:
    machine = replace(FINE, resizer=None, root=False)
    assert codes(machine, DoctorSettings(policies=Policies.load({"queues": "*"}))) == {}


def test_memory_that_is_not_there(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    facts = read_files(CollectPlaces(copy.yaml, copy.conf.nodemanagers[0], node=True))
    host = facts.nms[0].host
    found = [one.code for one in check(replace(facts, machine=replace(FINE, host=host, memory_mb=4096)))]
    assert found == ["physical-memory"]


def test_control_groups_v2_before_hadoop_knows_them(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    facts = replace(
        read_files(CollectPlaces(copy.yaml, copy.conf.nodemanagers[0], node=True)), machine=replace(FINE, cgroup="v2")
    )
    assert [one.severity for one in check(facts)] == [Severity.NOTE]
    executor = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor"
    put = {"yarn.nodemanager.container-executor.class": executor, "yarn.nodemanager.resource.cpu.enabled": "true"}
    copy.change("nm1", "yarn-site.xml", put)
    facts = replace(facts, nms=read_files(CollectPlaces(copy.yaml, copy.conf.nodemanagers[0], node=True)).nms)
    assert [(one.code, one.severity) for one in check(facts)] == [("cgroup-version", Severity.WARNING)]
    newer = Live(nms=(DoctorDaemon("nodemanager", "n", "u", version="3.5.0"),))
    (found,) = check(replace(facts, live=newer))
    assert found.severity == Severity.WARNING
    assert found.remedy.put == {"yarn.nodemanager.linux-container-executor.cgroups.v2.enabled": "true"}
    copy.change("nm1", "yarn-site.xml", dict(found.remedy.put))
    facts = replace(facts, nms=read_files(CollectPlaces(copy.yaml, copy.conf.nodemanagers[0], node=True)).nms)
    assert [one.severity for one in check(replace(facts, live=newer))] == [Severity.NOTE]


def test_this_machine_is_looked_at_and_what_is_not_is_said(tmp_path: Path) -> None:
    copy = copy_of(tmp_path, LAS)
    where = CollectPlaces(copy.yaml, copy.conf.nodemanagers[0], node=True)
    seen = look_here(read_files(where), where, offline=True)
    assert seen.machine is not None
    assert (seen.machine.is_node, seen.machine.is_proxy) == (True, False)
    assert seen.machine.memory_mb > 100
    assert seen.machine.listeners is not None
    assert seen.machine.listen_addresses == {"127.0.0.11": ("127.0.0.11",)}
    assert "running daemons" in {item.subject for item in seen.unchecked}
    seen = look_here(read_files(CollectPlaces(copy.yaml, copy.conf.client)), CollectPlaces(), offline=False)
    assert seen.machine is not None and seen.machine.is_proxy  # the scheduler's address is loopback
    assert "the nodes' own side" in {item.subject for item in seen.unchecked}


def test_secrets_are_those_that_settings_name(tmp_path: Path) -> None:
    token = tmp_path / "tokens"
    token.write_text("read abcdefghijklmnopqrstuvwxyz\n")
    token.chmod(0o644)
    yaml = f"security: {{token_file: {token}}}\nproxy: {{store_url: 'postgresql+psycopg://q:secret@db/q'}}\n"
    copy = copy_of(tmp_path, yaml)
    copy.yaml.chmod(0o644)
    seen = look_here(read_files(CollectPlaces(copy.yaml, copy.conf.client)), CollectPlaces(), offline=True)
    assert seen.machine is not None
    assert [(s.path, s.mode) for s in seen.machine.secrets] == [(token, 0o644), (copy.yaml, 0o644)]
    text = copy.run().stdout
    assert text.count("secret-readable") == 2
    assert "secret@" not in text


def test_a_machine_that_is_no_proxy_is_not_judged_as_one() -> None:
    elsewhere = replace(FINE, is_proxy=False, open_files=10, store_writable=False)
    assert codes(elsewhere) == {}
