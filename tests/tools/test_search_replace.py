from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hilt.testing import temporary_runtime
from tests.tools.changes import tree_bytes

pytestmark = pytest.mark.starts_processes


def replace(runtime, pattern, replacement, files, **args):
    result = runtime.call("search_replace", pattern=pattern, replacement=replacement, files=files, **args)
    assert result.ok, result.error
    return result


@pytest.fixture
def project(workspace):
    workspace.write("main.go", "package main\n\nfunc oldName() {}\n\n// oldName\n")
    workspace.write("lib/util.go", "x := oldName\n")
    workspace.write("notes.txt", "oldName\n")
    return workspace


def test_the_example_of_the_reference_runs_as_printed(project, environ):
    text = (
        '{"tool":"search_replace","args":{"pattern":"oldName","replacement":"newName","files":"*.go","dry_run":true}}'
    )
    before = project.tree()
    command = [sys.executable, "-m", "hilt", "--workspace", project.path]

    process = subprocess.run(command, input=text, env=environ, capture_output=True, text=True)

    reply = json.loads(process.stdout)
    assert reply["result"].startswith("--- a/lib/util.go\n+++ b/lib/util.go\n")
    assert reply["result"].endswith(
        "[dry-run: would replace 3 matches in 2 files: lib/util.go: 1 (line 1), main.go: 2 (lines 3, 5)]"
    )
    assert reply["visualization"]["type"] == "diffs"
    assert project.tree() == before


def test_git_applies_a_preview_and_the_change_matches_it(runtime, project, tmp_path):
    for name in ("main.go", "lib/util.go"):
        os.makedirs(tmp_path / "copy" / os.path.dirname(name), exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(project.bytes(name))
    preview = replace(runtime, "oldName", "newName", ["main.go", "lib"], dry_run=True).text

    result = replace(runtime, "oldName", "newName", ["main.go", "lib"])

    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "copy", input=preview.encode(), check=True)
    for name in ("main.go", "lib/util.go"):
        assert (tmp_path / "copy" / name).read_bytes() == project.bytes(name)
    assert result.text == "replaced 3 matches in 2 files:\nlib/util.go: 1 (line 1)\nmain.go: 2 (lines 3, 5)"
    assert result.meta["total_matches"] == 3
    assert project.read("notes.txt") == "oldName\n"


def test_one_undo_restores_all_files(runtime, project):
    before = tree_bytes(project)
    id = replace(runtime, "oldName", "x", "**/*").meta["undo"]
    assert tree_bytes(project) != before

    assert runtime.call("undo", action="restore", id=id).ok

    assert tree_bytes(project) == before


@pytest.mark.parametrize(
    "pattern, replacement, before, after",
    [
        (r"(\w+) (\w+)", "$2 $1", "ab cd\n", "cd ab\n"),
        (r"(\w+) (\w+)", "${2}x${1}", "ab cd\n", "cdxab\n"),
        (r"(?P<first>\w)\w", "$first$$", "ab\n", "a$\n"),
        (r"a", "", "banana\n", "bnn\n"),
        (r"^", "// ", "a\n\nb\n", "// a\n// \n// b\n"),
        (r"$", ";", "a\nb", "a;\nb;"),
        (r"$", ";", "a\r\nb\r\n", "a;\r\nb;\r\n"),
        (r"\n\n+", "\n", "a\n\n\nb\n", "a\nb\n"),
        (r"a\nb", "x\ny", "a\nb\n", "x\ny\n"),
        (r" +$", "", "a  \r\nb \n", "a\r\nb\n"),
        (r"b", "x\ny", "a\r\nb\r\n", "a\r\nx\r\ny\r\n"),
        (r"x*", "-", "aé\n", "-a-é-\n"),
        (r"\bfoo\b", "bar", "foo food foo\n", "bar food bar\n"),
        (r"(?i)FOO", "bar", "Foo foo\n", "bar bar\n"),
        (r"(?s)a.*z", "", "1 a\nb\nz 2\n", "1  2\n"),
        (r"é", "e", "café é\n", "cafe e\n"),
        (r"a", "$0$0", "a\n", "aa\n"),
        (r"(a)|(b)", "[$1|$2]", "ab\n", "[a|][|b]\n"),
    ],
)
def test_matches_are_replaced_as_the_expression_says(runtime, workspace, pattern, replacement, before, after):
    workspace.write("a.txt", before)

    replace(runtime, pattern, replacement, "a.txt")

    assert workspace.read("a.txt") == after


