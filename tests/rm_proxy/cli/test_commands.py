import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

import rm_proxy.cli.commands
import rm_proxy.cli.estimates
import rm_proxy.cli.history_commands
from policies.model import NodeView, QueueView, Resources
from quicksilver.cli import COMMANDS, cli
from quicksilver.common.messages import ContainerReport, ContainerState, Targets
from rm_proxy.store.estimate_errors import EstimateErrors, Estimates
from rm_proxy.views.cluster_models import (
    ApplicationInfo,
    ListPage,
    NodeDetail,
    NodeInfo,
    QueueAbove,
    QueueDetail,
    QueueInfo,
    QueueUser,
)
from rm_proxy.views.container_models import ChoiceInfo, Decision, Explanation, Score
from rm_proxy.views.history_models import AppStory, DelayFigures, LedgerRow, NodeCountsInfo, Summary
from rm_proxy.views.service_models import Health
from tests.answers import answering
from tests.examples import others_long
from tests.paths import DOCS

APP = "application_1_0001"
CONTAINER = "container_1_0001_01_000002"
NODE = NodeInfo.of(
    NodeView(
        *("n1:1", "n1"),
        capacity=Resources(4096, 4),
        queue_length=3,
        usable=False,
        containers=5,
        slots=8,
        attained_sd_s=12.5,
    ),
    why_unusable="silent",
    shrunk=2,
)
HEALTH = Health(
    status="ok",
    version="9.9",
    settings_version="3-abc+night",
    started_s=1.0,
    mode="active",
    listen="a:8030",
    upstream="a:18030",
    rm_web="http://a:8088",
    rm_reachable=True,
    nodes=3,
    nodes_usable=2,
    connections=1,
    attempts=1,
)
DECISION = Decision(
    container_id=CONTAINER,
    app_id=APP,
    attempt_id="appattempt_1_0001_000001",
    kind="Q",
    route_reason="rule 1 [bold]as written[/bold]",
    node_id="n1:1",
    wanted_node="n1:1",
    place_reason="least wait",
    scores=[Score(node="n1:1", score=0.5), Score(node="n2:1", score=None)],
    unit="s",
    priority=20,
    resources=Resources(512, 1),
    expected_s=10.0,
    asked_s=1.0,
    granted_s=1.004,
    delay_s=0.004,
    shadow=None,
)
ERRORS = EstimateErrors(
    from_s=60.0, count=4, mean_error=0.25, median_error=0.2, p95_error=1.5, bias=-0.125, mean_ran_s=12.0
)
ESTIMATES = Estimates(since_s=0, bucket_s=60, app_id=None, buckets=[ERRORS], all=ERRORS)
CHOICE = ChoiceInfo(
    id="d1",
    at_s=1.0,
    slot="quota",
    policy="absolute",
    app_id=APP,
    container_id="",
    node_id="",
    chosen="G",
    reason="its quota is 3",
    scores=[],
    unit="",
    alternative="",
    other="",
    weight=7,
)
DELAYS = DelayFigures(count=4, p50_s=0.0042, p95_s=0.0061, max_s=0.008)
SUMMARY = Summary(
    since_s=0,
    app_id=None,
    guaranteed=2,
    queueable=4,
    nodes=[NodeCountsInfo(node_id="n1:1", guaranteed=2, queueable=4)],
    allocation_g=DelayFigures(count=0, p50_s=None, p95_s=None, max_s=None),
    allocation_q=DELAYS,
    queueing=DELAYS,
    events={"held": 3},
)
TARGETS = Targets(
    max_wait_s=25,
    max_queue=9,
    shed_reason="mean 20 s",
    limit_q_mb=2048,
    limit_q_vcores=2.5,
    limit_reason="history: peak",
)
WAITING = ContainerReport(
    container_id=CONTAINER, app_id=APP, kind="Q", state=ContainerState.WAITING, memory_mb=512, vcores=1, why="room"
)

SHRUNK = WAITING.model_copy(
    update={
        "container_id": CONTAINER[:-1] + "3",
        "state": ContainerState.SHRUNK,
        "attained_s": 61.25,
        "cores": 0.05,
        "times_shrunk": 4,
        "shrunk_by": CONTAINER[:-1] + "7",
        "why": "attained more",
    }
)
MASTER = WAITING.model_copy(update={"container_id": CONTAINER[:-1] + "1", "kind": "G", "am": True})


