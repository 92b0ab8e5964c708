"""Prepares a sidecar's start: restores limits of an earlier one, and chooses the resizer of this node."""

from __future__ import annotations

from policies.config.policy_set import Policies
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.common.process.logs import get_logger
from sidecar.config import Place, SidecarSettings
from sidecar.resizer.probe import Chosen, ProbeSqueeze, choose, groups_to_clean
from sidecar.service.resizing.stale_limits import await_guardians, clean

log = get_logger(__name__)


def choose_resizer(settings: SidecarSettings, place: Place, policies: Policies, conf: HadoopConf) -> Chosen:
    """Return the resizer for this node's containers; none where the preempt policy does not shrink.

    Raises SettingsError when the resizer that was named does not work, SidecarAliveError when the group is taken.
    """
    if policies.node.shrinking() is None:
        return Chosen(None)
    clean_up(settings, place, conf)
    choice = choose(
        settings.resizer,
        parent=place.group(settings.cgroup),
        conf=conf,
        docker_url=settings.docker_url,
        squeeze=ProbeSqueeze(settings.shrunk_high_ratio, settings.shrunk_reclaim_ratio),
    )
    if choice.resizer is None and settings.resizer not in ("auto", "none"):
        raise SettingsError(
            f"it does not work here: {'; '.join(choice.why_not.values())}",
            place="sidecar.resizer",
            remedy="set auto, mend that, or choose another preempt policy",
        )
    if choice.resizer is None:
        log.warning("nothing can be shrunk here: containers beyond the node's vcores wait", why=choice.why_not)
    else:
        log.info(
            "containers are resized", resizer=choice.resizer.name, not_taken=choice.why_not, awaits=choice.missing()
        )
    return choice


def clean_up(settings: SidecarSettings, place: Place, conf: HadoopConf) -> list[str]:
    """Restore limits that an earlier sidecar of this node left; return the containers. Raises SidecarAliveError."""
    group = place.group(settings.cgroup)
    await_guardians(group)
    cleaned = clean(group, groups_to_clean(conf))
    if cleaned.containers:
        log.warning(
            "an earlier sidecar left containers shrunk: they have full limits again", containers=cleaned.containers
        )
    for why in cleaned.refused:
        log.warning("limits left by an earlier sidecar could not be restored", why=why)
    return list(cleaned.containers)
