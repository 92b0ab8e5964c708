"""The management pack for Ambari: its layout, its service advisor, and its scripts on modules like an agent's."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import types
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Final

import pytest
from jinja2 import Template

from deploy.ambari.build import mpack, yarn
from policies.config.policy_set import Policies
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.common.hadoop.yarn_env import rm_options
from quicksilver.common.settings.settings_file import read_settings
from rm_proxy.config import ProxySettings
from sidecar.config import SidecarSettings

VERSION: Final = "0.1.0"
BASE: Final = """
class ServiceAdvisor(object):
    def getHosts(self, components, name):
        return [host for each in components if each["component_name"] == name for host in each["hostnames"]]

    def putProperty(self, config, kind, services=None):
        def put(name, value):
            config.setdefault(kind, {}).setdefault("properties", {})[name] = value
        return put
"""
SITE: Final = {
    "yarn.nodemanager.address": "0.0.0.0:45454",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.resourcemanager.hostname": "rm.example",
    "yarn.resourcemanager.scheduler.address": "rm.example:8030",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the service's definition in an unpacked pack."""
    folder = tmp_path_factory.mktemp("ambari")
    with tarfile.open(mpack(VERSION, folder, 0)) as archive:
        archive.extractall(folder, filter="tar")
    return folder / f"quicksilver-ambari-mpack-{VERSION}/common-services/QUICKSILVER/{VERSION}"


def test_the_pack_has_the_documented_layout(service: Path) -> None:
    root = service.parents[2]
    meta = json.loads((root / "mpack.json").read_text())
    assert (meta["type"], meta["version"]) == ("full-release", VERSION)
    kinds = {artifact["type"]: root / artifact["source_dir"] for artifact in meta["artifacts"]}
    assert kinds.keys() == {"service-definitions", "stack-addon-service-definitions"}
    assert all(folder.is_dir() for folder in kinds.values())
    addon = ET.parse(kinds["stack-addon-service-definitions"] / "QUICKSILVER" / VERSION / "metainfo.xml").getroot()
    assert addon.findtext("services/service/extends") == service.relative_to(root).as_posix()
    info = ET.parse(service / "metainfo.xml").getroot()
    scripts = {element.text for element in info.iter("script")}
    assert {name for name in scripts if name and (service / "package" / name).is_file()} == scripts
    components = {element.findtext("name") for element in info.iter("component")}
    assert components == {"QUICKSILVER_PROXY", "QUICKSILVER_SIDECAR"}
    alerts = json.loads((service / "alerts.json").read_text())["QUICKSILVER"]
    assert alerts.keys() - {"service"} == components
    order = json.loads((service / "role_command_order.json").read_text())["general_deps"]
    assert order["QUICKSILVER_PROXY-START"] == ["RESOURCEMANAGER-START"]
    own = {
        element.findtext("name") for element in ET.parse(service / "configuration/quicksilver-env.xml").iter("property")
    }
    assert set(re.findall(r"quicksilver-env/(\w+)", json.dumps(alerts))) <= own


@pytest.fixture
def advisor(service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "base.py").write_text(BASE)
    monkeypatch.setenv("BASE_SERVICE_ADVISOR", str(tmp_path / "base.py"))
    loader = types.ModuleType("imp")  # Python 3.12 and newer lack it; Ambari's own Python has it
    loader.PY_SOURCE = 1  # type: ignore[attr-defined]

    def load_module(name: str, file: Any, path: str, description: object) -> types.ModuleType:
        module = types.ModuleType(name)
        exec(compile(Path(path).read_text(), path, "exec"), module.__dict__)
        return module

    loader.load_module = load_module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "imp", loader)
    module = types.ModuleType("advisor")
    module.__file__ = str(service / "service_advisor.py")
    exec(compile(Path(module.__file__).read_text(), module.__file__, "exec"), module.__dict__)
    return module.__dict__["QUICKSILVERServiceAdvisor"]()


def recommended(advisor: Any, site: dict[str, str], **kinds: dict[str, str]) -> dict[str, dict[str, str]]:
    found: dict[str, Any] = {}
    every = {"yarn-site": site, **{name.replace("_", "-"): values for name, values in kinds.items()}}
    services = {"configurations": {name: {"properties": values} for name, values in every.items()}, "services": []}
    advisor.getServiceConfigurationRecommendations(found, {}, services, {})
    return {name: values["properties"] for name, values in found.items()}


