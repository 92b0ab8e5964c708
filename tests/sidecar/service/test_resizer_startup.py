"""What the settings of a sidecar say of shrunk containers reaches the resizer that is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policies.config.policy_set import Policies
from quicksilver.common.hadoop.conf import load_hadoop_conf
from sidecar.config import SidecarSettings
from sidecar.resizer.probe import Chosen, ProbeSqueeze
from sidecar.service.resizing import resizer_startup


class Somewhere:
    """The part of a sidecar's place that names its control group."""

    def group(self, parent: str) -> str:
        return f"{parent}/node1"


def test_memory_of_shrunk_containers_is_squeezed_as_the_settings_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {}

    def choose(mechanism: str, **more: Any) -> Chosen:
        asked.update(more, mechanism=mechanism)
        return Chosen(None, {"cgroup2": "not here"})

    monkeypatch.setattr(resizer_startup, "choose", choose)
    monkeypatch.setattr(resizer_startup, "clean_up", lambda settings, place, conf: [])
    settings = SidecarSettings(shrunk_high_ratio=0.5, shrunk_reclaim_ratio=0.25)
    las = Policies.load({"preempt": {"policy": "las"}})
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    conf = load_hadoop_conf(tmp_path, {})
    resizer_startup.choose_resizer(settings, Somewhere(), las, conf)  # type: ignore[arg-type]
    assert (asked["squeeze"], asked["mechanism"]) == (ProbeSqueeze(0.5, 0.25), "auto")
    assert asked["parent"] == "quicksilver/node1"
