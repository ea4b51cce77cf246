"""The client that the conformance suite drives: every tool of its server is called, through a runtime of ours.

    client.py URL

The suite says in MCP_CONFORMANCE_CONTEXT which calls it wants to see; without it, every tool is called once, all at the
same time, with arguments made from its schema.
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

ECHO = "json_schema_echo"  # wants to see the schema of the other tool
SAMPLES = {"string": "text", "integer": 5, "number": 3, "boolean": True, "array": [], "object": {}}


class Person:
    """Fills in every form with its defaults."""

    can_ask = has_questions = False

    def approve(self, asked: Any, digest: str) -> None:
        """Answer nothing."""

    def ask(self, questions: Sequence[Any]) -> None:
        """Answer nothing."""

    def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Accept a form as it is."""
        known = schema.get("properties", {})
        content = {name: field["default"] for name, field in known.items() if "default" in field}
        for name in schema.get("required", ()):
            content.setdefault(name, SAMPLES[known[name]["type"]])
        return {"action": "accept", "content": content}

    def sample(self, request: dict[str, Any]) -> None:
        """Answer nothing."""

    def inputs(self, requests: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
        """Answer nothing."""
        return dict.fromkeys(requests)

    def require(self, capability: str) -> None:
        """Be capable of everything."""

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
        """Take note of nothing."""

    def output(self, data: bytes) -> None:
        """Take note of nothing."""

    def log(self, level: str, data: Any) -> None:
        """Take note of nothing."""


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that fit a plain schema."""
    known = schema["properties"]
    return {name: SAMPLES[known[name].get("type", "string")] for name in schema.get("required", ())}


def wanted(schemas: dict[str, dict[str, Any]]) -> list[Call]:
    """Return the calls to make."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if "toolCalls" in context:
        return [Call(f"mcp__suite__{one['name']}", one["arguments"]) for one in context["toolCalls"]]
    calls = []
    for name, schema in schemas.items():
        if name.endswith(ECHO):
            other = next(known for one, known in schemas.items() if one != name)
            calls.append(Call(name, {"schema": other}))
        else:
            calls.append(Call(name, arguments(schema)))
    return calls


def main(url: str) -> int:
    """Call everything and print what comes back."""
    with tempfile.TemporaryDirectory(prefix="hilt-") as base:
        workspace = os.path.join(base, "workspace")
        os.mkdir(workspace)
        flags = {"mcp.servers": {"suite": {"url": url, "timeout": 20}}, "mode": "yolo"}
        with Runtime(workspace, environ=environment(base), flags=flags) as runtime:
            found = runtime.servers()
            assert found is not None
            schemas = {tool.name: tool.schema for tool in found.tools()}
            print(found.states())
            ended: list[threading.Event] = []
            for call in wanted(schemas):
                done = threading.Event()
                ended.append(done)

                def tell(result: Result, call: Call = call, done: threading.Event = done) -> None:
                    print(call.tool, call.args, "->", result.error.message if result.error else result.result)
                    done.set()

                runtime.submit(call, tell, attendant=Person())
            for done in ended:
                done.wait(30)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
