from __future__ import annotations

import os
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt import wire
from hilt.testing import temporary_runtime
from tests.tools.changes import DIFFABLE, ENCODED, git_apply, tree_bytes


def edit(runtime, path="a.txt", **args):
    return runtime.call("edit_file", path=path, **args)


def test_a_single_match_is_replaced(runtime, workspace):
    workspace.write("main.go", "package main\n\nfmt.Println(x)\n")

    result = edit(runtime, "main.go", old_text="fmt.Println", new_text="log.Println")

    assert workspace.read("main.go") == "package main\n\nlog.Println(x)\n"
    assert result.text == "edited main.go: lines 3-3 (1 line) replaced with 1 line"
    assert result.meta["edit"]["first_changed_line"] == 3
    assert result.meta["edit"]["diff"].startswith("--- a/main.go\n+++ b/main.go\n@@ ")
    assert result.view["type"] == "diff"


@pytest.mark.parametrize("name, before, old, new, after", ENCODED, ids=[case[0] for case in ENCODED])
def test_every_byte_outside_the_edit_is_preserved(runtime, workspace, name, before, old, new, after):
    workspace.write("a.txt", before)

    preview = edit(runtime, old_text=old, new_text=new, dry_run=True)
    assert workspace.bytes("a.txt") == before
    result = edit(runtime, old_text=old, new_text=new)
    assert workspace.bytes("a.txt") == after
    runtime.call("undo", action="restore", id=result.meta["undo"])

    assert workspace.bytes("a.txt") == before
    assert preview.text == result.meta["edit"]["diff"]
    wire.decode_value(wire.encode_result(preview))


@pytest.mark.starts_processes
@pytest.mark.parametrize("name, before, old, new, after", DIFFABLE, ids=[case[0] for case in DIFFABLE])
def test_a_dry_run_is_a_diff_that_git_applies_with_the_same_outcome(runtime, workspace, name, before, old, new, after):
    workspace.write("a.txt", before)

    preview = edit(runtime, old_text=old, new_text=new, dry_run=True)

    assert git_apply(workspace, preview.text) == {"a.txt": after}


@pytest.mark.starts_processes
@given(
    st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=8), min_size=1, max_size=12),  # noqa: E501
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r\n"), max_size=8),
)  # fmt: skip
def test_the_preview_of_any_edit_is_its_patch(tmp_path_factory, lines, ending, final, new):
    """For any text and edit, applying the preview with git gives the bytes of the real run."""
    text = ending.join(line.replace("\n", "").replace("\r", "") for line in lines)
    text = f"{text}{ending}UNIQUE{ending}{text}" + (ending if final else "")
    if new == "UNIQUE":
        return
    with temporary_runtime(str(tmp_path_factory.mktemp("w"))) as (runtime, workspace):
        workspace.write("a.txt", text)
        preview = edit(runtime, old_text="UNIQUE", new_text=new, dry_run=True)
        patched = git_apply(workspace, preview.text)
        assert edit(runtime, old_text="UNIQUE", new_text=new).ok
        assert patched == tree_bytes(workspace) == {"a.txt": text.replace("UNIQUE", new).encode()}


@pytest.mark.parametrize(
    "before, old, new, after",
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"x = 1  \ny = 2\n", "x = 1\ny = 2", "x = 3\ny = 4", b"x = 3\ny = 4\n"),
        ("say “hello”\n".encode(), 'say "hello"', "say bye", b"say bye\n"),
        ("a – b\n".encode(), "a - b", "a + b", b"a + b\n"),
        ("a\u00a0b\n".encode(), "a b", "c", b"c\n"),
    ],
)
def test_equivalent_spellings_still_match(runtime, workspace, before, old, new, after):
    workspace.write("a.txt", before)

    result = edit(runtime, old_text=old, new_text=new)

    assert result.ok, result.error
    assert workspace.bytes("a.txt") == after


