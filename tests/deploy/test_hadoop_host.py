"""`libexec/hadoop-host` and what EMR and Dataproc start, on folders laid out like their hosts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.fake_host import VERSION, YARN_SITE, FakeHost, fake_host, write_program
from tests.paths import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
SCRIPTS: Final = (
    "deploy/packages/tree/hadoop-host",
    "deploy/packages/tree/setup-archive",
    "deploy/emr/bootstrap.sh",
    "deploy/dataproc/init-action.sh",
)
EMR_RECORD: Final = """\
jobFlowId: "j-1"
localInstance {
  id: "i-1"
  instanceRole: "core"
  nodeProvisionCheckinRecord {
    status: %s
  }
}
"""
METADATA: Final = '#!/bin/sh\ncat "$QUICKSILVER_ROOT/metadata/${1#attributes/}"\n'


def value(host: FakeHost, name: str) -> str | None:
    """Return a property as Hadoop has it from the host's files, without substitution; the last one counts."""
    text = (host.conf / "yarn-site.xml").read_text()
    _, _, rest = text.rpartition(f"<name>{name}</name>")
    return rest.partition("<value>")[2].partition("</value>")[0] if rest != text else None


def with_keys(host: FakeHost) -> None:
    host.unpack()
    shutil.unpack_archive(host.root / "bucket/keys.tar.gz", host.root / "etc/quicksilver", filter="tar")


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_portable_shell(script: str) -> None:
    done = subprocess.run(["sh", "-n", ROOT / script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if checker := shutil.which("shellcheck"):
        done = subprocess.run([checker, "-s", "sh", ROOT / script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_a_node_is_set_up_once_and_goes_back_byte_for_byte(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "nodemanager")
    with_keys(host)
    before = host.files()
    done = host.run(host.hadoop_host, "setup")
    assert done.returncode == 0, done.stderr
    assert host.calls() == [
        "restart hadoop-yarn-nodemanager.service",
        "enable quicksilver-sidecar.service",
        "start quicksilver-sidecar.service",
    ]
    assert value(host, "yarn.nodemanager.hostname") == "node1.example"
    assert value(host, "yarn.nodemanager.bind-host") == "127.0.0.1"
    assert value(host, "yarn.nodemanager.resource.cpu-vcores") == "8"  # 8 GB of 1 GB: memory alone counts
    etc = tmp_path / "etc/quicksilver"
    assert "vcores: 4 " in (etc / "quicksilver.yaml").read_text()
    assert (etc / "tls/node1.example.crt").exists() and not (etc / "ca/ca.key").exists()
    assert [line.partition(":")[0] for line in (etc / "tokens").read_text().splitlines()] == [
        "admin sha256",
        "read sha256",
    ]
    after = {path: path.read_bytes() for path in etc.rglob("*") if path.is_file()} | {
        host.conf: b"".join(host.files().values())
    }
    done = host.run(host.hadoop_host, "setup")
    assert (done.returncode, host.calls()) == (0, []), done.stderr
    assert after == {path: path.read_bytes() if path.is_file() else b"".join(host.files().values()) for path in after}

    assert host.run(host.hadoop_host, "remove").returncode == 0
    assert host.calls() == ["stop quicksilver-sidecar.service", "restart hadoop-yarn-nodemanager.service"]
    assert host.files() == before
    assert host.run(host.hadoop_host, "remove").returncode == 0
    assert host.calls() == []


def test_clients_on_the_resourcemanagers_host_find_the_proxy(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "resourcemanager")
    with_keys(host)
    done = host.run(host.hadoop_host, "setup")
    assert done.returncode == 0, done.stderr
    assert host.calls()[0] == "restart hadoop-yarn-resourcemanager.service" and host.active("quicksilver-proxy")
    assert value(host, "quicksilver.resourcemanager.scheduler.port") == "8030"
    assert "-Dquicksilver.resourcemanager.scheduler.port=18030" in (host.conf / "yarn-env.sh").read_text()
    settings = (tmp_path / "etc/quicksilver/quicksilver.yaml").read_text()
    assert "upstream: rm.example:18030" in settings and "rest_listen: rm.example:8390" in settings


def test_files_that_a_manager_wrote_anew_are_followed_at_the_next_start(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "nodemanager")
    with_keys(host)
    assert host.run(host.hadoop_host, "setup").returncode == 0
    wanted = host.files()
    (host.conf / "yarn-site.xml").write_text(YARN_SITE)
    host.run("systemctl", "restart", "hadoop-yarn-nodemanager.service")
    assert host.files() == wanted
    (host.conf / "yarn-site.xml").write_text(YARN_SITE.replace("4</value>", "16</value>"))
    host.run("systemctl", "restart", "hadoop-yarn-nodemanager.service")
    assert value(host, "yarn.nodemanager.bind-host") == "127.0.0.1"


def test_a_start_that_quicksilver_cannot_prepare_is_one_of_stock_yarn(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "nodemanager")
    with_keys(host)
    assert host.run(host.hadoop_host, "setup").returncode == 0
    final = YARN_SITE.replace(
        "</configuration>",
        "<property><name>yarn.nodemanager.bind-host</name><value>0.0.0.0</value><final>true</final></property>\n</configuration>",
    )
    (host.conf / "yarn-site.xml").write_text(final)
    host.calls()
    host.run("systemctl", "restart", "hadoop-yarn-nodemanager.service")
    assert (host.conf / "yarn-site.xml").read_text() == final
    assert host.active("hadoop-yarn-nodemanager") and not host.active("quicksilver-sidecar")


def test_a_daemon_that_does_not_start_goes_back(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "nodemanager")
    with_keys(host)
    before = host.files()
    (tmp_path / "systemd/broken-quicksilver-sidecar.service").touch()
    done = host.run(host.hadoop_host, "setup")
    assert done.returncode == 1 and "goes back to stock YARN" in done.stderr
    assert host.files() == before and host.active("hadoop-yarn-nodemanager")


def test_what_the_doctor_refuses_is_left_alone(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "nodemanager")
    host.unpack()  # without keys: REST has neither token nor certificate
    before = host.files()
    done = host.run(host.hadoop_host, "setup")
    assert done.returncode == 1 and "nothing of YARN was changed" in done.stderr
    assert "secret-missing" in done.stderr and host.files() == before and host.calls() == []


def bootstrap(host: FakeHost, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = arguments or (
        "--package",
        f"s3://bucket/{VERSION}.tar.gz",
        "--keys",
        "s3://bucket/keys.tar.gz",
        "--wait",
        "20",
    )
    return host.run(ROOT / "deploy/emr/bootstrap.sh", *words)


def provisioned(host: FakeHost, status: str) -> None:
    file = host.root / "emr/instance-controller/lib/info/job-flow-state.txt"
    file.parent.mkdir(parents=True)
    file.write_text(EMR_RECORD % status)


def test_emr_sets_an_instance_up_after_it_was_provisioned(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "nodemanager")
    provisioned(host, "SUCCESSFUL")
    done = bootstrap(host)
    assert done.returncode == 0, done.stderr
    assert host.active("quicksilver-sidecar"), (tmp_path / "journal").read_text()
    assert value(host, "yarn.nodemanager.bind-host") == "127.0.0.1"
    host.calls()
    assert bootstrap(host).returncode == 0
    assert host.calls() == [], (tmp_path / "journal").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        ((), "FAILED", "did not say within 20 s"),
        (("--package", "s3://bucket/absent.tar.gz"), "SUCCESSFUL", "cannot be installed"),
        (("--package", "s3://bucket/keys.zip"), "SUCCESSFUL", "cannot be installed"),
    ],
)
def test_emr_stays_on_stock_yarn(tmp_path: Path, arguments: tuple[str, ...], status: str, why: str) -> None:
    host = fake_host(tmp_path, "nodemanager")
    before = host.files()
    provisioned(host, status)
    assert bootstrap(host, *arguments).returncode == 0
    assert why in (tmp_path / "journal").read_text()
    assert host.files() == before and host.calls() == []


def dataproc(host: FakeHost, **metadata: str) -> subprocess.CompletedProcess[str]:
    write_program(host.root / "usr/share/google/get_metadata_value", METADATA)
    (host.root / "metadata").mkdir(exist_ok=True)
    own = {"package": f"gs://bucket/{VERSION}.tar.gz", "keys": "gs://bucket/keys.tar.gz"}
    for name, text in ({f"quicksilver-{name}": text for name, text in own.items()} | metadata).items():
        (host.root / "metadata" / name.replace("_", "-")).write_text(text)
    return host.run(ROOT / "deploy/dataproc/init-action.sh")


def test_dataproc_sets_up_a_cluster_of_a_single_node(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "resourcemanager", "nodemanager")
    before = host.files()
    done = dataproc(host, dataproc_role="Master", dataproc_worker_count="0")
    assert done.returncode == 0 and host.active("quicksilver-proxy") and host.active("quicksilver-sidecar"), done.stderr
    host.calls()
    done = dataproc(host)
    assert (done.returncode, host.calls()) == (0, []), done.stderr
    assert host.run(host.hadoop_host, "remove").returncode == 0
    assert host.files() == before


def test_dataproc_stays_on_stock_yarn_unless_it_is_strict(tmp_path: Path) -> None:
    host = fake_host(tmp_path, "nodemanager")
    before = host.files()
    assert dataproc(host, dataproc_role="Worker", quicksilver_package="").returncode == 0
    assert dataproc(host, quicksilver_package="gs://bucket/absent.deb", quicksilver_strict="true").returncode == 1
    assert host.files() == before and host.calls() == []
