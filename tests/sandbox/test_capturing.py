"""Real processes only. Every call has a mark in its environment, so that leftover processes can be found."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hilt.errors import ToolError
from hilt.sandbox import keeper, spawning, wardens
from hilt.sandbox.backend import Launch, StartSteps
from hilt.sandbox.capturing import Captured, Finished, run
from hilt.sandbox.spawning import Exit, Limits, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

HANG_SECONDS = 60
SHORT = Limits(timeout=0.5, grace=0.2)


class Mark:
    """A name that every process of one test carries, and the calls that carry it."""

    def __init__(self, cwd: Path) -> None:
        self.name = uuid.uuid4().hex
        self.cwd = cwd
        self.env = {"PATH": os.environ["PATH"], "MARK": self.name}

    def run(self, *argv: str, **options: Any) -> Finished:
        """Run a program, and check that none of its processes is left when it returns."""
        finished = run(argv, cwd=self.cwd, env=self.env, **options)
        assert finished.clean
        assert self.alive() == []
        assert finished.duration < HANG_SECONDS
        return finished

    def bash(self, script: str, **options: Any) -> Finished:
        return self.run("bash", "-c", script, **options)

    def python(self, script: str, **options: Any) -> Finished:
        return self.run(sys.executable, "-I", "-S", "-c", script, **options)

    def alive(self) -> list[int]:
        sought = f"MARK={self.name}".encode()
        return [pid for pid in pids() if sought in read(f"/proc/{pid}/environ").split(b"\0")]


@pytest.fixture
def mark(tmp_path: Path) -> Mark:
    return Mark(tmp_path)


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(parent: int) -> list[int]:
    """The living children of a process."""
    return [
        pid
        for pid in pids()
        if (fields := read(f"/proc/{pid}/stat").rpartition(b")")[2].split()) and fields[0] != b"Z"
        if int(fields[1]) == parent
    ]


def keepers_of(parent: int) -> list[int]:
    return [pid for pid in children_of(parent) if read(f"/proc/{pid}/comm") == b"hilt-keeper\n"]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "hangs"
        time.sleep(0.005)


# --- input and result of a program


def test_the_exit_code_and_both_streams_come_back(mark):
    finished = mark.bash("echo out; echo err >&2; exit 3")

    assert finished[:4] == (3, "exit", Captured(b"out\n", b"", 4), Captured(b"err\n", b"", 4))


def test_merged_streams_keep_the_order_of_arrival(mark):
    finished = mark.bash("for i in 1 2 3; do echo out$i; echo err$i >&2; done", merge=True)

    assert finished.stdout.head == b"out1\nerr1\nout2\nerr2\nout3\nerr3\n"
    assert finished.stderr == Captured()


def test_a_program_killed_by_a_signal_returns_128_plus_its_number(mark):
    assert mark.bash("kill -SEGV $$")[:2] == (139, "signal")


def test_the_environment_is_passed_exactly(mark):
    mark.env["ODD"] = "a b\n=\udcff"

    printed = mark.run("env", "-0").stdout.head

    assert sorted(printed.split(b"\0")[:-1]) == sorted(os.fsencode(f"{k}={v}") for k, v in mark.env.items())


def test_a_program_leads_its_own_session_and_has_three_descriptors_and_default_signals(mark):
    script = """
