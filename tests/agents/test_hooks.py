"""Hooks of the loop: all events fire, hooks make the changes that their event allows, and a block ends the run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.model_server import ScriptedCall, Turn

LOG = "cat >> ../log; echo >> ../log"
WRITE = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})


@pytest.fixture
def hooked(base, folder):
    """Return a function that writes the user's hooks: event to command."""

    def write(**commands: str) -> None:
        entries = [{"event": event, "command": command} for event, command in commands.items()]
        folder.write("../config/hooks.yaml", json.dumps(entries))

    return write


def logged(folder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in folder.read("../log").splitlines() if line]


def test_every_event_of_a_conversation_fires_in_order(talk, folder, hooked):
    events = (
        "session_start", "pre_send_message", "pre_llm_request", "post_llm_response", "pre_tool_execution",
        "post_tool_execution", "post_tool_execution_failure", "stop", "post_send_message", "pre_compact",
        "post_compact", "session_end",
    )  # fmt: skip
    hooked(**dict.fromkeys(events, LOG))
    missing = ScriptedCall("read_file", {"path": "missing"})
    talking = talk(
        Turn("", [WRITE]), Turn("", [missing]), Turn("", [ScriptedCall("compact", {})]), Turn("Summary"), Turn("Done.")
    )

    ended = talking.send("Write it")

    assert (ended.status, ended.text) == (0, "Done.")
    fired = [entry["event"] for entry in logged(folder)]
    call = ["pre_llm_request", "post_llm_response", "pre_tool_execution"]
    assert fired == [
        "session_start",
        "pre_send_message",
        *call,
        "post_tool_execution",
        *call,
        "post_tool_execution_failure",
        *call,
        "post_tool_execution",
        "pre_compact",
        "post_compact",
        "pre_llm_request",
        "post_llm_response",
        "stop",
        "post_send_message",
        "session_end",
    ]
    by_event = {entry["event"]: entry for entry in logged(folder)}
    assert by_event["pre_send_message"]["arguments"] == {"message": "Write it"}
    assert by_event["pre_llm_request"]["arguments"]["model"] == "openai:scripted"
    assert by_event["post_send_message"]["result"] == "Done."
    assert {entry["session"] for entry in logged(folder)} == {"talk"}


@pytest.mark.parametrize(
    "event, requests",
    [("pre_send_message", 0), ("pre_llm_request", 0), ("post_llm_response", 1), ("post_send_message", 2)],
)
def test_a_block_ends_the_run_with_1(talk, folder, hooked, event, requests):
    hooked(**{event: "echo 'not today' >&2; exit 2"})
    talking = talk(Turn("", [WRITE]), Turn("Done."))

    ended = talking.send("Write it")

    assert (ended.status, ended.error.code) == (1, "hook_blocked")
    assert "not today" in ended.error.message
    assert len(talking.server.prompts) == requests
    assert ("a.txt" in folder.tree()) == (requests == 2)


def test_a_failing_hook_before_a_message_blocks(talk, hooked):
    hooked(pre_send_message="exit 5")
    talking = talk(Turn("Done."))

    assert talking.send("Hi").error.code == "hook_blocked"
    assert talking.server.prompts == []


def test_a_hook_that_stops_the_session_ends_the_run(talk, hooked):
    hooked(session_start="""echo '{"decision": "stop", "reason": "closed on Mondays"}'""")
    talking = talk(Turn("Done."))

    ended = talking.send("Hi")

    assert (ended.status, ended.error.code) == (1, "hook_blocked")
    assert "closed on Mondays" in ended.error.message
    assert talking.server.prompts == []


def test_hooks_change_the_message_the_prompt_the_answer_and_the_last_message(talk, hooked):
    hooked(
        pre_send_message="""echo '{"arguments": {"message": "Hello, changed"}, "context": "It is Monday."}'""",
        pre_llm_request="""echo '{"arguments": {"system": "Be brief."}, "context": "Very brief."}'""",
        post_llm_response="""echo '{"result": {"text": "Changed answer."}}'""",
        post_send_message="""echo '{"result": "Changed message."}'""",
    )
    talking = talk(Turn("Done."))

    ended = talking.send("Hello")

    body = json.dumps(talking.server.prompts[0].body["messages"])
    assert "Hello, changed" in body
    assert "It is Monday." in body
    assert talking.server.prompts[0].body["messages"][0]["content"] == "Be brief.\n\nVery brief."
    assert ended.text == "Changed message."
    assert talking.records[2]["parts"] == [{"text": "Changed answer."}]


def test_a_hook_keeps_the_agent_working_until_it_allows_the_end(talk, folder, hooked):
    hooked(stop="test -e a.txt || { echo 'a.txt is missing' >&2; exit 2; }")
    talking = talk(Turn("Done."), Turn("", [WRITE]), Turn("Now it is."))

    ended = talking.send("Write it")

    assert (ended.status, ended.text) == (0, "Now it is.")
    assert "a.txt is missing" in talking.server.prompts[1].raw.decode()


def test_a_hook_of_a_call_stops_the_agent(talk, hooked):
    hooked(post_tool_execution="""echo '{"decision": "stop", "reason": "enough"}'""")
    talking = talk(Turn("", [WRITE]), Turn("Done."))

    ended = talking.send("Write it")

    assert (ended.status, ended.error.code) == (1, "hook_blocked")
    assert "enough" in ended.error.message
    assert len(talking.server.prompts) == 1
    assert talking.kinds() == ["session", "user", "answer", "result", "ended"]


def test_a_hook_may_prevent_a_compaction(talk, hooked):
    hooked(pre_compact="echo 'keep all' >&2; exit 2")
    turns = [Turn("", [ScriptedCall("list_dir", {"depth": n + 1})]) for n in range(4)]
    talking = talk(*turns, Turn("", [ScriptedCall("compact", {})]), Turn("Done."))

    assert talking.send("Look").status == 0
    assert "compacted" not in talking.kinds()
    assert any("keep all" in notice for notice in talking.notices)
