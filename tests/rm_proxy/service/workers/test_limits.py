"""Several workers refuse what looks at the whole cluster, and name the setting."""

from pathlib import Path

import pytest

from policies.config.policy_set import Policies
from quicksilver.common.errors import SettingsError
from quicksilver.common.http.security import OPEN
from rm_proxy.config import ProxySettings
from rm_proxy.service.workers.limits import check_workers, unfit_policies

TWO = ProxySettings(workers=2)


@pytest.mark.parametrize("preset", ["default", "mixed", "mercury", "kairos", "opportunistic", "stock"])
def test_these_presets_are_for_several_workers(preset: str) -> None:
    check_workers(TWO, Policies.load({"preset": preset}), OPEN)


@pytest.mark.parametrize(
    ("preset", "setting"), [("hawk", "probe"), ("eagle", "partition"), ("apollo", "correct"), ("zoe", "admit")]
)
def test_the_others_are_refused_with_the_slot(preset: str, setting: str) -> None:
    with pytest.raises(SettingsError, match=rf"policies\.{setting}: \w+ looks at the applications of all workers"):
        check_workers(TWO, Policies.load({"preset": preset}), OPEN)


@pytest.mark.parametrize("own_grants", [True, "ahead"])
def test_each_may_grant_by_itself(own_grants: bool | str) -> None:
    check_workers(TWO.model_copy(update={"own_grants": own_grants}), Policies.load({}), OPEN)


def test_shadow_is_refused() -> None:
    shadow = {"alternatives": {"fifo": {"order": {"policy": "fifo"}}}, "shadow": ["fifo"]}
    assert unfit_policies(Policies.load(shadow)) == ["policies.shadow compares decisions on the whole cluster"]


def test_a_number_of_workers_is_small(tmp_path: Path) -> None:
    assert ProxySettings().workers == 1
    with pytest.raises(ValueError, match="less than or equal to 16"):
        ProxySettings(workers=17)
