"""The loop: answers, calls, faults of the provider, limits, repetition, interruption."""

from __future__ import annotations

import asyncio
import json
import os
import threading

import pytest

from hilt import Output, tool
from hilt.agents.budgets import RunLimits
from hilt.call import UserAnswer
from hilt.output.run_events import ApprovalAsked, CallStarted, as_json
from tests.agents.model_server import ScriptedCall, Turn
from tests.agents.talking import FORMATS, until
from tests.programs import needs_sandbox

READ = ScriptedCall("read_file", {"path": "a.txt"})


@pytest.fixture(params=FORMATS)
def kind(request) -> str:
    return str(request.param)


# --- answers and calls ------------------------------------------------------------------------------------------------


def test_an_answer_streams_and_ends_the_run(talk, kind):
    talking = talk(Turn("Hello, **you**. Ünïcödé 🙂", thinking="hm", piece=3), kind=kind)

    ended = talking.send("Hi")

    assert (ended.status, ended.text, ended.error) == (0, "Hello, **you**. Ünïcödé 🙂", None)
    assert talking.text == ended.text
    assert len([event for event in talking.events if (as_json(event) or {}).get("type") == "text"]) > 3
    assert [(used.input_tokens, used.output_tokens) for used in talking.tokens] == [(100, 20)]
    assert talking.kinds() == ["session", "user", "answer", "ended"]


def test_a_call_goes_through_the_pipeline_and_its_result_to_the_model(talk, folder, kind):
    folder.write("a.txt", "hello\n")
    talking = talk(Turn("Looking.", [READ]), Turn("It says hello."), kind=kind)

    ended = talking.send("What is in a.txt?")

    assert (ended.status, ended.text) == (0, "It says hello.")
    (result,) = talking.server.prompts[1].results.values()
    assert "1\thello" in result
    assert talking.results[0].result.ok
    assert [row.entry.tool for row in talking.runtime.parts.trail.rows()] == ["read_file"]
    assert talking.kinds() == ["session", "user", "answer", "result", "answer", "ended"]


def test_the_tools_of_the_session_are_offered_with_their_schemas(talk):
    talking = talk(Turn("ok"), flags={"profile": "nano"})
    talking.send("Hi")

    request = talking.server.prompts[0]

    assert request.tools == sorted(["read_file", "write_file", "edit_file", "run_shell", "search_files"])
    by_name = {entry["function"]["name"]: entry["function"]["parameters"] for entry in request.body["tools"]}
    assert by_name["read_file"]["properties"]["path"]["type"] == "string"


def test_calls_of_one_turn_run_at_the_same_time(talk):
    meeting = threading.Barrier(3, timeout=30)

    @tool(effects="read")
    def meet(number: int) -> Output:
        """Wait for the others."""
        meeting.wait()
        return Output(f"met {number}")

    calls = [ScriptedCall("meet", {"number": number}) for number in range(3)]
    talking = talk(Turn("", calls), Turn("done"), tools=[meet])

    assert talking.send("Meet").status == 0
    assert [result.result.text for result in sorted(talking.results)] == ["met 0", "met 1", "met 2"]
    assert list(talking.server.prompts[1].results) == ["call_0_0", "call_0_1", "call_0_2"]


def test_200_calls_in_one_turn_get_200_results(talk, folder, kind):
    calls = [ScriptedCall("write_file", {"path": f"{n}.txt", "content": f"{n}"}) for n in range(200)]
    talking = talk(Turn("", calls), Turn("done"), kind=kind)

    assert talking.send("Write").status == 0
    assert len(talking.server.prompts[1].results) == 200
    assert sorted(folder.tree()) == sorted(f"{n}.txt" for n in range(200))
    recorded = [record["id"] for record in talking.records if record["type"] == "result"]
    assert sorted(recorded) == sorted(f"call_0_{n}" for n in range(200))


