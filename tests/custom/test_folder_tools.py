from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.call import Call
from hilt.custom import folder_tools
from hilt.custom.definition import Content, Example
from hilt.errors import ToolError
from hilt.processes.declared_sandbox import DeclaredSandbox
from hilt.surroundings import Surroundings
from tests.custom.folder_tools import OBJECT, Bench, markdown
from tests.marks import STUBBORN, Mark, wait_until
from tests.programs import program

pytestmark = pytest.mark.starts_processes

COMPLETE: dict[str, Any] = {
    "name": "my-tool",
    "script": "script.sh",
    "runtime": "bash",
    "inputSchema": OBJECT,
    "outputSchema": OBJECT,
}

# the example of the specification, with its indentation restored
WORD_COUNT = """\
---
name: word-count
script: script.ts
runtime: bun
inputSchema:
  type: object
  properties:
    path:
      type: string
      description: "Path to the file to count words in"
  required:
    - path
outputSchema:
  type: object
  properties:
    words:
      type: number
    lines:
      type: number
    characters:
      type: number
timeout: 10000
---
Count words, lines, and characters in a file.
"""
WORD_COUNT_SCRIPT = """\
import { readFileSync } from 'node:fs';
const input = JSON.parse(await Bun.stdin.text());
const { path } = input;
try {
  const content = readFileSync(path, 'utf-8');
  const words = content.split(/\\s+/).filter(Boolean).length;
  const lines = content.split('\\n').length;
  const characters = content.length;
  console.log(JSON.stringify({ words, lines, characters }));
} catch (e) {
  console.log(JSON.stringify({ error: e.message }));
}
"""


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def script_printing(text: str) -> str:
    """Return a script that prints a text, whatever its input."""
    return f"cat > /dev/null; printf %s '{text}'"


def problems(text: str | bytes, name: str = "tool.md", **files: str) -> list[tuple[int | None, str]]:
    data = text if isinstance(text, bytes) else text.encode()
    contents = {name: data, "script.sh": b"", **{path: body.encode() for path, body in files.items()}}
    loaded = folder_tools.read(Content("/tools/my-tool", contents, "project"))
    assert bool(loaded.definitions) != bool(loaded.problems)
    return [(problem.line, problem.message) for problem in loaded.problems]


def definition_with(**fields: Any) -> Any:
    files = {"tool.md": markdown({**COMPLETE, **fields}).encode(), "script.sh": b""}
    loaded = folder_tools.read(Content("/tools/my-tool", files, "project"))
    assert loaded.problems == ()
    return loaded.definitions[0]


# --- the definition -----------------------------------------------------------------------------------------------


def test_the_example_of_the_specification_runs_unchanged(bench):
    program("bun")
    bench.write("word-count", {"tool.md": WORD_COUNT, "script.ts": WORD_COUNT_SCRIPT})
    (bench.workspace / "a.txt").write_text("one two\nthree\n")

    assert bench.data("word-count", path="a.txt") == {"words": 3, "lines": 3, "characters": 14}
    assert bench.error("word-count", path="gone.txt")[0] == "tool_failed"
    assert bench.error("word-count")[0] == "invalid_args"


