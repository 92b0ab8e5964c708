#!/usr/bin/python
"""Waits on a ResourceManager's host until nodes are in the state that a rolling restart needs."""

from __future__ import annotations

import json
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: quicksilver_nodes
short_description: Wait for nodes, as the proxy sees them
description: Asks the proxies until all nodes are as wanted, or the time is over; `waiting` then has those left.
options:
  program: {type: path, required: true, description: the program quicksilver}
  settings: {type: path, required: true, description: quicksilver.yaml with the token and the CA}
  urls: {type: list, elements: str, required: true, description: REST of the proxies}
  hosts: {type: list, elements: str, required: true, description: hosts of the nodes as YARN names them}
  until: {type: str, choices: [usable, running, idle], default: usable, description: >-
    usable - RUNNING for the ResourceManager, the NodeManager answers, the sidecar reports;
    running - RUNNING, with or without a sidecar; idle - no queueable container uses the node}
  timeout_s: {type: int, default: 300, description: seconds}
  settle_s: {type: int, default: 0, description: seconds to wait at first, while reports of before are fresh}
"""
RETURN = """
waiting: {type: dict, description: why a node is not as wanted, by host, returned: always}
ids: {type: dict, description: node ids, by host, returned: always}
"""
INTERVAL_S = 2.0


def main() -> None:
    """Read the arguments, and wait."""
    strings = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "program": {"type": "path", "required": True},
            "settings": {"type": "path", "required": True},
            "urls": strings,
            "hosts": strings,
            "until": {"choices": ["usable", "running", "idle"], "default": "usable"},
            "timeout_s": {"type": "int", "default": 300},
            "settle_s": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    params = module.params
    if not module.check_mode:
        time.sleep(params["settle_s"])
    until_s = time.monotonic() + params["timeout_s"]
    while True:
        nodes, problem = ask(module, params)
        waiting = {
            host: why for host in params["hosts"] if (why := why_not(nodes.get(host, []), params["until"], problem))
        }
        if not waiting or module.check_mode or time.monotonic() >= until_s:
            ids = {host: nodes[host][0]["id"] for host in params["hosts"] if host in nodes}
            module.exit_json(changed=False, waiting=waiting, ids=ids)
        time.sleep(INTERVAL_S)


def ask(module: AnsibleModule, params: dict[str, Any]) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Return what each proxy says of each host's nodes, and the last problem with a proxy."""
    found: dict[str, list[dict[str, Any]]] = {}
    problem = ""
    for url in params["urls"]:
        command = [params["program"], "node", "list", "--json", "--url", url]
        code, out, err = module.run_command(command, environ_update={"QUICKSILVER_CONFIG": params["settings"]})
        if code != 0:
            problem = err.strip()
            continue
        for node in json.loads(out):
            found.setdefault(node["host"], []).append(node)
    return found, problem


def why_not(seen: list[dict[str, Any]], until: str, problem: str) -> str:
    """Return why a node is not as wanted, "" if one proxy at least says that it is."""
    if not seen:
        return problem or "no proxy knows a node on this host; quicksilver_host must be its name in YARN"
    reasons = [reason(node, until) for node in seen]
    return "" if "" in reasons else reasons[0]


def reason(node: dict[str, Any], until: str) -> str:
    """Return why one proxy's view of a node is not as wanted."""
    if until == "idle":
        return f"queueable containers use {node['used_q']['memory_mb']} MB" if node["used_q"]["memory_mb"] else ""
    if node["state"] != "RUNNING":
        return f"its state is {node['state']}"
    return "" if until == "running" or node["usable"] else str(node["why_unusable"])


if __name__ == "__main__":
    main()
