from __future__ import annotations

import os
from hashlib import sha256

import pytest

from tests.tools.changes import git_apply, tree_bytes


def test_a_new_file_is_written_with_its_folders(runtime, workspace):
    result = runtime.call("write_file", path="a/b/c.txt", content="Hello, world.\n")

    assert result.text == "wrote 14 bytes to a/b/c.txt"
    assert workspace.read("a/b/c.txt") == "Hello, world.\n"
    assert result.meta["created"] is True
    assert result.view["type"] == "code"


@pytest.mark.parametrize(
    "content", ["", "no end", "a\r\nb\r\n", "\ufeffbom\n", "nul \0 inside", "日本語 🎉\n", "\t \n"]
)
def test_contents_are_written_byte_for_byte(runtime, workspace, content):
    result = runtime.call("write_file", path="a.txt", content=content)

    assert workspace.bytes("a.txt") == content.encode()
    assert result.meta["size"] == len(content.encode())


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640])
def test_the_mode_of_an_existing_file_is_kept(runtime, workspace, mode):
    path = workspace.write("a.sh", "old\n")
    os.chmod(path, mode)

    runtime.call("write_file", path="a.sh", content="new\n")

    assert os.stat(path).st_mode & 0o777 == mode
    assert workspace.read("a.sh") == "new\n"


def test_no_temporary_files_remain_in_the_folder(runtime, workspace):
    workspace.write("a.txt", "old\n")

    runtime.call("write_file", path="a.txt", content="new\n")

    assert workspace.tree() == {"a.txt": "new\n"}


@pytest.mark.parametrize(
    "name", ['with "quotes" and spaces.txt', "new\nline.txt", "-rf", "tab\t.txt", "é\u202e.txt", "$(x)"]
)
def test_files_with_unusual_names_are_written(runtime, workspace, name):
    runtime.call("write_file", path=name, content="x\n")

    assert os.listdir(workspace.path) == [name]
    assert runtime.call("read_file", path=name).text == "1\tx"