import os
print(os.getpid() == os.getsid(0) == os.getpgrp(), sorted(os.listdir("/proc/self/fd")))
"""
    # the fourth is the listing itself
    assert mark.python(script).stdout.head == b"True ['0', '1', '2', '3']\n"
    signals = mark.run("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status").stdout.head
    # the C library ignores its own signals 32 and 33 in children, and they cannot be reset
    assert {int(line.split()[1], 16) & ~(3 << 31) for line in signals.splitlines()} == {0}


def test_a_working_directory_given_by_descriptor_may_have_moved(mark, tmp_path):
    (tmp_path / "before").mkdir()
    directory = os.open(tmp_path / "before", os.O_RDONLY)
    (tmp_path / "before").rename(tmp_path / "after")
    (tmp_path / "before").mkdir()

    finished = run(["pwd", "-P"], cwd=directory, env=mark.env)
    os.close(directory)

    assert finished.stdout.head.decode().strip() == str((tmp_path / "after").resolve())


@pytest.mark.parametrize(
    "argv, cwd, code, mentioned",
    [
        (["no-such-program"], ".", "runtime_missing", "no-such-program"),
        (["./no-such-file"], ".", "runtime_missing", "no-such-file"),
        (["./plain"], ".", "permission_denied", "plain"),
        (["./orphan"], ".", "runtime_missing", "orphan"),
        (["./garbage"], ".", "runtime_missing", "garbage"),
        (["."], ".", "permission_denied", "."),
        (["sh/x"], ".", "runtime_missing", "sh/x"),
        (["true"], "missing", "file_not_found", "missing"),
        (["true"], "plain", "file_not_found", "plain"),
        (["true"], "nul\0", "file_not_found", "nul"),
        (["true", "a\0b"], ".", "invalid_args", "true"),
        (["true", "\ud800"], ".", "invalid_args", "ud800"),
        (["true", "x" * (4 << 20)], ".", "resource_limit", "true"),
        ([], ".", "invalid_args", "argv"),
    ],
)
def test_a_program_that_cannot_be_started_is_an_error_that_names_it(mark, tmp_path, argv, cwd, code, mentioned):
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    for name, text in {"orphan": "#!/no/such/interpreter\n", "garbage": "\x01\x02"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    with pytest.raises(ToolError) as raised:
        run(argv, cwd=f"{tmp_path}/{cwd}", env=mark.env)

    assert raised.value.code == code
    assert mentioned in raised.value.message
    assert mark.alive() == []


@pytest.mark.parametrize("name", ["", "a=b"])
def test_an_invalid_variable_name_is_rejected(mark, name):
    with pytest.raises(ToolError) as raised:
        run(["true"], cwd="/", env={**mark.env, name: "x"})

    assert (raised.value.code, raised.value.message) == ("invalid_args", f"Invalid variable name: {name!r}.")


def test_relative_entries_of_path_are_not_searched(mark, tmp_path):
    (tmp_path / "planted").write_text("#!/bin/sh\n")
    (tmp_path / "planted").chmod(0o755)
    mark.env["PATH"] = f":.:{mark.env['PATH']}"

    with pytest.raises(ToolError) as raised:
        mark.run("planted")

    assert raised.value.code == "runtime_missing"


def test_a_file_size_limit_is_enforced(mark, tmp_path):
    finished = mark.run("head", "-c", "100000", "/dev/zero", limits=Limits(file_size=5000))
    assert finished.stdout.total == 100000

    finished = mark.bash("exec head -c 100000 /dev/zero > file", limits=Limits(file_size=5000))

    assert finished[:2] == (128 + signal.SIGXFSZ, "signal")
    assert (tmp_path / "file").stat().st_size == 5000


def test_a_memory_limit_is_enforced(mark):
    finished = mark.python("bytearray(1 << 30)", limits=Limits(address_space=256 << 20))

    assert finished.exit_code == 1
    assert b"MemoryError" in finished.stderr.head


# --- bytes in and out


@pytest.mark.parametrize(
    "script, echoed",
    [("cat", 3 << 20), ("head -c 10", 10), ("true", 0), ("exec <&-; echo -n done", 4)],
    ids=["reads all", "reads a little", "reads nothing", "closes it"],
)
def test_input_of_any_size_does_not_block(mark, script, echoed):
    assert mark.bash(script, stdin=bytes(3 << 20)).stdout.total == echoed


def test_standard_input_is_empty_by_default(mark):
    assert mark.run("cat")[:2] == (0, "exit")


def test_output_without_a_newline_is_kept(mark):
    assert mark.bash("printf abc").stdout.head == b"abc"


def test_a_program_that_closes_its_output_early_is_waited_for(mark, tmp_path):
    finished = mark.bash("exec >&- 2>&-; sleep 0.1; touch written; exit 7")

    assert finished.exit_code == 7
    assert (tmp_path / "written").exists()


def test_output_of_a_process_substitution_is_not_lost(mark):
    # generous: the start-up time on a loaded machine is not tested here
    finished = mark.bash("echo late > >(sleep 0.05; cat)", limits=Limits(settle=10))

    assert finished.stdout.head == b"late\n"


def test_long_output_keeps_both_ends_in_memory_and_all_of_it_in_a_private_file(mark, tmp_path):
    data = os.urandom(3 << 20)

    stdout = mark.run("cat", stdin=data, spill=tmp_path, limits=Limits(keep_bytes=1001)).stdout

    assert (stdout.head, stdout.tail) == (data[:501], data[-500:])
    assert (stdout.total, stdout.omitted) == (len(data), len(data) - 1001)
    assert stdout.spill is not None
    assert Path(stdout.spill).read_bytes() == data
    assert stat.S_IMODE(os.stat(stdout.spill).st_mode) == 0o600


def test_a_spill_file_is_created_only_when_needed(mark, tmp_path):
    requests = []

    def place() -> str:
        requests.append(tmp_path)
        return str(tmp_path)

    limits = Limits(keep_bytes=4)
    assert mark.bash("printf 1234", spill=place, limits=limits).stdout == Captured(b"1234", b"", 4)
    assert requests == []
    assert mark.bash("printf 12345", spill=place, limits=limits).stdout[:3] == (b"12", b"45", 5)
    assert requests == [tmp_path]


def test_a_spill_that_cannot_be_written_is_an_error_and_ends_the_program(mark, tmp_path):
    with pytest.raises(ToolError) as raised:
        mark.run("yes", spill=tmp_path / "missing")

    assert raised.value.code == "resource_limit"
    assert mark.alive() == []


def test_a_flood_is_stopped_at_the_limit_and_kept_up_to_it(mark, tmp_path):
    finished = mark.run("yes", spill=tmp_path, limits=Limits(max_bytes=5_000_001, keep_bytes=1000))

    assert finished[:2] == (137, "limit")
    assert finished.stdout.total == 5_000_001
    assert Path(str(finished.stdout.spill)).read_bytes() == b"y\n" * 2_500_000 + b"y"


def test_a_flood_of_200_megabytes_uses_little_memory(mark):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    finished = mark.bash("head -c 200M /dev/zero", limits=Limits(max_bytes=1 << 30))

    assert finished.stdout.total == 200 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10


def test_both_streams_share_the_output_limit(mark):
    finished = mark.bash("yes & yes >&2", limits=Limits(max_bytes=1 << 20))

    assert finished.reason == "limit"
    assert finished.stdout.total + finished.stderr.total == 1 << 20


# --- hostile programs

STUBBORN = "trap '' TERM HUP INT; while :; do sleep 300; done"
FORKS_AND_EXITS = """
import os, time
until = time.monotonic() + 30
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


