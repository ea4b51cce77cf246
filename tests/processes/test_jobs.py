"""Real jobs only. Every process has a mark, so that leftover processes can be found."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.output.printed import SHOWN_CHARACTERS, plain
from hilt.processes import jobs as module
from hilt.processes.jobs import Job, JobOutput, Jobs, JobState
from hilt.sandbox import spawning
from hilt.sandbox.spawning import Child, Limits
from tests.marks import HANG_SECONDS, STUBBORN, Mark, read, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


class Bench:
    """Jobs in a separate folder, and the commands to run as jobs."""

    def __init__(self, base: Path, **options: Any) -> None:
        self.mark = Mark()
        self.base = base
        self.output = base / "output"
        self.output.mkdir(exist_ok=True)
        self.jobs = Jobs(folder=lambda session: str(self.output), **options)

    def begin(self, script: str, *, tty: bool = False) -> Callable[[int, int, int], Child]:
        def begin(stdin: int, stdout: int, stderr: int) -> Child:
            return spawning.start(
                ["bash", "-c", script],
                cwd=self.base,
                env=self.mark.env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                limits=Limits(timeout=None, grace=0.2, settle=0.05),
                tty=tty,
            )

        return begin

    def start(self, script: str, session: str = "s", *, tty: bool = False, **options: Any) -> Job:
        return self.jobs.start(session, script, self.begin(script, tty=tty), tty=tty, **options)

    def read(self, job: Job, *, block: bool = True, new: bool = False) -> JobOutput:
        return self.jobs.output(job.session, job.id, fence=Fence(), block=block, seconds=HANG_SECONDS, new=new)

    def run(self, script: str, **options: Any) -> JobOutput:
        return self.read(self.start(script, **options))

    def state(self, job: Job) -> JobState:
        return next(state for state in self.jobs.list(job.session) if state.job == job)

    def wait_for(self, job: Job, size: int) -> None:
        """Wait until a job has written this many bytes."""
        wait_until(lambda: self.state(job).output_bytes >= size)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield from benches(tmp_path)


def benches(base: Path, **options: Any) -> Iterator[Bench]:
    bench = Bench(base, **options)
    yield bench
    bench.jobs.close()
    assert bench.mark.alive() == []


# --- how a job ends


@pytest.mark.parametrize(
    "script, status, exit_code",
    [
        ("true", "completed", 0),
        ("exit 3", "failed", 3),
        ("kill -SEGV $$", "failed", 139),
        ("no-such-program", "failed", 127),
    ],
)
def test_status_and_exit_code_report_how_a_job_ended(bench, script, status, exit_code):
    assert bench.run(script).state[1:3] == (status, exit_code)


def test_a_read_without_waiting_returns_at_once(bench):
    job = bench.start("echo begun; sleep 300")
    bench.wait_for(job, 6)

    answer = bench.read(job, block=False)

    assert answer.state[1:3] == ("running", None)
    assert answer.text == "begun\n"


def test_a_wait_times_out_and_the_job_continues(bench):
    job = bench.start("sleep 300")

    answer = bench.jobs.output("s", job.id, fence=Fence(), seconds=0.05)

    assert answer.state.status == "running"
    assert bench.jobs.busy


@pytest.mark.parametrize("when", ["before", "while waiting"])
def test_a_wait_ends_at_once_when_the_call_is_cancelled(bench, when):
    job = bench.start("sleep 300")
    fence = Fence()
    timer = threading.Timer(0 if when == "before" else 0.1, fence.cancel, [ToolError("cancelled", "no more")])
    timer.start()
    if when == "before":
        timer.join()

    with pytest.raises(ToolError) as raised:
        bench.jobs.output("s", job.id, fence=fence, seconds=HANG_SECONDS)

    timer.join()
    assert raised.value.code == "cancelled"
    assert bench.state(job).status == "running"


@pytest.mark.parametrize("script", ["sleep 300", STUBBORN, f"(setsid bash -c {STUBBORN!r} &); sleep 300"])
def test_a_stopped_job_leaves_nothing(bench, script):
    job = bench.start(f"echo begun; {script}")
    bench.wait_for(job, 6)

    state = bench.jobs.stop("s", job.id)

    assert state.status == "stopped"
    assert state.exit_code in (137, 143)
    assert state.reason == "it was asked to stop"
    assert bench.mark.alive() == []
    assert bench.read(job).text == "begun\n"
    assert bench.jobs.stop("s", job.id) == state


def test_a_job_that_ended_by_itself_is_not_reported_as_stopped(bench):
    job = bench.start("exit 3")
    bench.read(job)

    assert bench.jobs.stop("s", job.id)[1:3] == ("failed", 3)


def test_a_job_can_clean_up_when_it_is_stopped(bench):
    job = bench.start("trap 'echo bye; exit 0' TERM; echo begun; while :; do sleep 0.01; done")
    bench.wait_for(job, 6)

    assert bench.jobs.stop("s", job.id)[1:3] == ("stopped", 0)
    assert bench.read(job).text.endswith("bye\n")


def test_a_job_ends_at_its_own_timeout(bench):
    answer = bench.run("echo begun; sleep 300", timeout=0.3)

    assert answer.state[1:3] == ("timeout", 124)
    assert answer.state.reason == "it timed out"
    assert answer.text == "begun\n"


def test_leftover_processes_end_with_their_job(bench):
    answer = bench.run("nohup sleep 300 & (setsid sleep 300 &); echo begun")

    assert answer.state.status == "completed"
    assert bench.mark.alive() == []


def test_a_job_that_closes_its_output_continues(bench):
    answer = bench.run("echo begun; exec >&- 2>&-; sleep 0.2; exit 7")

    assert answer.state.exit_code == 7
    assert answer.text == "begun\n"


def test_a_job_whose_guard_is_killed_fails_and_the_others_continue(bench):
    other = bench.start("sleep 300")

    answer = bench.run(f"echo begun; kill -KILL $PPID; {STUBBORN}")

    assert answer.state[1:3] == ("failed", None)
    assert "bash was killed" in answer.state.reason
    assert bench.state(other).status == "running"
    assert bench.run("echo on").text == "on\n"


# --- output


def test_both_streams_come_in_the_order_of_arrival(bench):
    assert bench.run("for i in 1 2; do echo out$i; echo err$i >&2; done").text == "out1\nerr1\nout2\nerr2\n"


def test_a_job_does_not_block_when_nobody_reads_its_output(bench):
    job = bench.start("head -c 5000000 /dev/zero | tr '\\0' x")
    wait_until(lambda: not bench.jobs.busy)

    assert bench.state(job)[1:3] == ("completed", 0)
    assert bench.state(job).output_bytes == 5_000_000


def test_the_file_holds_every_byte_and_is_private(bench):
    answer = bench.run(r"printf 'a\xff\xe2\x82\xacb\x1b[31mred\x1b[0m\r\n\0'")

    file = Path(answer.state.job.output_file)
    assert file.read_bytes() == b"a\xff\xe2\x82\xacb\x1b[31mred\x1b[0m\r\n\0"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert answer.raw == "a\ufffd€b\x1b[31mred\x1b[0m\r\n\0"
    assert answer.text == "a\ufffd€bred\n"


@pytest.mark.parametrize(
    "first, second",
    [
        (b"one\n", b"two\n"),
        (b"\xe2\x82", b"\xac"),
        (b"\xf0", b"\x9f\x98\x80"),
        (b"a\x1b", b"[31mred"),
        (b"a\x1b[3", b"1mred\x1b[0m"),
        (b"a\x1b]0;tit", b"le\x07b"),
        (b"a\r", b"\nb"),
        (b"\xff\xff", b"\xff"),
        (b"a\x80", b"b"),
    ],
)
def test_consecutive_reads_join_to_the_whole_output_wherever_they_are_cut(bench, first, second):
    os.mkfifo(bench.base / "first")
    os.mkfifo(bench.base / "second")
    job = bench.start("cat first; cat second")
    (bench.base / "first").write_bytes(first)
    bench.wait_for(job, len(first))

    parts = [bench.read(job, block=False, new=True).text, bench.read(job, block=False, new=True).text]
    (bench.base / "second").write_bytes(second)
    parts += [bench.read(job, new=True).text, bench.read(job, new=True).text]

    whole = bench.read(job).text
    assert "".join(parts) == whole == plain((first + second).decode("utf-8", "replace"))
    assert (parts[1], parts[3]) == ("", "")


def test_long_output_shows_both_ends_and_names_the_file_with_all_of_it(bench):
    job = bench.start("seq 1 100000")
    answer = bench.read(job)

    lines = answer.text.splitlines()
    assert answer.truncated
    assert len(answer.text) <= SHOWN_CHARACTERS
    assert (lines[0], lines[-2]) == ("1", "100000")
    gap, note = (line for line in lines if not line.isdigit())
    assert job.output_file in note
    assert note == lines[-1]
    numbers = [int(line) for line in lines if line.isdigit()]
    assert len(numbers) > 5000
    # no line is cut, and more of the end than of the beginning is shown
    assert sum(1 for before, after in pairwise(numbers) if after != before + 1) == 1
    assert numbers.index(numbers[lines.index(gap)]) < len(numbers) / 2


@pytest.mark.parametrize(
    "script, size",
    [
        ("head -c 50000 /dev/zero | tr '\\0' x", 50_000),
        ("head -c 50001 /dev/zero | tr '\\0' x", 50_001),
        ("head -c 900000 /dev/zero | tr '\\0' x", 900_000),
        ("yes € | tr -d '\\n' | head -c 900001", 900_001),
    ],
    ids=["as much as fits", "one more", "one long line", "characters of three bytes"],
)
def test_output_without_newlines_is_bounded_too(bench, script, size):
    answer = bench.run(script)

    assert answer.state.output_bytes == size
    assert answer.truncated == (size > SHOWN_CHARACTERS)
    assert len(answer.text) <= SHOWN_CHARACTERS
    assert len(answer.text) > 40_000
    text = answer.text.rpartition("\n")[0] if answer.truncated else answer.text
    assert "\ufffd" not in text[:-1]


def test_a_flood_ends_the_job_and_output_up_to_the_limit_is_kept(tmp_path):
    for bench in benches(tmp_path, output_bytes=100_001):
        answer = bench.run("yes")

        assert answer.state[1:3] == ("limit", 137)
        assert "100001 bytes" in answer.state.reason
        assert Path(answer.state.job.output_file).read_bytes() == b"y\n" * 50_000 + b"y"


def test_output_of_exactly_the_limit_is_not_a_flood(tmp_path):
    for bench in benches(tmp_path, output_bytes=100_000):
        assert bench.run("yes | head -c 100000").state.status == "completed"


FULL = """
import resource, sys
from pathlib import Path
from tests.processes.test_jobs import Bench
bench = Bench(Path(sys.argv[1]))
bench.run("true")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
state = bench.run("yes").state
print(state.status, state.exit_code, state.output_bytes, state.reason)
"""


def test_a_job_ends_when_the_disk_is_full(bench):
    answer = run_script(FULL, bench)

    assert answer.communicate()[0] == b"limit 137 1000 its output could not be saved: File too large\n"


def run_script(script: str, bench: Bench) -> subprocess.Popen[bytes]:
    """Run jobs in a separate process, with the mark of this one."""
    return subprocess.Popen(
        [sys.executable, "-c", script, str(bench.base), bench.mark.name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )


def test_deleted_output_is_reported(bench):
    job = bench.start("echo text")
    bench.read(job)
    os.unlink(job.output_file)

    answer = bench.read(job)

    assert answer.state[1:3] == ("completed", 0)
    assert "deleted" in answer.text


def test_the_output_of_a_running_job_is_readable_after_its_file_is_removed(bench):
    job = bench.start("echo text; sleep 300")
    bench.wait_for(job, 5)
    os.unlink(job.output_file)

    assert bench.read(job, block=False).text == "text\n"


# --- owners and limits


def test_jobs_belong_to_their_session(bench):
    job = bench.start("sleep 300", session="one")

    for call in (
        lambda: bench.jobs.output("two", job.id, fence=Fence()),
        lambda: bench.jobs.stop("two", job.id),
        lambda: bench.jobs.write("two", job.id, b""),
        lambda: bench.jobs.stop("one", "job_000000x"),
    ):
        with pytest.raises(ToolError) as raised:
            call()
        assert raised.value.code == "not_found"
    assert [state.job for state in bench.jobs.list("one")] == [job]
    assert bench.jobs.list("two") == []
    assert bench.state(job).status == "running"


def test_jobs_end_with_their_session_and_are_forgotten(bench):
    ended, running = bench.start("true", session="one"), bench.start(STUBBORN, session="one")
    bench.read(ended)
    other = bench.start("sleep 300", session="two")

    assert bench.jobs.end_session("one") == 1

    assert bench.jobs.list("one") == []
    with pytest.raises(ToolError):
        bench.read(running)
    assert bench.state(other).status == "running"
    assert bench.jobs.end_session("one") == 0


def test_jobs_of_an_idle_session_end(bench):
    idle, used = bench.start("sleep 300", session="idle"), bench.start("sleep 300", session="used")
    wait_until(lambda: bench.state(idle).seconds > 0.2)
    bench.jobs.touch("used")

    bench.jobs.end_idle(0.1)

    assert bench.jobs.list("idle") == []
    assert bench.state(used).status == "running"
    assert bench.jobs.running == 1


def test_a_wait_returns_when_the_session_of_the_job_ends(bench):
    job = bench.start("sleep 300")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bench.read, job)
        wait_until(lambda: bench.jobs._changed._waiters)
        bench.jobs.end_session("s")

        assert waiting.result(HANG_SECONDS).state[1:3] == ("stopped", 143)


def test_sixty_four_jobs_run_at_once(bench):
    started = [bench.start(f"echo {number}; sleep 300") for number in range(64)]
    for job in started:
        bench.wait_for(job, 2)

    assert [bench.read(job, block=False).text for job in started] == [f"{number}\n" for number in range(64)]
    assert {state.status for state in bench.jobs.list("s")} == {"running"}
    assert len({job.id for job in started}) == 64
    bench.jobs.close()
    assert {state.status for state in bench.jobs.list("s")} == {"stopped"}
    assert bench.mark.alive() == []


def test_more_jobs_than_may_run_are_refused_until_one_ends(tmp_path):
    for bench in benches(tmp_path, limit=2):
        first, _ = bench.start("sleep 300"), bench.start("sleep 300")
        resources = ExitStack()
        closed: list[bool] = []
        resources.callback(closed.append, True)

        with pytest.raises(ToolError) as raised:
            bench.start("sleep 300", resources=resources)

        assert (raised.value.code, raised.value.details) == ("limit_exceeded", {"limit": 2})
        assert closed == [True]
        bench.jobs.stop("s", first.id)
        bench.start("sleep 300")


def test_only_the_newest_ended_jobs_stay_listed(tmp_path):
    for bench in benches(tmp_path, ended_limit=2):
        running = bench.start("sleep 300")
        ended = [bench.start("true") for _ in range(4)]
        wait_until(lambda: sum(state.status == "running" for state in bench.jobs.list("s")) == 1)  # noqa: B023
        last = bench.start("true")

        names = [state.job for state in bench.jobs.list("s")]

        assert names == [running, ended[-1], last]


def test_jobs_are_started_and_ended_from_many_threads(bench):
    def work(number: int) -> str:
        session = f"session {number % 4}"
        answers = [bench.run(f"echo {number}.{turn}", session=session).text for turn in range(3)]
        job = bench.start("sleep 300", session=session)
        assert bench.jobs.stop(session, job.id).status == "stopped"
        return "".join(answers)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(work, range(16)))

    assert answers == [f"{number}.0\n{number}.1\n{number}.2\n" for number in range(16)]
    assert not bench.jobs.busy


def test_only_the_output_of_ended_jobs_is_left(bench):
    bench.run("true")
    wait_until(lambda: "hilt-jobs" not in names_of_threads())
    before = set(os.listdir("/proc/self/fd"))

    for tty in (False, True, False):
        bench.run("echo text", tty=tty)

    wait_until(lambda: "hilt-jobs" not in names_of_threads())
    assert set(os.listdir("/proc/self/fd")) <= before  # threads of earlier tests may close theirs


def names_of_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


# --- starting and closing


def test_a_job_that_cannot_be_started_leaves_nothing(bench):
    resources = ExitStack()
    closed: list[bool] = []
    resources.callback(closed.append, True)

    def begin(stdin: int, stdout: int, stderr: int) -> Child:
        return spawning.start(
            ["no-such-program"], cwd=bench.base, env=bench.mark.env, stdin=stdin, stdout=stdout, stderr=stderr
        )

    with pytest.raises(ToolError) as raised:
        bench.jobs.start("s", "no-such-program", begin, resources=resources)

    assert raised.value.code == "runtime_missing"
    assert closed == [True]
    assert bench.jobs.list("s") == []
    assert os.listdir(bench.output) == []
    assert not bench.jobs.busy


def test_a_job_whose_output_cannot_be_saved_is_not_started(bench):
    bench.output.rmdir()
    bench.output.write_text("a file is in the way")

    with pytest.raises(ToolError) as raised:
        bench.start("sleep 300")

    assert raised.value.code == "resource_limit"
    assert bench.mark.alive() == []


def test_the_resources_of_a_job_are_released_when_all_its_processes_have_ended(bench):
    resources = ExitStack()
    alive: list[list[int]] = []
    resources.callback(lambda: alive.append(bench.mark.alive()))
    job = bench.start(f"(setsid sleep 300 &); {STUBBORN}", resources=resources)
    wait_until(bench.mark.alive)
    assert alive == []

    bench.jobs.stop("s", job.id)

    assert alive == [[]]


def test_an_error_while_releasing_one_job_does_not_affect_the_others(bench):
    resources = ExitStack()
    resources.callback(lambda: 1 // 0)
    other = bench.start("sleep 300")

    answer = bench.run("echo text", resources=resources)

    assert answer.state.status == "failed"
    assert "ZeroDivisionError" in answer.state.reason
    assert bench.run("echo on").text == "on\n"
    assert bench.state(other).status == "running"


def test_closing_ends_all_jobs_and_no_more_are_started(bench):
    bench.start(STUBBORN, session="one")
    bench.start(f"(setsid bash -c {STUBBORN!r} &); sleep 300", session="two")

    bench.jobs.close()

    assert bench.mark.alive() == []
    assert not bench.jobs.busy
    with pytest.raises(ToolError) as raised:
        bench.start("true")
    assert raised.value.code == "cancelled"
    bench.jobs.close()


def test_a_job_started_during_closing_is_ended(bench: Bench) -> None:
    begun, closing = threading.Event(), threading.Event()

    def begin(stdin: int, stdout: int, stderr: int) -> Child:
        child = bench.begin("sleep 300")(stdin, stdout, stderr)
        begun.set()
        closing.wait(HANG_SECONDS)
        return child

    with ThreadPoolExecutor(2) as pool:
        starting = pool.submit(bench.jobs.start, "s", "sleep 300", begin)
        begun.wait(HANG_SECONDS)
        closed = pool.submit(bench.jobs.close)
        wait_until(lambda: bench.jobs._closed)
        closing.set()

        with pytest.raises(ToolError) as raised:
            starting.result(HANG_SECONDS)
        closed.result(HANG_SECONDS)
    assert raised.value.code == "cancelled"
    assert bench.mark.alive() == []
    assert os.listdir(bench.output) == []


KILLED = """
import os, sys, time
from tests.processes.test_jobs import Bench, STUBBORN
from pathlib import Path
bench = Bench(Path(sys.argv[1]))
bench.mark.env["MARK"] = sys.argv[2]
for script in (STUBBORN, f"(setsid bash -c {STUBBORN!r} &); sleep 300", "nohup sleep 300"):
    bench.start(script)
