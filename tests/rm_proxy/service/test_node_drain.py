"""An admin empties a node by hand."""

from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from quicksilver.cli import cli
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.messages import Draining
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.service.node_drain import NodeDrain
from tests.rm_proxy.api.test_app import State, client, state
from tests.rm_proxy.service.test_reload import sidecar
from tests.rm_proxy.yarn_messages import coordinator, node_id, report

__all__ = ["client", "state"]
ON = Draining(on=True, reason="disks are changed")


def drain(world: Coordinator, node: str, wanted: Draining = ON) -> None:
    asyncio.run(NodeDrain(world, None).drain(node, wanted, "ann@::1"))


def test_the_sidecar_is_told() -> None:
    world = coordinator(nodes=1)
    with sidecar(204, b"") as (url, asked):
        world.reports.report(node_id(1), report(1, sidecar_url=url), 1.0)
        drain(world, node_id(1))
    ((path, body),) = asked
    assert path == "/v1/drain"
    assert Draining.model_validate_json(body) == ON


@pytest.mark.parametrize(
    ("node", "status", "code"),
    [("host9:8041", 404, "unknown-node"), (node_id(2), 409, "no-sidecar"), (node_id(1), 502, "sidecar-unreachable")],
)
def test_what_cannot_be_told_is_said(node: str, status: int, code: str) -> None:
    world = coordinator(nodes=2)
    world.nodes[node_id(2)].report = None
    with pytest.raises(ApiError) as error:
        drain(world, node)
    assert (error.value.status, error.value.code) == (status, code)
    assert node in str(error.value)


def test_the_route_hands_it_on(client: TestClient, state: State) -> None:
    assert client.post("/v1/nodes/n1:1/drain", json={"on": True, "reason": "why"}).status_code == 204
    assert state.drained == [("n1:1", Draining(on=True, reason="why"))]
    assert client.post("/v1/nodes/n1:1/drain", json={"of": True}).status_code == 422


def test_the_commands() -> None:
    with sidecar(204, b"") as (url, asked):
        on = CliRunner().invoke(cli, ["node", "drain", "n1:1", "--reason", "disks", "--url", url])
        off = CliRunner().invoke(cli, ["node", "undrain", "n1:1", "--json", "--url", url])
    assert (on.exit_code, on.output) == (0, "n1:1 is drained: nothing is queued there\n")
    assert off.exit_code == 0
    assert '"draining": false' in off.output
    assert [(path, Draining.model_validate_json(body).on) for path, body in asked] == [
        ("/v1/nodes/n1:1/drain", True),
        ("/v1/nodes/n1:1/drain", False),
    ]


def test_a_time_limit_goes_along() -> None:
    with sidecar(204, b"") as (url, asked):
        within = CliRunner().invoke(cli, ["node", "drain", "n1:1", "--within", "600", "--url", url])
        wrong = CliRunner().invoke(cli, ["node", "drain", "n1:1", "--within", "0", "--url", url])
    assert within.output == "n1:1 is drained: nothing is queued there, and what still runs in 600 s is killed\n"
    assert [Draining.model_validate_json(body).timeout_s for _, body in asked] == [600]
    assert wrong.exit_code == 2 and "not in the range" in wrong.output
