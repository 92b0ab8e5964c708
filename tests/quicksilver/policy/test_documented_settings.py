"""The settings that the README, docs/operations.md and the systemd units begin with are right, and the proxy starts."""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from quicksilver.cli import cli
from quicksilver.common.http.certs import make_ca, make_certificate
from quicksilver.common.http.tokens import Role, add_token
from quicksilver_lab.cluster.ports import free_port
from tests.examples import others_long
from tests.paths import DOCS, ROOT

PAGES: Final = {"README.md": ROOT / "README.md", "operations.md": DOCS / "operations.md"}


def example(page: Path) -> str:
    """Return the first block of YAML of a page, without its indentation."""
    found = re.search(r"^( *)```yaml\n(.*?)^\1```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return "\n".join(line.removeprefix(found[1]) for line in found[2].splitlines()) + "\n"


def moved(value: Any, names: dict[str, str]) -> Any:
    """Return settings with the documented hosts and folders replaced."""
    if isinstance(value, dict):
        return {key: moved(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [moved(item, names) for item in value]
    for name, place in names.items() if isinstance(value, str) else ():
        value = value.replace(name, place)
    return value


def certified(folder: Path) -> str:
    """Make the files of section `security` with the names that the pages use; return a token that may read."""
    (folder / "tls").mkdir()
    make_ca(folder / "tls", "test")
    make_certificate(folder / "tls", "proxy", ("127.0.0.1",))
    return add_token(folder / "tokens", Role.READ)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_the_check_finds_no_mistake(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(example(page))
    result = CliRunner().invoke(cli, ["policy", "check", str(file)])
    assert result.exit_code == 0, result.output


def answer(url: str, ca: Path, token: str, process: subprocess.Popen[bytes]) -> int:
    """Return the status of the proxy's answer, as soon as there is one."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    end_s = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5, context=ssl.create_default_context(cafile=ca)) as response:
                status: int = response.status
                return status
        except OSError:
            assert process.poll() is None and time.monotonic() < end_s, "the proxy does not serve REST"
            time.sleep(0.1)


@pytest.mark.parametrize("page", others_long(list(PAGES.values())), ids=PAGES)
def test_the_proxy_starts_and_serves_rest_beyond_loopback(page: Path, tmp_path: Path) -> None:
    listen, rest, token = free_port(), free_port(), certified(tmp_path)
    address = "yarn.resourcemanager.scheduler.address"
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.hostname</name><value>127.0.0.1</value></property>"
        f"<property><name>{address}</name><value>127.0.0.1:{listen}</value></property></configuration>\n"
    )
    folders = {"/etc/quicksilver": str(tmp_path), "/etc/hadoop/conf": str(tmp_path)}
    hosts = {"rmhost:8390": f"0.0.0.0:{rest}", "rmhost": "127.0.0.1"}
    settings = moved(YAML(typ="safe").load(example(page)), folders | hosts)
    settings["proxy"] |= {"store_url": f"sqlite:///{tmp_path / 'proxy.db'}", "state_dir": str(tmp_path)}
    config = tmp_path / "quicksilver.yaml"
    config.write_text(json.dumps(settings))  # JSON is YAML
    command = [
        sys.executable,
        "-m",
        "quicksilver",
        "proxy",
        "run",
        "--config",
        str(config),
        "--conf-dir",
        str(tmp_path),
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    try:
        url = f"https://127.0.0.1:{rest}/v1/nodes"
        assert answer(url, tmp_path / "tls" / "ca.crt", token, process) == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait(30)


def test_the_systemd_units_agree_on_program_and_settings() -> None:
    units = [file.read_text() for file in (ROOT / "hadoop-conf" / "systemd").glob("*.service")]
    programs = {
        found for unit in units for found in re.findall(r"^Exec(?:Start|StopPost)=(\S*quicksilver)\b", unit, re.M)
    }
    settings = [re.findall(r"^Environment=QUICKSILVER_CONFIG=(.*)$", unit, re.M) for unit in units]
    assert programs == {"/opt/quicksilver/bin/quicksilver"}
    assert settings == [["/etc/quicksilver/quicksilver.yaml"]] * 4
