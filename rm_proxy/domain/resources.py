"""Capabilities as memory and vcores."""

from __future__ import annotations

from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Resources

_INT_MAX: Final = 2**31 - 1


def resources_of(resource: y.ResourceProto) -> Resources:
    """Return memory (MB) and vcores of a capability, never negative; the newer value map counts where it is set."""
    memory, vcores = resource.memory, resource.virtual_cores
    for value in resource.resource_value_map:
        if value.key == "memory-mb":
            memory = value.value
        elif value.key == "vcores":
            vcores = value.value
    return Resources(max(0, memory), max(0, vcores))


def beyond_memory_and_cpu(resource: y.ResourceProto) -> bool:
    """Return whether a capability asks for more than memory and vcores (GPUs and the like)."""
    values = resource.resource_value_map
    return bool(values) and any(v.value > 0 and v.key not in ("memory-mb", "vcores") for v in values)


def set_resources(proto: y.ResourceProto, resources: Resources) -> None:
    """Write memory (MB) and vcores into a capability, in both of its notations."""
    proto.memory, proto.virtual_cores = resources.memory_mb, min(_INT_MAX, int(resources.vcores))
    for value in proto.resource_value_map:
        if value.key == "memory-mb":
            value.value = resources.memory_mb
        elif value.key == "vcores":
            value.value = int(resources.vcores)
