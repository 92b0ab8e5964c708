"""Makes the management pack for Ambari: `python -m deploy.ambari.build`.

Its service advisor recommends the properties of hadoop-conf/, as `quicksilver install --shared` would write them.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

import click

from deploy.packages.build import epoch_of, version_of
from deploy.packages.layout import fill
from deploy.packages.wheels import BuildError
from quicksilver.common.hadoop import yarn_env
from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver.common.hadoop.xml import read_properties
from quicksilver.doctor import shell_block

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
_ROLES: Final = ("resourcemanager", "nodemanager", "client")
_BY_CLUSTER: Final = frozenset(
    (
        "yarn.resourcemanager.scheduler.address",
        "quicksilver.resourcemanager.scheduler.port",
        "yarn.nodemanager.webapp.address",
        "quicksilver.nodemanager.webapp.port",
    )
)
"""What the service advisor fills in for a cluster, or leaves unset."""


def yarn() -> dict[str, Any]:
    """Return what the service advisor puts into yarn-site, and at the end of yarn-env's template."""
    site: dict[str, str] = {}
    for role in _ROLES:
        site |= {prop.name: prop.value.strip() for prop in read_properties(overlay_root() / role / "yarn-site.xml")}
    port = site["quicksilver.resourcemanager.scheduler.port"]
    site = {name: value for name, value in site.items() if name not in _BY_CLUSTER}
    site["yarn.nodemanager.hostname"] = f"${{env.{yarn_env.NODE}:-0.0.0.0}}"
    lines = yarn_env.lines({"quicksilver.resourcemanager.scheduler.port": port}, node=True)
    block = shell_block.added(b"\n", lines)
    assert block is not None
    return {"site": site, "env": block.decode().lstrip("\n"), "begin": shell_block.BEGIN.decode()}


def mpack(version: str, out: Path, epoch_s: int) -> Path:
    """Write the management pack, a .tar.gz with one folder in it."""
    top = f"quicksilver-ambari-mpack-{version}"
    values = {"VERSION": version}
    files = {
        file.relative_to(HERE / "mpack"): fill(file, values) for file in (HERE / "mpack").rglob("*") if file.is_file()
    }
    files[Path("common-services/QUICKSILVER/VERSION/yarn.json")] = json.dumps(yarn(), indent=2) + "\n"
    path = out / f"{top}.tar.gz"
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name.as_posix().replace('/VERSION/', f'/{version}/')}")
            entry.size, entry.mode, entry.mtime = len(text.encode()), 0o644, epoch_s
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default="dist", show_default=True)
def main(out: Path) -> None:
    """Write the management pack of this checkout."""
    try:
        click.echo(mpack(version_of(ROOT), out, epoch_of(ROOT)))
    except BuildError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
