"""The search tools of jcli, as its document describes them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.starts_processes


@pytest.fixture
def project(workspace):
    workspace.write("main.rs", "fn main() {}\n// TODO\nfn  other() {}\n")
    workspace.write("src/lib.rs", "pub fn lib() {} // TODO\n")
    workspace.write("src/app/App.tsx", "export {}\n")
    workspace.write("src/node_modules/x.tsx", "export {}\n")
    return workspace


@pytest.mark.parametrize(
    "tool, args, expected",
    [
        ("Glob", '{"pattern": "**/*.rs"}', "main.rs\nsrc/lib.rs"),
        ("Glob", '{"pattern": "src/**/*.tsx", "excludePattern": "**/node_modules/**"}', "src/app/App.tsx"),
        (
            "Grep",
            '{"pattern": "fn\\\\s+\\\\w+", "type": "rust"}',
            "main.rs:1:fn main() {}\nmain.rs:3:fn  other() {}\nsrc/lib.rs:1:pub fn lib() {} // TODO",
        ),
        ("Grep", '{"pattern": "TODO", "glob": "*.rs", "output_mode": "count"}', "main.rs:1\nsrc/lib.rs:1"),
    ],
)
def test_the_examples_of_the_reference_run_as_printed(project, environ, tool, args, expected):
    command = [sys.executable, "-m", "hilt", "--workspace", project.path]
    text = f'{{"tool":"{tool}","args":{args}}}'

    process = subprocess.run(command, input=text, env=environ, capture_output=True, text=True)

    reply = json.loads(process.stdout)
    assert (reply["ok"], reply["result"]) == (True, expected)


def grep(runtime, **args):
    result = runtime.call("Grep", **args)
    assert result.ok, result.error
    return result.text


def test_grep_shows_files_context_lines_and_the_requested_number(runtime, project):
    assert grep(runtime, pattern="todo", ignore_case=True, output_mode="files_with_matches") == "main.rs\nsrc/lib.rs"
    assert grep(runtime, pattern="TODO", path="main.rs", context=1).split("\n")[0] == "main.rs-1-fn main() {}"
    assert grep(runtime, pattern="fn", head_limit=1) == (
        "main.rs:1:fn main() {}\n[Showing matches 1-1 of 3. Use a larger head_limit to see more.]"
    )
    assert grep(runtime, pattern="absent") == "[No matches.]"


def test_glob_reports_how_many_paths_it_omitted(runtime, project):
    result = runtime.call("Glob", pattern="**/*.rs", limit=1)

    assert result.text == "main.rs\n[Showing 1 of 2 files; use a larger limit to see more.]"
    assert runtime.call("Glob", pattern="*.absent").text == "No files match."


def test_arguments_outside_the_reference_are_rejected(runtime, project):
    for tool, args in (("Glob", {"pattern": "*", "sort": "mtime"}), ("Grep", {"pattern": "x", "output_mode": "all"})):
        error = runtime.call(tool, **args).error
        assert error is not None
        assert error.code == "invalid_args"


@pytest.mark.parametrize(
    "tool, args, advice",
    [
        ("Grep", {"pattern": "main("}, "backslash"),
        ("Grep", {"pattern": "a\\nb"}, "with context"),
        ("Grep", {"pattern": "a", "glob": "[a"}, "glob: the [ is not closed"),
        ("Glob", {"pattern": "*", "excludePattern": "[a"}, "excludePattern: the [ is not closed"),
    ],
)
def test_advice_names_only_existing_arguments(runtime, project, tool, args, advice):
    error = runtime.call(tool, **args).error

    assert error is not None
    text = f"{error.message} {error.suggestion}"
    assert advice in text
    assert not any(name in text for name in ("literal", "multiline", "include", "exclude:"))


def test_glob_reports_that_an_absolute_pattern_matches_nothing(runtime, project):
    assert runtime.call("Glob", pattern="/absent/*.rs").text == "No files match."
