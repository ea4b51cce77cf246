"""The client that the conformance suite drives: calls every tool of its server through a runtime.

    client.py URL

The suite lists the calls to make in MCP_CONFORMANCE_CONTEXT; without it, every tool is called once, all at the same
time, with arguments made from its schema.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from hilt.call import Call, Result
from hilt.runtime import Runtime
from hilt.testing import environment

ECHO = "json_schema_echo"  # takes the schema of the other tool as an argument
SAMPLES = {"string": "text", "integer": 5, "number": 3, "boolean": True, "array": [], "object": {}}


class Person:
    """Fills in every form with its defaults."""

    can_ask = has_questions = False

    def approve(self, asked: Any, digest: str) -> None:
        """Answer nothing."""

    def ask(self, questions: Sequence[Any]) -> None:
        """Answer nothing."""

    def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Accept a form with its defaults."""
        properties = schema.get("properties", {})
        content = {name: field["default"] for name, field in properties.items() if "default" in field}
        for name in schema.get("required", ()):
            content.setdefault(name, SAMPLES[properties[name]["type"]])
        return {"action": "accept", "content": content}

    def sample(self, request: dict[str, Any]) -> None:
        """Answer nothing."""

    def inputs(self, requests: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
        """Answer nothing."""
        return dict.fromkeys(requests)

    def require(self, capability: str) -> None:
        """Support every capability."""

    @property
    def allowance(self) -> None:
        """Have no limits."""
        return None

    def for_agents(self) -> None:
        """Ask nobody for agents."""
        return

    def compact(self, focus: str) -> str | None:
        """Have no conversation to compact."""
        return None

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Ignore it."""

    def output(self, data: bytes) -> None:
        """Ignore it."""

    def log(self, level: str, data: Any) -> None:
        """Ignore it."""


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that match a simple schema."""
    properties = schema["properties"]
    return {name: SAMPLES[properties[name].get("type", "string")] for name in schema.get("required", ())}


def calls_to_make(schemas: dict[str, dict[str, Any]]) -> list[Call]:
    """Return the calls to make."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if "toolCalls" in context:
        return [Call(f"mcp__suite__{call['name']}", call["arguments"]) for call in context["toolCalls"]]
    calls = []
    for name, schema in schemas.items():
        if name.endswith(ECHO):
            other = next(other for other_name, other in schemas.items() if other_name != name)
            calls.append(Call(name, {"schema": other}))
        else:
            calls.append(Call(name, arguments(schema)))
    return calls


def main(url: str) -> int:
    """Make all calls and print their results."""
    with tempfile.TemporaryDirectory(prefix="hilt-") as base:
        workspace = os.path.join(base, "workspace")
        os.mkdir(workspace)
        flags = {"mcp.servers": {"suite": {"url": url, "timeout": 20}}, "mode": "yolo"}
        with Runtime(workspace, environ=environment(base), flags=flags) as runtime:
            servers = runtime.parts.servers
            assert servers is not None
            schemas = {tool.name: tool.schema for tool in servers.tools()}
            print(servers.states())
            ended: list[threading.Event] = []
            for call in calls_to_make(schemas):
                done = threading.Event()
                ended.append(done)

                def report(result: Result, call: Call = call, done: threading.Event = done) -> None:
                    print(call.tool, call.args, "->", result.error.message if result.error else result.result)
                    done.set()

                runtime.submit(call, report, attendant=Person())
            for done in ended:
                done.wait(30)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
