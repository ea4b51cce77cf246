"""YAML 1.2: values, errors and limits."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hilt.formats import yaml12
from hilt.formats.yaml12 import BadYaml, load, load_with_lines


@pytest.fixture(params=["C", "Python"])
def parser(request, monkeypatch):
    """Both parsers of PyYAML: the one in C, and the fallback in Python."""
    if request.param == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "text, value",
    [
        *((word, word) for word in ("yes", "no", "on", "off", "y", "N", "Yes", "NO", "tRUE", "nUll")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL", "# nothing", "---", "---\n...")),
        ("0755", 755),
        ("0o17", 15),
        ("0x1F", 31),
        ("-12", -12),
        ("+3", 3),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("-0x1F", "-0x1F"),
        ("12:30:45", "12:30:45"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.", 1.0),
        ("-.inf", -math.inf),
        ("2026-11-15", "2026-11-15"),
        ("2026-11-15T10:00:00Z", "2026-11-15T10:00:00Z"),
        ("=", "="),
        ("'0755'", "0755"),
        ('"true"', "true"),
        ("|\n  no\n", "no\n"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 0o17", 15),
        ("!!float 1", 1.0),
        ("!!seq [1]", [1]),
        ("!!map {a: 1}", {"a": 1}),
        ("{on: off, 1: 2}", {"on": "off", 1: 2}),
        ("Bash:ls.*", "Bash:ls.*"),
        ("'<<': 1", {"<<": 1}),
        ("\ufeffa: 1", {"a": 1}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    ],
)
def test_values_have_their_yaml_1_2_meaning(text, value):
    loaded = load(text, "f")

    assert (loaded, type(loaded)) == (value, type(value))


def test_nan_is_a_float():
    assert math.isnan(load(".nan", "f"))


def test_aliases_are_copies():
    loaded = load("a: &x [1]\nb: *x", "f")
    loaded["a"].append(2)

    assert loaded["b"] == [1]


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "text, line, column, reason",
    [
        ("a: 1\nb: 2\na: 3", 3, 1, "'a' occurs twice"),
        ("1: a\n0x1: b", 2, 1, "occurs twice"),
        ("x:\n  <<: {a: 1}", 2, 3, "merge keys"),
        ("? [a]\n: 1", 1, 3, "single value"),
        ("&x [a]: 1", 1, None, ""),
        ("a: &x [1]\n*x : 2", 2, 1, "single value"),
        ("a: !!python/object:os.system x", 1, 4, "tag"),
        ("a: !!timestamp 2026-11-15", 1, 4, "tag"),
        ("a: !!binary aGk=", 1, 4, "tag"),
        ("a: !own x", 1, 4, "tag"),
        ("!!set {a, b}", 1, 1, "tag"),
        ("!!int x", 1, 1, "int"),
        ("!!bool yes", 1, 1, "bool"),
        ("- 1\n---\n- 2", 2, 1, "one document"),
        ("a: &x [*x]", 1, 8, "*x"),
        ("a: *nothing", 1, 4, "*nothing"),
        ("- *\n", 1, None, ""),
        ("a: [", None, None, ""),
        ("a: b: c", 1, 5, "mapping values"),
        ("\t- a", 1, None, ""),
        ("a: \x00", 1, 4, ""),
        ("a: \ud800", 1, None, ""),
        ("a: 'x\u2028y'", 1, 6, "U+2028"),
        ("%YAML 3.0\n---\na", 1, None, ""),
    ],
)
def test_invalid_text_is_rejected_with_its_position(text, line, column, reason):
    with pytest.raises(BadYaml) as caught:
        load(text, "rules.yaml")

    assert caught.value.message.startswith(f"rules.yaml, line {caught.value.line}, column {caught.value.column}: ")
    assert reason in caught.value.message
    assert line in (None, caught.value.line)
    assert column in (None, caught.value.column)


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="lists in lists"),
        pytest.param("{a: " * 2000, id="mappings in mappings"),
        pytest.param("- " * 2000 + "x", id="compact lists"),
        pytest.param(bomb(9), id="aliases of aliases"),
        pytest.param("a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 80)), id="a deep alias"),
        pytest.param("- x\n" * (yaml12.MAX_NODES + 1), id="many values"),
        pytest.param("x" * (yaml12.MAX_CHARACTERS + 1), id="a long text"),
        pytest.param("9" * 5000, id="a long number"),
        pytest.param("!!float " + "9" * 900, id="a large number"),
    ],
)
def test_text_over_the_limits_is_rejected(text):
    with pytest.raises(BadYaml):
        load(text, "f")


def test_line_numbers_point_to_the_values():
    text = "# a comment\npermissions:\nallow:\n- Read\n- rule: Write\n  match:\n  - a\n"

    value, lines = load_with_lines(text, "f")

    assert value == {"permissions": None, "allow": ["Read", {"rule": "Write", "match": ["a"]}]}
    assert lines == {
        (): 2,
        ("permissions",): 2,
        ("allow",): 3,
        ("allow", 0): 4,
        ("allow", 1): 5,
        ("allow", 1, "rule"): 5,
        ("allow", 1, "match"): 6,
        ("allow", 1, "match", 0): 7,
    }


characters = st.characters(
    codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Zl", "Zp"], exclude_characters="\ufeff"
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(characters),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(characters, max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_json_values_are_read_unchanged(value):
    assert load(json.dumps(value, ensure_ascii=False), "f") == value


@given(st.text(alphabet=" \n\t-:[]{}&*!|>'\"%@,?#<~.0x1abe\\\u2028\x85\ud800é", max_size=60))
def test_any_text_is_a_value_or_rejected(text):
    with suppress(BadYaml):
        load(text, "f")
