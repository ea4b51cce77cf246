"""Decodes foreign content, such as web pages, images and PDFs, in a child process for each (ADR 0051).

A decoder in C that is slow, wasteful or exploited cannot be stopped inside this process. The child has limits on time
and memory, and can be killed; it has no network and no files except the interpreter and its packages.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, NamedTuple

from hilt import variables
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence
    from hilt.sandbox.capturing import Finished

MEMORY = 1 << 30
OUTPUT_BYTES = 64 << 20

_LAUNCH = "import sys; sys.path.append(sys.argv[1]); from hilt.sandbox.decoding import main; main()"
_WAIT_SECONDS = 0.05  # how often a call that waits for its turn checks whether it was cancelled
_WALL = 2  # seconds of the clock per second of processor time: the machine may be busy


class Decoder(NamedTuple):
    """A function of hilt that decodes bytes to a JSON value, and how it may run."""

    module: str
    function: str
    turns: threading.Semaphore  # how many may run at once
    advice: str  # when it exceeds a limit
    seconds: int = 10  # of processor time


def decode(decoder: Decoder, name: str, data: bytes, fence: Fence, /, **options: Any) -> Any:
    """Return what the decoder makes of `data`; raise its ToolError, or one for the limit that it exceeded."""
    from hilt.sandbox import capturing, seccomp, spawning
    from hilt.sandbox.backend import Launch, StartSteps

    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    request = json.dumps([decoder.module, decoder.function, decoder.seconds, options]).encode()
    limits = spawning.Limits(
        timeout=decoder.seconds * _WALL,
        grace=0,
        settle=0,
        keep_bytes=OUTPUT_BYTES,
        max_bytes=OUTPUT_BYTES,
        address_space=MEMORY,
        file_size=0,
    )
    while not decoder.turns.acquire(timeout=_WAIT_SECONDS):
        fence.check()
    ruleset = _ruleset(package)
    # no sockets, and no way to get one
    strict = seccomp.FilterRules(internet=False, unix=False, user_namespaces=False, processes=False, group_bits=False)
    program_filter = seccomp.assemble(os.uname().machine, strict) if sys.platform == "linux" else None
    try:
        finished = capturing.run(
            [sys.executable, "-I", "-c", _LAUNCH, package],
            cwd="/",
            env=variables.libraries(os.environ),
            stdin=request + b"\n" + data,
            limits=limits,
            cancelled=fence.event(),
            confined=Launch(steps=StartSteps(ruleset=ruleset, program_filter=program_filter or b"")),
        )
    finally:
        decoder.turns.release()
        if ruleset is not None:
            os.close(ruleset)
    fence.check()
    return _value(decoder, name, finished)


def _ruleset(package: str) -> int | None:
    from hilt.sandbox import ruleset

    return ruleset.reading(None, (), (os.path.realpath(sys.executable), sys.prefix, sys.base_prefix, package))


def _value(decoder: Decoder, name: str, finished: Finished) -> Any:
    """Return the value in the reply of a child, or raise its error."""
    from signal import SIGXCPU

    if finished.reason == "timeout" or finished.exit_code == 128 + SIGXCPU:
        fact = f"takes more than {decoder.seconds} seconds"
    elif finished.reason == "limit":
        fact = f"becomes more than {OUTPUT_BYTES >> 20} MiB"
    elif finished.reason == "signal":
        fact = (
            f"needs more than {MEMORY >> 20} MiB of memory, or crashes its decoder (signal {finished.exit_code - 128})"
        )
    elif finished.exit_code:
        raise RuntimeError(finished.stderr.head[-4000:].decode("utf-8", "replace"))
    else:
        reply = json.loads(finished.stdout.head)
        if "error" in reply:
            raise ToolError(**reply["error"])
        return reply["value"]
    raise ToolError("resource_limit", f"Decoding {name} {fact}.", suggestion=decoder.advice)


def main() -> None:
    """Decode standard input, in the child."""
    import resource
    from importlib import import_module

    source = sys.stdin.buffer
    module, function, seconds, options = json.loads(source.readline())
    # the soft limit has a signal of its own
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        try:
            reply = {"value": getattr(import_module(module), function)(source.read(), **options)}
        except ToolError as error:
            fields = {"code": error.code, "message": error.message, "suggestion": error.suggestion}
            reply = {"error": {**error.details, **fields}}
        encoded = json.dumps(reply).encode()
    except MemoryError:
        os.abort()  # as decoders do
    sys.stdout.buffer.write(encoded)
