"""Hadoop's own YARN services, unchanged, under the preset `zoe`: core guaranteed, elastic queueable, admitted whole."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.workloads.records import GUARANTEED, OPPORTUNISTIC, RecordsWatch, application_of, is_master
from quicksilver_lab.workloads.rest import get_json
from tests.promise.helpers import until
from tests.real.policies.test_admission import admitting

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(600)]
NODES, VCORES, MEMORY_MB = 2, 4, 256
SLEEP_S: Final = 900
INITIAL: Final[dict[str, Any]] = {"core": [{"type": "yarn-service", "core": "initial"}, {"core": "all"}]}
"""Settings of the slot `admit`: components that depend on no other one are core."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes of four places each; masters look each second whether containers are ready."""
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("services"),
        base_port=free_base_port(NODES),
        nodes=NODES,
        yarn_only=True,
        services=True,
        node_vcores=VCORES,
        min_allocation_mb=MEMORY_MB,
        resource_calculator="dominant",
        queues={"default": 100},
        extra_site={
            "capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1000"},
            "yarn": {
                "yarn.log-aggregation-enable": "false",
                "yarn.service.am-resource.memory": str(MEMORY_MB),
                "yarn.service.am.java.opts": "-Xmx200m",
                "yarn.service.readiness-check-interval.seconds": "1",
            },
        },
    )
    made = Cluster(spec)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@dataclass
class Service:
    """A YARN service of two components that sleep: `elastic` depends on `core`."""

    cluster: Cluster
    stack: LocalDaemons
    name: str

    def launch(self, core: int, elastic: int) -> None:
        """Have `yarn app -launch` start it."""
        common = {"launch_command": f"sleep {SLEEP_S}", "resource": {"cpus": 1, "memory": str(MEMORY_MB)}}
        components = [
            {"name": "core", "number_of_containers": core, **common},
            {"name": "elastic", "number_of_containers": elastic, "dependencies": ["core"], **common},
        ]
        file = self.cluster.spec.workdir / f"{self.name}.json"
        file.write_text(json.dumps({"name": self.name, "version": "1", "components": components}))
        self.yarn_app("-launch", self.name, str(file))

    def yarn_app(self, *args: str) -> str:
        """Run `yarn app` and return what it prints."""
        return self.cluster.hadoop("application", "app", *args).stdout

    def flex(self, component: str, count: int) -> None:
        """Change how many containers a component has."""
        self.yarn_app("-flex", self.name, "-component", component, str(count))

    def kill(self, container: str) -> None:
        """Have YARN kill a container's process."""
        self.cluster.hadoop("application", "container", "-signal", container, "FORCEFUL_SHUTDOWN")

    @property
    def record(self) -> dict[str, Any]:
        """The ResourceManager's record of its last application."""
        apps = get_json(f"{self.cluster.rm_rest}/ws/v1/cluster/apps")["apps"]["app"]
        return dict(max((one for one in apps if one["name"] == self.name), key=lambda one: one["id"]))

    def running(self, execution_type: str, masters: bool = False) -> set[str]:
        """Return its containers of this type that the NodeManagers show as running, by default those of components."""
        return {
            cid
            for cid, kind in shown(self.cluster).items()
            if kind == execution_type and application_of(cid) == self.record["id"] and is_master(cid) is masters
        }

    def components(self) -> dict[str, set[str]]:
        """Return the containers of each component that are ready, by the service's own master.

        A master that starts gives back the containers that the one before had not yet written into the registry, which
        it does before they are ready.
        """
        text = self.yarn_app("-status", self.name)
        status = json.loads(text[text.index("{") :])
        return {
            component["name"]: {each["id"] for each in component["containers"] if each["state"] == "READY"}
            for component in status["components"]
        }

    def master_has(self, core: set[str], elastic: set[str]) -> None:
        """Wait until the service's own master has these containers; a new one answers a while after it registers."""
        expected = {"core": core, "elastic": elastic}
        until(
            f"its master's own view {expected}",
            lambda: self.components() == expected,
            seen=lambda: (self.components(), shown(self.cluster)),
        )

    def comes_to(self, core: int, elastic: int, without: Collection[str] = ()) -> tuple[set[str], set[str]]:
        """Wait until so many guaranteed and queueable containers run, other than some; return both."""

        def found() -> tuple[set[str], set[str]] | None:
            types = self.running(GUARANTEED), self.running(OPPORTUNISTIC)
            same = (len(types[0]), len(types[1])) == (core, elastic) and not (types[0] | types[1]) & set(without)
            return types if same else None

        begun_s = time.monotonic()
        types = until(
            f"{self.name}: {core} guaranteed, {elastic} queueable", found, seen=lambda: (shown(self.cluster), self.seen)
        )
        assert types is not None
        print(f"{self.name}: {core} guaranteed, {elastic} queueable after {time.monotonic() - begun_s:.1f} s")
        return types

    @property
    def seen(self) -> dict[str, Any]:
        """What the proxy's admission has of it."""
        found = {one["name"]: one for one in self.stack.get("/v1/admission")["applications"]}
        return dict(found.get(self.name, {}))

    def admission_has(self, **fields: object) -> None:
        """Wait until the proxy's admission has these fields of it."""
        until(
            f"{self.name}: {fields}",
            lambda: {name: self.seen.get(name) for name in fields} == fields,
            seen=lambda: self.seen,
        )


