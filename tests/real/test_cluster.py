"""The real thing: started, used, switched to the overlay and back, stopped without leftovers."""

import getpass
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import requests

from quicksilver_lab.cluster import Cluster, ClusterSpec, CommandFailedError, PortInUseError, StateError
from quicksilver_lab.cluster.daemons import get_json
from quicksilver_lab.cluster.ports import Listen, check_free, free_base_port
from quicksilver_lab.cluster.siteconf import read_site
from tests.real.relays import overlay_relays, relaying

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(600)]


def put(cluster: Cluster, text: str, path: str) -> None:
    session = requests.Session()
    session.trust_env = False
    with session:
        query = {"op": "CREATE", "overwrite": "true", "user.name": getpass.getuser()}
        url = f"{cluster.spec.namenode_web.url}/webhdfs/v1{path}"
        session.put(url, params=query, data=text, timeout=30).raise_for_status()


def wordcount(cluster: Cluster, name: str, *, timeout_s: float = 180) -> str:
    put(cluster, "to be or not to be\n" * 100, f"/in-{name}/text")
    cluster.hadoop("examples", "wordcount", f"/in-{name}", f"/out-{name}", timeout_s=timeout_s)
    return cluster.hadoop("fs", "-cat", f"/out-{name}/part-r-*").stdout


def eventually(what: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def listening(spec: ClusterSpec) -> list[int]:
    ports = range(spec.base_port, spec.last_port + 1)
    found = []
    for sock in psutil.net_connections("tcp"):
        if sock.status == psutil.CONN_LISTEN and sock.laddr and sock.laddr.port in ports:
            found.append(sock.laddr.port)
    return found


def live_processes_in(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(folder) in word for word in words):
            found.append(" ".join(words)[:200])
    return found


COUNTS = "be\t200\nnot\t100\nor\t100\nto\t200\n"


def test_a_job_runs_on_stock_yarn_and_its_logs_are_linked(plain_cluster: Cluster) -> None:
    assert plain_cluster.status().running
    assert wordcount(plain_cluster, "plain") == COUNTS

    history = f"{plain_cluster.spec.jobhistory_web.url}/ws/v1/history/mapreduce/jobs"
    assert eventually(lambda: bool((get_json(history).get("jobs") or {}).get("job")), within_s=30)
    job = get_json(history)["jobs"]["job"][-1]
    attempt = get_json(f"{history}/{job['id']}/jobattempts")["jobAttempts"]["jobAttempt"][0]
    assert job["state"] == "SUCCEEDED"
    with requests.Session() as session:
        session.trust_env = False
        assert eventually(lambda: "Log Type: syslog" in session.get(attempt["logsLink"], timeout=30).text, within_s=30)


def test_daemons_are_killed_and_come_back_with_their_local_dirs(plain_cluster: Cluster) -> None:
    before = {d.name: d.pid for d in plain_cluster.status().daemons}
    kept = plain_cluster.local_dir(0) / "kept"
    kept.write_text("of the first start")
    for name in ("nodemanager-node1", "resourcemanager", "datanode"):
        plain_cluster.kill(name)
        assert {d.name for d in plain_cluster.status().daemons if not d.alive} == {name}
        plain_cluster.restart(name)
    plain_cluster.restart("nodemanager-node2")
    after = {d.name: d.pid for d in plain_cluster.status().daemons}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"nodemanager-node1", "nodemanager-node2", "resourcemanager", "datanode"}
    assert kept.read_text() == "of the first start"
    nodes = {str(node.rpc): "RUNNING" for node in plain_cluster.spec.node_addresses}
    assert eventually(lambda: plain_cluster.status().node_states == nodes, within_s=60)
    assert wordcount(plain_cluster, "again") == COUNTS
    with pytest.raises(StateError, match="no daemon nodemanager-node9 was started"):
        plain_cluster.kill("nodemanager-node9")


def test_the_overlay_drops_in_and_out_while_hdfs_and_clients_stay(hadoop_cluster: Cluster) -> None:
    client_before = (hadoop_cluster.conf_dir / "yarn-site.xml").read_bytes()
    hdfs_before = {d.name: d.pid for d in hadoop_cluster.status().daemons if d.name in ("namenode", "jobhistory")}
    hadoop_cluster.restart_yarn(overlay=True)
    spec = hadoop_cluster.spec
    assert set(hadoop_cluster.status().node_states) == {str(node.rpc) for node in spec.node_addresses}
    check_free((Listen(public, "left for proxy and sidecars") for public, _ in overlay_relays(spec)), "")
    with relaying(overlay_relays(spec)):
        assert wordcount(hadoop_cluster, "overlay") == COUNTS
    assert (hadoop_cluster.conf_dir / "yarn-site.xml").read_bytes() == client_before
    status = hadoop_cluster.status()
    assert {d.name: d.pid for d in status.daemons if d.name in hdfs_before} == hdfs_before
    assert read_site(hadoop_cluster.rm_conf_dir / "yarn-site.xml")["yarn.resourcemanager.scheduler.address"] == str(
        spec.moved_scheduler
    )


def test_stop_in_the_middle_of_a_job_leaves_nothing(tmp_path: Path) -> None:
    cluster = Cluster(ClusterSpec(workdir=tmp_path / "own", base_port=free_base_port(), nodes=1, overlay=False))
    cluster.start()
    try:
        with pytest.raises(StateError, match="is running"):
            cluster.start()
        twin = Cluster(cluster.spec.model_copy(update={"workdir": tmp_path / "twin"}))
        with pytest.raises(
            PortInUseError, match=rf"{cluster.spec.rm_web} \(ResourceManager web\) by process \d+ \(java\)"
        ):
            twin.start()
        sleeping = cluster.popen("examples", "pi", "6", "100000000")
        assert eventually(lambda: cluster.status().containers > 3, within_s=90)
        sleeping.kill()
        sleeping.communicate()
    finally:
        cluster.stop()
    assert cluster.status().containers == 0
    assert live_processes_in(tmp_path) == []
    assert listening(cluster.spec) == []
    with pytest.raises(CommandFailedError, match=r"fs .* -ls /: exit code 1"):
        cluster.hadoop("fs", "-D", "ipc.client.connect.max.retries=0", "-ls", "/")