def test_the_fields_of_the_specification_become_the_definition():
    text = """\
---
name: my-tool
script: script.sh
runtime: bash
timeout: 1500
requireApproval: true
dangerous: true
hasSecurityCheck: true
securityScript: check.sh
securityTimeout: 2500
env:
  - MY_TOOL_CACHE_DIR
  - MY_TOOL_TIMEOUT
inputSchema:
  type: object
  properties:
    path: {type: string}
  required: [path]
outputSchema: {type: object}
---
What it does.

When to use it.
"""
    files = {"tool.md": text.encode(), "script.sh": b"", "check.sh": b""}

    (definition,) = folder_tools.read(Content("/tools/my-tool", files, "personal")).definitions

    assert (definition.name, definition.description) == ("my-tool", "What it does.\n\nWhen to use it.")
    assert (definition.origin, definition.folder, definition.line) == ("/tools/my-tool/tool.md", "/tools/my-tool", 2)
    assert (definition.source, definition.format) == ("personal", "folder")
    assert definition.parameters == {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert (definition.approval, definition.dangerous, definition.read_only, definition.result) == (
        "always",
        True,
        False,
        "json",
    )
    assert definition.notes == ()
    assert definition.details == {
        "runtime": "bash",
        "script": "script.sh",
        "outputSchema": {"type": "object"},
        "env": ["MY_TOOL_CACHE_DIR", "MY_TOOL_TIMEOUT"],
        "seconds": 1.5,
        "securityScript": "check.sh",
        "securitySeconds": 2.5,
        "files": ["check.sh", "script.sh", "tool.md"],
        "is_whole": False,
    }
    assert definition.timeout == 1.5 + 2.5


def test_omitted_fields_have_the_documented_defaults():
    definition = definition_with()

    assert (definition.approval, definition.dangerous, definition.timeout, definition.sandbox) == (
        "never",
        False,
        30.0,
        None,
    )
    details = definition.details
    assert (details["env"], details["securityScript"], details["securitySeconds"]) == ([], None, 10.0)
    assert definition_with(hasSecurityCheck=True).details["securityScript"] == "security.ts"


def test_the_keys_of_hilt_are_read():
    definition = definition_with(
        sandbox={"network": True, "write": ["out"]},
        effects=["read"],
        examples=[{"args": {"a": 1}, "expect": {"b": 2}}],
        warm=True,
    )

    assert definition.sandbox == DeclaredSandbox(True, ("out",), ())
    assert (definition.effects, definition.read_only) == (frozenset(("read",)), True)
    assert definition.examples == (Example({"a": 1}, {"b": 2}, True),)
    assert (definition.result, definition.warm, definition.notes) == ("json", True, ())
    assert (definition_with(result="text").result, definition_with().warm) == ("text", False)


def test_a_tool_can_be_json_without_a_body(bench):
    bench.write(
        "my-tool", {"tool.json": json.dumps({**COMPLETE, "description": "Says."}), "script.sh": script_printing("{}")}
    )

    assert bench.load("my-tool").description == "Says."
    assert bench.load("my-tool").origin.endswith("my-tool/tool.json")
    assert bench.data("my-tool") == {}


def test_tool_md_wins_over_tool_json(bench):
    files = {"tool.md": markdown({**COMPLETE, "name": "one"}), "tool.json": json.dumps(COMPLETE), "script.sh": ""}
    bench.write("my-tool", files)

    assert bench.load("my-tool").name == "one"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("---\n", "---yaml\n", 1),
        lambda text: text.replace("---\n", "---  \n"),
        lambda text: "---json\n" + json.dumps(COMPLETE, indent=1) + "\n---\nDoes something.\n",
    ],
    ids=["BOM", "CRLF", "---yaml", "blanks", "---json"],
)
def test_front_matter_is_read_as_editors_write_it(change):
    text = change(markdown(COMPLETE))
    files = {"tool.md": text.encode(), "script.sh": b""}

    (definition,) = folder_tools.read(Content("/t", files, "project")).definitions

    assert (definition.name, definition.description) == ("my-tool", "Does something.")


def test_a_folder_without_a_definition_is_ignored():
    assert folder_tools.read(Content("/t", {"README.md": b"Hello", "tool.txt": b""}, "project")) == ((), ())


def lines(**fields: Any) -> str:
    return markdown({**COMPLETE, **fields})


