"""Addresses derive from one base port, distinct and below the range of outgoing connections."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from quicksilver_lab.cluster import ClusterSpec, baseconf
from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.daemons import hdfs_daemons, history_daemons, yarn_daemons
from quicksilver_lab.cluster.ports import Listen
from quicksilver_lab.cluster.runtime.jars import Jars


def listens(spec: ClusterSpec) -> list[Listen]:
    conf = ConfDirs(spec)
    daemons = [*hdfs_daemons(spec, conf), *history_daemons(spec, conf), *yarn_daemons(spec, conf)]
    return [listen for daemon in daemons for listen in daemon.listens]


@given(base=st.integers(1024, 31000), nodes=st.integers(1, 60), overlay=st.booleans())
def test_all_ports_are_distinct_and_within_the_range_of_the_cluster(base: int, nodes: int, overlay: bool) -> None:
    spec = ClusterSpec(base_port=base, nodes=nodes, overlay=overlay)
    ports = [listen.address.port for listen in listens(spec)]
    assert len(set(ports)) == len(ports)
    assert all(spec.base_port <= port <= spec.last_port < 32768 for port in ports)


def test_the_overlay_frees_what_proxy_and_sidecars_listen_on() -> None:
    plain, overlay = ClusterSpec(overlay=False), ClusterSpec()
    public = [plain.scheduler, *(node.rpc for node in plain.node_addresses), *(n.web for n in plain.node_addresses)]
    assert set(public) <= {listen.address for listen in listens(plain)}
    assert not set(public) & {listen.address for listen in listens(overlay)}
    assert plain.scheduler == overlay.scheduler
    assert [n.rpc for n in plain.node_addresses] == [n.rpc for n in overlay.node_addresses]


def test_the_resource_manager_alone_has_no_other_daemon() -> None:
    spec = ClusterSpec(rm_only=True, overlay=False)
    assert {listen.address for listen in listens(spec)} == {
        spec.rm_client,
        spec.scheduler,
        spec.resource_tracker,
        spec.rm_admin,
        spec.rm_web,
    }


def test_yarn_alone_keeps_files_below_its_folder(tmp_path: Path) -> None:
    spec = ClusterSpec(workdir=tmp_path, yarn_only=True, overlay=False)
    assert not {spec.namenode, spec.datanode[0], spec.jobhistory_web} & {listen.address for listen in listens(spec)}
    assert baseconf.core_site(spec)["fs.defaultFS"] == "file:///"
    jars = Jars(tmp_path)
    folders = [
        baseconf.yarn_site(spec, jars)["yarn.nodemanager.remote-app-log-dir"],
        baseconf.mapred_site(spec, jars, tmp_path / "hosts")["yarn.app.mapreduce.am.staging-dir"],
    ]
    assert all(Path(folder).parent == spec.files for folder in folders) and spec.files.parent == tmp_path


def test_nodes_have_a_loopback_address_each() -> None:
    spec = ClusterSpec(base_port=18000)
    assert [str(node.rpc) for node in spec.node_addresses] == [
        "127.0.0.11:18100",
        "127.0.0.12:18110",
        "127.0.0.13:18120",
    ]
    assert not any(a.host == b.host for a, b in combinations(spec.node_addresses, 2))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"base_port": 32700}, "base_port 32700 with 3 nodes needs ports up to 32829; they must stay below 32768"),
        ({"base_port": 80}, "greater than or equal to 1024"),
        ({"nodes": 0}, "greater than or equal to 1"),
        ({"queues": {"default": 60}}, "queues: capacities must add up to 100, not 60"),
        ({"yarn_only": True, "kerberos": True}, "yarn_only does not go with kerberos"),
        ({"rm_only": True, "ha": True}, "rm_only goes with none of kerberos, ha and services"),
        ({"rm_only": True, "services": True}, "rm_only goes with none of kerberos, ha and services"),
        ({"colour": "red"}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_setting_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ClusterSpec.model_validate(fields)


def test_a_spec_survives_its_state_file() -> None:
    spec = ClusterSpec(workdir=Path("/x"), extra_site={"yarn": {"a": "b"}}, rm_java_opts=("-Xmx1g",))
    assert ClusterSpec.model_validate_json(spec.model_dump_json()) == spec
