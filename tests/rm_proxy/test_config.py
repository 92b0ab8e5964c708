from pathlib import Path

import pytest
from pydantic import ValidationError

from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from rm_proxy import config
from rm_proxy.config import ProxySettings
from rm_proxy.service.server import limits_of
from tests.paths import DOCS


def site(directory: Path, **properties: str) -> HadoopConf:
    directory.mkdir(exist_ok=True)
    names = {name: name.replace("bind_", "bind-").replace("_", ".") for name in properties}
    rows = "".join(
        f"<property><name>yarn.resourcemanager.{names[k]}</name><value>{v}</value></property>"
        for k, v in properties.items()
    )
    (directory / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    return load_hadoop_conf(directory, {})


def test_all_that_is_needed_is_where_the_scheduler_went(tmp_path: Path) -> None:
    conf = site(tmp_path, hostname="rm")
    settings = ProxySettings.model_validate({"upstream": "rm:18030", "store_url": "sqlite:////x.db"})
    endpoints = settings.endpoints(conf)
    assert (endpoints.listen, endpoints.upstream) == (Address("rm", 8030), Address("rm", 18030))
    assert (endpoints.rm_web, endpoints.rest_listen) == ("http://rm:8088", Address("127.0.0.1", 8390))
    assert endpoints.store_url == "sqlite:////x.db"


def test_the_resource_managers_own_configuration_tells_it_too(tmp_path: Path) -> None:
    site(tmp_path / "rm", scheduler_address="0.0.0.0:18030")
    conf = site(tmp_path / "clients", hostname="rm")
    endpoints = ProxySettings(rm_conf_dir=tmp_path / "rm").endpoints(conf)
    assert endpoints.upstream == Address("127.0.0.1", 18030)


def test_the_proxy_binds_where_the_resource_manager_does(tmp_path: Path) -> None:
    site(tmp_path / "rm", hostname="rm", bind_host="0.0.0.0", scheduler_address="rm:18030")
    conf = site(tmp_path / "clients", hostname="rm")
    endpoints = ProxySettings(rm_conf_dir=tmp_path / "rm").endpoints(conf)
    assert (endpoints.listen, endpoints.bound) == (Address("rm", 8030), Address("0.0.0.0", 8030))
    assert endpoints.upstream == Address("rm", 18030)
    assert endpoints.journal.name == "attempts-rm-8030.journal"
    fixed = ProxySettings.model_validate({"rm_conf_dir": tmp_path / "rm", "listen": "rm:8030"}).endpoints(conf)
    assert fixed.bound == Address("rm", 8030)
    plain = ProxySettings.model_validate({"upstream": "rm:18030"}).endpoints(conf)
    assert plain.bound == plain.listen


def test_a_keytab_is_looked_at_before_anything_starts(tmp_path: Path) -> None:
    assert ProxySettings().keytab() is None
    with pytest.raises(SettingsError, match=r"proxy\.kerberos_keytab: .*is not there"):
        ProxySettings(kerberos_principal="a@B", kerberos_keytab=tmp_path / "none").keytab()


def test_without_it_the_error_names_setting_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"proxy\.upstream: not set, .*; name the address to which"):
        ProxySettings().endpoints(site(tmp_path))


def test_relaying_to_itself_is_refused(tmp_path: Path) -> None:
    conf = site(tmp_path, scheduler_address="0.0.0.0:8030")
    with pytest.raises(SettingsError, match=r"would relay to itself: 127\.0\.0\.1:8030"):
        ProxySettings.model_validate({"upstream": "127.0.0.1:8030"}).endpoints(conf)


def test_high_availability_takes_rm_id(tmp_path: Path) -> None:
    names = {"ha.enabled": "true", "ha.rm-ids": "a,b", "hostname.a": "one", "hostname.b": "two"}
    rows = "".join(
        f"<property><name>yarn.resourcemanager.{k}</name><value>{v}</value></property>" for k, v in names.items()
    )
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    conf = load_hadoop_conf(tmp_path, {})
    endpoints = ProxySettings.model_validate({"rm_id": "b", "upstream": "two:18030"}).endpoints(conf)
    assert (endpoints.listen, endpoints.rm_web) == (Address("two", 8030), "http://two:8088")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"listen": "host"}, "'host' is not an address; write it as host:port"),
        ({"round_s": 0}, "greater than 0"),
        ({"rest_listen": 8390}, "Input should be"),
        ({"upstraem": "a:1"}, "Extra inputs are not permitted"),
        ({"max_frame_mb": 4096}, "less than or equal to 1024"),
    ],
)
def test_wrong_settings(values: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match="1 validation error") as caught:
        ProxySettings.model_validate(values)
    assert text in str(caught.value)


def test_settings_survive_json() -> None:
    settings = ProxySettings.model_validate({"listen": "rm:8030", "upstream": "rm:18030"})
    assert ProxySettings.model_validate_json(settings.model_dump_json()) == settings


def test_the_default_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    system = tmp_path / "system"
    stores = (system / "proxy" / "proxy.db", system / "proxy.db")
    monkeypatch.setattr(config, "_SYSTEM_STORES", stores)
    assert config.default_store_url() == f"sqlite:///{tmp_path / 'quicksilver.db'}"
    system.mkdir()
    assert config.default_store_url() == f"sqlite:///{stores[1]}"
    (system / "proxy").mkdir()
    assert config.default_store_url() == f"sqlite:///{stores[0]}"


def test_every_setting_is_in_the_docs() -> None:
    page = (DOCS / "settings.md").read_text().partition("\n## Section `proxy`\n")[2].partition("\n## ")[0]
    assert [name for name in ProxySettings.model_fields if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(
    ("value", "grants", "early"), [(False, False, False), (True, True, False), ("ahead", True, True)]
)
def test_own_grants_are_off_on_or_ahead_of_the_resource_manager(
    tmp_path: Path, value: bool | str, grants: bool, early: bool
) -> None:
    settings = ProxySettings.model_validate({"own_grants": value})
    limits = limits_of(settings, site(tmp_path, hostname="rm"))
    assert (limits.own_grants, limits.early_answers) == (grants, early)
    with pytest.raises(ValidationError):
        ProxySettings.model_validate({"own_grants": "behind"})
