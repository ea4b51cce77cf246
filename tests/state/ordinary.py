"""Run Python in a process that obeys file permissions like an ordinary user, even when the tests run as root."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import Any

OVERRIDES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: these let root bypass permission bits


def obey_permissions() -> None:
    """Drop the capabilities that let this process bypass permission bits."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; low and high halves
    if libc.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    for capability in OVERRIDES:
        sets[0] &= ~(1 << capability)
        sets[1] &= ~(1 << capability)
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def calls(base: str, *requests: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Run calls one after the other in a runtime of such a process; return the parts that tests compare."""
    command = [sys.executable, "-m", "tests.state.ordinary", base, json.dumps(requests)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


if __name__ == "__main__":
    from hilt.testing import temporary_runtime

    obey_permissions()
    with temporary_runtime(sys.argv[1]) as (runtime, _):
        results = [runtime.call(tool, **args) for tool, args in json.loads(sys.argv[2])]
    print(json.dumps([{"code": r.error and r.error.code, "text": r.text, "meta": dict(r.meta)} for r in results]))
