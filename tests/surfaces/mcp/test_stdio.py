"""MCP over standard input and output: lines of every kind, floods, and clients that do not read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from typing import Any

import pytest

from hilt.surfaces.mcp.lines import BUSY, REQUESTS_MAX
from hilt.surfaces.mcp.messages import BATCH_MAX
from hilt.wire import MAX_REQUEST_BYTES
from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command
from tests.surfaces.mcp.hosts import WAIT_SECONDS, Lines, wait_until_idle

PARSE, INVALID = -32700, -32600
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def lines(command):
    with Lines(command) as client:
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server that many tests share; none of them may break it."""
    with Lines(Command(str(tmp_path_factory.mktemp("shared")))) as client:
        yield client


@pytest.mark.parametrize(
    "line, code, id",
    [
        (b"garbage", PARSE, None),
        (b"{", PARSE, None),
        (b'{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}', PARSE, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + b'{"a":' * 150 + b"1" + b"}" * 151, PARSE, None),
        (b"[" * 100_000, PARSE, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"p\xff"}', PARSE, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"p\\ud800"}', PARSE, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"n":NaN}}', PARSE, None),
        (b"\xff\xfe\x00", PARSE, None),
        (b"[]", INVALID, None),
        (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', INVALID, None),
        (b"1", INVALID, None),
        (b'"text"', INVALID, None),
        (b"null", INVALID, None),
        (b"{}", INVALID, None),
        (b'{"id":7,"method":"ping"}', INVALID, 7),
        (b'{"jsonrpc":"1.0","id":"x","method":"ping"}', INVALID, "x"),
        (b'{"jsonrpc":"2.0","id":7,"method":1}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', INVALID, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":null}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":7,"result":1}', INVALID, 7),
        (b'{"jsonrpc":"2.0","id":7}', INVALID, 7),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_invalid_line_is_answered_and_so_is_the_next(shared, line, code, id):
    shared.write(line + b"\n")

    answer = shared.read()

    assert (answer["id"], answer["error"]["code"]) == (id, code)
    assert answer["error"]["message"]
    assert shared.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   \r",
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"no"}}',
        b'{"jsonrpc":"2.0","id":99,"error":"no"}',
        b'{"jsonrpc":"2.0","method":"notifications/nobody/knows"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}',
    ],
)
def test_lines_without_a_request_are_not_answered(shared, line):
    shared.write(line + b"\n")

    assert shared.ask("ping")["result"] == {}


def test_a_line_that_is_too_long_is_an_error_and_uses_little_memory(command):
    chunk = b"x" * (1 << 20)
    with Lines(command, cold=True) as client:
        for _ in range((MAX_REQUEST_BYTES >> 20) * 4):
            client.write(chunk)
        client.write(b"\n")

        answer = client.read()

        assert (answer["id"], answer["error"]["code"]) == (None, INVALID)
        assert client.ask("ping")["result"] == {}
        with open(f"/proc/{client.process.pid}/status", encoding="ascii") as file:
            peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        assert peak < 300_000


def test_a_large_argument_is_accepted(lines, command):
    text = "é\u2028" * 500_000

    assert not lines.call("write_file", path="a.txt", content=text)["isError"]

    assert command.folder.read("a.txt") == text


def test_an_id_in_use_is_refused(lines):
    lines.write(
        b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"run_shell","arguments":'
        b'{"command":"sleep 300","timeout":200}}}\n{"jsonrpc":"2.0","id":"a","method":"ping"}\n'
    )

    answer = lines.read()

    assert (answer["id"], answer["error"]["code"]) == ("a", INVALID)
    lines.tell("notifications/cancelled", requestId="a")
    wait_until(lambda: lines.ask("ping")["result"] == {})


def test_both_line_endings_are_accepted(command):
    with Lines(command, handshake=False) as client:
        client.write(b"\xef\xbb\xbf" + json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\r\n")

        assert client.read()["result"] == {}


def test_a_connection_keeps_its_protocol_era(command):
    with Lines(command, handshake=False) as client:
        assert "tools" in client.ask("server/discover", _meta=META)["result"]["capabilities"]
        assert client.ask("initialize", protocolVersion="2025-11-25")["error"]["code"] == -32022
        assert client.ask("tools/list", _meta=META)["result"]["tools"]
    with Lines(command) as client:
        assert client.ask("tools/list", _meta=META)["error"]["code"] == INVALID
        assert client.ask("tools/list")["result"]["tools"]


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list"])
def test_an_unknown_cursor_is_refused(shared, method):
    assert shared.ask(method, cursor="made-up")["error"]["code"] == -32602
    assert "result" in shared.ask(method, cursor=None)
    shared.write(json.dumps({"jsonrpc": "2.0", "id": "bare", "method": method}).encode() + b"\n")
    assert "result" in shared.read()


def test_nothing_but_the_protocol_is_on_standard_output(command):
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "tools", "noisy.py")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "import os\nfrom hilt import tool\nprint('loud')\n"
            "@tool(effects='read')\ndef noisy() -> str:\n    'Make noise.'\n"
            "    print('noise')\n    os.write(1, b'more noise\\n')\n    return 'done'\n"
        )
    with Lines(command) as client:
        assert client.call("noisy")["content"] == [{"type": "text", "text": "done"}]


