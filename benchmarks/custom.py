"""Custom tools: the overhead of a call over its script, discovery, and many concurrent calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from shutil import which

from benchmarks.clock import best, best_median, milliseconds
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place, small_name
from benchmarks.program import Program, echo, request, session

ROUNDS = 40
TOOLS = 1000
CALLS, AT_ONCE, SLEEP = 500, 32, 0.05

_MARKDOWN = """\
---
name: {name}
description: Answers at once, for measuring.
parameters:
  text: {{ type: string, description: Some text., maxLength: 100 }}
approval: never
read_only: true
{more}---
{body}
"""
_SANDBOX = "sandbox: { write: [.] }\n"
_HOOK = "hooks: [{ event: pre_tool_execution, match: read_file, command: 'true' }]\n"
_FOLDER = """\
---
name: {name}
script: script.sh
runtime: bash
inputSchema: {{ type: object, properties: {{ text: {{ type: string, description: Some text. }} }} }}
outputSchema: {{ type: object }}
effects: read
---
Answers at once, for measuring.
"""
_PYTHON = '''\
from hilt import tool


@tool(effects="read")
def warm(text: str = "") -> str:
    """Answer at once, for measuring."""
    return text
'''
_ANSWER = "read -r _; echo '{}'\n"
_MANY = """\
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
from hilt.runtime import Runtime

def megabytes(field):
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(field))

calls, at_once = int(sys.argv[1]), int(sys.argv[2])
with Runtime(".") as runtime, ThreadPoolExecutor(at_once) as pool:
    runtime.call("nap", text="")
    idle = megabytes("VmRSS")
    start = time.perf_counter()
    results = list(pool.map(lambda number: runtime.call("nap", text=str(number)).text, range(calls)))
    took = time.perf_counter() - start
lost = sum(text != f"{number}\\n" for number, text in enumerate(results))
print(json.dumps({"lost": lost, "ms": took * 1000, "idle": idle, "peak": megabytes("VmHWM")}))
"""


def figures() -> Iterator[Figure]:
    """Measure single calls, discovery, and many concurrent calls."""
    bash = which("bash")
    if bash is None:
        raise RuntimeError("the reference for custom tools is bash, which is not installed")
    with fresh_place() as place:
        _add(place, "plain.md", _MARKDOWN.format(name="plain", more="", body="true"))
        _add(place, "confined.md", _MARKDOWN.format(name="confined", more=_SANDBOX, body="true"))
        _add(place, "folder/tool.md", _FOLDER.format(name="folder"))
        script = _add(place, "folder/script.sh", _ANSWER)
        _add(place, "warm.py", _PYTHON)
        plain = place.write("plain.sh", "true\n")
        with session(place) as hilt, echo(place) as bare:
            plain_script = Program([bash, plain], place)
            folder_script = Program([bash, "--noprofile", "--norc", script], place, b"{}\n")
            calls = [partial(hilt.ask, request(name, text="a")) for name in ("plain", "confined", "folder", "warm")]
            base, markdown, confined = best(ROUNDS, plain_script, calls[0], calls[1])
            folder_base, folder = best(ROUNDS, folder_script, calls[2])
            echoed, warm = best_median(10, 100, lambda: bare.exchange(b"{}\n"), calls[3])
        yield Figure(
            "a markdown tool in a session", markdown, "ms", "its script alone", base, maximum=round(base + 4, 2)
        )
        maximum = round(base + 16, 2)
        yield Figure("a confined markdown tool in a session", confined, "ms", "its script alone", base, maximum=maximum)
        maximum = round(folder_base + 4, 2)
        yield Figure("a folder tool in a session", folder, "ms", "its script alone", folder_base, maximum=maximum)
        yield Figure("a warm Python tool, p50", warm, "ms", "echo of a line", echoed, maximum=2)
    yield from _hook(bash)
    yield from _discovery()
    yield from _many()


def _hook(bash: str) -> Iterator[Figure]:
    with fresh_place(files=1) as place:
        with open(os.path.join(place.environ["HILT_CONFIG_DIR"], "hooks.yaml"), "w", encoding="utf-8") as file:
            file.write(_HOOK)
        with session(place) as hilt:
            ask = partial(hilt.ask, request("read_file", path=small_name(0)))
            base, hooked = best(ROUNDS, Program([bash, "-c", "true"], place), ask)
    yield Figure("read_file with a hook", hooked, "ms", "the hook alone", base, maximum=round(base + 4, 2))


def _add(place: Place, name: str, text: str) -> str:
    """Write a file to the user's tools folder."""
    path = os.path.join(place.environ["HILT_CONFIG_DIR"], "tools", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _discovery() -> Iterator[Figure]:
    new, unchanged, read = [], [], []
    for _ in range(3):
        with fresh_place() as place:
            paths = []
            for number in range(TOOLS // 2):
                markdown = _MARKDOWN.format(name=f"plain_{number}", more="", body="echo {{ text }}")
                paths.append(_add(place, f"plain_{number}.md", markdown))
                paths.append(_add(place, f"folder-{number}/tool.md", _FOLDER.format(name=f"folder-{number}")))
                _add(place, f"folder-{number}/script.sh", _ANSWER)
            time.sleep(0.2)  # a file written just now is read again, because it may still change
            read.append(milliseconds(partial(_read, paths)))
            new.append(_time_discovery(place))
            unchanged.append(_time_discovery(place))
    yield Figure(f"{TOOLS:,} new tools", min(new), "ms", "their files read", min(read), maximum=600)
    yield Figure(f"{TOOLS:,} unchanged tools", min(unchanged), "ms", "their files read", min(read), maximum=60)


def _read(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            file.read()


def _time_discovery(place: Place) -> float:
    """Return how long discovery takes without an in-process cache, in milliseconds."""
    from hilt.custom import discovery, folder_tools, markdown_tools  # noqa: F401  # imports are not measured
    from hilt.custom.workers import Workers
    from hilt.surroundings import Surroundings

    with Workers() as workers:
        discovered = []

        def look() -> None:
            opened = discovery.open_discovery(place.workspace, Surroundings(place.environ), workers)
            discovered.append(opened.current(rescan=True))

        took = milliseconds(look)
    if len(discovered[0].definitions) != TOOLS:
        raise RuntimeError(
            f"discovered {len(discovered[0].definitions)} tools, not {TOOLS}: {discovered[0].problems[:3]}"
        )
    return took


def _many() -> Iterator[Figure]:
    with fresh_place() as place:
        _add(place, "nap.md", _MARKDOWN.format(name="nap", more="", body=f"sleep {SLEEP}; echo {{{{ text }}}}"))
        command = [sys.executable, "-c", _MANY, str(CALLS), str(AT_ONCE)]
        done = subprocess.run(command, cwd=place.workspace, env=place.environ, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    report = json.loads(done.stdout)
    if report["lost"]:
        raise RuntimeError(f"{report['lost']} of {CALLS} calls were lost")
    ideal = CALLS / AT_ONCE * SLEEP * 1000
    yield Figure(
        f"{CALLS} calls of {SLEEP * 1000:g} ms, {AT_ONCE} at once", report["ms"], "ms", "without overhead", ideal
    )
    yield Figure("peak memory, no calls lost", report["peak"], "MB", "before", report["idle"])
