from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import pytest

from hilt.call import Output, Touch
from hilt.custom import module_tools
from hilt.custom.definition import Content, Definition, Loaded, definition_of, to_tool
from hilt.custom.module_tools import Modules
from hilt.custom.workers import Workers
from hilt.errors import ToolError
from hilt.schema import TOUCH
from hilt.surroundings import Surroundings
from tests.custom.calls import by_name, call, environment

pytestmark = pytest.mark.starts_processes

GREETING = '''
from hilt import Output, ToolError, tool

count = 0

@tool(effects="read")
def greet(name: str, times: int = 1) -> str:
    """Greet somebody.

    Args:
        name: Whom.
    """
    global count
    count += 1
    print("noise")
    return f"Hello, {name}! " * times + str(count)

@tool
def anything() -> dict:
    """Say where."""
    import os, sys
    return {"cwd": os.getcwd(), "path": sys.path, "env": dict(os.environ), "pid": os.getpid()}
'''


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers() as opened:
        yield opened


class File:
    """A Python file in a folder, and the workspace beside it."""

    def __init__(self, base: str, workers: Workers) -> None:
        self.path = os.path.join(base, "tools", "made.py")
        self.root = os.path.join(base, "workspace")
        self.environ = environment()
        self.workers = workers
        self.open()
        os.makedirs(self.root)
        os.makedirs(os.path.dirname(self.path))

    def open(self) -> None:
        self.modules = Modules(self.workers, Surroundings(self.environ), self.root, self.root)

    def load(self, text: str | bytes) -> Loaded:
        data = text if isinstance(text, bytes) else text.encode()
        with open(self.path, "wb") as file:
            file.write(data)
        return module_tools.read(Content(self.path, {"": data}, "personal"), "python", self.modules)

    def call(self, definition: Definition, **args: Any) -> Output:
        return call(module_tools.execute(definition, self.modules), **args)

    def run(self, text: str, tool: str = "t", **args: Any) -> Output:
        return self.call(by_name(self.load(text).definitions)[tool], **args)


@pytest.fixture
def file(base, workers) -> File:
    return File(base, workers)


def file_text(body: str, signature: str = "", decorator: str = '@tool(effects="read")') -> str:
    return f'from hilt import Output, ToolError, tool\n{decorator}\ndef t({signature}):\n    """Do."""\n    {body}\n'


def test_a_file_declares_functions_with_the_tool_decorator(file):
    loaded = file.load(GREETING)

    greet, anything = loaded.definitions
    assert (loaded.problems, greet.name, greet.description, greet.line) == ((), "greet", "Greet somebody.", 7)
    assert greet.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Whom."},
            "times": {"type": "integer", "default": 1},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert (greet.format, greet.source, greet.origin, anything.name) == ("python", "personal", file.path, "anything")


@pytest.mark.parametrize(
    "decorator, effects, approval, read_only",
    [
        ('@tool(effects="read")', {"read"}, "never", True),
        ('@tool(effects="read network")', {"read", "network"}, "destructive", False),
        ('@tool(effects="write")', {"write"}, "destructive", False),
        ("@tool", None, "always", False),
        ("@tool()", None, "always", False),
        ("@tool(timeout=5)", None, "always", False),
    ],
)
def test_the_effects_of_a_tool_decide_whether_it_asks(file, decorator, effects, approval, read_only):
    (definition,) = file.load(file_text("pass", decorator=decorator)).definitions

    assert definition.effects == effects
    assert (definition.approval, definition.read_only) == (approval, read_only)
    assert to_tool(definition, lambda ctx, args: Output()).effects == (effects or {"execute"})


@pytest.mark.parametrize("output, declared", [('{"type": "object"}', {"type": "object"}), ("None", None), ("3", None)])
def test_the_output_schema_is_declared_with_the_tool(file, output, declared):
    (definition,) = file.load(file_text("return {}", decorator=f'@tool(effects="read", output={output})')).definitions

    assert to_tool(definition, lambda ctx, args: Output()).output == declared


