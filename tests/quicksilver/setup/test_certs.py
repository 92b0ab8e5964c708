"""`quicksilver certs`: a CA, certificates, tokens, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quicksilver.cli import cli
from quicksilver.common.http.security import Security, SecuritySettings
from quicksilver.common.http.tokens import Role, read_tokens

certs = pytest.importorskip("quicksilver.common.http.certs", reason="needs cryptography: `make setup` installs it")


def call(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["certs", *words, "--dir", str(folder)], prog_name="quicksilver")


def names(file: Path) -> tuple[str, ...]:
    return certs.show(file).names  # type: ignore[no-any-return]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert call(tmp_path / "tls", "init", "--cluster", "prod").exit_code == 0
    return tmp_path / "tls"


def test_from_a_ca_to_certificates_that_daemons_take(folder: Path) -> None:
    made = call(folder, "node", "node7.example.com", "10.1.2.3")
    assert (
        made.output == f"{folder}/node7.example.com.crt (node7.example.com, 10.1.2.3)\n{folder}/node7.example.com.key\n"
    )
    assert call(folder, "proxy", "rm1").exit_code == 0
    assert names(folder / "proxy.crt") == ("rm1", "localhost", "127.0.0.1", "::1")
    assert {file.stat().st_mode & 0o777 for file in folder.glob("*.key")} == {0o600}
    for stem in ("proxy", "node7.example.com"):
        pair = certs.pair_of(folder, stem)
        Security(SecuritySettings(tls_cert=pair.certificate, tls_key=pair.key, tls_ca=folder / "ca.crt"))


def test_nothing_is_replaced_but_on_demand(folder: Path) -> None:
    again = call(folder, "init")
    assert again.exit_code == 1 and "ca.crt: is there already, and all certificates hang on it" in again.output
    assert call(folder, "node", "node7", "alias").exit_code == 0
    first = (folder / "node7.crt").read_bytes()
    refused = call(folder, "node", "node7")
    assert refused.exit_code == 1 and "node7.crt: is there already; replace it with --renew" in refused.output
    assert (folder / "node7.crt").read_bytes() == first
    assert call(folder, "node", "node7", "--renew").exit_code == 0
    assert (folder / "node7.crt").read_bytes() != first and names(folder / "node7.crt") == ("node7", "alias")
    assert call(folder, "node", "node7", "other", "--renew").exit_code == 0
    assert names(folder / "node7.crt") == ("node7", "other")


def test_show_warns_of_what_ends_soon(folder: Path) -> None:
    assert call(folder, "proxy", "rm1").exit_code == 0
    listed = call(folder, "show", "--json")
    assert listed.exit_code == 0
    assert [(Path(one["file"]).name, one["is_ca"]) for one in json.loads(listed.output)] == [
        ("ca.crt", True),
        ("proxy.crt", False),
    ]
    assert call(folder, "node", "short", "--days", "20").exit_code == 0
    assert call(folder, "show").exit_code == 1
    assert call(folder, "show", "--within", "10").exit_code == 0
    assert call(folder, "show", str(folder / "proxy.crt")).exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("node", "bad host"), "'bad host' is no name of a file"),
        (("node", "../up"), "'../up' is no name of a file"),
        (("node", "n", "*.example.com"), "'*.example.com' is neither a host name nor an IP address"),
        (("node", "n", "-x-"), "No such option"),
        (("node", "n", "--", "-x"), "'-x' is neither a host name"),
        (("show", "gone.crt"), "gone.crt: cannot be read: No such file or directory"),
    ],
)
def test_what_is_refused(folder: Path, words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(cli, ["certs", words[0], "--dir", str(folder), *words[1:]])
    assert result.exit_code in (1, 2) and said in result.output


def test_a_ca_whose_key_is_another_ones_or_open_to_others(folder: Path, tmp_path: Path) -> None:
    assert call(tmp_path / "other", "init").exit_code == 0
    (folder / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    assert "ca.key: is not the key of" in call(folder, "node", "n").output
    (folder / "ca.key").chmod(0o644)
    assert "chmod 600" in call(folder, "node", "n").output
    assert "has no certificates" in call(tmp_path / "empty", "show").output
    assert "ca.crt: cannot be read" in call(tmp_path / "empty", "node", "n").output


def test_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    for role in ("admin", "read"):
        made = CliRunner().invoke(cli, ["certs", "token", role, str(file)])
        assert made.exit_code == 0 and f"{role} sha256:" in made.output
    tokens = read_tokens(file, "x")
    assert len(tokens) == 2 and file.stat().st_mode & 0o777 == 0o600
    text = tokens.first([Role.ADMIN])
    assert text is not None and text not in made.output
    (tmp_path / "digest").write_text(made.output.partition("it: ")[2])
    (tmp_path / "digest").chmod(0o600)
    assert read_tokens(tmp_path / "digest", "x").roles(tokens.first([Role.READ]) or "") == {Role.READ}


def test_many_nodes_in_one_run(folder: Path, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# rack 1\nnode1.example.com 10.0.0.1 n1\n\nnode2.example.com  # new\n")
    made = call(folder, "node", "--hosts", str(hosts))
    assert made.exit_code == 0 and made.output.endswith("2 made, 0 there already\n")
    assert names(folder / "node1.example.com.crt") == ("node1.example.com", "10.0.0.1", "n1")
    first = (folder / "node1.example.com.crt").read_bytes()
    hosts.write_text(hosts.read_text() + "node3.example.com\n")
    assert call(folder, "node", "--hosts", str(hosts)).output.endswith("1 made, 2 there already\n")
    assert (folder / "node1.example.com.crt").read_bytes() == first
    assert call(folder, "node", "--hosts", str(hosts), "--renew").output.endswith("3 made, 0 there already\n")
    assert (folder / "node1.example.com.crt").read_bytes() != first
    assert {file.stat().st_mode & 0o777 for file in folder.glob("*.key")} == {0o600}


def test_all_mistakes_of_a_file_of_hosts_are_named_and_nothing_is_made(folder: Path, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node1\nnode1\n../x\n")
    refused = call(folder, "node", "--hosts", str(hosts))
    assert refused.exit_code == 1
    assert (
        f"{hosts}:2: node1 is there twice" in refused.output and f"{hosts}:3: '../x' is no host name" in refused.output
    )
    assert not (folder / "node1.crt").exists()
    hosts.write_text("# none\n")
    assert "names no host; write a line for each node" in call(folder, "node", "--hosts", str(hosts)).output
    assert call(folder, "node").exit_code == 2
    assert call(folder, "node", "node1", "--hosts", str(hosts)).exit_code == 2