def test_anchors_of_the_whole_text_and_plain_text(runtime, workspace):
    workspace.write("a.txt", "a\na\n")
    replace(runtime, "^a", "b", "a.txt", multiline=False)
    assert workspace.read("a.txt") == "b\na\n"
    replace(runtime, "$", "end\n", "a.txt", multiline=False)
    assert workspace.read("a.txt") == "b\na\nend\n"
    replace(runtime, "A", "$1.", "a.txt", literal=True, case_insensitive=True)
    assert workspace.read("a.txt") == "b\n$1.\nend\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "cp1252", "cp932", "utf-32"])
def test_bytes_outside_the_matches_are_preserved_in_every_encoding(runtime, workspace, encoding):
    text = "日本語 foo テスト\r\nもう一つの行です foo\n" if encoding == "cp932" else "übel foo élan\r\nweiß foo\n"
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    workspace.write("a.txt", mark + text.encode(encoding))

    replace(runtime, "foo", "bär" if encoding != "cp932" else "犬", "a.txt")

    new = text.replace("foo", "bär" if encoding != "cp932" else "犬")
    assert workspace.bytes("a.txt") == mark + new.encode(encoding)


def test_invalid_bytes_are_preserved(runtime, workspace):
    workspace.write("a.txt", "ééééé".encode() + b"\xff foo \xfe\n")

    replace(runtime, "foo", "bar", "a.txt")

    assert workspace.bytes("a.txt") == "ééééé".encode() + b"\xff bar \xfe\n"


def test_a_character_the_encoding_cannot_represent_changes_no_file(runtime, workspace):
    workspace.write("a.txt", "foo\n")
    workspace.write("b.txt", "été foo naïveté\n".encode("cp1252"))

    error = runtime.call("search_replace", pattern="foo", replacement="日", files="*.txt").error

    assert error is not None
    assert error.code == "encoding_error"
    assert workspace.read("a.txt") == "foo\n"


@settings(max_examples=20, derandomize=True)
@given(
    text=st.lists(st.sampled_from(["a\n", "b\n", "\n", "ab", "c\r\n", "é\n"]), max_size=40).map("".join),
    pattern=st.sampled_from(["a", "b\\n", "^", "$", "\\n", "(?s)a.*?b", "c", "[^a]", "\\z"]),
    replacement=st.sampled_from(["", "x", "x\n", "\n\n"]),
)
def test_git_applies_the_diff_of_any_change(tmp_path_factory, text, pattern, replacement):
    base = tmp_path_factory.mktemp("diff")
    with temporary_runtime(str(base)) as (runtime, workspace):
        workspace.write("a.txt", text)
        preview = replace(runtime, pattern, replacement, "a.txt", dry_run=True)
        replace(runtime, pattern, replacement, "a.txt")
        after = workspace.bytes("a.txt")
    assume(after != text.encode())

    (base / "a.txt").write_bytes(text.encode())
    applied = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"], cwd=base, input=preview.text.encode(), capture_output=True
    )

    assert (applied.returncode, applied.stderr) == (0, b"")
    assert (base / "a.txt").read_bytes() == after


# --- targets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files, include, changed",
    [
        ("main.go", None, ["main.go"]),
        ("*.go", None, ["lib/util.go", "main.go"]),
        ("lib", None, ["lib/util.go"]),
        ("./lib/", None, ["lib/util.go"]),
        ("lib/*.go", None, ["lib/util.go"]),
        ("*.go", "lib/*", ["lib/util.go"]),
        (["main.go", "lib", "*.go"], None, ["lib/util.go", "main.go"]),
        (".", "*.txt", ["notes.txt"]),
        (["**/*"], "*.{go,txt}", ["lib/util.go", "main.go", "notes.txt"]),
    ],
)
def test_targets_are_paths_folders_and_globs(runtime, project, files, include, changed):
    args = {} if include is None else {"include": include}

    result = replace(runtime, "oldName", "new", files, dry_run=True, **args)

    assert [file["path"] for file in result.meta["files"]] == changed


def test_a_file_whose_name_looks_like_a_glob_is_found_by_its_name(runtime, workspace):
    workspace.write("[a].txt", "x\n")
    workspace.write("a.txt", "x\n")

    replace(runtime, "x", "y", "[a].txt")

    assert (workspace.read("[a].txt"), workspace.read("a.txt")) == ("y\n", "x\n")


