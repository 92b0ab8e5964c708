#!/usr/bin/python
"""Puts quicksilver's properties into Hadoop's site files if the doctor finds no error then, or takes them out."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: quicksilver_site_files
short_description: Quicksilver's properties in Hadoop's site files
description: Runs `quicksilver install` or `uninstall`. In check mode, and with --diff, it shows what would change.
options:
  program: {type: path, required: true, description: the program quicksilver}
  conf_dir: {type: path, required: true, description: a directory of site files}
  state: {type: str, choices: [present, absent], default: present, description: put in or take out}
  roles: {type: list, elements: str, default: [], description: resourcemanager or nodemanager; both for one directory}
  extras: {type: list, elements: str, default: [], description: what `install --with` takes}
  host: {type: str, default: "", description: "the node's own name, for nodemanager"}
  doctor: {type: bool, default: true, description: change nothing if the doctor finds errors in the changed files}
  accept: {type: list, elements: str, default: [], description: codes of errors that are accepted}
  settings: {type: path, description: quicksilver.yaml}
  clients: {type: path, description: "site files of clients, for the doctor; default: conf_dir"}
  markers: {type: list, elements: path, default: [], description: empty files that are made before anything changes}
"""
RETURN = """
errors: {type: list, description: errors of the doctor that are not accepted, returned: on failure}
"""
CONF_OPTIONS = {"resourcemanager": "--rm-conf-dir", "nodemanager": "--nm-conf-dir"}


def main() -> None:
    """Read the arguments, and carry them out."""
    paths = {"type": "path"}
    lists = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "program": {**paths, "required": True},
            "conf_dir": {**paths, "required": True},
            "state": {"choices": ["present", "absent"], "default": "present"},
            "roles": lists,
            "extras": lists,
            "host": {"default": ""},
            "doctor": {"type": "bool", "default": True},
            "accept": lists,
            "settings": paths,
            "clients": paths,
            "markers": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["state"] == "absent" and not Path(params["program"]).exists():
        module.fail_json(msg=f"{params['program']} is gone, which takes the properties out; install it again")
    command = edit_command(params)
    diff = call(module, [*command, "--dry-run"])
    changed = "nothing to change" not in diff.splitlines()
    if params["state"] == "present" and params["doctor"]:
        examine(module, command if changed else [])
    if changed and not module.check_mode:
        for marker in params["markers"]:
            Path(marker).touch()  # before the change: if this run ends here, the next one restarts the daemon
        call(module, [*command, "--in-place"])
    module.exit_json(changed=changed, diff={"prepared": diff} if changed else {})


def edit_command(params: dict[str, Any]) -> list[str]:
    """Return the command line of `quicksilver install` or `uninstall`, without its last word."""
    where = ["--conf-dir", params["conf_dir"]]
    if params["state"] == "absent":
        return [params["program"], "uninstall", *where]
    words = [word for role in params["roles"] for word in ("--role", role)]
    words += [word for extra in params["extras"] for word in ("--with", extra)]
    if params["settings"] and Path(params["settings"]).exists():
        words += ["--config", params["settings"]]
    if "nodemanager" in params["roles"] and params["host"]:
        words += ["--host", params["host"]]
    return [params["program"], "install", *where, *words]


def examine(module: AnsibleModule, command: list[str]) -> None:
    """Have the doctor read the files as `command` would leave them; fail with its errors."""
    params = module.params
    scratch = tempfile.mkdtemp(prefix="quicksilver-")
    try:
        directory = params["conf_dir"]
        if command:
            directory = str(Path(scratch) / "conf")
            call(module, [*command, "--out", directory])
        clients = params["clients"] or params["conf_dir"]
        if "resourcemanager" in params["roles"] and clients == params["conf_dir"]:
            clients = str(Path(scratch) / "clients")  # as other hosts have them: the scheduler is where it always was
            call(module, [params["program"], "uninstall", "--conf-dir", params["conf_dir"], "--out", clients])
        words = ["--conf-dir", directory if clients == params["conf_dir"] else clients]
        words += [word for role in params["roles"] for word in (CONF_OPTIONS[role], directory)]
        if params["settings"] and Path(params["settings"]).exists():
            words += ["--config", params["settings"]]
        code, out, err = module.run_command([params["program"], "doctor", "--offline", "--json", *words])
        if code not in (0, 1):
            module.fail_json(msg=f"the doctor could not read the files: {err.strip()}")
        errors = [one for one in json.loads(out)["findings"] if one["severity"] == "error"]
    finally:
        shutil.rmtree(scratch)
    left = [
        f"{one['code']}: {one['found']}; should: {one['wanted']}"
        for one in errors
        if one["code"] not in params["accept"]
    ]
    if left:
        shown = "; ".join(left).replace(scratch + "/conf", params["conf_dir"])
        module.fail_json(
            msg=f"nothing was changed: the doctor finds {len(left)} error(s): {shown}. Correct them, or name their "
            "codes in quicksilver_doctor_accept",
            errors=left,
        )


def call(module: AnsibleModule, command: list[str]) -> str:
    """Run the program; return its output."""
    code, out, err = module.run_command(command)
    if code != 0:
        module.fail_json(msg=(err or out).strip(), cmd=command, rc=code)
    return str(out)


if __name__ == "__main__":
    main()
