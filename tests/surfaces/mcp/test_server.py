from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from hilt import catalog
from hilt.surfaces.cli.command_table import parser_of
from hilt.surfaces.cli.mcp import flags_of
from hilt.surfaces.mcp.attendant import AUTOMATIC_SECONDS
from hilt.surfaces.mcp.command import ServeOptions
from hilt.surfaces.mcp.content import INSTRUCTIONS_CHARACTERS
from hilt.surfaces.mcp.forms import OTHER
from tests.agents.model_server import ScriptedCall, Turn, serving_model
from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.mcp.hosts import (
    ALL,
    HTTP_NEW,
    HTTP_OLD,
    STDIO_NEW,
    STDIO_OLD,
    Lines,
    connected,
    listening,
    over_http,
    run,
    text_of,
)

ASKS = "ask: [Write]\n"
GREETING = '''
from hilt import tool

@tool(effects="read")
def greet(ctx, name: str) -> str:
    """Greet somebody."""
    ctx.progress(1, 2, "half")
    ctx.log("warning", f"greeting {name}")
    form = ctx.elicit("How?", {"type": "object", "properties": {"word": {"type": "string"}}})
    return f"{form['content']['word']}, {name}!" if form else f"Hello, {name}!"
'''

each_way = pytest.mark.parametrize("kind", ALL, ids="-".join)


def config(command: Any, name: str, text: str) -> None:
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def accepting(**content: Any) -> tuple[Any, list[Any]]:
    """Return a callback that fills in every form with these values, and the list of forms."""
    forms: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        forms.append(params)
        return types.ElicitResult(action="accept", content=content)

    return elicit, forms


@each_way
def test_a_session_lists_reads_edits_patches_and_undoes(command, kind):
    command.folder.write("a.txt", "one\ntwo\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-TWO\n+three\n*** Add File: b.txt\n+new\n*** End Patch\n"

    async def test() -> None:
        async with connected(command, kind, cold=True) as client:
            instructions = str(client.instructions)
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            read = await client.call_tool("read_file", {"path": "a.txt"})
            await client.call_tool("edit_file", {"path": "a.txt", "old_text": "two", "new_text": "TWO"})
            await client.call_tool("apply_patch", {"patch": patch})
            stat = await client.call_tool("stat_file", {"path": "b.txt"})
            failed = await client.call_tool("read_file", {"path": "none.txt"})

        assert list(tools) == sorted(tools)
        assert tools["read_file"].title == "Read file"
        assert tools["read_file"].annotations == types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        assert tools["run_shell"].annotations.destructive_hint
        assert "two" in text_of(read)
        assert stat.structured_content["size"] == 4
        assert failed.is_error
        assert text_of(failed).startswith("file_not_found: none.txt does not exist.\n")
        assert failed.meta["dev.hilt/error"] == {"code": "file_not_found", "details": {"path": "none.txt"}}
        assert len(instructions) <= INSTRUCTIONS_CHARACTERS
        assert kind[1] != "legacy" or "read_file" in instructions  # the other era is pinned, without a handshake

    run(test())
    assert command.folder.tree() == {"a.txt": "one\nthree\n", "b.txt": "new\n"}


@each_way
def test_a_picture_is_returned_as_a_picture(command, kind):
    pixel = (
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000" + "1f15c489"
        "0000000d49444154789c63fcffff3f0300050001ff5c2b3dfb0000000049454e44ae426082"
    )
    command.folder.write("a.png", bytes.fromhex(pixel))

    async def test() -> None:
        async with connected(command, kind) as client:
            result = await client.call_tool("read_file", {"path": "a.png"})

        name, picture = result.content
        assert (name.type, name.text) == ("text", "a.png: image/png, 70 bytes")
        assert (picture.type, picture.mime_type) == ("image", "image/png")

    run(test())


@each_way
def test_the_list_announces_results_as_long_as_read_file_returns(command, kind):
    command.folder.write("long.txt", "".join(f"line {number} of a long file\n" for number in range(20_000)))

    async def test() -> None:
        async with connected(command, kind) as client:
            tools = (await client.list_tools()).tools
            read = text_of(await client.call_tool("read_file", {"path": "long.txt"}))

        claude_code_default = 50_000
        announced = {tool.meta["anthropic/maxResultSizeChars"] for tool in tools}
        assert claude_code_default < len(read) <= min(announced)

    run(test())


@each_way
def test_an_unknown_tool_is_a_protocol_error(command, kind):
    async def test() -> None:
        async with connected(command, kind) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("reed_file", {"path": "a"})

        assert caught.value.code == types.INVALID_PARAMS
        assert "Unknown tool: reed_file" in str(caught.value)
        assert "read_file" in str(caught.value)

    run(test())


@needs_sandbox
@each_way
def test_a_long_command_reports_progress_and_ends_when_cancelled(command, kind):
    mark = Mark()
    beats: list[float] = []
    alive = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        beats.append(progress)
        if len(beats) >= 2:
            alive.set()

    async def test() -> None:
        async with connected(command, kind) as client:
            arguments = {"command": f"sleep 300; echo {mark.name}", "timeout": 200}
            call = asyncio.create_task(client.call_tool("run_shell", arguments, progress_callback=progress))
            await alive.wait()
            assert mark.alive()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.to_thread(wait_until, lambda: not mark.alive())
            after = len(beats)
            assert text_of(await client.call_tool("list_dir", {})) is not None
            assert len(beats) == after

    run(test())
    assert beats == sorted(set(beats))


@each_way
@pytest.mark.parametrize("decision, written", [("once", True), ("deny", False), ("nonsense", False)])
def test_the_user_is_asked_through_the_client(command, kind, decision, written):
    config(command, "permissions.yaml", ASKS)
    elicit, forms = accepting(decision=decision)

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=elicit) as client:
            result = await client.call_tool("write_file", {"path": "a.txt", "content": "new\n"})

        assert result.is_error is not written
        assert len(forms) == 1
        assert "write_file" in forms[0].message
        assert "| +new" in forms[0].message
        schema = forms[0].requested_schema
        assert (list(schema["properties"]), schema["required"]) == (["decision"], ["decision"])
        assert schema["properties"]["decision"]["enum"][0] == "once"
        assert schema["properties"]["decision"]["default"] == "deny"
        if not written:
            assert result.meta["dev.hilt/error"]["code"] == "USER_REJECTION"

    run(test())
    assert ("a.txt" in command.folder.tree()) is written


