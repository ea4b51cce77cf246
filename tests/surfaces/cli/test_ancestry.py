from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hilt.errors import ToolError
from hilt.sandbox.capturing import run
from hilt.sandbox.spawning import Limits
from hilt.surfaces.cli.ancestry import Process, _look_in_proc, _look_with_ps, ancestors, hilt_above, is_hilt
from tests.surfaces.commands import HILT

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.parametrize(
    "name, words, expected",
    [
        ("hilt-keeper", "python -c x", True),
        ("hilt-warden", "", True),
        ("python", "/venv/bin/python /venv/bin/hilt stdio", True),
        ("hilt", "/venv/bin/python3.12 -I -X dev /venv/bin/hilt mcp", True),
        ("python", "python -m hilt resident", True),
        ("python", "python -W error -m hilt.surfaces.resident", True),
        ("Python", "/Frameworks/Python.app/Python -m hilt", True),
        ("python", "python /src/hilt/__main__.py", True),
        ("hilt", "/usr/bin/hilt serve", True),
        ("python", "/venv/bin/python /venv/bin/hilt-py chat", True),
        ("", "/venv/bin/hilt-py chat", True),
        ("", "python -I -S -c import sys; import keeper; keeper.main() /lib/hilt/sandbox", True),
        ("bash", "-bash", False),
        ("bash", "bash /homes/me/bin/hilt approve", False),
        ("uv", "uv run hilt approve", False),
        ("sudo", "sudo hilt approve", False),
        ("python", "python -m pytest tests/hilt", False),
        ("python", "python watch.py hilt", False),
        ("python", "python -c print() hilt", False),
        ("python", "python", False),
        ("vim", "vim /src/hilt", False),
        ("kthreadd", "", False),
    ],
)
def test_hilt_processes_are_recognised_by_name_or_command(name, words, expected):
    assert is_hilt(Process(1, name, tuple(words.split()))) == expected


def test_the_processes_above_are_found_nearest_first():
    expression = "[pid for pid, _ in ancestry.ancestors(os.getpid())]"
    code = f"import os; from hilt.surfaces.cli import ancestry; print({expression})"
    script = f'echo $$; "{sys.executable}" -c "{code}"; :'

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)

    shell, above = done.stdout.splitlines()
    assert above.startswith(f"[{shell}, {os.getpid()}")


@pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")
def test_a_tool_runs_below_hilt_and_a_user_does_not(tmp_path):
    code = "import os; from hilt.surfaces.cli.ancestry import hilt_above; print(hilt_above(os.getpid()))"
    words, env = [sys.executable, "-c", code], {"PATH": os.environ["PATH"]}

    person = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    tool = run(words, cwd=tmp_path, env=env)

    assert person.stdout == "None\n"
    assert tool.stdout.head.startswith(b"process ")


def test_a_real_session_is_recognised(tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HILT_RESIDENT": "off"}
    process = subprocess.Popen([HILT, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=tmp_path)
    try:
        look = _look_in_proc if sys.platform == "linux" else _look_with_ps
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"tool": "list_dir"}\n')
        process.stdin.flush()
        process.stdout.readline()
        process_seen = look(process.pid)
    finally:
        process.communicate()

    assert process_seen is not None
    assert process_seen.parent == os.getpid()
    assert is_hilt(process_seen)


@LINUX
def test_both_ways_to_read_the_ancestry_agree():
    own, from_ps = _look_in_proc(os.getpid()), _look_with_ps(os.getpid())

    assert own is not None
    assert from_ps is not None
    assert own.parent == from_ps.parent == os.getppid()
    assert from_ps.words[0] == own.words[0]


@LINUX
def test_a_process_name_may_look_like_other_fields(tmp_path):
    script = tmp_path / "a) S 1 ("
    script.write_text("#!/bin/sh\nread x\n")
    script.chmod(0o700)
    process = subprocess.Popen([str(script)], stdin=subprocess.PIPE)
    try:
        while (process_seen := _look_in_proc(process.pid)) is None or process_seen.name == "python":
            pass
        assert process_seen.parent == os.getpid()
    finally:
        process.communicate()


@LINUX
def test_parents_that_end_meanwhile_do_not_hide_hilt(tmp_path):
    """Shells end one after the other while a process below them keeps checking: hilt is always found above them."""
    looks = (
        "import os, time; from hilt.surfaces.cli.ancestry import hilt_above; end = time.monotonic() + 1.5\n"
        "while time.monotonic() < end:\n  if hilt_above(os.getpid()) is None: print('hidden')\n"
        "print('done')"
    )
    (tmp_path / "looks.py").write_text(looks)
    chain = f'"{sys.executable}" looks.py > out; mv out seen'
    for number in range(8):
        (tmp_path / f"{number}.sh").write_text(f"({chain}) &\nsleep 0.{number}\n")
        chain = f"sh {number}.sh"

    done = run(
        ["bash", "-c", f"{chain}; until [ -e seen ]; do sleep 0.1; done; cat seen"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        limits=Limits(timeout=60),
    )

    assert done.stdout.head == b"done\n"


def test_an_ancestry_that_cannot_be_read_is_refused():
    process = subprocess.Popen(["true"])
    process.wait()

    with pytest.raises(ToolError) as caught:
        list(ancestors(process.pid))

    assert caught.value.code == "denied"
