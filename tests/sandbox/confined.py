"""Confined programs for tests: a process that runs them as this user or as an ordinary one, and folders for it.

The process takes one JSON object on each line. It is started from copies of the few modules that it needs, because an
ordinary user may not be able to read the checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hilt.processes.jobs import JobState
    from hilt.sandbox.backend import Launch
    from hilt.sandbox.spawning import Limits

NOBODY = 65534
SECRET = "S3CRET"
NOT_FOUND = 127  # a script that needs a missing program proves nothing


class Done(NamedTuple):
    """How a confined program ended, and its output."""

    code: int
    output: str


class Ended(NamedTuple):
    """How a job ended, and what was disabled."""

    status: str
    reason: str
    notes: list[str]


class Refused(Exception):
    """The program was not started."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Busy(Refused):
    """The program was not started; a retry may succeed."""


class Worker:
    """The process that confines programs, as the user who runs the tests or as an ordinary user."""

    def __init__(self, *, ordinary: bool, user: int = NOBODY) -> None:
        self.uid = user if ordinary and os.getuid() == 0 else os.getuid()
        self.availability_record = b""  # that the first program of this user wrote
        self.folder = Path(tempfile.mkdtemp(prefix="hilt-worker-"))
        self.folder.chmod(0o755)
        _copy_package(self.folder / "hilt")
        shutil.copy(__file__, self.folder / "confined.py")
        self._process = self._start()

    def ask(self, **request: Any) -> Any:
        """Send one request and return its reply."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        assert "fault" not in reply, reply["fault"]
        if "refused" in reply:
            code, message = reply["refused"]
            raise (Busy if code == "busy" else Refused)(code, message)
        return reply["answer"]

    @property
    def pid(self) -> int:
        """The process itself."""
        return self._process.pid

    def restart(self) -> None:
        """Start a new process after this one was killed."""
        self._end()
        self._process = self._start()

    def close(self) -> None:
        """End the process and remove its folder."""
        assert self._process.stdin
        self._process.stdin.close()
        self._end()
        shutil.rmtree(self.folder)

    def _end(self) -> None:
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            stream.close()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*as_user(self.uid), interpreter(self.uid), "-B", str(self.folder / "confined.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "PYTHONPATH": str(self.folder),
            },
        )
        assert process.stdout
        process.stdout.readline()
        return process


class Box:
    """A workspace with a home, a state directory and an outside folder, and programs that run confined to it."""

    def __init__(self, worker: Worker, kind: str = "", folder: str | None = None) -> None:
        """Create it in a folder, by default in the temporary one, which is private to confined programs."""
        self.worker = worker
        self.kind = kind  # the kind of sandbox, to override detection
        self.notes: list[str] = []  # notes on what the last script left for git to run
        self.base = Path(tempfile.mkdtemp(prefix="hilt-box-", dir=folder))
        self.base.chmod(0o755)
        self.workspace, self.home, self.state = (self.base / name for name in ("ws", "home", "state"))
        for path in (self.workspace, self.home / ".cache", self.state / "sessions/s1"):
            path.mkdir(parents=True)
        if worker.availability_record:
            (self.state / "sandbox.json").write_bytes(worker.availability_record)
        self.own()

    def own(self) -> None:
        """Give everything to the user of the worker."""
        if os.getuid() != self.worker.uid:
            for path in (self.base, *self.base.rglob("*")):
                os.chown(path, self.worker.uid, self.worker.uid, follow_symlinks=False)

    def write(self, path: str, text: str = SECRET) -> Path:
        """Write a file below the base folder."""
        file = self.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.own()
        return file

    def mkdir(self, path: str) -> Path:
        """Create a folder below the base folder."""
        folder = self.base / path
        folder.mkdir(parents=True, exist_ok=True)
        self.own()
        return folder

    def profile(self, **changes: Any) -> dict[str, Any]:
        """The default profile with overrides."""
        return {
            "name": "workspace-write",
            "roots": [str(self.workspace)],
            "closed": [str(self.state), str(self.home / ".config/hilt")],
            "home": str(self.home),
            "private": str(self.state / "private" / changes.get("session", "s1")),
            "session": "s1",
            "folder": str(self.state / "sessions/s1"),
            **changes,
        }

    def request(self, script: str, cwd: str | Path | None = None, without: str = "", **changes: Any) -> dict[str, Any]:
        """The request to run a script."""
        return {
            "state": str(self.state),
            "profile": self.profile(**changes),
            "cwd": str(cwd or self.workspace),
            "argv": ["bash", "-c", script],
            "without": without,
            "kind": self.kind,
        }

    def run(self, script: str, cwd: str | Path | None = None, without: str = "", **changes: Any) -> Done:
        """Run a script under the profile, optionally without one of its steps."""
        code, output, self.notes = self.worker.ask(do="run", **self.request(script, cwd, without, **changes))
        return Done(code, output)

    def attack(self, door: str, script: str, env: dict[str, str], limits: Sequence[Any]) -> str:
        """Run a script that resists being ended, as a call or a job, and return how it ended."""
        request = self.request(script)
        return str(self.worker.ask(do="attack", door=door, script=script, env=env, limits=limits, request=request))

    def run_job(self, script: str, **changes: Any) -> Ended:
        """Run a script as a background job, which is checked while it runs, to its end."""
        return Ended(*self.worker.ask(do="run_job", **self.request(script, **changes)))

    def start(self, script: str, **changes: Any) -> int:
        """Start a script that keeps running; returns when it has printed a line."""
        return int(self.worker.ask(do="start", **self.request(script, **changes)))

    def stop(self, job: int) -> None:
        """End a script that keeps running."""
        self.worker.ask(do="stop", job=job)

    def tree(self, folder: Path | None = None) -> dict[str, str]:
        """Return everything in a folder (by default the workspace and the home), for comparison."""
        if folder is None:
            return self.tree(self.workspace) | self.tree(self.home)
        return {str(path): _describe(path) for path in folder.rglob("*")}

    def close(self) -> None:
        """Remove everything."""
        self.worker.ask(do="forget", state=str(self.state))
        record = self.state / "sandbox.json"
        if not self.worker.availability_record and not self.kind and record.exists():
            self.worker.availability_record = record.read_bytes()
        subprocess.run(["chmod", "-R", "u+rwX", self.base], check=True)
        shutil.rmtree(self.base)


def interpreter(uid: int) -> str:
    """A Python that a user can run."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = [path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run([*as_user(uid), *check], capture_output=True).returncode == 0:
                return path
        except OSError:
            continue
    return ""


