"""The systems that can be simulated, by name; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Final, Protocol

from policies.settings_model import SettingsModel
from quicksilver.simulator.errors import BrokenSystemError, UnknownSystemError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob

ENTRY_POINTS: Final = "quicksilver.systems"
_OURS: Final = {
    "quicksilver": "quicksilver.simulator.systems.mercury:QUICKSILVER_SYSTEM",
    "kairos": "quicksilver.simulator.systems.mercury:KAIROS_SYSTEM",
    "mercury": "quicksilver.simulator.systems.mercury:MERCURY_SYSTEM",
    "opportunistic": "quicksilver.simulator.systems.mercury:OPPORTUNISTIC_SYSTEM",
    "yarn_fifo": "quicksilver.simulator.systems.yarn:FIFO",
    "yarn_capacity": "quicksilver.simulator.systems.yarn:CAPACITY",
    "yarn_fair": "quicksilver.simulator.systems.yarn:FAIR",
    "recorded": "quicksilver.simulator.systems.recorded:SYSTEM",
}
_OFFERED: Final = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}
SYSTEMS: Final[dict[str, str]] = _OURS | {name: _OFFERED[name] for name in sorted(_OFFERED.keys() - _OURS.keys())}
"""By name: where the system is, as `module:SYSTEM`. A package adds its own by entry points, and replaces none of ours:
yarn-quicksilver-lab adds those of the papers."""


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
    def about(self) -> str:
        """What the system is, in a line."""

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
    """Return the system of that name. Raises UnknownSystemError when there is none, BrokenSystemError."""
    if name not in SYSTEMS:
        raise UnknownSystemError(name, SYSTEMS)
    module, _, attribute = SYSTEMS[name].partition(":")
    try:
        system: System = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BrokenSystemError(name, SYSTEMS[name], error) from error
    return system