@pytest.mark.parametrize(
    "script",
    [
        "sleep 300",
        STUBBORN,
        "sleep 300 & wait",
        f"setsid bash -c {STUBBORN!r} & {STUBBORN}",
        f"(setsid bash -c {STUBBORN!r} &); {STUBBORN}",
        "kill -STOP $$; sleep 300",
        f"bash -c 'kill -STOP $$; {STUBBORN}' & wait",
        "exec >&- 2>&-; sleep 300",
        "yes > /dev/null",
        f"bash -c {STUBBORN!r} & kill -9 $$; wait",
    ],
    ids=[
        "sleeps",
        "ignores SIGTERM",
        "waits for a child",
        "has a child in another session",
        "has an orphan in another session",
        "stops itself",
        "has a child that stops itself",
        "closes its output",
        "spins",
        "kills itself and leaves a child",
    ],
)
def test_nothing_is_left_after_the_timeout(mark, script):
    finished = mark.bash(f"echo begun; {script}", limits=SHORT)

    assert finished[:2] in {(124, "timeout"), (137, "signal")}
    assert finished.stdout.head == b"begun\n"


@pytest.mark.parametrize(
    "leave",
    [
        "sleep 300 &",
        "nohup sleep 300 &",
        "nohup sleep 300 > /dev/null 2>&1 & disown;",
        "setsid sleep 300 &",
        "(setsid sleep 300 &);",
        f"setsid bash -c {STUBBORN!r} &",
        "bash -c 'kill -STOP $$' &",
        "(bash -c 'sleep 300 & sleep 300 & wait' &);",
        "coproc sleep 300;",
    ],
    ids=[
        "a child that holds the pipe",
        "nohup",
        "nohup without the pipe",
        "another session",
        "a double fork",
        "another session that ignores SIGTERM",
        "a stopped child",
        "a family",
        "a coprocess",
    ],
)
def test_nothing_outlives_a_program_that_exits_by_itself(mark, leave):
    finished = mark.bash(f"{leave} echo begun; exit 5", limits=Limits(grace=0.2, settle=0.05))

    assert finished[:2] == (5, "exit")
    assert finished.stdout.head == b"begun\n"


