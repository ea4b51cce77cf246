"""A pytest plugin that runs the tests in forks of the process that collected them.

    python -m pytest -p tests.parallel --processes 4

Collecting all tests takes 12 s of CPU; here it happens once, not once in each process. A test whose process dies has
failed, and another fork runs the remaining ones.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import NoReturn

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=0, help="Run the tests in this many forks.")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect tests without garbage collection: all of them stay alive."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forks; with no --processes, leave them to pytest."""
    count = session.config.option.processes
    if not count or not session.items or session.testsfailed or session.config.option.collectonly:
        return None
    assert threading.active_count() == 1, "a fork would have none of the other threads"
    commands = sys.modules.get("tests.surfaces.commands")
    if commands is not None:  # one server for all forks
        commands.fork_server(commands.own_mounts())
    with forks(session, count) as forked:
        forked.run()
    return True


@dataclass
class Fork:
    """A process that runs tests, and the indexes of its unfinished tests."""

    pid: int
    tests: deque[int]


@contextmanager
def forks(session: pytest.Session, count: int) -> Iterator[Forks]:
    """Yield forks that end with this context: after their tests, or after their next report."""
    forked = Forks(session, count)
    try:
        yield forked
    finally:
        for connection, fork in forked.running.items():
            connection.close()
            os.waitpid(fork.pid, 0)


class Forks:
    """The processes, and the tests that are not yet assigned."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self.session = session
        self.count = count
        self.waiting = deque(range(len(session.items)))
        self.running: dict[Connection, Fork] = {}
        self.started = 0
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # made once, before all forks

    def run(self) -> None:
        """Run all tests, or stop early if the options say so."""
        for _ in range(self.count):
            self.start()
        while self.running:
            for connection in wait(list(self.running)):
                assert isinstance(connection, Connection)
                self.receive(connection, self.running[connection])
                if self.session.shouldfail:
                    raise self.session.Failed(self.session.shouldfail)
                if self.session.shouldstop:
                    raise self.session.Interrupted(self.session.shouldstop)

    def start(self) -> None:
        ours, theirs = Pipe()
        self.started += 1
        pid = os.fork()
        if not pid:
            for connection in (ours, *self.running):
                connection.close()
            work(self.session, theirs, self.started)
        theirs.close()
        self.running[ours] = Fork(pid, deque())

    def receive(self, connection: Connection, fork: Fork) -> None:
        """Send tests, or forward a report; a closed connection means that the fork has ended."""
        hook = self.session.config.hook
        try:
            message = connection.recv()
        except (EOFError, OSError):
            self.ended(connection, fork)
            return
        if message is None:
            tests = self.next_tests()
            fork.tests.extend(tests)
            with suppress(OSError):  # if it has died, the next `recv` fails
                connection.send(tests)
            return
        report = hook.pytest_report_from_serializable(config=self.session.config, data=message)
        hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            fork.tests.popleft()
            hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def next_tests(self) -> list[int]:
        """Return consecutive tests: many at first, then fewer, and the rest of a module if it is short."""
        if not self.waiting:
            return []
        size = max(1, len(self.waiting) // (4 * self.count))
        tests = [self.waiting.popleft()]
        items = self.session.items
        while self.waiting and (
            len(tests) < size or (len(tests) < 2 * size and items[self.waiting[0]].path == items[tests[-1]].path)
        ):
            tests.append(self.waiting.popleft())
        return tests

    def ended(self, connection: Connection, fork: Fork) -> None:
        """Report the test in which a fork died, and start another fork for its remaining tests."""
        connection.close()
        del self.running[connection]
        status = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        if not fork.tests:
            assert status == 0, f"a fork ended with status {status} after its tests"
            return
        item = self.session.items[fork.tests.popleft()]
        text = f"The process that ran this test ended with status {status}."
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self.session.config.hook.pytest_runtest_logreport(report=report)
        self.waiting.extendleft(reversed(fork.tests))
        self.start()


def work(session: pytest.Session, connection: Connection, number: int) -> NoReturn:
    """Run tests in a fork until there are no more, and end the process."""
    status = 1
    try:
        detach(session.config, connection, number)
        tests = ask(connection)
        while tests:
            if len(tests) == 1:  # the teardown of a test depends on the next one
                tests += ask(connection)
            item, *following = (session.items[test] for test in tests[:2])
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following[0] if following else None)
            del tests[0]
        status = 0
    except (KeyboardInterrupt, EOFError, OSError):  # the tests were stopped
        session._setupstate.teardown_exact(None)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        os._exit(status)


def detach(config: pytest.Config, connection: Connection, number: int) -> None:
    """Give a fork its own files and folders, and send its reports to the parent."""
    atexit._clear()
    gc.set_threshold(20_000, 20, 20)  # one test leaves little garbage
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(Reporter(config, connection))
    capture = plugins.getplugin("capturemanager")
    if capture.is_globally_capturing():
        # modules may keep references to the streams, so these stay open with new files
        capture.suspend_global_capture()
        for stream in (capture._global_capturing.out, capture._global_capturing.err):
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), stream.tmpfile.fileno(), inheritable=False)
        capture.resume_global_capture()
    temporary = config._tmp_path_factory  # type: ignore[attr-defined]
    temporary._basetemp = temporary.getbasetemp() / str(number)
    temporary._basetemp.mkdir(0o700)


def ask(connection: Connection) -> list[int]:
    connection.send(None)
    return connection.recv()  # type: ignore[no-any-return]


class Reporter:
    """Sends the reports of a fork."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self.config = config
        self.connection = connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.connection.send(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))