DETAIL = NodeDetail(**NODE.model_dump() | {"targets": TARGETS}, containers=[WAITING, SHRUNK, MASTER])


def page(*items: Any, more: bool = False) -> str:
    return ListPage[Any](items=list(items), offset=0, more=more).model_dump_json()


ANSWERS = {
    "/v1/nodes": page(NODE),
    "/v1/nodes/n1:1": DETAIL.model_dump_json(),
    "/v1/queues": page(QueueInfo.of(QueueView("root.a", Resources(4096, 4), labels=frozenset(["gpu"])))),
    "/v1/queues/root.a": QueueDetail(
        name="root.a",
        max_capacity=Resources(4096, 4),
        used_g=Resources(1024, 1),
        used_q=Resources(512, 2),
        left_q=Resources(2560, 1),
        user_limit=Resources(3072, 3),
        users=[QueueUser(user="ann", used_g=Resources(1024, 1), used_q=Resources(512, 2), left_q=Resources(1536, 0))],
        above=[QueueAbove(name="root", max_capacity=Resources(9000, 9), used_g=Resources(), used_q=Resources())],
        cluster=Resources(8192, 8),
    ).model_dump_json(),
    "/v1/applications": page(ApplicationInfo(id=APP, name="wordcount", live_q=5)),
    f"/v1/applications/{APP}": ApplicationInfo(id=APP, name="wordcount", submitted_s=1.0).model_dump_json(),
    "/v1/summary": SUMMARY.model_dump_json(),
    "/v1/decisions": page(DECISION),
    f"/v1/containers/{CONTAINER}": Explanation(
        container_id=CONTAINER, story=["It was requested as queueable: rule 1."], decision=DECISION
    ).model_dump_json(),
    "/v1/estimates": ESTIMATES.model_dump_json(),
    "/v1/health": HEALTH.model_dump_json(),
    "/v1/choices": page(CHOICE, CHOICE.model_copy(update={"alternative": "calm", "other": "Q"})),
    f"/v1/applications/{APP}/story": AppStory(
        app_id=APP, story=["2 containers were requested as queueable:"]
    ).model_dump_json(),
    "/v1/ledger": page(LedgerRow(key=APP, name="=wordcount", user="ann", lost_s=12.34, kills=3)),
    "/v1/ledger.csv": "app,lost_s\r\na,1.5\r\n",
    "/v1/prometheus/targets": '[{"targets": ["n1:8391"], "labels": {"__scheme__": "http"}}]',
    "/logLevel": '{"log": "rm_proxy.api", "level": "DEBUG", "own": "DEBUG"}',
}
KEPT = {"choice": rm_proxy.cli.history_commands.choice, "ledger": rm_proxy.cli.history_commands.ledger}
asked: list[str] = []


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    def answer(_: str, target: str, __: bytes) -> tuple[int, str]:
        asked.append(target)
        missing = json.dumps({"error": {"code": "unknown-thing", "message": "there is no such thing"}})
        text = ANSWERS.get(urlsplit(target).path)
        return (404, missing) if text is None else (200, text)

    with answering(answer) as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    asked.clear()
    return server