def test_an_endless_chain_of_forks_is_ended(mark):
    assert mark.python(FORKS_AND_EXITS, limits=SHORT).reason == "exit"


def test_a_fork_bomb_under_a_limit_is_ended(mark, tmp_path):
    # the limit counts the processes of a user, and root has none
    script = """
import os, time
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
until = time.monotonic() + 60
while time.monotonic() < until:
    try:
        if os.fork() == 0 and os.getpid() % 2:
            os.setsid()
    except OSError:
        time.sleep(0.001)
"""
    owner = 65534 if os.getuid() == 0 else os.getuid()
    running = sum(1 for pid in pids() if read_owner(pid) == owner)

    finished = mark.python(script, limits=SHORT._replace(processes=running + 60))

    assert finished.reason == "timeout"


def read_owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def test_a_program_that_stops_its_guards_does_not_hang_the_call(mark):
    assert mark.bash("kill -STOP $PPID; sleep 0.05; echo on")[:3] == (0, "exit", Captured(b"on\n", b"", 3))


def test_a_program_cannot_terminate_its_warden_with_sigterm(mark):
    assert mark.bash("kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; echo on").stdout.head == b"on\n"


def test_a_program_that_kills_its_warden_dies_and_the_call_reports_it(mark):
    with pytest.raises(ToolError) as raised:
        mark.bash(f"setsid bash -c {STUBBORN!r} & (setsid sleep 300 &); kill -KILL $PPID; {STUBBORN}")

    assert raised.value.code == "internal"
    assert "bash" in raised.value.message
    wait_until(lambda: not mark.alive())
    assert mark.bash("echo on").stdout.head == b"on\n"


def test_a_program_dies_even_when_all_its_guards_are_killed(mark):
    mark.bash("true")
    [keeper_pid] = keepers_of(os.getpid())

    with pytest.raises(ToolError) as raised:
        mark.bash(f"sleep 300 & kill -KILL {keeper_pid} $PPID; {STUBBORN}")

    assert raised.value.code == "internal"
    wait_until(lambda: not mark.alive())
    assert mark.bash("echo on").stdout.head == b"on\n"


# --- cancellation, threads, the keeper


