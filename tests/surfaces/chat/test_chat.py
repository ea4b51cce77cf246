"""The chat on a real terminal: typed input, and what the screen shows."""

from __future__ import annotations

import glob
import json
import os
import signal
import stat

import pytest

from tests.agents.model_server import ScriptedCall, Turn, serving_model
from tests.programs import needs_sandbox
from tests.surfaces.chat.chatting import ALT_ENTER, CTRL_C, CTRL_D, CTRL_O, ENTER, UP, ChatScreen, messages
from tests.surfaces.commands import HILT
from tests.surfaces.http.servers import pending, serving
from tests.surfaces.terminals import Screen, bare


def edit(path: str, old: str, new: str) -> ScriptedCall:
    return ScriptedCall("edit_file", {"path": path, "old_text": old, "new_text": new})


def shell(command: str) -> ScriptedCall:
    return ScriptedCall("run_shell", {"command": command})


def asking(command: str = "touch marker") -> ScriptedCall:
    """A call that needs approval."""
    return ScriptedCall("run_shell", {"command": command})


def exists(screen: ChatScreen, name: str) -> bool:
    return os.path.exists(screen.folder.join(name))


def histories(screen: ChatScreen, command) -> list[str]:
    (path,) = glob.glob(os.path.join(command.state, "chat", "*.history"))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_a_message_is_answered_and_the_next_one_continues_the_conversation(chat, command):
    screen = chat(Turn("Good **morning**."), Turn("Still here."))

    screen.send("Hello")
    screen.expect("> Hello")
    screen.expect("Good \x1b[1mmorning\x1b[0m.\n")
    screen.send("Are you there?")
    screen.expect("Still here.\n")
    screen.type(CTRL_D)
    status, rest = screen.end()

    assert status == 0
    assert "chat --continue" in rest
    assert [(message["role"], message["content"]) for message in messages(screen.server)[-3:]] == [
        ("user", "Hello"),
        ("assistant", "Good **morning**."),
        ("user", "Are you there?"),
    ]
    assert histories(screen, command) == ["Hello", "Are you there?"]


@pytest.mark.parametrize("name", ["openai-responses:scripted", "anthropic:scripted"])
def test_the_chat_works_with_other_formats(chat, command, name):
    with serving_model(Turn("Let me look.", calls=[ScriptedCall("list_dir", {})]), Turn("Seen.")) as server:
        url = server.url if name.startswith("anthropic") else server.openai_url
        screen = chat(
            server=server, HILT_MODEL=name, HILT_MODEL_BASE_URL=url, ANTHROPIC_API_KEY="k", OPENAI_API_KEY="k"
        )

        screen.send("Look")
        screen.expect("Let me look.\n")
        screen.expect("list_dir")
        screen.expect("Seen.\n")


def test_text_is_drawn_while_it_streams(chat, tmp_path):
    go = tmp_path / "go"
    screen = chat(Turn("# First part\n\nThe second part is", hold=str(go)))

    screen.send("Write")
    screen.expect("First part\x1b[0m\n")
    screen.expect_streamed("# First part\n\nThe second part is")
    go.touch()
    screen.expect("The second part is\n")


def test_a_call_is_one_line_that_opens_to_its_view(chat):
    screen = chat(Turn(calls=[ScriptedCall("read_file", {"path": "a.txt"})]), Turn("Read."))
    screen.folder.write("a.txt", "alpha\nbeta\n")

    screen.send("Read it")
    screen.expect("✓ 1 read_file\x1b[0m a.txt \x1b[2m(2 lines)\x1b[0m\n")
    before = screen.expect("Read.\n")
    screen.type(CTRL_O)
    screen.expect("── 1 read_file")
    opened = screen.expect("beta")
    screen.type(CTRL_O)
    screen.expect("no earlier call")

    assert "alpha" not in before
    assert "alpha" in opened


def test_an_edit_shows_its_diff_at_once(chat):
    screen = chat(Turn(calls=[edit("a.txt", "alpha", "omega")]), Turn("Done."), words=("--mode", "auto-accept"))
    screen.folder.write("a.txt", "alpha\n")

    screen.send("Change it")
    output = bare(screen.expect("Done.\n"))

    assert "-" in output
    assert "- alpha" in output
    assert "+ omega" in output
    assert screen.folder.read("a.txt") == "omega\n"


def test_a_failed_call_shows_its_error(chat):
    screen = chat(Turn(calls=[ScriptedCall("read_file", {"path": "missing.txt"})]), Turn("Sorry."))

    screen.send("Read it")
    screen.expect("✗ 1 read_file")
    screen.expect("file_not_found: ")
    screen.expect("Sorry.\n")


