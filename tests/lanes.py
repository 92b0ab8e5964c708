"""Which process of scripts/test runs which tests side by side, and in which order.

Modules of a lane run one after the other in one process, so two lanes are two clusters at a time, and a cluster that
modules share is started once. Lanes come first; the other modules fill what is left, long ones before others.
pytest-xdist has groups for this (`--dist loadgroup`), which do nothing under pytest 9.2 (pytest-xdist 3.8, issue 1386).
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

LANES: Final = (
    (
        "tests/real/test_node_and_am_failures.py",
        "tests/real/test_failover.py",
        "tests/real/test_kerberos.py",
        "tests/real/sidecar/test_tracker_kerberos.py",
        "tests/real/test_nftables.py",
        "tests/real/deploy/test_documented_steps.py",
        "tests/real/bench/test_emulated_nodes.py",
        "tests/hadoop_rpc/test_real_rm.py",
        "tests/real/packages/test_clean_roots.py",
        "tests/real/packages/test_shared_site.py",
        "tests/real/packages/test_systemd.py",
        "tests/real/applications/test_secure.py",
        "tests/real/test_cluster.py",  # from here on: hadoop_cluster
        "tests/real/applications/test_commands.py",
        "tests/real/applications/test_examples.py",
        "tests/real/ui/test_app_server.py",
        "tests/real/test_workloads.py",
        "tests/real/ui/test_jobs_pages.py",
        "tests/real/test_bypass.py",
        "tests/real/test_doctor.py",
        "tests/real/ui/test_dashboard.py",
        "tests/real/test_jobs.py",
        "tests/real/test_monitoring.py",
        "tests/real/test_proxy_restart.py",
        "tests/real/test_secure_rest.py",
    ),
    (
        "tests/real/deploy/test_ansible.py",
        "tests/real/sidecar/test_tracker.py",
        "tests/real/sidecar/test_full_node.py",
        "tests/real/sidecar/test_nodemanager.py",
        "tests/real/test_rm_restart.py",
        "tests/real/bench/test_emulated_masters.py",
        "tests/real/bench/test_las.py",
        "tests/real/bench/test_las_quicksilver.py",
        "tests/real/bench/test_policies.py",
        "tests/real/applications/test_master.py",
        "tests/real/applications/test_master_proxy.py",
        "tests/real/test_policies.py",  # three_nodes
        "tests/real/policies/test_admission.py",
        "tests/real/policies/test_short_jobs.py",
        "tests/real/policies/test_orders_and_quotas.py",
        "tests/real/policies/test_probes.py",
        "tests/real/policies/test_preempt.py",
        "tests/real/policies/test_limits.py",
        "tests/real/policies/test_dispatch.py",
        "tests/real/policies/test_matching.py",
        "tests/real/policies/test_stragglers.py",
        "tests/real/policies/test_tokens.py",
        "tests/real/policies/test_execution_types.py",
        "tests/real/test_long_poll.py",
        "tests/real/test_promotion.py",
        "tests/real/test_sidecar_restart.py",  # one_node
    ),
)
"""Modules with a cluster, about as much in each lane; those with a cluster of the session, which stays, at the end."""
TOGETHER: Final = {
    "docker": (
        "tests/sidecar/resizer/test_docker.py",
        "tests/sidecar/resizer/test_docker_faults.py",
        "tests/sidecar/resizer/test_composite.py",
        "tests/quicksilver/workloads/test_dockerd.py",
        "tests/quicksilver/workloads/containers/test_images.py",
        "tests/quicksilver/workloads/containers/test_demo.py",
    ),
    "cgroup": (
        "tests/sidecar/resizer/test_cgroup1.py",
        "tests/sidecar/resizer/test_probe.py",
        "tests/sidecar/resizer/test_real_cgroup2.py",
        "tests/sidecar/memory/test_cgroup_fence.py",
        "tests/sidecar/service/test_guardian.py",
        "tests/sidecar/service/test_monitor_fence.py",
    ),
}
"""Modules that one process runs: they share a Docker daemon, or look at all control groups."""
LONG: Final = (
    "tests/vm/test_cgroup2.py",
    "tests/quicksilver/bench/test_policies_virtual.py",
    "tests/model/test_whole.py",
    "tests/model/test_restarts.py",
    "tests/rm_proxy/store/test_outages.py",
    "tests/quicksilver/simulator/test_report.py",
    "tests/quicksilver/doctor/test_broken_copies.py",
)
_PLACES: Final = (
    {module: (f"lane {lane}", place) for lane, modules in enumerate(LANES) for place, module in enumerate(modules)}
    | {module: (name, place) for name, modules in TOGETHER.items() for place, module in enumerate(modules)}
    | {module: (module, 0) for module in LONG}
)
_ORDER: Final = list(dict.fromkeys(group for group, _ in _PLACES.values()))


def group_of(nodeid: str) -> str:
    """Return the name of what one process runs as a whole: a lane, modules that belong together, or the module."""
    module = nodeid.split("::")[0]
    if module in _PLACES:
        return _PLACES[module][0]
    return f"lane {len(LANES) - 1}" if module.startswith("tests/real/") else module


def sort(items: list[pytest.Item]) -> None:
    """Put lanes first, then what takes long; other modules stay as they are."""

    def rank(item: pytest.Item) -> tuple[int, int, int]:
        group, place = group_of(item.nodeid), _PLACES.get(item.nodeid.split("::")[0], ("", 0))[1]
        return _ORDER.index(group) if group in _ORDER else len(_ORDER), _step(item), place

    items.sort(key=rank)


def _step(item: pytest.Item) -> int:
    """Return when a test of a lane comes: those of `hadoop_cluster` last, plain ones first; so it is restarted once."""
    fixtures = getattr(item, "fixturenames", ())
    steps = {"overlay_cluster": 3, "plain_cluster": 1, "hadoop_cluster": 2}
    return next((step for name, step in steps.items() if name in fixtures), 0)


class Scheduler(LoadScopeScheduling):
    """Gives each process a group at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