BAD = [
    ("name: x\n", 1, "must begin with a line ---"),
    ("", 1, "must begin with a line ---"),
    ("---\nname: x\n", 1, "a line --- is missing"),
    ("---js\nprocess.exit()\n---\n", 1, "is not supported"),
    ("---toml\n---\n", 1, "is not supported"),
    ("---\nname: a\nname: b\n---\n", 3, "the key 'name' occurs twice"),
    ("---\nname: a\n  b: [\n---\n", 3, "Invalid"),
    ("---\nname: !!python/object:os.system x\n---\n", 2, "python/object"),
    ("---\n- a\n---\n", 2, "must be a mapping"),
    ('---json\n{"name": "a",\n "name": "b"}\n---\n', 3, "The key 'name' occurs twice"),
    ('---json\n{"name": \n---\n', 2, "Invalid"),
    (b"---\nname: a\nx: \xff\n---\n", 3, "not UTF-8: byte 0xff"),
    (lines(name=None), 2, "name is missing"),
    (lines(name=3), 2, "name must be a string, not 3"),
    (lines(name="a b"), 2, "name must be at most 64 letters"),
    (lines(name="../x"), 2, "name must be at most 64 letters"),
    (lines(name="x" * 65), 2, "name must be at most 64 letters"),
    (lines(script="gone.sh"), 3, "script gone.sh is not in the tool's folder"),
    (lines(script="../script.sh"), 3, "script must be a file in the tool's folder"),
    (lines(script="/bin/sh"), 3, "script must be a file in the tool's folder"),
    (lines(script="."), 3, "script must be a file in the tool's folder"),
    (lines(runtime="perl"), 4, "runtime must be one of bun, node,"),
    (lines(runtime="nodejs"), 4, "did you mean node?"),
    (lines(inputSchema="string"), 5, "inputSchema must be a JSON Schema"),
    (lines(inputSchema={"type": "array"}), 5, "inputSchema must have type object"),
    (lines(inputSchema={"properties": {"a": {"type": "nothing"}}}), 5, 'inputSchema is invalid: "'),
    (lines(inputSchema={"$ref": "http://127.0.0.1:9/x"}), 5, "inputSchema is invalid"),
    (lines(outputSchema=None), 6, "outputSchema is missing"),
    (lines(outputSchema={"minimum": "x"}), 6, "outputSchema is invalid"),
    (lines(timeout="30s"), 7, 'timeout must be milliseconds, above 0 and at most 86,400,000, not "30s"'),
    (lines(timeout=0), 7, "timeout must be milliseconds"),
    (lines(timeout=-1), 7, "timeout must be milliseconds"),
    (lines(timeout=True), 7, "timeout must be milliseconds"),
    (lines(timeout=10**9), 7, "timeout must be milliseconds"),
    (lines(securityTimeout=0), 7, "securityTimeout must be milliseconds"),
    (lines(requireApproval="yes"), 7, 'requireApproval must be true or false, not "yes"'),
    (lines(dangerous=1), 7, "dangerous must be true or false"),
    (lines(hasSecurityCheck="true"), 7, "hasSecurityCheck must be true or false"),
    (lines(securityScript="../x.ts"), 7, "securityScript must be a file in the tool's folder"),
    (lines(env="PATH"), 7, "env must be a list of variable names"),
    (lines(env=[1]), 7, "env must be a list of variable names"),
    (lines(sandbox=True), 7, "sandbox must be an object"),
    (lines(effects="magic"), 7, "effects must be one or more of read,"),
    (lines(examples={}), 7, "examples must be a list"),
    (lines(result="xml"), 7, "result must be one of text, json"),
]


@pytest.mark.parametrize("text, line, message", BAD, ids=[f"{line} {message}" for _, line, message in BAD])
def test_every_problem_is_reported_with_its_line(text, line, message):
    (problem,) = problems(text)

    assert problem[0] == line
    assert message in problem[1]


def test_problems_in_json_have_line_numbers_too():
    text = json.dumps({**COMPLETE, "runtime": "perl", "timeout": 0}, indent=2)

    assert [line for line, _ in problems(text, "tool.json")] == [4, 11]
    assert problems('{"name":\n}', "tool.json")[0][0] == 2
    assert problems("[]", "tool.json") == [(1, "The definition must be a JSON object.")]
    assert "nested too deeply" in problems("[" * 100_000, "tool.json")[0][1]


