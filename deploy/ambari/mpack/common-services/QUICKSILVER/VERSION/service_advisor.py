"""What Ambari recommends when quicksilver is added: where its components run, and YARN's properties. Python 2.7 and 3.

Ambari has one yarn-site for all hosts. So a node's name and the port of the ResourceManager's own scheduler come from
yarn-env (docs/ambari.md). Its alerts expand no variables: yarn.nodemanager.webapp.address stays unset, whose default is
the same.
"""

import imp
import json
import os

SCRIPT_DIR = os.path.dirname(os.path.abspath(__file__))
# The server names its own; else it is in resources/stacks, seen from common-services or from mpacks.
PLACES = [os.path.join(SCRIPT_DIR, "../" * up + "stacks/service_advisor.py") for up in (3, 5)]
PARENT_FILE = os.environ.get("BASE_SERVICE_ADVISOR") or next(
    (place for place in PLACES if os.path.exists(place)), PLACES[0]
)
with open(PARENT_FILE, "rb") as parent:
    service_advisor = imp.load_module("service_advisor", parent, PARENT_FILE, (".py", "rb", imp.PY_SOURCE))
with open(os.path.join(SCRIPT_DIR, "yarn.json")) as file:
    YARN = json.load(file)

ADDRESS = "yarn.nodemanager.address"
CLASS = "yarn.resourcemanager.scheduler.class"
MEMORY = "yarn.nodemanager.resource.memory-mb"
VCORES = "yarn.nodemanager.resource.cpu-vcores"
SCHEDULER = "yarn.resourcemanager.scheduler.address"
HOST = "yarn.resourcemanager.hostname"
PORT = "quicksilver.resourcemanager.scheduler.port"
NODE_PORT = "quicksilver.nodemanager.port"
BESIDE = {"QUICKSILVER_PROXY": "RESOURCEMANAGER", "QUICKSILVER_SIDECAR": "NODEMANAGER"}


class QUICKSILVERServiceAdvisor(service_advisor.ServiceAdvisor):
    """Found by its name."""

    def colocateService(self, hostsComponentsMap, serviceComponents):
        """Put each component beside the daemon that it stands before."""
        for components in hostsComponentsMap.values():
            names = set(component["name"] for component in components)
            for own, other in sorted(BESIDE.items()):
                if other in names and own not in names:
                    components.append({"name": own})
                elif own in names and other not in names:
                    components.remove({"name": own})

    def getServiceComponentLayoutValidations(self, services, hosts):
        """Return an error for each component that is elsewhere."""
        listed = [item["StackServiceComponents"] for service in services["services"] for item in service["components"]]
        items = []
        for own, other in sorted(BESIDE.items()):
            apart = set(self.getHosts(listed, own)).symmetric_difference(self.getHosts(listed, other))
            if apart:
                message = "{0} belongs on each host of a {1}, and there alone: {2}".format(
                    own, other, ", ".join(sorted(apart))
                )
                items.append({"type": "host-component", "level": "ERROR", "message": message, "component-name": own})
        return items

    def getServiceConfigurationRecommendations(self, configurations, clusterData, services, hosts):
        """Recommend N of the nodes, yarn-site, and the end of the template of yarn-env."""
        site = services["configurations"].get("yarn-site", {}).get("properties", {})
        env = services["configurations"].get("yarn-env", {}).get("properties", {})
        own = services["configurations"].get("quicksilver-env", {}).get("properties", {})
        vcores = own.get("vcores") or site.get(VCORES)
        if vcores:
            self.putProperty(configurations, "quicksilver-env", services)("vcores", vcores)
        text = str(services["configurations"].get("capacity-scheduler", {}).get("properties", {}))
        by_memory = "DominantResourceCalculator" not in text and "fair" not in site.get(CLASS, "")
        for name, value in self.yarn_site(site, vcores, by_memory).items():
            put(configurations, "yarn-site", name, value)
        text = env.get("content")
        if text and YARN["begin"] not in text:
            put(configurations, "yarn-env", "content", text.rstrip("\n") + "\n" + YARN["env"])

    def yarn_site(self, site, vcores, by_memory):
        """Return the properties of yarn-site that have to be as they are here.

        by_memory: the scheduler counts no vcores, but the NodeManager does; then it needs one for each container that
        its memory holds.
        """
        advice = dict(YARN["site"])
        ids = [name.strip() for name in site.get("yarn.resourcemanager.ha.rm-ids", "").split(",") if name.strip()]
        advice[PORT] = site.get(PORT, "8030")
        for suffix in ["." + name for name in ids] or [""]:
            port = site.get(SCHEDULER + suffix, "").rpartition(":")[2]
            if port.isdigit():
                advice[PORT] = port
            advice[SCHEDULER + suffix] = "${" + HOST + suffix + "}:${" + PORT + "}"
        port = site.get(ADDRESS, "").rpartition(":")[2]
        if port.isdigit() and port != "0":
            advice[NODE_PORT] = port
        elif NODE_PORT in site:
            advice[NODE_PORT] = site[NODE_PORT]
        if vcores:
            smallest_mb = int(site.get("yarn.scheduler.minimum-allocation-mb") or 1024)
            containers = int(site.get(MEMORY) or 8192) // max(1, smallest_mb) if by_memory else 0
            advice[VCORES] = str(max(int(vcores) + 1, containers))
        return advice


def put(configurations, kind, name, value):
    """Recommend a value, whatever the user had before: with another one containers would not start."""
    configurations.setdefault(kind, {}).setdefault("properties", {})[name] = value