def site_file(folder: Path, site: dict[str, str]) -> Path:
    root = ET.Element("configuration")
    for name, value in site.items():
        entry = ET.SubElement(root, "property")
        ET.SubElement(entry, "name").text, ET.SubElement(entry, "value").text = name, value
    (folder / "yarn-site.xml").write_bytes(ET.tostring(root))
    return folder


def test_the_advisor_gives_one_yarn_site_to_all_hosts(advisor: Any, tmp_path: Path) -> None:
    first = recommended(advisor, SITE, yarn_env={"content": "export A=1\n"})
    site = SITE | first["yarn-site"]
    assert "yarn.nodemanager.webapp.address" not in site and site["yarn.nodemanager.resource.cpu-vcores"] == "9"
    content = first["yarn-env"]["content"]
    assert content.startswith("export A=1\n") and rm_options(content) == {
        "quicksilver.resourcemanager.scheduler.port": "18030"
    }
    again = recommended(advisor, site, yarn_env=first["yarn-env"], quicksilver_env=first["quicksilver-env"])
    assert again["yarn-site"] == first["yarn-site"] and "yarn-env" not in again

    (tmp_path / "yarn-env.sh").write_text(content)
    folder = site_file(tmp_path, site)
    env = {"QUICKSILVER_NODE": "node7.example"}
    clients = load_hadoop_conf(folder, env)
    assert str(clients.rm_address("yarn.resourcemanager.scheduler.address")) == "rm.example:8030"
    own = load_hadoop_conf(folder, env, resourcemanager=True)
    assert str(own.rm_address("yarn.resourcemanager.scheduler.address")) == "rm.example:18030"
    assert str(clients.address("yarn.nodemanager.address")) == "node7.example:45454"
    assert str(clients.address("yarn.nodemanager.webapp.address")) == "node7.example:8042"


def test_a_scheduler_that_counts_memory_alone_needs_a_vcore_for_each_container(advisor: Any) -> None:
    site = SITE | {"yarn.nodemanager.resource.memory-mb": "40960", "yarn.scheduler.minimum-allocation-mb": "2048"}
    vcores = "yarn.nodemanager.resource.cpu-vcores"
    assert recommended(advisor, site)["yarn-site"][vcores] == "20"
    calculator = {"yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.DominantResourceCalculator"}
    assert recommended(advisor, site, capacity_scheduler=calculator)["yarn-site"][vcores] == "9"
    site["yarn.resourcemanager.scheduler.class"] = "org.apache.hadoop.scheduler.fair.FairScheduler"
    assert recommended(advisor, site)["yarn-site"][vcores] == "9"


def test_the_advisor_moves_each_of_two_resourcemanagers(advisor: Any) -> None:
    site = {"yarn.resourcemanager.ha.rm-ids": "rm1, rm2", "yarn.resourcemanager.scheduler.address.rm1": "a:8035"}
    found = recommended(advisor, site)["yarn-site"]
    names = [name for name in found if name.startswith("yarn.resourcemanager.scheduler.address")]
    assert names == [f"yarn.resourcemanager.scheduler.address.{rm}" for rm in ("rm1", "rm2")]
    assert found["quicksilver.resourcemanager.scheduler.port"] == "8035"


def test_components_stand_beside_their_daemons(advisor: Any) -> None:
    hosts = {"a": [{"name": "RESOURCEMANAGER"}], "b": [{"name": "NODEMANAGER"}], "c": [{"name": "QUICKSILVER_SIDECAR"}]}
    advisor.colocateService(hosts, [])
    names = {host: [component["name"] for component in components] for host, components in hosts.items()}
    assert names == {
        "a": ["RESOURCEMANAGER", "QUICKSILVER_PROXY"],
        "b": ["NODEMANAGER", "QUICKSILVER_SIDECAR"],
        "c": [],
    }
    where = {
        "RESOURCEMANAGER": ["a"],
        "NODEMANAGER": ["b", "c"],
        "QUICKSILVER_PROXY": ["a"],
        "QUICKSILVER_SIDECAR": ["b"],
    }
    listed = [{"StackServiceComponents": {"component_name": name, "hostnames": on}} for name, on in where.items()]
    items = advisor.getServiceComponentLayoutValidations({"services": [{"components": listed}]}, {})
    assert [(item["level"], item["message"].rpartition(": ")[2]) for item in items] == [("ERROR", "c")]


