"""The realm of a secure cluster: what Hadoop is told of it, and a real KDC that a keytab logs in at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from quicksilver.common.kerberos.gssapi import Handshake, KerberosError
from quicksilver_lab.cluster import ClusterSpec, MissingToolError, kerberos, processes
from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.daemons import kdc_daemons
from quicksilver_lab.cluster.kerberos import REALM, Kerberos
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.siteconf import Properties, read_site


def site(tmp_path: Path, name: str, **fields: object) -> Properties:
    spec = ClusterSpec.model_validate({"workdir": tmp_path, **fields})
    conf = ConfDirs(spec)
    conf.write(Jars(Path("/jars/lib")))
    return read_site(conf.nodemanagers[0] / f"{name}-site.xml")


def test_a_plain_cluster_knows_nothing_of_kerberos(tmp_path: Path) -> None:
    spec = ClusterSpec(workdir=tmp_path)
    for name in ("core", "hdfs", "yarn", "mapred"):
        text = str(site(tmp_path, name)).lower()
        assert "kerberos" not in text
        assert "krb5" not in text
    assert kdc_daemons(spec, ConfDirs(spec)) == []
    assert kerberos.web_auth(spec) is None
    assert kerberos.jvm_options(spec, Path("/n")) == []


def test_a_secure_cluster_names_its_own_realm_everywhere(tmp_path: Path) -> None:
    secure = {"kerberos": True}
    core, mapred = site(tmp_path, "core", **secure), site(tmp_path, "mapred", **secure)
    assert core["hadoop.security.authentication"] == "kerberos"
    assert core["hadoop.security.authorization"] == "true"
    assert "hadoop.http.authentication.type" not in core
    krb5 = f"-Djava.security.krb5.conf={tmp_path}/kerberos/krb5.conf -Djava.library.path=/jars/native"
    for name in ("mapreduce.map.java.opts", "mapreduce.reduce.java.opts", "yarn.app.mapreduce.am.command-opts"):
        assert krb5 in mapred[name]
    yarn = site(tmp_path, "yarn", **secure)
    assert yarn["yarn.nodemanager.principal"] == f"yarn/_HOST@{REALM}"
    assert yarn["yarn.nodemanager.keytab"] == f"{tmp_path}/kerberos/yarn.keytab"


def test_spnego_is_for_secure_clusters(tmp_path: Path) -> None:
    core = site(tmp_path, "core", kerberos=True, spnego=True)
    assert core["hadoop.http.authentication.type"] == "kerberos"
    with pytest.raises(ValidationError, match="spnego needs kerberos"):
        ClusterSpec(spnego=True)


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "_PATH", "/nowhere")
    with pytest.raises(MissingToolError, match=r"krb5kdc is not there.*apt-get install -y krb5-kdc"):
        kerberos.tool("krb5kdc")


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    base = free_base_port(nodes=1)
    folder = tmp_path_factory.mktemp("realm")
    spec = ClusterSpec(workdir=folder, base_port=base, nodes=1, kerberos=True, ticket_life_s=600)
    made = Kerberos(spec)
    made.prepare()
    kdc = processes.spawn(made.kdc_argv, folder, made.env, folder / "kdc.log")
    deadline = time.monotonic() + 20
    while not made.is_up():
        assert time.monotonic() < deadline, (folder / "kdc.log").read_text()
        time.sleep(0.05)
    yield made
    processes.stop([kdc], grace_s=5)


@pytest.fixture
def krb5(realm: Kerberos, monkeypatch: pytest.MonkeyPatch) -> Kerberos:
    for name, value in realm.env.items():
        monkeypatch.setenv(name, value)
    return realm


def shake(realm: Kerberos, user: str, tickets: str, service: str = "HTTP@127.0.0.1") -> bytes:
    handshake = Handshake(f"{user}@{REALM}", realm.keytab(user), tickets, service)
    try:
        token = handshake.step()
        assert not handshake.complete
        return token
    finally:
        handshake.close()


def first_tickets(realm: Kerberos, user: str) -> int:
    """Return how often the KDC gave a user a first ticket."""
    lines = (realm.spec.workdir / "kdc.log").read_text().splitlines()
    return sum("AS_REQ" in line and "ISSUE" in line and f" {user}@" in line for line in lines)


@pytest.mark.kerberos
def test_one_ticket_serves_many_logins(krb5: Kerberos) -> None:
    assert shake(krb5, "quicksilver", "MEMORY:kept")[:1] == b"\x60"  # a token of GSSAPI
    for host in ("127.0.0.1", "127.0.0.11", "127.0.0.1"):
        shake(krb5, "quicksilver", "MEMORY:kept", f"HTTP@{host}")
    assert first_tickets(krb5, "quicksilver") == 1


@pytest.mark.kerberos
def test_tickets_are_renewed_by_the_keytab(krb5: Kerberos) -> None:
    krb5.tickets("brief")
    krb5.run("kadmin.local", "-r", REALM, "-q", 'modprinc -maxlife "2 seconds" brief')
    shake(krb5, "brief", "MEMORY:brief")
    before = first_tickets(krb5, "brief")
    deadline = time.monotonic() + 20
    while first_tickets(krb5, "brief") == before:
        assert time.monotonic() < deadline, "the ticket was never renewed"
        shake(krb5, "brief", "MEMORY:brief")


@pytest.mark.kerberos
def test_what_the_realm_does_not_know_is_refused_with_its_name(krb5: Kerberos) -> None:
    with pytest.raises(KerberosError, match=r"HTTP/10\.9\.8\.7"):
        shake(krb5, "quicksilver", "MEMORY:service", "HTTP@10.9.8.7")
    krb5.tickets("gone")
    krb5.run("kadmin.local", "-r", REALM, "-q", "delprinc -force gone")
    with pytest.raises(KerberosError, match=r"gone@|credentials"):
        shake(krb5, "gone", "MEMORY:gone")


@pytest.mark.kerberos
def test_a_user_is_made_known_by_his_first_command(krb5: Kerberos) -> None:
    assert not krb5.keytab("alice").exists()
    cache = krb5.tickets("alice")
    assert cache.stat().st_size > 0
    assert krb5.keytab("alice").stat().st_mode & 0o777 == 0o600
    assert krb5.client_env("alice")["KRB5CCNAME"] == f"FILE:{cache}"


@pytest.mark.kerberos
def test_a_second_start_keeps_the_database(krb5: Kerberos) -> None:
    before = krb5.keytab("HTTP").read_bytes()
    krb5.prepare()
    assert krb5.keytab("HTTP").read_bytes() == before