@needs_sandbox
@pytest.mark.parametrize("kind", [STDIO_OLD, HTTP_NEW], ids="-".join)
@pytest.mark.parametrize("last", ["once", "deny"])
def test_a_dangerous_command_is_previewed_in_a_second_form(command, kind, last):
    command.folder.write("src/a.py", "a = 1\n")
    config(command, "permissions.yaml", "permissions:\n  ask: [run_shell]\n")
    forms: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        forms.append(params)
        return types.ElicitResult(action="accept", content={"decision": ["preview", last][len(forms) - 1]})

    async def test() -> Any:
        async with connected(command, kind, elicitation_callback=elicit) as client:
            arguments = {"command": "rm -rf src; date +%N > made.txt", "force": True}
            result = await client.call_tool("run_shell", arguments)
        first, second = forms
        decision = first.requested_schema["properties"]["decision"]
        assert "preview" in decision["enum"]
        assert "preview: preview first" in decision["description"]
        assert "preview" not in second.requested_schema["properties"]["decision"]["enum"]
        assert "-a = 1" in second.message
        assert result.is_error is (last == "deny")
        if last == "once":
            assert "did not run again" in text_of(result)
            assert command.folder.read("made.txt").strip() in second.message

    run(test())
    assert ("src/a.py" in command.folder.tree()) is (last == "deny")


