from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hilt.formats.jsonc import NotEditable, parse, with_member, without_member

PATH = ("mcpServers", "hilt")
VALUE = {"command": "/bin/hilt", "args": ["mcp"]}

SETTINGS = """\
// settings of an editor
{
    "theme": "dark", // not light
    /* servers */
    "mcpServers": {
        "other": { "command": "x, y" }, // "mcpServers": {
    },
    "url": "https://example.com//path",
}
"""


def test_a_member_is_added_in_the_style_of_the_file_and_the_rest_stays():
    assert with_member(SETTINGS, PATH, VALUE) == SETTINGS.replace(
        '"x, y" }, // "mcpServers": {\n',
        '"x, y" },\n'
        '        "hilt": {\n'
        '            "command": "/bin/hilt",\n'
        '            "args": [\n'
        '                "mcp"\n'
        "            ]\n"
        '        }, // "mcpServers": {\n',
    )


@pytest.mark.parametrize(
    "before, after",
    [
        ("", '{\n  "mcpServers": {\n    "hilt": 1\n  }\n}\n'),
        ("{}", '{\n  "mcpServers": {\n    "hilt": 1\n  }\n}'),
        ("{\n}\n", '{\n  "mcpServers": {\n    "hilt": 1\n  }\n}\n'),
        ('{"a":1}', '{"a":1, "mcpServers": {\n    "hilt": 1\n  }}'),
        ('{\n\t"a": [1,2]\n}\n', '{\n\t"a": [1,2],\n\t"mcpServers": {\n\t\t"hilt": 1\n\t}\n}\n'),
        ('{\r\n  "a": 1\r\n}\r\n', '{\r\n  "a": 1,\r\n  "mcpServers": {\r\n    "hilt": 1\r\n  }\r\n}\r\n'),
        ('{"mcpServers": {"hilt": {"old": true}, "b": 2}}', '{"mcpServers": {"hilt": 1, "b": 2}}'),
        ('{\n  "a": 1 // one\n}', '{\n  "a": 1, // one\n  "mcpServers": {\n    "hilt": 1\n  }\n}'),
        (
            '{"mcpServers": {"a": 1 /* one */} /* all */\n}',
            '{"mcpServers": {"a": 1, "hilt": 1 /* one */} /* all */\n}',
        ),
        ("{ /* none */ }", '{\n  "mcpServers": {\n    "hilt": 1\n  } /* none */\n}'),
    ],
)
def test_a_member_is_set(before, after):
    assert with_member(before, PATH, 1) == after


@pytest.mark.parametrize(
    "before, after",
    [
        ('{"mcpServers": {"hilt": 1}}', '{"mcpServers": {}}'),
        ('{"mcpServers": {"hilt": 1, "b": 2}}', '{"mcpServers": {"b": 2}}'),
        ('{"mcpServers": {"b": 2, "hilt": 1}}', '{"mcpServers": {"b": 2}}'),
        ('{"mcpServers": {"b": 2, "hilt": 1,}}', '{"mcpServers": {"b": 2, }}'),
        ('{\n  "mcpServers": {\n    "hilt": {\n      "a": 1\n    }\n  }\n}\n', '{\n  "mcpServers": {}\n}\n'),
        ('{"mcpServers": {\n  // mine\n  "hilt": 1,\n  // theirs\n  "b": 2\n}}', '{"mcpServers": {\n  // mine\n  // theirs\n  "b": 2\n}}'),  # noqa: E501
        ('{"mcpServers": {\n  "b": 2, // theirs\n  "hilt": 1\n}}', '{"mcpServers": {\n  "b": 2 // theirs\n}}'),
        ('{"mcpServers": {"b": 2}}', '{"mcpServers": {"b": 2}}'),
        ('{"a": 1}', '{"a": 1}'),
        ("", ""),
    ],
)  # fmt: skip
def test_a_member_is_removed(before, after):
    assert without_member(before, PATH) == after


def test_removing_an_added_entry_restores_the_file():
    text = SETTINGS.replace('"x, y" }, //', '"x, y" } //')

    assert without_member(with_member(text, PATH, VALUE), PATH) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"hilt": {"args": ["mcp"], "command": "/bin/hilt"}}}',
        '{"a": 1, "mcpServers": {"hilt": {\n"command": "/bin\\/hilt", // mine\n "args": ["mcp",] } } }',
    ],
)
def test_an_existing_equal_member_keeps_its_formatting(text):
    assert with_member(text, PATH, VALUE) == text


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "1",
        "{",
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"mcpServers": {"hilt": 1, "hilt": 2}}',
        "{'mcpServers': {}}",
        "{" * 5000,
        '{"a": "\n"}',
        "/* no end {}",
        '{"a": 1} /* no end',
        '{"a": 1} /*/',
        '{"a": "no end',
        '{"a": "no end\\\\',
        "/*" * 200_000,
        "[" + '\\"' * 200_000,
    ],
)
def test_an_invalid_document_is_not_edited(text):
    with pytest.raises(NotEditable):
        with_member(text, PATH, VALUE)


def test_a_large_file_with_one_long_line_is_edited():
    text = json.dumps({"history": ["x, {} // \\" * 10] * 20_000, "mcpServers": {"other": 1}})

    edited = with_member(text, PATH, VALUE)

    assert json.loads(edited)["mcpServers"] == {"other": 1, "hilt": VALUE}
    assert without_member(edited, PATH) == text


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), values, max_size=4)
comments = st.sampled_from(["", " ", "\n", '// , } " {\n', '/* , " { */', "\n\t", "\r\n"])


def written(data, value):
    """Write a value with whitespace and comments anywhere, and sometimes a trailing comma."""
    gap = data.draw(comments)
    if isinstance(value, dict | list):
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        items = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
        parts = []
        for key, item in items:
            name = f"{json.dumps(key)}{data.draw(comments)}:" if key is not None else ""
            parts.append(f"{data.draw(comments)}{name}{written(data, item)}")
        extra = "," if parts and data.draw(st.booleans()) else ""
        return f"{gap}{opening}{','.join(parts)}{extra}{data.draw(comments)}{closing}{gap}"
    return f"{gap}{json.dumps(value)}{gap}"


@given(st.data(), objects, objects, st.booleans(), values)
def test_only_the_one_member_changes(data, outer, servers, nested, value):
    document = {**outer, **({"mcpServers": servers} if nested else {})}
    assume(nested or "mcpServers" not in outer)
    text = written(data, document)

    edited = with_member(text, PATH, value)

    assert parse(edited) == {**document, "mcpServers": {**document.get("mcpServers", {}), "hilt": value}}
    removed = without_member(edited, PATH)
    others = {key: item for key, item in document.get("mcpServers", {}).items() if key != "hilt"}
    assert parse(removed) == {**document, "mcpServers": others}
    for mark in ("//", "/*"):
        assert removed.count(mark) >= (text.count(mark) if "hilt" not in servers else 0)