@pytest.mark.parametrize("args", ["{", '{"path": "a.txt"', "[1]", '{"path": "a.txt", "path": "b.txt"}', "nothing"])
def test_malformed_arguments_are_an_error_result_and_no_retry(talk, folder, kind, args):
    folder.write("a.txt", "hello\n")
    talking = talk(Turn("", [ScriptedCall("read_file", args)]), Turn("I see."), kind=kind)

    assert talking.send("Read").status == 0
    assert [result.result.error.code for result in talking.results] == ["invalid_args"]
    assert len(talking.server.prompts) == 2
    assert "invalid_args" in next(iter(talking.server.prompts[1].results.values()))


def test_an_unknown_tool_is_an_error_result(talk, kind):
    talking = talk(Turn("", [ScriptedCall("raed_file", {"path": "a"})]), Turn("I see."), kind=kind)

    assert talking.send("Read").status == 0
    (result,) = talking.server.prompts[1].results.values()
    assert "unknown_tool" in result
    assert "read_file" in result


def test_two_calls_with_the_same_id_get_a_result_each(talk, folder):
    folder.write("a.txt", "hello\n")
    calls = [READ._replace(id="same"), ScriptedCall("list_dir", {}, "same")]
    talking = talk(Turn("", calls), Turn("", [READ._replace(id="same")]), Turn("done"))

    assert talking.send("Go").status == 0
    assert list(talking.server.prompts[1].results) == ["same", "same-2"]
    assert list(talking.server.prompts[2].results) == ["same", "same-2", "same-3"]


def test_an_image_reaches_the_model(talk, folder, kind):
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf50"
        "0f000383018055f2b0a50000000049454e44ae426082"
    )
    folder.write("a.png", png)
    talking = talk(Turn("", [ScriptedCall("read_file", {"path": "a.png"})]), Turn("A dot."), kind=kind)

    assert talking.send("Look").status == 0
    assert "iVBORw0KGgo" in talking.server.prompts[1].raw.decode()


def test_an_answer_of_2_mb_arrives_complete(talk, kind):
    text = "x" * (2 << 20)
    talking = talk(Turn(text), kind=kind)

    ended = talking.send("Write a lot")

    assert ended.text == text
    assert talking.text == text
    assert talking.records[2]["parts"] == [{**talking.records[2]["parts"][0], "text": text}]


def test_the_next_message_continues_the_conversation(talk, kind):
    talking = talk(Turn("One."), Turn("Two."), kind=kind)

    talking.send("First", "Second")

    assert "First" in talking.server.prompts[1].raw.decode()
    assert "One." in talking.server.prompts[1].raw.decode()
    assert talking.kinds() == ["session", "user", "answer", "ended", "user", "answer", "ended"]


# --- faults of the provider -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_transient_fault_is_retried_with_growing_pauses(talk, kind, status):
    talking = talk(*[Turn(status=status)] * 5, Turn("At last."), kind=kind)

    ended = talking.send("Hi")

    assert (ended.status, ended.text) == (0, "At last.")
    assert talking.pauses == [1, 2, 4, 8, 16]
    assert len(talking.server.prompts) == 6
    assert f"status {status}" in talking.notices[0]
    assert "Attempt 2 of 6" in talking.notices[0]


def test_six_faults_end_the_run_and_the_next_run_continues(talk, kind):
    talking = talk(*[Turn(status=500)] * 6, Turn("Here I am."), kind=kind)

    ended = talking.send("Hi")

    assert (ended.status, ended.error.code) == (1, "model_error")
    assert talking.kinds() == ["session", "user", "ended"]
    assert talking.send(None, is_new=False).text == "Here I am."


@pytest.mark.parametrize("retry_after, pause", [("7", 7.7), ("2", 2.2), ("3600", 60)])
def test_the_provider_may_ask_for_a_pause_of_up_to_a_minute(talk, kind, retry_after, pause):
    talking = talk(Turn(status=429, retry_after=retry_after), Turn("ok"), kind=kind)

    assert talking.send("Hi").status == 0
    assert talking.pauses == [pytest.approx(pause)]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_rejected_request_is_sent_once(talk, kind, status):
    talking = talk(Turn(status=status), kind=kind)

    ended = talking.send("Hi")

    assert (ended.status, ended.error.code) == (1, "model_error")
    assert f"status {status}" in ended.error.message
    assert len(talking.server.prompts) == 1
    assert talking.pauses == []