def test_cancellation_ends_the_program(mark, tmp_path):
    cancelled = threading.Event()

    def cancel_when_running() -> None:
        wait_until((tmp_path / "running").exists)
        cancelled.set()

    canceller = threading.Thread(target=cancel_when_running)
    canceller.start()
    finished = mark.bash("(setsid sleep 300 &); echo begun; touch running; sleep 300", cancelled=cancelled)
    canceller.join()

    assert finished[:2] == (130, "cancelled")
    assert finished.stdout.head == b"begun\n"


def test_a_call_cancelled_before_it_starts_ends_at_once(mark):
    cancelled = threading.Event()
    cancelled.set()

    assert mark.bash("sleep 300", cancelled=cancelled).reason == "cancelled"


def test_many_threads_run_programs_at_once_and_each_gets_its_own_output(mark):
    def call(number: int) -> bytes:
        return run(["bash", "-c", f"(setsid sleep 300 &); echo {number}"], cwd="/", env=mark.env).stdout.head

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(call, range(64)))

    assert answers == [f"{number}\n".encode() for number in range(64)]
    assert mark.alive() == []
    assert len(keepers_of(os.getpid())) == 1


def test_ending_one_program_does_not_end_the_strays_of_another(mark, tmp_path):
    other = Mark(tmp_path)
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.bash, "(setsid sleep 300 &); touch running; read word < gate; echo $word")
        wait_until((tmp_path / "running").exists)
        wait_until(lambda: len(other.alive()) == 2)
        mark.bash("(setsid sleep 300 &); sleep 300", limits=SHORT)
        assert len(other.alive()) == 2
        gate.write_text("opened\n")

        assert waiting.result().stdout.head == b"opened\n"


def test_a_keeper_that_was_killed_is_replaced_and_running_calls_finish(mark, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mark.bash, "(setsid sleep 300 &); read word < gate; echo $word")
        wait_until(lambda: len(mark.alive()) == 2)
        [keeper_pid] = keepers_of(os.getpid())
        os.kill(keeper_pid, signal.SIGKILL)
        assert run(["echo", "on"], cwd="/", env={"PATH": mark.env["PATH"]}).stdout.head == b"on\n"
        assert keepers_of(os.getpid()) != [keeper_pid]
        gate.write_text("opened\n")

        assert waiting.result().stdout.head == b"opened\n"


def test_a_stopped_keeper_is_replaced_by_the_next_call_that_needs_it(mark, monkeypatch):
    ours = wardens.Wardens(patience=0.5)
    monkeypatch.setattr(spawning, "WARDENS", ours)
    mark.bash("true")
    ours.patience = HANG_SECONDS
    stopped = ours._pid
    os.kill(stopped, signal.SIGSTOP)

    # the first uses the warden that was ready; the second waits in vain for a new one
    assert [mark.bash(f"echo {word}").stdout.head for word in ("one", "two")] == [b"one\n", b"two\n"]
    assert stopped not in keepers_of(os.getpid())
    ours._bury()


def test_a_waiting_warden_that_was_killed_is_replaced(mark):
    mark.bash("true")
    [keeper_pid] = keepers_of(os.getpid())
    wait_until(lambda: children_of(keeper_pid) and children_of(children_of(keeper_pid)[0]))
    [warden] = children_of(keeper_pid)
    [waiting] = children_of(warden)
    os.kill(warden, signal.SIGKILL)
    wait_until(lambda: not read(f"/proc/{waiting}/cmdline"))

    assert mark.bash("echo on").stdout.head == b"on\n"


# --- confined programs


def test_a_confined_program_follows_its_prefix_and_inherits_descriptors_from_three_on(mark, tmp_path):
    texts = []
    for word in ("one", "two"):
        (tmp_path / word).write_text(word)
        texts.append(os.open(tmp_path / word, os.O_RDONLY))
    confined = Launch(("env", "ADDED=yes"), descriptors=tuple(reversed(texts)))

    finished = mark.bash("cat <&3; cat <&4; echo $ADDED; ls /proc/self/fd | wc -l", confined=confined)

    # the four of ls are its three streams and the folder it lists; the others come before it
    assert finished.stdout.head == b"twooneyes\n6\n"
    for text in texts:
        os.close(text)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")
