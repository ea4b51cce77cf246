"""One-shot calls: requests on standard input, and one reply per line on standard output, in order."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from hilt import pipeline, wire
from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.surfaces.opening import open_runtime

if TYPE_CHECKING:
    from hilt.pipeline import Prepared
    from hilt.runtime import Runtime

ENDING_SECONDS = 5  # for calls to clean up when a signal ends this process


def main(options: dict[str, str]) -> int:
    """Answer every request on standard input; return 0 if all succeeded, 1 otherwise."""
    try:
        runtime = open_runtime(options, keeps_jobs=False)
    except ToolError as error:
        status = answer_all(refusing(error), sys.stdin.buffer, sys.stdout.buffer)
    else:
        with closed_by_signals(runtime):
            status = answer_all(lambda call: request(runtime, options, call), sys.stdin.buffer, sys.stdout.buffer)
        runtime.parts.recorder.close()
    sys.stdout.flush()
    # skip the interpreter's shutdown, which costs as much as the call
    os._exit(status)


@contextmanager
def closed_by_signals(runtime: Runtime) -> Iterator[None]:
    """Close the runtime when a signal ends this process, so that no command keeps running.

    A second signal ends it at once.
    """
    for number in _ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        yield
    except KeyboardInterrupt:
        restore_signals()
        runtime.give_up(ENDING_SECONDS)
        runtime.close()
        raise
    except _Ended as ended:
        restore_signals()
        runtime.give_up(ENDING_SECONDS)
        runtime.close()
        die(ended.number)


class _Ended(BaseException):
    def __init__(self, number: int) -> None:
        self.number = number


_ENDING = (signal.SIGTERM, signal.SIGHUP)


def _end(number: int, _: object) -> NoReturn:
    raise _Ended(number)


def restore_signals() -> None:
    """Let the next signal end this process at once."""
    for number in (signal.SIGINT, *_ENDING):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def die(number: int) -> None:
    """End this process by a signal, so that the parent process sees which one ended it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def request(runtime: Runtime, options: dict[str, str], call: Call) -> Result:
    """Run a call here, or in the resident process if it needs background jobs."""
    if runtime.settings["resident"] == "off" or for_resident(runtime, call) is None:
        return runtime.request(call)
    from hilt.surfaces import resident

    result = resident.hand_over(call, options)
    if result.error is None or result.error.code != "resident_required":
        return result
    refused = runtime.request(call)  # records the call, which the resident process did not
    return result if refused.error is not None and refused.error.code == "resident_required" else refused


def for_resident(runtime: Runtime, call: Call) -> Prepared | None:
    """Return a call that needs background jobs, prepared; None for any other call."""
    try:
        call, match = runtime.resolve(call)
        needs_jobs = match.tool.traits.needs_jobs
        if needs_jobs is None:
            return None
        prepared = pipeline.prepare(call, *match)
        return prepared if needs_jobs(prepared.args) else None
    except ToolError:
        return None  # running the call reports the error


def answer_all(ask: Callable[[Call], Result], reader: BinaryIO, writer: BinaryIO) -> int:
    """Answer each request in order with the result of `ask`; return 1 if any failed, or there was none."""
    failed = answered = False
    for request in wire.read_requests(reader):
        result = _answer(ask, request)
        answered = True
        failed = failed or not result.ok
        writer.write(wire.encode_result(result))
        writer.flush()
    if not answered:
        writer.write(wire.encode_result(Result(error=ToolError("invalid_request", "The request is empty."))))
        writer.flush()
    return 1 if failed or not answered else 0


def refusing(error: ToolError) -> Callable[[Call], Result]:
    """Return a function that answers every call with the error that prevented the runtime from opening."""
    return lambda call: Result(error=error, id=call.id, request_id=call.request_id)


def _answer(ask: Callable[[Call], Result], request: bytes | ToolError) -> Result:
    if isinstance(request, ToolError):
        return Result(error=request)
    try:
        call = wire.decode_request(request)
    except wire.Refused as refused:
        return refused.result
    if isinstance(call, wire.Cancel):
        return Result(
            error=ToolError(
                "invalid_request", "Cancel is not supported outside a session.", suggestion="Use hilt stdio."
            )
        )
    return ask(call)