def test_a_dry_run_of_a_new_file_says_what_it_would_create(runtime, workspace):
    result = runtime.call("write_file", path="a/b.txt", content="héllo\n", dry_run=True)

    assert result.text == "[dry-run] would create a/b.txt (7 bytes)"
    assert workspace.tree() == {}


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "old, new",
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nb"),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
        ("a\r\nb\n", "a\nb\r\n"),
        ("", "a\n"),
        ("a\n", ""),
        ("\ufeffa\nb\n", "a\nb\n"),
        ("a\nb\n", "\ufeffa\nb\n"),
        ("é\n", "è\n"),
        ("a \nb\t\n", "a\nb\n"),
        ("-- x\n++ y\n", "++ x\n-- y\n"),
        ("@@ -1 +1 @@\n", "diff --git a/x b/x\n"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", 'na me "q".txt', "sub/é.txt", "tab\tname"])
def test_a_dry_run_is_a_diff_that_git_applies_with_the_same_outcome(runtime, workspace, old, new, name):
    workspace.write(name, old)

    preview = runtime.call("write_file", path=name, content=new, dry_run=True)
    assert workspace.bytes(name) == old.encode()
    patched = git_apply(workspace, preview.text)
    runtime.call("write_file", path=name, content=new)

    assert patched == tree_bytes(workspace)


def test_a_dry_run_of_the_same_contents_says_so(runtime, workspace):
    workspace.write("a.txt", "a\n")
    workspace.write("b.txt", "é\n".encode("utf-16"))

    same = runtime.call("write_file", path="a.txt", content="a\n", dry_run=True)
    encoded = runtime.call("write_file", path="b.txt", content="é\n", dry_run=True)

    assert same.text.startswith("[dry-run] a.txt already has this content")
    assert encoded.text.startswith("[dry-run] b.txt ")
    assert "UTF-8" in encoded.text


def test_a_file_changed_since_it_was_read_is_not_overwritten(runtime, workspace):
    workspace.write("a.txt", "one\n")
    runtime.call("read_file", path="a.txt")
    workspace.write("a.txt", "two\n")

    rejected = runtime.call("write_file", path="a.txt", content="three\n")
    runtime.call("read_file", path="a.txt")
    accepted = runtime.call("write_file", path="a.txt", content="three\n")

    assert (rejected.error.code, rejected.error.details) == ("stale_file", {"path": "a.txt"})
    assert accepted.ok


def test_a_touched_file_with_equal_contents_is_not_stale(runtime, workspace):
    path = workspace.write("a.txt", "one\n")
    runtime.call("read_file", path="a.txt")
    os.utime(path, (1, 1))

    assert runtime.call("write_file", path="a.txt", content="two\n").ok


def test_overwriting_without_having_read_is_allowed(runtime, workspace):
    workspace.write("a.txt", "one\n")

    assert runtime.call("write_file", path="a.txt", content="two\n").ok


def test_failed_preconditions_block_a_write(runtime, workspace):
    workspace.write("a.txt", "one\n")
    right, wrong = sha256(b"one\n").hexdigest(), sha256(b"two\n").hexdigest()

    assert runtime.call("write_file", path="a.txt", content="x", if_absent=True).error.code == "already_exists"
    assert runtime.call("write_file", path="a.txt", content="x", if_checksum=wrong).error.code == "stale_file"
    assert runtime.call("write_file", path="b.txt", content="x", if_checksum=wrong).error.code == "stale_file"
    both = runtime.call("write_file", path="a.txt", content="x", if_checksum=right, if_absent=True)
    assert both.error.code == "invalid_args"
    assert workspace.tree() == {"a.txt": "one\n"}
    assert runtime.call("write_file", path="a.txt", content="x", if_checksum=right).ok
    assert runtime.call("write_file", path="b.txt", content="x", if_absent=True).ok


@pytest.mark.parametrize(
    "path, code",
    [
        ("../a.txt", "path_outside_workspace"),
        ("/tmp/hilt-never.txt", "path_outside_workspace"),
        ("folder", "not_a_file"),
        (".", "not_a_file"),
        ("", "not_a_file"),
        ("file/below", "not_a_file"),
        ("link", "not_a_file"),
        ("out", "path_outside_workspace"),
        ("out/new/file.txt", "path_outside_workspace"),
        ("dangling", "path_outside_workspace"),
        (".env", "sensitive_path"),
        (".ENV", "sensitive_path"),
        ("sub/.git/hooks/pre-commit", "sensitive_path"),
        (".hilt/config.toml", "protected_path"),
        (".claude/settings.json", "protected_path"),
        (".mcp.json", "protected_path"),
        ("agents.config.json", "protected_path"),
        ("a\0b", "invalid_args"),
        ("n" * 300, "invalid_args"),
    ],
)
def test_protected_and_invalid_paths_are_not_written(runtime, workspace, tmp_path, path, code):
    workspace.write("file", "file\n")
    workspace.write("folder/kept", "kept\n")
    os.symlink("file", workspace.join("link"))
    os.symlink(str(tmp_path), workspace.join("out"))
    os.symlink("/nonexistent/target", workspace.join("dangling"))
    before = tree_bytes(workspace)

    error = runtime.call("write_file", path=path, content="x").error

    assert error.code == code
    assert error.suggestion
    assert tree_bytes(workspace) == before
    assert not os.path.exists("/tmp/hilt-never.txt")


@pytest.mark.parametrize(
    "args", [{"path": "a"}, {"content": "a"}, {"path": "a", "content": None}, {"path": "a", "contents": "x"}]
)
def test_a_missing_argument_never_becomes_an_empty_string(runtime, workspace, args):
    error = runtime.call("write_file", **args).error

    assert error.code == "invalid_args"
    assert workspace.tree() == {}


def test_a_lone_surrogate_is_rejected(runtime, workspace):
    error = runtime.call("write_file", path="a.txt", content="a\ud800").error

    assert error.code == "encoding_error"
    assert workspace.tree() == {}


def test_a_file_over_the_limit_is_replaced_only_with_force(runtime, workspace):
    with open(workspace.join("big"), "wb") as file:
        file.truncate(50 * 1024 * 1024 + 1)

    rejected = runtime.call("write_file", path="big", content="small\n").error
    forced = runtime.call("write_file", path="big", content="small\n", force=True)

    assert rejected.code == "file_too_large"
    assert "force" in rejected.suggestion
    assert forced.ok
    assert workspace.read("big") == "small\n"


@pytest.mark.parametrize("path", ["a.txt/", "new/", "sub/new/"])
def test_a_path_with_a_trailing_slash_is_rejected(runtime, workspace, path):
    workspace.write("a.txt", "kept\n")

    result = runtime.call("write_file", path=path, content="z")

    assert result.error.code == "not_a_file"
    assert workspace.tree() == {"a.txt": "kept\n"}