@needs_sandbox
@pytest.mark.parametrize("kind", [STDIO_OLD, HTTP_NEW], ids="-".join)
@pytest.mark.parametrize(
    "tool, command_line, shown",
    [("tool_call", "rm -rf src", "-a = 1"), ("run_shell", "rm -rf nothing", "would change no file")],
)
def test_a_preview_of_a_forwarded_call_or_without_changes_is_asked_about_once(command, kind, tool, command_line, shown):
    command.folder.write("src/a.py", "a = 1\n")
    config(command, "permissions.yaml", "permissions:\n  ask: [run_shell]\n")
    forms: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        forms.append(params)
        return types.ElicitResult(action="accept", content={"decision": ["preview", "once"][len(forms) - 1]})

    async def test() -> None:
        arguments: dict[str, Any] = {"command": command_line, "force": True}
        if tool == "tool_call":
            arguments = {"name": "run_shell", "arguments": arguments}
        async with connected(command, kind, "--search", elicitation_callback=elicit) as client:
            result = await client.call_tool(tool, arguments)
        assert not result.is_error, result

    run(test())
    assert shown in forms[1].message
    assert ("src/a.py" in command.folder.tree()) is (tool != "tool_call")


@pytest.mark.parametrize("kind", [STDIO_OLD, HTTP_OLD], ids="-".join)
def test_forms_of_an_agent_are_shown_in_the_host_while_its_call_runs(command, kind):
    """The forms have the name of the agent; the last one is for the patch of its worktree."""
    root = command.folder.join("")
    for arguments in (
        ["init", "-q"],
        ["-c", "user.name=t", "-c", "user.email=t@e", "commit", "-qm", "1", "--allow-empty"],
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    config(command, "permissions.yaml", "ask: [write_file]\n")
    question = {"question": "Which?", "options": ["a", "b"]}
    calls = [
        ScriptedCall("write_file", {"path": "a.txt", "content": "new"}),
        ScriptedCall("ask_user", {"questions": [question]}),
    ]
    elicit, forms = accepting(decision="once", answer_1="b")

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=elicit) as client:
            result = await client.call_tool("agent", {"prompt": "x", "worktree": True})
        assert not result.is_error, result
        assert "were applied" in text_of(result)

    with serving_model(Turn(calls=calls), Turn("done")) as server:
        command.environ |= {
            "HILT_MODEL": "openai:scripted",
            "HILT_MODEL_BASE_URL": server.openai_url,
            "OPENAI_API_KEY": "key-of-the-test",
        }
        run(test())
        assert '"Which?":"b"' in "".join(server.prompts[1].results.values())
    messages = [form.message for form in forms]
    assert len(messages) == 3
    assert sum("[agent general, agent_" in message for message in messages) == 2
    assert "apply_patch" in messages[-1]
    assert command.folder.read("a.txt") == "new"


@pytest.mark.parametrize("kind", [STDIO_OLD, HTTP_OLD], ids="-".join)
def test_a_call_stays_alive_while_the_user_decides(command, kind):
    config(command, "permissions.yaml", ASKS)
    beats: list[float] = []
    alive = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        beats.append(progress)
        if len(beats) >= 2:
            alive.set()

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        await alive.wait()
        return types.ElicitResult(action="accept", content={"decision": "once"})

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=elicit) as client:
            call = {"path": "a.txt", "content": "new\n"}
            result = await client.call_tool("write_file", call, progress_callback=progress)
            assert not result.is_error

    run(test())
    assert beats == sorted(set(beats))


def closing(action: Any, after: float = 0) -> Any:
    """Return a callback that closes every form after some seconds."""

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        await asyncio.sleep(after)
        return types.ElicitResult(action=action)

    return elicit


@each_way
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_closing_the_question_after_a_while_denies(command, kind, action):
    config(command, "permissions.yaml", ASKS)

    async def test() -> None:
        elicit = closing(action, after=AUTOMATIC_SECONDS + 0.5)
        async with connected(command, kind, elicitation_callback=elicit) as client:
            result = await client.call_tool("write_file", {"path": "a.txt", "content": "new\n"})

        assert result.meta["dev.hilt/error"]["code"] == "USER_REJECTION"

    run(test())
    assert command.folder.tree() == {}


@each_way
@pytest.mark.parametrize("action", ["decline", "cancel", "accept"])
def test_a_host_that_closes_the_question_at_once_does_not_deny(command, kind, action):
    from hilt.state.approvals import Approvals

    config(command, "permissions.yaml", ASKS)
    call = {"path": "a.txt", "content": "new\n"}

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=closing(action)) as client:
            meta: Any = {"dev.hilt/session": "mine"} if kind == HTTP_NEW else None
            asked = await client.call_tool("write_file", call, meta=meta)
            error = asked.meta["dev.hilt/error"]
            assert error["code"] == "approval_required"
            id = error["details"]["approval"]
            assert f"approve {id}" in text_of(asked)
            approvals = Approvals(command.state)
            approvals.answer(id, approved=True, by="test")
            approvals.close()
            assert not (await client.call_tool("write_file", call, meta=meta)).is_error

    run(test())
    assert command.folder.tree() == {"a.txt": "new\n"}


