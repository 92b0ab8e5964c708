"""The systems that can be simulated, by name; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol

from pydantic import BaseModel, ConfigDict

from simulator.errors import UnknownSystemError
from simulator.model import ClusterModel, Job, SimResult

SYSTEMS: Final[dict[str, str]] = {
    "kairos": "simulator.systems.mercury:KAIROS_SYSTEM",
    "mercury": "simulator.systems.mercury:MERCURY_SYSTEM",
    "opportunistic": "simulator.systems.mercury:OPPORTUNISTIC_SYSTEM",
    "apollo": "simulator.systems.apollo:SYSTEM",
    "bigc": "simulator.systems.bigc:SYSTEM",
    "kairos_slots": "simulator.systems.kairos_slots:SYSTEM",
    "yarn_fifo": "simulator.systems.yarn:FIFO",
    "yarn_capacity": "simulator.systems.yarn:CAPACITY",
    "clwl": "simulator.systems.lwl:CLWL",
    "dlwl": "simulator.systems.lwl:DLWL",
    "dlwl_srpt": "simulator.systems.lwl:DLWL_SRPT",
    "recorded": "simulator.systems.recorded:SYSTEM",
    "eagle": "simulator.systems.eagle:SYSTEM",
    "hawk": "simulator.systems.hawk:HAWK",
    "sparrow": "simulator.systems.hawk:SPARROW",
    "zoe": "simulator.systems.zoe:SYSTEM",
}
"""By name: where the system is, as `module:SYSTEM`."""


class SystemSettings(BaseModel):
    """Settings of one system: frozen, and unknown keys are errors; the docstring under a field is its description.

    A system that runs the production policies has a field `policies`: that section of quicksilver.yaml.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    takes_file: ClassVar[bool] = True
    """Whether `policies` may come from a settings file; not where they are what the system is."""


class System(Protocol):
    """A scheduler and its cluster as one simulation."""

    @property
    def name(self) -> str:
        """As in `SYSTEMS`."""

    @property
    def Settings(self) -> type[SystemSettings]:
        """What can be set, each with its default and the paper's section that it is from."""

    def run(self, jobs: Iterable[Job], cluster: ClusterModel, settings: Any, seed: int) -> SimResult:
        """Run all jobs to their end.

        jobs: by arrival; taken one after the other as their time comes, so that a trace need not fit into memory.
        settings: an instance of `Settings`. Equal arguments give equal results. Raises SimulatorError for jobs that
        the cluster can never run.
        """


def load(name: str) -> System:
    """Return the system of that name. Raises UnknownSystemError when there is none."""
    if name not in SYSTEMS:
        raise UnknownSystemError(name, SYSTEMS)
    module, _, attribute = SYSTEMS[name].partition(":")
    found: System = getattr(import_module(module), attribute)
    return found