def as_user(uid: int, group: str = "") -> list[str]:
    """Return the beginning of a command line that runs as a user, in a supplementary group or none.

    `Popen(user=...)` would copy the memory of the tests for every command.
    """
    if uid == os.getuid():
        return []
    groups = f"--groups={group}" if group else "--clear-groups"
    # setpriv itself would find programs in folders that are closed to the user
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", groups, "env"]


def _copy_package(target: Path) -> None:
    import hilt

    shutil.copytree(Path(hilt.__file__).parent, target, ignore=shutil.ignore_patterns("__pycache__"))


def _describe(path: Path) -> str:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    return "folder" if path.is_dir() else path.read_bytes().hex()


# --- in the worker, and in tests that need no other user


class Place(NamedTuple):
    """Where a command runs, and how it is confined there."""

    workspace: Path
    confined: Launch


def run_in_call(script: str, place: Place, env: dict[str, str], limits: Limits) -> str:
    """Run a command as a call does, and return how it ended."""
    from hilt.sandbox import capturing

    argv = ["bash", "-c", script]
    finished = capturing.run(argv, cwd=place.workspace, env=env, limits=limits, confined=place.confined)
    assert finished.clean
    assert finished.exit_code != NOT_FOUND
    return "exit" if finished.reason == "signal" else finished.reason


def run_as_job(script: str, place: Place, env: dict[str, str], limits: Limits) -> str:
    """Run a command in the background, and return how it ended."""
    state = run_to_end(script, place, env, limits)
    assert state.exit_code != NOT_FOUND
    return {"completed": "exit", "failed": "exit"}.get(state.status, state.status)


def run_to_end(script: str, place: Place, env: dict[str, str], limits: Limits) -> JobState:
    """Run a command in the background, and return its last state."""
    from hilt.fence import Fence
    from hilt.processes.jobs import Jobs
    from hilt.sandbox import spawning

    def begin(stdin: int, stdout: int, stderr: int) -> spawning.Child:
        return spawning.start(
            ["bash", "-c", script],
            cwd=place.workspace,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            limits=limits,
            confined=place.confined,
        )

    jobs = Jobs(folder=lambda session: str(place.workspace))
    job = jobs.start("s", script, begin, timeout=limits.timeout, launch=place.confined)
    state = jobs.output("s", job.id, fence=Fence(), seconds=90).state
    os.unlink(job.output_file)
    return state


