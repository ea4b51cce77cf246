"""Compaction: what stays verbatim, what becomes a summary, and that nothing changes when it fails."""

from __future__ import annotations

import re

import pytest

from hilt import Output, tool
from hilt.agents.transcripts import current
from hilt.declaration import Traits
from tests.agents.model_server import ScriptedCall, Turn
from tests.agents.talking import FORMATS

SUMMARY = "Task\nCount the files.\n\nDecisions\nNone."


def long_file(number: int) -> ScriptedCall:
    return ScriptedCall("read_file", {"path": f"{number}.txt"})


@pytest.fixture
def files(folder):
    for number in range(10):
        folder.write(f"{number}.txt", f"contents of {number} " * 2000)
    return folder


@pytest.fixture(params=FORMATS)
def kind(request) -> str:
    return str(request.param)


def asks_for_summary(request) -> bool:
    return "Summarise this conversation" in request.raw.decode()


def test_the_tool_compacts_before_the_next_answer(talk, files, kind):
    turns = [Turn(f"Step {n}.", [long_file(n)]) for n in range(4)]
    compact = Turn("", [ScriptedCall("compact", {"focus": "the count"})])
    talking = talk(*turns, compact, Turn(SUMMARY), Turn("Done."), kind=kind)

    ended = talking.send("Count the files.")

    assert (ended.status, ended.text) == (0, "Done.")
    summary, after = talking.server.prompts[5:]
    assert asks_for_summary(summary)
    assert "the count" in summary.raw.decode()
    assert summary.tools == []
    text = after.raw.decode()
    assert "Count the files." in text  # the user's message
    assert "Decisions" in text
    assert "contents of 0" not in text
    assert list(after.results) == ["call_3_0", "call_4_0"]  # the newest turns
    assert talking.text.endswith("Done.")
    assert "Decisions" not in talking.text  # the summary is not an answer


def test_the_whole_transcript_stays_readable(talk, files):
    turns = [Turn(f"Step {n}.", [long_file(n)]) for n in range(4)]
    talking = talk(*turns, Turn("", [ScriptedCall("compact", {})]), Turn(SUMMARY), Turn("Done."))
    talking.send("Count the files.")

    path = re.search(r"transcript is in (\S+);", talking.server.prompts[6].raw.decode())[1]  # type: ignore[index]
    read = talking.runtime.call("search_files", pattern="contents of 0", path=path)

    assert read.ok, read.error
    assert "contents of 0" in read.text
    assert talking.runtime.call("read_file", path=path).ok
    assert [record["type"] for record in talking.records].count("compacted") == 1
    assert len(current(talking.records)) < 10


def test_a_full_context_first_loses_old_results_without_a_request(talk, files):
    turns = [Turn(f"Step {n}.", [long_file(n)], input_tokens=6000 * (n + 1)) for n in range(8)]
    talking = talk(*turns, Turn("Done."), flags={"model.context_tokens": 40_000})

    ended = talking.send("Read them all.")

    assert (ended.status, ended.text) == (0, "Done.")
    assert not any(map(asks_for_summary, talking.server.prompts))
    results = talking.server.prompts[-1].results
    assert len(results) == 8
    assert re.search(r"read_file 0.txt: [\d,]+ characters, removed", results["call_0_0"])
    assert "contents of 7" in results["call_7_0"]
    assert any("Compacted" in notice for notice in talking.notices)


def test_a_context_that_stays_full_is_summarised(talk, files):
    turns = [Turn("thoughts " * 1500, [long_file(n)], input_tokens=6000 * (n + 1)) for n in range(6)]
    talking = talk(*turns, Turn("Done."), Turn("Done."), flags={"model.context_tokens": 30_000})
    talking.server._waiting.insert(4, (99, Turn(SUMMARY, when="Summarise this")))

    ended = talking.send("Think about them all.")

    assert ended.status == 0
    assert any(map(asks_for_summary, talking.server.prompts))
    assert "Think about them all." in talking.server.prompts[-1].raw.decode()


def test_a_context_that_is_too_long_is_compacted_and_sent_once_more(talk, files, kind):
    turns = [Turn(f"Step {n}.", [long_file(n)]) for n in range(4)]
    talking = talk(*turns, Turn(context_too_long=True), Turn("Done."), kind=kind)

    ended = talking.send("Count the files.")

    assert (ended.status, ended.text) == (0, "Done.")
    assert not any(map(asks_for_summary, talking.server.prompts))
    results = talking.server.prompts[-1].results
    assert ["contents of" in result for result in results.values()] == [False, False, True, True]
    assert talking.pauses == []


def test_a_context_that_is_too_long_with_short_results_is_summarised(talk, files, kind):
    turns = [Turn(f"Step {n}.", [long_file(n)]) for n in range(4)]
    too_long = Turn(context_too_long=True)
    talking = talk(*turns, too_long, too_long, Turn(SUMMARY), Turn("Done."), kind=kind)

    ended = talking.send("Count the files.")

    assert (ended.status, ended.text) == (0, "Done.")
    assert [asks_for_summary(request) for request in talking.server.prompts] == [False] * 6 + [True, False]