def call(*arguments: str, url: str = "") -> Result:
    return CliRunner().invoke(
        cli, list(arguments), env={"QUICKSILVER_URL": url} if url else {}, prog_name="quicksilver"
    )


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("node", "list"), ["n1:1", "4096 MB, 4 cores", "silent"]),
        (("node", "list"), ["5 of 8", "12.5", "shrunk"]),
        (("node", "show", "n1:1"), ["n1:1", CONTAINER, "waiting", "room", "5 of 8"]),
        (("node", "show", "n1:1"), ["61.2", "0.05", SHRUNK.shrunk_by, "attained more", "G, AM"]),
        (("queue", "list"), ["root.a", "gpu", "no limit"]),
        (("queue", "show", "root.a"), ["2560 MB, 1 cores", "ann", "1536 MB, 0 cores", "9000 MB", "3072 MB, 3 cores"]),
        (("app", "list"), [APP, "wordcount"]),
        (("node", "show", "n1:1"), ["more than 25 s, what waits behind 9 others (mean 20 s)"]),
        (("node", "show", "n1:1"), ["left to queueables", "2048 MB, 2.5 cores (history: peak)"]),
        (("app", "show", APP), [APP, "1970-01-01 00:00:01Z", "0.004"]),
        (("decision", "list"), [CONTAINER, "rule 1 [bold]as written[/bold]", "0.004"]),
        (
            ("explain", CONTAINER),
            [CONTAINER, "It was requested as queueable: rule 1.", "n2:1", "inf", "512 MB, 1 cores"],
        ),
        (("explain", APP), [APP, "2 containers were requested as queueable:"]),
        (("choice", "list"), ["quota", "absolute", "its quota is 3", APP, "7", "in shadow calm", "Q instead of G"]),
        (("ledger", "show"), [APP, "=wordcount", "ann", "12.3", "lost s"]),
        (("ledger", "show", "--by", "user"), ["user", "12.3"]),
        (("summary",), ["n1:1", "0.006", "held 3"]),
        (("estimate", "show", "--app", APP), ["1970-01-01 00:01:00Z", "12.0", "25%", "20%", "150%", "-12%", "all"]),
        (("daemonlog", "get", "rm_proxy.api"), ["rm_proxy.api: DEBUG"]),
        (("node", "targets"), ['"n1:8391"']),
        (("health",), ["ok", "9.9", "3-abc+night", "2 of 3 usable", "http://a:8088 (answers)"]),
    ],
)
def test_reading_commands_print_tables_and_json(arguments: tuple[str, ...], shown: list[str], url: str) -> None:
    result = call(*arguments, url=url)
    assert result.exit_code == 0, result.output
    for text in shown:
        assert text in result.output
    as_json = call(*arguments, "--json", "--url", url)
    assert as_json.exit_code == 0
    assert json.loads(as_json.output)