DOORS = {door.__name__: door for door in (run_in_call, run_as_job)}


class Server:
    """Handles the requests of the tests."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, Any] = {}
        self._jobs: list[ExitStack] = []

    def answer(self, request: dict[str, Any]) -> Any:
        """Handle a request."""
        act = getattr(self, request.pop("do"))
        return act(**request)

    def run(self, **request: Any) -> list[Any]:
        """Run a program to its end."""
        confined, finished = self._finish(request)
        return [
            finished.exit_code,
            os.fsdecode(finished.stdout.head + finished.stdout.tail),
            list(confined.report.notes()),
        ]

    def _finish(self, request: dict[str, Any]) -> tuple[Any, Any]:
        """Run a program to its end; return its confinement and how it ended."""
        from hilt.sandbox.capturing import run
        from hilt.sandbox.spawning import Limits

        with self._confine(request) as confined:
            finished = run(
                request["argv"],
                cwd=request["cwd"],
                env=_environment(request),
                limits=Limits(timeout=60, processes=request["profile"].get("processes")),
                merge=True,
                tty=bool(request["profile"].get("tty")),
                confined=confined,
            )
        return confined, finished

    def attack(self, door: str, script: str, env: dict[str, str], limits: list[Any], request: dict[str, Any]) -> str:
        """Run a script that resists being ended."""
        from hilt.sandbox.spawning import Limits

        with self._confine(request) as confined:
            place = Place(Path(request["cwd"]), confined)
            return DOORS[door](script, place, {**env, **_environment(request)}, Limits(*limits))

    def run_job(self, **request: Any) -> list[Any]:
        """Run a program in the background to its end."""
        from hilt.sandbox.spawning import Limits

        with self._confine(request) as confined:
            place = Place(Path(request["cwd"]), confined)
            state = run_to_end(request["argv"][-1], place, _environment(request), Limits(timeout=60))
        return [state.status, state.reason, list(confined.report.notes())]

    def run_many(self, requests: list[dict[str, Any]]) -> list[Any]:
        """Run several programs at once."""
        results: list[Any] = [None] * len(requests)

        def run_one(index: int) -> None:
            results[index] = self.run(**requests[index])

        threads = [threading.Thread(target=run_one, args=(index,)) for index in range(len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def start(self, **request: Any) -> int:
        """Start a program and wait for its first line."""
        from hilt.sandbox.spawning import start

        with ExitStack() as stack:
            confined = stack.enter_context(self._confine(request))
            reading, writing = os.pipe()
            null = os.open(os.devnull, os.O_RDWR)
            child = start(
                request["argv"],
                cwd=request["cwd"],
                env=_environment(request),
                stdin=null,
                stdout=writing,
                stderr=null,  # an error message does not mean that it is ready
                confined=confined,
            )
            stack.enter_context(child)
            os.close(writing)
            os.close(null)
            os.read(reading, 1)
            os.close(reading)
            self._jobs.append(stack.pop_all())
        return len(self._jobs) - 1

    def stop(self, job: int) -> None:
        """End a program."""
        self._jobs[job].close()

    def availability(self, state: str) -> list[Any]:
        """Return which sandbox works."""
        return list(self._sandbox(state).availability())

    def plan(self, **request: Any) -> list[list[str]]:
        """Return the steps of the profile."""
        from hilt.sandbox import view
        from hilt.sandbox.sandbox import make_private
        from hilt.sandbox.sensitive import Search

        profile = make_profile(request["profile"])
        make_private(profile)
        plan = view.make_plan(profile, view.search_workspace(profile, Search()), ())
        return [[step.purpose, step.path, *step.arguments] for step in plan.steps]

    def landlock(self, version: int, **request: Any) -> int:
        """Create a ruleset of an older version."""
        from hilt.sandbox import landlock
        from hilt.sandbox.sensitive import Search

        fd = landlock.make_ruleset(make_profile(request["profile"]), Search(), version)
        os.close(fd)
        return fd

    def forget(self, state: str) -> None:
        """Close a sandbox."""
        if sandbox := self._sandboxes.pop(state, None):
            sandbox.close()

    def _sandbox(self, state: str) -> Any:
        from hilt.sandbox.sandbox import Sandbox

        if state not in self._sandboxes:
            self._sandboxes[state] = Sandbox(state)
        return self._sandboxes[state]

    @contextmanager
    def _confine(self, request: dict[str, Any]) -> Iterator[Any]:
        sandbox = self._sandbox(request["state"])
        profile = make_profile(request["profile"])
        if request.get("kind") == "landlock":
            from hilt.sandbox.backend import Availability

            features = tuple(feature for feature in sandbox.availability().features if feature == "unix_scope")
            sandbox._available = Availability("landlock", "for the test", features=features)
        with ExitStack() as stack:
            if "features" in request["profile"]:
                # as if bubblewrap were an older version
                sandbox._available = sandbox.availability()._replace(features=tuple(request["profile"]["features"]))
            with _without(request["without"]):
                tty = bool(request["profile"].get("tty"))
                confined = stack.enter_context(sandbox.confine(profile, request["cwd"], tty=tty))
            yield confined


def make_profile(fields: dict[str, Any]) -> Any:
    """The profile that a request describes."""
    from hilt.homes import find_homes
    from hilt.policy.paths import ASKED, PROTECTED, READABLE, SENSITIVE, PathRules, matcher
    from hilt.sandbox.network import NETWORKS
    from hilt.sandbox.profile import Profile

    tuples = {name: tuple(fields[name]) for name in ("roots", "closed")}
    plain_fields = {name: value for name, value in fields.items() if name in Profile._fields}
    if "network" in fields:
        plain_fields["network"] = NETWORKS[fields["network"]]
    protected = (*PROTECTED, *ASKED)
    homes = find_homes(tuple(fields["roots"]), {"HOME": fields["home"]}, fields.get("lifted", ()))
    names = {"protected": protected, "is_protected": matcher(protected), "homes": homes}
    rules = PathRules((*SENSITIVE, *fields.get("sensitive", ())), READABLE, PROTECTED)
    denied: dict[str, Any] = {
        kind: Denied(tuple(fields[kind])) for kind in ("denies_read", "denies_write") if kind in fields
    }
    installation = {"read_only": tuple(fields.get("read_only", ()))}
    return Profile(**{**plain_fields, **tuples, "is_sensitive": rules.is_sensitive, **names, **denied, **installation})


class Denied(NamedTuple):
    """Denies everything at and below some paths."""

    paths: tuple[str, ...]

    def __call__(self, path: str) -> bool:
        return any(path == denied or path.startswith(denied + "/") for denied in self.paths)


def _environment(request: dict[str, Any]) -> dict[str, str]:
    # a folder where every user can run the programs that scripts need
    return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": request["profile"]["home"]}


@contextmanager
def _without(omitted: str) -> Iterator[None]:
    """Omit one part of the profile: the steps for one purpose, one namespace option, or the filter."""
    from hilt.sandbox import bubblewrap, seccomp, view

    make_plan, namespaces, assemble = view.make_plan, bubblewrap.namespaces, seccomp.assemble

    def fewer_steps(*args: Any, **options: Any) -> Any:
        plan = make_plan(*args, **options)
        return plan._replace(steps=tuple(step for step in plan.steps if step.purpose not in (omitted, "git")))

    def fewer_arguments(*args: Any, **options: Any) -> list[str]:
        arguments = namespaces(*args, **options)
        if omitted in arguments:
            index = arguments.index(omitted)
            # with its value
            del arguments[index : index + (2 if omitted == "--cap-drop" else 1)]
        return list(arguments)

    def no_filter(*args: Any, **options: Any) -> bytes | None:
        return None if omitted == "filter" else assemble(*args, **options)

    if omitted:
        view.make_plan, bubblewrap.namespaces = fewer_steps, fewer_arguments
        seccomp.assemble = no_filter
    try:
        yield
    finally:
        view.make_plan, bubblewrap.namespaces, seccomp.assemble = make_plan, namespaces, assemble


def main() -> None:
    """Answer requests until there are no more."""
    from hilt.errors import ToolError

    print("ready", flush=True)

    server = Server()
    for line in sys.stdin:
        try:
            reply = {"answer": server.answer(json.loads(line))}
        except ToolError as error:
            reply = {"refused": [error.code, error.message]}
        except Exception:  # noqa: BLE001 -- fails this test, not the next ones
            reply = {"fault": traceback.format_exc()}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