# --- approvals --------------------------------------------------------------------------------------------------------


def test_a_call_is_approved_in_place(chat, asks):
    screen = chat(Turn(calls=[asking()]), Turn("Ran."))

    screen.send("Run it")
    screen.expect("run_shell wants to run a command")
    screen.expect("[n]")
    screen.send("y")
    screen.expect("run_shell\x1b[0m touch marker")
    screen.expect("Ran.\n")

    assert exists(screen, "marker")


def test_prompts_of_a_chat_can_be_answered_in_the_console_or_in_the_chat(chat, asks, command):
    question = ScriptedCall("ask_user", {"questions": [{"question": "Which colour?", "options": ["red", "blue"]}]})
    with serving(command) as server, server.events(approver=True):
        screen = chat(
            Turn(calls=[asking()]), Turn(calls=[question]), Turn(calls=[asking("touch second")]), Turn("End.")
        )

        screen.send("Run it")
        screen.expect("run_shell wants to run a command")
        screen.type("half a line")
        server.post(f"/v1/approvals/{pending(server)['id']}", {"answer": "once"})
        screen.expect("answered elsewhere, by console")
        screen.expect("Which colour?")
        server.post(f"/v1/questions/{pending(server, 'questions')['id']}", {"answers": {"Which colour?": "blue"}})
        screen.expect("answered elsewhere, by console")
        screen.expect("touch second")
        screen.expect("[n]")
        id = pending(server)["id"]
        screen.send("y")
        screen.expect("End.\n")
        late = server.post(f"/v1/approvals/{id}", {"answer": "deny"}, status=409)

    assert exists(screen, "marker")
    assert exists(screen, "second")
    assert late["first"]["by"] == "terminal"
    assert "blue" in json.dumps(messages(screen.server))


def test_a_denied_call_gives_the_model_the_reason(chat, asks):
    screen = chat(Turn(calls=[asking()]), Turn("As you like."))

    screen.send("Run it")
    screen.expect("[n]")
    screen.send("n")
    screen.expect("Reason for the model")
    screen.send("use make instead")
    screen.expect("As you like.\n")

    assert not exists(screen, "marker")
    (result,) = screen.server.prompts[-1].results.values()
    assert "use make instead" in result


def test_always_stores_a_grant_for_the_next_call(chat, asks):
    screen = chat(Turn(calls=[asking()]), Turn("Once."), Turn(calls=[asking()]), Turn("Twice."))

    screen.send("Run it")
    screen.expect("[a]")
    screen.send("a")
    screen.expect("Once.\n")
    screen.send("Again")
    between = screen.expect("Twice.\n")

    assert "wants to run" not in between


def test_the_draft_is_restored_after_an_approval(chat, asks, tmp_path):
    go = tmp_path / "go"
    screen = chat(Turn(calls=[asking()], hold=str(go)), Turn("Fine."), Turn("Got it."))

    screen.send("Run it")
    screen.wait_for_requests(1)
    screen.type("a thought in")
    screen.expect("a thought in"[-2:])
    go.touch()
    screen.expect("[n]")
    screen.send(" the middle")  # not an answer, so part of the message
    screen.expect("Answer with one of the letters.")
    screen.send("n")
    screen.expect("Reason")
    screen.send("")
    screen.expect("Fine.\n")
    screen.type(ENTER)
    screen.expect("Got it.\n")

    assert messages(screen.server)[-1]["content"] == "a thought in the middle"


def test_a_question_of_the_model_is_answered_in_place(chat):
    question = {"question": "Which colour?", "header": "Colour", "options": [{"label": "Red"}, {"label": "Blue"}]}
    screen = chat(Turn(calls=[ScriptedCall("ask_user", {"questions": [question]})]), Turn("Blue it is."))

    screen.send("Paint it")
    screen.expect("Which colour?")
    screen.expect("2. Blue")
    screen.expect("own answer")
    screen.send("2")
    screen.expect("Blue it is.\n")

    (result,) = screen.server.prompts[-1].results.values()
    assert "Blue" in result


# --- Ctrl-C and leaving -----------------------------------------------------------------------------------------------


def test_ctrl_c_stops_the_answer_and_the_chat_continues(chat, tmp_path):
    screen = chat(Turn("Once upon a time", hold=str(tmp_path / "never")), Turn("Short."))

    screen.send("Tell a story")
    screen.expect_streamed("Once upon a time")
    screen.type(CTRL_C)
    screen.expect("Interrupted.")
    screen.send("Be brief")
    screen.expect("Short.\n")


