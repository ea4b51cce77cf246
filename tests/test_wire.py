from __future__ import annotations

import io
import json
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt import wire
from hilt.call import Call, Result
from hilt.errors import CODES, ToolError


def refusal(raw: bytes) -> ToolError:
    with pytest.raises(wire.Refused) as caught:
        wire.decode_request(raw)
    error = caught.value.result.error
    assert error is not None
    assert error.code in CODES
    assert error.suggestion
    assert len(error.message) < 1000
    return error


def nested(levels: int) -> bytes:
    return b'{"tool":"x","args":{"a":' + b"[" * levels + b"]" * levels + b"}}"


BAD = {
    "nothing": b"",
    "blanks": b" \n\t ",
    "not JSON": b"hello",
    "half JSON": b'{"tool": "read_file"',
    "two values": b'{"tool":"a"} {"tool":"b"}',
    "a comment": b'{"tool":"a" /* no */}',
    "whitespace that is not JSON whitespace": b'{"tool":"a"}\x0b',
    "a line separator after it": '{"tool":"a"}\u2028'.encode(),
    "a trailing comma": b'{"tool":"a",}',
    "single quotes": b"{'tool':'a'}",
    "an array": b"[1]",
    "text": b'"read_file"',
    "a number": b"1",
    "null": b"null",
    "no tool": b"{}",
    "tool is a number": b'{"tool":1}',
    "tool is null": b'{"tool":null}',
    "tool is empty": b'{"tool":""}',
    "args is an array": b'{"tool":"x","args":[]}',
    "args is a number": b'{"tool":"x","args":1}',
    "args is true": b'{"tool":"x","args":true}',
    "duplicate keys": b'{"tool":"x","tool":"y"}',
    "duplicate keys inside": b'{"tool":"x","args":{"a":[{"b":1,"b":1}]}}',
    "duplicate keys by escapes": b'{"tool":"x","\\u0074ool":"y"}',
    "too deep": nested(99),
    "too deep with something inside": nested(99).replace(b"[]", b"[1]"),
    "a call and a cancel": b'{"tool":"x","cancel":1}',
    "a cancel of nothing": b'{"cancel":null}',
    "very deep": nested(100_000),
    "deep objects": b'{"tool":"x","args":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "deep and unfinished": b"[" * 1_000_000,
    "too large": b'{"tool":"x","args":{"a":"' + b"x" * wire.MAX_REQUEST_BYTES + b'"}}',
    "invalid UTF-8": b'{"tool":"\xff"}',
    "truncated UTF-8": b'{"tool":"\xc3',
    "UTF-16": '{"tool":"x"}'.encode("utf-16"),
    "a surrogate in UTF-8": b'{"tool":"\xed\xa0\x80"}',
    "a lone surrogate": b'{"tool":"x","args":{"path":"\\ud800"}}',
    "a lone low surrogate": b'{"tool":"x","args":{"path":"a\\udc00b"}}',
    "a lone surrogate in a key": b'{"tool":"x","args":{"\\ud800":1}}',
    "swapped surrogates": b'{"tool":"x","id":"\\udc00\\ud800"}',
    "NaN": b'{"tool":"x","args":{"a":NaN}}',
    "infinity": b'{"tool":"x","args":{"a":-Infinity}}',
    "an infinite number": b'{"tool":"x","id":1e999}',
    "a number of many digits": b'{"tool":"x","id":' + b"9" * 10_000 + b"}",
    "an unknown field": b'{"tool":"x","path":"a"}',
    "both names of the tool": b'{"tool":"x","name":"x"}',
    "the tool with the other arguments": b'{"tool":"x","arguments":{}}',
    "the name with the other args": b'{"name":"x","args":{}}',
    "arguments without a name": b'{"arguments":{}}',
    "a name that is a number": b'{"name":1,"arguments":{}}',
    "arguments that are an array": b'{"name":"x","arguments":[]}',
    "a name and a cancel": b'{"name":"x","cancel":1}',
    "an unknown field of a megabyte": b'{"tool":"x","' + b"p" * 1_000_000 + b'":"a"}',
    "a duplicate key of a megabyte": b'{"' + b"p" * 1_000_000 + b'":1,"' + b"p" * 1_000_000 + b'":1}',
    "session is a number": b'{"tool":"x","session":1}',
    "session is empty": b'{"tool":"x","session":""}',
    "session is very long": b'{"tool":"x","session":"' + b"s" * 1001 + b'"}',
    "dialect is an array": b'{"tool":"x","dialect":["jcli"]}',
    "client is an object": b'{"tool":"x","client":{}}',
    "a control character": b'{"tool":"a\x00b"}',
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD.keys())
def test_invalid_input_is_one_error_with_a_code_and_a_next_step(raw):
    assert refusal(raw).code == "invalid_request"