def test_a_fuzzy_match_is_reported_and_must_be_unique(runtime, workspace):
    workspace.write("a.txt", "say “x”\nsay ‘y’\n")
    workspace.write("b.txt", "say “x”\nsay “x”\n")

    unique = edit(runtime, "a.txt", old_text='say "x"', new_text="done")
    two = edit(runtime, "b.txt", old_text='say "x"', new_text="done")

    assert unique.meta["edit"]["match"] == "fuzzy"
    assert "fuzzy" in unique.text
    assert (two.error.code, two.error.details["lines"]) == ("edit_not_unique", [1, 2])
    assert workspace.read("b.txt") == "say “x”\nsay “x”\n"


def test_fuzzy_indent_matches_another_indentation_and_keeps_it(runtime, workspace):
    workspace.write("a.py", "class A:\n        def f(self):\n            return 1\n")
    args = {"old_text": "def f(self):\n    return 1", "new_text": "def f(self):\n    x = 2\n    return x"}

    plain = edit(runtime, "a.py", **args)
    shifted = edit(runtime, "a.py", **args, fuzzy_indent=True)

    assert plain.error.code == "edit_not_found"
    assert "fuzzy_indent" in plain.error.suggestion
    assert shifted.ok
    assert workspace.read("a.py") == "class A:\n        def f(self):\n            x = 2\n            return x\n"


