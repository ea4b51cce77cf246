"""Decoding in a limited child process, with a decoder that does whatever the content says."""

from __future__ import annotations

import pickle
import socket
import sys
import threading
from typing import Any

import pytest

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.sandbox import ruleset
from hilt.sandbox.decoding import Decoder, decode

needs_landlock = pytest.mark.skipif(not ruleset.abi(), reason="the kernel does not support Landlock")


class Exploit:
    """Content that makes its decoder evaluate an expression."""

    def __init__(self, expression: str) -> None:
        self._expression = expression

    def __reduce__(self) -> Any:
        return eval, (self._expression,)


def run(
    expression: str, fence: Fence | None = None, seconds: int = 10, turns: threading.Semaphore | None = None
) -> Any:
    decoder = Decoder("pickle", "loads", turns or threading.Semaphore(), "Use another file.", seconds)
    return decode(decoder, "a.bin", pickle.dumps(Exploit(expression)), fence or Fence())


def failure(expression: str, seconds: int = 10) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(expression, seconds=seconds)
    return caught.value


def test_a_decoder_returns_a_json_value():
    assert run("['ü', 1, None, {'a': '\\ud800'}]") == ["ü", 1, None, {"a": "\ud800"}]


@pytest.mark.parametrize(
    "expression, fact",
    [
        ("bytearray(2 << 30)", "needs more than 1024 MiB of memory"),
        ("chr(0x1f600) * (70 << 20)", "needs more than 1024 MiB of memory"),
        ("__import__('os').abort()", "crashes its decoder (signal 6)"),
        ("__import__('ctypes').string_at(8)", "crashes its decoder (signal 11)"),
        ("'x' * (80 << 20)", "becomes more than 64 MiB"),
        ("[1 for _ in iter(int, 1)]", "takes more than 1 seconds"),
        ("__import__('time').sleep(1000)", "takes more than 1 seconds"),
    ],
)
def test_a_decoder_that_exceeds_a_limit_is_killed(expression, fact):
    error = failure(expression, seconds=1 if "seconds" in fact else 60)

    assert (error.code, error.suggestion) == ("resource_limit", "Use another file.")
    assert error.message.startswith("Decoding a.bin ")
    assert fact in error.message


def test_the_error_of_a_decoder_is_the_error_of_the_call():
    error = failure(
        "(_ for _ in ()).throw(__import__('hilt.errors').errors.ToolError('not_found', 'No.', suggestion='Look.', n=1))"
    )

    assert (error.code, error.message, error.suggestion, error.details) == ("not_found", "No.", "Look.", {"n": 1})


def test_an_unexpected_exception_of_a_decoder_has_its_traceback():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run("1 / 0")


@needs_landlock
@pytest.mark.parametrize(
    "expression", ["open({path!r}).read()", "open({path!r}, 'w')", "__import__('os').listdir('/etc')"]
)
def test_a_decoder_has_no_files(tmp_path, expression):
    path = tmp_path / "secret"
    path.write_text("text")

    with pytest.raises(RuntimeError, match="PermissionError"):
        run(expression.format(path=str(path)))
    assert path.read_text() == "text"


@pytest.mark.skipif(sys.platform != "linux", reason="needs seccomp")
@pytest.mark.parametrize(
    "expression",
    [
        "__import__('socket').create_connection(('127.0.0.1', {port}))",
        "__import__('socket').socket(__import__('socket').AF_INET, __import__('socket').SOCK_DGRAM)",
        "__import__('socket').socket(__import__('socket').AF_UNIX)",
    ],
)
def test_a_decoder_has_no_network(expression):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(RuntimeError, match=r"OSError: |PermissionError"),
    ):
        run(expression.format(port=server.getsockname()[1]))


def test_cancelling_a_call_kills_its_decoder():
    fence = Fence()
    timer = threading.Timer(0.3, fence.cancel, [ToolError("cancelled", "Cancelled.")])
    timer.start()

    with pytest.raises(ToolError) as caught:
        run("__import__('time').sleep(1000)", fence, seconds=1000)

    assert caught.value.code == "cancelled"


def test_a_call_that_waits_for_its_turn_can_be_cancelled():
    fence, busy = Fence(), threading.Semaphore(0)
    timer = threading.Timer(0.1, fence.cancel, [ToolError("cancelled", "Cancelled.")])
    timer.start()

    with pytest.raises(ToolError) as caught:
        run("1", fence, turns=busy)
    busy.release()

    assert caught.value.code == "cancelled"
    assert run("1", turns=busy) == 1


def test_a_failed_decoder_gives_its_turn_back():
    turns = threading.Semaphore(1)

    for _ in range(2):
        with pytest.raises(RuntimeError):
            run("1 / 0", turns=turns)
    assert run("1", turns=turns) == 1
