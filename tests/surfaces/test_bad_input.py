"""Every kind of invalid input on every surface: one clear error envelope, the process survives, nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.surfaces.commands import Command

WRITE = '"tool":"write_file","args":{"path":"never.txt","content":"x"}'
GOOD = b'{"tool":"read_file","args":{"path":"a.txt"},"id":"good"}\n'

# name, line, error code, part of the message
BAD = [
    ("not JSON", b"hello\n", "invalid_request", "not JSON"),
    ("half a request", b'{"tool":"write_file","args":\n', "invalid_request", "not JSON"),
    ("two roots", b"{}{}x\n", "invalid_request", ""),
    ("array", b"[]\n", "invalid_request", "object"),
    ("text", b'"read_file"\n', "invalid_request", "object"),
    ("number", b"42\n", "invalid_request", "object"),
    ("null", b"null\n", "invalid_request", "object"),
    ("no tool", b'{"args":{}}\n', "invalid_request", "tool"),
    ("tool is a number", b'{"tool":1}\n', "invalid_request", "tool"),
    ("tool is null", b'{"tool":null}\n', "invalid_request", "tool"),
    ("tool is empty", b'{"tool":""}\n', "invalid_request", "tool"),
    ("args is an array", b'{"tool":"write_file","args":[1]}\n', "invalid_request", "args"),
    ("args is a number", b'{"tool":"write_file","args":1}\n', "invalid_request", "args"),
    ("args is text", b'{"tool":"write_file","args":"x"}\n', "invalid_args", "args must be an object"),
    ("unknown field", b'{"tool":"write_file","arg":{}}\n', "invalid_request", "did you mean 'args'"),
    ("session is a number", b'{"tool":"write_file","session":1}\n', "invalid_request", "session"),
    ("duplicate key", b'{"tool":"read_file",' + WRITE.encode() + b"}\n", "invalid_request", "twice"),
    ("duplicate inner key", b'{"tool":"write_file","args":{"path":"x","path":"y"}}\n', "invalid_request", "twice"),
    ("not UTF-8", b'{"tool":"write_file","args":{"path":"\xff","content":""}}\n', "invalid_request", "UTF-8"),
    ("lone surrogate", b'{"tool":"write_file","args":{"path":"never\\ud800","content":""}}\n', "invalid_request", "surrogate"),  # noqa: E501
    ("lone surrogate in a key", b'{"tool":"write_file","args":{"\\udfff":"never"}}\n', "invalid_request", "surrogate"),
    ("NUL in a path", b'{"tool":"write_file","args":{"path":"never\\u0000x","content":""}}\n', "invalid_args", "NUL"),
    ("NUL in the session", b'{"session":"a\\u0000b",' + WRITE.encode() + b"}\n", "invalid_request", "NUL"),
    ("NUL in the id", b'{"id":"a\\u0000b",' + WRITE.encode() + b"}\n", "invalid_request", "NUL"),
    ("lone surrogate in the session", b'{"session":"\\udcff",' + WRITE.encode() + b"}\n", "invalid_request", "surrogate"),  # noqa: E501
    ("NaN", b'{"tool":"list_dir","args":{"changed_since":NaN}}\n', "invalid_request", "finite"),
    ("too large a number", b'{"tool":"list_dir","args":{"changed_since":-1e999}}\n', "invalid_request", "finite"),
    ("thousands of digits", b'{"tool":"list_dir","args":{"depth":' + b"9" * 9000 + b"}}\n", "invalid_request", ""),
    ("deep nesting", b'{"tool":"write_file","args":{"path":' + b"[" * 1000 + b"]" * 1000 + b"}}\n", "invalid_request", "nested"),  # noqa: E501
    ("very deep nesting", b"[" * 200_000 + b"\n", "invalid_request", ""),
    ("20 MB", b'{"tool":"write_file","args":{"path":"never.txt","content":"' + b"x" * 20_000_000 + b'"}}\n', "invalid_request", "more than 16777216 bytes"),  # noqa: E501
    ("unknown tool", b'{"tool":"../write_file"}\n', "unknown_tool", "no tool"),
    ("private module", b'{"tool":"__init__"}\n', "unknown_tool", "no tool"),
    ("unknown dialect", b'{"tool":"Read","dialect":"nope","args":{}}\n', "invalid_request", "dialect"),
    ("control character", b'{"tool":"write_file","args":{"path":"a\x01"}}\n', "invalid_request", "not JSON"),
]  # fmt: skip


def check(reply: Any, code: str, words: str) -> None:
    assert (reply["ok"], reply["error_code"]) == (False, code)
    assert words in reply["error"]
    assert len(reply["error"]) < 2000
    assert reply["suggestion"]
    assert "result" not in reply


def unchanged(command: Command) -> bool:
    return command.folder.tree() == {"a.txt": "a\n"}


@pytest.mark.parametrize("name, line, code, words", BAD, ids=[case[0] for case in BAD])
def test_invalid_input_is_one_error_envelope_and_exit_status_1(command, name, line, code, words):
    command.folder.write("a.txt", "a\n")

    done = command.run(input=line)

    replies = [json.loads(reply) for reply in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (1, b"")
    check(replies[-1], code, words)
    assert len(replies) == (3 if name == "two roots" else 1)
    assert unchanged(command)


def test_invalid_input_between_valid_requests_is_one_error_each(command):
    command.folder.write("a.txt", "a\n")
    bad = [case for case in BAD if case[0] not in ("two roots", "half a request", "20 MB", "very deep nesting")]

    done = command.run(input=GOOD + b"".join(line + GOOD for _, line, _, _ in bad))

    replies = [json.loads(reply) for reply in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (1, b"")
    assert [reply.get("id") for reply in replies[::2]] == ["good"] * (len(bad) + 1)
    for reply, (_, _, code, words) in zip(replies[1::2], bad, strict=True):
        check(reply, code, words)
    assert unchanged(command)


def test_a_session_survives_every_bad_line(command):
    command.folder.write("a.txt", "a\n")
    process = command.start("stdio")
    for name, line, code, words in BAD:
        process.stdin.write(line)
        process.stdin.flush()
        reply = json.loads(process.stdout.readline())
        check(reply, code, "" if name == "two roots" else words)
    process.stdin.write(GOOD)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"] == "1\ta"

    out, errors = process.communicate(timeout=60)

    assert (process.returncode, out, errors) == (0, b"", b"")
    assert unchanged(command)


def test_the_resident_process_survives_every_bad_request(short):
    short.folder.write("a.txt", "a\n")
    assert short.run("resident", "start").returncode == 0
    before = short.run("resident", "status").stdout.split(b",")[0]

    for name, line, code, words in BAD:
        done = short.run(input=line)
        assert (done.returncode, done.stderr) == (1, b""), name
        check(json.loads(done.stdout.splitlines()[-1]), code, words)

    assert short.run("resident", "status").stdout.split(b",")[0] == before
    assert unchanged(short)


@pytest.mark.parametrize("line", [b"", b"\n", b"  \n\t\n", b"\xef\xbb\xbf"])
def test_empty_input_is_an_error_envelope(command, line):
    done = command.run(input=line)

    assert done.returncode == 1
    check(json.loads(done.stdout), "invalid_request", "empty")


def test_blank_lines_in_a_session_are_ignored(command):
    done = command.run("stdio", input=b"\n  \n\n\r\n")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("id", [0, -1, 1.5, "", "x", True, False, [], [1, None], {}, {"a": [1]}, "é\u2028", 10**30])
def test_ids_of_every_type_are_returned(command, id):
    requests = [{"tool": "list_dir", "id": id, "request_id": id}, {"tool": "nope", "id": id}, {"tool": 1, "id": id}]

    for words in ((), ("stdio",)):
        replies = command.ask(*requests, words=words)
        assert [reply["id"] for reply in replies] == [id] * 3
        assert any(reply.get("request_id", "none") == id for reply in replies)


@pytest.mark.parametrize("words", [(), ("stdio",)])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_request_of_exactly_the_limit_is_accepted_and_one_byte_more_is_refused(command, words, end):
    start, rest = b'{"tool":"stat_file","args":{"path":"', b'"}}'
    path = b"x" * (16 * 1024 * 1024 - len(start + rest))

    accepted, refused = (
        json.loads(command.run(*words, input=start + value + rest + end).stdout) for value in (path, path + b"x")
    )

    assert accepted["error_code"] != "invalid_request"
    assert refused["error_code"] == "invalid_request"
