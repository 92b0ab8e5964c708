"""Finds the resizer for this node: each mechanism is tried, and one that fails reports the reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quicksilver.common.extras import missing
from quicksilver.common.hadoop.conf import HadoopConf
from sidecar.resizer.base import Resizer, ResizeRefusedError
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.processes import PROC
from sidecar.resizer.signals import Signals

if TYPE_CHECKING:
    from sidecar.resizer.cgroup.v2 import Cgroup2

ORDER: Final = ("cgroup2", "cgroup1", "signals")
WANTED: Final = ("auto", *ORDER, "docker", "none")
_LCE: Final = "yarn.nodemanager.linux-container-executor"
_STRICT: Final = f"{_LCE}.cgroups.strict-resource-usage"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The resizer of this node, if any."""

    resizer: Resizer | None
    why_not: dict[str, str] = field(default_factory=dict)
    """Why each mechanism before it was not chosen, by name."""
    warnings: tuple[str, ...] = ()
    missing: Callable[[], str] = lambda: ""
    """Returns why no container can be resized yet, "" when they can."""

    @property
    def limits(self) -> list[str]:
        """Return the limitations of this node now, for reports; cgroup v1 does all that cgroup v2 does."""
        known = self.resizer is not None and self.why_not.keys() <= {"cgroup2"}
        lines = [] if known else [f"resizer {name}: {why}" for name, why in self.why_not.items()]
        missing = self.missing()
        return [*lines, *self.warnings, *([f"nothing is shrunk yet: {missing}"] if missing else [])]


@dataclass(frozen=True, slots=True)
class ProbeSqueeze:
    """What a shrunk container gives back of its memory, as parts of what it uses (see `Cgroup2`); 0 for nothing."""

    high_ratio: float = 0.0
    reclaim_ratio: float = 0.0

    @property
    def any(self) -> bool:
        """Whether it gives anything back."""
        return bool(self.high_ratio or self.reclaim_ratio)


NO_SQUEEZE: Final = ProbeSqueeze()


def choose(
    mechanism: str = "auto",
    *,
    parent: str = "quicksilver",
    conf: HadoopConf | None = None,
    memory: bool = True,
    docker_url: str | None = None,
    squeeze: ProbeSqueeze = NO_SQUEEZE,
    proc: Path = PROC,
) -> Chosen:
    """Return the first mechanism that works: `mechanism`, or with "auto" cgroup v2, cgroup v1, signals.

    "docker" uses Docker for Docker's containers, and the choice of "auto" for the others. `conf` says whether
    the NodeManager manages cgroups itself. `squeeze` is for cgroup v2 alone: with others it is a limitation of the
    node. A NodeManager that manages cgroups may begin after this: its hierarchy is then waited for (`Chosen.missing`).
    Raises ValueError when `mechanism` is none of WANTED.
    """
    if mechanism not in WANTED:
        raise ValueError(f"{mechanism!r} is no resizer; take one of {', '.join(WANTED)}")
    if mechanism == "none":
        return Chosen(None)
    nm_hierarchy, warnings = nm_groups(conf)
    mounts = nm_hierarchy is not None and conf is not None and conf.boolean(f"{_LCE}.cgroups.mount")
    makers: dict[str, Callable[[], tuple[Resizer, Callable[[], str]]]] = {
        "cgroup2": lambda: _tried(_cgroup2(parent, nm_hierarchy, memory, proc, squeeze), nm_mounts=False),
        "cgroup1": lambda: _tried(Cgroup1(parent, nm_hierarchy, memory, proc), nm_mounts=mounts),
        "signals": lambda: (_signals(proc), lambda: ""),
    }
    why_not: dict[str, str] = {}
    for name in ORDER if mechanism in ("auto", "docker") else (mechanism,):
        try:
            resizer, missing = makers[name]()
            if squeeze.any and name != "cgroup2":
                warnings = (*warnings, f"memory of shrunk containers is not squeezed: {name} cannot do that")
            return _with_docker(mechanism, Chosen(resizer, why_not, warnings, missing), docker_url)
        except (ResizeRefusedError, OSError) as error:
            why_not[name] = str(error)
    return Chosen(None, why_not, warnings)


def nm_groups(conf: HadoopConf | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the NodeManager's own cgroup hierarchy, None without cpu groups; and warnings about its settings."""
    if conf is None or not (conf.text("yarn.nodemanager.container-executor.class") or "").endswith(
        "LinuxContainerExecutor"
    ):
        return None, ()
    handler = conf.text(f"{_LCE}.resources-handler.class") or ""
    if "cgroup" not in handler.lower() and not conf.boolean("yarn.nodemanager.resource.cpu.enabled"):
        return None, ()
    warnings: tuple[str, ...] = ()
    if conf.boolean(_STRICT):
        warnings = (f"{conf.place(_STRICT)}: quotas of the NodeManager's own are undone by resizing; set it to false",)
    return conf.text(f"{_LCE}.cgroups.hierarchy") or "/hadoop-yarn", warnings


def groups_to_clean(conf: HadoopConf | None) -> str | None:
    """Return the NodeManager's own hierarchy where only a sidecar writes quotas; None else.

    With strict-resource-usage the NodeManager writes them too, for guaranteed containers, and nobody could tell whose
    one is.
    """
    hierarchy, _ = nm_groups(conf)
    return None if conf is None or conf.boolean(_STRICT) else hierarchy


def _tried(resizer: Cgroup1 | Cgroup2, *, nm_mounts: bool) -> tuple[Resizer, Callable[[], str]]:
    """Return a resizer that works, or will when the NodeManager has made its hierarchy; raise ResizeRefusedError else.

    nm_mounts: whether the NodeManager mounts the controllers, too. The hierarchy is made anew after each boot.
    """
    try:
        resizer.attempt()
    except ResizeRefusedError as error:
        if resizer.nm_hierarchy is None or not (error.gone or (nm_mounts and not resizer.is_mounted)):
            raise
    return resizer, resizer.missing


def _signals(proc: Path) -> Resizer:
    if not hasattr(os, "pidfd_open") or not (proc / "self" / "stat").exists():
        raise ResizeRefusedError("", "signals", "the kernel has no pidfd or no /proc", remedy="take Linux 5.3 or later")
    os.close(os.pidfd_open(os.getpid()))
    return Signals(proc)


def _cgroup2(parent: str, nm_hierarchy: str | None, memory: bool, proc: Path, squeeze: ProbeSqueeze) -> Cgroup2:
    from sidecar.resizer.cgroup.v2 import Cgroup2

    ratios = {"high_ratio": squeeze.high_ratio, "reclaim_ratio": squeeze.reclaim_ratio}
    return Cgroup2(parent, nm_hierarchy, memory, proc, **ratios)


def _with_docker(mechanism: str, choice: Chosen, url: str | None) -> Chosen:
    """Put Docker before the chosen resizer; its daemon may be down for now, so it is not asked."""
    if mechanism != "docker" or choice.resizer is None:
        return choice
    if remedy := missing("docker"):
        why = f"Docker's containers need the package docker, which is not installed; {remedy}"
        return replace(choice, why_not={**choice.why_not, "docker": why})
    from sidecar.resizer.composite import DockerOr
    from sidecar.resizer.docker.resizer import DockerResizer

    docker = DockerResizer(url) if url else DockerResizer()
    return replace(choice, resizer=DockerOr(docker, choice.resizer))