@pytest.mark.parametrize(
    "raw, call",
    [
        (b'{"tool":"x"}', Call("x")),
        (b'\xef\xbb\xbf{"tool":"x"}', Call("x")),
        (b'  {"tool":"x","args":null}\r\n', Call("x")),
        (b'{"tool":"x"} \t\r\n', Call("x")),
        (b'{"tool":"x","args":"{}"}', Call("x", "{}")),
        (b'{"name":"x"}', Call("x")),
        (b'{"name":"x","arguments":{"a":1},"id":7}', Call("x", {"a": 1}, 7)),
        (b'{"name":"x","arguments":"{}","session":"s"}', Call("x", "{}", session="s")),
        (b'{"tool":"x","id":0}', Call("x", id=0)),
        (b'{"tool":"x","id":{"a":[1]},"request_id":false}', Call("x", id={"a": [1]}, request_id=False)),
        (b'{"tool":"x","session":"s","client":"pi","dialect":"jcli","approval":"a"}',
         Call("x", session="s", client="pi", dialect="jcli", approval="a")),
        (b'{"tool":"x","args":{"a":"\\ud83d\\ude00"}}', Call("x", {"a": "\U0001f600"})),
        (nested(98), Call("x", json.loads(nested(98))["args"])),
        (nested(98).replace(b"[]", b"[1]"), Call("x", json.loads(nested(98).replace(b"[]", b"[1]"))["args"])),
        (b'{"tool":"x","cancel":null}', Call("x")),
        (b'{"tool":"x","session":"' + b"s" * 1000 + b'"}', Call("x", session="s" * 1000)),
        (b'{"tool":"x","args":{"a":1e308}}', Call("x", {"a": 1e308})),
    ],
)  # fmt: skip
def test_valid_input_is_a_call(raw, call):
    assert wire.decode_request(raw) == call


def test_the_position_of_an_invalid_byte_is_counted_from_the_start_of_the_request():
    assert "byte 0xff at position 12." in refusal(b'\xef\xbb\xbf{"tool":"\xff"}').message


def test_a_rejected_request_echoes_the_ids_that_could_be_parsed():
    with pytest.raises(wire.Refused) as caught:
        wire.decode_request(b'{"tol":"x","id":7,"request_id":"r"}')

    result = caught.value.result
    assert (result.id, result.request_id) == (7, "r")
    assert "did you mean 'tool'" in (result.error or ToolError("internal", "")).message


def test_a_request_of_another_protocol_is_shown_our_format():
    for raw in (b'{"name":"read_file","input":{}}', b'{"jsonrpc":"2.0","method":"tools/list"}'):
        assert '{"tool": ' in refusal(raw).suggestion


def test_a_cancel_request_has_the_id_of_the_call():
    request = wire.decode_request(b'{"cancel":{"any":"id"}}')

    assert isinstance(request, wire.Cancel)
    assert request.target == {"any": "id"}


# --- several requests in one stream -----------------------------------------------------------------------------------


def split(raw: bytes) -> list[Any]:
    """Return the requests of a stream: decoded, or "error"."""
    decoded: list[Any] = []
    for piece in wire.read_requests(io.BytesIO(raw)):
        if isinstance(piece, ToolError):
            decoded.append("error")
            continue
        try:
            call = wire.decode_request(piece)
        except wire.Refused:
            decoded.append("error")
        else:
            decoded.append(call.tool if isinstance(call, Call) else "cancel")
    return decoded


def pretty(tool: str) -> bytes:
    return json.dumps({"tool": tool, "args": {"text": "{[\n]}", "list": [1, {"a": []}]}}, indent=2).encode()


