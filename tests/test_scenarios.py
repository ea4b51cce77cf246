"""Folders of before/ call.json after/ reply.json, run through every surface; the replies must be the same on all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hilt import wire
from hilt.testing import Folder, temporary_runtime
from tests.programs import needs_sandbox
from tests.surfaces.commands import Command, forked
from tests.tools.changes import tree_bytes

pytestmark = pytest.mark.starts_processes

SCENARIOS = os.path.join(os.path.dirname(__file__), "scenarios")
NAMES = sorted(os.listdir(SCENARIOS))
COMMANDS = {"run_shell", "shell_exec", "tool::shell_exec", "Bash", "shell"}  # ask first where there is no full sandbox

Ask = Callable[[Any], Any]


@pytest.fixture(scope="session")
def resident() -> Iterator[dict[str, str]]:
    """The environment of a resident process that runs for the whole session."""
    with tempfile.TemporaryDirectory(prefix="hilt-", dir="/tmp") as base:
        command = Command(base, HILT_RESIDENT="auto")
        assert command.run("resident", "start").returncode == 0
        yield {name: value for name, value in command.environ.items() if name.startswith("HILT_") or name == "HOME"}
        assert command.run("resident", "stop").stdout == b"stopped\n"


@contextmanager
def through_library(base: str, resident: dict[str, str]) -> Iterator[Ask]:
    with temporary_runtime(base) as (runtime, _):

        def ask(request: Any) -> Any:
            try:
                call = wire.decode_request(json.dumps(request).encode())
            except wire.Refused as refused:
                return wire.envelope(refused.result)
            assert not isinstance(call, wire.Cancel)
            return json.loads(wire.encode_result(runtime.request(call)))

        yield ask


@contextmanager
def through_one_shot(base: str, resident: dict[str, str]) -> Iterator[Ask]:
    command = Command(base)
    yield lambda request: command.ask(request)[0]


@contextmanager
def through_one_shot_together(base: str, resident: dict[str, str]) -> Iterator[Ask]:
    """One process for all requests, as long as they do not depend on an earlier reply."""
    process = Command(base).start(line=forked())
    yield lambda request: exchange(process, request)
    finish(process)


@contextmanager
def through_stdio(base: str, resident: dict[str, str]) -> Iterator[Ask]:
    process = Command(base).start(line=forked("stdio"))
    yield lambda request: exchange(process, request)
    assert finish(process) == 0


@contextmanager
def through_resident(base: str, resident: dict[str, str]) -> Iterator[Ask]:
    command = Command(base)
    command.environ.update(resident)
    yield lambda request: command.ask(request)[0]


def exchange(process: subprocess.Popen[bytes], request: Any) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def finish(process: subprocess.Popen[bytes]) -> int:
    out, errors = process.communicate(timeout=60)
    assert (out, errors) == (b"", b"")
    return process.returncode


SURFACES = {
    "library": through_library,
    "one-shot": through_one_shot,
    "several lines": through_one_shot_together,
    "stdio": through_stdio,
    "resident": through_resident,
}


def load(name: str, file: str) -> Any:
    with open(os.path.join(SCENARIOS, name, file), encoding="utf-8") as opened:
        return json.load(opened)


def play(name: str, surface: str, base: str, resident: dict[str, str]) -> list[dict[str, Any]]:
    """Run a scenario on a surface, compare it with its after/, and return its replies without varying parts."""
    folder = Folder(os.path.join(base, "workspace"))
    shutil.copytree(os.path.join(SCENARIOS, name, "before"), folder.path)
    replies: list[dict[str, Any]] = []
    with SURFACES[surface](base, resident) as ask:
        for request in load(name, "call.json"):
            undo = replies[-1].get("meta", {}).get("undo", "") if replies else ""
            replies.append(ask(json.loads(json.dumps(request).replace("<undo>", undo))))
    assert tree_bytes(folder) == tree_bytes(Folder(os.path.join(SCENARIOS, name, "after")))
    return [plain(reply, os.path.realpath(folder.path)) for reply in replies]


def plain(reply: dict[str, Any], root: str) -> Any:
    for measured in ("timing", "duration_ms"):
        reply.get("meta", {}).pop(measured, None)
    text = json.dumps(reply, ensure_ascii=False).replace(root, "<workspace>")
    text = re.sub(r"\b[0-9a-f]{12}\b", "<id>", text)
    text = re.sub(r'(?<=duration_seconds\\":)[\d.]+', "0", text)
    return json.loads(re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text))


def contains(expected: Any, actual: Any) -> bool:
    """Whether the actual value has everything expected; objects may have more keys."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(key in actual and contains(value, actual[key]) for key, value in expected.items())
    return type(expected) is type(actual) and expected == actual


def runs_commands(name: str) -> bool:
    return any(request.get("tool") in COMMANDS for request in load(name, "call.json"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_sandbox] if runs_commands(name) else []) for name in NAMES]
)
def test_a_scenario_has_the_expected_result_on_every_surface(name, tmp_path, resident):
    expected = load(name, "reply.json")
    played = {surface: play(name, surface, str(tmp_path / surface), resident) for surface in SURFACES}

    for surface, replies in played.items():
        assert len(replies) == len(expected)
        for reply, part in zip(replies, expected, strict=True):
            assert contains(part, reply), (surface, reply)
            assert reply["ok"] == ("result" in reply) == ("error_code" not in reply)
            assert reply["ok"] or reply["suggestion"]
        assert replies == played["library"], surface
