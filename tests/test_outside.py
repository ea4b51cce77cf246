"""Regressions found by external reviews."""

from __future__ import annotations

import json
import os

import pytest

from hilt import wire
from hilt.call import Result
from hilt.testing import temporary_runtime


def test_a_deletion_that_lists_only_a_part_of_the_file_is_refused(runtime, workspace):
    workspace.write("keep", "a\nb\nPRECIOUS\n")

    result = runtime.call("apply_patch", patch="--- a/keep\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n")

    assert result.error.code == "patch_conflict"
    assert workspace.read("keep") == "a\nb\nPRECIOUS\n"


def test_a_file_that_was_never_read_can_be_edited_after_outside_changes(runtime, workspace):
    workspace.write("a", "one\ntwo\n")
    assert runtime.call("edit_file", path="a", old_text="one", new_text="1").ok
    workspace.write("a", "1\ntwo\nthree\n")

    assert runtime.call("edit_file", path="a", old_text="two", new_text="2").ok
    assert workspace.read("a") == "1\n2\nthree\n"


def test_a_file_that_was_read_stays_guarded_after_our_own_changes(runtime, workspace):
    workspace.write("a", "one\ntwo\n")
    assert runtime.call("read_file", path="a").ok
    assert runtime.call("edit_file", path="a", old_text="one", new_text="1").ok
    assert runtime.call("edit_file", path="a", old_text="two", new_text="2").ok
    workspace.write("a", "1\n2\nthree\n")

    assert runtime.call("edit_file", path="a", old_text="2", new_text="zwei").error.code == "stale_file"


@pytest.mark.parametrize(
    "name, args",
    [
        ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: a\n@@\n one\n*** End Patch"}),
        ("apply_patch", {"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+one\n"}),
        (
            "multi_edit",
            {
                "edits": [
                    {"path": "a", "old_text": "one", "new_text": "1"},
                    {"path": "a", "old_text": "1", "new_text": "one"},
                ]
            },
        ),
    ],
)
def test_a_call_that_would_change_nothing_is_an_error(runtime, workspace, name, args):
    workspace.write("a", "one\ntwo\n")

    assert runtime.call(name, **args).error.code == "edit_no_change"
    assert runtime.call("undo", action="list").data["total"] == 0


def test_the_first_changed_line_is_the_first_in_the_file(runtime, workspace):
    workspace.write("a", "one\ntwo\n")
    edits = [{"path": "a", "old_text": "two", "new_text": "2"}, {"path": "a", "old_text": "one", "new_text": "1"}]

    assert runtime.call("multi_edit", edits=edits).meta["edit"]["first_changed_line"] == 1


def test_tools_for_many_files_return_a_list_of_diffs_even_for_one(runtime, workspace):
    workspace.write("a", "one\n")

    edited = runtime.call("multi_edit", edits=[{"path": "a", "old_text": "one", "new_text": "1"}])
    patched = runtime.call("apply_patch", patch="--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+one\n")

    assert (edited.view["type"], patched.view["type"]) == ("diffs", "diffs")


def test_the_next_call_after_a_truncated_tail_returns_the_lines_before_it(runtime, workspace):
    workspace.write("log", "".join(f"{number}\n" for number in range(1, 5001)))
    cut = runtime.call("read_file", path="log", truncate="tail", line_numbers=False)

    before = runtime.call("read_file", **cut.meta["truncation"]["next"]["args"])

    assert cut.text.startswith("3001\n")
    assert before.text.startswith("1001\n")


def test_reading_a_remainder_stores_no_second_one(runtime, workspace):
    workspace.write("long", "".join(f"{number}\n" for number in range(1, 9001)))
    first = runtime.call("read_file", path="long").meta["truncation"]["remainder"]

    second = runtime.call("read_file", path=first)

    assert "remainder" not in second.meta["truncation"]
    assert os.listdir(os.path.dirname(first)) == [os.path.basename(first)]


def test_no_reply_contains_an_unescaped_line_separator():
    reply = wire.encode_result(Result("a\u2028b\u2029c\x85d"))

    assert len(reply.decode().splitlines()) == 1
    assert json.loads(reply)["result"] == "a\u2028b\u2029c\x85d"


def test_a_structured_result_is_the_same_in_the_library_and_on_the_wire(runtime, workspace):
    workspace.write("a", "one\n")

    result = runtime.call("stat_file", path="a")

    assert result.result == wire.envelope(result)["result"]


@pytest.mark.parametrize(
    "name, args, mentioned",
    [
        ("Read", {"path": "a", "offset": 9}, "offset 9"),
        ("Edit", {"path": "a", "old_string": "x", "new_string": "y"}, "old_string"),
        ("Edit", {"path": "a", "old_string": "", "new_string": "y"}, "old_string"),
    ],
)
def test_errors_in_a_dialect_use_its_argument_names(runtime, workspace, name, args, mentioned):
    workspace.write("a", "one x\ntwo x\n")

    error = runtime.call(name, **args).error

    assert mentioned in error.message
    assert not {"old_text", "new_text", "start_line"} & set(f"{error.message} {error.suggestion}".split())


def test_default_sensitive_names_stay_when_the_user_adds_more(base):
    os.makedirs(os.path.join(base, "config"))
    with open(os.path.join(base, "config", "config.toml"), "w") as file:
        file.write('[workspace]\nsensitive = ["*.key"]\n')
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write(".env", "SECRET=1\n")
        workspace.write("a.key", "secret\n")

        for path in (".env", "a.key"):
            error = runtime.call("read_file", path=path).error
            assert error is not None
            assert error.code == "sensitive_path"