def test_lists_are_filtered_sorted_and_cut_into_columns(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = NODE.model_copy(update={"id": "n2:1", "host": "n2", "queued_s": 7.5, "usable": True, "why_unusable": ""})
    monkeypatch.setitem(ANSWERS, "/v1/nodes", page(NODE, busy, NODE.model_copy(update={"id": "n3:1", "rack": "/r"})))

    def ids(*options: str) -> list[str]:
        done = call("node", "list", "--columns", "id", "--no-header", *options, url=url)
        assert done.exit_code == 0, done.output
        return done.output.split()

    assert ids() == ["n1:1", "n2:1", "n3:1"]
    assert ids("--sort", "-queued_s") == ["n2:1", "n1:1", "n3:1"] and ids("--sort", "-id", "--limit", "1") == ["n3:1"]
    assert ids("--usable") == ["n2:1"] and ids("--unusable", "--rack", "/r") == ["n3:1"]
    assert ids("--name", "n2") == ["n2:1"] == ids("--name", "n2:*") and ids("--state", "lost") == []
    assert ids("--label", "") == ids() and ids("--label", "gpu") == []
    done = call("node", "list", "--columns", "id,queued_s,usable,remark", "--format", "csv", url=url)
    assert done.output == "id,queued_s,usable,remark\nn1:1,0.0,no,silent\nn2:1,7.5,yes,\nn3:1,0.0,no,silent\n"
    done = call("node", "list", "--columns", "id,queued_s", "--format", "json", "--sort", "-queued_s", url=url)
    assert json.loads(done.output)[0] == {"id": "n2:1", "queued_s": 7.5}
    assert json.loads(call("node", "list", "--json", url=url).output)[1]["why_unusable"] == ""


def test_a_table_in_a_pipe_is_never_wrapped(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long = DECISION.model_copy(update={"route_reason": "because " * 60})
    monkeypatch.setitem(ANSWERS, "/v1/decisions", page(long, DECISION))
    lines = call("decision", "list", url=url).output.splitlines()
    assert len(lines) == 3 and lines[1].count("because") == 60 and lines[0].index("why") == lines[1].index("because")


def test_names_of_applications_cannot_command_a_terminal_or_a_spreadsheet(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = ApplicationInfo(id=APP, name="=cmd()\x1b[2J\n")
    monkeypatch.setitem(ANSWERS, "/v1/applications", page(evil))
    for form in ("table", "tsv"):
        text = call("app", "list", "--columns", "name,id", "--format", form, url=url).output
        assert "\x1b" not in text and "=cmd()?[2J" in text and len(text.splitlines()) == 2
    assert "'=cmd()" in call("app", "list", "--columns", "name", "--format", "csv", url=url).output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--sort", "queud_s"), "Invalid value for --sort: no column 'queud_s'; did you mean queued_s"),
        (("--columns", "id,nod"), "Invalid value for --columns: no column 'nod'; known: id"),
        (("--json", "--format", "csv"), "--json and --format do not go together"),
        (("--watch", "0"), "0.0 is not in the range 0.2<=x<=86400"),
        (("--url", "nonsense"), "'nonsense' is no URL of REST; write http://rmhost:8390 or https://rmhost:8390"),
        (("--url", "rmhost:8390"), "'rmhost:8390' is no URL of REST; write http://rmhost:8390 or"),
        (("--url", "http://rmhost:port"), "is no URL of REST"),
    ],
)
def test_wrong_options_of_lists_are_a_wrong_command_line(arguments: tuple[str, ...], error: str, url: str) -> None:
    result = call("node", "list", *arguments, url=url)
    assert result.exit_code == 2 and error in result.stderr and asked == []


def test_applications_and_decisions_are_filtered_by_the_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 100_000.0)
    options = ("--state", "finished", "--queue", "prod", "--user", "ann", "--type", "tez", "--name", "etl")
    assert call("app", "list", *options, "--since", "2h", url=url).exit_code == 0
    wanted = "type=tez&queue=prod&user=ann&text=etl&since=92800.0&sort=-submitted&limit=100&offset=0"
    assert asked == [f"/v1/applications?state=finished&{wanted}"]
    asked.clear()
    call("app", "list", "--sort", "-elapsed_s", "--limit", "3", url=url)
    call("app", "list", "--sort", "-wanted_q", "--limit", "3", url=url)
    assert asked[0] == "/v1/applications?state=running&sort=-elapsed&limit=3&offset=0"
    assert asked[1] == "/v1/applications?state=running&sort=-submitted&limit=1000&offset=0"
    asked.clear()
    call("decision", "list", "--node", "n1:1", "--kind", "Q", "--until", "1970-01-02", url=url)
    assert asked == ["/v1/decisions?until=86400.0&node=n1%3A1&kind=Q&limit=100&offset=0"]


