"""A child tries to get more rights than its parent by every tool of the catalog, under every restriction."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from hilt.agents.agent_files import AgentDefinition
from hilt.call import Call
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.agent_calls import AgentOrder
from hilt.testing import environment
from tests.programs import needs_sandbox

STRESS = os.environ.get("HILT_STRESS")
STRICTNESS = ("allow", "ask", "deny")
VALUES = {
    "path": "a.txt",
    "command": "touch b.txt",
    "url": "http://example.org/",
    "pattern": "x",
    "query": "x",
    "patch": "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+x\n",
    "cwd": ".",
    "argv": ["touch", "b.txt"],
    "files": [{"path": "a.txt"}],
    "edits": [{"path": "a.txt", "old_text": "x", "new_text": "y"}],
    "name": "write_file",
    "arguments": {"path": "b.txt", "content": "x"},
}
SAMPLES: dict[str, Any] = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}

# the flags, the user's rules, the project's untrusted rules, and a call in the parent's session
RESTRICTIONS: dict[str, tuple[dict[str, Any], str, str, Call | None]] = {
    "nothing": ({}, "", "", None),
    "plan mode": ({"mode": "plan"}, "", "", None),
    "scheduler mode": ({"mode": "scheduler"}, "", "", None),
    "auto-accept mode": ({"mode": "auto-accept"}, "", "", None),
    "plan mode of the session": ({"mode": "yolo"}, "", "", Call("enter_plan_mode", {})),
    "deny rules": ({"mode": "yolo"}, "deny: [Write, 'Bash(touch:*)', web_fetch, memory, task]", "", None),
    "ask rules": ({}, "ask: [Write, run_shell, web_search]", "", None),
    "path rules": ({"mode": "yolo"}, "deny: ['Read(path:a.txt)', 'Write(path:**)']", "", None),
    "no network by a rule": ({"mode": "yolo"}, "network: false", "", None),
    "no network for commands": ({"shell.network": "none"}, "", "", None),
    "read-only sandbox": ({"shell.sandbox": "read-only"}, "", "", None),
    "no sandbox": ({"shell.sandbox": "full"}, "", "", None),
    "disabled tools": ({"disabledTools": ["write_file", "run_shell"]}, "", "", None),
    "only some tools": ({"tools.only": ["read_file", "agent_spawn"]}, "", "", None),
    "minimal profile": ({"profile": "minimal"}, "", "", None),
    "nano profile": ({"profile": "nano"}, "", "", None),
    "untrusted allow rules": ({}, "", "permissions:\n  allow_all: true\n", None),
}
WIDE = AgentDefinition("wide", "", "personal", "", "", None, (), "yolo", None, "Do it.")


def opened(base: str, restriction: str) -> Runtime:
    """Open a runtime whose session `talk` is restricted."""
    flags, rules, project, call = RESTRICTIONS[restriction]
    environ = environment(base)
    for folder in (f"{base}/workspace/.hilt", f"{base}/home", environ["HILT_CONFIG_DIR"]):
        os.makedirs(folder, exist_ok=True)
    for path, text in (
        (f"{environ['HILT_CONFIG_DIR']}/permissions.yaml", rules),
        (f"{base}/workspace/.hilt/permissions.yaml", project),
        (f"{base}/workspace/a.txt", "x\n"),
    ):
        if text:
            with open(path, "w") as file:
                file.write(text)
    runtime = Runtime(f"{base}/workspace", session="talk", environ=environ, flags=flags)
    if call is not None:
        assert runtime.request(call).ok
    return runtime


def child_of(runtime: Runtime, parent: str) -> str:
    """Create an agent whose definition grants everything, and that nobody runs."""
    tools = tuple(tool.name for tool in runtime.parts.catalog.tools())
    definition = WIDE._replace(tools=tools)
    return runtime.parts.agents.create(AgentOrder("wide", "x"), definition, "spawned", parent, None).id


def calls_of(tool: Any) -> Iterator[dict[str, Any]]:
    """Yield arguments for a tool: what it requires, each choice of each argument, and every option at once."""
    properties = tool.schema["properties"]

    def value(name: str) -> Any:
        schema = properties[name]
        if name in VALUES:
            return VALUES[name]
        return schema["enum"][0] if "enum" in schema else SAMPLES[_type(schema)]

    required = {name: value(name) for name in tool.schema.get("required", ())}
    yield required
    choices = [(name, choice) for name, schema in properties.items() for choice in schema.get("enum", ())]
    flags = {name: True for name, schema in properties.items() if schema.get("type") == "boolean"}
    yield {**required, **{name: on for name, on in flags.items() if name != "dry_run"}}
    for name, choice in choices if STRESS else choices[-2:]:
        yield {**required, name: choice}
        yield {**required, **flags, name: choice}


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "string")
    return kind if isinstance(kind, str) else next(name for name in kind if name != "null")


def strictness(runtime: Runtime, tool: str, args: dict[str, Any], session: str) -> int:
    """Return how strict the decision on a call is."""
    try:
        explanation = runtime.explain(Call(tool, args, session=session))
    except ToolError as error:
        return STRICTNESS.index("deny") if error.code != "invalid_args" else -1
    return STRICTNESS.index(explanation.decision.verdict)


QUICK = (
    "plan mode of the session",
    "deny rules",
    "path rules",
    "no network by a rule",
    "read-only sandbox",
    "nano profile",
)


@pytest.mark.parametrize("restriction", RESTRICTIONS if STRESS else QUICK)
def test_no_tool_gives_a_child_more_than_its_parent(base, restriction):
    with opened(base, restriction) as runtime:
        child = child_of(runtime, "talk")
        grandchild = child_of(runtime, child)
        tools = runtime.parts.catalog.tools()
        compared, more = 0, []
        for tool in tools:
            for args in calls_of(tool):
                above = strictness(runtime, tool.name, args, "talk")
                for session in (child, grandchild):
                    below = strictness(runtime, tool.name, args, session)
                    compared += below >= 0 <= above
                    if below < above:
                        more.append((tool.name, args, STRICTNESS[above], STRICTNESS[below]))
        assert more == []
        assert compared > len(tools)  # the arguments are valid for most tools
        parent_names = {name for name, *_ in runtime.parts.authority.listed_tools(runtime.session)}
        below_names = {name for name, *_ in runtime.parts.authority.listed_tools(grandchild)}
        assert below_names <= parent_names


# in two parts: a traceback of Python 3.13 or newer shows the code
REACH = (
    "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5).sendall(b'x'); "
    "print('rea' + 'ched')\""
)


@pytest.mark.parametrize(
    "flags, command, output",
    [
        ({"shell.network": "none"}, REACH, "reached"),
        ({"shell.sandbox": "read-only"}, "touch b.txt && echo written", "written"),
        ({"shell.read": "workspace"}, "cat {home}/notes.txt", "private words"),
        pytest.param({"workspace.sensitive": ["*.key"]}, "cat my.key", "private words", marks=needs_sandbox),
        pytest.param({"workspace.protected": ["kept"]}, "touch kept/x && echo written", "written", marks=needs_sandbox),
    ],
)
@pytest.mark.parametrize("mode", ["plan", "yolo"] if STRESS else ["yolo"])
def test_the_sandbox_of_a_child_is_that_of_its_parent(base, flags, command, output, mode):
    environ = environment(base)
    home, root = f"{base}/home", f"{base}/workspace"
    os.makedirs(home, exist_ok=True)
    os.makedirs(f"{root}/kept")
    for path in (f"{home}/notes.txt", f"{root}/my.key"):
        with open(path, "w") as file:
            file.write("private words")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Runtime(root, session="talk", environ=environ, flags={"mode": mode, **flags}) as runtime,
    ):
        child = child_of(runtime, "talk")
        text = command.format(port=listener.getsockname()[1], home=home)
        for session in ("talk", child):
            result = runtime.request(Call("run_shell", {"command": text, "force": True}, session=session))
            assert output not in result.text.replace(text, ""), (session, result)
    assert not os.path.exists(f"{root}/b.txt")
    assert os.listdir(f"{root}/kept") == []