def test_nothing_of_a_stream_without_its_end_runs_or_is_recorded(talk, folder, kind):
    write = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})
    talking = talk(Turn("Half of", [write], finish=False), Turn("Half of it, then all."), kind=kind)

    ended = talking.send("Hi")

    assert (ended.status, ended.text) == (0, "Half of it, then all.")
    assert talking.text == ended.text  # not repeated
    assert folder.tree() == {}
    assert talking.kinds() == ["session", "user", "answer", "ended"]
    assert "cut off" in talking.notices[0]


def test_a_stream_cut_at_any_byte_is_retried(talk, folder, kind):
    write = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})
    whole = talk(Turn("Half", [write]), Turn("x"), kind=kind, session="whole")
    assert whole.send("Hi").status == 0
    os.unlink(folder.join("a.txt"))
    for number, cut in enumerate((0, 1, 60, 150, 300, 450, 600, 700, 800, 900, 1000)):
        talking = talk(Turn("Half", [write], cut_at=cut), Turn("Done."), kind=kind, session=f"cut{number}")

        assert talking.send("Hi").text == "Done.", cut
        assert folder.tree() == {}, cut
        assert talking.kinds() == ["session", "user", "answer", "ended"], cut


def test_the_last_event_of_anthropic_is_required(talk, folder):
    write = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})
    from tests.agents import model_server

    wire_format = model_server._format("/v1/messages")
    assert wire_format
    events = list(wire_format.stream(Turn("Hi", [write]), {}))
    size = sum(len(f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n") for name, data in events[:-1])
    assert events[-1][0] == "message_stop"
    talking = talk(Turn("Hi", [write], cut_at=size), Turn("Done."), kind="anthropic")

    assert talking.send("Hi").text == "Done."
    assert folder.tree() == {}


def test_text_that_differs_after_a_fault_starts_over(talk, kind):
    talking = talk(Turn("One two three", finish=False), Turn("One 2"), kind=kind)

    assert talking.send("Hi").text == "One 2"
    assert talking.text == "One 2"


def test_an_error_inside_the_stream_is_a_fault(talk, kind):
    talking = talk(Turn("Some", status=500, in_stream=True), Turn("Some more."), kind=kind)

    assert talking.send("Hi").text == "Some more."
    assert talking.text == "Some more."


def test_an_unreachable_server_is_retried_and_reported(talk, model_server):
    server = model_server()
    talking = talk(server=server)
    server.close()

    ended = talking.send("Hi")

    assert (ended.status, ended.error.code) == (1, "model_error")
    assert len(talking.pauses) == 5


def test_slow_tokens_arrive_as_they_come(talk, kind):
    talking = talk(Turn("slow but steady", delay=0.01, piece=1), kind=kind)

    assert talking.send("Hi").text == "slow but steady"


def test_an_answer_at_the_limit_of_tokens_is_kept(talk, kind):
    talking = talk(Turn("All that fits", length=True), kind=kind)

    assert talking.send("Hi").text == "All that fits"


# --- limits -----------------------------------------------------------------------------------------------------------


def test_the_limit_of_turns_ends_the_run(talk, folder):
    turns = [Turn("", [ScriptedCall("write_file", {"path": f"{n}.txt", "content": ""})]) for n in range(5)]
    talking = talk(*turns, Turn("done"))

    ended = talking.send("Go", limits=RunLimits(turns=3))

    assert (ended.status, ended.error.code) == (3, "budget_exceeded")
    assert len(talking.server.prompts) == 3
    assert sorted(folder.tree()) == ["0.txt", "1.txt", "2.txt"]
    assert talking.send(None, is_new=False).status == 0


def test_the_limit_of_tokens_counts_input_and_output(talk):
    turns = [Turn("", [ScriptedCall("list_dir", {"depth": n + 1})]) for n in range(5)]
    talking = talk(*turns)

    ended = talking.send("Go", limits=RunLimits(tokens=300))

    assert (ended.status, ended.error.code) == (3, "budget_exceeded")
    assert len(talking.server.prompts) == 3


def test_the_limit_of_seconds_ends_a_request_and_what_runs(talk, base):
    talking = talk(Turn("never", hold=f"{base}/never"))

    ended = talking.send("Go", limits=RunLimits(seconds=0.3))

    assert (ended.status, ended.error.code) == (3, "budget_exceeded")
    assert talking.kinds() == ["session", "user", "ended"]


def test_the_limit_of_a_day_ends_the_run_and_costs_are_counted(talk):
    prices = {"openai:scripted": {"input": 1000, "output": 5000}}  # dollars per million tokens
    turns = [Turn("", [ScriptedCall("list_dir", {"depth": n + 1})]) for n in range(5)]
    talking = talk(*turns, flags={"agents.prices": prices, "agents.max_cost_day": 0.5})

    ended = talking.send("Go")

    assert (ended.status, ended.error.code) == (3, "budget_exceeded")
    assert [used.cost for used in talking.tokens] == [pytest.approx(0.2)] * 3
    assert [record["cost"] for record in talking.records if record["type"] == "answer"] == [pytest.approx(0.2)] * 3
    assert talking.send(None, is_new=False).error.code == "budget_exceeded"
    assert len(talking.server.prompts) == 3


# --- repetition -------------------------------------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_gets_a_hint_and_then_ends_the_run(talk, folder):
    folder.write("a.txt", "hello\n")
    talking = talk(*[Turn("", [READ])] * 9)

    ended = talking.send("Go")

    assert (ended.status, ended.error.code) == (1, "loop_detected")
    assert len(talking.server.prompts) == 5
    hinted = ["same result" in result for result in talking.server.prompts[4].results.values()]
    assert hinted == [False, False, True, True]


def test_a_cycle_of_calls_counts_too(talk, folder):
    folder.write("a.txt", "hello\n")
    cycle = [READ, ScriptedCall("list_dir", {}), ScriptedCall("read_file", {"path": "b.txt"})]
    talking = talk(*[Turn("", [call]) for _ in range(9) for call in cycle])

    ended = talking.send("Go")

    assert (ended.status, ended.error.code) == (1, "loop_detected")
    assert len(talking.server.prompts) == 15


@needs_sandbox
def test_a_changing_result_is_not_a_loop(talk, folder):
    append = [
        Turn("", [ScriptedCall("run_shell", {"command": "echo x >> log; wc -l < log"}), ScriptedCall("list_dir", {})])
    ]
    talking = talk(*append * 6, Turn("done"))

    assert talking.send("Go").status == 0


def test_three_polls_count_as_one(talk):
    @tool(effects="read")
    def poll() -> Output:
        """Say that nothing has happened."""
        return Output("running")

    polling = poll._replace(traits=type(poll.traits)(polls=True))
    talking = talk(*[Turn("", [ScriptedCall("poll", {})])] * 15, tools=[polling])

    ended = talking.send("Go")

    assert ended.error.code == "loop_detected"
    assert len(talking.server.prompts) == 15


# --- approvals --------------------------------------------------------------------------------------------------------


def test_a_missing_approval_is_the_result_and_the_run_ends_with_4(talk, folder):
    folder.write(".hilt/permissions.yaml", "ask: [write_file]\n")
    write = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})
    talking = talk(Turn("", [write]), Turn("I could not write."))

    ended = talking.send("Write")

    assert (ended.status, ended.text, ended.error) == (4, "I could not write.", None)
    (finished,) = talking.results
    assert as_json(finished) == {
        "type": "tool_result",
        "id": "call_0_0",
        "ok": False,
        "error_code": "approval_required",
        "message": finished.result.error.message,
        "approval": finished.result.error.details["approval"],
    }
    assert ApprovalAsked("call_0_0", "write_file") in talking.events


