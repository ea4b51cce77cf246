from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hilt.runtime import Runtime
from hilt.testing import environment

pytestmark = pytest.mark.starts_processes


def find(runtime, pattern, **args):
    result = runtime.call("find_files", pattern=pattern, **args)
    assert result.ok, result.error
    return result.data


@pytest.fixture
def project(workspace):
    for path in (
        *("main.go", "internal/a.go", "internal/deep/b_test.go", "src/x/y_test.go", "src/z_test.go", "conf/a.json"),
        *("index.js", "index.ts", ".hidden.go", ".config/c.go", "vendor/v.go", "node_modules/n.js", "dist.go", "build"),
    ):
        workspace.write(path, path)
    return workspace


def test_the_example_of_the_reference_runs_as_printed(project, environ):
    text = '{"tool":"find_files","args":{"pattern":"*.go","path":"internal"}}'
    command = [sys.executable, "-m", "hilt", "--workspace", project.path]

    process = subprocess.run(command, input=text, env=environ, capture_output=True, text=True)

    reply = json.loads(process.stdout)
    assert json.loads(reply["result"]) == {
        "files": ["internal/a.go", "internal/deep/b_test.go"],
        "truncated": False,
        "total_count": 2,
        "limit_used": 1000,
        "backend": "ripgrep",
    }
    assert reply["visualization"]["type"] == "file-list"


@pytest.mark.parametrize(
    "args, expected",
    [
        ({"pattern": "*.go"}, ["dist.go", "internal/a.go", "internal/deep/b_test.go", "main.go"]),
        ({"pattern": "**/*.json"}, ["conf/a.json"]),
        ({"pattern": "src/**/*_test.go"}, ["src/x/y_test.go", "src/z_test.go"]),
        ({"pattern": "*.{js,ts}"}, ["index.js", "index.ts"]),
        ({"pattern": "/*.go"}, ["dist.go", "main.go"]),
        ({"pattern": "*.go", "path": "internal/deep"}, ["internal/deep/b_test.go"]),
        ({"pattern": "deep/*", "path": "internal"}, ["internal/deep/b_test.go"]),
        ({"pattern": "build"}, ["build"]),
        ({"pattern": ".*.go"}, [".hidden.go"]),
        ({"pattern": ".config/*"}, [".config/c.go"]),
        ({"pattern": "c.go", "hidden": True}, [".config/c.go"]),
        ({"pattern": "*.go", "exclude": "**/deep/**"}, ["dist.go", "internal/a.go", "main.go"]),
        ({"pattern": "*.rs"}, []),
        ({"pattern": "?.json"}, ["conf/a.json"]),
        ({"pattern": "??.json"}, []),
        ({"pattern": "[!b]?json"}, ["conf/a.json"]),
    ],
)
def test_globs_match_names_at_any_depth_or_paths_from_the_folder(runtime, project, args, expected):
    project.write("src/x/y_test.go", "")
    if args["pattern"] == "*.go" and "path" not in args:
        os.unlink(project.join("src/x/y_test.go"))
        os.unlink(project.join("src/z_test.go"))
    data = find(runtime, **args)

    assert data["files"] == expected
    assert (data["total_count"], data["truncated"]) == (len(expected), False)


@pytest.mark.parametrize(
    "pattern", ["日?.go", "?本.go", "??.go", "[日月]本.go", "[!a]本.go", "[一-龠]?.go", "uni/?本.*"]
)
def test_a_single_character_wildcard_matches_one_character_of_any_script(runtime, workspace, pattern):
    for path in ("uni/日本.go", "uni/日.go", "uni/日本語.go", "abcdef.go"):
        workspace.write(path, "text")

    assert find(runtime, pattern)["files"] == ["uni/日本.go"]
    result = runtime.call("search_files", pattern="text", include=pattern, format="filenames")
    assert result.text == "uni/日本.go:1"


def test_signs_that_ripgrep_reads_differently_match(runtime, workspace):
    for path in ("a:b", "c", "1x", "d/[id]/page.tsx", "d/i/page.tsx", "e^f"):
        workspace.write(path, "x")

    assert find(runtime, "a:*")["files"] == ["a:b"]
    assert find(runtime, "*[:]*")["files"] == ["a:b"]
    assert find(runtime, "[[:digit:]]*")["files"] == ["1x"]
    assert find(runtime, r"e[\^]f")["files"] == ["e^f"]


def test_a_glob_with_brackets_matches_names_that_have_them(runtime, workspace):
    for path in (
        "app/[id]/page.tsx",
        "app/i/page.tsx",
        "app/[...slug]/page.tsx",
        "[ab].txt",
        "app/[user-id]/x",
        "[b-a]",
    ):
        workspace.write(path, "x")

    assert find(runtime, "app/[id]/page.tsx")["files"] == ["app/[id]/page.tsx", "app/i/page.tsx"]
    assert find(runtime, "app/[...slug]/*")["files"] == ["app/[...slug]/page.tsx"]
    assert find(runtime, "[ab].txt")["files"] == ["[ab].txt"]
    assert find(runtime, "app/[user-id]/*")["files"] == ["app/[user-id]/x"]
    assert find(runtime, "[b-a]")["files"] == ["[b-a]"]
    assert runtime.call("search_files", pattern="x", include="app/[user-id]/x").text == "app/[user-id]/x:1:x"


