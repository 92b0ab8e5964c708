"""What the scripts need of the cluster's configuration. Python 2.7 and 3: the agent's."""

from resource_management.libraries.script.script import Script

config = Script.get_config()
env = config["configurations"]["quicksilver-env"]
hostname = config.get("agentLevelParams", {}).get("hostname") or config["hostname"]
rest_port = env["rest_port"]
vcores = env["vcores"] or config["configurations"]["yarn-site"]["yarn.nodemanager.resource.cpu-vcores"]
content = env["content"]
program = "/opt/quicksilver/bin/quicksilver"
settings = "/etc/quicksilver/quicksilver.yaml"
