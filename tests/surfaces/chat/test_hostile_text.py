"""Text from models, tools and files cannot control the terminal of the chat."""

from __future__ import annotations

import re

import pytest

from tests.agents.model_server import ScriptedCall, Turn
from tests.programs import needs_sandbox
from tests.surfaces.chat.chatting import CTRL_O
from tests.surfaces.terminals import bare

# clear screen, window title, hidden text, bell, cursor movement, text direction, invisible characters, hyperlink
EVIL = "\x1b[2J\x1b]0;owned\x07\x1b[8mhidden\x9b31m\r\x08\u202eright\u200b\U000e0041 &#27;[5m \x1b]8;;http://e.example\x07x"
TRACES = ("\x1b[2J", "\x1b]", "\x07", "\x1b[8m", "\x9b", "\u202e", "\u200b", "\U000e0041", "\x1b[5m")


def assert_clean(text: str) -> None:
    for trace in TRACES:
        assert trace not in text, trace


@pytest.mark.parametrize(
    "text", [EVIL, f"# {EVIL}", f"```\n{EVIL}\n```", f"| {EVIL} |\n|---|\n| {EVIL} |", f"[a]({EVIL})"]
)
def test_an_answer_cannot_control_the_terminal(chat, text):
    screen = chat(Turn(f"{text}\n\nThe end."))

    screen.send("Hello")
    screen.expect("The end.\n")

    assert_clean(screen.text)


@needs_sandbox
def test_thoughts_calls_and_results_cannot_control_the_terminal(chat):
    screen = chat(
        Turn(
            EVIL,
            thinking=EVIL,
            calls=[
                ScriptedCall("read_file", {"path": "evil.txt"}),
                ScriptedCall("run_shell", {"command": "cat evil.txt; cat evil.txt >&2"}),
                ScriptedCall("write_file", {"path": "new.txt", "content": EVIL + "\n"}),
                ScriptedCall("read_file", {"path": EVIL}),
                ScriptedCall(EVIL, {EVIL: EVIL}),
                ScriptedCall("read_file", EVIL),
            ],
        ),
        Turn("The end."),
        words=("--mode", "auto-accept"),
    )
    screen.folder.write("evil.txt", EVIL + "\n")

    screen.send("Hello")
    screen.expect("The end.\n")
    for number in range(6, 0, -1):
        screen.type(CTRL_O)
        screen.expect(f"── {number} ")
    screen.send("/cost")
    screen.expect("This chat")

    assert_clean(screen.text)


def test_approvals_cannot_control_the_terminal(chat, asks):
    screen = chat(Turn(calls=[ScriptedCall("run_shell", {"command": f"touch '{EVIL}'"})]), Turn("The end."))

    screen.send("Hello")
    screen.expect("[n]")
    screen.send("n")
    screen.expect("Reason")
    screen.send("")
    screen.expect("The end.\n")

    assert_clean(screen.text)


def test_questions_cannot_control_the_terminal(chat):
    question = {
        "question": f"{EVIL}?",
        "header": EVIL[:10],
        "options": [{"label": EVIL, "description": EVIL}, {"label": "b"}],
    }
    screen = chat(Turn(calls=[ScriptedCall("ask_user", {"questions": [question]})]), Turn("The end."))

    screen.send("Hello")
    screen.expect("own answer")
    screen.send("1")
    screen.expect("The end.\n")

    assert_clean(screen.text)


@pytest.mark.parametrize("status", [400, 500])
def test_errors_of_the_provider_cannot_control_the_terminal(chat, status):
    turns = [Turn(status=status, message=EVIL)] * 6
    screen = chat(*turns, constants=("hilt.agents.model_requests:FIRST_PAUSE=0.01",))

    screen.send("Hello")
    screen.expect("model_error")
    screen.send("/help")
    screen.expect("@command:NAME")

    assert_clean(screen.text)


def test_titles_of_sessions_and_models_cannot_control_the_terminal(chat):
    screen = chat(Turn("The end."), Turn("The end."), words=("--model", f"openai:{EVIL}".replace("\0", "")))

    screen.type("\x1b[200~" + EVIL.replace("\x1b", "") + "\x1b[201~\r")
    screen.expect("The end.\n")
    screen.send("/resume")
    screen.expect("To continue one")

    for trace in ("\x1b]", "\x07", "\x1b[8m", "\x9b", "\x1b[5m"):
        assert trace not in screen.text, trace


def test_without_colours_only_the_input_line_is_drawn_with_sequences(chat):
    screen = chat(
        Turn("# Title\n\n**bold** `code`", calls=[ScriptedCall("read_file", {"path": "missing"})]),
        Turn("The end."),
        NO_COLOR="1",
    )

    screen.send("Hello")
    screen.expect("The end.\n")

    styles = {code for code in re.findall(r"\x1b\[([0-9;]*)m", screen.text) if code.strip("0;")}
    assert styles == set()


@needs_sandbox
@pytest.mark.parametrize("columns", [40, 60])
def test_no_line_is_wider_than_a_narrow_terminal(chat, columns):
    screen = chat(
        Turn(
            "A long paragraph with many words that must be wrapped somewhere. " * 3
            + "\n\n```\n"
            + "x" * 200
            + "\n```\n\n| a | b |\n|---|---|\n| "
            + "cell " * 20
            + " | 2 |",
            calls=[ScriptedCall("run_shell", {"command": "echo " + "word " * 40})],
        ),
        Turn("The end."),
        columns=columns,
    )
    screen.expect("\n")
    greeting = len(screen.text)

    screen.send("Hello")
    screen.expect("The end.\n")

    for line in bare(screen.text[greeting:]).split("\n"):
        visible = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|.\x08", "", line)
        assert len(visible) <= columns, visible
