"""The relay to the resource tracker on a secure cluster: the NodeManager's Kerberos login passes, frames are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver.common.http.rest_client import rest_session
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.kerberos import REALM
from quicksilver_lab.cluster.ports import free_base_port
from tests.real.sidecar.test_tracker import NM_MEMORY_MB, NM_VCORES, RM_VCORES, Real

pytestmark = [pytest.mark.hadoop, pytest.mark.kerberos]


@pytest.fixture
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("tracker"),
        base_port=free_base_port(1),
        nodes=1,
        overlay=False,
        tracker_relay=True,
        kerberos=True,
        node_vcores=NM_VCORES,
        node_memory_mb=NM_MEMORY_MB,
        resource_calculator="dominant",
        extra_site={"yarn": {"yarn.resourcemanager.principal.pattern": f"yarn/*@{REALM}"}},
    )
    cluster = Cluster(spec)
    cluster.conf.write(cluster.launcher.jars)  # the relay reads the NodeManager's
    with rest_session() as session:
        here = Real(cluster, session)
        here.start_relay(spec.resource_tracker)
        try:
            cluster.start()
            try:
                yield here
            finally:
                cluster.stop()
        finally:
            here.stop_relay()


def test_sizes_are_translated_behind_a_kerberos_login(secure: Real) -> None:
    assert secure.sizes() == (RM_VCORES, NM_VCORES)
    log = secure.log.read_text()
    assert "a NodeManager registers" in log
    assert "passes unread" not in log
    authenticated = f"Auth successful for yarn/127.0.0.1@{REALM} (auth:KERBEROS)"
    assert authenticated in secure.cluster.log("resourcemanager").read_text()
