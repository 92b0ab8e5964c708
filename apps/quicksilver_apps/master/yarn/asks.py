"""The rows of an allocate request that say how many containers of a service are wanted, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.master.machine.spec import ServiceSpec

ANY: Final = "*"
DEFAULT_RACK: Final = "/default-rack"


def rows(service: ServiceSpec, count: int, racks: Mapping[str, str]) -> list[y.ResourceRequestProto]:
    """Return the rows of a service, which replace those that were sent before.

    racks: the rack of each host, as far as it is known; others are in YARN's default rack. Strict constraints relax
    nothing: a node's row may be used, its rack's and the general one only when they are named.
    """
    places = service.constraints
    named = {rack if rack.startswith("/") else f"/{rack}" for rack in places.racks}
    around = {racks.get(node, DEFAULT_RACK) for node in places.nodes} - named
    bound = places.strict and bool(places.nodes or places.racks)
    requests = [_row(service, count, node, True) for node in places.nodes]
    requests += [_row(service, count, rack, True) for rack in sorted(named)]
    requests += [_row(service, count, rack, not places.strict) for rack in sorted(around)]
    requests.append(_row(service, count, ANY, not bound))
    return requests


def _row(service: ServiceSpec, count: int, name: str, relax: bool) -> y.ResourceRequestProto:
    row = y.ResourceRequestProto(
        priority=y.PriorityProto(priority=service.priority),
        resource_name=name,
        capability=y.ResourceProto(memory=service.memory_mb, virtual_cores=service.vcores),
        num_containers=count,
        relax_locality=relax,
        execution_type_request=y.ExecutionTypeRequestProto(execution_type=y.GUARANTEED, enforce_execution_type=False),
        allocation_request_id=0,
    )
    if name == ANY and service.constraints.label:
        row.node_label_expression = service.constraints.label
    return row
