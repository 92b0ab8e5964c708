"""What a submitter reads from site files."""

from __future__ import annotations

from pathlib import Path

from apps.tests.client.sites import site
from quicksilver.common.address import Address


def test_one_resource_manager(tmp_path: Path) -> None:
    found = site(tmp_path, {"fs.defaultFS": "hdfs://nn:9000/"}, {"yarn.resourcemanager.hostname": "rm"})
    assert found.resource_managers == (Address("rm", 8032),)
    assert found.schedulers == ("rm:8030",)
    assert found.rm_urls == ("http://rm:8088",)
    assert found.default_fs == "hdfs://nn:9000"
    assert not found.secure
    assert found.namenode_urls("nn:9000") == ("http://nn:9870",)


def test_high_availability(tmp_path: Path) -> None:
    yarn = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": "a,b",
        "yarn.resourcemanager.hostname.a": "rm1",
        "yarn.resourcemanager.hostname.b": "rm2",
        "yarn.resourcemanager.scheduler.address.b": "proxy:8030",
    }
    hdfs = {
        "dfs.ha.namenodes.ns": "x,y",
        "dfs.namenode.http-address.ns.x": "nn1:50070",
        "dfs.namenode.http-address.ns.y": "nn2:50070",
    }
    found = site(tmp_path, {"fs.defaultFS": "hdfs://ns"}, yarn, hdfs)
    assert found.resource_managers == (Address("rm1", 8032), Address("rm2", 8032))
    assert found.schedulers == ("rm1:8030", "proxy:8030")
    assert found.namenode_urls("ns") == ("http://nn1:50070", "http://nn2:50070")
    assert found.namenode_service("ns") == "ha-hdfs:ns"


def test_a_token_names_an_address_or_a_host(tmp_path: Path) -> None:
    assert site(tmp_path, {}, {}).namenode_service("127.0.0.1:9000") == "127.0.0.1:9000"
    by_name = site(tmp_path, {"hadoop.security.token.service.use_ip": "false"}, {})
    assert by_name.namenode_service("NN:9000") == "nn:9000"


def test_secure_web_servers(tmp_path: Path) -> None:
    core = {"hadoop.security.authentication": "kerberos"}
    found = site(tmp_path, core, {}, {"dfs.http.policy": "HTTPS_ONLY", "dfs.namenode.https-address": "0.0.0.0:9999"})
    assert found.secure
    assert found.namenode_urls("nn:8020") == ("https://nn:9999",)
