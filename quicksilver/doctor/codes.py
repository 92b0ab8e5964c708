"""All codes of findings: how bad they are as a rule, and what they mean. docs/doctor.md has the same table."""

from __future__ import annotations

from typing import Final

from quicksilver.doctor.model import Severity

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR

CODES: Final[dict[str, tuple[Severity, str]]] = {
    # The ResourceManager
    "opportunistic-off": (ERROR, "the ResourceManager grants no OPPORTUNISTIC containers"),
    "nodes-used": (ERROR, "the ResourceManager may grant on other nodes than those that the proxy names"),
    "load-comparator": (ERROR, "the ResourceManager caps and sheds the queues at the nodes by itself"),
    "scheduler-not-moved": (ERROR, "the ResourceManager's scheduler and the proxy want the same port"),
    "opportunistic-rate": (WARNING, "grants per heartbeat are limited"),
    "auto-update-off": (ERROR, "containers are promoted, but no NodeManager would hear of it"),
    "resource-calculator": (ERROR, "the scheduler does not count vcores, which preemption by shrinking needs"),
    "rm-preemption": (WARNING, "the ResourceManager preempts in queues with queueable containers"),
    "rm-recovery": (NOTE, "a restart of the ResourceManager ends all applications"),
    "rm-work-preserving": (WARNING, "a restart of the ResourceManager kills all containers"),
    "am-liveness": (WARNING, "application masters are given up before they could try again"),
    "token-expiry": (ERROR, "container tokens expire before a start could wait"),
    "ha-incomplete": (ERROR, "a ResourceManager of several has no address of its own"),
    "federation": (WARNING, "applications pass by the proxy: federation, AMRMProxy or distributed scheduling"),
    "labels": (NOTE, "node labels are on, which YARN does not apply to queueable containers"),
    # The NodeManagers
    "nm-queue-length": (ERROR, "the NodeManager kills every OPPORTUNISTIC container on arrival"),
    "nm-queue-policy": (ERROR, "the NodeManager refuses OPPORTUNISTIC containers by resources"),
    "nm-pause": (WARNING, "the NodeManager would pause containers, which ends in a kill"),
    "nm-hostname": (ERROR, "the NodeManager registers under no name that others reach"),
    "nm-port": (ERROR, "the NodeManager's port changes at every start"),
    "nm-port-high": (WARNING, "an outgoing connection may hold the port"),
    "nm-bind-host": (ERROR, "the NodeManager can be reached around the sidecar"),
    "nm-localizer": (ERROR, "localizers look for the NodeManager where it does not listen"),
    "nm-collector": (ERROR, "the timeline collector is looked for where nobody listens"),
    "nm-vcores": (ERROR, "the NodeManager holds guaranteed containers back for vcores"),
    "nm-capacity": (ERROR, "the NodeManager believes in less than containers that share cores may take"),
    "nm-memory": (ERROR, "the sidecar may start more memory than the NodeManager believes in"),
    "nm-size-unknown": (NOTE, "the NodeManager detects its size by itself"),
    "nm-strict-usage": (ERROR, "the NodeManager's strict quotas shrink every container"),
    "nm-elastic-memory": (ERROR, "elastic memory control bounds by an advertised size"),
    "nm-recovery": (NOTE, "a restart of a NodeManager kills its containers"),
    "nm-tracker": (ERROR, "the NodeManager registers at a relay that no settings speak of"),
    # Clients and application masters
    "scheduler-not-at-proxy": (ERROR, "application masters connect elsewhere than to the proxy"),
    "retry-interval": (WARNING, "application masters wait long after a refused connection"),
    "task-timeout": (WARNING, "tasks are given up soon after a start that was held"),
    "hold-limit": (ERROR, "starts are held longer than the framework's own clock allows"),
    "rpc-protection": (ERROR, "Hadoop RPC is signed or encrypted: quicksilver relays it unread"),
    "misspelt": (WARNING, "Hadoop knows no such property, but one that is spelt nearly so"),
    # quicksilver.yaml
    "settings": (ERROR, "quicksilver.yaml has a mistake"),
    "settings-note": (NOTE, "what is allowed in quicksilver.yaml, but hardly meant"),
    "no-queues": (NOTE, "no YARN queue may have queueable containers"),
    "unknown-queue": (WARNING, "policies.queues names what is no queue"),
    "rest-insecure": (WARNING, "REST goes in the clear"),
    "proxy-upstream": (ERROR, "the proxy relays to where the ResourceManager's scheduler is not"),
    # What runs
    "restart-pending": (ERROR, "a daemon runs with other values than its files have"),
    "clock-skew": (WARNING, "clocks differ"),
    "hadoop-old": (ERROR, "this version of Hadoop is not supported"),
    "hadoop-unknown": (WARNING, "quicksilver was not tried with this version of Hadoop"),
    "hadoop-leak": (NOTE, "YARN-11808: the ResourceManager keeps what was asked for once"),
    "versions-differ": (NOTE, "ResourceManager and NodeManagers are of different versions"),
    "proxy-down": (ERROR, "a proxy does not answer"),
    "proxy-missing": (ERROR, "a ResourceManager has no proxy"),
    "proxy-degraded": (WARNING, "the proxy says that something is not well"),
    "proxy-elsewhere": (ERROR, "the running proxy listens or relays elsewhere than configured"),
    "node-without-sidecar": (WARNING, "a node gets no queueable containers"),
    "around-sidecar": (ERROR, "connections to the node do not come to its sidecar"),
    "quicksilver-versions": (WARNING, "parts of quicksilver are of different versions"),
    "job-address": (WARNING, "a running job has another scheduler address in its configuration"),
    # This machine
    "node-listeners": (ERROR, "another process than the sidecar listens on the node's address"),
    "no-resizer": (ERROR, "nothing can make containers smaller here"),
    "not-root": (WARNING, "the sidecar has no rights over containers and their groups"),
    "cgroup-version": (NOTE, "which version of control groups there is"),
    "physical-memory": (WARNING, "the NodeManager gives away more memory than there is"),
    "open-files": (WARNING, "the limit of open files is low"),
    "store-rights": (ERROR, "the proxy cannot write its store"),
    "journal-rights": (ERROR, "the sidecar cannot keep its journal"),
    "store-open": (ERROR, "others can replace the proxy's store"),
    "systemd-unit": (WARNING, "nothing starts a daemon again when it dies"),
    "secret-readable": (ERROR, "others can read a secret"),
    "secret-missing": (ERROR, "a file that settings name is not there"),
}
