"""Parameters: their values, their types, references, escapes; the shell's own variables stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.tests.description.examples import SPARK
from quicksilver_apps.description.mistakes import DescriptionError
from quicksilver_apps.description.reader import parse
from quicksilver_apps.description.templates import Value, command_line_values, escape, fill

PARAMETERS = {
    "n": {"type": "integer"},
    "x": {"type": "number", "default": 1.5},
    "yes": {"type": "boolean", "default": True},
    "who": {"default": "me", "choices": ["me", "you"]},
}


def filled(text: str, **values: Value) -> Any:
    return fill({"parameters": PARAMETERS, "value": text}, {"n": 3, **values})["value"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${parameters.n}", 3),
        ("${parameters.x}", 1.5),
        ("${parameters.yes}", True),
        ("${parameters.who}", "me"),
        ("n is ${parameters.n}, x ${parameters.x}, ${parameters.yes}", "n is 3, x 1.5, true"),
        (" ${parameters.n}", " 3"),
        ("$${parameters.n}", "${parameters.n}"),
        ("$$${parameters.n}", "$${parameters.n}"),
        ("$PORT_WEB ${HOME} ${HOME:-x} $$ $${HOME} $(ls) ${#a} ${a.b} $", None),
        ("${parameters} ${PARAMETERS.n}", None),
        ("${sys:java.io.tmpdir} ${spark.home}", None),
    ],
)
def test_a_reference_becomes_the_value_and_the_rest_is_the_shells(text: str, expected: Value | None) -> None:
    if "PARAMETERS" in text:  # it means a parameter, probably
        with pytest.raises(DescriptionError, match="is no reference"):
            filled(text)
        return
    found = filled(text)
    assert found == (text if expected is None else expected)
    assert type(found) is type(text if expected is None else expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"n": "7"}, 7),
        ({"n": 7}, 7),
        ({"n": " 7"}, 7),
    ],
)
def test_text_of_the_command_line_becomes_the_type(values: dict[str, Value], expected: Value) -> None:
    assert filled("${parameters.n}", **values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"n": "7.5"}, "parameters.n: must be a whole number, got '7.5'; give a whole number"),
        ({"n": True}, "parameters.n: must be a whole number, got 'True'; give a whole number"),
        ({"n": ""}, "parameters.n: must be a whole number, got ''; give a whole number"),
        ({"x": "NaN"}, "parameters.x: must be a number, got 'NaN'; give a number"),
        ({"x": "Infinity"}, "parameters.x: must be a number, got 'Infinity'; give a number"),
        ({"yes": "yes"}, "parameters.yes: must be true or false, got 'yes'; give true or false"),
        ({"who": "them"}, "parameters.who: 'them' is none of the choices; give me or you"),
        ({"who": 3}, "parameters.who: must be text, got '3'; give me or you"),
        ({"m": "1"}, "parameters: there is no parameter 'm'; remove it; known: n, x, yes, who"),
        ({"who": "a\0"}, "parameters.who: has a value with a NUL or half of a character; give me or you"),
        ({"who": "x" * 10_001}, "parameters.who: has a value of more than 10000 characters; give me or you"),
    ],
)
def test_a_wrong_value_is_one_mistake_at_its_parameter(values: dict[str, Value], expected: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        filled("${parameters.n} ${parameters.x} ${parameters.yes} ${parameters.who}", **values)
    assert str(caught.value) == f"description: {expected}"


def test_a_missing_value_is_a_mistake_at_the_line_of_the_parameter() -> None:
    expected = "app.yaml:11: parameters.input: has no value; give it with `--set input=VALUE`, or add a default"
    with pytest.raises(DescriptionError) as caught:
        parse(SPARK, "app.yaml")
    assert str(caught.value) == expected


def test_a_wrong_value_is_not_reported_again_where_it_is_used() -> None:
    with pytest.raises(DescriptionError) as caught:
        parse(SPARK, "app.yaml", {"input": "in", "workers": "many"})
    assert str(caught.value) == "app.yaml:10: parameters.workers: must be a whole number, got 'many'; give 1 or 3 or 9"


def test_a_mistake_by_a_value_has_the_line_of_the_reference() -> None:
    text = SPARK.replace("choices: [1, 3, 9], ", "")
    with pytest.raises(DescriptionError) as caught:
        parse(text, "app.yaml", {"input": "in", "workers": -1})
    assert str(caught.value).startswith("app.yaml:32: services[1].elastic: must be at least 0, got -1")


def test_a_number_becomes_text_where_text_is_wanted() -> None:
    found = parse(SPARK, "app.yaml", {"input": "in"})
    assert found.services[1].environment == {"WORKERS": "3", "SHARE": "at 0.5"}
    assert found.services[0].command == "spark/sbin/master.sh -p $PORT_RPC ${HOME} ${parameters.input}"


def test_values_cannot_make_a_description_grow_without_bound() -> None:
    data = {"parameters": {"a": {}}, "values": ["${parameters.a}" * 10] * 100}
    with pytest.raises(
        DescriptionError, match="makes more than 4194304 characters with its values; give shorter values"
    ):
        fill(data, {"a": "x" * 10_000})


def test_values_of_the_command_line() -> None:
    assert command_line_values(["a=1", "b=x=y", "c=", "a=2"]) == {"a": "2", "b": "x=y", "c": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(DescriptionError, match="is no NAME=VALUE; write --set NAME=VALUE"):
            command_line_values([wrong])


@given(st.text(alphabet="${}parmetsn. \\", max_size=60))
def test_what_is_escaped_is_left_as_it_was(text: str) -> None:
    before = text.replace("$${parameters.", "")
    assert filled(escape(before)) == before or "$${parameters." in before
