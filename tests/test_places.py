from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from hilt.places import RealPaths, command, installation, own_command
from tests.surfaces.commands import HILT, Command


@pytest.fixture
def started_as(monkeypatch):
    def start(program: str, *, path: str) -> None:
        monkeypatch.setattr(sys, "argv", [program])
        monkeypatch.setenv("PATH", path)

    return start


def program(folder, name: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_hilt_on_path_is_started_by_its_name(started_as):
    started_as(HILT, path=os.path.dirname(HILT))

    assert command("approve", "ID") == "hilt approve ID"


def test_a_hilt_that_is_not_on_path_is_started_by_its_full_path(started_as):
    started_as(HILT, path="/nowhere")

    assert command("approve", "ID") == f"{shlex.quote(HILT)} approve ID"


def test_the_program_behind_the_native_client_reports_the_client_as_its_command(started_as, tmp_path):
    folder = tmp_path / "bin"
    native, python = program(folder, "hilt"), program(folder, "hilt-py")
    started_as(python, path=os.path.dirname(native))

    assert own_command() == [native]
    assert command("approve") == "hilt approve"
    assert set(installation(str(tmp_path))) >= {native, python}


def test_another_hilt_on_path_is_not_used(started_as, tmp_path):
    other = program(tmp_path / "bin", "hilt")
    started_as(HILT, path=os.path.dirname(other))

    assert command("approve") == f"{shlex.quote(HILT)} approve"


def test_a_link_on_path_to_this_hilt_is_used(started_as, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "hilt").symlink_to(HILT)
    started_as(HILT, path=str(folder))

    assert command("approve") == "hilt approve"


def test_without_a_script_the_interpreter_starts_hilt_and_ignores_modules_in_the_working_directory(
    started_as, monkeypatch, tmp_path
):
    python = program(tmp_path / "bin", "python3")
    monkeypatch.setattr(sys, "executable", python)
    started_as("prog.py", path=str(tmp_path / "bin"))

    assert own_command() == [python, "-P", "-m", "hilt"]
    assert command("doctor") == f"{shlex.quote(python)} -P -m hilt doctor"


def test_arguments_are_quoted():
    assert command("trust", "a b;c").endswith(" trust 'a b;c'")


@pytest.mark.starts_processes
def test_commands_shown_to_the_user_work_when_hilt_is_not_on_path(tmp_path):
    host = Command(str(tmp_path), PATH=os.defpath)
    replies = host.ask({"tool": "register_hook", "args": {"action": "register", "event": "stop", "command": "true"}})
    suggested = replies[0]["suggestion"].partition("run: ")[2].partition(" approve ")[0]

    result = subprocess.run(f"{suggested} --version", shell=True, env=host.environ, capture_output=True, text=True)

    assert (result.returncode, result.stdout[:4]) == (0, "hilt")


def test_real_paths_are_those_of_the_standard_library(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/file").write_text("")
    for link, target in {"a/up": "..", "a/b/far": str(tmp_path / "a"), "chain": "a/up/a/b", "loop": "loop"}.items():
        (tmp_path / link).symlink_to(target)
    resolve = RealPaths()

    for name in (
        "a/b",
        "chain/far/b",
        "a/up/chain",
        "a/b/../file",
        "a/./b",
        "loop/x",
        "missing/x",
        "a/file/x",
        "a//b/",
    ):
        path = f"{tmp_path}/{name}"
        assert [resolve(path), resolve(path)] == [os.path.realpath(path)] * 2
    assert (resolve("/"), resolve("."), resolve("/tmp/..")) == ("/", os.path.realpath("."), os.path.realpath("/tmp/.."))