def test_all_problems_are_reported_at_once_with_the_name_of_the_tool():
    files = {"tool.md": b"---\nname: my-tool\nruntime: perl\ntimeout: 0\n---\n"}

    loaded = folder_tools.read(Content("/t", files, "project"))

    assert loaded.definitions == ()
    assert {problem.message.split()[0] for problem in loaded.problems} == {
        *("script", "runtime", "timeout", "inputSchema", "outputSchema")
    }
    assert [(problem.line, problem.name) for problem in loaded.problems if "runtime" in problem.message] == [
        (3, "my-tool")
    ]


@pytest.mark.parametrize(
    "fields, note",
    [
        ({"tiemout": 3}, '"tiemout"; did you mean timeout?'),
        ({"hasSecurityCheck": True}, "The security script security.ts is missing, so every call is rejected."),
        ({"securityScript": "x.sh"}, "securityScript does not run, because hasSecurityCheck is not true."),
        ({"env": ["NODE_OPTIONS"]}, "is never passed to a tool: it controls the runtime, not the tool."),
        ({"env": ["A-B"]}, "is never passed to a tool: it is not a valid variable name."),
    ],
)
def test_suspicious_fields_are_noted_and_still_load(fields, note):
    (reported,) = definition_with(**fields).notes

    assert reported.endswith(note)


def test_a_tool_without_a_description_has_a_note():
    files = {"tool.md": markdown(COMPLETE, body="").encode(), "script.sh": b""}

    (definition,) = folder_tools.read(Content("/t", files, "project")).definitions

    assert "no description" in definition.notes[0]


def test_yaml_1_1_booleans_times_and_dates_stay_strings():
    text = markdown(COMPLETE).replace("---\n", "---\nexamples: [{args: {a: yes, b: on, c: 12:30, d: 2024-01-01}}]\n", 1)
    files = {"tool.md": text.encode(), "script.sh": b""}

    (definition,) = folder_tools.read(Content("/t", files, "project")).definitions

    assert definition.examples[0].args == {"a": "yes", "b": "on", "c": "12:30", "d": "2024-01-01"}


def test_the_script_of_a_personal_tool_must_exist_on_disk(bench):
    bench.write("my-tool", {"tool.md": markdown(COMPLETE)})

    (problem,) = bench.read("my-tool").problems

    assert "script.sh" in problem.message


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: f"---\n{text}\n---\n".encode("utf-8", "replace"))
)
def test_no_file_makes_the_reader_raise(data):
    for name in ("tool.md", "tool.json"):
        loaded = folder_tools.read(Content("/t", {name: data, "script.sh": b""}, "project"))
        assert bool(loaded.definitions) != bool(loaded.problems)


# --- a call -------------------------------------------------------------------------------------------------------


def test_a_script_receives_the_arguments_the_workspace_and_the_session(bench):
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "deep": {"type": "integer", "default": 3}}}
    bench.add("my-tool", inputSchema=schema)

    received = bench.data("my-tool", path="ä\n", more=[1.5, None, {"x": True}])

    context = {"workspacePath": str(bench.workspace), "sessionId": "s1"}
    assert received == {"path": "ä\n", "deep": 3, "more": [1.5, None, {"x": True}], **context}


def test_no_argument_overrides_the_workspace_or_the_session(bench):
    bench.add("my-tool")

    received = bench.data("my-tool", workspacePath="/", sessionId="other")

    assert received == {"workspacePath": str(bench.workspace), "sessionId": "s1"}


def test_arguments_are_validated_against_the_whole_schema(bench):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^x+$"}, "b": {"const": 1}},
        "dependentRequired": {"a": ["b"]},
        "additionalProperties": False,
    }
    bench.add("my-tool", "touch ran; echo '{}'", inputSchema=schema)
    execute = folder_tools.FolderTool(bench.load("my-tool"), Surroundings(bench.environ), bench)

    with pytest.raises(ToolError) as raised:
        execute(None, {"a": "y", "c": 1})  # type: ignore[arg-type]  # rejected before the context is used

    assert raised.value.code == "invalid_args"
    assert len(raised.value.details["violations"]) == 3  # type: ignore[arg-type]
    assert not (bench.workspace / "ran").exists()


