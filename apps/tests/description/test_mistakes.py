"""Broken descriptions: each one gives one line with file, line, place, mistake and remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from apps.tests.description.examples import SMALL, SPARK
from quicksilver_apps.description.document import MAX_BYTES, MAX_CHARACTERS
from quicksilver_apps.description.mistakes import MAX_LINES, DescriptionError
from quicksilver_apps.description.reader import from_data, parse, read

GIVEN: Final = {"input": "in"}
BROKEN: Final = (
    (
        "a tab",
        "  - name: worker",
        "\t- name: worker",
        "30: syntax: a tab indents this line; use spaces",
    ),
    (
        "an open bracket",
        "labels: {team: data}",
        "labels: {team: data",
        "9: syntax: is no YAML: while parsing a flow mapping, expected ',' or '}', but got ':'; check "
        "indentation, colons and quotes there",
    ),
    (
        "no indentation",
        "    command: spark/sbin/worker",
        "  command: spark/sbin/worker",
        "33: syntax: is no YAML: while parsing a block collection, expected <block end>, but found '?'; "
        "check indentation, colons and quotes there",
    ),
    (
        "two documents",
        "name: spark\n",
        "name: spark\n---\n",
        "3: syntax: is no YAML: expected a single document in the stream, but found another document; "
        "check indentation, colons and quotes there",
    ),
    (
        "a colon in plain text",
        "Spark, standalone",
        "Spark: standalone",
        "3: syntax: is no YAML: mapping values are not allowed here; check indentation, colons and quotes there",
    ),
    (
        "a key twice",
        "priority: 3",
        "priority: 3\npriority: 4",
        "7: priority: is there twice, first in line 6; keep one",
    ),
    (
        "a list as key",
        "priority: 3",
        "[a]: 3",
        "6: ?: a key is no text; write `key: value`",
    ),
    (
        "an unknown key",
        "priority: 3",
        "prioritty: 3",
        "6: prioritty: unknown key; write priority",
    ),
    (
        "an unknown key of a service",
        "elastic: $",
        "elastics: $",
        "32: services[1].elastics: unknown key; write elastic",
    ),
    (
        "an unknown key, close to none",
        "priority: 3",
        "zzz: 3",
        "6: zzz: unknown key; choose one of version, name, title, class, queue, priority, expected_s, "
        "labels, parameters, environment, files, services, master, attempts, idle_s",
    ),
    (
        "a memory size",
        "{memory_mb: 512}",
        "{memory: 2g}",
        "45: services[2].resources.memory: unknown key; write `memory_mb: 2048`",
    ),
    (
        "a memory size in MB",
        "{memory_mb: 512}",
        "{memory_mb: 2 GB}",
        "45: services[2].resources.memory_mb: must be a whole number, got '2 GB'; write 2048, in MB",
    ),
    (
        "a quoted number",
        "core: 1\n    elastic",
        "core: '1'\n    elastic",
        "31: services[1].core: must be a whole number, got '1'; write digits alone, such as 2",
    ),
    (
        "a fraction",
        "priority: 3",
        "priority: 3.5",
        "6: priority: must be a whole number, got 3.5; write digits alone, such as 2",
    ),
    (
        "text for a time",
        "expected_s: 600",
        "expected_s: 10 minutes",
        "7: expected_s: must be a number, got '10 minutes'; write a number such as 1.5",
    ),
    (
        "a time of nothing",
        "expected_s: 600",
        "expected_s: 0",
        "7: expected_s: must be more than 0, got 0; choose a value of the range > 0",
    ),
    (
        "an infinite time",
        "expected_s: 600",
        "expected_s: .inf",
        "7: expected_s: is no finite number; write a number",
    ),
    (
        "a negative count",
        "core: 1\n    elastic",
        "core: -1\n    elastic",
        "31: services[1].core: must be at least 0, got -1; choose a value of the range 0..100000",
    ),
    (
        "no memory at all",
        "memory_mb: 2048",
        "memory_mb: 0",
        "35: services[1].resources.memory_mb: must be at least 1, got 0; choose a value of the range 1..1e+07",
    ),
    (
        "a number as text",
        "LANG: C.UTF-8",
        "LANG: 8",
        "15: environment.LANG: must be text, got 8; put quotes around it",
    ),
    (
        "text for true",
        "main: true",
        "main: 'yes'",
        "48: services[2].main: must be true or false, got 'yes'; write true or false without quotes",
    ),
    (
        "text for a list",
        "after: [master]",
        "after: master",
        "40: services[1].after: must be a list, got 'master'; write [a, b], or one `- item` a line",
    ),
    (
        "a list for a mapping",
        "resources: {memory_mb: 512}",
        "resources: [512]",
        "45: services[2].resources: must be a mapping, got [512]; write `key: value` lines below it",
    ),
    (
        "nothing for text",
        "queue: root.lab",
        "queue:",
        "6: queue: must be text, got nothing; write one, or remove the key",
    ),
    (
        "a mapping for text",
        "queue: root.lab",
        "queue: {a: b}",
        '5: queue: must be text, got {"a": "b"}; write plain text',
    ),
    (
        "a class that is none",
        "class: interactive",
        "class: interactiv",
        "4: class: must be batch or interactive, got 'interactiv'; write interactive",
    ),
    (
        "a restart policy that is none",
        "policy: always",
        "policy: on-fail",
        "29: services[0].restart.policy: must be never or on-failure or always, got 'on-fail'; write on-failure",
    ),
    (
        "a kind of file that is none",
        "kind: archive",
        "kind: zip",
        "19: files[0].kind: must be file or archive, got 'zip'; choose one of file, archive",
    ),
    (
        "no version",
        "version: 1\n",
        "",
        "1: version: is missing; add `version: 1`: version of this format",
    ),
    (
        "a newer version",
        "version: 1",
        "version: 2",
        "1: version: 2 is newer than this program, which reads versions up to 1; update quicksilver, or "
        "write the description in an older version",
    ),
    (
        "an older version than any",
        "version: 1",
        "version: 0",
        "1: version: there is no version 0; write `version: 1`",
    ),
    (
        "a version as text",
        "version: 1",
        "version: '1'",
        "1: version: must be a whole number, got '1'; write `version: 1`",
    ),
    (
        "no name",
        "name: spark\n",
        "",
        "1: name: is missing; add `name: ...`: name of the YARN application",
    ),
    (
        "no command",
        "    command: spark/sbin/worker.sh $MASTER_HOST\n",
        "",
        "30: services[1].command: is missing; add `command: ...`: shell command",
    ),
    (
        "an empty command",
        "command: spark/sbin/worker.sh $MASTER_HOST",
        "command: ''",
        "33: services[1].command: is empty; write it: shell command",
    ),
    (
        "no memory",
        "{memory_mb: 512}",
        "{vcores: 1}",
        "45: services[2].resources.memory_mb: is missing; "
        "add `memory_mb: 1024`: memory of its container, which YARN rounds up to its own step",
    ),
    (
        "a name with capitals",
        "name: spark\n",
        "name: Spark\n",
        "2: name: 'Spark' is no valid name; begin with a small letter; then come small letters, digits or "
        "-, 40 characters at most",
    ),
    (
        "a name of a port with a blank",
        "{name: rpc}",
        "{name: r p c}",
        "26: services[0].ports[0].name: 'r p c' is no valid name; begin with a small letter; then come "
        "small letters, digits or -, 40 characters at most",
    ),
    (
        "a variable with a minus",
        "LANG: C",
        "LA-NG: C",
        "15: environment.LA-NG: 'LA-NG' is no valid name; write letters, digits and _ alone, not a digit first",
    ),
    (
        "a variable of ours",
        "LANG: C",
        "QUICKSILVER_LANG: C",
        "15: environment.QUICKSILVER_LANG: is set by the application master, as all of QUICKSILVER_*; "
        "choose another name",
    ),
    (
        "a long title",
        "title: Spark",
        "title: " + "Spark" * 41,
        "3: title: has more than 200 characters; shorten it",
    ),
    (
        "a service twice",
        "  - name: job",
        "  - name: worker",
        "42: services[2].name: 'worker' is there twice, first as services[1].name; rename or remove one",
    ),
    (
        "an unknown service in after",
        "after: [master]",
        "after: [mastr]",
        "40: services[1].after[0]: there is no service 'mastr'; name a service; did you mean master? "
        "known: master, worker, job",
    ),
    (
        "a circle",
        "ready: {port: rpc",
        "after: [job]\n    ready: {port: rpc",
        "48: services[2].after[0]: is a circle of starts: master after job after master; remove one of them",
    ),
    (
        "after itself",
        "after: [master]",
        "after: [worker]",
        "40: services[1].after[0]: is a circle of starts: worker after worker; remove one of them",
    ),
    (
        "after twice",
        "after: [master, worker]",
        "after: [master, master]",
        "47: services[2].after[1]: 'master' is there twice, first as services[2].after[0]; rename or remove one",
    ),
    (
        "after a service without core",
        "core: 1\n    elastic",
        "elastic",
        "46: services[2].after[1]: 'worker' has no core instance that could be ready; give it `core: 1`, "
        "or remove it here",
    ),
    (
        "an unknown port",
        "ready: {port: rpc",
        "ready: {port: rcp",
        "28: services[0].ready.port: 'rcp' is no port of service 'master'; name one of its ports; did you "
        "mean rpc? known: rpc, web",
    ),
    (
        "a port twice",
        "{name: web",
        "{name: rpc",
        "27: services[0].ports[1].name: 'rpc' is there twice, first as services[0].ports[0].name; rename or remove one",
    ),
    (
        "a port number twice",
        "{name: rpc}",
        "{name: rpc, number: 8080}",
        "27: services[0].ports[1].number: '8080' is there twice, first as services[0].ports[0].number; "
        "rename or remove one",
    ),
    (
        "a port number too large",
        "number: 8080",
        "number: 80800",
        "27: services[0].ports[1].number: must be at most 65535, got 80800; choose a value of the range 0..65535",
    ),
    (
        "a broken regular expression",
        '"started in [0-9]+ s"',
        '"started in [0-9+ s"',
        "46: services[2].ready.log: is no regular expression: unterminated character set at position 11; "
        "mend it; characters such as ( [ * . need a \\ before them to stand for themselves",
    ),
    (
        "a service without instances",
        "core: 1\n    command: python3",
        "core: 0\n    command: python3",
        "42: services[2]: has no instances; give it `core` or `elastic` of at least 1",
    ),
    (
        "a link to a file",
        "link: http/jobs",
        "link: file/jobs",
        "27: services[0].ports[1].link: 'file/jobs' is no link; write http or https, and a path if there "
        "is one, such as http/lab",
    ),
    (
        "main and always",
        "main: true",
        "main: true\n    restart: {policy: always}",
        "49: services[2].restart.policy: is `always` for a main service, whose end is that of the "
        "application; write `on-failure` or `never`",
    ),
    (
        "a rack without a slash",
        "[/rack1]",
        "[rack1]",
        "41: services[1].constraints.racks[0]: 'rack1' is no rack of YARN, which begins with /; write /rack1",
    ),
    (
        "a file twice",
        "    kind: archive",
        "    kind: archive\n  - {source: hdfs:///b/spark}",
        "20: files[1]: 'spark' is there twice, first as files[0].name; rename or remove one",
    ),
    (
        "a file that is not there",
        "hdfs:///apps/spark.tgz",
        "apps/spark.tgz",
        "17: files[0].source: there is no file /nowhere/apps/spark.tgz; correct the path, which begins at "
        "the folder of the description",
    ),
    (
        "a file name with a folder",
        "name: spark\n    kind",
        "name: a/spark\n    kind",
        "18: files[0].name: 'a/spark' cannot be the name of a file in the working directory; give it a "
        "`name` of letters, digits and _.+@=,~- without folders",
    ),
    (
        "an archive that is none",
        "spark.tgz",
        "spark.bin",
        "17: files[0].source: 'hdfs:///apps/spark.bin' is no archive that YARN unpacks; use one that ends "
        "in .zip, .tar.gz, .tgz, .tar, .jar, or `kind: file`",
    ),
    (
        "an unknown parameter",
        "${parameters.verbose}",
        "${parameters.verbos}",
        "44: services[2].command: ${parameters.verbos} is no parameter of this description; write "
        "${parameters.verbose}",
    ),
    (
        "a parameter not described",
        "${parameters.verbose}",
        "${parameters.other}",
        "44: services[2].command: ${parameters.other} is no parameter of this description; describe it "
        "below the key `parameters`",
    ),
    (
        "a misspelt reference",
        "${parameters.verbose}",
        "${param.verbose}",
        "44: services[2].command: ${param.verbose} is no reference; write ${parameters.verbose}",
    ),
    (
        "an open reference",
        "${parameters.verbose}",
        "${parameters.verbose",
        "44: services[2].command: '${parameters.verbose' has no }; write ${parameters.NAME}",
    ),
    (
        "a parameter in a key",
        "LANG: C.UTF-8",
        "${parameters.input}: C.UTF-8",
        "15: environment.${parameters.input}: a key refers to a parameter; write the key itself",
    ),
    (
        "a default of another type",
        "default: 0.5",
        "default: half",
        "12: parameters.share.default: must be a number, as `type` says; change it, or `type`",
    ),
    (
        "a default beside the choices",
        "default: 3",
        "default: 4",
        "10: parameters.workers.default: is none of the choices; write 1 or 3 or 9",
    ),
    (
        "a choice of another type",
        "[1, 3, 9]",
        "[1, 3, 9.5]",
        "10: parameters.workers.choices[2]: must be a whole number, as `type` says; change it, or `type`",
    ),
    (
        "a type that is none",
        "type: boolean",
        "type: bool",
        "13: parameters.verbose.type: must be string or integer or number or boolean, got 'bool'; write boolean",
    ),
    (
        "a default that is a list",
        "default: 0.5",
        "default: [0.5]",
        "12: parameters.share.default: must be text, a number, true or false, got [0.5]; write one of these",
    ),
    (
        "a name of a parameter",
        "  share: ",
        "  Share: ",
        "12: parameters.Share: 'Share' is no valid name; begin with a small letter; then come small "
        "letters, digits or -, 40 characters at most",
    ),
    (
        "a YAML type",
        "queue: root.lab",
        "queue: !!python/name:os.system x",
        "5: queue: has the YAML type !!python/name:os.system; write text, a number, true or false",
    ),
    (
        "a value that is no number",
        "priority: 3",
        "priority: !!int x",
        "6: priority: 'x' is no int; put quotes around it",
    ),
    (
        "a NUL",
        "queue: root.lab",
        'queue: "a\\0b"',
        "5: queue: holds a NUL character; remove it",
    ),
    (
        "half of a character",
        "queue: root.lab",
        'queue: "\\ud800"',
        "5: queue: holds half of a character (a lone surrogate); write the character itself",
    ),
    (
        "merge of text",
        "LANG: C.UTF-8",
        "<<: text",
        "15: environment: has `<<` of something that is no mapping; name a mapping's alias",
    ),
)
"""What is wrong, the text of SPARK that is replaced once, what replaces it, and the error behind the file's name."""