def test_namespaces_are_entered_before_the_program_runs(mark):
    if subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    with subprocess.Popen(["unshare", "-U", "-u", "-r", "cat"], stdin=subprocess.PIPE) as holder:
        own = os.readlink("/proc/self/ns/uts")
        wait_until(lambda: os.readlink(f"/proc/{holder.pid}/ns/uts") != own)
        wait_until(lambda: read(f"/proc/{holder.pid}/uid_map").strip())
        namespaces = [os.open(f"/proc/{holder.pid}/ns/{name}", os.O_RDONLY) for name in ("user", "uts")]

        finished = mark.bash("readlink /proc/self/ns/uts", confined=Launch(steps=StartSteps(tuple(namespaces))))

        assert finished.stdout.head.decode().strip() == os.readlink(f"/proc/{holder.pid}/ns/uts")
        for namespace in namespaces:
            os.close(namespace)
        holder.kill()


def test_an_invalid_namespace_or_ruleset_prevents_the_start(mark):
    null = os.open("/dev/null", os.O_RDONLY)

    with pytest.raises(ToolError) as raised:
        mark.bash("echo ran", confined=Launch(steps=StartSteps((null,))))

    assert raised.value.code == "sandbox_unavailable"
    with pytest.raises(ToolError) as raised:
        mark.bash("echo ran", confined=Launch(steps=StartSteps(ruleset=null)))
    assert raised.value.code == "sandbox_unavailable"
    os.close(null)


def _read_terminal(terminal: int) -> Iterator[bytes]:
    """Yield the output on a terminal whose other side is closed; it may come in several parts."""
    with suppress(OSError):  # end of file on a terminal
        while part := os.read(terminal, 4096):
            yield part


def test_a_program_on_a_terminal_controls_it(mark, tmp_path):
    ours, theirs = os.openpty()
    with start(
        ["bash", "-c", "tty >&2; ps -o tty= -p $$ | grep -c pts; read -r word; echo got $word"],
        cwd=tmp_path,
        env=mark.env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        tty=True,
    ) as child:
        os.close(theirs)
        os.write(ours, b"hello\n")
        child.wait(20)
        printed = b"".join(_read_terminal(ours))
    os.close(ours)

    assert b"got hello" in printed
    assert b"1\r\n" in printed


HILT = """
import os, signal, sys
from hilt.sandbox.capturing import run
if sys.argv[2] == "fork":
    run(["true"], cwd="/", env=dict(os.environ))
    if os.fork() == 0:
        signal.pause()
run(["bash", "-c", sys.argv[1]], cwd="/", env=dict(os.environ))
"""


@pytest.mark.parametrize("fork", [False, True], ids=["alone", "with a fork of itself"])
def test_nothing_is_left_when_hilt_is_killed(mark, fork):
    script = f"setsid bash -c {STUBBORN!r} & (setsid sleep 300 &); {STUBBORN}"
    source = Path(spawning.__file__).parents[2]
    hilt = subprocess.Popen(
        [sys.executable, "-c", HILT, script, "fork" if fork else "alone"],
        env={"PATH": mark.env["PATH"], "PYTHONPATH": str(source), "MARK": mark.name},
    )
    # two stubborn shells with a sleep each, the sleep of the double fork, hilt itself
    expected = 6 + fork
    wait_until(lambda: len(mark.alive()) == expected)
    [keeper_pid] = keepers_of(hilt.pid)
    forks = [pid for pid in children_of(hilt.pid) if pid != keeper_pid]

    hilt.kill()
    hilt.wait()

    wait_until(lambda: mark.alive() == forks)
    wait_until(lambda: not read(f"/proc/{keeper_pid}/cmdline"))
    for pid in forks:
        os.kill(pid, signal.SIGKILL)


