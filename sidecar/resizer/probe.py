"""Finds the resizer for this node: each mechanism is tried, and one that fails reports the reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quicksilver.common.hadoop.conf import HadoopConf
from sidecar.resizer.base import Resizer, ResizeRefusedError
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.processes import PROC
from sidecar.resizer.signals import Signals

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

    @property
    def limits(self) -> list[str]:
        """Return the limitations of this node, for reports; cgroup v1 does all that cgroup v2 does."""
        if self.resizer is not None and self.why_not.keys() <= {"cgroup2"}:
            return list(self.warnings)
        lines = [f"resizer {name}: {why}" for name, why in self.why_not.items()]
        return [*lines, *self.warnings]


@dataclass(frozen=True, slots=True)
class Squeeze:
    """What a shrunk container gives back of its memory, as parts of what it uses (see `Cgroup2`); 0 for nothing."""

    high_ratio: float = 0.0
    reclaim_ratio: float = 0.0

    @property
    def any(self) -> bool:
        """Whether it gives anything back."""
        return bool(self.high_ratio or self.reclaim_ratio)


NO_SQUEEZE: Final = Squeeze()


def choose(
    wanted: str = "auto",
    *,
    parent: str = "quicksilver",
    conf: HadoopConf | None = None,
    memory: bool = True,
    docker_url: str | None = None,
    squeeze: Squeeze = NO_SQUEEZE,
    proc: Path = PROC,
) -> Chosen:
    """Return the first mechanism that works: `wanted`, or with "auto" cgroup v2, cgroup v1, signals.

    "docker" uses Docker for Docker's containers, and the choice of "auto" for the others. `conf` says whether
    the NodeManager manages cgroups itself. `squeeze` is for cgroup v2 alone: with others it is a limitation of the
    node. Raises ValueError when `wanted` is none of WANTED.
    """
    if wanted not in WANTED:
        raise ValueError(f"{wanted!r} is no resizer; take one of {', '.join(WANTED)}")
    if wanted == "none":
        return Chosen(None)
    nm_hierarchy, warnings = nm_groups(conf)
    makers: dict[str, Callable[[], Resizer]] = {
        "cgroup2": lambda: _cgroup2(parent, nm_hierarchy, memory, proc, squeeze),
        "cgroup1": lambda: _cgroup1(parent, nm_hierarchy, memory, proc),
        "signals": lambda: _signals(proc),
    }
    why_not: dict[str, str] = {}
    for name in ORDER if wanted in ("auto", "docker") else (wanted,):
        try:
            resizer = makers[name]()
            if squeeze.any and name != "cgroup2":
                warnings = (*warnings, f"memory of shrunk containers is not squeezed: {name} cannot do that")
            return _with_docker(wanted, Chosen(resizer, why_not, warnings), docker_url)
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


def _cgroup1(parent: str, nm_hierarchy: str | None, memory: bool, proc: Path) -> Resizer:
    resizer = Cgroup1(parent, nm_hierarchy, memory, proc)
    resizer.attempt()
    return resizer


def _signals(proc: Path) -> Resizer:
    if not hasattr(os, "pidfd_open") or not (proc / "self" / "stat").exists():
        raise ResizeRefusedError("", "signals", "the kernel has no pidfd or no /proc", remedy="take Linux 5.3 or later")
    os.close(os.pidfd_open(os.getpid()))
    return Signals(proc)


def _cgroup2(parent: str, nm_hierarchy: str | None, memory: bool, proc: Path, squeeze: Squeeze) -> Resizer:
    from sidecar.resizer.cgroup.v2 import Cgroup2

    ratios = {"high_ratio": squeeze.high_ratio, "reclaim_ratio": squeeze.reclaim_ratio}
    resizer = Cgroup2(parent, nm_hierarchy, memory, proc, **ratios)
    resizer.attempt()
    return resizer


def _with_docker(wanted: str, chosen: Chosen, url: str | None) -> Chosen:
    """Put Docker before the chosen resizer; its daemon may be down for now, so it is not asked."""
    if wanted != "docker" or chosen.resizer is None:
        return chosen
    from sidecar.resizer.composite import DockerOr
    from sidecar.resizer.docker.resizer import DockerResizer

    docker = DockerResizer(url) if url else DockerResizer()
    return Chosen(DockerOr(docker, chosen.resizer), chosen.why_not, chosen.warnings)
