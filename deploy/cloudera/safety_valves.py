"""Writes quicksilver's properties into safety valves by Cloudera Manager's REST, and puts back what was there before.

It needs Python alone. User and password: $CM_USER, $CM_PASSWORD. Restarts stay yours (docs/cloudera.md).

    python3 safety_valves.py apply --url https://cm.example.com:7183 --cluster prod --saved valves.json \\
        --resourcemanager rm.xml --nodemanager nm.xml
    python3 safety_valves.py restore --url https://cm.example.com:7183 --cluster prod --saved valves.json
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

VALVES: Final = {
    "RESOURCEMANAGER": "resourcemanager_config_safety_valve",
    "NODEMANAGER": "nodemanager_config_safety_valve",
    "GATEWAY": "yarn_client_config_safety_valve",
}
"""Of each type of role: the safety valve for yarn-site.xml, by its name in the REST."""
_PROPERTY: Final = re.compile(r"\s*<property>.*?</property>", re.DOTALL)
_TIMEOUT_S: Final = 60


class ValveError(Exception):
    """What keeps the valves from being written; its text says what to do."""


class Manager:
    """The REST of a Cloudera Manager, for one service of one cluster."""

    def __init__(self, url: str, cluster: str, service: str, ca: str | None) -> None:
        self.base = url.rstrip("/")
        user = f"{os.environ.get('CM_USER', 'admin')}:{os.environ.get('CM_PASSWORD', '')}"
        self.login = f"Basic {base64.b64encode(user.encode()).decode()}"
        self.context = ssl.create_default_context(cafile=ca) if url.startswith("https:") else None
        version = self.call("GET", "/api/version")
        self.groups = f"/api/{version}/clusters/{quote(cluster)}/services/{quote(service)}/roleConfigGroups"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return an answer, JSON or text. Raises ValveError with the manager's own words."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": self.login, "Content-Type": "application/json"}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self.context) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise ValveError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')[:500]}") from None
        except OSError as error:
            raise ValveError(f"{self.base}: {error}; is --url right?") from None
        return json.loads(text) if text.startswith(("{", "[")) else text.strip().strip('"')

    def of_type(self, role: str) -> list[str]:
        """Return the names of the groups of roles of a type."""
        return [group["name"] for group in self.call("GET", self.groups)["items"] if group["roleType"] == role]

    def valve(self, group: str, role: str) -> str | None:
        """Return a group's safety valve; None: the manager's default, an empty one."""
        items = self.call("GET", f"{self.groups}/{quote(group)}/config")["items"]
        return next((item.get("value") for item in items if item["name"] == VALVES[role]), None)

    def put(self, group: str, role: str, value: str | None) -> None:
        """Write a group's safety valve; None: the default."""
        message = quote("quicksilver: safety valve")
        items = [{"name": VALVES[role], "value": value}]
        self.call("PUT", f"{self.groups}/{quote(group)}/config?message={message}", {"items": items})


def names(text: str, source: str) -> list[str]:
    """Return the names of the properties of a safety valve. Raises ValveError for what is none."""
    try:
        root = ElementTree.fromstring(f"<configuration>{text}</configuration>")
    except ElementTree.ParseError as error:
        raise ValveError(f"{source}: {error}; it must have <property> elements alone") from None
    return [(element.findtext("name") or "").strip() for element in root.iter("property")]


def merged(before: str | None, addition: str) -> str:
    """Return a safety valve with properties added in place of those of the same names; others stay as they are."""
    new_names = set(names(addition, "the properties"))
    names(before or "", "the safety valve")

    def rest(match: re.Match[str]) -> str:
        return "" if new_names & set(names(match[0], "a property")) else match[0]

    kept = _PROPERTY.sub(rest, before or "").strip("\n")
    return "\n".join(part for part in (kept, *(match[0].strip("\n") for match in _PROPERTY.finditer(addition))) if part)


def apply(manager: Manager, additions: dict[str, str], saved: Path, *, dry_run: bool) -> int:
    """Write the additions; return how many valves changed. What a valve was at first is saved before it is changed."""
    was: dict[str, Any] = json.loads(saved.read_text()) if saved.exists() else {}
    changed = 0
    for role, addition in additions.items():
        groups = manager.of_type(role)
        if not groups:
            raise ValveError(f"the service has no group of roles of type {role}; is --service right?")
        for group in groups:
            before = manager.valve(group, role)
            after = merged(before, addition)
            if after == before:
                continue
            changed += 1
            print(f"{group}: {VALVES[role]}: {', '.join(names(addition, role))}")
            if dry_run:
                continue
            was.setdefault(group, {"role": role, "value": before})
            saved.write_text(json.dumps(was, indent=2) + "\n")
            manager.put(group, role, after)
    return changed


def restore(manager: Manager, saved: Path, *, dry_run: bool) -> int:
    """Put back what was saved; return how many valves changed."""
    try:
        was = json.loads(saved.read_text())
    except OSError as error:
        raise ValveError(f"{error}; --saved names the file that `apply` wrote") from None
    changed = 0
    for group, entry in was.items():
        if manager.valve(group, entry["role"]) == entry["value"]:
            continue
        changed += 1
        print(f"{group}: {VALVES[entry['role']]}: as before")
        if not dry_run:
            manager.put(group, entry["role"], entry["value"])
    return changed


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0, or 1 with a line on standard error."""
    parser = argparse.ArgumentParser(description="quicksilver's properties in the safety valves of Cloudera Manager")
    parser.add_argument("word", choices=("apply", "restore"))
    parser.add_argument("--url", required=True, help="of Cloudera Manager, such as https://cm.example.com:7183")
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--service", default="yarn", help="the YARN service's name in the REST")
    parser.add_argument("--ca", help="file with the CA of the manager's certificate")
    parser.add_argument("--saved", required=True, type=Path, help="file with the valves as they were at first")
    parser.add_argument("--dry-run", action="store_true", help="print what would change, change nothing")
    for role in VALVES:
        what = "file of `quicksilver install --format xml`"
        parser.add_argument(f"--{role.lower()}", type=Path, help=what)
    options = parser.parse_args(arguments)
    try:
        files = {role: getattr(options, role.lower()) for role in VALVES}
        additions = {role: file.read_text() for role, file in files.items() if file}
        if options.word == "apply" and not additions:
            raise ValveError("nothing to write: name --resourcemanager or --nodemanager")
        manager = Manager(options.url, options.cluster, options.service, options.ca)
        if options.word == "apply":
            changed = apply(manager, additions, options.saved, dry_run=options.dry_run)
        else:
            changed = restore(manager, options.saved, dry_run=options.dry_run)
    except (ValveError, OSError) as error:
        print(f"quicksilver: error: {error}", file=sys.stderr)
        return 1
    print("restart: ResourceManagers, then NodeManagers a few at a time" if changed else "nothing to change")
    return 0


if __name__ == "__main__":
    sys.exit(main())
