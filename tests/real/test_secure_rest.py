"""REST by TLS and tokens on a real cluster: a MapReduce job with held starts, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver.common.http.rest_client import RestClient
from quicksilver.common.http.rest_errors import RefusedError, UnreachableError
from quicksilver.common.http.security import Credentials, client_context
from quicksilver.common.http.tokens import Role
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)

certs = pytest.importorskip("quicksilver.common.http.certs", reason="needs cryptography: `make setup` installs it")
pytestmark = pytest.mark.hadoop
TEXT = make_text(2000)
OPTIONS = JobOptions(properties={"mapreduce.map.speculative": "false"})
POLICIES = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}


@pytest.fixture(scope="module")
def stack(overlay_cluster: Cluster) -> Iterator[LocalDaemons]:
    put_text(overlay_cluster, "/secure/input.txt", TEXT)
    made = LocalDaemons(overlay_cluster, POLICIES, sidecar={"vcores": 1}, security=True)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def shown(stack: LocalDaemons, stem: str, folder: Path | None = None) -> Credentials:
    assert stack.security is not None
    pair = certs.pair_of(folder or stack.security.folder, stem)
    context = client_context(stack.security.ca)
    context.load_cert_chain(pair.certificate, pair.key)
    return Credentials(context=context, ca=stack.security.ca)


def test_a_job_with_held_starts(stack: LocalDaemons) -> None:
    target = f"/secure/out-{time.time_ns()}"
    job = start_wordcount(stack.cluster, "/secure/input.txt", target, maps=8, options=OPTIONS).wait(timeout_s=200)
    assert read_counts(stack.cluster, target) == count_words(TEXT)
    deadline = time.monotonic() + 10
    while True:
        summary = stack.get(f"/v1/summary?app={job.application_id}")
        if summary["queueing"]["p95_s"] is not None or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert summary["queueing"]["p95_s"] > 0.5, "starts waited at nodes, so grants came through"
    text = stack.call("GET", f"{stack.url}/metrics").text
    assert 'quicksilver_proxy_announcements_total{result="ok"}' in text
    assert not [line for line in text.splitlines() if line.startswith("quicksilver_proxy_auth_failures_total{")]


def test_who_may_not_is_refused(stack: LocalDaemons, tmp_path: Path) -> None:
    nodes = stack.cluster.spec.node_addresses
    report = f"/v1/nodes/{nodes[0].rpc}/report"
    sidecar = f"https://{stack.sidecar_rest(nodes[0])}"
    assert stack.security is not None
    ca = str(stack.security.ca)
    assert requests.get(f"{stack.url}/v1/nodes", verify=ca, timeout=10).status_code == 401
    assert requests.post(f"{sidecar}/v1/grants", json={}, verify=ca, timeout=10).status_code == 401
    assert stack.call("POST", f"{stack.url}/v1/policies/reload", json={}).status_code == 403
    assert stack.call("POST", f"{stack.url}{report}", Role.ADMIN, json={}).status_code == 403
    for url, path in ((stack.url, report), (sidecar, "/v1/grants"), (sidecar, "/v1/drain")):
        other = RestClient(url, credentials=shown(stack, nodes[1].name))
        with pytest.raises(RefusedError) as caught:
            other.get(path)
        assert caught.value.status == 403, "another node's certificate"
        other.close()
    certs.make_ca(tmp_path, "foreign")
    certs.make_certificate(tmp_path, "node", [nodes[0].rpc.host])
    foreign = RestClient(stack.url, credentials=shown(stack, "node", tmp_path))
    with pytest.raises(UnreachableError):
        foreign.get("/v1/nodes")
    foreign.close()


def test_commands_and_reload(stack: LocalDaemons) -> None:
    assert stack.security is not None
    given = ["--url", stack.url, "--ca", str(stack.security.ca)]
    token = ["--token-file", str(stack.security.token_file)]
    listed = CliRunner().invoke(cli, ["node", "list", *given, *token])
    assert listed.exit_code == 0, listed.output
    refused = CliRunner().invoke(cli, ["node", "list", *given])
    assert refused.exit_code == 1 and "send a bearer token of the role read or admin" in refused.output
    reloaded = CliRunner().invoke(cli, ["policy", "reload", "--nodes", *given, *token])
    assert reloaded.exit_code == 0, reloaded.output
    certs.make_certificate(stack.security.folder, "node1", [], renew=True)
    assert CliRunner().invoke(cli, ["policy", "reload", "--nodes", *given, *token]).exit_code == 0
    stack.wait()


def test_no_secret_is_in_any_log(stack: LocalDaemons) -> None:
    assert stack.security is not None
    secrets = [line.split()[1] for line in stack.security.token_file.read_text().splitlines()]
    secrets += [key.read_text().splitlines()[1] for key in stack.security.folder.glob("*.key")]
    for log in stack.folder.glob("*.log"):
        text = log.read_text(errors="replace")
        assert not [secret for secret in secrets if secret in text], log