def test_calls_run_in_the_workspace_and_share_a_process(file):
    tools = by_name(file.load(GREETING).definitions)

    assert file.call(tools["greet"], name="Ann", times=2).text == "Hello, Ann! Hello, Ann! 1"
    assert file.call(tools["greet"], name="Bob").text == "Hello, Bob! 2"
    first, second = file.call(tools["anything"]).data, file.call(tools["anything"]).data
    assert (first["cwd"], first["pid"]) == (file.root, second["pid"])
    assert first["pid"] != os.getpid()


def test_nothing_is_imported_from_the_workspace_or_the_environment(file):
    for folder in (file.root, os.path.dirname(file.path)):
        with open(os.path.join(folder, "json.py"), "w", encoding="utf-8") as planted:
            planted.write("raise SystemExit('planted')\n")
        with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as planted:
            planted.write("raise SystemExit('planted')\n")
    file.environ = {**file.environ, "PYTHONPATH": file.root, "PYTHONSTARTUP": "json.py", "OPENAI_API_KEY": "secret"}
    file.open()

    output = file.run("import json\n" + GREETING, "anything")

    assert not [path for path in output.data["path"] if path in ("", file.root, os.path.dirname(file.path))]
    # kept for programs that the tool starts, as in the user's environment
    assert output.data["env"]["PYTHONPATH"] == file.root
    assert "OPENAI_API_KEY" not in output.data["env"]


@pytest.mark.parametrize(
    "body, output",
    [
        ("return 'text'", Output("text")),
        ("return None", Output()),
        ("return {'a': [1, None, 'é']}", Output(data={"a": [1, None, "é"]})),
        ("return Output('x', meta={'k': 1}, view={'type': 'none'})", Output("x", meta={"k": 1}, view={"type": "none"})),
        ("return ctx.session + ctx.root.rpartition('/')[2]", Output("sworkspace")),
    ],
)
def test_return_values_become_results(file, body, output):
    assert file.run(file_text(body, "ctx")) == output


@pytest.mark.parametrize(
    "body, code, reason",
    [
        ("raise ValueError('bad')", "tool_failed", "t failed (made.py, line 5): ValueError: bad"),
        ("raise KeyError", "tool_failed", "t failed (made.py, line 5): KeyError"),
        ("import sys; sys.exit(4)", "tool_failed", "t failed (made.py, line 5): SystemExit: 4"),
        ("import json; json.loads('{')", "tool_failed", "t failed (made.py, line 5): JSONDecodeError"),
        ("raise ToolError('not_found', 'No.', suggestion='Look.', where={1})", "not_found", "No."),
        ("return object()", "tool_failed", "that JSON does not support"),
        ("return {'x': float('nan')}", "tool_failed", "that JSON does not support"),
        ("import os; os._exit(7)", "tool_failed", "status 7"),
        ("import ctypes; ctypes.string_at(0)", "tool_failed", "signal 11"),
        ("t = t.run; return t(None, {})", "tool_failed", "UnboundLocalError"),
    ],
)
def test_a_failure_is_reported_and_the_next_call_works(file, body, code, reason):
    text = file_text(body) + '\n@tool\ndef fine() -> str:\n    """Do."""\n    return "fine"\n'
    tools = by_name(file.load(text).definitions)

    with pytest.raises(ToolError) as caught:
        file.call(tools["t"])

    assert (caught.value.code, reason in caught.value.message) == (code, True), caught.value.message
    assert file.call(tools["fine"]).text == "fine"


def test_error_details_that_fit_into_json_are_kept(file):
    with pytest.raises(ToolError) as caught:
        file.run(file_text("raise ToolError('not_found', 'No.', suggestion='Look.', line=3)"))

    assert (caught.value.suggestion, caught.value.details) == ("Look.", {"line": 3})


def test_an_endless_loop_times_out(file):
    text = file_text("while True: pass", decorator="@tool(timeout=0.3)")

    with pytest.raises(ToolError) as caught:
        file.run(text)

    assert caught.value.code == "timeout"