ANSWERS = [
    ('{"a": 1}', {"a": 1}, ""),
    ("[1, 2]", [1, 2], ""),
    ("3", 3, ""),
    ("false", False, ""),
    ('"text"', None, "text"),
    ("null", None, "null"),
    (' \n{"a": 1}\n\n', {"a": 1}, ""),
    ('\ufeff{"a": 1}', {"a": 1}, ""),
    ('{"error": null, "a": 1}', {"error": None, "a": 1}, ""),
    ('{"error": "", "a": 1}', {"error": "", "a": 1}, ""),
    ('{"error": false}', {"error": False}, ""),
    ('{"deep": {"error": "x"}}', {"deep": {"error": "x"}}, ""),
    ('{"cut": "\\ud83d"}', {"cut": "\ufffd"}, ""),
    ('{"whole": "\\ud83d\\ude00"}', {"whole": "😀"}, ""),
]


@pytest.mark.parametrize("printed, data, text", ANSWERS, ids=[printed for printed, *_ in ANSWERS])
def test_printed_json_is_the_result(bench, printed, data, text):
    bench.add("my-tool", "cat $0.json", outputSchema={}, files={"script.sh.json": printed})

    result = bench.call("my-tool")

    assert result.error is None
    assert (result.data, result.text, "warnings" in result.meta) == (data, text, False)


NOISY = [
    'loading\n{"a": 1}\n',
    '{"a": 1}\ndone\n',
    '{"b": 2}\nloading\n{"a": 1}',
    '{"b": 2}\n{"a": 1}\n',
    'loading {"b": 2}\n  {"b": 3}\n{"a": 1}\n[2]\n',
    'loading\n{\n  "a": 1\n}\ndone\n',
    'loading\r\n{"a": 1}\r\n',
]


@pytest.mark.parametrize("printed", NOISY)
def test_the_last_object_of_noisy_output_is_the_result_with_a_warning(bench, printed):
    bench.add("my-tool", "cat $0.txt", files={"script.sh.txt": printed})

    result = bench.call("my-tool")

    assert result.data == {"a": 1}
    assert len(result.meta["warnings"]) == 1
    assert "other output" in result.meta["warnings"][0]


@pytest.mark.parametrize(
    "printed", ["loading", '{"a": NaN}', "1e999", '{"a": 1', "loading\n[1]", "[" * 100_000, "x" * 1000]
)
def test_output_that_is_not_json_is_quoted(bench, printed):
    bench.add("my-tool", "cat $0.txt", files={"script.sh.txt": printed})

    code, message = bench.error("my-tool")

    assert code == "tool_failed"
    quoted = json.dumps(printed[:200])
    assert message == f"my-tool printed invalid JSON: {quoted}."


def test_empty_output_is_an_error(bench):
    bench.add("my-tool", "cat > /dev/null")

    assert bench.error("my-tool") == ("tool_failed", "my-tool printed nothing instead of JSON.")


@pytest.mark.parametrize(
    "error, message", [('"File not found"', "File not found"), ('{"code": 5}', '{"code": 5}'), ("true", "true")]
)
def test_an_error_in_the_output_is_a_failure(bench, error, message):
    bench.add("my-tool", script_printing(f'{{"error": {error}, "a": 1}}'))

    result = bench.call("my-tool")

    assert result.error is not None
    assert (result.error.code, result.error.message) == ("tool_failed", f"my-tool returned an error: {message}.")
    assert json.loads(str(result.error.details["stdout"]))["a"] == 1


