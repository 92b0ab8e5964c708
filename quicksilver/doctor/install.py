"""Quicksilver's properties put into an admin's site files, and taken out again so that not a byte is left of them.

Nothing of the admin's own is changed: what is added stands in one marked block at the end of a file, where it overrides
what was said before, as Hadoop reads it. A `<final>` cannot be overridden, so it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop import yarn_env
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from quicksilver.common.hadoop.xml import Property, read_properties
from quicksilver.doctor import shell_block
from quicksilver.doctor.collect import with_scheduler
from quicksilver.doctor.model import CLIENT, NM, RM, YARN_SITE, DoctorSettings, DoctorSite, Role
from quicksilver.doctor.node_size import ANY, VCORES, believed, beyond, needed_by_memory, needed_vcores, node_name
from quicksilver.doctor.site_edit import EMPTY, Layout, insert, layout, newline, property_xml

BEGIN: Final = "quicksilver install: begin"
END: Final = "quicksilver install: end"
_NEW: Final = "(new file)"
_ROLE: Final = re.compile(rf"role ({RM}|{NM}|{CLIENT})(?: with (\w+(?: and \w+)*))?")
EXTRAS: Final = ("sharing", "tracker", "nftables", "hadoop31", "own_grants")
_CAPACITY_FILE: Final = "capacity-scheduler.xml"
SITE_NAMES: Final = (YARN_SITE, _CAPACITY_FILE)
"""Site files that are ever written to; besides, yarn-env.sh."""
_SCHEDULER: Final = "yarn.resourcemanager.scheduler.address"
_SCHEDULER_PORT: Final = "quicksilver.resourcemanager.scheduler.port"
_RM_HOST: Final = "yarn.resourcemanager.hostname"
_NM_HOST: Final = "yarn.nodemanager.hostname"
_TRACKER: Final = "yarn.resourcemanager.resource-tracker.address"
_OWN_PORTS: Final = {
    "yarn.nodemanager.address": "quicksilver.nodemanager.port",
    "yarn.nodemanager.webapp.address": "quicksilver.nodemanager.webapp.port",
    "yarn.nodemanager.localizer.address": "quicksilver.nodemanager.localizer.port",
}


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """One file before and after; None: it is not there."""

    file: Path
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class WantedValue:
    """What a configuration directory gets: roles, each with extras of EXTRAS.

    host: the node's own name, where the files name none; shared: one directory is copied to all hosts, therefore
    the name comes from yarn-env.sh; managed: a manager writes the files, each node's own name and ports among them.
    """

    roles: Mapping[Role, Sequence[str]]
    host: str = ""
    shared: bool = False
    managed: bool = False

    @property
    def moves_by_option(self) -> bool:
        """Whether others than the ResourceManager read these files: then an option moves its scheduler alone."""
        return RM in self.roles and (self.shared or len(self.roles) > 1)

    @property
    def names_node(self) -> bool:
        """Whether yarn-env.sh gives the node's name."""
        return NM in self.roles and self.shared and not self.host

    def __str__(self) -> str:
        texts = [f"role {role}{_with(extras)}" for role, extras in self.roles.items()]
        return ", ".join([*texts, *(["shared"] if self.shared else [])])


def _with(extras: Sequence[str]) -> str:
    return f" with {' and '.join(extras)}" if extras else ""


def merged(directory: Path, roles: Sequence[Role], extras: Sequence[str], host: str, shared: bool) -> WantedValue:
    """Return what a directory gets with these roles in addition to those that are installed there."""
    before = installed(directory)
    both = {**before.roles, **{role: tuple(sorted(extras)) for role in roles}}
    ordered = {role: both[role] for role in (RM, NM, CLIENT) if role in both}
    return WantedValue(ordered, host or ("" if shared else before.host), shared or before.shared)


def installed(directory: Path) -> WantedValue:
    """Return what was installed in a directory, as the block's first line says it."""
    file = directory / YARN_SITE
    outline = layout(file.read_bytes(), file) if file.is_file() else Layout()
    begin = next((c.text for c in outline.comments if c.text.startswith(BEGIN)), "")
    first = begin.partition(";")[0]
    roles = {role: tuple(extras.split(" and ")) if extras else () for role, extras in _ROLE.findall(first)}
    named = outline.effective().get(_NM_HOST) if _NM_HOST in inside(outline) else None
    host = named.value if named and "${" not in named.value else ""
    return WantedValue(
        {role: roles[role] for role in (RM, NM, CLIENT) if role in roles}, host, first.endswith("shared")
    )