def test_watching_into_a_pipe_prints_again_and_again_and_outlives_errors(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "quicksilver", "node", "list", "--watch", "0.2", "--json", "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert [json.loads(process.stdout.readline())[0]["id"] for _ in range(2)] == ["n1:1", "n1:1"]
        monkeypatch.delitem(ANSWERS, "/v1/nodes")
        assert "there is no such thing" in process.stderr.readline()
        monkeypatch.setitem(ANSWERS, "/v1/nodes", page(NODE.model_copy(update={"id": "n9:1"})))
        while json.loads(process.stdout.readline())[0]["id"] != "n9:1":
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 1


def test_an_id_that_is_none_is_a_wrong_command_line(url: str) -> None:
    result = call("explain", "foo", url=url)
    assert result.exit_code == 2 and "'foo' is no id of a container or application" in result.stderr and asked == []


def test_lists_follow_the_pages_up_to_the_limit(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWERS, "/v1/decisions", page(DECISION, DECISION, more=True))
    answer = json.loads(call("decision", "list", "--limit", "4", "--app", APP, "--json", url=url).output)
    assert len(answer) == 4
    assert asked == [f"/v1/decisions?app={APP}&limit=4&offset=0", f"/v1/decisions?app={APP}&limit=2&offset=2"]


def test_levels_and_targets_are_asked_for_as_written(url: str) -> None:
    call("daemonlog", "set", "root", "debug", url=url)
    call("daemonlog", "set", "root", "reset", url=url)
    call("node", "targets", "--part", "sidecar", url=url)
    wanted = ["/logLevel?log=root&level=debug", "/logLevel?log=root&level=reset", "/v1/prometheus/targets?part=sidecar"]
    assert asked == wanted
    wrong = call("daemonlog", "set", "root", "loud", url=url)
    assert wrong.exit_code == 2 and "'loud' is not one of" in wrong.stderr and asked == wanted


def test_estimates_are_asked_for_by_time_and_application(url: str) -> None:
    call("estimate", "show", "--app", APP, "--last", "1e12", "--bucket", "5", url=url)
    assert asked == [f"/v1/estimates?since_s=0.0&bucket_s=5.0&app_id={APP}"]


def test_choices_and_ledgers_are_asked_for_by_filters_and_times(url: str) -> None:
    call("choice", "list", "--slot", "steal", "--alternative", "", "--recent", "--since", "1970-01-02", url=url)
    assert asked == ["/v1/choices?since=86400.0&slot=steal&alternative=&recent=True&limit=100&offset=0"]
    asked.clear()
    times = ("--since", "1970-01-02T01:00", "--until", "90000.5", "--zone", "+01:00")
    call("ledger", "show", "--by", "day", *times, "--limit", "5", url=url)
    assert asked == ["/v1/ledger?by=day&zone_min=60&since=86400.0&until=90000.5&limit=5&offset=0"]
    asked.clear()
    call("ledger", "show", "--since", "1970-01-02T00:00+01:00", "--zone", "-02:30", url=url)
    assert asked == ["/v1/ledger?by=app&zone_min=-150&since=82800.0&limit=100&offset=0"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--since", "yesterday"), "'yesterday' is not a time; write 2026-11-21"),
        (("--until", "nan"), "'nan' is not a time"),
        (("--zone", "CET"), "'CET' is not an offset; write +02:00, or UTC"),
        (("--zone", "+19:00"), "'+19:00' is more than 18 hours"),
        (("--by", "week"), "'week' is not one of"),
        (("--csv", "x.csv", "--json"), "--csv and --json do not go together"),
    ],
)
def test_a_wrong_time_or_zone_is_a_wrong_command_line(arguments: tuple[str, ...], error: str, url: str) -> None:
    result = call("ledger", "show", *arguments, url=url)
    assert result.exit_code == 2 and error in result.stderr and asked == []


def test_the_whole_ledger_goes_to_a_csv_file_or_none_is_left(url: str, tmp_path: Path) -> None:
    file = tmp_path / "l.csv"
    file.write_text("old")
    missing = call("ledger", "show", "--csv", str(tmp_path / "gone" / "l.csv"), url=url)
    assert missing.exit_code == 1 and "cannot be written: No such file or directory" in missing.stderr
    refused = call("ledger", "show", "--csv", str(file), url=f"{url}/elsewhere")
    assert refused.exit_code == 1 and file.read_text() == "old"
    assert call("ledger", "show", "--by", "day", "--csv", str(file), url=url).exit_code == 0
    assert file.read_bytes() == b"app,lost_s\r\na,1.5\r\n" and list(tmp_path.iterdir()) == [file]
    assert asked[-1] == "/v1/ledger.csv?by=day&zone_min=0"


