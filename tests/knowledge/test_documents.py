from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.knowledge.documents import DESCRIPTION_CHARACTERS, TEXT_BYTES, TITLE_CHARACTERS, KnowledgeDocument, parse


def document(text: str, path: str = "kb/some-note.md") -> KnowledgeDocument:
    parsed = parse(text.encode(), path)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    "front,field,expected",
    [
        ("name: plain", "name", "plain"),
        ('name: "quoted: with colon"', "name", "quoted: with colon"),
        ("name: 'single'", "name", "single"),
        ("name: value # a comment", "name", "value"),
        ("Name: of any case", "name", "of any case"),
        ("title: A title", "title", "A title"),
        ("description: one line", "description", "one line"),
        ("description: >\n  folded\n  over lines", "description", "folded over lines"),
        ("description: |-\n  kept\n  lines\nname: x", "description", "kept lines"),
        ("description: begins\n  and goes on", "description", "begins and goes on"),
        ("tags: [a, 'b c', \"d\"]", "tags", ("a", "b c", "d")),
        ("tags: a, b", "tags", ("a", "b")),
        ("tags:\n  - a\n  - b", "tags", ("a", "b")),
        ("tags:\n- a\n- b\nname: x", "tags", ("a", "b")),
        ("tags: []", "tags", ()),
        ("keywords: [k]\naliases:\n  - other", "tags", ("other", "k")),
        ("source: notes.txt", "source", "notes.txt"),
        ("# comment\n\nname: after", "name", "after"),
        ("metadata:\n  name: inner\nname: outer", "name", "outer"),
        ("name: !!python/object/apply:os.system ['x']", "name", "!!python/object/apply:os.system ['x']"),
        ("name: &a [*a, *a]", "name", "&a [*a, *a]"),
    ],
)
def test_front_matter_fields_are_read(front, field, expected):
    assert getattr(document(f"---\n{front}\n---\nText.\n"), field) == expected


def test_windows_line_endings_and_a_byte_order_mark_do_not_matter():
    parsed = document("\ufeff---\r\nname: x\r\ndescription: y\r\n---\r\n# Title\r\n")

    assert (parsed.name, parsed.description, parsed.title) == ("x", "y", "Title")


@pytest.mark.parametrize(
    "text,title,description",
    [
        ("# Title\n\nFirst paragraph\ngoes on.\n\nSecond.\n", "Title", "First paragraph goes on."),
        ("no heading\n", "no heading", "no heading"),
        ("", "some-note", ""),
        ("---\nname: x\nnever closed\n", "---", "name: x never closed"),
        ("## Small\n\ntext\n# Large\n", "Large", "text"),
    ],
)
def test_without_front_matter_the_title_and_description_come_from_the_text(text, title, description):
    parsed = document(text)

    assert (parsed.title, parsed.description, parsed.purpose) == (title, description, "")


@pytest.mark.parametrize(
    "path,name", [("kb/some-note.md", "some-note"), ("skills/deploy/SKILL.md", "deploy"), ("a.b.txt", "a.b")]
)
def test_the_name_is_that_of_the_file_or_of_the_folder_of_a_skill(path, name):
    assert document("text", path).name == name


def test_a_binary_file_is_not_a_document():
    assert parse(b"\x7fELF\0\0", "x.md") is None


@given(
    data=st.binary(max_size=400)
    | st.text(max_size=400).map(lambda text: f"---\n{text}\n---\n{text}".encode("utf-8", "replace"))
)
def test_any_bytes_give_short_printable_lines_or_no_document(data):
    parsed = parse(data, "kb/x.md")

    if parsed is not None:
        assert len(parsed.title) <= TITLE_CHARACTERS
        assert len(parsed.description) <= DESCRIPTION_CHARACTERS
        for line in (parsed.name, parsed.title, parsed.description, parsed.source, *parsed.tags):
            assert line.isprintable()
            line.encode()


def test_only_the_beginning_of_a_large_file_is_read():
    assert len(document("# Title\n" + "x" * 10_000_000).body) <= TEXT_BYTES