@pytest.mark.parametrize("context", [16_000, 24_000])
def test_requests_fit_the_context_although_the_provider_counts_too_few_tokens(talk, files, kind, context):
    turns = [Turn(f"Step {n}.", [long_file(n % 10)], input_tokens=n) for n in range(16)]
    talking = talk(*turns, Turn("Done."), kind=kind, flags={"model.context_tokens": context})

    assert talking.send("Read them all.").status == 0
    assert len(talking.server.prompts) == 17
    assert max(len(request.raw) for request in talking.server.prompts) <= context * 4


def test_a_context_that_stays_too_long_ends_the_run(talk, files, kind):
    turns = [Turn(f"Step {n}.", [long_file(n)]) for n in range(4)]
    too_long = Turn(context_too_long=True)
    talking = talk(*turns, too_long, too_long, Turn(SUMMARY), too_long, kind=kind)

    ended = talking.send("Count the files.")

    assert (ended.status, ended.error.code) == (1, "model_error")
    assert len(talking.server.prompts) == 8


@pytest.mark.parametrize("broken", [[Turn(status=400)], [Turn("")], [Turn(status=500)] * 6])
def test_a_failed_compaction_changes_nothing(talk, files, broken):
    turns = [Turn(f"Step {n}.", [long_file(n)]) for n in range(4)]
    talking = talk(*turns, Turn("", [ScriptedCall("compact", {})]), *broken, Turn("Done."))

    assert talking.send("Count the files.").status == 0
    results = talking.server.prompts[-1].results
    assert len(results) == 5
    assert all("contents of" in result for result in list(results.values())[:4])
    assert "compacted" not in talking.kinds()
    assert any(notice.startswith("Not compacted") for notice in talking.notices)


def test_lasting_results_and_the_users_messages_survive_two_compactions(talk, files):
    @tool(effects="read", traits=Traits(lasting="last"))
    def plan(text: str) -> Output:
        """Note a plan."""
        return Output(f"The plan: {text}")

    @tool(effects="read", traits=Traits(lasting="each"))
    def learn(name: str) -> Output:
        """Learn something."""
        return Output(f"How to {name}")

    def noted(tool_name: str, **args: str) -> Turn:
        return Turn("", [ScriptedCall(tool_name, args)])

    filler = [Turn("", [long_file(n)]) for n in range(3)]
    compact = Turn("", [ScriptedCall("compact", {})])
    talking = talk(
        noted("plan", text="old plan"), noted("learn", name="sing"), noted("plan", text="new plan"),
        noted("learn", name="dance"), *filler, compact, Turn("first summary"), Turn("Half."),
        *filler, compact, Turn("second summary"), Turn("Done."),
        tools=[plan, learn],
    )  # fmt: skip

    talking.send("The first task: α.", "The second task: β.")

    text = talking.server.prompts[-1].raw.decode("unicode_escape")
    body = talking.server.prompts[-1].body["messages"][1]["content"]
    assert "second summary" in text
    for verbatim in ("The first task: α.", "The second task: β.", "The plan: new plan", "How to sing", "How to dance"):
        assert verbatim in body, verbatim
    assert "old plan" not in body
    summarised = talking.server.prompts[-2].body["messages"][1]["content"]
    assert "first summary" in summarised


def test_compaction_survives_the_process(talk, files):
    turns = [Turn(f"Step {n}.", [long_file(n)]) for n in range(4)]
    talking = talk(*turns, Turn("", [ScriptedCall("compact", {})]), Turn(SUMMARY), Turn("Done."), Turn("Again."))
    talking.send("Count the files.")

    talking.send("And now?", is_new=False)

    before, after = (request.body["messages"] for request in talking.server.prompts[-2:])
    assert after[: len(before)] == before
    assert "contents of 0" not in talking.server.prompts[-1].raw.decode()


def test_a_short_conversation_has_nothing_to_compact(talk, runtime):
    talking = talk(Turn("", [ScriptedCall("compact", {})]), Turn("Done."))

    assert talking.send("Hi").status == 0
    assert "Nothing to compact." in talking.notices
    result = runtime.call("compact")
    assert (result.ok, "nothing to compact" in result.text) == (True, True)


def test_the_user_compacts_between_turns(talk, files):
    turns = [Turn(f"Step {n}.", [long_file(n)]) for n in range(4)]
    talking = talk(*turns, Turn("Done."), Turn(SUMMARY), Turn("Again."))

    async def work(conversation):
        await conversation.send("Count the files.")
        compacted = await conversation.compact("numbers")
        await conversation.send("And now?")
        return compacted

    assert talking.run(work) is True
    assert "contents of 0" not in talking.server.prompts[-1].raw.decode()
