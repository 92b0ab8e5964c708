"""The systems that can be simulated, by name; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol

from policies.settings_model import SettingsModel
from quicksilver.simulator.errors import UnknownSystemError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob

SYSTEMS: Final[dict[str, str]] = {
    "quicksilver": "quicksilver.simulator.systems.mercury:QUICKSILVER_SYSTEM",
    "kairos": "quicksilver.simulator.systems.mercury:KAIROS_SYSTEM",
    "mercury": "quicksilver.simulator.systems.mercury:MERCURY_SYSTEM",
    "opportunistic": "quicksilver.simulator.systems.mercury:OPPORTUNISTIC_SYSTEM",
    "apollo": "quicksilver.simulator.systems.apollo:SYSTEM",
    "bigc": "quicksilver.simulator.systems.bigc:SYSTEM",
    "kairos_slots": "quicksilver.simulator.systems.kairos_slots:SYSTEM",
    "yarn_fifo": "quicksilver.simulator.systems.yarn:FIFO",
    "yarn_capacity": "quicksilver.simulator.systems.yarn:CAPACITY",
    "yarn_fair": "quicksilver.simulator.systems.yarn:FAIR",
    "clwl": "quicksilver.simulator.systems.lwl:CLWL",
    "dlwl": "quicksilver.simulator.systems.lwl:DLWL",
    "dlwl_srpt": "quicksilver.simulator.systems.lwl:DLWL_SRPT",
    "recorded": "quicksilver.simulator.systems.recorded:SYSTEM",
    "eagle": "quicksilver.simulator.systems.eagle:SYSTEM",
    "hawk": "quicksilver.simulator.systems.hawk:HAWK",
    "sparrow": "quicksilver.simulator.systems.hawk:SPARROW",
    "zoe": "quicksilver.simulator.systems.zoe:SYSTEM",
}
"""By name: where the system is, as `module:SYSTEM`."""

ABOUT: Final[dict[str, str]] = {
    "quicksilver": "The product's own proxy and sidecars on stock YARN, with the policies of --config.",
    "kairos": "Kairos on YARN (thesis §4.4): variance placement, LAS at nodes; by the same machines.",
    "mercury": "Mercury (ATC '15) by the same machines, with the heartbeats of its test bed.",
    "opportunistic": "What Hadoop 3 does for opportunistic containers, by the same machines.",
    "apollo": "Apollo (OSDI '14): each job places its own tasks by when they will be over, and corrects that later.",
    "bigc": "Big-C: two classes with shares of the slots; short tasks suspend long ones (thesis §4.5.1).",
    "kairos_slots": "Kairos as its simulation has it (thesis §4.6): tasks of one core; fast enough for whole traces.",
    "yarn_fifo": "Stock YARN, applications first come first served.",
    "yarn_capacity": "Stock YARN, by queues with their shares (CapacityScheduler).",
    "yarn_fair": "Stock YARN, one queue, the application with the fewest containers first (FairScheduler).",
    "clwl": "Least work left, known at once (thesis §3.6.4).",
    "dlwl": "Least work left by heartbeats, as a central scheduler knows it (thesis §3.6.2).",
    "dlwl_srpt": "The same, and at each node the shortest remaining processing time first (thesis §3.6.2).",
    "recorded": "What a cluster did with the jobs that its proxy recorded: to compare the others with.",
    "eagle": "Eagle: short jobs keep away from long tasks, probes stick, least work left first (thesis ch. 3).",
    "hawk": "Hawk: long jobs placed centrally, short ones by probes, idle nodes steal (thesis ch. 2).",
    "sparrow": "Sparrow: every job by probes, two per task, first come first served (batch sampling, late binding).",
    "zoe": "Zoe: whole applications wait for admission, with core and elastic components.",
}
"""By name: what the system is, in a line."""


class SystemSettings(SettingsModel):
    """Settings of one system: frozen, and unknown keys are errors; the docstring under a field is its description.

    A system that runs the production policies has a field `policies`: that section of quicksilver.yaml.
    """

    takes_file: ClassVar[bool] = True
    """Whether `policies` may come from a settings file; not where they are what the system is."""
    named_by_policies: ClassVar[bool] = False
    """Whether rows of results name the policies that ran, unless they are the system's own."""


class System(Protocol):
    """A scheduler and its cluster as one simulation."""

    @property
    def name(self) -> str:
        """As in `SYSTEMS`."""

    @property
    def Settings(self) -> type[SystemSettings]:
        """What can be set, each with its default and the paper's section that it is from."""

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: Any, seed: int) -> SimResult:
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
    system: System = getattr(import_module(module), attribute)
    return system
