"""The API over a real socket: calls, approvals, questions, jobs, changes, tasks, agents, sessions and records."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import closing
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from hilt.agents.starting import transcripts_of
from hilt.call import Call
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.approvals import Approvals, attend
from hilt.state.questions import Questions
from hilt.state.roster import AgentLimits, AgentProfile, NewAgent
from hilt.state.spending import Spending
from tests.marks import wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command
from tests.surfaces.http.conftest import asking
from tests.surfaces.http.servers import WAIT_SECONDS, Waiting, pending, serving
from tests.surfaces.terminals import Screen

ASK = {"questions": [{"question": "Which colour?", "options": ["red", "blue"]}]}


# --- calls ----------------------------------------------------------------------------------------------------------


def test_a_call_returns_200_and_its_envelope_whether_or_not_it_succeeds(server):
    good = server.call("read_file", path="a.txt")
    bad = server.call("read_file", path="none.txt")

    assert (good["ok"], good["result"]) == (True, "1\thello")
    assert (bad["ok"], bad["error_code"]) == (False, "file_not_found")


def test_a_call_echoes_its_id_and_accepts_the_names_of_a_dialect(server):
    body = {"name": "Read", "arguments": {"path": "a.txt"}, "dialect": "jcli", "id": {"n": 1}}

    assert server.post("/v1/call", body)["id"] == {"n": 1}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b'{"tool": 5}', b'{"tool": "x", "tool": "y"}', b'{"tool": "x", "more": 1}', b"\xff"],
)
def test_an_invalid_body_is_a_problem(server, body):
    response = server.request("POST", "/v1/call", content=body)

    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["error_code"] == "invalid_request"
    assert {"type", "title", "status", "detail", "suggestion"} <= problem.keys()


def test_a_body_over_16_mib_is_refused(server):
    response = server.request("POST", "/v1/call", content=b" " * (16 << 20) + b"  ")

    assert response.status_code == 413


def test_a_body_that_is_declared_too_long_is_refused_before_it_is_sent(server):
    head = f"POST /v1/call HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(WAIT_SECONDS)
        connection.sendall(head.encode() + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % ((16 << 20) + 1))

        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_stream_sends_output_while_the_command_runs_and_then_the_envelope(server):
    body = {"tool": "run_shell", "args": {"command": "echo one; sleep 0.3; echo two >&2"}}
    headers = {"Authorization": f"Bearer {server.agents_token}"}
    events: list[tuple[str, dict[str, Any]]] = []
    with server.client.stream("POST", "/v1/call?stream=1", json=body, headers=headers) as response:
        name = ""
        for line in response.iter_lines():
            kind, _, value = line.partition(": ")
            if kind == "event":
                name = value
            elif kind == "data":
                events.append((name, json.loads(value)))

    assert response.headers["content-type"] == "text/event-stream"
    assert {name for name, _ in events[:-1]} == {"output"}
    assert events[-1][0] == "result"
    assert "".join(event["text"] for _, event in events[:-1]) == "one\ntwo\n"
    assert events[-1][1]["ok"]


def test_a_call_is_cancelled_when_its_client_disconnects(server):
    mark = server.command.folder.join("started")
    body = {"tool": "run_shell", "args": {"command": f"touch {mark}; sleep 100"}, "session": "leaving"}
    headers = {"Authorization": f"Bearer {server.agents_token}"}
    with server.client.stream("POST", "/v1/call?stream=1", json=body, headers=headers):
        wait_until(lambda: os.path.exists(mark))

    wait_until(lambda: server.get("/v1/audit?session=leaving")["entries"])
    assert server.get("/v1/audit?session=leaving")["entries"][0]["outcome"] == "cancelled"


def test_a_slow_call_does_not_delay_others(server):
    slow = Waiting(lambda: server.call("run_shell", "slow", command="until [ -e done ]; do sleep 0.05; done"))

    assert server.call("read_file", path="a.txt")["ok"]
    server.command.folder.write("done", "")
    assert slow.result()["ok"]


def test_the_list_of_tools_has_schemas_sources_and_load_errors(server):
    server.command.folder.write("../config/tools/broken.md", "---\nname: broken\n")

    tools = server.get("/v1/tools", token=server.agents_token)

    by_name = {tool["name"]: tool for tool in tools["tools"]}
    assert by_name["read_file"]["source"] == "built-in"
    assert "path" in by_name["read_file"]["input_schema"]["properties"]
    assert tools["next"] is None
    wait_until(lambda: server.get("/v1/tools")["errors"])
    assert server.get("/v1/tools")["errors"][0]["file"].endswith("broken.md")
    assert server.get("/v1/tools/read_file") == by_name["read_file"]
    assert server.request("GET", "/v1/tools/none").status_code == 404


# --- approvals and questions ----------------------------------------------------------------------------------------


def test_a_call_of_another_process_waits_for_an_open_console(server):
    request = {"tool": "write_file", "args": {"path": "other.txt", "content": "x\n"}}
    with server.events(approver=True):
        waiting = Waiting(lambda: server.command.ask(request)[0])
        card = pending(server)
        answered = server.post(f"/v1/approvals/{card['id']}", {"answer": "once"})

        assert waiting.result()["ok"]
    assert (card["tool"], card["kind"], card["arguments"]["path"]) == ("write_file", "edit", "other.txt")
    assert "other.txt" in card["diff"]
    assert (answered["state"], answered["answered_by"]) == ("approved", "console")


def test_calls_that_wait_for_approval_do_not_block_others(server):
    with server.events(approver=True):
        bodies = [{"tool": "write_file", "args": {"path": f"w{number}.txt", "content": ""}} for number in range(12)]
        waiting = [Waiting(partial(server.post, "/v1/call", body)) for body in bodies]
        wait_until(lambda: len(server.get("/v1/approvals")["approvals"]) == len(bodies))

        assert server.call("read_file", path="a.txt")["ok"]
        for approval in server.get("/v1/approvals")["approvals"]:
            server.post(f"/v1/approvals/{approval['id']}", {"answer": "deny"})
        assert {call.result()["error_code"] for call in waiting} == {"USER_REJECTION"}


def test_a_call_over_http_is_answered_in_a_terminal(server):
    with server.events(approver=True):
        waiting = Waiting(lambda: server.call("write_file", path="t.txt", content="x\n"))
        id = pending(server)["id"]
        with closing(Approvals(server.command.state)) as approvals:
            approvals.answer(id, approved=False, reason="not now", by="terminal")

        envelope = waiting.result()
    assert (envelope["error_code"], "not now" in envelope["error"]) == ("USER_REJECTION", True)


CALL = [HILT, "call", "write_file", "path=prompted.txt", "content=x"]


def test_a_prompt_in_a_terminal_is_answered_at_the_console(server):
    command = server.command
    with server.events(approver=True), Screen(CALL, env=command.environ, cwd=command.folder.path) as screen:
        screen.expect("wants to change files")
        server.post(f"/v1/approvals/{pending(server)['id']}", {"answer": "deny", "reason": "too early"})
        status, rest = screen.end()

    assert status == 1
    assert "answered elsewhere" in rest
    assert "too early" in rest
    assert "prompted.txt" not in command.folder.tree()


def test_an_approval_at_the_console_is_answered_in_the_terminal_that_prompts(server):
    command = server.command
    with server.events(approver=True), Screen(CALL, env=command.environ, cwd=command.folder.path) as screen:
        screen.expect("wants to change files")
        id = pending(server)["id"]
        screen.type("y\n")
        status, _ = screen.end()

    assert status == 0
    assert server.post(f"/v1/approvals/{id}", {"answer": "once"}, status=409)["first"]["by"] == "terminal"
    assert command.folder.read("prompted.txt") == "x"


def test_questions_in_a_terminal_are_answered_at_the_console(server):
    command = server.command
    line = [HILT, "call", "ask_user", f"questions={json.dumps(ASK['questions'])}"]
    with server.events(approver=True), Screen(line, env=command.environ, cwd=command.folder.path) as screen:
        screen.expect("Which colour?")
        server.post(f"/v1/questions/{pending(server, 'questions')['id']}", {"answers": {"Which colour?": "blue"}})
        status, rest = screen.end()

    assert (status, "answered elsewhere, by console" in rest, "blue" in rest) == (0, True, True)


def test_without_a_console_a_call_does_not_wait(server):
    wait_until(lambda: server.call("write_file", path="n.txt", content="x")["error_code"] == "approval_required")
    envelope = server.call("write_file", path="n.txt", content="x")
    id = envelope["meta"]["details"]["approval"]
    server.post(f"/v1/approvals/{id}", {"answer": "once"})

    assert server.call("write_file", path="n.txt", content="x")["ok"]


def test_a_call_does_not_wait_for_a_console_that_does_not_answer_approvals(server):
    wait_until(lambda: server.call("write_file", path="o.txt", content="x")["error_code"] == "approval_required")
    with server.events(approver=False):
        assert server.call("write_file", path="o.txt", content="x")["error_code"] == "approval_required"


def test_the_second_answer_gets_409_with_the_first(server):
    envelope = server.call("write_file", path="second.txt", content="x")
    id = envelope["meta"]["details"]["approval"]

    server.post(f"/v1/approvals/{id}", {"answer": "deny", "reason": "no"})
    problem = server.post(f"/v1/approvals/{id}", {"answer": "always"}, status=409)

    assert (problem["first"]["answer"], problem["first"]["by"], problem["first"]["reason"]) == ("deny", "console", "no")
    assert problem["error_code"] == "busy"


def test_a_denial_after_an_approval_does_not_revoke_it(server):
    id = server.call("write_file", path="third.txt", content="x")["meta"]["details"]["approval"]

    server.post(f"/v1/approvals/{id}", {"answer": "once"})
    problem = server.post(f"/v1/approvals/{id}", {"answer": "deny"}, status=409)

    assert problem["first"]["answer"] == "once"
    assert server.call("write_file", path="third.txt", content="x")["ok"]


def test_one_of_many_simultaneous_answers_wins(server):
    id = server.call("write_file", path="race.txt", content="x")["meta"]["details"]["approval"]
    answers = [{"answer": "once"}, {"answer": "deny"}] * 4

    attempts = [Waiting(partial(server.request, "POST", f"/v1/approvals/{id}", json=body)) for body in answers]
    responses = [attempt.result() for attempt in attempts]

    assert sorted(response.status_code for response in responses) == [200, *[409] * 7]
    winner = next(response.json() for response in responses if response.status_code == 200)
    answer = {"approved": "once", "denied": "deny"}[winner["state"]]
    conflicts = [response.json() for response in responses if response.status_code == 409]
    assert {conflict["first"]["answer"] for conflict in conflicts} == {answer}


def test_always_is_refused_where_no_rule_would_be_stored(server):
    # a rule of the user asks about write_file, so no grant can allow it
    id = server.call("write_file", path="always.txt", content="x")["meta"]["details"]["approval"]

    problem = server.post(f"/v1/approvals/{id}", {"answer": "always", "for": "8h"}, status=422)

    assert problem["error_code"] == "invalid_args"
    assert server.get("/v1/grants")["grants"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"answer": "yes"},
        {"answer": "once", "for": "8h"},
        {"answer": "always", "for": "soon"},
        {"answer": "once", "x": 1},
    ],
)
def test_an_invalid_answer_is_rejected_and_changes_nothing(server, body):
    id = server.call("write_file", path="invalid.txt", content="x")["meta"]["details"]["approval"]

    server.post(f"/v1/approvals/{id}", body, status=422)

    assert [row["state"] for row in server.get("/v1/approvals")["approvals"] if row["id"] == id] == ["pending"]


def test_an_unknown_approval_is_not_found(server):
    assert server.post("/v1/approvals/abcdef", {"answer": "once"}, status=404)["error_code"] == "not_found"


def test_a_grant_is_listed_and_revoked(tmp_path):
    command = Command(str(tmp_path))
    command.folder.write("../config/permissions.yaml", "default: ask\ndeny: [web_fetch]\n")
    with serving(command) as server:
        id = server.call("write_file", path="a.txt", content="x")["meta"]["details"]["approval"]
        card = server.post(f"/v1/approvals/{id}", {"answer": "always", "for": "8h"})
        (grant,) = server.get("/v1/grants")["grants"]
        server.request("DELETE", f"/v1/grants/{grant['id']}")

        assert grant["rule"] in card["rules"]
        assert grant["until"] is not None
        assert server.get("/v1/grants")["grants"] == []
        assert server.request("DELETE", f"/v1/grants/{grant['id']}").status_code == 404


def test_a_question_of_any_process_is_answered_once(server):
    with server.events(approver=True):
        waiting = Waiting(lambda: server.command.ask({"tool": "ask_user", "args": ASK})[0])
        question = pending(server, "questions")
        body = {"answers": {"Which colour?": "blue"}}
        server.post(f"/v1/questions/{question['id']}", {"answers": {"Which": "blue"}}, status=422)
        server.post(f"/v1/questions/{question['id']}", body)
        problem = server.post(f"/v1/questions/{question['id']}", {"answers": {"Which colour?": "red"}}, status=409)

        assert json.loads(waiting.result()["result"]) == {"answers": {"Which colour?": "blue"}}
    assert [option["label"] for option in question["questions"][0]["options"]] == ["red", "blue"]
    assert problem["first"]["answers"] == {"Which colour?": "blue"}
    assert server.get("/v1/questions")["questions"] == []


def test_a_question_is_withdrawn_with_its_call(base):
    folder = f"{base}/workspace"
    os.makedirs(folder)
    environ = {"HOME": f"{base}/home", "HILT_STATE_DIR": f"{base}/state", "HILT_CONFIG_DIR": f"{base}/config"}
    with (
        Runtime(folder, environ=environ) as runtime,
        closing(Questions(runtime.parts.state)) as questions,
        attend(runtime.parts.state),
    ):
        ended = threading.Event()
        running = runtime.submit(Call("ask_user", ASK), lambda result: ended.set())
        wait_until(lambda: bool(questions.pending()))
        (question,) = questions.pending()
        running.cancel()
        ended.wait(WAIT_SECONDS)
        wait_until(lambda: questions.get(question.id).state == "withdrawn")

        with pytest.raises(ToolError) as caught:
            questions.answer(question.id, {"Which colour?": "red"}, by="console")
    assert caught.value.code == "busy"


# --- work -----------------------------------------------------------------------------------------------------------


def test_a_job_is_listed_read_by_offset_and_stopped(server):
    command = "echo one; echo two; cat"
    id = json.loads(server.call("run_shell", command=command, run_in_background=True, tty=True)["result"])["task_id"]
    output = f"/v1/jobs/{id}/output"
    wait_until(lambda: "two" in server.get(output)["output"])
    first = server.get(output)
    server.post(f"/v1/jobs/{id}/input", {"text": "three"})
    wait_until(lambda: "three" in server.get(f"{output}?after={first['next']}")["output"])
    rest = server.get(f"{output}?after={first['next']}")

    assert server.get("/v1/jobs")["jobs"][0]["id"] == id
    assert first["status"] == "running"
    assert (rest["output"], rest["next"]) == ("three", first["next"] + 5)  # no newline is added
    beyond = server.get(f"{output}?after={rest['next'] + 100}")
    assert (beyond["output"], beyond["next"]) == ("", rest["next"])
    assert server.post(f"/v1/jobs/{id}/stop")["status"] == "stopped"
    assert server.post(f"/v1/jobs/{id}/stop")["status"] == "stopped"
    assert server.post(f"/v1/jobs/{id}/input", {"text": "x"}, status=409)
    assert server.post("/v1/jobs/job_none/stop", status=404)["error_code"] == "not_found"


@needs_sandbox
def test_jobs_of_the_resident_process_are_shared_with_terminals(short):
    with serving(short) as server:
        start = {"tool": "run_shell", "args": {"command": "echo from a terminal; sleep 100", "run_in_background": True}}
        id = json.loads(short.ask(start)[0]["result"])["task_id"]
        wait_until(lambda: server.get(f"/v1/jobs/{id}/output")["output"] == "from a terminal\n")
        ours = server.call("run_shell", command="sleep 100", run_in_background=True)
        own = json.loads(ours["result"])["task_id"]

        listed = json.loads(short.ask({"tool": "job_list"})[0]["result"])["jobs"]

        assert [job["task_id"] for job in listed] == [id, own]
        assert [job["id"] for job in server.get("/v1/jobs")["jobs"]] == [own, id]
        assert server.post(f"/v1/jobs/{id}/stop")["status"] == "stopped"
        assert server.post(f"/v1/jobs/{own}/input", {"text": "x"}, status=422)["error_code"] == "invalid_args"


def test_a_change_is_previewed_and_restored_and_so_is_the_restore(server):
    server.command.folder.write("c.txt", "old\n")
    server.call("read_file", path="c.txt")
    server.call("edit_file", path="c.txt", old_text="old", new_text="new")
    change = server.get("/v1/changes")["changes"][0]

    preview = server.get(f"/v1/changes/{change['id']}")
    restored = server.post(f"/v1/changes/{change['id']}/restore")

    assert (change["operation"], change["files"][0]["path"]) == ("edit_file", "c.txt")
    assert (preview["id"], "-new" in preview["diff"], preview["visualization"]["type"]) == (change["id"], True, "diff")
    assert server.command.folder.read("c.txt") == "old\n"
    assert server.get("/v1/changes")["changes"][0]["id"] == restored["id"]
    server.post(f"/v1/changes/{restored['id']}/restore")
    assert server.command.folder.read("c.txt") == "new\n"
    assert server.request("GET", "/v1/changes/ffff").status_code == 404


def test_a_restore_by_the_person_needs_no_second_approval(tmp_path):
    command = Command(str(tmp_path))
    with serving(command) as server:
        server.call("write_file", path="a.txt", content="x")
        command.folder.write("../config/permissions.yaml", "permissions:\n  ask: [undo, write_file]\n")
        wait_until(lambda: "error_code" in server.call("write_file", path="b.txt", content="x"))
        id = server.get("/v1/changes")["changes"][-1]["id"]

        server.post(f"/v1/changes/{id}/restore")

        assert "a.txt" not in command.folder.tree()
        assert server.get("/v1/audit?tool=undo")["entries"][0]["approver"] == "console"


def test_tasks_are_added_changed_and_claimed_once(server):
    one = server.post("/v1/tasks", {"title": "First", "description": "All of it"}, status=201)
    two = server.post("/v1/tasks", {"title": "Second", "blockedBy": [one["id"]]}, status=201)
    path = f"/v1/tasks/{one['id']}"

    claimed = server.request("PATCH", path, json={"status": "in_progress", "owner": "ada"}).json()
    lost = server.request("PATCH", path, json={"status": "in_progress", "owner": "bob"})

    assert (claimed["owner"], claimed["status"], two["ready"]) == ("ada", "in_progress", False)
    assert (lost.status_code, lost.json()["error_code"]) == (409, "busy")
    assert [task["id"] for task in server.get("/v1/tasks")["tasks"]][:2] == [two["id"], one["id"]]
    assert server.request("PATCH", "/v1/tasks/99999", json={"title": "x"}).status_code == 404
    assert server.request("PATCH", path, json={"blockedBy": [99999]}).status_code == 409
    assert server.request("PATCH", path, json={}).status_code == 422


def test_lists_are_paged_newest_first(server):
    ids = [server.post("/v1/tasks", {"title": f"Page {number}"}, status=201)["id"] for number in range(5)]
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = server.get(f"/v1/tasks?limit=2{cursor and f'&cursor={cursor}'}")
        seen += [task["id"] for task in page["tasks"]]
        cursor = page["next"]

    assert seen[:5] == ids[::-1]
    assert len(seen) == len(set(seen))
    for bad in ("limit=0", "limit=x", "limit=1001", "cursor=", "wrong=1", "limit=1&limit=2"):
        assert server.request("GET", f"/v1/tasks?{bad}").status_code == 422, bad
    assert server.request("GET", "/v1/tasks?cursor=gone").status_code == 404


def test_a_list_continues_when_the_rows_of_the_previous_page_are_gone(server):
    ids = [
        server.call("write_file", path=f"paged{number}.txt", content="x")["meta"]["details"]["approval"]
        for number in range(5)
    ]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None and len(seen) < len(ids):
        page = server.get("/v1/approvals", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
        for row in page["approvals"]:
            seen.append(row["id"])
            server.post(f"/v1/approvals/{row['id']}", {"answer": "deny"})
        cursor = page["next"]

    assert seen[:5] == ids[::-1]
    assert server.request("GET", "/v1/approvals?cursor=unknown").status_code == 404


def test_agents_are_listed_and_unknown_ones_are_not_found(server):
    assert server.get("/v1/agents") == {"agents": [], "next": None}
    for path in ("", "/messages", "/cancel"):
        method, body = ("POST", {"text": "x"}) if path else ("GET", None)
        assert server.request(method, f"/v1/agents/agent_none{path}", json=body).status_code == 404


def test_the_cost_of_an_agent_is_the_sum_of_its_answers(tmp_path):
    command = Command(str(tmp_path))
    with Runtime(command.folder.path, environ=command.environ) as runtime:
        new = NewAgent("s", "s", "spawned", "general", "t", "p", "{}", AgentProfile((), "normal"))
        priced, unknown = (runtime.parts.roster.create(new, AgentLimits(5, 20, 3600), owner="o").id for _ in range(2))
        with closing(transcripts_of(runtime).create(priced, title="t")) as transcript:
            for _ in range(2):
                transcript.append("answer", parts=[{"text": "x"}], cost=0.25)
    with serving(command) as server:
        costs = {row["id"]: row["cost"] for row in server.get("/v1/agents")["agents"]}

        assert costs == {priced: 0.5, unknown: None}
        assert server.get(f"/v1/agents/{priced}")["cost"] == 0.5


def test_a_session_is_listed_with_its_transcript(server):
    server.call("read_file", session="with / and %", path="a.txt")

    row = next(row for row in server.get("/v1/sessions")["sessions"] if row["id"] == "with / and %")

    assert server.get("/v1/sessions/with%20%2F%20and%20%25") == {**row, "messages": []}


# --- records --------------------------------------------------------------------------------------------------------


def test_the_audit_trail_is_filtered_paged_and_verified(server):
    for _ in range(3):
        server.call("stat_file", session="audited", path="a.txt")
    server.call("stat_file", session="audited", path="none.txt")

    rows = server.get("/v1/audit?session=audited&limit=3")
    rest = server.get(f"/v1/audit?session=audited&limit=3&cursor={rows['next']}")

    assert [row["outcome"] for row in (*rows["entries"], *rest["entries"])] == ["file_not_found", "ok", "ok", "ok"]
    assert rest["next"] is None
    assert len(server.get("/v1/audit?session=audited&outcome=ok")["entries"]) == 3
    assert len(server.get("/v1/audit?text=AUDITED&since=1h&tool=stat_file")["entries"]) == 4
    assert server.request("GET", "/v1/audit?since=yesterday").status_code == 422
    assert server.get("/v1/audit/verify")["ok"] is True


def test_statistics_cover_a_range(server):
    server.call("read_file", path="a.txt")

    stats = server.get("/v1/stats?range=1h")

    assert stats["calls"] >= 1
    assert {"read_file"} <= {use["tool"] for use in stats["tools"]}
    series = stats["series"]
    assert (len(series), sum(part["calls"] for part in series)) == (60, stats["calls"])
    assert sum(part["failed"] for part in series) == stats["failed"]
    assert series[-1]["calls_per_minute"] == pytest.approx(series[-1]["calls"], rel=0.01)
    assert server.request("GET", "/v1/stats?range=2h").status_code == 422
    assert "tool_execution_total" in server.request("GET", "/metrics", token=server.agents_token).text


def test_settings_are_shown_with_their_sources(server):
    settings = server.get("/v1/settings")

    by_id = {row["id"]: row for row in settings["settings"]}
    assert (by_id["resident"]["value"], by_id["resident"]["source"]) == ("off", "HILT_RESIDENT")
    (rules,) = settings["rules"]
    assert (rules["file"], rules["trusted"], rules["problems"]) == ("permissions.yaml", True, [])
    assert {"verdict": "ask", "rule": "write_file", "line": 3} in rules["rules"]


def test_rules_are_shown_with_their_problems_and_servers_with_their_state(tmp_path):
    command = Command(str(tmp_path))
    command.folder.write(".hilt/permissions.yaml", "deny: [run_shell]\nallow: ['read_file(', x]\n")
    command.folder.write(".mcp.json", json.dumps({"mcpServers": {"theirs": {"command": "their-server"}}}))
    own = '[mcp.servers.mine]\ncommand = "no-such-server"\n[mcp.servers.off]\ncommand = "x"\ndisabled = true\n'
    command.folder.write("../config/config.toml", own)
    with serving(command) as server:
        settings = server.get("/v1/settings")

    (rules,) = settings["rules"]
    assert (rules["file"], rules["trusted"]) == (".hilt/permissions.yaml", False)
    assert rules["rules"][0] == {"verdict": "deny", "rule": "run_shell", "line": 1}
    assert rules["problems"][0]["line"] == 2
    states = {row["id"]: row["status"] for row in settings["servers"]}
    assert states == {"mine": "unknown", "off": "disabled", "theirs": "untrusted"}


def test_the_cost_of_models_is_counted_within_the_range(tmp_path):
    command = Command(str(tmp_path))
    now = time.time()
    with closing(Spending(command.state)) as spending:
        for _ in range(2):
            spending.add("2026-01-01", "m", input_tokens=10, output_tokens=3, cost=Decimal("0.25"))
        assert spending.since(now - 3600)[0][1:5] == (2, 0, 20, 6)
        assert spending.since(now + 3600) == []
    with serving(command) as server:
        stats = server.get("/v1/stats?range=1h")

    assert (stats["input_tokens"], stats["output_tokens"], stats["cost"]) == (20, 6, 0.5)


def test_a_file_is_trusted_with_exactly_the_content_that_was_reviewed(server):
    path = server.command.folder.write(".hilt/hooks.yaml", "hooks: []\n")
    review = server.get("/v1/trust/file", params={"path": path})
    server.command.folder.write(".hilt/hooks.yaml", "hooks: [] # changed\n")
    body = {"path": path, "sha256": review["sha256"]}

    changed = server.post("/v1/trust", body, status=409)
    again = server.get("/v1/trust/file", params={"path": path})
    server.post("/v1/trust", {"path": path, "sha256": again["sha256"]})

    assert (review["text"], changed["error_code"]) == ("hooks: []\n", "stale_file")
    states = {row["path"]: row["state"] for row in server.get("/v1/trust")["files"]}
    assert states[path] == "trusted"
    assert server.request("DELETE", "/v1/trust", params={"path": path}).json()["state"] == "untrusted"
    outside = server.command.folder.join("../config/permissions.yaml")
    assert server.request("GET", "/v1/trust/file", params={"path": outside}).status_code == 404


def test_a_tool_of_the_project_waits_for_trust_and_is_loaded_after_it(server):
    text = "---\nname: shout\ndescription: Shout.\n---\necho HELLO\n"
    path = server.command.folder.write(".hilt/tools/shout.md", text)

    def states() -> dict[str, tuple[str, str]]:
        return {row["path"]: (row["kind"], row["state"]) for row in server.get("/v1/trust")["files"]}

    wait_until(lambda: path in states())
    review = server.get("/v1/trust/file", params={"path": path})
    before = states()[path]
    server.post("/v1/trust", {"path": path, "sha256": review["sha256"]})

    assert (review["text"], before, states()[path]) == (text, ("tool", "untrusted"), ("tool", "trusted"))
    wait_until(lambda: any(tool["name"] == "shout" for tool in server.get("/v1/tools")["tools"]))


# --- workspaces -----------------------------------------------------------------------------------------------------


def test_several_workspaces_are_served_and_the_first_is_the_default(tmp_path):
    command = asking(str(tmp_path))
    other = str(tmp_path / "other")
    os.makedirs(other)
    with open(f"{other}/a.txt", "w") as file:
        file.write("other\n")
    with serving(command, "--workspace", command.folder.path, "--workspace", other) as server:
        body = {"tool": "read_file", "args": {"path": "a.txt"}}
        server.post(f"/v1/tasks?workspace={other}", {"title": "There"}, status=201)

        assert server.post("/v1/call", body)["result"] == "1\thello"
        assert server.post("/v1/call", {**body, "workspace": other})["result"] == "1\tother"
        assert server.post(f"/v1/call?workspace={other}", body)["result"] == "1\tother"
        assert server.post("/v1/call", {**body, "workspace": "/"}, status=404)
        assert server.post("/v1/call?workspace=/", body, status=404)
        assert server.get("/v1/settings")["workspaces"] == [command.folder.path, other]
        assert server.get("/v1/tasks")["tasks"] == []
        assert len(server.get(f"/v1/tasks?workspace={other}")["tasks"]) == 1


def test_the_body_can_select_the_workspace_like_the_query(tmp_path):
    command = Command(str(tmp_path))
    other = str(tmp_path / "other")
    os.makedirs(other)
    with serving(command, other) as server:
        task = server.post("/v1/tasks", {"title": "There", "workspace": other}, status=201)
        server.post("/v1/call", {"tool": "write_file", "args": {"path": "a.txt", "content": "x"}, "workspace": other})
        (change,) = server.get(f"/v1/changes?workspace={other}")["changes"]
        renamed = server.request("PATCH", f"/v1/tasks/{task['id']}", json={"title": "Here", "workspace": other})
        server.post(f"/v1/changes/{change['id']}/restore", {}, status=404)
        server.post(f"/v1/changes/{change['id']}/restore", {"workspace": other})

        assert renamed.json()["title"] == "Here"
        assert server.get("/v1/tasks")["tasks"] == []
        assert not os.path.exists(f"{other}/a.txt")
        assert server.post("/v1/tasks", {"title": "x", "workspace": "/"}, status=404)
        assert server.post("/v1/tasks", {"title": "x", "workspace": 5}, status=422)
        assert server.request("PATCH", f"/v1/tasks/{task['id']}", json={"workspace": other}).status_code == 422


def test_every_response_has_a_date(server):
    for path in ("/", "/v1/tools", "/nothing"):
        assert server.request("GET", path).headers["date"].endswith(" GMT")