@pytest.mark.parametrize(
    "text, line, reason",
    [
        ("x = (\n", 1, "never closed"),
        ("\n\nimport nothing_of_this_name\n", 3, "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("import sys\nsys.exit()\n", 2, "SystemExit"),
        ("import os\nos._exit(5)\n", None, "status 5"),
        ("from hilt import tool\n@tool\nasync def t():\n    '''Do.'''\n", 3, "The function t is async"),
        ("from hilt import tool\n@tool\ndef t():\n    pass\n", 3, "The function t has no docstring"),
        ("from hilt import tool\n@tool\ndef t(a):\n    '''Do.'''\n", 3, "The parameter a of t has no type"),
        ("from hilt import tool\n@tool(effects='fly')\ndef t():\n    '''Do.'''\n", 2, "effects must be among"),
        ("x = 1\n", None, "The file declares no tool."),
        ("", None, "The file declares no tool."),
        ("from hilt.tools.read_file import read_file\n", None, "The file declares no tool."),
        ("from hilt import tool\n@tool\ndef t(*a: int):\n    '''Do.'''\n", 3, "*args"),
        ("\x00", None, "null bytes"),
        ("# coding: nothing\n", None, "Unknown encoding"),
    ],
)
def test_a_broken_file_is_reported_with_its_line(file, text, line, reason):
    loaded = file.load(text)

    (problem,) = loaded.problems
    assert (loaded.definitions, problem.origin, problem.line) == ((), file.path, line)
    assert reason in problem.message, problem.message


def test_a_file_that_never_finishes_loading_is_reported(file, monkeypatch):
    monkeypatch.setattr("hilt.custom.module_tools.LOAD_SECONDS", 0.3)

    (problem,) = file.load("while True: pass\n").problems

    assert "timed out" in problem.message


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbf" + GREETING.encode(), b"# coding: latin-1\nx = '\xe9'\n" + GREETING.encode()]
)
def test_the_encoding_declaration_of_python_is_honoured(file, data):
    assert len(file.load(data).definitions) == 2


def test_a_file_that_changed_after_it_was_loaded_is_not_run(file):
    (definition,) = file.load(file_text("return 'old'")).definitions
    with open(file.path, "w", encoding="utf-8") as changed:
        changed.write(file_text("return 'new'"))

    with pytest.raises(ToolError, match="has just changed"):
        file.call(definition)

    os.unlink(file.path)
    with pytest.raises(ToolError, match="cannot be read"):
        file.call(definition)


def test_marked_arguments_become_touches_and_named_tuples_are_built(file):
    text = """
from typing import NamedTuple
from hilt import tool
from hilt.params import ReadPath

class Point(NamedTuple):
    x: int
    y: int = 2

@tool(effects="read")
def t(path: ReadPath, at: Point) -> str:
    '''Do.'''
    return f"{path} {at.x} {at.y}"
"""
    (definition,) = file.load(text).definitions
    tool = to_tool(definition, module_tools.execute(definition, file.modules))

    assert definition.parameters["properties"]["path"][TOUCH] == "read"
    assert list(tool.touches({"path": "a.py", "at": {"x": 1}})) == [Touch("read", "a.py")]
    assert file.call(definition, path="a.py", at={"x": 1}).text == "a.py 1 2"
    assert definition_of(tool) is definition


def test_a_renamed_tool_still_finds_its_function(file):
    (definition,) = file.load(file_text("return 'x'")).definitions

    assert file.call(definition._replace(name="custom__t")).text == "x"


def test_calls_after_the_first_reuse_the_process(file):
    """The contract promises 2 ms; ten times that means a new process at every call, not a slow machine."""
    (definition,) = file.load(file_text("return 'x'")).definitions
    run: Callable[[], Output] = lambda: file.call(definition)  # noqa: E731
    run()

    durations = []
    for _ in range(20):
        started = perf_counter()
        run()
        durations.append(perf_counter() - started)

    assert len(file.workers.pids) == 1
    assert min(durations) < 0.02