def shown(cluster: Cluster) -> dict[str, str]:
    """Return the execution types of all running containers, by the NodeManagers."""
    answers = [get_json(f"{node.web.url}/ws/v1/node/containers") for node in cluster.spec.node_addresses]
    each = [one for answer in answers for one in (answer["containers"] or {}).get("container", [])]
    return {one["id"]: one["executionType"] for one in each if one["state"] == "RUNNING"}


def test_dependent_components_are_elastic_and_the_next_service_waits_for_its_whole_core(cluster: Cluster) -> None:
    """Eight places, of which masters use two."""
    with admitting(cluster, vcores=VCORES, **INITIAL) as stack, RecordsWatch(cluster) as watch:
        web, batch = Service(cluster, stack, "web"), Service(cluster, stack, "batch")
        web.launch(core=2, elastic=2)
        core, elastic = web.comes_to(2, 2)
        web.master_has(core, elastic)
        batch.launch(core=5, elastic=1)
        batch.admission_has(state="waiting", core=5, core_held=0)

        web.flex("elastic", 8)
        _, elastic = web.comes_to(2, 4)
        web.admission_has(core=2, core_held=2, elastic=8, elastic_share=4, elastic_held=4)
        web.flex("elastic", 1)
        core, elastic = web.comes_to(2, 1)

        lost = {min(core), *elastic}
        for container in lost:
            web.kill(container)
        core, elastic = web.comes_to(2, 1, without=lost)
        web.master_has(core, elastic)

        (master,) = web.running(GUARANTEED, masters=True)
        web.kill(master)
        until("the next master", lambda: web.running(GUARANTEED, masters=True) - {master})
        web.admission_has(state="in service", core=2, core_held=2, elastic=1, elastic_held=1)
        assert web.comes_to(2, 1) == (core, elastic), "they outlive their master"
        web.master_has(core, elastic)

        batch.admission_has(state="waiting", core=5, core_held=0)
        assert not batch.running(GUARANTEED) | batch.running(OPPORTUNISTIC)
        web.yarn_app("-stop", web.name)
        until("the end of the first service", lambda: web.record["state"] == "FINISHED")
        begun, _ = batch.comes_to(5, 1)
        assert {application_of(cid) for cid in shown(cluster)} == {batch.record["id"]}
        batch.yarn_app("-stop", batch.name)
        for service in (web, batch):
            service.yarn_app("-destroy", service.name)
            assert (service.record["state"], service.record["finalStatus"]) == ("FINISHED", "ENDED")
        until("nothing runs", lambda: not shown(cluster) and cluster.status().containers == 0)
        until("nothing is admitted", lambda: not stack.get("/v1/admission")["applications"])
    opportunistic = watch.granted().opportunistic
    assert elastic <= opportunistic
    assert not (core | begun) & opportunistic


def test_without_a_rule_all_of_a_service_is_core(cluster: Cluster) -> None:
    with admitting(cluster, vcores=VCORES) as stack:
        service = Service(cluster, stack, "plain")
        service.launch(core=1, elastic=2)
        service.comes_to(3, 0)
        service.admission_has(state="in service", core=3, core_held=3, elastic=0)
        service.yarn_app("-stop", service.name)
        service.yarn_app("-destroy", service.name)
        until("nothing runs", lambda: not shown(cluster) and cluster.status().containers == 0)
