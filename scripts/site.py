"""The documentation as two sites: prepares the pages, and has Zensical build them.

usage: site.py [FOLDER]         docs/, for who runs quicksilver: into quicksilver/site
       site.py --lab [FOLDER]   lab/docs/, for who studies it: into build/lab-site

Pages from outside docs/ join, links to files beside docs/ lead to their places in the site, state diagrams become
tables, and pages that may be missing leave the navigation. Kept results become pages of the lab's site. A link from
lab/docs/ to a page of the other site becomes its path.
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
LAB_SITE: Final = ROOT / "build" / "lab-site"
CONFIG: Final = "mkdocs.yml"
LAB_CONFIG: Final = "lab/mkdocs.yml"
PAGES: Final = {"hadoop-conf.md": "hadoop-conf/README.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site of docs/ that lie outside docs/."""
FIGURES: Final = "lab/figures"
"""Results that are kept; each has a page in the site of the lab."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_MERMAID: Final = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP: Final = re.compile(r"^\s*(\S+) --> (\S+?)(?:: (.*))?$", re.MULTILINE)
_KEPT: Final = re.compile(r"\]\(\.\./figures/([^)\s]+)\.json\.xz\)")
_OUTSIDE: Final = re.compile(r"\[([^\]]*)\]\((?:\.\./)+([^)\s]+)\)")


def build(root: Path, into: Path, config_name: str = CONFIG) -> subprocess.CompletedProcess[str]:
    """Build a site of a checkout into a folder; the result's standard output says what is wrong with which page."""
    with TemporaryDirectory(prefix="quicksilver-site-") as name:
        config = prepare(root, Path(name), config_name)
        command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict", "-f", str(config)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        done.stdout = _COLOUR.sub("", done.stdout)
        for page in outside_navigation(config):
            done.stdout += f"{page}: not in the navigation (nav of {config_name})\n"
            done.returncode = 1
        if done.returncode == 0:
            shutil.rmtree(into, ignore_errors=True)
            shutil.copytree(Path(name) / "site", into)
        return done


def prepare(root: Path, folder: Path, config_name: str = CONFIG) -> Path:
    """Write the pages and the configuration into an empty folder; return the latter's path."""
    config = configuration(root / config_name)
    docs = folder / "docs"
    shutil.copytree((root / config_name).parent / config["docs_dir"], docs)
    if config_name == CONFIG:
        _add_outer_pages(root, docs)
    elif (root / FIGURES).is_dir():
        _add_figures(root / FIGURES, docs / "figures")
    for name in (*config["extra_css"], config["theme"]["favicon"]):  # both sites look alike
        copy = docs / name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(root / "docs" / name, copy)
    for page in docs.glob("*.md"):
        page.write_text(_inside(page.read_text()))
    optional = {name for name in config["extra"].pop("optional_pages") if not (docs / name).exists()}
    config["nav"] = [
        {title: [page for page in pages if page not in optional] for title, pages in part.items()}
        for part in config["nav"]
    ]
    config["docs_dir"], config["site_dir"] = "docs", "site"
    written = folder / "mkdocs.yml"
    YAML().dump(config, written)
    return written


def configuration(path: Path) -> dict[str, Any]:
    """Return the settings of a file, with those of the file that it inherits from."""
    config: dict[str, Any] = YAML().load(path)
    above = config.pop("INHERIT", None)
    if above is None:
        return config
    whole = configuration(path.parent / above)
    whole.update(config)
    return whole


def outside_navigation(config: Path) -> list[str]:
    """Return the pages beside a configuration that its navigation does not have."""
    parts = YAML(typ="safe").load(config.read_text().replace("!!python/object/apply:pymdownx.slugs.slugify", ""))["nav"]
    listed = {page for part in parts for pages in part.values() for page in pages}
    return sorted({page.name for page in (config.parent / "docs").glob("*.md")} - listed)


def _add_outer_pages(root: Path, docs: Path) -> None:
    """Put the pages of PAGES and the site files into the folder of the pages."""
    for name, source in PAGES.items():
        text = (root / source).read_text()
        above = "../" * source.count("/")
        (docs / name).write_text(text.replace(f"]({above}docs/", "]("))
    for path in (root / "hadoop-conf").rglob("*"):
        if path.suffix in (".xml", ".service"):
            copy = docs / "site-files" / path.relative_to(root / "hadoop-conf")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


def _add_figures(results: Path, pages: Path) -> None:
    """Write the page of each kept result into a folder."""
    from quicksilver.report import files as report
    from quicksilver_lab.bench.keep import SUFFIX, files
    from quicksilver_lab.bench.page.pages import load, page_of

    pages.mkdir()
    for file in files(results):
        report.write(page_of(load(file)), pages / f"{file.name.removesuffix(SUFFIX)}.html")


def _inside(markdown: str) -> str:
    """Return a page whose links stay in its site, with tables for diagrams."""
    for name, source in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    markdown = markdown.replace("](../hadoop-conf/", "](site-files/")
    markdown = _KEPT.sub(r"](figures/\1.html)", markdown)
    return _MERMAID.sub(_table, _OUTSIDE.sub(_path, markdown))


def _path(link: re.Match[str]) -> str:
    """Return the path of a page that is not in this site, after the words of the link."""
    words, path = link.groups()
    return f"`{path}`" if words in (path, Path(path).name, Path(path).stem) else f"{words} (`{path}`)"


def _table(diagram: re.Match[str]) -> str:
    names = {"[*]": "*begin or end*"}
    steps: list[Any] = _STEP.findall(diagram[1])
    rows = [f"| {names.get(a, a)} | {names.get(b, b)} | {event} |" for a, b, event in steps]
    return "\n".join(["| from | to | when |", "|---|---|---|", *rows])


if __name__ == "__main__":
    arguments = sys.argv[1:]
    chosen, default = (LAB_CONFIG, LAB_SITE) if arguments[:1] == ["--lab"] else (CONFIG, SITE)
    folders = [argument for argument in arguments if argument != "--lab"]
    done = build(ROOT, Path(folders[0]).resolve() if folders else default, chosen)
    sys.stdout.write(done.stdout)
    sys.exit(done.returncode)
