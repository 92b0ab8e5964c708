"""Hadoop's XML configuration files: read, merged as Hadoop does it, expanded, written."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

from quicksilver_lab.cluster.errors import SiteFileError

Properties = dict[str, str]
_VARIABLE = re.compile(r"\$\{([^{}$\s]+)\}")
_MAX_DEPTH = 20
"""As in Hadoop's Configuration.substituteVars."""


def read_site(path: Path) -> Properties:
    """Return the properties of a *-site.xml; of a name that occurs twice the last one counts, as in Hadoop.

    Raises SiteFileError naming file and line or property.
    """
    try:
        root = ET.parse(path).getroot()
    except OSError as error:
        raise SiteFileError(f"{path}: {error.strerror}. Is it the right configuration folder?") from error
    except ET.ParseError as error:
        raise SiteFileError(f"{path}: not XML ({error}). Correct that line.") from error
    if root.tag != "configuration":
        raise SiteFileError(f"{path}: the outermost element is <{root.tag}>, it must be <configuration>.")
    properties: Properties = {}
    for number, prop in enumerate(root.iterfind("property"), start=1):
        name, value = prop.findtext("name", "").strip(), prop.findtext("value")
        if not name or value is None:
            raise SiteFileError(
                f"{path}: property number {number} ({name or 'without a name'}) needs <name> and <value>."
            )
        properties[name] = value.strip()
    return properties


def merge(*layers: Mapping[str, str]) -> Properties:
    """Lay configurations over each other; the later one wins, as with an admin's change in place."""
    merged: Properties = {}
    for layer in layers:
        merged |= layer
    return merged


def expand(properties: Mapping[str, str]) -> Properties:
    """Replace each `${name}` that names a property of the same set; others (env.X, user.name) stay for Hadoop.

    Raises SiteFileError when properties name each other in a circle.
    """
    return {name: _expand_one(name, properties) for name in properties}


def _expand_one(name: str, properties: Mapping[str, str]) -> str:
    value = properties[name]
    for _ in range(_MAX_DEPTH):
        replaced = _VARIABLE.sub(lambda match: properties.get(match.group(1), match.group(0)), value)
        if replaced == value:
            return value
        value = replaced
    raise SiteFileError(f"property {name}: its variables name each other in a circle ({properties[name]}).")


def write_site(path: Path, properties: Mapping[str, str]) -> None:
    """Write a *-site.xml, sorted by name, making its folder when needed."""
    root = ET.Element("configuration")
    for name in sorted(properties):
        prop = ET.SubElement(root, "property")
        ET.SubElement(prop, "name").text = name
        ET.SubElement(prop, "value").text = properties[name]
    ET.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n")
