"""Clusters that several of these modules use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver.bench.las.modes import las
from quicksilver.cluster.cluster import Cluster
from quicksilver.cluster.ports import free_base_port
from tests.real.requester import SCALE


@pytest.fixture(scope="session")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of two cores with the settings of `bench.las`, whose containers may use more memory than they ask for.

    Each test runs a stack of its own on it and leaves nothing behind.
    """
    spec = las(SCALE).spec(tmp_path_factory.mktemp("one"), free_base_port(1), {"default": 100})
    yarn = dict(spec.extra_site["yarn"]) | {"yarn.nodemanager.pmem-check-enabled": "false"}
    made = Cluster(spec.model_copy(update={"extra_site": {**spec.extra_site, "yarn": yarn}}))
    made.start()
    try:
        yield made
    finally:
        made.stop()