def test_a_glob_may_begin_with_the_absolute_path_of_the_folder(runtime, project):
    assert find(runtime, project.join("internal/*.go"))["files"] == ["internal/a.go"]
    assert find(runtime, project.join("*.js"))["files"] == ["index.js"]
    assert find(runtime, project.join("internal/deep/*"), path="internal")["files"] == ["internal/deep/b_test.go"]
    other = find(runtime, "/elsewhere/*.go")
    assert (other["files"], "relative to path" in other["hint"]) == ([], True)


def test_ripgrep_is_used_even_when_nothing_matches(runtime, project):
    assert find(runtime, "absent/*")["backend"] == "ripgrep"
    counted = runtime.call("search_files", pattern="a", include="absent/*", format="filenames")
    assert (counted.text, counted.meta["backend"]) == ("[No matches.]", "ripgrep")


def test_pages_follow_each_other(runtime, workspace):
    for number in range(25):
        workspace.write(f"{number:02}.txt")
    arguments = {"pattern": "*.txt", "limit": 10}
    files = []
    while arguments:
        data = find(runtime, **arguments)
        files += data["files"]
        assert (data["total_count"], data["limit_used"], data["truncated"]) == (25, 10, "next" in data)
        arguments = data.get("next", {}).get("args")

    assert files == [f"{number:02}.txt" for number in range(25)]


def test_sorting_by_time_lists_the_newest_first(runtime, workspace):
    for number, name in enumerate("cab"):
        os.utime(workspace.write(f"{name}.txt"), (number, number))

    assert find(runtime, "*", sort="mtime")["files"] == ["b.txt", "a.txt", "c.txt"]
    assert find(runtime, "*", sort="mtime", limit=1)["files"] == ["b.txt"]


def test_sensitive_files_never_appear_and_ignored_ones_only_when_asked(runtime, workspace):
    workspace.write(".gitignore", "*.log\n")
    for path in ("a.log", ".env", ".env.local", ".env.example", ".git/config", ".ssh/id", "sub/.ENV", "a.txt"):
        workspace.write(path)
    os.symlink(".env", workspace.join("link"))

    assert find(runtime, "*")["files"] == ["a.txt"]
    assert find(runtime, "*", no_ignore=True)["files"] == ["a.log", "a.txt"]
    assert find(runtime, "*", hidden=True, no_ignore=True)["files"] == [".env.example", ".gitignore", "a.log", "a.txt"]
    assert find(runtime, ".env*")["files"] == [".env.example"]
    data = find(runtime, "*.log")
    assert (data["files"], data["ignored"]) == ([], 1)
    assert "no_ignore" in data["hint"]


def test_the_state_folder_inside_a_workspace_is_hidden(base, tmp_path):
    with Runtime(base, environ=environment(base)) as wide:
        (tmp_path / "seen.txt").write_text("x")

        assert wide.call("write_file", path="other.txt", content="x").ok
        assert find(wide, "*", hidden=True, no_ignore=True)["files"] == ["other.txt", "seen.txt"]
        assert list(wide.call("checksum_tree").data) == ["other.txt", "seen.txt"]


@pytest.mark.parametrize(
    "args, code",
    [
        ({"pattern": ""}, "invalid_args"),
        ({"pattern": "[x"}, "invalid_args"),
        ({"pattern": "{a"}, "invalid_args"),
        ({"pattern": "src/"}, "invalid_args"),
        ({"pattern": "*", "exclude": "["}, "invalid_args"),
        ({"pattern": "*", "path": "absent"}, "file_not_found"),
        ({"pattern": "*", "path": "/etc"}, "path_outside_workspace"),
        ({"pattern": "*", "path": "a.txt"}, "invalid_args"),
        ({"pattern": "../*"}, "invalid_args"),
        ({"pattern": "*", "sort": "size"}, "invalid_args"),
    ],
)
def test_invalid_arguments_are_rejected_with_advice(runtime, workspace, args, code):
    workspace.write("a.txt")

    error = runtime.call("find_files", **args).error

    assert error is not None
    assert error.code == code
    assert error.suggestion


def test_a_limit_beyond_the_maximum_is_clamped_with_a_note(runtime, workspace):
    result = runtime.call("find_files", pattern="*", limit=10**9)

    assert result.data["limit_used"] == 10_000
    assert "limit" in result.meta["notes"][0]


def test_files_with_unusual_names_are_found(runtime, workspace):
    for name in (b"new\nline", b"inv\xff", "ü é".encode(), b'q"', b"-x", b"a:b", b"[b]", b"{c}"):
        with open(os.path.join(os.fsencode(workspace.path), name), "w"):
            pass

    names = ["-x", "[b]", "a:b", "inv\\xff", "new\nline", 'q"', "{c}", "ü é"]
    assert sorted(find(runtime, "*")["files"]) == sorted(names)
    assert find(runtime, r"\[b\]")["files"] == ["[b]"]
    assert find(runtime, "new\nline")["files"] == ["new\nline"]


def test_files_beyond_the_memory_limit_are_counted_and_the_first_returned(runtime, workspace):
    for folder in range(25):
        os.makedirs(workspace.join(f"{folder:02}"))
        for number in range(900):
            os.close(os.open(workspace.join(f"{folder:02}/{number:03}"), os.O_CREAT | os.O_WRONLY))

    data = find(runtime, "*", limit=3, offset=899)

    assert data["total_count"] == 22_500
    assert data["files"] == ["00/899", "01/000", "01/001"]
