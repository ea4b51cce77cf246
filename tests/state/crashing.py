"""Kill a call at each of its steps, or fill the disk there, restart, and check the state.

A step is one system call that changes something (creates, writes, syncs, renames or removes a file, creates or removes
a folder) or one SQL statement. The driver runs in a separate process, without threads, and forks once for each step, so
that every try is cheap. Every try uses the same path, `base`/point, because state belongs to a workspace by its path;
the initial state is copied there.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from hilt.runtime import Runtime
from hilt.testing import environment
from tests.databases import connected

STEPS = ("write", "fsync", "rename", "replace", "unlink", "mkdir", "rmdir", "fchmod")

EVERY = -1  # act at every step

Scenario = tuple[str, dict[str, Any]]  # the tool and its arguments


class Steps:
    """Counts the steps of this process, and acts at one of them."""

    def __init__(self, at: int, act: Callable[[str], None]) -> None:
        self.count = 0
        self._at = at
        self._act = act

    def install(self) -> None:
        """Wrap every function that performs a step."""
        for name in STEPS:
            setattr(os, name, self._before(name, getattr(os, name)))
        os.open = self._before_creating(os.open)
        sqlite3.connect = self._connecting(sqlite3.connect)

    def step(self, name: str) -> None:
        """Count one step, and act if it is the chosen one."""
        self.count += 1
        if self._at in (self.count, EVERY):
            self._act(name)

    def _before(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if name == "write" and self.count + 1 == self._at:
                function(args[0], args[1][: len(args[1]) // 2])  # a kill may happen in the middle of a write
            self.step(name)
            return function(*args, **kwargs)

        return counted

    def _before_creating(self, function: Callable[..., int]) -> Callable[..., int]:
        def counted(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            if flags & os.O_CREAT:
                self.step("create")
            return function(path, flags, *args, **kwargs)

        return counted

    def _connecting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        steps = self

        class Connection(sqlite3.Connection):
            def execute(self, *args: Any) -> sqlite3.Cursor:
                steps.step(f"sql {args[0]}")
                return super().execute(*args)

            def executemany(self, *args: Any) -> sqlite3.Cursor:
                steps.step(f"sql {args[0]}")
                return super().executemany(*args)

        return lambda *args, **kwargs: function(*args, factory=Connection, **kwargs)


def die(step: str = "") -> None:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(step: str) -> None:
    """Fail like a full disk: only operations that need space fail."""
    if step in ("write", "create", "mkdir", "fsync"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if step.startswith(("sql INSERT", "sql UPDATE", "sql DELETE", "sql COMMIT")):
        raise sqlite3.OperationalError("database or disk is full")


def started(base: str) -> Runtime:
    """Return a new runtime on the workspace."""
    return Runtime(os.path.join(base, "workspace"), environ=environment(base))


def call(base: str, scenario: Scenario) -> dict[str, Any]:
    """Run one call in a new runtime; return the parts that tests compare."""
    with started(base) as runtime:
        return answer_of(runtime, *scenario)


def answer_of(runtime: Runtime, tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """Run one call; return the parts that tests compare."""
    result = runtime.call(tool, **args)
    code = result.error.code if result.error else None
    message = result.error.message if result.error else None
    return {"code": code, "message": message, "data": result.data, "meta": json.loads(json.dumps(dict(result.meta)))}


def forked(work: Callable[[], Any]) -> tuple[int, Any]:
    """Run `work` in a child process; return its exit status and its result (None if it was killed)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            with open(writer, "w", encoding="utf-8") as pipe:
                json.dump(work(), pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return status, json.loads(text) if status == 0 else None


def stepped(base: str, scenario: Scenario, at: int) -> tuple[int, Any]:
    """Run a call in a child that dies at a step; return its status, and if it survived, the steps and the answer."""

    def work() -> Any:
        steps = Steps(at, die)
        steps.install()
        answer = call(base, scenario)
        return [steps.count, answer]

    return forked(work)


def tree(base: str) -> dict[str, Any]:
    """Return the files of the workspace with their modes and contents, and its folders."""
    entries: dict[str, Any] = {}
    root = os.path.join(base, "workspace")
    for folder, folders, files in os.walk(root):
        for name in folders:
            entries[os.path.relpath(os.path.join(folder, name), root) + "/"] = None
        for name in files:
            full = os.path.join(folder, name)
            with open(full, "rb") as file:
                entries[os.path.relpath(full, root)] = [os.stat(full).st_mode, file.read().hex()]
    return entries


def leftovers(base: str) -> list[str]:
    """Return what a finished or recovered change must not leave behind: markers, partial and unreferenced blobs."""
    state = os.path.join(base, "state")
    paths = []
    for folder, _, names in os.walk(os.path.join(state, "journal")):
        paths += [os.path.join(folder, name) for name in names]
    if not os.path.exists(os.path.join(state, "state.db")):
        return paths
    with connected(os.path.join(state, "state.db")) as db:
        referenced = {hash.hex() for (hash,) in db.execute("SELECT hash FROM blobs WHERE data IS NULL")}
        paths += [f"open {id}" for (id,) in db.execute("SELECT id FROM changes WHERE open")]
    db.close()
    for folder, _, names in os.walk(os.path.join(state, "blobs")):
        paths += [os.path.join(folder, name) for name in names if name not in referenced]
    return paths


class Expected(NamedTuple):
    """The workspace and the number of changes in the history, before and after an uninterrupted call."""

    old: dict[str, Any]
    new: dict[str, Any]
    old_changes: int
    new_changes: int


def look(base: str, expected: Expected, *, changed: bool | None = None) -> list[str]:
    """Restart after a kill, and return everything that is wrong."""
    with started(base) as runtime:
        return _look(runtime, base, expected, changed)


def _look(runtime: Runtime, base: str, expected: Expected, changed: bool | None) -> list[str]:
    faults = []
    listed = answer_of(runtime, "undo", {"action": "list"})
    if listed["code"]:
        return [f"list: {listed['code']}: {listed['message']}"]
    now = tree(base)
    count = _changes(listed)
    if now not in (expected.old, expected.new):
        faults.append(f"mixed: {sorted(set(_items(now)) ^ set(_items(expected.old)))[:6]}")
    if changed is not None and now != (expected.new if changed else expected.old):
        faults.append(
            "the answer contradicts the files"
            if now in (expected.old, expected.new)
            else "the answer does not report this"
        )
    if now == expected.new and count != expected.new_changes:
        faults.append(f"changed, but {count} changes in the history instead of {expected.new_changes}")
    if now == expected.old and count != expected.old_changes:
        faults.append(f"unchanged, but {count} changes in the history instead of {expected.old_changes}")
    faults += [f"left over: {path}" for path in leftovers(base)]
    for id in {entry["id"] for entry in listed["data"]["snapshots"]}:
        preview = answer_of(runtime, "undo", {"action": "preview", "id": id})
        if preview["code"]:
            faults.append(f"preview: {preview['code']}: {preview['message']}")
    if now == expected.new:
        newest = listed["data"]["snapshots"][0]["id"]
        restored = answer_of(runtime, "undo", {"action": "restore", "id": newest})
        if restored["code"] or tree(base) != expected.old:
            faults.append(f"undo: {restored['code']}: {restored['message']}")
    return faults


def _changes(listed: dict[str, Any]) -> int:
    return len({entry["id"] for entry in listed["data"]["snapshots"]})


def _items(entries: dict[str, Any]) -> list[str]:
    return [f"{path} {contents!s:.60}" for path, contents in entries.items()]


def every_step(base: str, tool: str, args: dict[str, Any], *, every: int = 1) -> dict[str, Any]:
    """Kill the call at every step, each time from the same initial state, and check after each."""
    trial = _Trial(base, (tool, args))
    faults = trial.faults
    for at in range(1, trial.steps + 1, every):
        trial.load("beginning")
        if trial.killed(trial.scenario, at):
            faults += [f"step {at}: {fault}" for fault in trial.look()]
    return {"steps": trial.steps, "faults": faults}


def every_step_of_recovery(base: str, tool: str, args: dict[str, Any], *, every: int) -> dict[str, Any]:
    """Kill the call at every n-th step, then the recovery at each of its steps, and check after each."""
    trial = _Trial(base, (tool, args))
    faults = trial.faults
    tried = 0
    recovery: Scenario = ("list_dir", {"path": "."})
    for first in range(1, trial.steps + 1, every):
        trial.load("beginning")
        if not trial.killed(trial.scenario, first):
            continue
        trial.save("interrupted")
        for second in range(1, trial.count(recovery) + 1):
            trial.load("interrupted")
            if trial.killed(recovery, second):
                tried += 1
                faults += [f"step {first}, then {second}: {fault}" for fault in trial.look()]
    return {"steps": tried, "faults": faults}


def every_fault(base: str, tool: str, args: dict[str, Any], *, lasting: bool) -> dict[str, Any]:
    """Fill the disk at every step, once or from then on, and compare the result with the state afterwards."""
    trial = _Trial(base, (tool, args))
    faults = trial.faults
    for at in range(1, trial.steps + 1):
        trial.load("beginning")
        answer = trial.refused(at, lasting=lasting)
        if answer["code"] not in (None, "resource_limit"):
            faults.append(f"step {at}: {answer['code']}: {answer['message']}")
        # two errors do not tell whether files changed: the call was not recorded, or could not be rolled back
        unknown = any(
            words in str(answer["message"]) for words in ("could not be recorded", "the next call recovers it")
        )
        faults += [f"step {at}: {fault}" for fault in trial.look(changed=None if unknown else not answer["code"])]
    return {"steps": trial.steps, "faults": faults}


class _Trial:
    """One call, tried many times at `base`/point."""

    def __init__(self, base: str, scenario: Scenario) -> None:
        self.scenario = scenario
        self.faults: list[str] = []
        self._base = base
        self._point = os.path.join(base, "point")
        self.save("beginning")
        old, old_changes = tree(self._point), self._changes()
        self._warm()
        self.steps = self.count(scenario)
        self._expected = Expected(old, tree(self._point), old_changes, self._changes())
        self.faults += [f"uninterrupted: {fault}" for fault in self.look()]

    def killed(self, scenario: Scenario, at: int) -> bool:
        """Run a call that dies at a step; False when it finished before that step."""
        return stepped(self._point, scenario, at)[0] != 0

    def count(self, scenario: Scenario) -> int:
        """Run a call and return the number of its steps."""
        steps, answer = stepped(self._point, scenario, at=0)[1]
        if answer["code"]:
            self.faults.append(f"uninterrupted: {answer['code']}: {answer['message']}")
        return int(steps)

    def refused(self, at: int, *, lasting: bool) -> dict[str, Any]:
        """Run a call while the disk is full at a step, or from it on; return the answer."""

        def work() -> dict[str, Any]:
            steps = Steps(
                EVERY, lambda step: refuse(step) if steps.count == at or (lasting and steps.count > at) else None
            )
            steps.install()
            return call(self._point, self.scenario)

        status, answer = forked(work)
        return answer if status == 0 else {"code": "died", "message": ""}

    def look(self, *, changed: bool | None = None) -> list[str]:
        """Return everything that is wrong now; `changed` is whether the files must have changed, None if unknown."""
        status, problems = forked(lambda: look(self._point, self._expected, changed=changed))
        return ["the check itself failed"] if status else list(problems)

    def save(self, name: str) -> None:
        """Save the point under a name."""
        shutil.rmtree(os.path.join(self._base, name), ignore_errors=True)
        shutil.copytree(self._point, os.path.join(self._base, name))

    def load(self, name: str) -> None:
        """Restore the point from a name."""
        shutil.rmtree(self._point)
        shutil.copytree(os.path.join(self._base, name), self._point)

    def _changes(self) -> int:
        return int(forked(lambda: _changes(call(self._point, ("undo", {"action": "list"}))))[1])

    def _warm(self) -> None:
        """Import the modules that the calls import, so that no child has to."""

        def work() -> list[str]:
            call(self._point, self.scenario)
            look(self._point, Expected({}, tree(self._point), 0, 0))
            return list(sys.modules)

        for name in forked(work)[1]:
            import_module(name)
        gc.collect()
        gc.freeze()  # so that children do not copy these pages
        self.load("beginning")


if __name__ == "__main__":
    base, request = sys.argv[1], json.loads(sys.argv[2])
    ways: dict[str, Callable[..., dict[str, Any]]] = {
        "once": every_step,
        "twice": every_step_of_recovery,
        "full": every_fault,
    }
    print(json.dumps(ways[request.pop("way")](base, **request)))