def test_a_ledger_that_breaks_off_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    class Broken(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"app,lost_s\r\n")

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    file = tmp_path / "l.csv"
    file.write_text("old")
    with ThreadingHTTPServer(("127.0.0.1", 0), Broken) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        result = call("ledger", "show", "--csv", str(file), url=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert result.exit_code == 1 and result.stderr.count("\n") == 1, result.stderr
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def test_nothing_there_is_said(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWERS, "/v1/nodes", page())
    assert call("node", "list", url=url).output == "no nodes\n"


def test_an_unwell_proxy_is_exit_code_1(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unwell = HEALTH.model_copy(update={"status": "degraded", "problems": ["the store accepts no rows: disk full"]})
    monkeypatch.setitem(ANSWERS, "/v1/health", unwell.model_dump_json())
    result = call("health", url=url)
    assert result.exit_code == 1 and "problem: the store accepts no rows: disk full" in result.output


def test_notices_are_shown_and_exit_code_0(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drained = HEALTH.model_copy(update={"notices": ["node n1:1 takes no queueable containers, as ordered: new disk"]})
    monkeypatch.setitem(ANSWERS, "/v1/health", drained.model_dump_json())
    result = call("health", url=url)
    assert result.exit_code == 0 and "notice: node n1:1 takes no queueable containers, as ordered" in result.output


def test_what_is_unknown_is_one_line_and_exit_code_1(url: str) -> None:
    result = call("app", "show", "application_9", url=url)
    assert result.exit_code == 1
    assert result.stderr == f"quicksilver: error: {url}/v1/applications/application_9: there is no such thing\n"
    assert result.stdout == ""


def test_a_proxy_that_is_not_there_is_one_line_with_a_remedy() -> None:
    result = call("node", "list", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "quicksilver: error: http://127.0.0.1:9/v1/nodes: connection refused; start the proxy"
    )
    assert result.stderr.count("\n") == 1


def test_another_server_is_recognised(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWERS, "/v1/nodes", "<html>")
    assert "instead of JSON; is this the proxy's REST address?" in call("node", "list", url=url).stderr


def test_help_lists_every_command_without_importing_it() -> None:
    code = (
        "import sys\nfrom quicksilver.cli import main\nsys.argv = ['quicksilver', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "unwanted = ('sqlalchemy', 'rm_proxy.cli.commands', 'quicksilver_lab.cluster.cli')\n"
        "print([name for name in sys.modules if name in unwanted])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name, lazy in COMMANDS.items():
        assert f"  {name} " in done.stdout and lazy.help in done.stdout


def test_a_command_of_a_missing_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = COMMANDS["bench"].__class__("no_such_package.cli", "bench", "x")
    monkeypatch.setitem(COMMANDS, "bench", gone)
    result = call("bench")
    assert result.exit_code == 1
    assert "quicksilver: error: `quicksilver bench` needs no_such_package, which is not installed" in result.stderr


def test_unknown_commands_and_the_version() -> None:
    assert call("nonsense").exit_code == 2
    assert call("--version").output.startswith("quicksilver, version ")


@pytest.mark.parametrize(
    ("settings", "error"),
    others_long(
        [
            ("proxy: {upstream: nowhere}\n", "quicksilver.yaml:1:19: proxy.upstream: "),
            ("proxy: {round_s: 0}\n", "quicksilver.yaml:1:18: proxy.round_s: "),
            ("proxy: {}\n", "proxy.upstream: not set, and there is no rm_conf_dir"),
            ("proxy: {upstream: 127.0.0.1:8030}\n", "the proxy would relay to itself"),
            ("proxy: {upstream: 127.0.0.1:9, store_url: nothing}\n", "proxy.store_url: not a database URL"),
            ("proxy: {upstream: 127.0.0.1:9, listen: 203.0.113.1:8030}\n", "203.0.113.1:8030: cannot listen: "),
        ],
        3,
    ),
)
def test_running_with_wrong_settings_is_one_line(tmp_path: Path, settings: str, error: str) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    (tmp_path / "quicksilver.yaml").write_text(settings)
    command = [
        sys.executable,
        "-m",
        "quicksilver",
        "proxy",
        "run",
        "--config",
        "quicksilver.yaml",
        "--conf-dir",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("quicksilver: error: ") and error in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1


def test_running_without_hadoops_configuration_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quicksilver", "proxy", "run", "--conf-dir", "gone"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("quicksilver: error: gone: no such directory; name the directory of the cluster")
    assert done.stderr.count("\n") == 1


def test_every_command_is_in_the_docs() -> None:
    page = (DOCS / "cli.md").read_text()
    assert [name for name in COMMANDS if f"`quicksilver {name}" not in page] == []
    groups = {group: getattr(rm_proxy.cli.commands, group) for group in ("node", "queue", "app", "decision", "proxy")}
    for group, commands in (groups | KEPT | {"estimate": rm_proxy.cli.estimates.estimate}).items():
        for verb in commands.commands:
            assert f"`quicksilver {group} {verb}" in page
