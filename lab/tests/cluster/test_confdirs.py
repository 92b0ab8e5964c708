"""The folders a cluster is configured by: plain values, and the overlays exactly as an admin would merge them."""

from pathlib import Path

import pytest

from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver.common.settings.settings_file import check_settings
from quicksilver.policy.schema import SECTIONS
from quicksilver_lab.cluster import ClusterSpec, SiteFileError, confdirs
from quicksilver_lab.cluster.confdirs import ConfDirs, hosts_text, read_overlay
from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.siteconf import Properties, read_site

JARS = Jars(Path("/jars"))
SCHEDULER = "yarn.resourcemanager.scheduler.address"


def written(tmp_path: Path, **fields: object) -> ConfDirs:
    conf = ConfDirs(ClusterSpec.model_validate({"workdir": tmp_path, "base_port": 18000, **fields}))
    conf.write(JARS)
    return conf


def yarn(folder: Path) -> Properties:
    return read_site(folder / "yarn-site.xml")


def test_plain_is_stock(tmp_path: Path) -> None:
    conf = written(tmp_path, overlay=False)
    rm, node = yarn(conf.resourcemanager), yarn(conf.nodemanagers[1])
    assert rm[SCHEDULER] == "127.0.0.1:18030"
    assert node["yarn.nodemanager.address"] == "127.0.0.12:18110"
    assert node["yarn.nodemanager.localizer.address"] == "127.0.0.12:18111"
    assert not any("opportunistic" in name or "bind-host" in name or "quicksilver" in name for name in [*rm, *node])


def test_the_overlay_moves_the_scheduler_and_hides_the_nodes(tmp_path: Path) -> None:
    conf = written(tmp_path)
    rm, node = yarn(conf.resourcemanager), yarn(conf.nodemanagers[1])
    assert rm[SCHEDULER] == "127.0.0.1:18035"
    assert rm["yarn.resourcemanager.opportunistic-container-allocation.enabled"] == "true"
    assert rm["yarn.resourcemanager.opportunistic-container-allocation.nodes-used"] == "0"
    assert rm["yarn.resourcemanager.nm-container-queuing.load-comparator"] == "QUEUE_WAIT_TIME"
    assert node["yarn.nodemanager.bind-host"] == "127.0.0.1"
    assert node["yarn.nodemanager.address"] == "127.0.0.12:18110"
    assert node["yarn.nodemanager.webapp.address"] == "127.0.0.12:18112"
    assert node["yarn.nodemanager.localizer.address"] == "127.0.0.1:18111"
    assert int(node["yarn.nodemanager.opportunistic-containers-max-queue-length"]) > 0
    assert node[SCHEDULER] == "127.0.0.1:18030"  # application masters read it here


def test_sharing_lets_nodemanagers_believe_in_more_vcores_than_containers_may_use(tmp_path: Path) -> None:
    vcores, calculator = "yarn.nodemanager.resource.cpu-vcores", "yarn.scheduler.capacity.resource-calculator"
    for overlay, believed, name in (
        (True, "8", "DominantResourceCalculator"),
        (False, "4", "DefaultResourceCalculator"),
    ):
        conf = written(tmp_path, overlay=overlay, sharing=True, node_vcores=4)
        assert yarn(conf.nodemanagers[0])[vcores] == believed
        assert read_site(conf.resourcemanager / "capacity-scheduler.xml")[calculator].endswith(name)


def test_clients_are_the_same_with_and_without_overlay(tmp_path: Path) -> None:
    conf = written(tmp_path, overlay=False)
    before = {path.name: path.read_bytes() for path in conf.client.iterdir() if path.is_file()}
    written(tmp_path, overlay=True)
    assert {path.name: path.read_bytes() for path in conf.client.iterdir() if path.is_file()} == before


def test_the_first_check_of_the_tutorial_has_nothing_to_say(tmp_path: Path) -> None:
    """Its settings name the clients' files; where the sidecars listen stands in the NodeManagers' own."""
    conf = written(tmp_path / "cluster")
    file = tmp_path / "quicksilver.yaml"
    page = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text()
    settings = page.partition('title="run/tutorial/quicksilver.yaml"\n')[2].partition("```")[0]
    file.write_text(settings.replace("run/cluster/conf", str(conf.root)).replace("run/tutorial", str(tmp_path)))
    found = check_settings(file, SECTIONS)
    assert "sidecar:" in settings and (found.mistakes, found.warnings) == ([], [])
    file.write_text(file.read_text().replace(str(conf.client), str(conf.nodemanagers[0])))
    assert check_settings(file, SECTIONS).warnings == [], "127.0.0.11 is loopback, too"


def test_the_shuffle_port_of_each_node_is_in_its_mapred_site(tmp_path: Path) -> None:
    conf = written(tmp_path)
    ports = [read_site(folder / "mapred-site.xml")["mapreduce.shuffle.port"] for folder in conf.nodemanagers]
    assert ports == ["18103", "18113", "18123"]


def test_the_client_overlay_and_extra_settings_are_laid_on_top(tmp_path: Path) -> None:
    name = "yarn.resourcemanager.connect.retry-interval.ms"
    assert name not in yarn(written(tmp_path, client_overlay=False).client)
    assert yarn(written(tmp_path).client)[name] == "1000"
    assert yarn(written(tmp_path, extra_site={"yarn": {name: "7"}}).nodemanagers[0])[name] == "7"


def test_queues_and_calculator_come_from_the_spec(tmp_path: Path) -> None:
    conf = written(tmp_path, queues={"a": 30, "b": 70}, resource_calculator="dominant")
    site = read_site(conf.resourcemanager / "capacity-scheduler.xml")
    assert site["yarn.scheduler.capacity.root.queues"] == "a,b"
    assert site["yarn.scheduler.capacity.root.b.capacity"] == "70"
    assert site["yarn.scheduler.capacity.resource-calculator"].endswith(".DominantResourceCalculator")