def install(
    directory: Path, plan: WantedValue, overlays: Path, settings: DoctorSettings | None = None
) -> list[PropertyChange]:
    """Return what installing changes in a configuration directory; an older installation is replaced.

    overlays: hadoop-conf/; settings: quicksilver.yaml, by which a node gets vcores for containers that share cores.
    Raises SettingsError naming the file and the property that prevent it.
    """
    bare = uninstall(directory)
    conf = _before(directory, bare)
    scheduler = DoctorSite(RM, "", with_scheduler(conf)).scheduler
    files: dict[str, dict[str, str]] = {}
    for role, extras in plan.roles.items():
        for name, properties in _overlay(overlays, role, extras, ha=conf.ha).items():
            if name == _CAPACITY_FILE and scheduler != "capacity":
                continue
            own = _fitted(properties, role, conf, plan) if name == YARN_SITE else properties
            files[name] = files.get(name, {}) | own
    if NM in plan.roles and settings is not None:
        files[YARN_SITE] |= _sized(conf, plan, settings)
    options: dict[str, str] = {}
    if plan.moves_by_option:
        options = {_SCHEDULER_PORT: files[YARN_SITE][_SCHEDULER_PORT]}
        files[YARN_SITE][_SCHEDULER_PORT] = str(_public_port(conf))
    changes = []
    for name, own in files.items():
        file = directory / name
        before, plain = _texts(file, bare)
        changes.append(PropertyChange(file, before, _with_block(plain, own, file, conf, str(plan))))
    env = directory / yarn_env.FILE
    before, plain = _texts(env, bare)
    changes.append(PropertyChange(env, before, shell_block.added(plain, yarn_env.lines(options, node=plan.names_node))))
    rest = [change for change in bare if change.file not in {change.file for change in changes}]
    return [change for change in [*rest, *changes] if change.before != change.after]


def _texts(file: Path, bare: Sequence[PropertyChange]) -> tuple[bytes | None, bytes | None]:
    """Return a file's text, and its text without what was installed."""
    before = file.read_bytes() if file.is_file() else None
    return before, next((change.after for change in bare if change.file == file), before)


def _public_port(conf: HadoopConf) -> int:
    """Return the port by which clients know the scheduler, with high availability of the first ResourceManager."""
    return conf.rm_address(_SCHEDULER, conf.rm_ids()[0] if conf.ha else None).port


def uninstall(directory: Path) -> list[PropertyChange]:
    """Return what uninstalling changes: files as they were before, those that were new gone.

    Raises SettingsError when a block has a beginning but no end.
    """
    changes = []
    for name in (*SITE_NAMES, yarn_env.FILE):
        file = directory / name
        if file.is_file():
            before = file.read_bytes()
            after = shell_block.removed(before, file) if name == yarn_env.FILE else without_block(before, file)
            if after != before:
                changes.append(PropertyChange(file, before, after))
    return changes


def _overlay(overlays: Path, role: Role, extras: Sequence[str], *, ha: bool) -> dict[str, dict[str, str]]:
    """Return the properties of hadoop-conf/ for a role, by file."""
    folders = [overlays / ("nftables" if role == NM and "nftables" in extras else role)]
    if role == NM:
        folders.append(overlays / CLIENT)  # application masters read the NodeManager's files
    if ha:
        folders.append(overlays / "ha" / (RM if role == RM else CLIENT))
    if "sharing" in extras:
        folders.append(overlays / "sharing" / role)
    if "tracker" in extras and role == NM:
        folders.append(overlays / "tracker")
    if "hadoop31" in extras:
        folders.append(overlays / "hadoop31" / role)
    if "own_grants" in extras:
        folders.append(overlays / "own_grants" / role)
    properties: dict[str, dict[str, str]] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.xml")):
            values = {prop.name: prop.value.strip() for prop in read_properties(file)}
            properties[file.name] = properties.get(file.name, {}) | values
    return properties


def bare_conf(directory: Path) -> HadoopConf:
    """Return a configuration directory as its admin wrote it: without what was installed."""
    return _before(directory, uninstall(directory))


