"""Attack path rules: exchange names in a workspace while calls run, and count the calls that bypass the rules.

Each exchange is one rename (RENAME_EXCHANGE), so that both names exist at every moment.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hilt.call import Result, UserAnswer
from hilt.runtime import Runtime
from hilt.testing import Folder, environment
from tests.state.ordinary import obey_permissions

SECRET = "the-denied-words"
MARK = "locked and unchanged\n"
RULES = {
    "deny": {"allow": ["*"], "deny": ["Read(path:secrets/**)", "Write(path:locked/**)"]},
    "ask": {"allow": ["*"], "ask": ["Read(path:secrets/**)", "Write(path:locked/**)"]},
    "expression": {"allow": ["*"], "deny": ["read_file:^secrets/.*", "write_file:^locked/.*"]},
}

# names that are exchanged: with a link, a path leads elsewhere
PAIRS = (("open/file.txt", "open/link"), ("data", "alias"), ("step", "spare"))

READS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "deny": [
        ("read_file", {"path": "open/file.txt"}),
        ("read_file", {"path": "data/key.txt"}),
        ("read_file", {"path": "step/../secrets/key.txt"}),
        ("multi_read", {"files": [{"path": "open/file.txt"}, {"path": "data/key.txt"}]}),
        ("diff_files", {"path_a": "plain.txt", "path_b": "data/key.txt"}),
        ("search_files", {"pattern": "words", "path": "data"}),
        ("search_files", {"pattern": "words", "path": "open/file.txt"}),
        ("find_files", {"pattern": "only-*", "path": "data"}),
        ("list_dir", {"path": "data"}),
        ("checksum_tree", {"path": "data"}),
        ("stat_file", {"path": "data/only-there.txt"}),
    ],
    "expression": [
        ("read_file", {"path": "open/file.txt"}),
        ("read_file", {"path": "data/key.txt"}),
        ("read_file", {"path": "step/../secrets/key.txt"}),
    ],
}
READS["ask"] = READS["deny"]
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "step/../locked/file.txt", "content": "written\n", "force": True}),
    ("edit_file", {"path": "step/../locked/file.txt", "old_text": "locked", "new_text": "written", "force": True}),
    (
        "apply_patch",
        {"patch": "*** Begin Patch\n*** Add File: step/../locked/new.txt\n+written\n*** End Patch\n", "force": True},
    ),
]


def prepare(base: str, rules: str) -> Folder:
    """Create a workspace whose names lead to denied files half of the time, and the rules that deny them."""
    folder = Folder(os.path.join(base, "workspace"))
    folder.write("plain.txt", "plain\n")
    folder.write("open/file.txt", "harmless\n")
    folder.write("data/key.txt", "harmless\n")
    folder.write("secrets/key.txt", SECRET + "\n")
    folder.write("secrets/only-there.txt", SECRET + "\n")
    folder.write("locked/file.txt", MARK)
    folder.write("spare/file.txt", "spare\n")
    folder.write("deep/down/file.txt", "deep\n")
    folder.write("deep/locked/file.txt", "locked elsewhere\n")
    folder.write("deep/secrets/key.txt", "harmless\n")
    os.symlink("../secrets/key.txt", folder.join("open/link"))
    os.symlink("secrets", folder.join("alias"))
    os.symlink("deep/down", folder.join("step"))
    Folder(os.path.join(base, "config")).write("permissions.yaml", json.dumps(RULES[rules]))
    return folder


@contextmanager
def exchanging(root: str) -> Iterator[None]:
    """Exchange the names while the block runs."""
    command = [sys.executable, "-m", "tests.state.exchanging", "exchange", root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as swapper:
        assert swapper.stdout
        assert swapper.stdout.readline() == "ready\n"
        yield
        swapper.communicate("end\n")


def attack(base: str, rules: str, tries: int) -> dict[str, Any]:
    """Make each call many times; return the calls that bypassed the rules, and the codes of all results."""
    folder = prepare(base, rules)
    leaks: dict[str, int] = {}
    codes: dict[str, int] = {}
    env = environment(base)
    with Runtime(folder.path, environ=env, asker=lambda asked: UserAnswer("deny")) as runtime, exchanging(folder.path):
        for turn in range(tries):
            for name, args in READS[rules]:
                result = runtime.call(name, **args)
                code = "ok" if result.error is None else result.error.code
                codes[code] = codes.get(code, 0) + 1
                if leaks_secret(result):
                    call = f"{name} {json.dumps(args)}"
                    leaks[call] = leaks.get(call, 0) + 1
            name, args = WRITES[turn % len(WRITES) if rules != "expression" else 0]
            result = runtime.call(name, **args)
            code = "ok" if result.error is None else result.error.code
            codes[code] = codes.get(code, 0) + 1
            if os.listdir(folder.join("locked")) != ["file.txt"] or folder.read("locked/file.txt") != MARK:
                leaks[f"{name} {json.dumps(args)}"] = leaks.get(f"{name} {json.dumps(args)}", 0) + 1
                for name in os.listdir(folder.join("locked")):
                    os.unlink(folder.join(f"locked/{name}"))
                folder.write("locked/file.txt", MARK)
    return {"leaks": leaks, "codes": codes}


def leaks_secret(result: Result) -> bool:
    """Whether a result, its view or its error message reveals contents or names of the denied folder."""
    reply = f"{result.text}{result.data}{result.view}{result.content}"
    if SECRET in reply or ("only-there" in reply and result.error is None):
        return True
    return result.error is not None and SECRET in result.error.message


def exchange(root: str) -> None:
    """Exchange the names until a line arrives on standard input."""
    libc = ctypes.CDLL(None, use_errno=True)
    pairs = [(os.path.join(root, first).encode(), os.path.join(root, other).encode()) for first, other in PAIRS]
    print("ready", flush=True)
    turn = 0
    while turn % 64 or not select.select([sys.stdin], [], [], 0)[0]:
        for first, other in pairs:
            libc.renameat2(-100, first, -100, other, 2)
        turn += 1


if __name__ == "__main__":
    if sys.argv[1] == "exchange":
        exchange(sys.argv[2])
    else:
        obey_permissions()
        print(json.dumps(attack(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