@needs_sandbox
def test_ctrl_c_ends_the_running_command(chat):
    screen = chat(Turn(calls=[shell("echo $$ > pid; sleep 1000")]), Turn("Short."))

    screen.send("Wait")
    screen.expect("run_shell")
    screen.wait_until(lambda: exists(screen, "pid"))
    screen.type(CTRL_C)
    screen.expect("cancelled")
    screen.expect("Interrupted.")
    screen.send("Go on")
    screen.expect("Short.\n")

    (result,) = screen.server.prompts[-1].results.values()
    assert "cancelled" in result


def test_ctrl_c_at_an_approval_denies_it_and_stops_the_turn(chat, asks):
    screen = chat(Turn(calls=[asking()]), Turn("Short."))

    screen.send("Run it")
    screen.expect("[n]")
    screen.type(CTRL_C)
    screen.expect("Interrupted.")
    screen.send("Go on")
    screen.expect("Short.\n")

    assert not exists(screen, "marker")


def test_ctrl_c_ends_all_approvals_of_the_turn(chat, asks):
    screen = chat(Turn(calls=[asking(), asking("touch other"), asking("touch third")]), Turn("Short."))

    screen.send("Run them")
    screen.expect("wants to run a command")
    screen.expect("[n]")
    screen.type(CTRL_C)
    rest = screen.expect("Interrupted.")
    screen.send("Go on")
    rest += screen.expect("Short.\n")

    assert "wants to run" not in rest
    assert not any(exists(screen, name) for name in ("marker", "other", "third"))
    assert len(screen.server.prompts[-1].results) == 3


def test_ctrl_c_twice_leaves_and_the_draft_is_in_the_history(chat, command):
    screen = chat()

    screen.type("not sent")
    screen.expect("t")
    screen.type(CTRL_C)
    screen.expect("Press Ctrl-C again to leave.")
    screen.type(CTRL_C)
    status, _ = screen.end()

    assert status == 0
    assert histories(screen, command) == ["not sent"]
    again = chat()
    again.type(UP)
    again.expect("not sent")