def test_calls_run_in_parallel(lines):
    slow = lines.send("tools/call", name="run_shell", arguments={"command": "sleep 300", "timeout": 200})

    assert not lines.call("list_dir")["isError"]

    lines.tell("notifications/cancelled", requestId=slow)


@needs_sandbox
def test_calls_and_jobs_end_with_the_input(command):
    mark, job = Mark(), Mark()
    client = Lines(command, cold=True)
    client.call("run_shell", command=f"sleep 300; echo {job.name}", run_in_background=True)
    client.send("tools/call", name="run_shell", arguments={"command": f"sleep 300; echo {mark.name}", "timeout": 200})
    wait_until(lambda: mark.alive() and job.alive())

    assert client.end() == 0

    assert (mark.alive(), job.alive()) == ([], [])


@needs_sandbox
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_calls_end_with_a_signal(command, number):
    mark = Mark()
    with Lines(command, cold=True) as client:
        arguments = {"command": f"trap '' TERM; sleep 300; echo {mark.name}", "timeout": 200}
        client.send("tools/call", name="run_shell", arguments=arguments)
        wait_until(mark.alive)

        client.process.send_signal(number)

        assert client.process.wait(WAIT_SECONDS) == -number
        wait_until(lambda: not mark.alive())


@needs_sandbox
def test_a_killed_host_leaves_nothing_running(command):
    mark = Mark()
    client = Lines(command, cold=True)
    client.send("tools/call", name="run_shell", arguments={"command": f"sleep 300; echo {mark.name}", "timeout": 200})
    wait_until(mark.alive)

    client.process.kill()

    wait_until(lambda: not mark.alive())
    client.end()


def test_a_host_that_stops_reading_but_keeps_writing_ends_the_server(command):
    client = Lines(command, cold=True)
    assert client.process.stdout is not None
    client.process.stdout.close()

    assert client.process.wait(WAIT_SECONDS) == 0
    client.end()


