"""Typical mistakes in settings, installation and commands: one clear message each, all of one file in one run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from quicksilver.cli import cli

ROUTED = "queues: '*', routes: [{policy: only_q}]"


class Wrong(NamedTuple):
    """Settings with a mistake, where it is, and the message: what is wrong, and what to do."""

    text: str
    place: str
    what: str


MISTAKES = (
    Wrong("polices: {}", "1:1: polices", "unknown section; did you mean policies?"),
    Wrong("proxy: {upstrem: 'rm:1'}", "1:9: proxy.upstrem", "unknown setting; did you mean upstream?"),
    Wrong("proxy: {upstream: rmhost}", "1:19: proxy.upstream", "host:port"),
    Wrong("proxy: {upstream: 'rmhost:180300'}", "1:19: proxy.upstream", "write it as host:port"),
    Wrong("proxy: {upstream: 'rm:1', round_s: 10s}", "1:36: proxy.round_s", "must be a number, got '10s'"),
    Wrong("proxy: {upstream: 'rm:1', keep_days: 0}", "1:38: proxy.keep_days", "must be > 0, got 0"),
    Wrong("proxy: [upstream]", "1:8: proxy", "must be a mapping (key: value)"),
    Wrong("sidecar: {reserve_mb: 2GB}", "1:23: sidecar.reserve_mb", "must be a whole number, got '2GB'"),
    Wrong("sidecar: {resizer: cgroups}", "1:20: sidecar.resizer", "must be auto, cgroup1, cgroup2,"),
    Wrong("security: {tls_cert: /etc/x.crt}", "1:11: security", "tls_cert and tls_key go together; name both"),
    Wrong("hadoop_conf_dir: [/etc/hadoop]", "1:18: hadoop_conf_dir", "must be a directory"),
    Wrong("policies: {preset: defualt}", "1:20: policies.preset", "must be default,"),
    Wrong("policies: {place: topk_wait}", "1:19: policies.place", "must be a mapping (key: value), got 'topk_wait'"),
    Wrong("policies: {place: {policy: topk}}", "1:28: policies.place.policy", "did you mean topk_wait?"),
    Wrong("policies: {place: {policy: topk_wait, settings: {k: 0}}}", "1:53: policies.place.settings.k", ">= 1, got 0"),
    Wrong("policies: {route: [{policy: only_q}]}", "1:12: policies.route", "did you mean routes or rollout?"),
    Wrong("policies: {mode: of}", "1:18: policies.mode", "must be active, shadow or bypass, got 'of'"),
    Wrong("policies: {time_zone: Europe/Berln}", "1:23: policies.time_zone", "unknown time zone 'Europe/Berln'"),
    Wrong(
        "policies: {alternatives: {a: {}}, windows: [{name: n, cron: '0 25 * * *', length_s: 5, use: a}]}",
        "1:61: policies.windows[0].cron",
        "is no cron expression",
    ),
    Wrong("policies: {rollout: [{use: nothing}]}", "1:28: policies.rollout[0].use", "nothing"),
    Wrong("policies: {mode: active, mode: shadow}", "1:26: policies.mode", "is there twice, first in line 1; keep one"),
    Wrong("policies: {estimate: {rules: [{match: {}}]}}", "1:31: policies.estimate.rules[0].expected_s", "is missing"),
    Wrong("policies:\n\tmode: active", "2:1", "a tab indents this line; YAML takes only spaces"),
    Wrong("policies: {mode: active", "2:1", "is no YAML: while parsing a flow mapping"),
    Wrong("", "1:1", "is empty, as after an interrupted write; write `policies: {}` for the defaults"),
)
"""With exit code 1."""
DOUBTS = (
    Wrong("policies: {queues: a, routes: [{match: {type: MAPRED}, policy: only_g}]}", "1:47", "mean MAPREDUCE?"),
    Wrong(f"policies: {{{ROUTED}}}", "1:34", "kill_newest kills these"),
    Wrong("proxy: {upstream: 'rm:1', rest_listen: '0.0.0.0:8390'}", "1:40", "REST would listen beyond loopback"),
    Wrong("proxy: {round_s: 2}", "1:1: proxy", "e.g. upstream: rmhost:18030"),
    Wrong("sidecar: {listen: 'node1:8041'}", "1:1: sidecar", "so REST would listen at node1:8391 without TLS"),
    Wrong("security: {token_file: /nowhere/tokens}", "1:24", "/nowhere/tokens is not on this host"),
)
"""Valid, and probably not meant: warnings, with exit code 0."""


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="quicksilver")


@pytest.mark.parametrize("wrong", MISTAKES, ids=lambda wrong: wrong.text[:40])
def test_a_mistake_in_the_settings_is_one_line_with_place_and_remedy(wrong: Wrong, tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(f"{wrong.text}\n" if wrong.text else "")
    result = call("policy", "check", file)
    line, count = (line for line in result.stderr.splitlines() if not line.startswith("warning: "))
    assert result.exit_code == 1 and count.startswith(f"{file}: 1 mistake")
    assert line.startswith(f"{file}:{wrong.place}: ") and wrong.what in line


@pytest.mark.parametrize("wrong", DOUBTS, ids=lambda wrong: wrong.text[:40])
def test_what_is_probably_not_meant_is_one_warning(wrong: Wrong, tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(f"{wrong.text}\n")
    result = call("policy", "check", file)
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 0 and line.startswith(f"warning: {file}:{wrong.place}: ") and wrong.what in line


def test_all_mistakes_of_one_file_come_in_one_run_also_behind_what_is_no_yaml(tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(
        "proxy: {upstrem: 'rm:1'}\n"
        "policies:\n  place: {policy: topk\n  mode: of\n"  # no YAML from line 3 on
        "sidecar:\n\treserve_mb: 5\n"  # a tab
        "security: {tls_cert: /x}\n"
    )
    result = call("policy", "check", file)
    places = re.findall(r"quicksilver\.yaml:(\d+):\d+: ", result.stderr)
    assert places == ["1", "4", "6", "7"] and result.stderr.endswith(": 4 mistakes\n")
    several = [wrong.text.removeprefix("policies: {").removesuffix("}") for wrong in MISTAKES[15:18]]
    file.write_text(f"policies: {{{', '.join(several)}}}\nproxy: {{upstream: rmhost, keep_days: 0}}\n")
    assert call("policy", "check", file).stderr.endswith(": 5 mistakes\n")


CONF = "<configuration><property><name>yarn.resourcemanager.hostname</name><value>rm</value></property></configuration>"


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("install", "--conf-dir", "gone", "--role", "resourcemanager", "--dry-run"), 1, "gone: no such directory"),
        (("install", "--conf-dir", "conf", "--role", "resourcemanager"), 2, "give one of --dry-run, --out COPY"),
        (("install", "--conf-dir", "conf", "--role", "nm", "--dry-run"), 2, "'nm' is not one of 'resourcemanager'"),
        (("install", "--conf-dir", "conf", "--role", "nodemanager", "--dry-run"), 1, "--host"),
        (("install", "--conf-dir", "conf", "--dryrun"), 2, "Did you mean '--dry-run'?"),
        (("certs", "proxy", "--dir", "tls"), 1, "make it with `quicksilver certs`"),
        (("certs", "token", "root", "tokens"), 2, "'root' is not one of 'read', 'admin', 'node', 'keys', 'proxy'"),
        (("policy", "show", "topk_wiat"), 1, "unknown policy 'topk_wiat'; did you mean topk_wait?"),
        (("policy", "what-if", "--queue", "a", "--file", "gone.yaml"), 1, "gone.yaml: No such file or directory; name"),
        (("proxy", "bypass", "yes"), 2, "'yes' is not one of 'on', 'off', 'auto'"),
        (("node", "list", "--url", "rm:8390"), 2, "write http://rm:8390 or https://rm:8390"),
        (("node", "list", "--url", "http://127.0.0.1:9"), 1, "connection refused; start the proxy"),
        (("app", "list", "--since", "yesterday"), 2, "'yesterday' is not a time; write 2026-11-21"),
        (("app", "list", "--state", "done"), 2, "'done' is not one of 'running', 'finished'"),
        (("explain", "job_1_0001"), 2, "'job_1_0001' is no id of a container or application"),
        (("store", "status", "--store", "sqlite:///gone.db"), 1, "there is no such file; name another one"),
        (("help", "glosary"), 1, "did you mean glossary?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_mistake_in_a_command_or_an_installation_is_one_message(
    arguments: tuple[str, ...], code: int, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "yarn-site.xml").write_text(CONF)
    result = call(*arguments)
    lines = result.stderr.splitlines()
    assert result.exit_code == code and error in lines[-1], result.output
    assert sum("rror: " in line for line in lines) == 1 and "Traceback" not in result.output


def test_there_are_more_than_thirty_of_them() -> None:
    assert len(MISTAKES) + len(DOUBTS) > 30