def error_of(text: str, name: str = "app.yaml", folder: Path | None = None) -> str:
    with pytest.raises(DescriptionError) as caught:
        parse(text, name, GIVEN, folder)
    return str(caught.value)


@pytest.mark.parametrize(("old", "new", "expected"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_description_gives_one_clear_error(old: str, new: str, expected: str) -> None:
    assert old in SPARK
    assert error_of(SPARK.replace(old, new, 1), folder=Path("/nowhere")) == f"app.yaml:{expected}"


def test_there_are_enough_broken_ones() -> None:
    assert len(BROKEN) >= 40
    assert len({case[3] for case in BROKEN}) == len(BROKEN)


def test_all_mistakes_are_in_one_error_in_the_order_of_the_file() -> None:
    text = SPARK.replace("core: 1\n    elastic", "core: x\n    elastic").replace("port: rpc", "port: rcp")
    text = text.replace("priority: 3", "prioritty: 3")
    assert [line.split(": ")[:2] for line in error_of(text).splitlines()] == [
        ["app.yaml:6", "prioritty"],
        ["app.yaml:28", "services[0].ready.port"],
        ["app.yaml:31", "services[1].core"],
    ]


def test_an_error_has_twenty_lines_at_most() -> None:
    text = SMALL + "environment:\n" + "".join(f"  V{number}: {number}\n" for number in range(50))
    with pytest.raises(DescriptionError) as caught:
        parse(text, "app.yaml")
    assert len(caught.value.lines) == MAX_LINES
    assert caught.value.lines[-1] == "app.yaml: 31 more mistakes; mend these first"
    assert len(caught.value.mistakes) == 50


def test_no_service_has_a_core_instance() -> None:
    text = SMALL.replace("core: 1", "elastic: 1")
    expected = "app.yaml:3: services: no service has a core instance; give one of them `core: 1`"
    with pytest.raises(DescriptionError, match="no service") as caught:
        parse(text, "app.yaml")
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("", "app.yaml", "app.yaml:1: description: is empty; begin with `version: 1`"),
        ("# only a comment\n", "app.yaml", "app.yaml:1: description: is empty; begin with `version: 1`"),
        ("42", "app.yaml", "app.yaml:1: description: must be a mapping; begin with `version: 1`; keys: version, name"),
        ("[a, b]", "app.json", "app.json:1: syntax: is no JSON: expecting value; check commas, quotes and brackets"),
        ('{\n\t"version": 1\n"name": 2}', "a.json", "a.json:3: syntax: is no JSON: expecting ',' delimiter; check"),
        ('{\n\t"version": 1,\n\t"version": 1}', "a.json", "a.json:1: name: is missing"),
        ('{"version": ' + "9" * 5000 + "}", "a.json", "a.json:1: syntax: is no JSON: "),
        ("[" * 100_000, "a.json", "a.json: holds more than 30 levels; keep descriptions small; put data into files"),
        ("[" * 500, "a.yaml", "a.yaml: holds more than 30 levels; keep descriptions small; put data into files"),
        ("a: &a [*a]", "a.yaml", "a.yaml: holds more than 50000 values or 30 levels; remove aliases that are used"),
        ("a: &a {<<: *a}", "a.yaml", "a.yaml: holds more than"),
        ("x" * (MAX_BYTES + 1), "a.yaml", f"a.yaml: is larger than {MAX_BYTES} bytes; keep descriptions small"),
        ("a: \x01", "a.yaml", "a.yaml:1: syntax: is no YAML: "),
    ],
)
def test_a_text_that_is_no_description_gives_an_error_of_its_own(text: str, name: str, expected: str) -> None:
    assert error_of(text, name).startswith(expected)