def test_the_user_approves_in_place(talk, folder):
    folder.write(".hilt/permissions.yaml", "ask: [write_file]\n")
    asked = []

    def asker(question):
        asked.append(question.tool)
        return UserAnswer("once", "", "test")

    write = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})
    talking = talk(Turn("", [write]), Turn("done"), asker=asker)

    assert talking.send("Write").status == 0
    assert asked == ["write_file"]
    assert folder.read("a.txt") == "x"
    place = talking.events.index(ApprovalAsked("call_0_0", "write_file"))
    assert isinstance(talking.events[place - 1], CallStarted)


# --- interruption -----------------------------------------------------------------------------------------------------


def test_an_interrupted_answer_leaves_no_trace_and_the_conversation_continues(talk, base, kind):
    talking = talk(Turn("never ends", hold=f"{base}/never"), Turn("Again."), kind=kind)

    async def work(conversation):
        sending = asyncio.create_task(conversation.send("Hi"))
        await until(lambda: talking.text)
        await asyncio.to_thread(conversation.cancel)
        interrupted = await sending
        return interrupted, await conversation.send("Go on")

    interrupted, ended = talking.run(work)

    assert (interrupted.status, interrupted.error.code) == (130, "cancelled")
    assert (ended.status, ended.text) == (0, "Again.")
    assert talking.kinds() == ["session", "user", "ended", "user", "answer", "ended"]