def test_globs_skip_ignored_and_sensitive_files_and_named_ignored_files_are_changed(runtime, workspace):
    workspace.write(".gitignore", "*.log\n")
    for path in ("a.log", "a.txt", ".env", "sub/.env", "vendor/a.txt", "agents.config.json"):
        workspace.write(path, "x\n")

    result = replace(runtime, "x", "y", ["**/*", "a.log"])

    assert [file["path"] for file in result.meta["files"]] == ["a.log", "a.txt"]
    assert result.meta["errors"]["agents.config.json"]["error_code"] == "protected_path"
    assert {workspace.read(path) for path in (".env", "sub/.env", "vendor/a.txt", "agents.config.json")} == {"x\n"}
    for files in (".env", "sub/.env", ["a.txt", ".env"]):
        error = runtime.call("search_replace", pattern="x", replacement="y", files=files).error
        assert error is not None
        assert error.code == "sensitive_path"


def test_binary_files_are_skipped_with_an_error_each(runtime, workspace):
    workspace.write("a.txt", "x\n")
    workspace.write("b.txt", b"x\0")

    result = replace(runtime, "x", "y", "*.txt")

    assert result.meta["errors"]["b.txt"]["error_code"] == "binary_file"
    assert "skipped b.txt: b.txt is binary" in result.text
    assert (workspace.read("a.txt"), workspace.bytes("b.txt")) == ("y\n", b"x\0")


def test_at_most_50_files_are_changed_at_once(runtime, workspace):
    for number in range(50):
        workspace.write(f"{number}.txt", "x\n")
    replace(runtime, "x", "y", "*.txt")
    workspace.write("more.txt", "y\n")
    before = tree_bytes(workspace)

    for files in ("*.txt", ".", [f"{number}.txt" for number in range(51)]):
        error = runtime.call("search_replace", pattern="y", replacement="z", files=files).error
        assert error is not None
        assert error.code in ("resource_limit", "invalid_args")
    assert tree_bytes(workspace) == before


@pytest.mark.parametrize(
    "args, newline",
    [
        ({"pattern": "a\\nb"}, "\\r?\\n"),
        ({"pattern": "a\nb", "literal": True}, "\\r\\n"),
        ({"pattern": "a\\r\\nc"}, ""),
        ({"pattern": "a\r\nc", "literal": True}, ""),
        ({"pattern": "ab"}, ""),
    ],
)
def test_no_match_for_a_newline_suggests_the_pattern_for_crlf_files(runtime, workspace, args, newline):
    workspace.write("crlf.txt", "a\r\nb\r\n")
    workspace.write("lf.txt", "x\ny\n")

    text = replace(runtime, files="*.txt", replacement="", **args).text

    assert text.startswith("No matches in 2 files")
    assert ("CRLF" in text) == bool(newline)
    assert newline in text


def test_when_one_file_cannot_be_written_no_file_is_changed(runtime, workspace):
    workspace.write("a.txt", "x\n")
    os.chmod(workspace.write("b.txt", "x\n"), 0o444)
    if os.geteuid() == 0:
        subprocess.run(["chattr", "+i", workspace.join("b.txt")], capture_output=True)
    try:
        result = runtime.call("search_replace", pattern="x", replacement="y", files="*.txt")
        if result.ok:
            pytest.skip("this user can write every file")
        assert workspace.read("a.txt") == workspace.read("b.txt") == "x\n"
    finally:
        if os.geteuid() == 0:
            subprocess.run(["chattr", "-i", workspace.join("b.txt")], capture_output=True)


def test_a_file_changed_since_the_session_read_it_is_not_touched(runtime, workspace):
    for name in ("a.txt", "b.txt"):
        workspace.write(name, "x\n")
        assert runtime.call("read_file", path=name).ok
    workspace.write("b.txt", "x x\n")

    error = runtime.call("search_replace", pattern="x", replacement="y", files="*.txt").error

    assert error is not None
    assert error.code == "stale_file"
    assert workspace.read("a.txt") == "x\n"


# --- no changes, and invalid input -------------------------------------------------------------------------------


def test_no_match_changes_nothing_and_says_so(runtime, project):
    before = tree_bytes(project)

    assert replace(runtime, "absent", "x", "*.go").text == "No matches in 2 files; nothing was changed."
    same = replace(runtime, "(oldName)", "$1", "*.go")

    assert same.text.startswith("Nothing changes: the 3 matches in 2 files ")
    assert "undo" not in same.meta
    assert tree_bytes(project) == before
    assert runtime.call("undo", action="list").data["count"] == 0