@pytest.mark.parametrize(
    "args, code, fragment",
    [
        ({"old_text": "", "new_text": "x"}, "old_text_empty", "old_text is empty"),
        ({"old_text": "gamma", "new_text": "x"}, "edit_not_found", "gamma"),
        ({"old_text": "a", "new_text": "x"}, "edit_not_unique", "occurs"),
        ({"old_text": "beta", "new_text": "beta"}, "edit_no_change", "equivalent"),
        ({"old_text": "be“ta", "new_text": "x"}, "edit_not_found", "a.txt"),
        ({"old_text": "beta"}, "invalid_args", "new_text"),
        ({"new_text": "beta"}, "invalid_args", "old_text"),
        ({"old_text": "beta", "new_text": None}, "invalid_args", "new_text must be a string"),
        ({"old_text": "beta", "new_text": 1}, "invalid_args", "new_text must be a string"),
        ({"old_string": "beta", "new_string": "x"}, "invalid_args", "old_string is not an argument"),
        ({"old_text": "beta", "new_text": "x", "show_context": -1}, "invalid_args", "show_context must be at least 0"),
        ({"old_text": "beta", "new_text": "x", "if_checksum": "00"}, "stale_file", "checksum"),
        ({"path": "nothing.txt", "old_text": "a", "new_text": "b"}, "file_not_found", "does not exist"),
        ({"path": "bin", "old_text": "a", "new_text": "b"}, "binary_file", "binary"),
        ({"path": "folder", "old_text": "a", "new_text": "b"}, "not_a_file", "folder"),
        ({"path": "link", "old_text": "beta", "new_text": "b"}, "not_a_file", "link"),
        ({"path": ".env", "old_text": "beta", "new_text": "b"}, "sensitive_path", "sensitive"),
        ({"path": "../x", "old_text": "beta", "new_text": "b"}, "path_outside_workspace", "outside"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why_and_changes_nothing(runtime, workspace, args, code, fragment):
    workspace.write("a.txt", "alpha\nbeta\ndelta\n")
    workspace.write("bin", b"a\0b")
    workspace.write("folder/x", "")
    workspace.write(".env", "beta")
    os.symlink("a.txt", workspace.join("link"))
    before = tree_bytes(workspace)

    error = runtime.call("edit_file", **{"path": "a.txt", **args}).error

    assert (error.code, bool(error.suggestion)) == (code, True)
    assert fragment in error.message
    assert tree_bytes(workspace) == before
    assert runtime.call("undo", action="list").data["count"] == 0


def test_an_empty_old_text_suggests_how_to_prepend(runtime, workspace):
    workspace.write("a.txt", "a\n")

    assert "first line" in edit(runtime, old_text="", new_text="x").error.suggestion


def test_the_nearest_line_is_reported_with_its_number(runtime, workspace):
    workspace.write("a.py", "import os\n\ndef compute_total(items):\n    return sum(items)\n")

    error = edit(runtime, "a.py", old_text="def compute_totals(item):", new_text="x").error

    assert (error.details["nearest_line"], error.details["nearest_text"]) == (3, "def compute_total(items):")
    assert "line 3" in error.message


def test_at_most_ten_matches_are_listed(runtime, workspace):
    workspace.write("a.txt", "x\n" * 25)

    error = edit(runtime, old_text="x", new_text="y").error

    assert error.details == {"lines": list(range(1, 11)), "count": 25}
    assert "25 times" in error.message


@pytest.mark.parametrize("old, new", [('say "x"', "say “x”"), ("a - b", "a – b")])
def test_texts_that_are_equal_after_normalising_are_rejected(runtime, workspace, old, new):
    workspace.write("a.txt", f"{new}\n")

    assert edit(runtime, old_text=old, new_text=old).error.code == "edit_no_change"
    assert workspace.read("a.txt") == f"{new}\n"


@pytest.mark.parametrize(
    "around, context",
    [
        (0, None),
        (1, "2 | two\n3*| NEW\n4*| LINES\n5 | four"),
        (9, "1 | one\n2 | two\n3*| NEW\n4*| LINES\n5 | four"),
    ],
)
def test_context_marks_the_changed_lines(runtime, workspace, around, context):
    workspace.write("a.txt", "one\ntwo\nthree\nfour\n")

    result = edit(runtime, old_text="three", new_text="NEW\nLINES", show_context=around)

    assert result.text.partition("\n--- context ---\n")[2] == (context or "")


def test_text_that_the_encoding_cannot_represent_is_rejected(runtime, workspace):
    data = "déjà vu, garçon\ntwo\n".encode("latin-1")
    workspace.write("a.txt", data)

    error = edit(runtime, old_text="two", new_text="日本").error

    assert (error.code, error.details["character"]) == ("encoding_error", "U+65E5")
    assert workspace.bytes("a.txt") == data


def test_deleting_and_editing_at_the_ends(runtime, workspace):
    workspace.write("a.txt", "first\nmiddle\nlast")

    assert edit(runtime, old_text="first\n", new_text="").ok
    assert edit(runtime, old_text="\nlast", new_text="").ok
    assert workspace.read("a.txt") == "middle"


def test_a_second_edit_needs_no_new_read(runtime, workspace):
    workspace.write("a.txt", "1\n")
    runtime.call("read_file", path="a.txt")

    assert edit(runtime, old_text="1", new_text="2").ok
    assert edit(runtime, old_text="2", new_text="3").ok
    workspace.write("a.txt", "3 changed\n")
    assert edit(runtime, old_text="3", new_text="4").error.code == "stale_file"


def test_a_matching_checksum_allows_the_edit(runtime, workspace):
    workspace.write("a.txt", "1\n")

    assert edit(runtime, old_text="1", new_text="2", if_checksum=sha256(b"1\n").hexdigest()).ok


def test_a_file_over_the_limit_is_edited_only_with_force(runtime, workspace):
    with open(workspace.join("big.txt"), "wb") as file:
        file.write(b"UNIQUE\n" + b"x" * (50 * 1024 * 1024))

    rejected = edit(runtime, "big.txt", old_text="UNIQUE", new_text="U")
    forced = edit(runtime, "big.txt", old_text="UNIQUE", new_text="U", force=True)

    assert (rejected.error.code, forced.ok) == ("file_too_large", True)
    with open(workspace.join("big.txt"), "rb") as file:
        assert file.read(5) == b"U\nxxx"


@pytest.mark.starts_processes
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("number", [1, 2, 60_000, 119_999, 120_000])
@pytest.mark.parametrize("new", ["changed", "two\nlines", "", "é\nü"])
def test_a_large_file_is_edited_like_a_small_one(runtime, workspace, ending, number, new):
    lines = [f"line number {count}" for count in range(1, 120_001)]
    workspace.write("a.txt", ending.join(lines) + ending)
    old = f"line number {number}{ending}"

    preview = edit(runtime, old_text=old, new_text=new + "\n", dry_run=True)
    result = edit(runtime, old_text=old, new_text=new + "\n")

    lines[number - 1] = new.replace("\n", ending)
    expected = (ending.join(lines) + ending).encode()
    assert workspace.bytes("a.txt") == expected
    assert result.meta["edit"]["first_changed_line"] == number
    runtime.call("undo", action="restore", id=result.meta["undo"])
    assert git_apply(workspace, preview.text) == {"a.txt": expected}


@pytest.mark.starts_processes
def test_several_edits_of_a_large_file_are_made_in_order(runtime, workspace):
    workspace.write("a.txt", "".join(f"line number {count}\n" for count in range(1, 120_001)))
    edits = [
        {"path": "a.txt", "old_text": "line number 100000\n", "new_text": "é first\n", "show_context": 1},
        {"path": "a.txt", "old_text": "é first\n", "new_text": "second\n"},
        {"path": "a.txt", "old_text": "line number 50000\n", "new_text": ""},
    ]

    preview = runtime.call("multi_edit", edits=edits, dry_run=True)
    patched = git_apply(workspace, preview.text)
    result = runtime.call("multi_edit", edits=edits)

    assert result.ok, result.error
    assert "100000*| é first" in result.text
    assert tree_bytes(workspace) == patched
    assert workspace.read("a.txt").count("\n") == 119_999


def test_errors_about_a_large_file_count_its_lines(runtime, workspace):
    workspace.write("a.txt", "".join(f"line number {count}\n" for count in range(1, 120_001)))

    many = edit(runtime, old_text="line number 11999", new_text="x").error
    none = edit(runtime, old_text="lime number 70000", new_text="x").error
    same = edit(runtime, old_text="line number 70000\n", new_text="line number 70000\n").error

    assert (many.code, many.details["lines"][0]) == ("edit_not_unique", 11_999)
    assert none.code == "edit_not_found"
    assert same.code == "edit_no_change"


# --- replace_all --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before, old, new, after, count",
    [
        (b"a x\nb x\n", "x", "yy", b"a yy\nb yy\n", 2),
        (b"a x\r\nb x\r\nc", "x\n", "y\nz\n", b"a y\r\nz\r\nb y\r\nz\r\nc", 2),
        (b"a x\r\nb x\nx\n", "x\n", "y\n", b"a x\r\nb y\ny\n", 2),
        (b"aaaa", "aa", "b", b"bb", 2),
        (b"\r\n\r\n", "\n", ".\n", b".\r\n.\r\n", 2),
        ("é x é".encode("utf-16"), "é", "e", "e x e".encode("utf-16"), 2),
        (b"x " * 5000, "x", "a\nb", b"a\nb " * 5000, 5000),
    ],
)
def test_replace_all_changes_every_occurrence(runtime, workspace, before, old, new, after, count):
    workspace.write("a.txt", before)

    result = edit(runtime, old_text=old, new_text=new, replace_all=True)

    assert workspace.bytes("a.txt") == after
    assert (result.meta["edit"]["occurrences"], f"{count} occurrences" in result.text) == (count, True)
    runtime.call("undo", action="restore", id=result.meta["undo"])
    assert workspace.bytes("a.txt") == before


def test_replace_all_has_a_limit(runtime, workspace):
    workspace.write("a.txt", "x" * 100_001)

    error = edit(runtime, old_text="x", new_text="yy", replace_all=True).error

    assert error.code == "limit_exceeded"
    assert [fact for fact in ("100001", "a.txt", "100000") if fact not in error.message] == []


def test_replace_all_of_one_occurrence_is_an_ordinary_edit(runtime, workspace):
    workspace.write("a.txt", "it’s\n")

    result = edit(runtime, old_text="it's", new_text="it is", replace_all=True)

    assert (workspace.read("a.txt"), "fuzzy match" in result.text) == ("it is\n", True)


@pytest.mark.parametrize(
    "old, new, code", [("none", "x", "edit_not_found"), ("a", "a", "edit_no_change"), ("", "x", "old_text_empty")]
)
def test_replace_all_that_changes_nothing_is_refused(runtime, workspace, old, new, code):
    workspace.write("a.txt", "a a\n")

    assert edit(runtime, old_text=old, new_text=new, replace_all=True).error.code == code
    assert workspace.read("a.txt") == "a a\n"