@needs_sandbox
def test_an_interrupted_call_gets_its_result_and_its_program_ends(talk, folder):
    sleep = ScriptedCall("run_shell", {"command": "echo $$ > pid; sleep 600"})
    talking = talk(Turn("", [sleep, ScriptedCall("list_dir", {})]), Turn("Again."))

    async def work(conversation):
        sending = asyncio.create_task(conversation.send("Hi"))
        await until(lambda: "pid" in folder.tree() and talking.results)
        conversation.cancel()
        interrupted = await sending
        return interrupted, await conversation.send("Go on")

    interrupted, ended = talking.run(work)

    assert interrupted.status == 130
    assert ended.text == "Again."
    outcomes = {result.tool: result.result.ok for result in talking.results}
    assert outcomes == {"run_shell": False, "list_dir": True}
    assert set(talking.server.prompts[1].results) == {"call_0_0", "call_0_1"}


def test_an_interrupted_pause_ends_at_once(talk):
    talking = talk(*[Turn(status=500)] * 6)

    async def work(conversation):
        sending = asyncio.create_task(conversation.send("Hi"))
        await until(lambda: talking.pauses)
        conversation.cancel()
        return await sending

    talking._sleep = lambda seconds: _endless(talking, seconds)

    assert talking.run(work).status == 130


async def _endless(talking, seconds):
    talking.pauses.append(seconds)
    await asyncio.sleep(3600)


def test_nothing_runs_once_the_turn_is_interrupted(talk, folder):
    """The user interrupts between the answer and its calls."""
    write = ScriptedCall("write_file", {"path": "a.txt", "content": "x"})
    talking = talk(Turn("", [write, write]), Turn("Again."))

    async def work(conversation):
        events = talking.events.append

        def emit(event):
            events(event)
            if isinstance(event, CallStarted):
                conversation.cancel()

        talking.emit = emit
        return await conversation.send("Hi")

    assert talking.run(work).status == 130
    assert folder.tree() == {}
    assert talking.kinds() == ["session", "user", "answer", "result", "result", "ended"]


def test_a_failing_listener_is_not_a_fault_of_the_provider(talk):
    talking = talk(Turn("Hello."), Turn("Again."))

    async def work(conversation):
        def emit(event):
            raise BrokenPipeError("nobody listens")

        talking.emit = emit
        await conversation.send("Hi")

    with pytest.raises(BrokenPipeError):
        talking.run(work)
    assert len(talking.server.prompts) == 1


def test_a_full_disk_ends_the_run_and_what_it_runs(talk, folder, monkeypatch):
    sleep = ScriptedCall("run_shell", {"command": "echo $$ > pid; sleep 600; touch late"})
    talking = talk(Turn("", [sleep, ScriptedCall("list_dir", {})]))
    write = os.write

    def full(descriptor, data):
        if b'"type":"result"' in data:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    ended = talking.send("Hi")
    monkeypatch.undo()

    assert (ended.status, ended.error.code) == (1, "resource_limit")
    assert talking.kinds()[:3] == ["session", "user", "answer"]
    assert "late" not in folder.tree()
    talking.server.add(Turn("Again."))
    assert talking.send(None, is_new=False).text == "Again."
    recorded = [record["id"] for record in talking.records if record["type"] == "result"]
    assert sorted(recorded) == ["call_0_0", "call_0_1"]