def test_typing_after_ctrl_c_keeps_the_chat_open(chat):
    screen = chat(Turn("Here."))

    screen.type(CTRL_C)
    screen.expect("Press Ctrl-C again to leave.")
    screen.type("x")
    screen.expect("x")
    screen.type(CTRL_C)
    screen.expect("Press Ctrl-C again to leave.")
    screen.type(ENTER)

    screen.expect("Here.\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_chat_and_keeps_the_draft(chat, command, number):
    screen = chat()

    screen.type("not sent")
    screen.expect("t")
    os.kill(screen.pid, number)
    screen.end()

    assert histories(screen, command) == ["not sent"]


@needs_sandbox
def test_a_killed_chat_resumes_where_it_was_interrupted(chat):
    screen = chat(Turn(calls=[shell("touch first; sleep 1000")]))
    screen.send("Do it")
    screen.wait_until(lambda: exists(screen, "first"))
    os.kill(screen.pid, signal.SIGKILL)
    screen.end()

    again = chat(Turn("Finished."), words=("--continue",))
    again.expect("It was interrupted. Press Enter to continue")
    again.type(ENTER)
    again.expect("Finished.\n")

    assert [message["content"] for message in messages(again.server) if message["role"] == "user"] == ["Do it"]
    (result,) = again.server.prompts[-1].results.values()
    assert "outcome_unknown" in result


# --- typing while the model works -------------------------------------------------------------------------------------


def test_a_message_typed_during_a_turn_is_sent_after_it(chat, tmp_path):
    go = tmp_path / "go"
    screen = chat(Turn("One.", hold=str(go)), Turn("Two."))

    screen.send("First")
    screen.wait_for_requests(1)
    screen.send("Second")
    screen.expect("queued: Second")
    go.touch()
    screen.expect("> Second")
    screen.expect("Two.\n")

    assert [message["content"] for message in messages(screen.server)[1:]] == ["First", "One.", "Second"]


def test_ctrl_c_returns_unsent_messages_to_the_input_line(chat, tmp_path):
    screen = chat(Turn("One.", hold=str(tmp_path / "never")), Turn("Two."))

    screen.send("First")
    screen.wait_for_requests(1)
    screen.send("Second")
    screen.expect("queued: Second")
    screen.type(CTRL_C)
    screen.expect("Interrupted.")
    screen.type(ENTER)
    screen.expect("Two.\n")

    assert messages(screen.server)[-1]["content"] == "Second"


def test_a_message_may_have_several_lines(chat):
    screen = chat(Turn("I see."))

    screen.type(
        "one" + ALT_ENTER + "two" + ALT_ENTER + "three\\" + ENTER + "four" + "\x1b[200~five\rsix\x1b[201~" + ENTER
    )
    screen.expect("I see.\n")

    assert messages(screen.server)[-1]["content"] == "one\ntwo\nthree\nfourfive\nsix"


# --- faults -----------------------------------------------------------------------------------------------------------


def test_an_error_of_the_provider_is_shown_and_the_turn_can_be_resumed(chat):
    screen = chat(Turn(status=401), Turn("Better."))

    screen.send("Hello")
    screen.expect("model_error")
    screen.expect("401")
    screen.type(ENTER)
    screen.expect("Better.\n")

    assert [message["content"] for message in messages(screen.server) if message["role"] == "user"] == ["Hello"]


def test_a_truncated_answer_continues_in_the_next_attempt(chat):
    text = "A first paragraph.\n\nA second one."
    screen = chat(Turn(text, finish=False), Turn(text + " And its end."))

    screen.send("Hello")
    screen.expect("A first paragraph.\n")
    screen.expect("Attempt 2 of 6")
    rest = screen.expect("A second one. And its end.\n")

    assert "A first paragraph." not in rest
    assert len(screen.server.prompts) == 2


def test_an_answer_that_differs_in_the_next_attempt_starts_over(chat):
    screen = chat(Turn("A first paragraph.\n\nA second one.", finish=False), Turn("Something else."))

    screen.send("Hello")
    screen.expect("Attempt 2 of 6")
    screen.expect("(the answer starts over)")
    screen.expect("Something else.\n")


def test_the_cost_is_counted_with_the_price_of_the_settings(chat):
    prices = json.dumps({"openai:scripted": {"input": 1000, "output": 0}})
    screen = chat(
        Turn("Hi.", input_tokens=2000), HILT_AGENTS_PRICES=prices, HILT_AGENTS_MAX_COST_DAY="1.5", columns=120
    )

    screen.send("Hello")
    screen.expect("Hi.\n")
    screen.expect("$2.00")
    screen.send("/cost")
    screen.expect("Today, openai:scripted: 1 request, 2.0k tokens in, 20 out, cost $2.00")
    screen.expect("Limit per day: $1.5")
    screen.send("More")
    screen.expect("budget_exceeded")

    assert len(screen.server.prompts) == 1


# --- where the chat does not start ------------------------------------------------------------------------------------


def test_without_a_model_the_chat_says_what_to_set(command):
    env = {**command.environ, "TERM": "xterm"}
    with Screen([HILT, "chat"], env=env, cwd=command.folder.path) as screen:
        status, text = screen.end()

    assert status == 2
    assert "no_model" in text
    assert "ANTHROPIC_API_KEY" in text


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_be_drawn_on_is_refused(command, term):
    env = {**command.environ, "TERM": term, "HILT_MODEL": "openai:x", "OPENAI_API_KEY": "k"}
    with Screen([HILT, "chat"], env=env, cwd=command.folder.path) as screen:
        status, text = screen.end()

    assert status == 2
    assert "hilt run" in text


def test_without_a_terminal_the_chat_is_refused(command):
    done = command.run("chat")

    assert done.returncode == 2
    assert b"hilt run" in done.stderr


# --- large ------------------------------------------------------------------------------------------------------------


def test_200_calls_of_one_turn_are_200_lines(chat):
    calls = [ScriptedCall("stat_file", {"path": f"f{number}.txt"}) for number in range(200)]
    screen = chat(Turn(calls=calls), Turn("All seen."))
    for number in range(200):
        screen.folder.write(f"f{number}.txt", "x\n")

    screen.send("Look")
    output = bare(screen.expect("All seen.\n"))

    assert all(f"✓ {number} stat_file f" in output for number in range(1, 201))
    assert len(screen.server.prompts[-1].results) == 200


def test_a_long_answer_is_shown_to_its_end(chat):
    count = 40_000 if os.environ.get("HILT_STRESS") else 10_000  # 2 MB or half of one
    paragraphs = "".join(f"Paragraph {number} of many.\n\n" for number in range(count))
    code = "```python\n" + "x = 'a line of code'\n" * count + "```\n\n"
    screen = chat(Turn(paragraphs + code + "The end."))

    screen.send("Write")
    output = screen.expect("The end.\n")

    assert f"Paragraph {count - 1} of many." in output
    assert output.count("a line of code") >= count