def _sized(conf: HadoopConf, plan: WantedValue, settings: DoctorSettings) -> dict[str, str]:
    """Return the vcores that a NodeManager must be configured with; {} where its own are enough, or it detects them.

    What the ResourceManager plans by memory alone counts only where this is its directory, too: on a node
    capacity-scheduler.xml may be the one that came with Hadoop.
    """
    size, extra = believed(DoctorSite(NM, "", conf)), beyond(settings)
    if size is None:
        return {}
    vcores, memory_mb = size
    needed = 0 if extra is None else needed_vcores(settings.sidecar.vcores or vcores, extra, settings)
    if RM in plan.roles and "sharing" not in plan.roles[RM]:
        needed = max(needed, needed_by_memory(DoctorSite(RM, "", with_scheduler(conf)), memory_mb))
    return {VCORES: str(needed)} if needed > vcores else {}


def _before(directory: Path, bare: Sequence[PropertyChange]) -> HadoopConf:
    """Return the configuration without what was installed: of the admin's own properties each counts as it did."""
    conf = load_hadoop_conf(directory)
    own = dict(conf.properties)
    for change in bare:
        names = inside(layout(change.before or b"", change.file)) if change.file.suffix == ".xml" else set()
        for name in names:
            own.pop(name, None)
        if change.after is not None and change.file.suffix == ".xml":
            there = layout(change.after, change.file).effective()
            own |= {name: prop for name, prop in there.items() if name in names}
    return replace(conf, properties=own)


def inside(outline: Layout) -> set[str]:
    """Return the names in the block."""
    begin = next((c.start for c in outline.comments if c.text.startswith(BEGIN)), None)
    end = next((c.start for c in outline.comments if c.text.startswith(END)), None)
    if begin is None or end is None:
        return set()
    return {element.name for element in outline.elements if begin < element.start < end}


def _fitted(properties: Mapping[str, str], role: Role, conf: HadoopConf, plan: WantedValue) -> dict[str, str]:
    """Return the overlay's properties as this configuration needs them."""
    own = dict(properties)
    if role == RM:
        return _moved(own, conf)
    if role != NM:
        return own
    if plan.managed:
        own = _without_own_addresses(own, conf)
    for address, port in _OWN_PORTS.items():
        fixed = _fixed_port(conf, address)
        if fixed and port in own:
            own[port] = str(fixed)  # what others know already stays
    named = plan.managed and not any(_NM_HOST in value for value in own.values())
    if not named and (conf.text(_NM_HOST) or "") in ANY:
        host = f"${{env.{yarn_env.NODE}:-0.0.0.0}}" if plan.names_node else plan.host or node_name(conf)
        if not host:
            raise SettingsError(
                "names no host, and others must reach the node by it",
                place=conf.place(_NM_HOST),
                remedy="set it to the node's own name, or give --host; --shared if all hosts have the same file",
            )
        own = {_NM_HOST: host} | own
    if _TRACKER in own and conf.ha:
        raise SettingsError(
            "there are several ResourceManagers",
            place=conf.place("yarn.resourcemanager.ha.rm-ids"),
            remedy="write one resource-tracker.address for each id by hand (docs/tracker.md)",
        )
    return own


def _without_own_addresses(own: Mapping[str, str], conf: HadoopConf) -> dict[str, str]:
    """Return properties without those by which others reach the node, where the manager's files name host and port.

    A safety valve is one for all nodes, so it must not name any of them.
    """
    addresses = [name for name in _OWN_PORTS if f"${{{_NM_HOST}}}" in own.get(name, "")]
    there = {name for name in addresses if _fixed_port(conf, name) and conf.address(name).host not in ANY}
    there |= {_OWN_PORTS[name] for name in there}
    return {name: value for name, value in own.items() if name not in there}


def _fixed_port(conf: HadoopConf, name: str) -> int:
    """Return the port that the admin's own files give an address, 0 for none."""
    if name not in conf.properties:
        return 0
    try:
        return conf.address(name).port
    except SettingsError:
        return 0


def _moved(own: dict[str, str], conf: HadoopConf) -> dict[str, str]:
    """Return the ResourceManager's properties with its scheduler moved, with high availability for each id."""
    ids = conf.rm_ids() if conf.ha else []
    if _SCHEDULER_PORT in conf.properties:
        own[_SCHEDULER_PORT] = conf.text(_SCHEDULER_PORT) or own[_SCHEDULER_PORT]
    for example in [name for name in own if name.startswith(f"{_SCHEDULER}.")]:
        del own[example]  # the overlay's ids are examples
    for rm_id in ids:
        own[f"{_SCHEDULER}.{rm_id}"] = f"{_host(conf, rm_id)}:${{{_SCHEDULER_PORT}}}"
    if ids:
        del own[_SCHEDULER]
        return own
    own[_SCHEDULER] = f"{_host(conf, None)}:${{{_SCHEDULER_PORT}}}"
    public = conf.rm_address(_SCHEDULER)
    if public.port == int(own[_SCHEDULER_PORT]):
        raise SettingsError(
            f"the scheduler is at port {public.port} already",
            place=conf.place(_SCHEDULER),
            remedy="give the proxy's port to clients, and another one to the ResourceManager's own files",
        )
    return own


