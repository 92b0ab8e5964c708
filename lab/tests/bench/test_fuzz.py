"""Fuzzing: kept sessions hold, new ones are the same for the same seed, and what is wrong is found and kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.connection import ClientConnection, ServerConnection
from quicksilver_lab.bench.fuzz import run
from quicksilver_lab.bench.fuzz.__main__ import main
from quicksilver_lab.bench.fuzz.http_servers import HTTP_TARGETS, stop_servers
from quicksilver_lab.bench.fuzz.mutation import (
    fields_of,
    frame_of,
    message_of,
    mutated_frame,
    mutated_message,
    parts_of,
)
from quicksilver_lab.bench.fuzz.run import Fuzzer, KeptTooMuch, read_session, replay, write_session
from quicksilver_lab.bench.fuzz.sessions import read_recordings
from quicksilver_lab.bench.fuzz.targets import TARGETS, FuzzWire, NodeGate, Step
from tests.examples import others_long
from tests.paths import DATA

CORPUS = sorted((DATA / "fuzz").glob("*.txt"))
NEVER = float("inf")


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    stop_servers()


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_a_kept_session_holds(file: Path) -> None:
    replay(file.read_text())


def test_the_corpus_has_every_target_and_is_small() -> None:
    assert {read_session(file.read_text())[0] for file in CORPUS} == set(TARGETS)
    assert sum(file.stat().st_size for file in CORPUS) < 2_000_000


def test_the_same_seed_gives_the_same_sessions_without_findings(tmp_path: Path) -> None:
    tallies = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        fuzzer = Fuzzer(5, TARGETS, folder, folder / "findings")
        fuzzer.run(3000, NEVER)
        assert fuzzer.tally.findings == {}
        tallies.append(
            (fuzzer.tally.frames, fuzzer.tally.outcomes, {f.name: f.read_text() for f in folder.glob("*.txt")})
        )
    assert tallies[0] == tallies[1]
    frames, outcomes, kept = tallies[0]
    assert set(frames) == set(TARGETS) and frames.total() >= 3000
    assert all(len(kinds) > 3 for kinds in outcomes.values()) and kept


@pytest.mark.parametrize("name", others_long(list(HTTP_TARGETS)))
def test_the_servers_of_rest_hold(name: str) -> None:
    fuzzer = Fuzzer(7, [name], None, None)
    fuzzer.run(60, NEVER)
    assert fuzzer.tally.findings == {}
    assert len(fuzzer.tally.outcomes[name]) > 3, "accepted, refused, closed"


class Fragile(FuzzWire):
    def feed(self, step: Step) -> str:
        if step[0] == "server":
            raise KeyError(step[1][:4])
        return super().feed(step)


class Greedy(NodeGate):
    def kept_bytes(self) -> int:
        return 1 << 30


@pytest.mark.parametrize(("made", "error"), [(Fragile, KeyError), (Greedy, KeptTooMuch)])
def test_what_is_wrong_is_counted_kept_and_comes_again(
    made: Callable[[], run.Target], error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "wire" if made is Fragile else "gate"
    monkeypatch.setitem(run.TARGETS, name, made)
    words = ["--frames", "50", "--target", name, "--findings", str(tmp_path)]
    monkeypatch.setattr("quicksilver_lab.bench.fuzz.__main__.write", lambda *_: tmp_path)
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    found = json.loads(result.output.splitlines()[-1])
    assert found["findings"] > 0 and len(found["finding_kinds"]) == 1 and error.__name__ in str(found["finding_kinds"])
    (file,) = tmp_path.glob("*.txt")
    with pytest.raises(error):
        replay(file.read_text())


@given(st.lists(st.tuples(st.sampled_from(["client", "server", "going"]), st.binary(max_size=30)), max_size=5))
def test_a_session_is_read_as_it_was_written(done: list[Step]) -> None:
    assert read_session(write_session("wire", done)) == ("wire", done)


@given(st.integers(0, 2**32), st.binary(max_size=60))
def test_mutation_gives_something_whatever_it_is_given(seed: int, data: bytes) -> None:
    mutated_message(data, Random(seed))
    mutated_frame(data, Random(seed))
    fields = fields_of(data)
    assert fields is None or fields_of(message_of(fields)) == fields
    assert parts_of(frame_of([data, b""])[4:]) == [data, b""]


def test_recordings_are_read_whole() -> None:
    for name, recording in read_recordings().items():
        server, client = ServerConnection(), ClientConnection()
        for who, raw in recording.login if "wrong" not in name else recording.frames:
            (server if who == "client" else client).receive_data(raw)
        assert recording.frames[0][1].startswith(b"hrpc")