FAILURES = [
    ("echo oops >&2; echo partly; exit 3", 3, "my-tool failed (exit 3): oops."),
    ('echo \'{"error": "no such table"}\'; exit 1', 1, "my-tool failed (exit 1): no such table."),
    ("echo only this; exit 1", 1, "my-tool failed (exit 1): only this."),
    ("exit 7", 7, "my-tool failed (exit 7): it printed nothing."),
    ("echo '{\"a\": 1}'; kill -9 $$", 137, 'my-tool was killed by a signal (exit 137): {"a": 1}.'),
]


@pytest.mark.parametrize("script, exit_code, message", FAILURES)
def test_a_failed_script_reports_its_reason_and_output(bench, script, exit_code, message):
    bench.add("my-tool", script)

    error = bench.call("my-tool").error

    assert error is not None
    assert (error.code, error.message, error.details["exit_code"]) == ("tool_failed", message, exit_code)


def test_the_output_of_a_failed_script_is_in_the_details(bench):
    bench.add("my-tool", FAILURES[0][0])

    error = bench.call("my-tool").error

    assert error is not None
    assert error.details == {"exit_code": 3, "stdout": "partly\n", "stderr": "oops\n"}


@pytest.mark.parametrize("ending", ["", "; exit 1"])
def test_views_are_extracted_from_failures_too(bench, ending):
    answer = {"error": "gone", "a": 1, "_visualization": {"type": "none"}}
    bench.add("my-tool", script_printing(json.dumps(answer)) + ending)

    error = bench.call("my-tool").error

    assert error is not None
    assert json.loads(str(error.details["stdout"])) == {"error": "gone", "a": 1}


def test_stderr_of_a_successful_script_is_in_the_metadata(bench):
    bench.add("my-tool", script_printing("{}") + "; echo careful >&2")

    assert bench.call("my-tool").meta["stderr"] == "careful\n"


def test_a_result_that_does_not_match_its_schema_has_a_warning(bench):
    schema = {"type": "object", "properties": {"words": {"type": "number"}}}
    bench.add("my-tool", script_printing('{"words": "three"}'), outputSchema=schema)

    result = bench.call("my-tool")

    assert result.data == {"words": "three"}
    assert "words" in result.meta["warnings"][0]
    assert "does not match outputSchema" in result.meta["warnings"][0]


def test_a_missing_property_of_a_result_is_not_called_an_argument(bench):
    bench.add("my-tool", script_printing('{"a": 1}'), outputSchema={"required": ["b"], "maxProperties": 0})

    (warning,) = bench.call("my-tool").meta["warnings"]

    assert warning.startswith("The result does not match outputSchema: {")
    assert warning.endswith('; "b" is a required property.')
    assert "args" not in warning


def test_text_can_be_the_result(bench):
    bench.add("my-tool", script_printing('{"a": 1} plainly'), result="text")

    assert bench.call("my-tool").text == '{"a": 1} plainly'


def test_views_are_extracted_at_any_depth_and_validated(bench):
    view = {"type": "markdown", "content": "# Hello", "extra": 1}
    answer = {"_visualization": view, "a": [{"_visualization": {"type": "none"}, "b": 2}]}
    strict = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    bench.add("my-tool", script_printing(json.dumps(answer)), outputSchema=strict)

    result = bench.call("my-tool")

    assert result.data == {"a": [{"b": 2}]}
    assert result.view == {"type": "markdown", "content": "# Hello"}
    assert "warnings" not in result.meta


def test_an_invalid_view_does_not_change_the_result(bench):
    bench.add("my-tool", script_printing('{"_visualization": {"type": "hologram"}, "a": 1}'))

    result = bench.call("my-tool")

    assert (result.data, result.view["type"] if result.view else None) == ({"a": 1}, "none")