def _host(conf: HadoopConf, rm_id: str | None) -> str:
    """Return a ResourceManager's host: the host name's property, otherwise the host of its scheduler."""
    name = f"{_RM_HOST}.{rm_id}" if rm_id else _RM_HOST
    if (conf.text(name) or "") not in ANY:
        return f"${{{name}}}"
    try:
        address = conf.rm_address(_SCHEDULER, rm_id)
    except SettingsError:
        address = Address("", 0)
    if address.host in ANY:
        raise SettingsError(f"{name} names no host", place=str(conf.directory / YARN_SITE), remedy="set it")
    return address.host


def _with_block(plain: bytes | None, own: Mapping[str, str], file: Path, conf: HadoopConf, title: str) -> bytes | None:
    """Return a file with those of our properties that it does not have yet."""
    text = EMPTY if plain is None else plain
    outline = layout(text, file)
    there = outline.effective()
    additions = {name: value for name, value in own.items() if _value_now(conf, there, name) != value}
    for name in additions:
        before = conf.finals.get(name) or outline.finals().get(name)
        if before is not None:
            raise SettingsError(
                f"{name} is final with the value {before.value.strip()}",
                place=f"{before.file}:{before.line}",
                remedy=f"take <final> out there, or set {additions[name]} there yourself",
            )
    if not additions:
        return plain
    changed = insert(text, _block(additions, there, title, new=plain is None), file)
    after = layout(changed, file).values()
    if after != outline.values() | additions or without_block(changed, file, keep=True) != (text):
        raise SettingsError("could not be changed as text", place=str(file), remedy="merge hadoop-conf/ by hand")
    return changed


def _value_now(conf: HadoopConf, there: Mapping[str, Property], name: str) -> str | None:
    """Return the present values, without substitution; a capacity-scheduler.xml is no part of `conf`."""
    entry = conf.properties.get(name) or there.get(name)
    return entry.value.strip() if entry else None


def _block(additions: Mapping[str, str], there: Mapping[str, Property], title: str, *, new: bool) -> str:
    start = f"{BEGIN}{' ' + _NEW if new else ''} {title}"
    mark = f"  <!-- {start}; `quicksilver uninstall` takes all out until the end below -->"
    return "\n".join([mark, *_overridden(additions, there), property_xml(additions), f"  <!-- {END} -->"])


def _overridden(additions: Mapping[str, str], there: Mapping[str, Property]) -> Iterator[str]:
    for name in additions:
        before = there.get(name)
        if before is not None:
            value = before.value.strip().replace("--", "- -").rstrip("-")
            yield f"  <!-- overrides {name}: {value} -->"


def _span(outline: Layout, file: Path) -> tuple[int, int]:
    """Return where the comments of the block's beginning and end begin; (-1, -1) without a block."""
    begins = [comment.start for comment in outline.comments if comment.text.startswith(BEGIN)]
    ends = [comment.start for comment in outline.comments if comment.text.startswith(END)]
    if not begins and not ends:
        return -1, -1
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise SettingsError(
            "has a part of what quicksilver installed, but not its beginning and end",
            place=str(file),
            remedy=f"take the comments `{BEGIN}` and `{END}` and what is between out by hand",
        )
    return begins[0], ends[0]


def without_block(text: bytes, file: Path, *, keep: bool = False) -> bytes | None:
    """Return a file without the block, as it was before; None when it was made for the block (unless `keep`)."""
    begin, end = _span(layout(text, file), file)
    if begin < 0:
        return text
    new = text[begin : text.index(b"-->", begin)].find(_NEW.encode()) >= 0
    start = begin - 2 if text[begin - 2 : begin] == b"  " else begin  # the block's own indent
    stop = text.index(b"-->", end) + 3
    following = newline(text)
    if text.startswith(following, stop):
        stop += len(following)
    rest = text[:start] + text[stop:]
    return None if new and not keep and rest == EMPTY else rest
