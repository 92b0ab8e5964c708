"""The documentation as a site: prepares the pages, and has Zensical build them.

Pages from outside docs/ join, links to files beside docs/ lead to their places in the site, state diagrams become
tables, and pages that may be missing leave the navigation.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ruamel.yaml import YAML

ROOT: Final = Path(__file__).parents[1]
SITE: Final = ROOT / "quicksilver" / "site"
PAGES: Final = {"hadoop-conf.md": "hadoop-conf/README.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site that lie outside docs/."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_MERMAID: Final = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP: Final = re.compile(r"^\s*(\S+) --> (\S+?)(?:: (.*))?$", re.MULTILINE)


def build(root: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a checkout into a folder; the result's standard output says what is wrong with which page."""
    with TemporaryDirectory(prefix="quicksilver-site-") as name:
        config = prepare(root, Path(name))
        command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict", "-f", str(config)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        done.stdout = _COLOUR.sub("", done.stdout)
        for page in outside_navigation(config):
            done.stdout += f"{page}: not in the navigation (nav of mkdocs.yml)\n"
            done.returncode = 1
        if done.returncode == 0:
            shutil.rmtree(into, ignore_errors=True)
            shutil.copytree(Path(name) / "site", into)
        return done


def prepare(root: Path, folder: Path) -> Path:
    """Write the pages and the configuration into an empty folder; return the latter's path."""
    docs = folder / "docs"
    shutil.copytree(root / "docs", docs)
    for name, source in PAGES.items():
        text = (root / source).read_text()
        above = "../" * source.count("/")
        (docs / name).write_text(text.replace(f"]({above}docs/", "]("))
    for path in (root / "hadoop-conf").rglob("*"):
        if path.suffix in (".xml", ".service"):
            copy = docs / "site-files" / path.relative_to(root / "hadoop-conf")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    for page in docs.glob("*.md"):
        page.write_text(_inside(page.read_text()))
    yaml = YAML()
    config: dict[str, Any] = yaml.load(root / "mkdocs.yml")
    optional = {name for name in config["extra"].pop("optional_pages") if not (docs / name).exists()}
    config["nav"] = [
        {title: [page for page in pages if page not in optional] for title, pages in part.items()}
        for part in config["nav"]
    ]
    config["docs_dir"], config["site_dir"] = "docs", "site"
    written = folder / "mkdocs.yml"
    yaml.dump(config, written)
    return written


def outside_navigation(config: Path) -> list[str]:
    """Return the pages beside a configuration that its navigation does not have."""
    parts = YAML(typ="safe").load(config.read_text().replace("!!python/object/apply:pymdownx.slugs.slugify", ""))["nav"]
    listed = {page for part in parts for pages in part.values() for page in pages}
    return sorted({page.name for page in (config.parent / "docs").glob("*.md")} - listed)


def _inside(markdown: str) -> str:
    """Return a page whose links to files beside docs/ lead to their places in the site, with tables for diagrams."""
    for name, source in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    return _MERMAID.sub(_table, markdown.replace("](../hadoop-conf/", "](site-files/"))


def _table(diagram: re.Match[str]) -> str:
    names = {"[*]": "*begin or end*"}
    steps: list[Any] = _STEP.findall(diagram[1])
    rows = [f"| {names.get(a, a)} | {names.get(b, b)} | {event} |" for a, b, event in steps]
    return "\n".join(["| from | to | when |", "|---|---|---|", *rows])


if __name__ == "__main__":
    done = build(ROOT, Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SITE)
    sys.stdout.write(done.stdout)
    sys.exit(done.returncode)