def test_a_long_result_is_saved_to_disk_and_its_view_does_not_count(bench):
    script = (
        "import json; print(json.dumps({'a': 'x' * %d, '_visualization': {'type': 'markdown', 'content': 'y' * %d}}))"
    )
    fields = {"runtime": "python", "script": "script.py"}
    bench.add("short", script % (1000, 60_000), **fields)
    bench.add("long", script % (60_000, 10), **fields)

    assert bench.data("short") == {"a": "x" * 1000}
    result = bench.call("long")

    path = result.meta["_filePath"]
    assert (result.data, result.meta["_persisted"], len(result.text) < 13_000) == (None, True, True)
    assert path in result.text
    assert Path(path).read_text().replace("\n", "") == json.dumps({"a": "x" * 60_000}, separators=(",", ":"))
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_script_that_prints_endlessly_is_stopped(bench):
    bench.add("my-tool", "cat > /dev/null; yes")

    assert bench.error("my-tool")[0] == "resource_limit"


def test_a_script_that_times_out_is_killed_with_its_children(bench):
    mark = Mark()
    bench.environ["MARK"] = mark.name
    bench.add("my-tool", f'echo started; setsid bash -c "{STUBBORN}" & {STUBBORN}', timeout=300, env=["MARK"])

    error = bench.call("my-tool").error

    assert error is not None
    assert (error.code, error.message) == ("timeout", "my-tool timed out after 0.3 s.")
    assert error.details["stdout"] == "started\n"
    wait_until(lambda: not mark.alive())


def test_a_cancelled_call_kills_its_script(bench):
    mark = Mark()
    bench.environ["MARK"] = mark.name
    bench.add("my-tool", f"touch started; {STUBBORN}", env=["MARK"], timeout=3_600_000)
    results: list[Any] = []
    ended = threading.Event()

    def done(result: Any) -> None:
        results.append(result)
        ended.set()

    with bench.runtime(bench.load("my-tool")) as runtime:
        running = runtime.submit(Call("my-tool", {}), done)
        wait_until((bench.workspace / "started").exists)
        running.cancel()
        assert ended.wait(60)
        wait_until(lambda: not mark.alive())

    assert results[0].error.code == "cancelled"


def test_a_script_that_does_not_read_its_input_runs(bench):
    bench.add("my-tool", "echo '{}'")

    assert bench.data("my-tool", text="x" * 1_000_000) == {}


def test_large_input_and_output_are_complete(bench):
    bench.add("my-tool", "cat")
    text = "ä" * 500_000

    path = bench.call("my-tool", text=text).meta["_filePath"]

    assert text in Path(path).read_text().replace("\n", "")


def test_calls_run_in_parallel_and_none_is_lost(bench):
    bench.add("my-tool", "sleep 0.05; cat")
    results: dict[int, Any] = {}
    ended = threading.Semaphore(0)

    with bench.runtime(bench.load("my-tool")) as runtime:
        for number in range(40):

            def done(result: Any, number: int = number) -> None:
                results[number] = result.data["number"]
                ended.release()

            runtime.submit(Call("my-tool", {"number": number}), done)
        for _ in range(40):
            assert ended.acquire(timeout=60)

    assert results == {number: number for number in range(40)}


# --- only what was loaded runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "script.sh").write_text("touch ran; echo '{}'"),
        lambda folder: (folder / "beside.py").write_text(""),
        lambda folder: (folder / "beside").symlink_to("/usr"),
        lambda folder: (folder / "script.sh").unlink(),
        lambda folder: (folder / "tool.md").write_text(markdown({**COMPLETE, "timeout": 1})),
    ],
    ids=["changed", "added", "linked", "removed", "redefined"],
)
def test_a_project_tool_that_has_changed_since_it_was_loaded_does_not_run(tmp_path, change):
    bench = Bench(tmp_path, "project")
    folder = bench.add("my-tool", "echo '{}'")
    with bench.runtime(bench.load("my-tool")) as runtime:
        assert runtime.call("my-tool").ok
        change(folder)
        result = runtime.call("my-tool")

    assert result.error is not None
    assert result.error.code == "tool_invalid"
    assert not (bench.workspace / "ran").exists()


