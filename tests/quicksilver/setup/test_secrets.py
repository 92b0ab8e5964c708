"""Proxy and sidecar as processes with known secrets: whatever goes wrong, none is in any log, answer or file."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver.common.http.tokens import Role, add_token
from quicksilver.common.process.masking import MASK
from quicksilver_lab.cluster.ports import free_port

certs = pytest.importorskip("quicksilver.common.http.certs", reason="needs cryptography: `make setup` installs it")
READY_S = 120.0


@dataclass
class Site:
    """A proxy and a sidecar without a cluster: the ResourceManager, the NodeManager and the database are not there."""

    folder: Path
    password: str = field(default_factory=lambda: f"pw-{secrets.token_urlsafe(12)}")
    ports: dict[str, int] = field(default_factory=dict)
    tokens: dict[Role, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tls = self.folder / "tls"
        self.tls.mkdir()
        certs.make_ca(self.tls, "c")
        for stem in ("proxy", "node"):
            certs.make_certificate(self.tls, stem, ["127.0.0.1"])
        self.token_file = self.folder / "tokens"
        self.tokens = {role: add_token(self.token_file, role, "ann" if role is Role.USER else "") for role in Role}
        names = ("am", "rm", "rest", "nm", "nm_up", "web", "web_up", "node_rest", "rm_web", "pg")
        self.ports = {name: free_port() for name in names}
        (self.folder / "conf").mkdir()
        (self.folder / "conf" / "yarn-site.xml").write_text("<configuration/>")
        (self.folder / "proxy.yaml").write_text(
            self.proxy(f"postgresql://q:{self.password}@127.0.0.1:{self.port('pg')}/q")
        )
        (self.folder / "node.yaml").write_text(self.sidecar())

    def port(self, name: str) -> int:
        return self.ports[name]

    @property
    def secrets(self) -> list[str]:
        """Everything that must not be seen: tokens, the password, a line of each key."""
        keys = [file.read_text().splitlines()[1] for file in self.tls.glob("*.key")]
        return [*self.tokens.values(), self.password, *keys]

    def proxy(self, store_url: str) -> str:
        return f"""
proxy:
  listen: 127.0.0.1:{self.port("am")}
  upstream: 127.0.0.1:{self.port("rm")}
  rm_web: http://127.0.0.1:{self.port("rm_web")}
  rest_listen: 127.0.0.1:{self.port("rest")}
  store_url: {store_url}
{self.security("proxy")}"""

    def sidecar(self) -> str:
        return f"""
sidecar:
  listen: 127.0.0.1:{self.port("nm")}
  upstream: 127.0.0.1:{self.port("nm_up")}
  web_listen: 127.0.0.1:{self.port("web")}
  web_upstream: 127.0.0.1:{self.port("web_up")}
  node_id: 127.0.0.1:{self.port("nm")}
  rest_listen: 127.0.0.1:{self.port("node_rest")}
  proxy_url: https://127.0.0.1:{self.port("rest")}
  state_dir: {self.folder}
  memory_mb: 1024
  vcores: 1
{self.security("node")}"""

    def security(self, stem: str) -> str:
        return f"""
security:
  token_file: {self.token_file}
  tls_cert: {self.tls / stem}.crt
  tls_key: {self.tls / stem}.key
  tls_ca: {self.tls}/ca.crt
