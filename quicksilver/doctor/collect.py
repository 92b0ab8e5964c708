"""Reads quicksilver.yaml and the site files of clients, ResourceManager and NodeManagers."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from policies.config.notes import notes
from policies.config.unintended import unintended
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from quicksilver.common.hadoop.managed import process_dir
from quicksilver.common.hadoop.xml import Property
from quicksilver.common.http.security import SecuritySettings
from quicksilver.common.settings.settings_file import SettingsFileError, find_settings, load_settings, read_settings
from quicksilver.doctor.model import CLIENT, NM, RM, DoctorSettings, DoctorSite, Facts, Role, Unchecked
from quicksilver.doctor.node_size import node_name
from quicksilver.doctor.queue_names import STORE, kept_elsewhere
from quicksilver.doctor.spelling import known_names
from rm_proxy.config import ProxySettings
from sidecar.config import SidecarSettings
from sidecar.tracker.config import TrackerSettings

SCHEDULER_FILES: Final = ("capacity-scheduler.xml",)
"""What the ResourceManager reads besides, each beside its yarn-site.xml."""


@dataclass(frozen=True, slots=True)
class CollectPlaces:
    """The places of all files. None: the default place, or not given."""

    config: Path | None = None
    conf_dir: Path | None = None
    rm_conf_dirs: tuple[Path, ...] = ()
    nm_conf_dirs: tuple[Path, ...] = ()
    node: bool = False
    """Whether this machine is a node, and its configuration directory the NodeManager's."""


def read_files(where: CollectPlaces) -> Facts:
    """Return the facts from files.

    Raises SettingsError when a directory that was named has no site files, or one of them is no XML.
    """
    settings = read_quicksilver_yaml(where.config)
    conf_dir = where.conf_dir or _named_dir(where.config)
    client = _site(CLIENT, load_hadoop_conf(conf_dir), "clients")
    named = settings.proxy.rm_conf_dir
    rm_dir = named or process_dir(RM)
    rms = tuple(rm for folder in where.rm_conf_dirs or ((rm_dir,) if rm_dir else ()) for rm in _rms(folder))
    nm_dirs = where.nm_conf_dirs or (
        (where.conf_dir or process_dir(NM) or client.conf.directory,) if where.node else ()
    )
    nms = tuple(_nm(directory) for directory in nm_dirs)
    unchecked = _not_given(rms, nms)
    if settings.path is None:
        unchecked.insert(0, Unchecked("quicksilver.yaml", "there is none, so defaults are taken", "name it: --config"))
    unchecked += [
        Unchecked(
            f"the scheduler's configuration ({rm.host})",
            f"{STORE}={rm.text(STORE)} keeps it in a store, so capacity-scheduler.xml is not in force",
            "leave --offline out: the ResourceManager is asked for its queues",
        )
        for rm in rms
        if kept_elsewhere(rm)
    ]
    return Facts(settings, client, rms, nms, names=known_names(), unchecked=tuple(unchecked))


def _not_given(rms: Sequence[DoctorSite], nms: Sequence[DoctorSite]) -> list[Unchecked]:
    missing = []
    if not rms:
        missing.append(
            Unchecked("the ResourceManager's files", "--rm-conf-dir is not given", "name its configuration directory")
        )
    if not nms:
        missing.append(
            Unchecked("NodeManagers' files", "--nm-conf-dir is not given", "name one, or run --node on the nodes")
        )
    return missing


def _named_dir(config: Path | None) -> Path | None:
    try:
        return load_settings(config).hadoop_conf_dir
    except SettingsFileError:
        return None  # reported as a finding


def read_quicksilver_yaml(config: Path | None) -> DoctorSettings:
    """Return quicksilver.yaml, the given one or that of all commands; with its mistakes where it has some."""
    models: dict[str, type[BaseModel]] = {
        "proxy": ProxySettings,
        "sidecar": SidecarSettings,
        "tracker": TrackerSettings,
        "security": SecuritySettings,
    }
    try:
        read, file = read_settings(config, models), load_settings(config)
    except SettingsFileError as error:
        return DoctorSettings(config or find_settings(), tuple(error.lines))
    proxy, sidecar, tracker, security = (read.sections[name] for name in models)
    assert isinstance(proxy, ProxySettings) and isinstance(sidecar, SidecarSettings)
    assert isinstance(tracker, TrackerSettings) and isinstance(security, SecuritySettings)
    return DoctorSettings(
        path=read.path,
        notes=(*notes(read.policies), *map(str, unintended(file.data.get("policies") or {}, ("policies",)))),
        proxy=proxy,
        sidecar=sidecar,
        tracker=tracker,
        tracked=file.data.get("tracker") is not None,
        proxied=file.data.get("proxy") is not None,
        security=security,
        policies=read.policies,
    )


def scheduler_site(directory: Path) -> DoctorSite:
    """Return the ResourceManager's configuration with the files of its scheduler, whichever its id is."""
    return _site(RM, with_scheduler(load_hadoop_conf(directory, resourcemanager=True)), "ResourceManager")


def with_scheduler(conf: HadoopConf) -> HadoopConf:
    """Return a configuration with the scheduler's properties, which are in files of their own."""
    for name in SCHEDULER_FILES:
        conf = conf.with_file(conf.directory / name)
    return conf


def _rms(directory: Path) -> tuple[DoctorSite, ...]:
    """Return the ResourceManager's configuration; with high availability its id's, or one for each if it says none."""
    conf = with_scheduler(load_hadoop_conf(directory, resourcemanager=True))
    if not conf.ha:
        return (_site(RM, conf, "ResourceManager"),)
    own = conf.rm_id()
    ids = [own] if own else conf.rm_ids()
    return tuple(replace(_site(RM, conf, f"ResourceManager {rm_id}"), ha_id=rm_id) for rm_id in ids)


def _nm(directory: Path) -> DoctorSite:
    """Return a NodeManager's configuration; its host is the one under which it would register, or this machine."""
    conf = load_hadoop_conf(directory)
    return _site(NM, conf, node_name(conf) or socket.getfqdn())


def _site(role: Role, conf: HadoopConf, host: str) -> DoctorSite:
    return DoctorSite(role, host, conf)


def from_daemon(role: Role, host: str, url: str, conf: Mapping[str, str], ha_id: str | None = None) -> DoctorSite:
    """Return the configuration that a running daemon reports, where its files cannot be read."""
    source = Path(url)
    properties = {name: Property(name, value, False, source, 0) for name, value in conf.items()}
    return DoctorSite(role, host, HadoopConf(source, properties, dict(os.environ)), url, ha_id)