@each_way
def test_a_headless_host_is_not_asked(command, kind):
    config(command, "permissions.yaml", ASKS)
    elicit, forms = accepting(decision="once")
    info = types.Implementation(name="robot-headless", version="1")

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=elicit, client_info=info) as client:
            result = await client.call_tool("write_file", {"path": "a.txt", "content": "new\n"})

        assert result.meta["dev.hilt/error"]["code"] == "approval_required"

    run(test())
    assert forms == []


@pytest.mark.parametrize("kind", [STDIO_OLD, STDIO_NEW], ids="-".join)
def test_an_always_answer_is_stored(command, kind):
    config(command, "permissions.yaml", "default: ask\n")
    elicit, forms = accepting(decision="always")

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=elicit) as client:
            for content in ("one\n", "two\n"):
                assert not (await client.call_tool("write_file", {"path": "a.txt", "content": content})).is_error

    run(test())
    assert "always" in forms[0].requested_schema["properties"]["decision"]["enum"]
    assert len(forms) == 1


@each_way
def test_a_client_without_forms_learns_how_to_approve_and_the_call_then_runs(command, kind):
    from hilt.state.approvals import Approvals

    config(command, "permissions.yaml", ASKS)
    call = {"path": "a.txt", "content": "new\n"}

    async def test() -> None:
        async with connected(command, kind) as client:
            meta: Any = {"dev.hilt/session": "mine"} if kind == HTTP_NEW else None
            asked = await client.call_tool("write_file", call, meta=meta)
            approval = asked.meta["dev.hilt/error"]["details"]["approval"]
            assert f"hilt approve {approval}" in text_of(asked)
            again = await client.call_tool("write_file", call, meta=meta)
            assert again.meta["dev.hilt/error"]["details"]["approval"] == approval
            approvals = Approvals(command.state)
            approvals.answer(approval, approved=True, by="test")
            approvals.close()
            other = await client.call_tool("write_file", {"path": "b.txt", "content": "other\n"}, meta=meta)
            assert other.is_error
            assert not (await client.call_tool("write_file", call, meta=meta)).is_error
            assert (await client.call_tool("write_file", {**call, "content": "newer\n"}, meta=meta)).is_error

    run(test())
    assert command.folder.tree() == {"a.txt": "new\n"}


def recorded(command: Any, tool: str) -> list[tuple[str, str, str]]:
    """Return the decision, approver and outcome of each recorded call of a tool."""
    done = command.run("audit", "--json", "--tool", tool)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["decision"], row["approver"], row["outcome"]) for row in rows]


@each_way
def test_a_call_with_a_form_is_recorded_once(command, kind):
    config(command, "permissions.yaml", ASKS)
    elicit, _ = accepting(decision="once")

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=elicit) as client:
            assert not (await client.call_tool("write_file", {"path": "a.txt", "content": "new\n"})).is_error

    run(test())
    assert [(decision, outcome) for decision, _, outcome in recorded(command, "write_file")] == [("ask", "ok")]
    assert recorded(command, "write_file")[0][1].startswith("mcp client")


@each_way
def test_a_call_that_ends_at_its_question_is_recorded_once(command, kind):
    config(command, "permissions.yaml", ASKS)
    asked = asyncio.Event()

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=elicit) as client:
            call = asyncio.create_task(client.call_tool("write_file", {"path": "a.txt", "content": "new\n"}))
            await asked.wait()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await client.call_tool("list_dir", {})

    run(test())
    wait_until(lambda: len(recorded(command, "write_file")) == 1)
    expected = "cancelled" if kind[1] == "legacy" else "approval_timeout"
    assert recorded(command, "write_file") == [("ask", "", expected)]