def test_the_settings_that_ambari_writes_are_valid(service: Path, tmp_path: Path) -> None:
    entries = {
        e.findtext("name"): e.findtext("value")
        for e in ET.parse(service / "configuration/quicksilver-env.xml").iter("property")
    }
    text = Template(entries["content"] or "").render(hostname="a.example", rest_port=8390, vcores=8)
    (tmp_path / "quicksilver.yaml").write_text(text)
    read = read_settings(tmp_path / "quicksilver.yaml", {"proxy": ProxySettings, "sidecar": SidecarSettings})
    assert isinstance(read.policies, Policies)
    proxy, sidecar = read.sections["proxy"], read.sections["sidecar"]
    assert isinstance(proxy, ProxySettings) and str(proxy.rest_listen) == "a.example:8390"
    assert isinstance(sidecar, SidecarSettings) and sidecar.vcores == 8


class Agent(list[tuple[str, ...]]):
    """The modules of Ambari's agent, and what was done by them."""

    active = True

    def modules(self) -> dict[str, types.ModuleType]:
        found: dict[str, types.ModuleType] = {}

        def module(name: str, **values: object) -> None:
            found[name] = types.ModuleType(name)
            found[name].__dict__.update(values)

        class Script:
            @staticmethod
            def get_config() -> dict[str, Any]:
                own = {"rest_port": "8390", "vcores": "", "content": "{{hostname}}"}
                site = {"yarn.nodemanager.resource.cpu-vcores": "8"}
                return {"hostname": "a.example", "configurations": {"quicksilver-env": own, "yarn-site": site}}

            def install_packages(self, env: object) -> None:
                agent.append(("install_packages",))

        class StoppedError(Exception):
            pass

        agent = self
        env = types.SimpleNamespace(set_params=lambda params: None)
        self.env, self.stopped = env, StoppedError
        module("resource_management")
        module("resource_management.core")
        module("resource_management.core.exceptions", ComponentIsNotRunning=StoppedError)
        module(
            "resource_management.core.resources.system",
            Execute=lambda command, **_: agent.append(tuple(command)),
            File=lambda name, **_: agent.append(("File", name)),
        )
        module("resource_management.core.resources")
        module("resource_management.core.shell", call=lambda command, **_: (0 if agent.active else 3, ""))
        module("resource_management.core.source", InlineTemplate=str)
        module("resource_management.libraries")
        module("resource_management.libraries.script")
        module("resource_management.libraries.script.script", Script=Script)
        return found


def test_components_are_units_of_systemd(service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    for name, module in agent.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(service / "package/scripts"))
    for name in ("params", "daemon", "proxy", "sidecar", "service_check"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import proxy  # type: ignore[import-not-found]

    component = proxy.Proxy()
    component.install(agent.env)
    component.start(agent.env)
    settings = "/etc/quicksilver/quicksilver.yaml"
    assert agent == [
        ("install_packages",),
        ("File", f"{settings}.new.yaml"),
        ("/opt/quicksilver/bin/quicksilver", "policy", "check", f"{settings}.new.yaml"),
        ("mv", f"{settings}.new.yaml", settings),
        ("systemctl", "enable", "--now", "quicksilver-proxy.service"),
    ]
    component.status(agent.env)
    agent.active = False
    with pytest.raises(agent.stopped):
        component.status(agent.env)
    agent.clear()
    component.stop(agent.env)
    assert agent == [("systemctl", "disable", "--now", "quicksilver-proxy.service")]
    import service_check  # type: ignore[import-not-found]

    agent.clear()
    service_check.ServiceCheck().service_check(agent.env)
    assert agent == [("/opt/quicksilver/bin/quicksilver", "health")]
    for name in ("params", "daemon", "proxy", "sidecar", "service_check"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_the_properties_are_those_of_the_overlays() -> None:
    site = yarn()["site"]
    assert site["yarn.nodemanager.bind-host"] == "127.0.0.1"
    assert site["yarn.resourcemanager.opportunistic-container-allocation.nodes-used"] == "0"
