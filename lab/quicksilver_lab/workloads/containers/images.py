"""Builds the images of docker/ with one daemon."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver_lab.workloads.containers import contexts
from quicksilver_lab.workloads.containers.base import make_base, python_of
from quicksilver_lab.workloads.containers.engine import BUILD_S, ContainerEngine, Progress
from quicksilver_lab.workloads.errors import WorkloadError

NAMES: Final = ("proxy", "sidecar", "hadoop", "postgres", "prometheus")
MB: Final = 1_000_000
"""As `docker images` counts."""


@dataclass(frozen=True, slots=True)
class Image:
    """One image. size_mb: with its base, in 10^6 bytes; build_s: how long this build took."""

    name: str
    size_mb: float
    build_s: float
    user: str


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """What to build from. base: an image that the daemon has, None to make one; archive: see `fill_from_archive`."""

    tag: str = "latest"
    base: str | None = None
    archive: Path | None = None
    build_dir: Path = contexts.CHECKOUT / "build" / "docker"


def full_name(name: str, tag: str) -> str:
    """Return an image's name, without a registry."""
    return f"quicksilver/{name}:{tag}"


def build(engine: ContainerEngine, plan: ImagePlan, progress: Progress, names: Iterable[str] = NAMES) -> list[Image]:
    """Build the images of these names and return them in this order. Raises WorkloadError."""
    names = list(names)
    base = plan.base or make_base(engine, progress)
    if base not in engine.docker("images", "--format", "{{.Repository}}:{{.Tag}} {{.Repository}} {{.ID}}").split():
        raise WorkloadError("Docker has no such image", place=base, remedy="load or import it: nothing is pulled")
    if {"proxy", "sidecar"} & set(names):
        target = plan.build_dir / "quicksilver"
        if plan.archive is None:
            contexts.fill_quicksilver(target, python_of(engine, base), progress)
        else:
            contexts.fill_from_archive(target, plan.archive)
    if "hadoop" in names:
        contexts.fill_hadoop(plan.build_dir / "hadoop", progress)
    images = []
    for name in names:
        began_s = time.monotonic()
        progress(f"building {full_name(name, plan.tag)}")
        _build(engine, plan, name, base)
        images.append(_inspect(engine, full_name(name, plan.tag), time.monotonic() - began_s))
    return images


def _build(engine: ContainerEngine, plan: ImagePlan, name: str, base: str) -> None:
    source = contexts.SOURCE
    options = ["--network=host", "--build-arg", f"BASE={base}", "--tag", full_name(name, plan.tag)]
    if name in ("proxy", "sidecar"):
        where = [f"--file={source / 'Dockerfile'}", f"--target={name}", str(plan.build_dir / "quicksilver")]
    elif name == "hadoop":
        where = [f"--file={source / 'hadoop.Dockerfile'}", str(plan.build_dir / "hadoop")]
    elif name == "postgres":
        where = [f"--file={source / 'postgres.Dockerfile'}", str(source / "postgres")]
    else:
        text = (source / f"{name}.Dockerfile").read_bytes()
        engine.docker("build", *options, "-", stdin=text, timeout_s=BUILD_S)
        return
    engine.docker("build", *options, *where, timeout_s=BUILD_S)


def _inspect(engine: ContainerEngine, image: str, build_s: float) -> Image:
    size, user = engine.docker("image", "inspect", "--format", "{{.Size}} {{.Config.User}}", image).split()
    return Image(image, int(size) / MB, build_s, user)
