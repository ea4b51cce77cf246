from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.formats.front_matter import LINES_MAX, SKIMMED_LINES, BadFrontMatter, read, read_json, skim

LIMIT = 1 << 20


@pytest.mark.parametrize(
    "text",
    [
        "---\na: 1\nb:\n  c: x\n---\nbody\n",
        "\ufeff---\r\na: 1\r\nb:\r\n  c: x\r\n---\r\nbody\r\n",
        "--- yaml\na: 1\nb:\n  c: x\n---\nbody\n",
        '---json\n{"a": 1,\n"b": {"c":\n"x"}}\n---\nbody\n',
    ],
)
def test_fields_lines_and_body_are_read_in_every_layout(text):
    document = read(text.encode(), limit=LIMIT)

    assert document.fields == {"a": 1, "b": {"c": "x"}}
    assert (document.line("a"), document.line("b")) == (2, 3)
    assert document.line("nothing") in (1, 2)
    assert document.line("b", "c") in (3, 4)
    assert document.body == "body\n"
    assert text.replace("\r\n", "\n").split("\n")[document.body_line - 1] == "body"


def test_a_carriage_return_alone_stays_in_the_body():
    assert read(b"---\na: 1\n---\nprintf 'a\rb'\n", limit=LIMIT).body == "printf 'a\rb'\n"


@pytest.mark.parametrize(
    "text, line, problem",
    [
        (b"", 1, "must begin with a line ---"),
        (b"a: 1\n---\n", 1, "must begin with a line ---"),
        (b"---\na: 1\n", 1, "no end"),
        (b"---js\nprocess.exit()\n---\n", 1, "js"),
        (b"---\na: 1\na: 2\n---\n", 3, "twice"),
        (b'---json\n{"a": 1,\n"a": 2}\n---\n', 3, "twice"),
        (b"---json\n{\n---\n", 3, "Invalid JSON"),
        (b"---json\n" + b"[" * 100_000 + b"\n---\n", 2, "nested too deeply"),
        (b"---\n- a\n---\n", 2, "mapping"),
        (b"---\na: [\n---\n", 3, "front matter"),
        (b"---\na: !!python/object:os.system x\n---\n", 2, "tag"),
        (b"---\na: 1\nb: \xff\n---\n", 3, "not UTF-8: byte 0xff"),
        (b"---\n" + b"a" * LIMIT, 1, "larger than 1 MiB"),
    ],
)
def test_errors_are_reported_with_their_line(text, line, problem):
    with pytest.raises(BadFrontMatter) as caught:
        read(text, limit=LIMIT)

    assert problem in caught.value.message
    assert caught.value.line in (line, line - 1)


def test_a_json_file_has_only_fields():
    document = read_json(b'{"a": 1,\n "b": 2}', limit=LIMIT)

    assert (document.fields, document.line("b"), document.body) == ({"a": 1, "b": 2}, 2, "")
    with pytest.raises(BadFrontMatter, match="must be a JSON object"):
        read_json(b"[1]", limit=LIMIT)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: f"---\n{text}\n---\n".encode("utf-8", "replace")),
    )
)
def test_any_file_is_read_or_rejected(data):
    for reader in (read, read_json):
        with suppress(BadFrontMatter):
            assert isinstance(reader(data, limit=LIMIT).fields, dict)


@given(st.text(max_size=200))
def test_any_text_can_be_skimmed(text):
    fields = skim(f"---\n{text}\n---\nbody", ("title",), ("tags",))

    assert fields.body.endswith("body")
    assert set(fields.texts) <= {"title"}
    assert set(fields.lists) <= {"tags"}


@pytest.mark.parametrize(
    "text", ["a: 1\n", "---\na: 1\n", "--- yaml\na: 1\n---\n", "---\n" + "\n" * SKIMMED_LINES + "---\n"]
)
def test_a_file_without_front_matter_is_all_body(text):
    assert skim(text, ("a",), ()) == ({}, {}, text)


def test_only_the_first_keys_of_a_json_file_have_a_line():
    """Each is looked for in the whole text."""
    document = read_json(json.dumps({f"k{number}": 1 for number in range(1000)}).encode(), limit=LIMIT)

    assert len(document.fields) == 1000
    assert len(document.lines) == LINES_MAX