def test_the_overlays_leave_no_variable_that_yarn_does_not_know() -> None:
    known = {"yarn.resourcemanager.hostname", "yarn.nodemanager.hostname"}
    known |= {"yarn.resourcemanager.hostname.rm1", "yarn.resourcemanager.hostname.rm2"}
    for role in ("resourcemanager", "nodemanager", "client", "ha/resourcemanager", "ha/client"):
        overlay = read_overlay("resourcemanager") | read_overlay(role)
        used = {part.split("}")[0] for value in overlay.values() for part in value.split("${")[1:]}
        assert used <= known | overlay.keys()


def test_an_overlay_without_the_port_property_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    role = tmp_path / "hadoop-conf" / "resourcemanager"
    role.mkdir(parents=True)
    (role / "yarn-site.xml").write_text("<configuration/>")
    monkeypatch.setattr(confdirs, "overlay_root", lambda: tmp_path / "hadoop-conf")
    with pytest.raises(SiteFileError, match=r"hadoop-conf: no property quicksilver.resourcemanager.scheduler.port"):
        written(tmp_path, client_overlay=False)


def test_every_address_is_its_own_name_for_the_jvms() -> None:
    lines = hosts_text(ClusterSpec(nodes=2)).splitlines()
    assert lines[:3] == ["127.0.0.1 127.0.0.1", "127.0.0.11 127.0.0.11", "127.0.0.12 127.0.0.12"]
    assert "127.0.0.1 localhost" in lines


def test_the_readme_names_every_overlay() -> None:
    text = (overlay_root() / "README.md").read_text()
    assert all(str(path.relative_to(overlay_root())) in text for path in overlay_root().rglob("*.xml"))


def test_with_a_relay_each_nodemanager_registers_at_its_own(tmp_path: Path) -> None:
    name = "yarn.resourcemanager.resource-tracker.address"
    plain = written(tmp_path / "plain", overlay=False)
    conf = written(tmp_path / "relay", overlay=False, tracker_relay=True)
    assert [yarn(folder)[name] for folder in plain.nodemanagers] == ["127.0.0.1:18031"] * 3
    assert [yarn(folder)[name] for folder in conf.nodemanagers] == [f"127.0.0.1:{18106 + 10 * n}" for n in range(3)]
    assert yarn(conf.resourcemanager)[name] == "127.0.0.1:18031"
    assert yarn(conf.client)[name] == "127.0.0.1:18031"
    assert "yarn.nodemanager.resourcemanager.connect.retry-interval.ms" not in yarn(conf.client)


def test_with_high_availability_each_rm_has_its_own_addresses_and_folder(tmp_path: Path) -> None:
    conf = written(tmp_path, ha=True, client_overlay=True)
    first, second = (yarn(folder) for folder in conf.resourcemanagers)
    assert (first["yarn.resourcemanager.ha.id"], second["yarn.resourcemanager.ha.id"]) == ("rm1", "rm2")
    for site in (first, second):
        assert site["yarn.resourcemanager.ha.rm-ids"] == "rm1,rm2"
        assert site[f"{SCHEDULER}.rm1"] == "127.0.0.1:18035"
        assert site[f"{SCHEDULER}.rm2"] == "127.0.0.1:18045"
        assert site["yarn.resourcemanager.recovery.enabled"] == "true"
        assert site["yarn.resourcemanager.store.class"].endswith(".ZKRMStateStore")
    client = yarn(conf.client)
    assert client[f"{SCHEDULER}.rm1"] == "127.0.0.1:18030"
    assert client[f"{SCHEDULER}.rm2"] == "127.0.0.1:18040"
    assert SCHEDULER not in client
    assert "yarn.resourcemanager.ha.id" not in client
    assert client["yarn.client.failover-sleep-base-ms"] == "250"
    assert "clientPort=18050\n" in conf.zookeeper.read_text()


def test_with_services_there_is_a_registry_and_masters_find_the_jars(tmp_path: Path) -> None:
    conf = written(tmp_path, services=True)
    client = yarn(conf.client)
    assert client["hadoop.registry.zk.quorum"] == "127.0.0.1:18050"
    assert client["yarn.service.classpath"] in client["yarn.application.classpath"]
    assert client["yarn.application.admin.client.class.yarn-service"].endswith(".ServiceClient")
    assert "yarn.resourcemanager.ha.enabled" not in client
    assert "clientPort=18050\n" in conf.zookeeper.read_text()


def test_recovery_alone_keeps_the_state_in_a_file(tmp_path: Path) -> None:
    site = yarn(written(tmp_path, rm_recovery=True).resourcemanager)
    assert site["yarn.resourcemanager.store.class"].endswith(".FileSystemRMStateStore")
    assert site["yarn.resourcemanager.fs.state-store.uri"] == f"file://{tmp_path}/rm-state"
    assert "yarn.resourcemanager.recovery.enabled" not in yarn(written(tmp_path).resourcemanager)


def test_nodemanagers_that_recover_have_a_folder_each(tmp_path: Path) -> None:
    first, second, _ = (yarn(folder) for folder in written(tmp_path, nm_recovery=True).nodemanagers)
    assert first["yarn.nodemanager.recovery.supervised"] == first["yarn.nodemanager.recovery.enabled"] == "true"
    assert first["yarn.nodemanager.recovery.dir"] == f"{tmp_path}/local/node1-recovery"
    assert second["yarn.nodemanager.recovery.dir"] == f"{tmp_path}/local/node2-recovery"
    assert "yarn.nodemanager.recovery.enabled" not in yarn(written(tmp_path).nodemanagers[0])
