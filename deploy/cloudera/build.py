"""Makes parcels, their manifest.json and the CSD for Cloudera Manager, of the archive of `make packages`.

`python -m deploy.cloudera.build dist/yarn-quicksilver-VERSION-linux-x86_64.tar.gz --distro el8`. The folder is a parcel
repository, and can be served as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from deploy.packages.layout import fill
from deploy.packages.wheels import BuildError

HERE: Final = Path(__file__).parent
NAME: Final = "QUICKSILVER"
_ARCHIVE: Final = re.compile(r"yarn-quicksilver-(\d[\w.]*)-linux-(\w+)\.tar\.gz")
_DISTRO: Final = re.compile(r"[a-z]+\d*")


def version_of(archive: Path) -> str:
    """Return the version in an archive's name. Raises BuildError for another file."""
    match = _ARCHIVE.fullmatch(archive.name)
    if match is None:
        raise BuildError(
            f"{archive}: no archive of `make packages`; it is named yarn-quicksilver-VERSION-linux-ARCH.tar.gz"
        )
    return match[1]


def parcel(archive: Path, distro: str, out: Path) -> Path:
    """Write the parcel for a distribution, and a file with its hash beside it.

    distro: Cloudera's word, such as el8, el9, sles15, jammy. Raises BuildError for another one.
    """
    if not _DISTRO.fullmatch(distro):
        raise BuildError(f"{distro}: no distribution in Cloudera's words, such as el8, el9, sles15, jammy")
    version = version_of(archive)
    top = f"{NAME}-{version}"
    path = out / f"{top}-{distro}.parcel"
    meta = {
        "meta/parcel.json": description(version, distro),
        "meta/quicksilver_env.sh": (HERE / "parcel" / "quicksilver_env.sh").read_text(),
    }
    with tarfile.open(archive) as source, tarfile.open(path, "w:gz") as target:
        for member in source:
            member.name = "/".join([top, *member.name.split("/")[1:]])
            target.addfile(member, source.extractfile(member) if member.isreg() else None)
            epoch_s = member.mtime
        for name, text in meta.items():
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode, entry.mtime = len(text.encode()), 0o644, epoch_s
            target.addfile(entry, io.BytesIO(text.encode()))
    path.with_name(f"{path.name}.sha").write_text(digest(path))
    return path


def description(version: str, distro: str) -> str:
    """Return the parcel.json of a parcel."""
    return fill(HERE / "parcel" / "parcel.json", {"VERSION": version, "DISTRO": distro})


def manifest(parcels: Sequence[Path], last_updated_ms: int) -> dict[str, Any]:
    """Return manifest.json of a parcel repository."""
    entries = []
    for path in sorted(parcels):
        with tarfile.open(path) as archive:
            top = archive.getnames()[0].split("/")[0]
            file = archive.extractfile(f"{top}/meta/parcel.json")
            assert file is not None
            own = json.load(file)
        words = ("depends", "replaces", "conflicts", "components")
        entries.append({"parcelName": path.name, "hash": digest(path), **{word: own[word] for word in words}})
    return {"lastUpdated": last_updated_ms, "parcels": entries}


def digest(path: Path) -> str:
    """Return the hash by which Cloudera Manager knows a parcel: SHA-1."""
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()


def descriptor(version: str, out: Path) -> Path:
    """Write the CSD, a jar with the service's descriptor and scripts."""
    path = out / f"{NAME}-{version}.jar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for file in sorted(file for file in (HERE / "csd").rglob("*") if file.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(HERE / "csd").as_posix())
            entry.external_attr = (0o755 if file.suffix == ".sh" else 0o644) << 16
            jar.writestr(entry, fill(file, {"VERSION": version}), zipfile.ZIP_DEFLATED)
    return path


@click.command()
@click.argument("archive", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--distro", "distros", multiple=True, required=True, help="el8, el9, sles15, jammy, ...; may be repeated."
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default="dist", show_default=True)
def main(archive: Path, distros: tuple[str, ...], out: Path) -> None:
    """Write parcels, their manifest.json and the CSD."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        paths = [parcel(archive, distro, out) for distro in dict.fromkeys(distros)]
        with tarfile.open(archive) as source:
            epoch_s = int(next(iter(source)).mtime)
        file = out / "manifest.json"
        file.write_text(json.dumps(manifest(paths, epoch_s * 1000), indent=2) + "\n")
        for path in (*paths, file, descriptor(version_of(archive), out)):
            click.echo(path)
    except BuildError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