# --- a process that keeps running


def test_a_started_program_can_be_polled_waited_for_and_terminated(mark, tmp_path):
    with open(os.devnull, "r+b", buffering=0) as null, open(tmp_path / "out", "wb") as out:
        child = start(
            ["bash", "-c", "trap 'echo bye; exit 4' TERM; echo $$; while :; do sleep 0.01; done"],
            cwd=tmp_path,
            env=mark.env,
            stdin=null.fileno(),
            stdout=out.fileno(),
            stderr=null.fileno(),
        )
    wait_until((tmp_path / "out").read_bytes)

    assert (child.poll(), child.wait(0.01)) == (None, None)
    child.terminate()
    assert child.wait(HANG_SECONDS) == child.poll() == Exit("exit", 4)
    assert (tmp_path / "out").read_text() == f"{child.pid}\nbye\n"
    assert mark.alive() == []
    child.close()


@pytest.mark.parametrize("end", ["kill", "close", "lose"])
def test_a_started_program_ends_with_its_descendants_when_it_is_killed_closed_or_lost(mark, tmp_path, end):
    with open(os.devnull, "r+b", buffering=0) as null:
        fd = null.fileno()
        child = start(
            ["bash", "-c", f"(setsid sleep 300 &); {STUBBORN}"],
            cwd=tmp_path,
            env=mark.env,
            stdin=fd,
            stdout=fd,
            stderr=fd,
        )
    wait_until(lambda: len(mark.alive()) == 3)

    if end == "kill":
        child.kill()
        assert child.wait(HANG_SECONDS) == Exit("signal", 137)
        child.close()
    elif end == "close":
        child.close()
    else:
        os.close(child._channel.detach())

    wait_until(lambda: not mark.alive())


# --- without sub-reapers, as on macOS


def test_without_sub_reapers_groups_and_parents_are_followed(mark, monkeypatch):
    launch = wardens._LAUNCH.replace("keeper.main", "keeper._SUB_REAPER = False; keeper.main")
    assert launch != wardens._LAUNCH
    monkeypatch.setattr(spawning, "WARDENS", fresh := wardens.Wardens(launch=launch))

    assert mark.bash("sleep 300 & nohup sleep 300 & echo on").stdout.head == b"on\n"
    assert mark.bash(f"setsid bash -c {STUBBORN!r} & {STUBBORN}", limits=SHORT).reason == "timeout"
    assert mark.bash("kill -STOP $$", limits=SHORT).reason == "timeout"

    fresh._close()


def test_ps_and_proc_list_the_same_processes():
    own = (os.getpid(), os.getppid(), os.getpgrp())

    assert own in [row[:3] for row in keeper._processes()]
    assert own in [row[:3] for row in keeper._processes_by_ps()]


# --- cost


def test_importing_starts_nothing_and_loads_nothing_heavy():
    script = f"""
import sys
sys.path.insert(0, {str(Path(spawning.__file__).parents[2])!r})
import hilt.sandbox.capturing
print(sorted({{"asyncio", "subprocess", "socket", "selectors", "tempfile", "ctypes", "resource"}} & set(sys.modules)))
print(open("/proc/thread-self/children").read())
"""
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)

    assert answer.stdout == "[]\n\n"


@pytest.mark.skipif(sys.platform != "linux", reason="wrappers are recognized on Linux only")
def test_a_timeout_signals_the_confined_program_and_not_its_wrapper(mark):
    outer = "trap 'echo outer was told' TERM; \"$@\"; echo outer saw $?"
    confined = Launch(("bash", "-c", outer, "outer"), shielding=True)

    finished = mark.run("sleep", "300", limits=Limits(timeout=0.5, grace=20), confined=confined)

    assert (finished.reason, finished.stdout.head) == ("timeout", b"outer saw 143\n")