@pytest.mark.parametrize(
    "args, code, message",
    [
        ({"pattern": "(", "replacement": "", "files": "a.txt"}, "invalid_regex", "not closed"),
        ({"pattern": "", "replacement": "", "files": "a.txt"}, "invalid_regex", "empty"),
        ({"pattern": "a(?=b)", "replacement": "", "files": "a.txt"}, "invalid_regex", "look-ahead"),
        ({"pattern": "(a)", "replacement": "$2", "files": "a.txt"}, "invalid_args", "$2"),
        ({"pattern": "(a)", "replacement": "$2x", "files": "a.txt"}, "invalid_args", "$2"),
        ({"pattern": "(a)", "replacement": "$ax", "files": "a.txt"}, "invalid_args", "$ax"),
        ({"pattern": "a", "replacement": "$name", "files": "a.txt"}, "invalid_args", "$name"),
        ({"pattern": "a", "replacement": "\0", "files": "a.txt"}, "invalid_args", "NUL"),
        ({"pattern": "a", "replacement": "", "files": "absent.txt"}, "file_not_found", "absent.txt does not exist"),
        ({"pattern": "a", "replacement": "", "files": "*.absent"}, "file_not_found", "No file matches *.absent"),
        ({"pattern": "a", "replacement": "", "files": "absent/*.txt"}, "file_not_found", "No file matches"),
        ({"pattern": "a", "replacement": "", "files": []}, "invalid_args", "files"),
        ({"pattern": "a", "replacement": "", "files": ""}, "invalid_args", "files is empty"),
        ({"pattern": "a", "replacement": "", "files": ["a.txt", ""]}, "invalid_args", "files is empty"),
        ({"pattern": "a", "replacement": "", "files": "[a"}, "invalid_args", "not closed"),
        ({"pattern": "a", "replacement": "", "files": "../x"}, "path_outside_workspace", "outside"),
        ({"pattern": "a", "replacement": "", "files": "../*"}, "path_outside_workspace", "outside"),
        ({"pattern": "a", "replacement": "", "files": ".hilt/*"}, "protected_path", "configuration"),
        ({"pattern": "a", "replacement": "", "files": "link"}, "not_a_file", "link"),
        ({"pattern": "a", "files": "a.txt"}, "invalid_args", "replacement"),
        ({"pattern": "a", "replacement": "x" * 60_000, "files": "many.txt"}, "file_too_large", "50 MB"),
    ],
)
def test_invalid_requests_are_rejected_and_change_nothing(runtime, workspace, args, code, message):
    workspace.write("a.txt", "ab\n")
    workspace.write("many.txt", "a" * 1000 + "\n")
    workspace.write(".hilt/x", "a\n")
    os.symlink("a.txt", workspace.join("link"))
    before = tree_bytes(workspace)

    error = runtime.call("search_replace", **args).error

    assert error is not None
    assert (error.code, message in error.message) == (code, True), error.message
    assert error.suggestion
    assert tree_bytes(workspace) == before


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(x+x+)+y", "([a-z]+)*=", "(.*a){15}b"])
def test_hostile_patterns_do_not_hang(runtime, workspace, pattern):
    workspace.write("a.txt", "a" * 3000 + "!\n" + "x" * 3000 + "\n")

    assert replace(runtime, pattern, "", "a.txt").text.startswith("No matches")


def test_many_matches_in_one_file_are_all_replaced(runtime, workspace):
    workspace.write("a.txt", "é x\n" * 50_000)

    result = replace(runtime, "x", "yy", "a.txt")

    assert result.meta["total_matches"] == 50_000
    assert workspace.read("a.txt") == "é yy\n" * 50_000


def test_a_short_result_leaves_no_overflow_file(runtime, workspace, base):
    workspace.write("a.txt", "x\n")
    replace(runtime, "x", "y", "a.txt")

    remaining = [name for _, _, names in os.walk(os.path.join(base, "state", "overflow")) for name in names]
    assert remaining == []


@pytest.mark.parametrize(
    "replacement, expected",
    [
        ("$1x", "ax\n"),
        ("${1}x", "ax\n"),
        ("$1_$0", "a_ab\n"),
        ("$$1x", "$1x\n"),
        ("$n2", "b\n"),
        ("$n2$1b", "bab\n"),
    ],
)
def test_a_group_reference_ends_with_its_digits(runtime, workspace, replacement, expected):
    workspace.write("a.txt", "ab\n")

    result = runtime.call("search_replace", pattern="(a)(?P<n2>b)", replacement=replacement, files="a.txt")

    assert result.ok, result.error
    assert workspace.read("a.txt") == expected


def test_many_matches_on_one_line_give_a_diff_of_whole_lines(runtime, workspace):
    workspace.write("a.txt", "above\n" + "needle " * 500 + "\nbelow needle\nlast\n")

    result = runtime.call("search_replace", pattern="needle", replacement="pin", files="a.txt", dry_run=True)

    assert result.meta["total_matches"] == 501
    assert result.text.count("\n-") == 2
    assert "+" + "pin " * 500 + "\n+below pin\n last\n" in result.text, result.text[-200:]