def test_a_bomb_of_aliases_is_refused_before_it_expands() -> None:
    levels = "".join(
        f"{'bcdefghij'[at]}: &{'bcdefghij'[at]} [{', '.join(['*' + 'abcdefghi'[at]] * 9)}]\n" for at in range(9)
    )
    assert error_of(f"a: &a [x, x]\n{levels}").startswith("app.yaml: holds more than 50000 values")
    long_text = f"a: &a {'x' * 250_000}\nb: [{', '.join(['*a'] * 20)}]\n"
    assert error_of(long_text).startswith(f"app.yaml: holds more than {MAX_CHARACTERS} characters with all aliases")


def test_a_doubled_key_in_json_is_found_with_its_lines() -> None:
    text = '{\n\t"version": 1,\n\t"name": "a",\n\t"name": "b",\n"services": []}'
    assert error_of(text, "a.json").splitlines()[-2:] == [
        "a.json:4: name: is there twice, first in line 3; keep one",
        "a.json:5: services: is empty; write at least one entry",
    ]


def test_a_mistake_in_json_has_its_line() -> None:
    service = '{"name": "a", "core": 1, "command": "\\/b", "resources":\n{}}'
    text = f'{{\n\t"version": 1,\n\t"name": "a",\n\t"services": [\n\t\t{service}]}}'
    with pytest.raises(DescriptionError) as caught:
        parse(text, "a.json")
    assert (
        str(caught.value) == "a.json:5: services[0].resources.memory_mb: is missing; "
        "add `memory_mb: 1024`: memory of its container, which YARN rounds up to its own step"
    )