@pytest.mark.parametrize(
    "raw, expected",
    [
        (b"", []),
        (b"\n\n", []),
        (b'{"tool":"a"}', ["a"]),
        (b'{"tool":"a"}\n', ["a"]),
        (b'{"tool":"a"}\n{"tool":"b"}\n', ["a", "b"]),
        (b'\n\n{"tool":"a"}\n\n\n{"tool":"b"}', ["a", "b"]),
        (b'{"tool":"a"}{"tool":"b"} {"tool":"c"}', ["a", "b", "c"]),
        (b'{"tool":"a"}\r\n{"tool":"b"}\r\n', ["a", "b"]),
        (pretty("a"), ["a"]),
        (pretty("a") + b"\n" + pretty("b"), ["a", "b"]),
        (pretty("a") + pretty("b") + b'\n{"tool":"c"}', ["a", "b", "c"]),
        (b'{"tool":"a"}\n' + pretty("b"), ["a", "b"]),
        (b'{"tool":\n\n"a"}', ["a"]),
        (b"\xef\xbb\xbf" + pretty("a"), ["a"]),
        # whitespace that is not JSON whitespace, as in a session
        (b'\x0c{"tool":"a"}\n{"tool":"b"}', ["error", "b"]),
        ('\u00a0{"tool":"a"}\n{"tool":"b"}'.encode(), ["error", "b"]),
        (b'nonsense\n{"tool":"b"}\n', ["error", "b"]),
        (b'{"tool":"a"\n{"tool":"b"}\n', ["error", "b"]),
        (b'{"tool":"a"}\nnonsense\n{"tool":"c"}\n', ["a", "error", "c"]),
        (b'{"tool":"a"}}\n{"tool":"c"}\n', ["a", "error", "c"]),
        (b'{"tool": "a", "args": {"x": "unfinished\n{"tool":"b"}\n', ["error", "b"]),
        (b'{"tool":"\xff"}\n{"tool":"b"}\n', ["error", "b"]),
        (b'{"tool":"a"', ["error"]),
        (b"[" * 100_000 + b'\n{"tool":"b"}\n', ["error", "b"]),
        (b'{"cancel":1}\n{"tool":"b"}', ["cancel", "b"]),
        # a value that contains lines like requests is still one value
        (b'{"tool":"a","args":{"list":[\n{"tool":"inner"}\n]}}\n{"tool":"b"}', ["a", "b"]),
        (b'{"tool": "a", "args": {"x": "unfinished\n{"name":"b"}\n', ["error", "b"]),
        (b'{"tool":"a","args":{"list":[\n{"tool":"inner"},\n{"tool":"inner"}\n]}}', ["a"]),
    ],
)
def test_requests_are_split_whatever_their_layout(raw, expected):
    assert split(raw) == expected


