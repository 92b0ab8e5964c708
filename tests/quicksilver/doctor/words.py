"""A configuration as of the local cluster, doctored offline."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from quicksilver.cli import cli
from quicksilver.doctor.site_edit import EMPTY, apply
from quicksilver_lab.cluster import ClusterSpec
from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.runtime.jars import Jars

ALL_Q = "policies: {queues: '*', routes: [{policy: only_q}]}\nproxy: {upstream: '127.0.0.1:18035'}\n"
LAS = (
    "policies: {queues: '*', routes: [{policy: only_q}], preempt: {policy: las, settings: {extra: 4}}}\n"
    "proxy: {upstream: '127.0.0.1:18035'}\nsidecar: {vcores: 4}\n"
)


@dataclass(frozen=True, slots=True)
class Copy:
    """The configuration folders of a local cluster, and a quicksilver.yaml."""

    conf: ConfDirs
    yaml: Path

    def folders(self, role: str) -> list[Path]:
        """Return the folders of a role: client, rm, nm (all), nm1 (the first), all."""
        nms = list(self.conf.nodemanagers)
        rm, client = list(self.conf.resourcemanagers), [self.conf.client]
        return {"client": client, "rm": rm, "nm": nms, "nm1": nms[:1], "all": client + rm + nms}[role]

    def change(self, role: str, file: str, put: dict[str, str], *remove: str) -> None:
        """Change one file in the folders of a role."""
        for folder in self.folders(role):
            path = folder / file
            path.write_bytes(apply(path.read_bytes(), put, remove, path))

    def run(self, *more: str) -> Result:
        """Run the doctor, offline."""
        command = ["doctor", "--offline", "--config", str(self.yaml), "--conf-dir", str(self.conf.client)]
        command += more
        for folder in self.conf.resourcemanagers:
            command += ["--rm-conf-dir", str(folder)]
        for folder in self.conf.nodemanagers:
            command += ["--nm-conf-dir", str(folder)]
        return CliRunner().invoke(cli, command)

    def look(self) -> dict[str, Any]:
        """Return what --json prints."""
        found: dict[str, Any] = json.loads(self.run("--json").stdout)
        return found


def copy_of(folder: Path, settings: str = ALL_Q, **spec: Any) -> Copy:
    conf = ConfDirs(ClusterSpec.model_validate({"workdir": folder, "base_port": 18000, **spec}))
    conf.write(Jars(Path("/jars")))
    yaml = folder / "quicksilver.yaml"
    yaml.write_text(settings)
    return Copy(conf, yaml)


def serious(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for found in data["findings"] if found["severity"] != "note"]


def cure(data: dict[str, Any]) -> None:
    """Do what the remedies say, from the JSON alone."""
    for found in serious(data):
        remedy = found["remedy"]
        for place in found["places"]:
            path = Path(place["directory"]) / remedy["file"]
            before = path.read_bytes() if path.exists() else EMPTY
            path.write_bytes(apply(before, remedy["put"], remedy["remove"], path))