def test_a_tool_that_changes_while_it_is_checked_does_not_run(tmp_path):
    bench = Bench(tmp_path, "project")
    answer = {"allowed": True, "requiresApproval": False, "permissionType": "", "permissionKey": ""}
    check = f"echo 'touch ran' > {bench.tools}/my-tool/script.sh; {script_printing(json.dumps(answer))}"
    bench.add("my-tool", "echo '{}'", files={"check.sh": check}, hasSecurityCheck=True, securityScript="check.sh")

    assert bench.error("my-tool")[0] == "tool_invalid"
    assert not (bench.workspace / "ran").exists()


def test_a_project_tool_runs_from_a_copy_of_what_was_trusted(tmp_path):
    bench = Bench(tmp_path, "project")
    script = f"""echo 'touch ran' > {bench.tools}/my-tool/helper.sh; . "$(dirname "$0")/helper.sh"; echo '{{}}'"""
    bench.add("my-tool", script, files={"helper.sh": "true"})

    assert bench.call("my-tool").ok
    assert not (bench.workspace / "ran").exists()


def test_a_change_of_the_copy_is_undone_before_the_next_call(tmp_path):
    bench = Bench(tmp_path, "project")
    bench.add("my-tool", """echo 'touch ran' > "$0.new"; mv "$0.new" "$0"; echo '{}'""")
    definition = bench.load("my-tool")

    with bench.runtime(definition) as runtime:
        assert [runtime.call("my-tool").ok for _ in range(2)] == [True, True]

    assert not (bench.workspace / "ran").exists()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_a_project_tool_loads_no_libraries_of_the_workspace(tmp_path):
    bench = Bench(tmp_path, "project")
    for folder in (bench.workspace, bench.tools):
        (folder / "node_modules/evil").mkdir(parents=True)
        (folder / "node_modules/evil/index.js").write_text("require('fs').writeFileSync('ran', '')")
    text = "try { require('evil') } catch {} console.log('{}')"
    bench.add("my-tool", text, script="script.cjs", runtime="node")

    assert bench.call("my-tool").ok
    assert not (bench.workspace / "ran").exists()


def test_a_touched_file_still_runs(tmp_path):
    bench = Bench(tmp_path, "project")
    folder = bench.add("my-tool", "echo '{}'")
    with bench.runtime(bench.load("my-tool")) as runtime:
        os.utime(folder / "script.sh", (time.time(), 1))

        assert runtime.call("my-tool").ok


def test_the_script_of_a_personal_tool_may_change(bench):
    folder = bench.add("my-tool", "echo '{}'")
    with bench.runtime(bench.load("my-tool")) as runtime:
        (folder / "script.sh").write_text("echo '[]'")

        assert runtime.call("my-tool").data == []


# --- the sandbox key ----------------------------------------------------------------------------------------------


def test_a_tool_with_a_sandbox_does_not_run_without_one(bench):
    bench.add("my-tool", "touch ran; echo '{}'", sandbox={"network": False})

    assert bench.error("my-tool")[0] == "sandbox_unavailable"
    assert not (bench.workspace / "ran").exists()


def test_a_tool_with_a_sandbox_is_confined_as_declared(bench):
    from contextlib import contextmanager

    from hilt.custom.definition import to_tool
    from hilt.runtime import Runtime
    from hilt.sandbox.backend import Launch

    bench.add("my-tool", 'echo "{\\"inside\\": $INSIDE}"', sandbox={"write": ["out"]})
    confined: list[Any] = []

    @contextmanager
    def confine(ctx: Any, sandbox: DeclaredSandbox, cwd: str, folder: str | None) -> Any:
        confined.append((sandbox, cwd))
        yield Launch(("/usr/bin/env", "INSIDE=1"))

    definition = bench.load("my-tool")
    tool = to_tool(definition, folder_tools.FolderTool(definition, Surroundings(bench.environ), bench, confine))
    with Runtime(str(bench.workspace), tools=[tool], environ=bench.environ) as runtime:
        result = runtime.call("my-tool")

    assert result.data == {"inside": 1}
    assert confined == [(DeclaredSandbox(False, ("out",), ()), str(bench.workspace))]
