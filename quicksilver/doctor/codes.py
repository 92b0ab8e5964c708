"""All codes of findings, with their usual severity and their meaning. docs/doctor.md has the same table."""

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
    "auto-update-off": (ERROR, "containers are promoted, but NodeManagers are not informed of it"),
    "resource-calculator": (ERROR, "the scheduler does not count vcores, which preemption by shrinking needs"),
    "rm-preemption": (WARNING, "the ResourceManager preempts in queues with queueable containers"),
    "rm-recovery": (NOTE, "a restart of the ResourceManager ends all applications"),
    "rm-work-preserving": (WARNING, "a restart of the ResourceManager kills all containers"),
    "am-liveness": (WARNING, "application masters are declared dead before they could reconnect"),
    "token-expiry": (ERROR, "container tokens expire before a start could wait"),
    "ha-incomplete": (ERROR, "one of several ResourceManagers has no address of its own"),
    "federation": (WARNING, "applications bypass the proxy: federation, AMRMProxy or distributed scheduling"),
    "labels": (NOTE, "node labels are on, which YARN does not apply to queueable containers"),
    # The NodeManagers
    "nm-queue-length": (ERROR, "the NodeManager kills every OPPORTUNISTIC container on arrival"),
    "nm-queue-policy": (ERROR, "the NodeManager refuses OPPORTUNISTIC containers by resources"),
    "nm-pause": (WARNING, "the NodeManager would pause containers, which ends in a kill"),
    "nm-hostname": (ERROR, "the NodeManager registers under no name that others reach"),
    "nm-port": (ERROR, "the NodeManager's port changes at every start"),
    "nm-port-high": (WARNING, "an outgoing connection may hold the port"),
    "nm-bind-host": (ERROR, "the NodeManager can be reached around the sidecar"),
    "nm-localizer": (ERROR, "localizers connect to an address on which the NodeManager does not listen"),
    "nm-collector": (ERROR, "clients connect to a timeline collector address without a listener"),
    "nm-vcores": (ERROR, "the NodeManager holds guaranteed containers back for vcores"),
    "nm-capacity": (ERROR, "the NodeManager is configured smaller than containers that share cores may need"),
    "nm-memory": (ERROR, "the sidecar may start more memory than the NodeManager is configured with"),
    "nm-size-unknown": (NOTE, "the NodeManager detects its size by itself"),
    "nm-strict-usage": (ERROR, "the NodeManager's strict quotas shrink every container"),
    "nm-elastic-memory": (ERROR, "elastic memory control bounds by an advertised size"),
    "nm-recovery": (NOTE, "a restart of a NodeManager kills its containers"),
    "nm-tracker": (ERROR, "the NodeManager registers at a relay that is not in the settings"),
    # Clients and application masters
    "scheduler-not-at-proxy": (ERROR, "application masters connect elsewhere than to the proxy"),
    "retry-interval": (WARNING, "application masters wait long before they retry a refused connection"),
    "task-timeout": (WARNING, "tasks time out soon after a start that was held"),
    "hold-limit": (ERROR, "starts are held longer than the framework's own timeout allows"),
    "rpc-protection": (ERROR, "Hadoop RPC is signed or encrypted: quicksilver relays it unread"),
    "misspelt": (WARNING, "Hadoop knows no such property, but one with a similar name"),
    "site-file": (WARNING, "Hadoop passes over a part of a site file in silence"),
    # quicksilver.yaml
    "settings": (ERROR, "quicksilver.yaml has a mistake"),
    "settings-note": (NOTE, "allowed in quicksilver.yaml, but probably unintended"),
    "front-places": (NOTE, "the default preset runs without places beyond the cores"),
    "no-queues": (NOTE, "no YARN queue may have queueable containers"),
    "unknown-queue": (WARNING, "the settings name a YARN queue that does not exist"),
    "rest-insecure": (WARNING, "REST is not encrypted"),
    "proxy-upstream": (ERROR, "the proxy relays to an address that is not the ResourceManager's scheduler"),
    # What runs
    "restart-pending": (ERROR, "a daemon runs with values that differ from its files"),
    "clock-skew": (WARNING, "clocks differ"),
    "hadoop-old": (ERROR, "this version of Hadoop is not supported"),
    "hadoop-unknown": (WARNING, "quicksilver was not tried with this version of Hadoop"),
    "hadoop-leak": (NOTE, "YARN-11808: the ResourceManager never forgets a resource request"),
    "versions-differ": (NOTE, "ResourceManager and NodeManagers are of different versions"),
    "proxy-down": (ERROR, "a proxy does not answer"),
    "proxy-missing": (ERROR, "a ResourceManager has no proxy"),
    "proxy-degraded": (WARNING, "the proxy reports a problem"),
    "proxy-elsewhere": (ERROR, "the running proxy listens or relays elsewhere than configured"),
    "node-without-sidecar": (WARNING, "a node gets no queueable containers"),
    "around-sidecar": (ERROR, "connections to the node do not come to its sidecar"),
    "quicksilver-versions": (WARNING, "parts of quicksilver are of different versions"),
    "job-address": (WARNING, "a running job has another scheduler address in its configuration"),
    # This machine
    "node-listeners": (ERROR, "another process than the sidecar listens on the node's address"),
    "no-resizer": (ERROR, "no resizer works on this machine"),
    "not-root": (WARNING, "the sidecar has no rights over containers and their groups"),
    "cgroup-version": (NOTE, "the version of control groups on this machine"),
    "physical-memory": (WARNING, "the NodeManager offers more memory than the machine has"),
    "open-files": (WARNING, "the limit of open files is low"),
    "store-rights": (ERROR, "the proxy cannot write its store"),
    "journal-rights": (ERROR, "the sidecar cannot write its journal"),
    "store-open": (ERROR, "others can replace the proxy's store"),
    "systemd-unit": (WARNING, "nothing restarts a daemon that dies"),
    "secret-readable": (ERROR, "others can read a secret"),
    "secret-missing": (ERROR, "a file named in the settings does not exist"),
}
