from __future__ import annotations

from typing import Any

import pytest
import strictyaml  # type: ignore[import-untyped]
from hypothesis import example, given, reject
from hypothesis import strategies as st

from hilt.formats.strict_yaml import MAX_CHARACTERS, MAX_DEPTH, NOT_A_STRING, BadStrictYaml, load

# pieces that can break every rule of the format
PIECES = (
    *("name", "description", "metadata", "a", "b", "é", "null", "~", "12:30", "0o7", "=", "<<"),
    *(": ", ":", " : ", "::", " ", "  ", "\n", "\n\n", "\n  ", "\n    ", "\t", "- ", "-", "? ", "?", "#", " # c"),
    *("'", '"', "''", '""', "|\n", ">\n", ">-\n", "|2\n", "|+\n", "|", ">", "\\", "\\n", "\\x41", "\\u2028"),
    *("&a ", "*a", "!t ", "!!str ", "!", "&", "*", "{", "}", "[", "]", ",", "%", "@", "`", "%YAML 1.1\n", "...\n"),
    *("\x85", "\u2028", "\u00a0", "\ufeff", "\x07"),
    *("name: x\n", "description: y z\n", "\n  k: v", "\n    k2: v2", "<<: x\n", "<<: \n  a: b\n", "- a\n", "  - b\n"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def reference(text: str) -> Any:
    """Return the mapping that the reference reads, or None if it rejects the text or crashes."""
    try:
        return plain(strictyaml.load(text).data)
    except NotImplementedError:
        reject()  # it fails on comments that it generated
    except Exception:  # noqa: BLE001
        return None


def ours(text: str) -> Any:
    try:
        return plain(load(text))
    except BadStrictYaml:
        return None


def plain(value: Any) -> Any:
    """Return a mapping as plain values; None for any other document, which is not front matter."""
    return _plain(value) if isinstance(value, dict) else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str) else "not a string"


@given(TEXTS, st.booleans())
@example("<<: \n  a: b\n<<: \n  a: b\n", False)
@example("a: b\n...\n...\n", False)
@example("a:\n\n\n\tb", False)
@example("a: b\n\n\tc", False)
@example("a: # c\n\n\tb", False)
@example("a: =\nb: <<\nc: '='\n", False)
@example("a:\n  b: c\nd:\n    e: f\n", False)
@example("a: x\x85y\n\u2028z", False)
def test_every_text_is_read_as_the_reference_reads_it(text, is_skill):
    text = f"\nname: x\ndescription: y\n{text}" if is_skill else text

    assert ours(text) == reference(text)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("a: [b]", "flow style"),
        ("a: {b: c}", "flow style"),
        ("a: &x b", "anchors"),
        ("a: *x", "aliases"),
        ("a: !!str b", "tags"),
        ("a: b\na: c", "occurs twice"),
        ("a: b\n...\nc: d\n", "second document"),
        ("? - a\n: b", "key must be a string"),
        ("a:\n  b: c\nd:\n    e: f\n", "indentation"),
        ("a: b: c", "mapping values"),
        ("a: \x07", "special characters"),
    ],
)
def test_rejected_text_has_the_right_reason(text, reason):
    with pytest.raises(BadStrictYaml) as caught:
        load(text)

    assert reason in caught.value.message


def test_an_error_names_its_line():
    with pytest.raises(BadStrictYaml) as caught:
        load("\nname: x\ndescription: [y]\n")

    assert caught.value.line == 3


def test_every_scalar_except_two_is_a_string():
    text = "a: 1\nb: yes\nc: null\nd: 2020-01-01\ne:\nf: '='\n"

    assert load(text) == {"a": "1", "b": "yes", "c": "null", "d": "2020-01-01", "e": "", "f": "="}
    assert load("a: =\nb:\n- <<\n") == {"a": NOT_A_STRING, "b": [NOT_A_STRING]}


def test_depth_and_size_are_limited():
    def nested(depth: int) -> str:
        return "".join(f"{' ' * level}k:\n" for level in range(depth)) + f"{' ' * depth}z: 1\n"

    assert load(nested(MAX_DEPTH - 1))
    for text in (nested(MAX_DEPTH), "a: " + "x" * MAX_CHARACTERS, "- " * 10_000):
        with pytest.raises(BadStrictYaml):
            load(text)


def test_empty_lines_and_tabs_are_skipped_in_linear_time():
    """The square of this length would take hours."""
    text = "\n\n\t" * 40_000 + "\n" * 100_000 + "\t"

    assert load(text + "b: 2") == {"b": "2"}
