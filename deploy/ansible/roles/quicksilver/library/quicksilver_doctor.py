#!/usr/bin/python
"""Has `quicksilver doctor` ask the running daemons, on a ResourceManager's host."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: quicksilver_doctor
short_description: Fail if the doctor finds errors in the running cluster
description: Changes nothing.
options:
  program: {type: path, required: true, description: the program quicksilver}
  settings: {type: path, required: true, description: quicksilver.yaml}
  conf_dir: {type: path, required: true, description: site files of clients}
  rm_conf_dir: {type: path, required: true, description: "the ResourceManager's own; may be the same"}
  urls: {type: list, elements: str, default: [], description: REST of the proxies}
  accept: {type: list, elements: str, default: [], description: codes of errors that are accepted}
  other_nodes: {type: list, elements: str, default: [], description: nodes whose errors do not count}
"""
RETURN = """
errors: {type: list, description: errors that count, returned: always}
summary: {type: str, description: how much was found, returned: always}
"""


def main() -> None:
    """Read the arguments, and ask."""
    paths = {"type": "path", "required": True}
    lists = {"type": "list", "elements": "str", "default": []}
    spec = {"program": paths, "settings": paths, "conf_dir": paths, "rm_conf_dir": paths}
    module = AnsibleModule(
        argument_spec={**spec, "urls": lists, "accept": lists, "other_nodes": lists},
        supports_check_mode=True,
    )
    params = module.params
    scratch = tempfile.mkdtemp(prefix="quicksilver-")
    try:
        clients = params["conf_dir"]
        if clients == params["rm_conf_dir"]:  # clients of other hosts have these files without what install added
            clients = str(Path(scratch) / "clients")
            run(module, [params["program"], "uninstall", "--conf-dir", params["conf_dir"], "--out", clients], (0,))
        words = ["--config", params["settings"], "--conf-dir", clients, "--rm-conf-dir", params["rm_conf_dir"]]
        words += [word for url in params["urls"] for word in ("--url", url)]
        found = json.loads(run(module, [params["program"], "doctor", "--json", *words], (0, 1)))
    finally:
        shutil.rmtree(scratch)
    errors = [
        f"{one['code']}: {one['found']} ({', '.join(place['host'] for place in one['places'])})"
        for one in found["findings"]
        if one["severity"] == "error"
        and one["code"] not in params["accept"]
        and not elsewhere(one, params["other_nodes"])
    ]
    if errors:
        module.fail_json(
            msg=f"the doctor finds {len(errors)} error(s) in the running cluster: {'; '.join(errors)}. Correct them, "
            "or name their codes in quicksilver_doctor_accept; `quicksilver doctor` on this host shows all",
            errors=errors,
            summary=found["summary"],
        )
    module.exit_json(changed=False, errors=[], summary=found["summary"])


def elsewhere(finding: dict[str, Any], other_nodes: list[str]) -> bool:
    """Return whether a finding concerns only nodes that have no quicksilver yet."""
    hosts = {place["host"].partition(":")[0] for place in finding["places"]}
    return bool(hosts) and hosts <= set(other_nodes)


def run(module: AnsibleModule, command: list[str], expected: tuple[int, ...]) -> str:
    """Run the program; return its output."""
    code, out, err = module.run_command(command)
    if code not in expected:
        module.fail_json(msg=(err or out).strip(), cmd=command, rc=code)
    return str(out)


if __name__ == "__main__":
    main()