def approve(command: Any, id: str) -> None:
    from hilt.state.approvals import Approvals

    approvals = Approvals(command.state)
    approvals.answer(id, approved=True, by="test")
    approvals.close()


def test_a_call_may_name_its_approval(command):
    config(command, "permissions.yaml", ASKS)
    call = {"path": "a.txt", "content": "new\n"}

    async def test() -> None:
        async with connected(command, HTTP_NEW) as client:
            asked = await client.call_tool("write_file", call)
            approval = asked.meta["dev.hilt/error"]["details"]["approval"]
            # an id prefix is not accepted, or clients could guess ids
            part = await client.call_tool("write_file", call, meta={"dev.hilt/approval": approval[:8]})
            assert part.meta["dev.hilt/error"]["code"] == "approval_required"
            approve(command, approval)
            meta: Any = {"dev.hilt/approval": approval, "dev.hilt/session": asked.meta["dev.hilt/session"]}
            other = await client.call_tool("write_file", {**call, "content": "other\n"}, meta=meta)
            assert other.meta["dev.hilt/error"]["code"] == "denied"
            assert not (await client.call_tool("write_file", call, meta=meta)).is_error
            assert (await client.call_tool("write_file", call, meta=meta)).is_error

    run(test())


@each_way
@pytest.mark.parametrize("flags", [(), ("--session", "mine")], ids=["unnamed", "named"])
def test_an_approval_works_once_for_the_same_call_on_a_new_connection(command, kind, flags):
    config(command, "permissions.yaml", ASKS)
    call = {"path": "a.txt", "content": "new\n"}
    codes: list[str] = []

    async def once() -> str:
        async with connected(command, kind, *flags) as client:
            result = await client.call_tool("write_file", call)
        codes.append(result.meta["dev.hilt/error"]["code"] if result.is_error else "ok")
        return str(result.meta["dev.hilt/error"]["details"]["approval"]) if result.is_error else ""

    async def test() -> None:
        id = await once()
        assert await once() == id
        approve(command, id)
        await once()
        await once()

    run(test())
    assert codes == ["approval_required", "approval_required", "ok", "approval_required"]
    assert command.folder.tree() == {"a.txt": "new\n"}


@each_way
def test_questions_are_answered_through_the_client_and_other_answers_in_a_second_form(command, kind):
    questions = [
        {"question": "Which?", "options": ["red", "blue"], "header": "Colour"},
        {"question": "Who?", "options": ["me", "you"]},
        {"question": "What?", "options": ["a", "b", "c"], "multi_select": True},
    ]
    answers: Iterator[Any] = iter(
        [
            {"answer_1": "red", "answer_2": OTHER, "choice_3_1": True, "choice_3_3": True, "other_3": True},
            {"own_words_2": "them", "own_words_3": "d"},
        ]
    )
    forms: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        forms.append(params.requested_schema)
        return types.ElicitResult(action="accept", content=next(answers))

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=elicit) as client:
            result = await client.call_tool("ask_user", {"questions": questions})

        assert result.structured_content == {"answers": {"Which?": "red", "Who?": "them", "What?": ["a", "c", "d"]}}

    run(test())
    assert forms[0]["properties"]["answer_1"]["enum"] == ["red", "blue", OTHER]
    assert list(forms[1]["properties"]) == ["own_words_2", "own_words_3"]
    assert [sorted(form["properties"]) == sorted(form["required"]) for form in forms] == [True, True]


@each_way
def test_a_closed_question_has_no_answer(command, kind):
    async def test() -> None:
        async with connected(command, kind, elicitation_callback=closing("decline")) as client:
            result = await client.call_tool(
                "ask_user", {"questions": [{"question": "Which?", "options": ["red", "blue"]}]}
            )

        assert result.meta["dev.hilt/error"]["code"] == "no_one_to_ask"

    run(test())


@each_way
def test_a_question_without_a_client_is_an_error(command, kind):
    async def test() -> None:
        async with connected(command, kind) as client:
            result = await client.call_tool(
                "ask_user", {"questions": [{"question": "Which?", "options": ["red", "blue"]}]}
            )

        assert result.meta["dev.hilt/error"]["code"] == "no_one_to_ask"

    run(test())


