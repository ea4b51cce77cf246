"""The commands of the chat."""

from __future__ import annotations

import pytest

from hilt.surfaces.chat import slash_commands
from tests.agents.model_server import ScriptedCall, Turn
from tests.surfaces.chat.chatting import CTRL_D, messages


@pytest.mark.parametrize(
    "line, parsed",
    [
        ("/help", ("help", "")),
        ("  /mode plan ", ("mode", "plan")),
        ("/compact the tests\nand docs", ("compact", "the tests\nand docs")),
        ("/usr/bin/env is missing", None),
        ("/etc", ("etc", "")),
        ("/", None),
        ("hello /help", None),
        ("/Help", None),
    ],
)
def test_a_command_is_a_slash_and_a_word(line, parsed):
    assert slash_commands.parse(line) == parsed


def test_help_lists_every_command_and_fits_80_columns(chat):
    screen = chat()

    screen.send("/help")
    text = screen.expect("@command:NAME")

    for command in slash_commands.COMMANDS.values():
        assert f"{command.usage} " in text
    assert all(len(line) < 80 for line in slash_commands._KEYS.split("\n"))


def test_an_unknown_command_returns_to_the_input_line_and_is_not_sent(chat):
    screen = chat(Turn("A path."))

    screen.send("/hepl")
    screen.expect("There is no command /hepl.")
    screen.expect("Did you mean /help?")
    screen.expect("/hepl")
    screen.send(" and more")
    screen.expect("There is no command /hepl.")

    assert screen.server.prompts == []


def test_the_mode_changes_what_the_model_may_do(chat):
    screen = chat(Turn("One."), Turn("Two."))

    screen.send("/mode")
    screen.expect("The mode is normal.")
    screen.send("Hello")
    screen.expect("One.\n")
    screen.send("/mode plan")
    screen.expect("The mode is now plan.")
    screen.send("Again")
    screen.expect("Two.\n")
    screen.send("/mode nonsense")
    screen.expect("Unknown mode")

    first, second = screen.server.prompts
    assert "write_file" in first.tools
    assert "write_file" not in second.tools


def test_the_mode_can_be_chosen_before_the_first_message(chat):
    screen = chat(Turn("One."))

    screen.send("/mode plan")
    screen.expect("The mode is now plan.")
    screen.send("Hello")
    screen.expect("One.\n")

    assert "write_file" not in screen.server.prompts[0].tools


def test_another_model_continues_the_conversation(chat):
    screen = chat(Turn("One."), Turn("Two."), Turn("Three."), columns=120)

    screen.send("Hello")
    screen.expect("One.\n")
    screen.send("/model openai:other")
    screen.expect("The model is now openai:other.")
    screen.send("Again")
    screen.expect("Two.\n")
    screen.send(f"/model anthropic:third {screen.server.url}")
    screen.expect("The model is now anthropic:third.")
    screen.send("And again")
    screen.expect("Three.\n")

    assert [request.body["model"] for request in screen.server.prompts] == ["scripted", "other", "third"]
    assert screen.server.prompts[-1].path == "/v1/messages"
    assert "Hello" in str(screen.server.prompts[-1].body)


@pytest.mark.parametrize("name, code", [("nowhere:x", "no_model"), ("anthropic:x", "no_model"), ("x", "no_model")])
def test_a_model_that_cannot_be_used_changes_nothing(chat, name, code):
    screen = chat(Turn("Still here."))

    screen.send(f"/model {name}")
    screen.expect(code)
    screen.send("Hello")
    screen.expect("Still here.\n")

    assert screen.server.prompts[0].body["model"] == "scripted"


def test_tools_are_listed_and_searched(chat):
    screen = chat()

    screen.send("/tools")
    everything = screen.expect(" tools\x1b[0m\n")
    screen.send("/tools checksum")
    some = screen.expect(" tools\x1b[0m\n")

    assert "read_file" in everything
    assert "checksum_tree" in some
    assert "write_file" not in some


def test_the_last_change_is_shown_and_undone(chat):
    change = ScriptedCall("write_file", {"path": "a.txt", "content": "new\n"})
    screen = chat(Turn(calls=[change]), Turn("Written."), words=("--mode", "auto-accept"))
    screen.folder.write("a.txt", "old\n")

    screen.send("Write")
    screen.expect("Written.\n")
    screen.send("/undo")
    screen.expect("Undo ")
    screen.send("n")
    screen.expect("Nothing was undone.")
    assert screen.folder.read("a.txt") == "new\n"
    screen.send("/undo")
    screen.expect("Undo ")
    screen.send("y")
    screen.expect("restored a.txt")
    assert screen.folder.read("a.txt") == "old\n"


def test_without_changes_there_is_nothing_to_undo(chat):
    screen = chat()

    screen.send("/undo")

    screen.expect("No changes are recorded")


def test_the_conversation_is_compacted_on_request(chat):
    screen = chat(Turn("One."), Turn("Two."), Turn("The summary."), Turn("Three."))

    screen.send("/compact")
    screen.expect("Nothing to compact.")
    for message, answer in (("Hello", "One."), ("Again", "Two.")):
        screen.send(message)
        screen.expect(f"{answer}\n")
    screen.send("/compact the tests")
    screen.expect("ompact")


def test_an_earlier_session_is_listed_and_continued(chat):
    first = chat(Turn("The first answer."))
    first.send("The first title")
    first.expect("The first answer.\n")
    first.type(CTRL_D)
    first.end()
    second = chat(Turn("The second answer."), Turn("The third answer."))

    second.send("Another title")
    second.expect("The second answer.\n")
    second.send("/resume")
    second.expect("Another title")
    second.expect("The first title")
    second.send("/resume 2")
    second.expect("The first answer.\n")
    second.send("Go on")
    second.expect("The third answer.\n")

    texts = [message["content"] for message in messages(second.server)[1:]]
    assert texts == ["The first title", "The first answer.", "Go on"]


def test_a_session_that_does_not_exist_changes_nothing(chat):
    screen = chat(Turn("Here."))

    screen.send("/resume nothing")
    screen.expect("not_found")
    screen.send("Hello")
    screen.expect("Here.\n")


def test_a_session_in_use_elsewhere_changes_nothing(chat):
    first = chat(Turn("The first answer."))
    first.send("The first title")
    first.expect("The first answer.\n")
    second = chat(Turn("The second answer."))

    second.send("/resume 1")
    second.expect("busy")
    second.send("Hello")
    second.expect("The second answer.\n")


def test_commands_and_their_arguments_are_completed(chat):
    screen = chat()

    screen.type("/comp\t")
    screen.expect("act")
    screen.type("\r")
    screen.expect("Nothing to compact.")
    screen.type("/mode auto\t")
    screen.expect("-accept")
    screen.type("\r")
    screen.expect("The mode is now auto-accept.")


def test_skills_are_listed(chat):
    screen = chat()

    screen.send("/skills")

    screen.expect("skill-creator")


def test_the_task_board_is_shown(chat, command):
    assert command.run("tasks", "add", "Write the docs").returncode == 0
    screen = chat()

    screen.send("/tasks")

    screen.expect("Write the docs")


def test_references_are_completed_and_sent_with_their_content(chat):
    screen = chat(Turn("I see."))
    screen.folder.write("alphabet.txt", "alpha beta gamma\n")

    screen.type("Explain @file:alp\t")
    screen.expect("habet.txt")
    screen.type("\r")
    screen.expect("I see.\n")

    sent = messages(screen.server)[-1]["content"]
    assert sent.startswith("Explain @file:alphabet.txt")
    assert "alpha beta gamma" in sent
