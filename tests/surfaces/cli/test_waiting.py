"""The line that says what a command waits for."""

from __future__ import annotations

import os

import pytest

from hilt.surfaces.cli.ancestry import hilt_above
from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT
from tests.surfaces.terminals import Screen

PERSON = pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")


@PERSON
@needs_sandbox
def test_a_call_that_takes_longer_says_so_and_erases_it(command):
    fifo = command.folder.join("go")
    os.mkfifo(fifo)
    words = [HILT, "call", "run_shell", "command=cat go"]
    with Screen(words, env={**command.environ, "TERM": "xterm"}, cwd=command.folder.path) as screen:
        screen.expect("… run_shell, ")
        with open(fifo, "w", encoding="utf-8") as file:
            file.write("went\n")
        status, rest = screen.end()

    assert status == 0
    assert rest.index("\r\x1b[K") < rest.index("went")


@PERSON
def test_nothing_is_drawn_during_a_prompt_or_without_a_terminal(command):
    environment = {**command.environ, "TERM": "xterm"}
    words = [HILT, "call", "write_file", "path=.vscode/a.json", "content=x"]
    with Screen(words, env=environment, cwd=command.folder.path) as screen:
        screen.expect("> ")
        screen.type("n\n")
        screen.expect("Reason for the model (optional): ")
        screen.type("\n")
        status, rest = screen.end()

    assert (status, "…" in rest) == (1, False)
    assert "…".encode() not in command.run("call", "list_dir").stderr