@each_way
def test_an_added_tool_is_announced_listed_and_talks_to_the_client(command, kind):
    elicit, _ = accepting(word="Good day")
    notified = asyncio.Event()
    logs: list[Any] = []
    steps: list[Any] = []

    async def message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            notified.set()

    async def log(params: Any) -> None:
        logs.append((params.level, params.data))

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async def added(client: Any) -> None:
        config(command, "tools/greeting.py", GREETING)
        if kind[1] == "legacy":
            await notified.wait()

    async def test() -> None:
        callbacks = {"elicitation_callback": elicit, "message_handler": message, "logging_callback": log}
        async with connected(command, kind, **callbacks, log_level="info") as client:
            assert "greet" not in [tool.name for tool in (await client.list_tools()).tools]
            if kind[1] == "legacy":
                await added(client)
            else:
                async with client.listen(tools_list_changed=True) as events:
                    await added(client)
                    async for _ in events:
                        break
            assert "greet" in [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("greet", {"name": "Ann"}, progress_callback=progress)

        assert text_of(result) == "Good day, Ann!"
        assert ("warning", "greeting Ann") in logs
        assert (1, 2, "half") in steps

    run(test())


@each_way
def test_lone_surrogates_of_a_tool_are_replaced(command, kind):
    half = (
        "from hilt import Output, ToolError, tool\n"
        "@tool(effects='read')\ndef half(ctx, fail: bool) -> dict:\n    'Answer.'\n"
        "    ctx.log('error', chr(0xd800))\n    ctx.progress(1, None, chr(0xd800))\n"
        "    if fail:\n        raise ToolError('tool_failed', chr(0xd800), a=chr(0xd800))\n"
        "    return {chr(0xd800): [chr(0xdfff)]}\n"
    )
    config(command, "tools/half.py", half)

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        return

    async def test() -> None:
        async with connected(command, kind, log_level="debug") as client:
            data = await client.call_tool("half", {"fail": False}, progress_callback=progress)
            failed = await client.call_tool("half", {"fail": True}, progress_callback=progress)

        assert data.structured_content == {"?": ["?"]}
        assert text_of(data) == '{"?":["?"]}'
        assert failed.meta["dev.hilt/error"]["details"] == {"a": "?"}

    run(test())


@needs_sandbox
@pytest.mark.parametrize("kind", [STDIO_OLD, STDIO_NEW], ids="-".join)
def test_jobs_live_as_long_as_the_client(command, kind):
    mark = Mark()

    async def test() -> None:
        async with connected(command, kind) as client:
            await client.call_tool("run_shell", {"command": f"sleep 300; echo {mark.name}", "run_in_background": True})
            listed = await client.call_tool("job_list", {})
            assert mark.name in str(listed.structured_content)
            assert mark.alive()

    run(test())
    wait_until(lambda: not mark.alive())


@needs_sandbox
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_client_that_reconnects_for_each_call_finds_its_jobs_by_session_name(command, era):
    mark = Mark()
    meta: Any = {"dev.hilt/session": "mine"}

    async def test() -> None:
        with listening(command) as address:
            async with over_http(address, era) as client:
                call = {"command": f"sleep 300; echo {mark.name}", "run_in_background": True}
                started = await client.call_tool("run_shell", call, meta=meta)
            async with over_http(address, era) as client:
                own = (await client.call_tool("job_list", {}, meta=meta)).structured_content
                others = (await client.call_tool("job_list", {})).structured_content
                stopped = await client.call_tool("job_stop", started.structured_content, meta=meta)

        assert mark.name in str(own)
        assert mark.name not in str(others)
        assert not stopped.is_error

    run(test())


@needs_sandbox
def test_jobs_of_a_named_session_are_found_by_the_next_process(short):
    mark = Mark()

    async def once(tool: str, **arguments: Any) -> Any:
        async with connected(short, STDIO_OLD, "--session", "mine") as client:
            return (await client.call_tool(tool, arguments)).structured_content

    async def test() -> None:
        started = await once("run_shell", command=f"sleep 300; echo {mark.name}", run_in_background=True)
        assert mark.name in str(await once("job_list"))
        assert mark.alive()
        await once("job_stop", **started)
        await asyncio.to_thread(wait_until, lambda: not mark.alive())

    run(test())
    rows = short.run("audit", "--json").stdout.splitlines()
    assert [json.loads(row)["tool"] for row in rows] == ["run_shell", "job_list", "job_stop"]


@each_way
def test_a_session_lists_the_snapshots_of_its_own_changes(command, kind):
    command.folder.write("a.txt", "before\n")
    command.folder.write("b.txt", "before\n")
    command.ask({"tool": "write_file", "args": {"path": "b.txt", "content": "after\n"}})

    async def test() -> None:
        async with connected(command, kind) as client:
            meta: Any = {"dev.hilt/session": "mine"} if kind == HTTP_NEW else None
            await client.call_tool("write_file", {"path": "a.txt", "content": "after\n"}, meta=meta)
            listed = (await client.list_resources(meta=meta)).resources

        assert [resource.name for resource in listed if not resource.uri.startswith("hilt://skills/")] == ["a.txt"]

    run(test())


@each_way
def test_long_output_and_snapshots_are_resources(command, kind):
    command.folder.write("long.txt", "".join(f"{number:0100}\n" for number in range(4000)))
    command.folder.write("a.txt", "before\n")

    async def test() -> None:
        async with connected(command, kind) as client:
            meta: Any = {"dev.hilt/session": "mine"} if kind == HTTP_NEW else None
            await client.call_tool("read_file", {"path": "long.txt"}, meta=meta)
            await client.call_tool("write_file", {"path": "a.txt", "content": "after\n"}, meta=meta)
            listed = (await client.list_resources(meta=meta)).resources
            templates = (await client.list_resource_templates()).resource_templates
            overflow = next(resource.uri for resource in listed if resource.uri.startswith("hilt://overflow/"))
            snapshot = next(resource.uri for resource in listed if resource.uri.startswith("hilt://snapshots/"))
            long = (await client.read_resource(overflow, meta=meta)).contents[0]
            before = (await client.read_resource(snapshot, meta=meta)).contents[0]
            for uri in ("hilt://overflow/..%2Fstate.db", "hilt://snapshots/zz/a.txt", "hilt://nothing"):
                with pytest.raises(MCPError):
                    await client.read_resource(uri, meta=meta)

        assert {template.uri_template.partition("{")[0] for template in templates} == {
            "hilt://overflow/",
            "hilt://snapshots/",
            "hilt://skills/",
        }
        assert f"{3999:0100}" in long.text
        assert before.text == "before\n"

    run(test())


def test_only_the_named_tools_are_available(command):
    async def test() -> None:
        async with connected(command, STDIO_OLD, "--tools", "read_file,list_dir") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["list_dir", "read_file"]
            refused = await client.call_tool("write_file", {"path": "a.txt", "content": ""})
            assert refused.meta["dev.hilt/error"]["code"] == "denied"

    run(test())


def test_a_mode_that_hides_tools_is_announced(command):
    notified = asyncio.Event()

    async def message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            notified.set()

    async def test() -> None:
        callbacks = {"message_handler": message, "elicitation_callback": closing("decline")}
        async with connected(command, STDIO_OLD, **callbacks) as client:
            await client.call_tool("enter_plan_mode", {})
            await notified.wait()
            assert "write_file" not in [tool.name for tool in (await client.list_tools()).tools]

    run(test())


@each_way
def test_plan_mode_is_hidden_when_nobody_could_end_it(command, kind):
    async def test() -> None:
        async with connected(command, kind) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            refused = await client.call_tool("enter_plan_mode", {})
            meta: Any = {"dev.hilt/session": "mine"} if kind == HTTP_NEW else None
            result = await client.call_tool("tool_search", {"query": "plan mode"}, meta=meta)
        async with connected(command, kind, elicitation_callback=closing("decline")) as client:
            assert "enter_plan_mode" in [tool.name for tool in (await client.list_tools()).tools]

        assert "enter_plan_mode" not in names
        assert "write_file" in names
        assert refused.meta["dev.hilt/error"]["code"] == "no_one_to_ask"
        assert "enter_plan_mode" not in [tool["name"] for tool in result.structured_content["tools"]]

    run(test())


@each_way
def test_plan_mode_is_hidden_once_a_host_closes_forms_by_itself(command, kind):
    config(command, "permissions.yaml", ASKS)
    meta: Any = {"dev.hilt/session": "mine"} if kind == HTTP_NEW else None

    async def test() -> None:
        async with connected(command, kind, elicitation_callback=closing("decline")) as client:
            await client.call_tool("write_file", {"path": "a.txt", "content": ""}, meta=meta)
            listed = await client.list_tools(meta=meta)
            refused = await client.call_tool("enter_plan_mode", {}, meta=meta)

        assert "enter_plan_mode" not in [tool.name for tool in listed.tools]
        assert refused.meta["dev.hilt/error"]["code"] == "no_one_to_ask"

    run(test())


def test_plan_mode_is_available_when_a_user_is_available_elsewhere(command):
    from hilt.state.approvals import attend

    async def test() -> None:
        async with connected(command, STDIO_OLD) as client:
            with attend(command.state):
                assert "enter_plan_mode" in [tool.name for tool in (await client.list_tools()).tools]
                assert not (await client.call_tool("enter_plan_mode", {})).is_error

    run(test())


def test_a_named_session_outlives_its_connection(command):
    async def test() -> None:
        for first in (True, False):
            elicit = closing("decline")
            async with connected(command, STDIO_OLD, "--session", "mine", elicitation_callback=elicit) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                assert ("write_file" in names) is first
                await client.call_tool("enter_plan_mode", {})

    run(test())


def test_a_tool_that_waits_for_the_client_ends_when_its_call_is_cancelled(command):
    config(command, "tools/greeting.py", GREETING)
    asked = asyncio.Event()

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def test() -> None:
        async with connected(command, STDIO_OLD, elicitation_callback=elicit) as client:
            calls = [asyncio.create_task(client.call_tool("greet", {"name": "Ann"})) for _ in range(4)]
            await asked.wait()
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            # all workers of the tool were busy with these calls
            again = asyncio.create_task(client.call_tool("greet", {"name": "Ann"}))
            asked.clear()
            await asked.wait()
            again.cancel()

    run(test())


@pytest.mark.parametrize(
    "arguments, flags",
    [
        ([], ServeOptions()),
        (["--http"], ServeOptions(http="")),
        (["--http", "127.0.0.1:80", "--no-token"], ServeOptions(http="127.0.0.1:80", token=False)),
        (["--http=:80"], ServeOptions(http=":80")),
        (["--http", "--lean"], ServeOptions(http="", lean=True)),
        (["--search"], ServeOptions(search=True)),
    ],
)
def test_flags_are_parsed(arguments, flags):
    assert flags_of(parser_of("mcp").read(arguments)) == flags


@pytest.mark.parametrize("arguments", [["--no-token"], ["--htp"], ["serve"]])
def test_invalid_flags_are_reported(command, arguments):
    done = command.run("mcp", *arguments)

    assert done.returncode == 2
    assert done.stdout == b""
    assert b"hilt: " in done.stderr


@pytest.mark.parametrize("name", ["claude_code", pytest.param("codex", marks=needs_sandbox)])
def test_under_a_dialect_a_model_sees_its_names_only(command, name):
    command.folder.write("a.txt", "one\n")
    entries = catalog.dialect(name)
    call: dict[str, tuple[str, dict[str, Any], str]] = {
        "claude_code": ("Read", {"file_path": "a.txt"}, "     1\tone"),
        "codex": ("shell", {"command": ["cat", "a.txt"]}, '"output":"one"'),
    }

    with Lines(command, "--dialect", name, handshake=False) as lines:
        info = {"name": "lines", "version": "1"}
        hello = lines.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        lines.tell("notifications/initialized")
        tools = lines.ask("tools/list")["result"]["tools"]
        tool, args, text = call[name]
        result = lines.call(tool, **args)
        failed = lines.call(tool, colour="red")

    canonical = set(catalog.built_in_names()) - set(entries)
    visible = json.dumps([hello["result"]["instructions"], tools, failed])
    assert [entry["name"] for entry in tools] == [name for name in entries if name != "ComputerUse"]  # no display
    assert text in result["content"][0]["text"]
    assert {word for word in re.findall(r"\w+", visible) if word in canonical} <= {"task", "agent", "memory", "undo"}