def test_data_of_an_api_has_places_without_lines() -> None:
    with pytest.raises(DescriptionError) as caught:
        from_data({"version": 1, "name": "a", "services": [{"name": "a", "core": 1, "command": "b"}]}, "request")
    assert str(caught.value).startswith("request: services[0].resources: is missing; add `resources: ...`")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing, folder, binary = tmp_path / "a.yaml", tmp_path, tmp_path / "b.yaml"
    binary.write_bytes(b"version: 1\nname: \xff\n")
    large = tmp_path / "c.yaml"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    ends = {
        missing: ": cannot be read: No such file or directory; name a file that can be read",
        folder: ": cannot be read: Is a directory; name a file that can be read",
        binary: ":2: syntax: is no UTF-8 text; save the file as UTF-8",
        large: f": is larger than {MAX_BYTES} bytes; keep descriptions small; put data into files",
    }
    for path, end in ends.items():
        with pytest.raises(DescriptionError) as caught:
            read(path)
        assert str(caught.value) == f"{path}{end}"


def test_a_folder_is_no_file_to_localise(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    with pytest.raises(DescriptionError) as caught:
        parse(f"{SMALL}files: [{{source: jars}}]\n", "app.yaml", folder=tmp_path)
    assert f"app.yaml:8: files[0].source: {tmp_path / 'jars'} is a folder; name a file" in str(caught.value)


def test_a_file_of_all_services_and_one_of_its_own_have_one_name() -> None:
    text = SMALL + "    files: [{source: hdfs:///b/x.jar}]\nfiles: [{source: hdfs:///a/x.jar}]\n"
    expected = "app.yaml:8: services[0].files[0]: 'x.jar' is there twice, first as files[0]; rename or remove one"
    with pytest.raises(DescriptionError) as caught:
        parse(text, "app.yaml")
    assert str(caught.value) == expected


def test_secrets_and_control_characters_do_not_reach_the_terminal() -> None:
    text = SMALL.replace("name: small", 'name: "http://u:secret@host\\e[1m"')
    with pytest.raises(DescriptionError) as caught:
        parse(text, "app.yaml")
    assert "secret" not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("{source: 'hdfs:///a/b c'}", "'b c' cannot be the name of a file in the working directory; give it a `name`"),
        ("{source: 'hdfs:///a/b#c'}", "'b#c' cannot be the name of a file in the working directory; give it a `name`"),
        ("{source: '..'}", "'..' cannot be the name of a file in the working directory; give it a `name`"),
        ("{source: ''}", "is empty; name a file"),
        ("{source: hdfs:/x, name: '$(x)'}", "'$(x)' cannot be the name of a file in the working directory"),
        ("{source: s3a://bucket/x}", "'s3a://bucket/x' is neither in HDFS nor a file that all nodes see; copy it"),
        ("{source: 'http://127.0.0.1:8390/v1'}", "is neither in HDFS nor a file that all nodes see; copy it to HDFS"),
        ("{source: 'local:/etc/passwd'}", "'local:/etc/passwd' is neither in HDFS nor a file that all nodes see"),
    ],
)
def test_names_of_files_are_those_that_a_start_script_can_hold(file: str, expected: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        parse(f"{SMALL}files: [{file}]\n", "app.yaml")
    (line,) = caught.value.lines
    assert line.startswith("app.yaml:8: files[0].") and expected in line


@pytest.mark.parametrize("queue", ['"a\\nb"', "a b", "'a,b'", '"a\\tb"'])
def test_a_queue_has_a_name_of_one_word(queue: str) -> None:
    with pytest.raises(
        DescriptionError, match=r"^app.yaml:8: queue: .* is no name of a queue; write it without spaces"
    ):
        parse(f"{SMALL}queue: {queue}\n", "app.yaml")


def test_files_of_hadoop_and_names_of_their_own_are_right() -> None:
    sources = ("hdfs:/a/b.jar", "HDFS://n/c.zip", "file:///opt/d", "hdfs:///e/x y")
    entries = ", ".join(f"{{source: '{source}', name: n{number}}}" for number, source in enumerate(sources))
    found = parse(f"{SMALL}files: [{entries}]\n", "app.yaml", folder=Path("/nowhere"))
    assert [file.name for file in found.files] == ["n0", "n1", "n2", "n3"]
