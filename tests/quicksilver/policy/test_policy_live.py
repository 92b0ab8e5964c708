"""`quicksilver policy reload|history|compare` against a proxy that is none."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from quicksilver.cli import cli
from quicksilver.common.messages import NodeReload, ReloadAnswer, SettingChange
from rm_proxy.views.cluster_models import ListPage
from rm_proxy.views.service_models import ChangeInfo, ComparisonInfo, Difference
from tests.answers import answering

FINE = ReloadAnswer(
    file="/etc/quicksilver/quicksilver.yaml",
    version="4-a",
    before="3-b",
    changes=[SettingChange(path="policies.place.settings.k", before="50", after="")],
    kept=["proxy.round_s changed in the file: needs a restart, the old value stays"],
    notes=["alternative x is used nowhere"],
)
FOLLOWED = NodeReload(node_id="n1:1", ok=True, version="2-a")
SILENT = NodeReload(node_id="n2:1", ok=False, error="connection refused")
CHANGES = [
    ChangeInfo(
        id="1",
        at_s=1.0,
        who="ann@::1",
        how="command",
        ok=True,
        path="policies.mode",
        before='"a"',
        after='"b"',
        error="",
    ),
    ChangeInfo(id="0", at_s=0.5, who="uid 0", how="sighup", ok=False, path="", before="", after="", error="f:1:1: no"),
]
COMPARED = ComparisonInfo(
    alternative="wide",
    slot="place",
    policy="random",
    active="topk_wait",
    since_s=1.0,
    decisions=4,
    differ=1,
    differ_percent=25.0,
    wait_less_s=-0.5,
    faults=0,
    left_out=2,
    examples=[Difference(at_s=1.0, app_id="application_1_1", chosen="n1:1", other="n2:1", reason="random: one of 2")],
)


class Proxy:
    """Answers a reload by `reload`; keeps what it was asked."""

    def __init__(self) -> None:
        self.status, self.reload = 200, FINE.model_dump_json()
        self.asked: list[Any] = []
        self.url = ""


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    answers = {
        "/v1/policies/changes": ListPage[ChangeInfo](items=CHANGES, offset=0, more=False).model_dump_json(),
        "/v1/policies/compare": f"[{COMPARED.model_dump_json()}]",
    }

    def answer(method: str, target: str, body: bytes) -> tuple[int, str]:
        if method == "GET":
            return 200, answers[urlsplit(target).path]
        made.asked.append((target, json.loads(body)))
        return made.status, made.reload

    with answering(answer) as made.url:
        yield made


def call(proxy: Proxy, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["policy", *arguments, "--url", proxy.url], prog_name="quicksilver")


def test_a_reload_tells_what_changed_and_what_stays(proxy: Proxy) -> None:
    result = call(proxy, "reload", "--file", "night.yaml")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "/etc/quicksilver/quicksilver.yaml: version 4-a (was 3-b)",
        "  policies.place.settings.k: 50 -> not set",
        "  kept: proxy.round_s changed in the file: needs a restart, the old value stays",
        "  note: alternative x is used nowhere",
    ]
    ((path, body),) = proxy.asked
    assert path == "/v1/policies/reload" and body["who"] and body["command"]
    assert (body["file"], body["nodes"]) == ("night.yaml", False)
    assert ReloadAnswer.model_validate_json(call(proxy, "reload", "--json").output) == FINE


def test_a_sidecar_that_does_not_follow_is_exit_code_1(proxy: Proxy) -> None:
    proxy.reload = FINE.model_copy(update={"nodes": [FOLLOWED]}).model_dump_json()
    assert call(proxy, "reload", "--nodes").exit_code == 0
    proxy.reload = FINE.model_copy(update={"nodes": [FOLLOWED, SILENT]}).model_dump_json()
    result = call(proxy, "reload", "--nodes")
    assert result.exit_code == 1
    assert result.output.splitlines()[-2:] == ["n1:1: version 2-a, 0 changes", "n2:1: FAILED: connection refused"]


def test_all_mistakes_are_printed_a_line_each(proxy: Proxy) -> None:
    proxy.status = 422
    proxy.reload = json.dumps({"error": {"code": "settings-refused", "message": "f:1:2: no\nf:3:4: nor this"}})
    result = call(proxy, "reload")
    assert result.exit_code == 1
    lines = [line.removeprefix("quicksilver: error: ") for line in result.stderr.splitlines()]
    assert lines == ["f:1:2: no", "f:3:4: nor this", "nothing changed"]


def test_another_refusal_is_told_with_its_place(proxy: Proxy) -> None:
    proxy.status, proxy.reload = 500, json.dumps({"error": {"code": "internal", "message": "oh"}})
    result = call(proxy, "reload")
    assert result.exit_code == 1 and f"{proxy.url}/v1/policies/reload: oh" in result.stderr


def test_history_and_comparison(proxy: Proxy) -> None:
    history = call(proxy, "history").output
    for text in ("1970-01-01 00:00:01Z", "ann@::1", "policies.mode", "sighup, refused", "f:1:1: no"):
        assert text in history
    assert json.loads(call(proxy, "history", "--json").output)[0]["path"] == "policies.mode"
    compared = call(proxy, "compare").output
    for text in ("wide", "topk_wait", "25.0", "-0.500", "n2:1", "random: one of 2"):
        assert text in compared
    assert json.loads(call(proxy, "compare", "--json").output)[0]["differ"] == 1
