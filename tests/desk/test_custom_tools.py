from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from hilt.call import Result
from hilt.custom.definition import Definition, Example
from hilt.custom.precedence import NOTHING
from hilt.desk.custom_tools import ToolCheck, check, check_path, check_tools, files_to_trust, new
from hilt.errors import ToolError
from hilt.surroundings import Surroundings

TOOLS = ".hilt/tools/"
GREET = "---\nname: greet\ndescription: Greet.\napproval: never\n---\necho hello\n"
SURROUNDINGS = Surroundings(os.environ)


def definition(**fields: Any) -> Definition:
    base_definition = Definition("t", "Do.\nMore.", {"type": "object"}, "/x/t.md", "personal", "markdown", "/x", "hash")
    return base_definition._replace(**fields)


def no_call(name: str, args: Mapping[str, Any]) -> Result:
    pytest.fail(f"{name} was called")


@pytest.mark.parametrize(
    "example, result, failure",
    [
        (Example({}), Result("anything"), None),
        (Example({}, "a", expects=True), Result("a\n"), None),
        (Example({}, "a\n", expects=True), Result("a"), None),
        (Example({}, "a", expects=True), Result("b"), 'expected "a", got "b"'),
        (Example({}, {"a": 1}, expects=True), Result(data={"a": 1}), None),
        (Example({}, {"a": 1}, expects=True), Result('{"a": 1}'), None),
        (Example({}, {"a": 1}, expects=True), Result("no json"), 'expected {"a": 1}, got "no json"'),
        (Example({}, 3, expects=True), Result("3"), None),
        (Example({}), Result(error=ToolError("timeout", "Late.")), "timeout: Late."),
    ],
)
def test_examples_are_run_and_compared(example, result, failure):
    discovered = NOTHING._replace(definitions={"t": definition(examples=(example,))})

    checked = check_tools(discovered, lambda name, args: result, SURROUNDINGS)

    faults = () if failure is None else (f"example 1: {failure}",)
    assert (checked.ok, [(tool.faults, tool.ran) for tool in checked.tools]) == (failure is None, [(faults, True)])


def test_an_invalid_schema_is_reported_and_its_examples_do_not_run():
    broken = definition(parameters={"type": "nothing"}, examples=(Example({}),))

    checked = check_tools(NOTHING._replace(definitions={"t": broken}), no_call, SURROUNDINGS)

    assert not checked.ok
    assert "invalid schema" in checked.tools[0].faults[0]


def test_an_untrusted_file_is_read_and_never_run(runtime, workspace, tmp_path):
    ran = tmp_path / "ran"
    markdown = workspace.write(TOOLS + "greet.md", GREET.replace("---\necho", "examples: [{}]\n---\necho"))
    python = workspace.write(TOOLS + "p.py", f"open({str(ran)!r}, 'w')\n")
    broken = workspace.write(TOOLS + "b.md", "---\nname: b\n---\n")
    (tmp_path / "x.txt").write_text("")

    parsed = check(runtime, markdown)

    assert (parsed.ok, [tool.ran for tool in parsed.tools]) == (True, [False])
    assert check(runtime, python) == ToolCheck(ok=False, untrusted=(python,))
    assert not check(runtime, broken).ok
    with pytest.raises(ToolError, match="is not a tool"):
        check(runtime, str(tmp_path / "x.txt"))
    with pytest.raises(ToolError, match=r"y\.md does not exist"):
        check(runtime, str(tmp_path / "y.md"))
    assert not ran.exists()


def test_a_tool_folder_whose_runtime_is_missing_is_reported(workspace, tmp_path):
    path = os.path.dirname(
        workspace.write(
            "f/tool.md",
            "---\nname: f\nscript: s\nruntime: deno\ninputSchema: {type: object}\noutputSchema: {}\n---\nDo.\n",
        )
    )
    workspace.write("f/s", "")

    checked = check_path(path, NOTHING, workspace.path, no_call, Surroundings({"PATH": str(tmp_path / "nothing")}))

    assert not checked.ok
    assert "deno" in " ".join(checked.tools[0].faults)


def test_new_tools_of_a_project_need_trust_file_by_file(runtime, workspace):
    path = new("say-hi", "folder", workspace.path)

    assert sorted(file.path for file in files_to_trust(runtime, path)) == [
        ".hilt/tools/say-hi/script.py",
        ".hilt/tools/say-hi/tool.md",
    ]
    with pytest.raises(ToolError, match="already exists"):
        new("say-hi", "folder", workspace.path)