@pytest.mark.parametrize("newlines", [False, True])
def test_a_request_over_the_size_limit_is_one_error_and_the_next_is_answered(newlines):
    filler = b'"' + b"x" * 1000 + b'",' + b"\n" * newlines
    large = b'{"tool":"a","args":{"l":[' + filler * (wire.MAX_REQUEST_BYTES // len(filler) + 1) + b'"x"]}}'

    requests = split(large + b'\n{"tool":"b"}\n')

    assert requests == ["error", "b"]


def test_a_session_line_over_the_limit_is_an_error_and_the_next_one_is_read():
    raw = b"x" * (wire.MAX_REQUEST_BYTES + 100) + b"\n" + b'{"tool":"b"}\n' + b"y" * (wire.MAX_REQUEST_BYTES * 2)

    lines = list(wire.read_lines(io.BytesIO(raw)))

    assert [isinstance(line, ToolError) for line in lines] == [True, False, True]
    assert lines[1] == b'{"tool":"b"}\n'


good = st.sampled_from([b'{"tool":"g"}', b'{"tool":"g","args":{"a":[1,{"b":"}]"}]}}', pretty("g")])
bad = st.sampled_from([b"nonsense", b'{"tool":"x"', b"]", b'"text', b"{]", b"\xff\xfe", b'{"a":1}}'])


@given(st.lists(good, max_size=6))
def test_all_valid_requests_are_found_whatever_is_between_them(requests):
    for between in (b"\n", b" ", b"", b"\n\n", b"\r\n"):
        assert split(between.join(requests)) == ["g"] * len(requests)


@given(st.lists(st.tuples(good, bad), min_size=1, max_size=5))
def test_a_malformed_request_does_not_affect_others(pairs):
    """Every valid request on its own line is found unless an earlier line could continue on it."""
    raw = b"\n".join(piece for request, noise in pairs for piece in (noise, json.dumps(json.loads(request)).encode()))

    assert split(raw).count("g") == len(pairs)


def work(raw: bytes) -> int:
    """Return how many bytes the splitter passes to the JSON scanner and the decoder in total."""
    total = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal total
        if event == "call" and frame.f_code in (wire._split.__code__, wire._is_request.__code__):
            total += len(next(iter(frame.f_locals.values())))
        return None

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in wire.read_requests(io.BytesIO(raw)):
            pass
    finally:
        sys.setprofile(before)
    return total


@pytest.mark.parametrize(
    "hostile",
    [
        lambda n: b'{"a":"' + b"{\n" * n,
        lambda n: b"[\n" * n,
        lambda n: b"{\n" * n,
        lambda n: b'{"tool":"a"\n' * n,
        lambda n: b'["' + b"\n]" * n,
        lambda n: b'["\n' + b'{"tool":"a"}\n' * n,
        lambda n: b'{"x":[\n' + b'{"tool":"a"},\n' * n,
        lambda n: b"}\n{" * n,
        lambda n: b'"\n' * n,
        lambda n: b"1 " * n,
        lambda n: b"\n" * n,
    ],
)
def test_hostile_input_is_split_in_linear_work(hostile):
    small, large = hostile(2_000), hostile(16_000)
    allowance = 4 * 1024 * 1024

    assert work(large) <= 20 * len(large) + allowance
    assert work(small) <= 20 * len(small) + allowance


def test_requests_on_one_line_are_split_without_copying_the_rest_each_time(monkeypatch):
    texts: dict[int, str] = {}
    scan = wire._SCAN

    def counted(text: str, at: int = 0) -> tuple[Any, int]:
        texts[id(text)] = text
        return scan(text, at)

    monkeypatch.setattr(wire, "_SCAN", counted)

    assert len(list(wire.read_requests(io.BytesIO(b'{"tool":"a"} ' * 200)))) == 200
    assert sum(map(len, texts.values())) <= 2 * 200 * len('{"tool":"a"} ')


@given(st.binary(max_size=300))
def test_any_bytes_are_a_call_or_one_error_and_any_stream_ends(raw):
    """For any input there is no other error, and no byte of a stream is in two pieces."""
    with suppress(wire.Refused):
        wire.decode_request(raw)
    pieces = list(wire.read_requests(io.BytesIO(raw)))
    assert sum(len(piece) for piece in pieces if isinstance(piece, bytes)) <= len(raw)


# --- replies ----------------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
plain = st.text(st.characters(exclude_categories=["Cs"]))


@given(plain, values, values)
def test_a_reply_is_one_line_that_contains_the_whole_result(text, data, id):
    for result in (Result(text, id=id), Result(data=data, id=id), Result(text, meta={"facts": data}, request_id=id)):
        raw = wire.encode_result(result)

        assert raw.endswith(b"\n")
        assert raw.count(b"\n") == 1
        reply = json.loads(raw)
        assert reply["ok"] is True
        assert reply["result"] == (
            result.text if result.data is None else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        )
        assert reply.get("id") == result.id


def test_empty_fields_are_omitted_except_the_result():
    assert json.loads(wire.encode_result(Result())) == {"ok": True, "result": ""}


def test_an_error_carries_its_code_its_next_step_and_its_details():
    error = ToolError("stale_file", "a.txt changed.", lines=[1])

    assert json.loads(wire.encode_result(Result(error=error, id=0))) == {
        "ok": False,
        "error": "a.txt changed.",
        "error_code": "stale_file",
        "suggestion": CODES["stale_file"],
        "meta": {"details": {"lines": [1]}},
        "id": 0,
    }


def circle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    "result",
    [
        Result(data={"bytes": b"x"}),
        Result(data=float("nan")),
        Result(data=[float("inf")]),
        Result(data={1, 2}),
        Result(data=circle()),
        Result("text", meta={"path": object()}),
        Result("text", view={"x": b""}),
    ],
)
def test_a_result_that_is_not_json_fails_the_call_and_keeps_its_id(result):
    reply = json.loads(wire.encode_result(result._replace(id=5)))

    assert (reply["ok"], reply["error_code"], reply["id"]) == (False, "tool_failed", 5)


def test_surrogates_in_names_do_not_break_a_reply():
    reply = json.loads(wire.encode_result(Result("caf\udce9", meta={"name": "\ud800"})).decode())

    assert reply == {"ok": True, "result": "caf�", "meta": {"name": "�"}}


@pytest.mark.parametrize("request_, both", [(b'{"tool":"x","name":"y"}', "'tool' and 'name'"), (b'{"name":"x","args":{}}', "'args' and 'name'")])  # fmt: skip  # noqa: E501
def test_mixing_the_two_request_formats_names_the_clashing_fields(request_, both):
    error = refusal(request_)

    assert error.message == f"The request has both {both}."
    assert error.suggestion == "Send tool with args, or name with arguments."