print("started", flush=True)
time.sleep(300)
"""


def test_no_job_is_left_when_hilt_is_killed(bench):
    hilt = run_script(KILLED, bench)
    assert hilt.stdout is not None
    assert hilt.stdout.readline() == b"started\n"
    wait_until(lambda: len(bench.mark.alive()) >= 6)

    hilt.kill()
    hilt.communicate()

    wait_until(lambda: not bench.mark.alive())


def test_importing_starts_nothing_and_loads_nothing_heavy():
    script = f"""
import sys
sys.path.insert(0, {str(Path(module.__file__).parents[2])!r})
import hilt.processes.jobs
print(sorted({{"asyncio", "subprocess", "termios", "tty", "pty", "hilt.sandbox.spawning"}} & set(sys.modules)))
"""
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)

    assert answer.stdout == "[]\n"


# --- terminals


def test_a_job_on_a_terminal_sees_one_and_reads_what_is_typed(bench):
    job = bench.start('test -t 0 && test -t 1 && tty && stty size && read line && echo "got $line"', tty=True)

    bench.jobs.write("s", job.id, b"some text\r")

    answer = bench.read(job)
    assert answer.state[1:3] == ("completed", 0)
    lines = answer.text.splitlines()
    assert lines[-1] == "got some text"
    assert "40 120" in lines
    assert any(line.startswith("/dev/") for line in lines)


def test_control_keys_reach_a_job_on_a_terminal(bench):
    job = bench.start("echo begun; sleep 300", tty=True)
    bench.wait_for(job, 7)

    bench.jobs.write("s", job.id, b"\x03")

    assert bench.read(job).state[1:3] == ("failed", 128 + signal.SIGINT)


def test_the_last_output_on_a_terminal_is_not_lost(bench):
    answer = bench.run("seq 1 20000; printf last", tty=True)

    assert answer.state.status == "completed"
    assert answer.text.rpartition("\n[")[0].endswith("20000\nlast")


def test_a_job_that_closes_its_terminal_continues(bench):
    answer = bench.run("exec <&- >&- 2>&-; sleep 0.1; echo back > /dev/tty; exit 4", tty=True)

    assert answer.state.exit_code == 4
    assert answer.text == "back\n"


def test_only_a_job_on_a_terminal_can_be_typed_into(bench):
    job = bench.start("sleep 300")

    with pytest.raises(ToolError) as raised:
        bench.jobs.write("s", job.id, b"text")

    assert raised.value.code == "invalid_args"
    assert "tty: true" in raised.value.suggestion


def test_a_job_that_ended_takes_no_input(bench):
    job = bench.start("true", tty=True)
    bench.read(job)

    with pytest.raises(ToolError) as raised:
        bench.jobs.write("s", job.id, b"text")

    assert (raised.value.code, "completed" in raised.value.message) == ("not_found", True)


def test_input_that_a_job_does_not_read_is_bounded(bench):
    job = bench.start("stty raw -echo; echo begun; sleep 300", tty=True)
    bench.wait_for(job, 6)

    def write_much() -> None:
        for _ in range(1000):
            bench.jobs.write("s", job.id, b"x" * 10_000)

    with pytest.raises(ToolError) as raised:
        write_much()

    assert raised.value.code == "busy"
    assert bench.jobs.stop("s", job.id).status == "stopped"


def test_nothing_is_left_of_a_stubborn_job_on_a_terminal(bench):
    job = bench.start(f"(setsid bash -c {STUBBORN!r} &); echo begun; {STUBBORN}", tty=True)
    bench.wait_for(job, 6)

    assert bench.jobs.stop("s", job.id).status == "stopped"
    assert bench.mark.alive() == []
    assert read(job.output_file) == b"begun\r\n"