"""

    @contextmanager
    def running(self, noun: str, file: str) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "quicksilver", noun, "run", "--config", str(self.folder / file)]
        command += ["--conf-dir", str(self.folder / "conf"), "--log-level", "debug"]
        with (self.folder / f"{noun}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def call(self, method: str, rest: str, path: str, **arguments: object) -> str:
        url = f"https://127.0.0.1:{self.port(rest)}{path}"
        answer = requests.request(method, url, timeout=60, verify=str(self.tls / "ca.crt"), **arguments)  # type: ignore[arg-type]
        return f"{answer.status_code} {answer.headers} {answer.text}"

    def ready(self, *rests: str) -> None:
        deadline = time.monotonic() + READY_S
        for rest in rests:
            while True:
                try:
                    assert self.call("GET", rest, "/metrics").startswith("401")
                    break
                except requests.ConnectionError:
                    logs = "".join(log.read_text() for log in self.folder.glob("*.log"))
                    assert time.monotonic() < deadline, logs[-3000:]
                    time.sleep(0.1)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(os, "environ", {**os.environ, "QUICKSILVER_CONFIG": str(tmp_path / "proxy.yaml")})
    return Site(tmp_path)


def connected(port: int) -> socket.socket:
    """Return a connection to a port that opens once YARN was asked for the first time."""
    deadline = time.monotonic() + READY_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 10)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def provoked(site: Site, proxy: subprocess.Popen[bytes]) -> list[str]:
    """Let all go wrong that may; return all that was answered and printed."""
    seen = []
    bearer = {role: {"Authorization": f"Bearer {token}"} for role, token in site.tokens.items()}
    broken = site.folder / "broken.yaml"
    broken.write_text(
        site.proxy(f"[postgresql://q:{site.password}@h/q]") + f"\npolicies: {{mode: {site.tokens[Role.NODE]}}}\n"
    )
    for rest in ("rest", "node_rest"):
        for role in Role:
            for path in (
                "/v1/nodes",
                "/v1/policies",
                "/v1/health",
                "/healthz",
                "/conf",
                "/jmx",
                "/stacks",
                "/metrics",
                "/v1/node",
                "/openapi.json",
            ):
                seen.append(site.call("GET", rest, path, headers=bearer[role]))
            seen.append(site.call("POST", rest, "/v1/grants", headers=bearer[role], data=b"{"))
            seen.append(
                site.call("GET", rest, f"/v1/decisions?app={site.tokens[role]}", headers={"Authorization": "x"})
            )
        seen.append(site.call("GET", rest, "/v1/nodes", auth=("admin", site.tokens[Role.ADMIN])))
        for file in ("broken.yaml", "tokens", "tls/proxy.key", "../proxy.yaml", "gone.yaml"):
            seen.append(site.call("POST", rest, "/v1/policies/reload", headers=bearer[Role.ADMIN], json={"file": file}))
    for port in ("am", "nm"):  # a sidecar reads nobody before the NodeManager is reached
        upstream = socket.create_server(("127.0.0.1", site.port("nm_up"))) if port == "nm" else nullcontext()
        with upstream, connected(site.port(port)) as sock:
            sock.sendall(f"GET /{site.tokens[Role.ADMIN]} HTTP/1.1\r\n\r\n".encode())
            sock.settimeout(60)
            while sock.recv(4096):
                pass
    site.token_file.write_text(site.token_file.read_text() + f"root {site.tokens[Role.READ]}\n")
    proxy.send_signal(signal.SIGHUP)
    seen.append(site.call("POST", "rest", "/v1/policies/reload", headers=bearer[Role.ADMIN], json={"nodes": True}))
    url = ["--url", f"https://127.0.0.1:{site.port('rest')}", "--token-file", str(site.token_file)]
    for words in (
        ["node", "list", *url],
        ["policy", "check", str(broken)],
        ["health", *url],
        ["policy", "history", *url],
    ):
        result = CliRunner().invoke(cli, words)
        seen.append(f"{result.output} {result.exception!r}")
    return seen


def test_no_secret_is_seen_whatever_goes_wrong(site: Site) -> None:
    with (
        socket.create_server(("127.0.0.1", site.port("rm"))),  # without one the proxy takes no application masters
        site.running("proxy", "proxy.yaml") as proxy,
        site.running("sidecar", "node.yaml"),
    ):
        site.ready("rest", "node_rest")
        seen = provoked(site, proxy)
        proxy_log = site.folder / "proxy.log"
        deadline = time.monotonic() + 120
        while "store" not in proxy_log.read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
    kept = {file for file in site.folder.rglob("*") if file.is_file() and file.suffix not in (".key", ".yaml")}
    texts = {str(n): text for n, text in enumerate(seen)}
    texts |= {str(file): file.read_bytes().decode("latin-1") for file in kept - {site.token_file}}
    assert [(where, at) for where, text in texts.items() for at, one in enumerate(site.secrets) if one in text] == []
    statuses = {text[:3] for text in seen}
    assert {"200", "401", "403", "422"} <= statuses, statuses
    assert f"q:{MASK}@" in proxy_log.read_text(), "the store is named without its password"
