"""lsp_query with real language servers in the sandbox, through the public interface."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hilt.runtime import Runtime
from tests.lsp.scripted import Bench, ask, failure, text
from tests.programs import program


class Project(NamedTuple):
    """A project in one language: `greet` is defined in one file, and used twice in another after wide characters."""

    programs: tuple[str, ...]
    files: dict[str, str]
    definition: str
    user: str
    line: int
    places: list[str]  # of all uses
    symbols: list[str]
    error: str
    broken: tuple[str, str]  # an edit that breaks the user


PYTHON = {
    "über/a file.py": "def greet(name: str) -> str:\n    '''Say hello.'''\n    return name\n\n\nclass Tree:\n"
    "    def grow(self) -> int:\n        return 1\n",
    "über/b.py": "def use() -> str:\n    wide = '\U0001d4b3ü'; return greet(wide)\n\n\n"
    "def greet(name: str) -> str:\n    return name\n",
    "c.py": "def greet(name: str) -> str:\n    '''Say hello.'''\n    return name\n",
    "d.py": "from c import greet\n\nwide = '\U0001d4b3ü'; print(greet(wide), greet('x'))\n",
}
SCRIPT = {
    "tsconfig.json": '{"compilerOptions": {"strict": true, "module": "nodenext", "target": "es2022"}}',
    "c.ts": "/** Say hello. */\nexport function greet(name: string): string {\n  return name;\n}\n",
    "d.ts": "import { greet } from './c.js';\n\nconst wide = '\U0001d4b3ü'; console.log(greet(wide), greet('x'));\n",
}
C = {
    "c.h": "// Say hello.\nint greet(int name);\n",
    "c.c": '#include "c.h"\nint greet(int name) { return name; }\n',
    "d.c": '#include "c.h"\nint main(void) { /* \U0001d4b3ü */ return greet(1) + greet(2); }\n',
}
GO = {
    "go.mod": "module example.com/hello\n\ngo 1.15\n",
    "c.go": "package main\n\n// greet says hello.\nfunc greet(name string) string { return name }\n",
    "d.go": 'package main\n\nfunc main() { wide := "\U0001d4b3ü"; println(greet(wide), greet("x")) }\n',
}
PROJECTS = {
    "ty": Project(
        ("ty",),
        PYTHON,
        "c.py:1:5",
        "d.py",
        3,
        ["c.py:1:5", "d.py:1:15", "d.py:3:20", "d.py:3:33"],
        ["Function greet (1:5)"],
        "error ty/invalid-argument-type",
        ("greet('x')", "greet(3)"),
    ),
    "basedpyright": Project(
        ("basedpyright-langserver",),
        PYTHON,
        "c.py:1:5",
        "d.py",
        3,
        ["c.py:1:5", "d.py:1:15", "d.py:3:20", "d.py:3:33"],
        ["Function greet (1:5)", "  Variable name (1:11)"],
        "error basedpyright/reportArgumentType",
        ("greet('x')", "greet(3)"),
    ),
    "typescript": Project(
        ("typescript-language-server", "node"),
        SCRIPT,
        "c.ts:2:17",
        "d.ts",
        3,
        ["c.ts:2:17", "d.ts:1:10", "d.ts:3:32", "d.ts:3:45"],
        ["Function greet (2:17)"],
        "error typescript/2345",
        ("greet('x')", "greet(3)"),
    ),
    "clangd": Project(
        ("clangd",),
        C,
        "c.c:2:5",
        "d.c",
        2,
        ["c.c:2:5", "c.h:2:5", "d.c:2:34", "d.c:2:45"],
        ["Function greet (2:5)"],
        "error clang/undeclared_var_use",
        ("greet(2)", "greet(missing)"),
    ),
    "gopls": Project(
        ("gopls",),
        GO,
        "c.go:4:6",
        "d.go",
        3,
        ["c.go:4:6", "d.go:3:37", "d.go:3:50"],
        ["Function greet (4:6)"],
        "error compiler/",
        ('greet("x")', "greet(3)"),
    ),
}


# One server of each kind answers the tests of its project, in the order of this file: a start takes seconds.


@pytest.fixture(scope="module", params=PROJECTS)
def project(request) -> Project:
    return PROJECTS[request.param]


@pytest.fixture(scope="module")
def bench(tmp_path_factory, project) -> Bench:
    bench = Bench(str(tmp_path_factory.mktemp("bench")), HILT_LSP_AFTER_EDIT="warm")
    for name in project.programs:
        bench.install(program(name))
    if "gopls" in project.programs:
        bench.environ["PATH"] += ":" + os.path.dirname(os.path.realpath(program("go")))
    for name, contents in project.files.items():
        bench.folder.write(name, contents)
    if "clangd" in project.programs:
        entries = [{"directory": bench.folder.path, "file": name, "arguments": ["cc", name]} for name in ("c.c", "d.c")]
        bench.folder.write("compile_commands.json", json.dumps(entries))
    return bench


@pytest.fixture(scope="module")
def runtime(bench) -> Iterator[Runtime]:
    with bench.runtime() as opened:
        yield opened


def test_the_first_question_may_be_about_the_whole_workspace(project, bench, runtime):
    assert project.definition in text(ask(runtime, "symbols", ".", symbol="greet"))


def test_a_server_answers_every_action(project, bench, runtime):
    user, line = project.user, project.line
    defined = project.definition.partition(":")[0]
    before = bench.folder.tree()

    assert text(ask(runtime, "definition", user, line=line, symbol="greet")) == project.definition
    second = int(project.places[-1].rpartition(":")[2])  # after two characters that take two units each in UTF-16
    assert text(ask(runtime, "definition", user, line=line, character=second)) == project.definition
    assert text(ask(runtime, "references", defined, symbol="greet")).splitlines() == project.places
    assert "greet" in text(ask(runtime, "hover", user, line=line, symbol="greet"))
    assert text(ask(runtime, "symbols", defined)).splitlines() == project.symbols
    assert project.definition.partition(":")[0] in text(ask(runtime, "symbols", ".", symbol="greet"))
    assert text(ask(runtime, "diagnostics", user)) == f"no diagnostics for {user}"
    preview = ask(runtime, "rename", defined, symbol="greet", new_name="welcome")
    assert text(preview).endswith("pass apply: true to apply it]")
    assert bench.folder.tree() == before

    renamed = ask(runtime, "rename", defined, symbol="greet", new_name="welcome", apply=True)
    assert text(renamed).startswith(f"renamed to welcome: {preview.meta['edits']} edits in ")
    assert renamed.meta["edits"] >= len(project.places)  # gopls also renames in the comment
    assert bench.folder.read(user) == project.files[user].replace("greet", "welcome")
    assert text(ask(runtime, "references", defined, symbol="welcome")).splitlines()[0] == project.places[0]
    runtime.call("undo", action="restore", id=renamed.meta["undo"])
    assert bench.folder.tree() == before


def test_changes_on_disk_are_seen_and_errors_that_a_change_introduced_are_reported(project, bench, runtime):
    user, line = project.user, project.line
    defined = project.definition.partition(":")[0]
    text(ask(runtime, "definition", user, line=line, symbol="greet"))
    broken = runtime.call("edit_file", path=user, old_text=project.broken[0], new_text=project.broken[1])
    diagnostics = text(ask(runtime, "diagnostics", user))
    assert project.error in diagnostics
    assert broken.meta["new_errors"] == diagnostics.splitlines()
    assert broken.text.endswith(diagnostics)
    # the error is not new again
    again = runtime.call("edit_file", path=user, old_text=project.broken[1], new_text=project.broken[1] + " ")
    assert "new_errors" not in again.meta

    # a change by another program, in a file that was not queried
    lines = project.files[defined].split("\n")
    bench.folder.write(defined, "\n".join(["", *lines]))
    path, row, column = project.definition.rsplit(":", 2)
    moved = f"{path}:{int(row) + 1}:{column}"
    assert text(ask(runtime, "definition", user, line=line, symbol="greet")) == moved


@pytest.fixture
def python(tmp_path) -> Bench:
    bench = Bench(str(tmp_path))
    bench.install(program("ty"))
    for name, contents in PYTHON.items():
        bench.folder.write(name, contents)
    return bench


def test_names_with_spaces_and_unicode_work(python):
    with python.runtime() as runtime:
        assert text(ask(runtime, "symbols", "über/a file.py")).splitlines()[-1] == "  Method grow (7:9)"
        assert text(ask(runtime, "definition", "über/a file.py", symbol="Tree.grow")) == "über/a file.py:7:9"
        assert text(ask(runtime, "definition", "über/b.py", line=2, symbol="greet")) == "über/b.py:5:5"


def test_a_symbol_may_be_named_without_a_line(python):
    with python.runtime() as runtime:
        assert text(ask(runtime, "definition", "d.py", symbol="Tree")) == "über/a file.py:6:7"
        assert text(ask(runtime, "definition", "d.py", symbol="greet")) == "c.py:1:5"
        assert text(ask(runtime, "definition", "c.py", symbol="greet")) == "c.py:1:5"
        failure(ask(runtime, "hover", "d.py", symbol="no_such_name"), "not_found")
        message = failure(ask(runtime, "definition", "über/a file.py", symbol="use_or_not"), "not_found")

    assert "use_or_not" in message


def test_places_outside_the_workspace_are_named_but_not_read(python):
    python.folder.write("e.py", "import json\n\njson.dumps(1)\n")
    with python.runtime() as runtime:
        public = text(ask(runtime, "definition", "e.py", line=3, symbol="dumps"))

        private = text(ask(runtime, "definition", "e.py", line=1, symbol="json"))

    for place in (public, private):
        assert place.startswith(("/", "[ty]/"))
        assert "json/__init__.py" in place
