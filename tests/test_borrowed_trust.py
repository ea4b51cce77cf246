"""A repository that links to the files of a project that the user trusts gets nothing of that trust."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hilt.agents.agent_files import read_definitions
from hilt.agents.prompts import project_instructions
from hilt.call import Call
from hilt.errors import ToolError
from hilt.loaders import PLACES, ProjectFile
from hilt.runtime import Runtime
from hilt.state.trust import Trust
from hilt.testing import Folder, environment

TOOL = "---\nname: planted\ndescription: Planted.\n---\necho from-the-tool\n"
# what each kind of place holds in the trusted project; "{ran}" is a program of the project that opens it
FILES: dict[str, dict[str, str]] = {
    "tool": {"planted.md": TOOL},
    "skill": {"planted/SKILL.md": "---\nname: planted\ndescription: Planted.\n---\nText.\n"},
    "command": {"planted.md": "Do it.\n"},
    "agent": {"planted.md": "---\nname: planted\ndescription: Planted.\n---\nWork.\n"},
    "config": {"": 'mode = "yolo"\n'},
    "rules": {"": "allow: [Write]\n"},
    "hooks": {"": '{"hooks": [{"event": "pre_tool_execution", "command": "./hook.sh"}]}'},
    "servers": {"": json.dumps({"mcpServers": {"planted": {"command": "./server.py"}}})},
    "instructions": {"": "Planted instructions.\n"},
}
PROJECT_PLACES = [place for place in PLACES if place.base == "project"]


class Neighbours:
    """A project that the user trusts, and a hostile repository beside it with programs of its own."""

    def __init__(self, base: str) -> None:
        self.environ = environment(base)
        self.trusted = Folder(os.path.join(os.path.realpath(base), "trusted"))
        self.hostile = Folder(os.path.join(os.path.realpath(base), "hostile"))
        for folder in (self.trusted, self.hostile):
            os.makedirs(folder.path)
            for name in ("hook.sh", "server.py"):
                folder.write(name, f"#!/bin/sh\ntouch {folder.path}/ran\n")
                os.chmod(folder.join(name), 0o755)
        with closing(Trust(self.environ["HILT_STATE_DIR"])) as trust:
            for place in PROJECT_PLACES:
                for name, text in self.files(place.path, place.kind).items():
                    self.trusted.write(name, text)
                    trust.trust(ProjectFile(place.kind, self.trusted.path, name), text.encode())

    def files(self, path: str, kind: str) -> dict[str, str]:
        if path == ".hilt/hooks":
            return {f"{path}/check.sh": "true\n"}
        if path == "agents.config.json":
            return {path: json.dumps({"alwaysAllow": ["write_file"]})}
        return {os.path.join(path, name).rstrip("/"): text for name, text in FILES[kind].items()}

    def link(self, path: str) -> None:
        target = self.hostile.join(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.path.relpath(self.trusted.join(path), os.path.dirname(target)), target)

    def effects(self, folder: Folder) -> set[str]:
        """Open a folder as the workspace, and return what was loaded from it."""
        try:
            runtime = Runtime(folder.path, environ=self.environ)
        except ToolError as error:
            if "is a symbolic link" not in error.message:
                raise
            return set()
        with runtime:
            loaded = {
                "config": runtime.settings["mode"] == "yolo" or "write_file" in runtime.settings["alwaysAllow"],
                "tool": "planted" in runtime.parts.toolbox.tools_found().definitions,
                "skill": "planted" in runtime.parts.skills.current().skills,
                "command": "planted" in runtime.parts.skills.current().commands,
                "agent": "planted" in read_definitions(runtime).known,
                "instructions": "Planted" in project_instructions(runtime).text,
            }
            decision = runtime.explain(Call("write_file", {"path": "x", "content": ""})).decision
            loaded["rules"] = (decision.verdict, decision.voter) == ("allow", "rules")
            runtime.call("read_file", path="hook.sh")
            loaded["hooks"] = os.path.exists(folder.join("ran"))
            if servers := runtime.parts.servers:
                servers.tools()
                loaded["servers"] = bool(servers.configured().servers)
        if os.path.exists(folder.join("ran")):
            os.unlink(folder.join("ran"))
        return {kind for kind, is_loaded in loaded.items() if is_loaded}


@pytest.fixture
def neighbours(base) -> Neighbours:
    return Neighbours(base)


@pytest.mark.starts_processes
def test_everything_is_loaded_from_the_trusted_project_itself(neighbours):
    assert neighbours.effects(neighbours.trusted) == set(FILES)


@pytest.mark.parametrize("place", PROJECT_PLACES, ids=lambda place: place.path)
@pytest.mark.parametrize("whole", [False, True], ids=["place", "folder above"])
def test_a_link_to_a_trusted_project_loads_nothing(neighbours, place, whole):
    path = place.path.partition("/")[0] if whole else place.path
    neighbours.link(path)
    if path == ".hilt/hooks":
        neighbours.link(".hilt/hooks.yaml")

    assert neighbours.effects(neighbours.hostile) == set()
    assert not os.path.exists(neighbours.hostile.join("ran"))


@pytest.mark.parametrize("place", PROJECT_PLACES, ids=lambda place: place.path)
def test_the_same_files_in_another_project_are_not_trusted(neighbours, place):
    for name, text in neighbours.files(place.path, place.kind).items():
        neighbours.hostile.write(name, text)

    assert neighbours.effects(neighbours.hostile) == set()


def test_files_of_the_user_are_not_loaded_through_a_hard_link(neighbours):
    for place in PROJECT_PLACES:
        for name in neighbours.files(place.path, place.kind):
            os.makedirs(os.path.dirname(neighbours.hostile.join(name)), exist_ok=True)
            os.link(neighbours.trusted.join(name), neighbours.hostile.join(name))

    assert neighbours.effects(neighbours.hostile) == set()


def test_another_repository_at_the_trusted_path_is_not_trusted(neighbours):
    os.rename(neighbours.trusted.path, neighbours.trusted.path + ".old")
    for place in PROJECT_PLACES:
        for name, text in neighbours.files(place.path, place.kind).items():
            neighbours.hostile.write(name, text.replace("lanted", "lanted!") + " \n")
    os.rename(neighbours.hostile.path, neighbours.trusted.path)

    assert neighbours.effects(neighbours.trusted) == set()


@pytest.mark.starts_processes
def test_a_trusted_project_that_is_reached_through_a_link_is_still_itself(neighbours):
    link = neighbours.trusted.path + ".link"
    os.symlink(neighbours.trusted.path, link)

    assert neighbours.effects(Folder(link)) == set(FILES)


@pytest.mark.starts_processes
@pytest.mark.skipif(sys.platform != "linux", reason="exchanges two names")
@pytest.mark.parametrize("name", [".hilt", ".mcp.json"])
def test_swapping_trusted_and_hostile_files_runs_nothing_hostile(neighbours, name):
    """The same names are trusted files at one moment and hostile ones at the next, or links to trusted ones."""
    hostile, trusted = neighbours.hostile, neighbours.trusted
    with closing(Trust(neighbours.environ["HILT_STATE_DIR"])) as trust:
        for path, kind in ((".hilt/hooks.yaml", "hooks"), (".mcp.json", "servers"), (".hilt/config.toml", "config")):
            text = trusted.read(path).replace("./hook.sh", "true").replace("./server.py", "true")
            hostile.write(path, text)
            trust.trust(ProjectFile(kind, hostile.path, path), text.encode())
    other = hostile.join("other")
    if os.path.isdir(hostile.join(name)):
        shutil.copytree(trusted.join(name), other)
    else:
        os.symlink(trusted.join(name), other)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            _exchange(other, hostile.join(name))

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(20):
            neighbours.effects(hostile)
            assert not os.path.exists(hostile.join("ran"))
    finally:
        stop.set()
        thread.join()


def _exchange(one: str, other: str) -> Any:
    import ctypes

    return ctypes.CDLL(None).renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)


@pytest.fixture(autouse=True)
def unsafe_marker(neighbours) -> Iterator[None]:
    yield
    assert not os.path.exists(neighbours.hostile.join("ran"))