def _resident_kilobytes(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def test_a_host_that_never_reads_fills_its_pipe_and_not_the_memory_of_the_server(command):
    command.folder.write("long.txt", "".join(f"{number:0100}\n" for number in range(300)))
    client = Lines(command, cold=True)
    call = {"name": "read_file", "arguments": {"path": "long.txt"}}
    sent = 0

    def flood() -> None:
        nonlocal sent
        for number in range(20_000):
            message = {"jsonrpc": "2.0", "id": f"f{number}", "method": "tools/call", "params": call}
            try:
                client.write(json.dumps(message).encode() + b"\n")
            except (OSError, ValueError):
                return
            sent += 1

    writer = threading.Thread(target=flood, daemon=True)
    writer.start()
    seen = -1
    while sent != seen:  # until the pipe is full
        seen = sent
        time.sleep(1)

    assert 0 < sent < 20_000
    assert _resident_kilobytes(client.process.pid) < 400_000
    client.process.terminate()
    assert client.process.wait(WAIT_SECONDS) == -signal.SIGTERM
    writer.join(WAIT_SECONDS)
    client.end()


@pytest.fixture
def silent(command):
    """A client that requests more than it reads, and a command that it started before."""
    for number in range(20):
        command.folder.write(f"{number}.txt", ("x" * 99 + "\n") * 250)
    mark = Mark()
    client = Lines(command, cold=True)
    request = client.send("tools/call", name="run_shell", arguments={"command": f"sleep 300; echo {mark.name}"})
    wait_until(mark.alive)
    for _ in range(60):
        client.send("tools/call", name="multi_read", arguments={"files": [{"path": f"{n}.txt"} for n in range(20)]})
    wait_until_idle(client.process.pid)
    yield client, request, mark
    client.process.kill()
    client.end()


@needs_sandbox
@pytest.mark.parametrize("last", [b"", b"no request\n"], ids=["after requests", "after an invalid line"])
def test_a_host_that_never_reads_ends_with_its_input(silent, last):
    client, _, mark = silent

    client.write(last)
    wait_until_idle(client.process.pid)
    client.process.stdin.close()

    assert client.process.wait(WAIT_SECONDS) == 0
    wait_until(lambda: not mark.alive())


@needs_sandbox
def test_a_host_that_does_not_read_can_still_cancel(silent):
    client, request, mark = silent

    client.tell("notifications/cancelled", requestId=request)

    wait_until(lambda: not mark.alive())


@pytest.mark.parametrize("reply", ['"error":5', '"result":"x"', '"result":[]', '"error":{}', '"error":null', '"x":1'])
def test_an_invalid_reply_leaves_no_call_waiting(asking, reply):
    request = asking.send("tools/call", name="write_file", arguments={"path": "a.txt", "content": "x"})
    question = asking.read()
    assert question["method"] == "elicitation/create"

    asking.write(f'{{"jsonrpc":"2.0","id":{json.dumps(question["id"])},{reply}}}\n'.encode())

    answer = asking.read()
    assert answer["id"] == request
    assert answer["result"]["isError"]


def test_a_flood_is_answered_to_the_last_request(lines):
    count = 3000
    message = b"".join(
        json.dumps(
            {"jsonrpc": "2.0", "id": f"f{number}", "method": "tools/call", "params": {"name": "list_dir"}}
        ).encode()
        + b"\n"
        for number in range(count)
    )
    threading.Thread(target=lines.write, args=(message,), daemon=True).start()

    answers: dict[Any, Any] = {}
    while len(answers) < count:
        answer = lines.read()
        answers[answer["id"]] = answer

    assert all("result" in answer for answer in answers.values())


@pytest.fixture
def asking(command):
    """A client that supports forms, of a server that asks before it writes."""
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("ask: [Write]\n")
    with Lines(command, elicitation={}) as client:
        yield client


def test_a_call_runs_while_the_client_has_not_answered_others(asking):
    for number in range(100):
        asking.send("tools/call", name="write_file", arguments={"path": f"{number}.txt", "content": ""})
    asked = [asking.read() for _ in range(100)]

    assert {message["method"] for message in asked} == {"elicitation/create"}
    assert not asking.call("list_dir")["isError"]


def test_questions_beyond_the_limit_are_refused_and_the_others_continue(asking, command):
    more = 50
    for number in range(REQUESTS_MAX + more):
        asking.send("tools/call", name="write_file", arguments={"path": f"{number}.txt", "content": ""})
    messages = [asking.read() for _ in range(REQUESTS_MAX + more)]
    asked = [message["id"] for message in messages if "method" in message]

    assert [message["error"]["code"] for message in messages if "error" in message] == [BUSY] * more
    for id in asked:
        answer = {"action": "accept", "content": {"decision": "once"}}
        asking.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": answer}).encode() + b"\n")
    answers = [asking.read() for _ in asked]
    assert not any(answer["result"]["isError"] for answer in answers)
    assert len(command.folder.tree()) == REQUESTS_MAX


HESITATE = '''
import os, time
from hilt import tool

@tool(effects="read")
def hesitate(ctx, until: str) -> str:
    """Ask once a file is there."""
    while not os.path.exists(until):
        time.sleep(0.05)
    return str(ctx.elicit("Now?", {"type": "object", "properties": {}}))
'''


def test_a_question_asked_when_all_slots_are_taken_can_be_answered(command):
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "tools", "hesitate.py")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(HESITATE)
    with Lines(command, cold=True, elicitation={}) as client:
        for _ in range(REQUESTS_MAX):
            client.send("tools/call", name="hesitate", arguments={"until": command.folder.join("go")})
        last = client.send("resources/list")
        wait_until_idle(client.process.pid)  # the last request waits for a free slot
        guard = threading.Timer(WAIT_SECONDS, client.process.kill)
        guard.start()

        command.folder.write("go")

        question = client.read()
        assert question["method"] == "elicitation/create"
        while (refused := client.read())["id"] != last:
            pass
        assert refused["error"]["code"] == BUSY
        _write(client, {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        while "result" not in client.read():
            pass
        guard.cancel()
        client.process.kill()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_stream_closed_at_the_start_ends_the_server_without_a_traceback(command, closed):
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" mcp {closed}', HILT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=command.folder.path,
        env=command.environ,
        timeout=WAIT_SECONDS,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("kind", ["file", "terminal"])
def test_any_kind_of_input_file_is_read(command, kind, tmp_path):
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": META}},
    ]
    data = "".join(json.dumps(message) + "\n" for message in messages)
    if kind == "file":
        (tmp_path / "in").write_text(data)
        with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as sink:
            subprocess.run(
                [HILT, "mcp"],
                stdin=source,
                stdout=sink,
                cwd=command.folder.path,
                env=command.environ,
                timeout=WAIT_SECONDS,
                check=True,
            )
        answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
        assert [answer["id"] for answer in answers] == [1, 2]
        return
    import pty
    import termios

    master, terminal = pty.openpty()
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    with subprocess.Popen(
        [HILT, "mcp"], stdin=terminal, stdout=subprocess.PIPE, cwd=command.folder.path, env=command.environ
    ) as process:
        os.close(terminal)
        os.write(master, data.encode())
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == 1
        os.close(master)
        assert process.wait(WAIT_SECONDS) in (0, -signal.SIGHUP)


# --- batches --------------------------------------------------------------------------------------------------------


@pytest.fixture
def batching(command):
    """A client of the only revision with batches."""
    with Lines(command, version="2025-03-26") as client:
        yield client


def _request(id: Any, method: str = "ping", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def _write(client: Lines, messages: Any) -> None:
    client.write(json.dumps(messages).encode() + b"\n")


def test_a_batch_is_answered_with_a_batch(batching):
    note = {"jsonrpc": "2.0", "method": "notifications/nobody/knows"}
    call = {"name": "list_dir", "arguments": {}}
    _write(batching, [_request("a"), note, _request("b", "tools/call", **call), _request("c", "nothing")])

    answers = {answer["id"]: answer for answer in batching.read()}

    assert answers.keys() == {"a", "b", "c"}
    assert answers["a"]["result"] == {}
    assert not answers["b"]["result"]["isError"]
    assert answers["c"]["error"]["code"] == -32601
    assert batching.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    "batch, codes",
    [
        ([1], [(None, INVALID)]),
        ([1, {}, []], [(None, INVALID)] * 3),
        ([_request("a"), _request("a"), 1], [("a", None), ("a", INVALID), (None, INVALID)]),
        ([_request("a"), _request("i", "initialize")], [("a", None), ("i", INVALID)]),
        ([{"jsonrpc": "2.0", "id": 99, "result": {}}, _request("a")], [("a", None)]),
        ([{"jsonrpc": "2.0", "id": 99, "error": "no"}, _request("a")], [("a", None)]),
    ],
    ids=repr,
)
def test_invalid_messages_in_a_batch_are_answered_with_the_rest(batching, batch, codes):
    _write(batching, batch)

    outcomes = [(answer["id"], answer.get("error", {}).get("code")) for answer in batching.read()]

    assert sorted(outcomes, key=repr) == sorted(codes, key=repr)
    assert batching.ask("ping")["result"] == {}


@pytest.mark.parametrize("batch", [[], [_request(number) for number in range(BATCH_MAX + 1)]], ids=["empty", "long"])
def test_an_invalid_batch_is_refused_as_a_whole(batching, batch):
    _write(batching, batch)

    answer = batching.read()

    assert (answer["id"], answer["error"]["code"]) == (None, INVALID)


def test_a_batch_of_notifications_has_no_response(batching):
    _write(batching, [{"jsonrpc": "2.0", "method": "notifications/nobody/knows"}] * 2)

    assert batching.ask("ping")["result"] == {}


def test_a_full_batch_is_answered(batching):
    _write(batching, [_request(f"f{number}") for number in range(BATCH_MAX)])

    assert {answer["id"] for answer in batching.read()} == {f"f{number}" for number in range(BATCH_MAX)}


def test_a_cancelled_request_of_a_batch_does_not_block_the_others(batching):
    sleep = {"name": "run_shell", "arguments": {"command": "sleep 300", "timeout": 200}}
    _write(batching, [_request("slow", "tools/call", **sleep), _request("a")])
    assert batching.ask("ping")["result"] == {}  # no batch before it

    _write(batching, [_request("slow"), _request("b")])
    in_use = {answer["id"]: answer for answer in batching.read()}
    assert in_use["slow"]["error"]["code"] == INVALID
    assert in_use["b"]["result"] == {}
    batching.tell("notifications/cancelled", requestId="slow")

    assert [answer["id"] for answer in batching.read()] == ["a"]


def test_finished_responses_of_a_batch_are_sent_when_the_input_ends(batching):
    sleep = {"name": "run_shell", "arguments": {"command": "sleep 300", "timeout": 200}}
    _write(batching, [_request("slow", "tools/call", **sleep), _request("a")])
    assert batching.ask("ping")["result"] == {}
    batching.process.stdin.close()

    assert "a" in [answer["id"] for answer in batching.read()]


def test_questions_are_answered_in_a_batch(command):
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("ask: [Write]\n")
    with Lines(command, version="2025-03-26", elicitation={}) as client:
        calls = [
            _request(name, "tools/call", name="write_file", arguments={"path": name, "content": ""}) for name in "ab"
        ]
        _write(client, calls)
        questions = [client.read(), client.read()]
        yes = {"action": "accept", "content": {"decision": "once"}}
        good, bad = ({"jsonrpc": "2.0", "id": question["id"]} for question in questions)
        _write(client, [{**good, "result": yes}, {**bad, "result": "none"}])

        assert sorted(answer["result"]["isError"] for answer in client.read()) == [False, True]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_revisions_have_no_batches(command, version):
    with Lines(command, version=version) as client:
        _write(client, [_request("a")])

        answer = client.read()

    assert (answer["id"], answer["error"]["code"]) == (None, INVALID)
