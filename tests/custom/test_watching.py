from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hilt.custom.toolbox import Toolbox
from hilt.custom.watching import FolderWatch, watched
from hilt.state.trust import Trust
from hilt.surroundings import Surroundings
from hilt.testing import environment
from tests.marks import wait_until
from tests.trusting import file_at

TOOL = "---\nname: hello\ndescription: Say hello.\napproval: never\n---\necho hello\n"
FOLDER = """---
name: greet
runtime: bash
script: run.sh
inputSchema: {type: object}
outputSchema: {type: object}
---
Greets.
"""


class Place:
    """A workspace and its user, with a toolbox that has a listener."""

    def __init__(self, base: Path) -> None:
        self.root = base / "workspace"
        self.personal = base / "config/tools"
        self.project = self.root / ".hilt/tools"
        self.root.mkdir()
        self.environ = environment(str(base))
        self.state = self.environ["HILT_STATE_DIR"]
        confine: Any = None
        self.toolbox = Toolbox(
            str(self.root),
            Surroundings(self.environ),
            self.state,
            directories=(),
            reserved=list,
            grants=self,
            confine=confine,
            sandbox="declared",
            confine_module=confine,
        )
        self.reports = threading.Semaphore(0)

    def has(self, grant: str) -> bool:
        """Whether the user has this grant."""
        return False

    def save(self, path: Path, text: str) -> None:
        """Write a file in one step: no scan finds it half written."""
        draft = self.root.parent / "draft"
        draft.write_text(text)
        draft.replace(path)

    def wait_for_report(self) -> None:
        """Wait until a change is reported."""
        assert self.reports.acquire(timeout=60)

    def quiet(self) -> bool:
        """Whether no other report is pending."""
        return not self.reports.acquire(blocking=False)

    def names(self) -> list[str]:
        """The names of the current tools."""
        return sorted(self.toolbox.tools_found().definitions)


@pytest.fixture(params=["native", "polling"])
def place(tmp_path, request, monkeypatch) -> Iterator[Place]:
    if request.param == "polling":
        monkeypatch.setitem(sys.modules, "watchfiles", None)  # as if it were not installed
    created = Place(tmp_path)
    yield created
    created.toolbox.close()


def listen(place: Place) -> Callable[[], None]:
    return place.toolbox.listen(place.reports.release)


def test_every_change_of_a_tool_is_reported(place):
    place.personal.mkdir(parents=True)
    listen(place)
    path = place.personal / "hello.md"

    place.save(path, TOOL)
    place.wait_for_report()
    assert place.names() == ["hello"]

    place.save(path, TOOL.replace("Say hello.", "Say good day."))
    place.wait_for_report()
    assert place.toolbox.tools_found().definitions["hello"].description == "Say good day."

    place.save(path, TOOL.replace("approval: never", "approval: perhaps"))
    place.wait_for_report()
    assert (place.names(), list(place.toolbox.tools_found().reasons)) == ([], ["hello"])

    place.save(path, TOOL)
    place.wait_for_report()
    assert place.names() == ["hello"]

    path.unlink()
    place.wait_for_report()
    assert place.names() == []


def test_new_folders_are_watched_too(place):
    listen(place)

    (place.personal / "greet").mkdir(parents=True)
    place.save(place.personal / "greet/run.sh", "echo {}")
    place.save(place.personal / "greet/tool.md", FOLDER)
    place.wait_for_report()
    assert place.names() == ["greet"]

    place.save(place.personal / "greet/tool.md", FOLDER.replace("Greets.", "Greets well."))
    place.wait_for_report()
    shutil.rmtree(place.personal.parent)
    place.wait_for_report()
    assert place.names() == []

    place.personal.mkdir(parents=True)
    place.save(place.personal / "hello.md", TOOL)
    place.wait_for_report()
    assert place.names() == ["hello"]


def test_a_project_tool_is_reported_when_trusted_and_when_changed_later(place):
    place.personal.mkdir(parents=True)
    listen(place)
    place.project.mkdir(parents=True)
    path = place.project / "hello.md"
    place.save(path, TOOL)
    wait_until(lambda: place.toolbox.tools_found().untrusted)
    place.save(place.personal / "other.md", TOOL.replace("name: hello", "name: other"))
    place.wait_for_report()
    assert (place.names(), place.quiet()) == (["other"], True)

    trust = Trust(place.state)
    trust.trust(file_at(str(path), "tool"), path.read_bytes())
    trust.close()
    place.wait_for_report()
    assert place.names() == ["hello", "other"]

    place.save(path, TOOL + "# changed\n")
    place.wait_for_report()
    assert place.names() == ["other"]


def test_a_busy_workspace_does_not_delay_reports_forever(place):
    place.project.mkdir(parents=True)
    path = place.project / "hello.md"
    place.save(path, TOOL)
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.005):
            (place.root / "build.log").write_text("more")

    busy = threading.Thread(target=work)
    busy.start()
    try:
        listen(place)
        trust = Trust(place.state)
        trust.trust(file_at(str(path), "tool"), path.read_bytes())
        trust.close()
        place.wait_for_report()
    finally:
        ended.set()
        busy.join()

    assert place.names() == ["hello"]


def test_changes_of_other_files_are_not_reported(place):
    place.personal.mkdir(parents=True)
    place.save(place.personal / "hello.md", TOOL)
    listen(place)

    place.save(place.personal / "README.md", "Notes.")
    place.save(place.personal / "notes.txt", "Notes.")
    os.utime(place.personal / "hello.md")
    place.save(place.root / "file.txt", "other work")
    place.save(place.personal / "other.md", TOOL.replace("name: hello", "name: other"))
    place.wait_for_report()

    assert (place.names(), place.quiet()) == (["hello", "other"], True)


def test_many_changes_at_once_are_reported_few_times(place):
    place.personal.mkdir(parents=True)
    listen(place)

    for number in range(200):
        place.save(place.personal / f"t{number}.md", TOOL.replace("name: hello", f"name: t{number}"))
    wait_until(lambda: len(place.names()) == 200)
    place.wait_for_report()

    reports = 1
    while not place.quiet():
        reports += 1
    assert reports < 20


def test_a_removed_listener_is_not_called_and_others_are(place):
    place.personal.mkdir(parents=True)
    calls: list[str] = []
    stop = place.toolbox.listen(lambda: calls.append("gone"))
    listen(place)

    stop()
    stop()
    place.save(place.personal / "hello.md", TOOL)
    place.wait_for_report()

    assert calls == []


def test_the_thread_ends_with_the_last_listener_and_restarts_with_the_next(place):
    place.personal.mkdir(parents=True)
    others = watching_threads()
    stop = listen(place)
    [first] = watching_threads() - others
    stop()
    wait_until(lambda: not first.is_alive())

    listen(place)
    [second] = watching_threads() - others
    place.save(place.personal / "hello.md", TOOL)
    place.wait_for_report()
    place.toolbox.close()

    wait_until(lambda: not second.is_alive())


def watching_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "hilt-watch"}


def test_a_failing_listener_does_not_affect_others(place):
    place.personal.mkdir(parents=True)

    def fail() -> None:
        raise ValueError("disconnected")

    place.toolbox.listen(fail)
    listen(place)

    for name in ("one", "two"):
        place.save(place.personal / f"{name}.md", TOOL.replace("name: hello", f"name: {name}"))
        place.wait_for_report()

    assert place.names() == ["one", "two"]


def test_a_listener_may_remove_itself_while_called(place):
    place.personal.mkdir(parents=True)
    stops: list[Callable[[], None]] = []

    def once() -> None:
        stops[0]()
        place.reports.release()

    stops.append(place.toolbox.listen(once))
    place.save(place.personal / "hello.md", TOOL)

    place.wait_for_report()


def test_a_change_that_a_call_scanned_first_is_still_reported(place):
    place.personal.mkdir(parents=True)
    listen(place)
    place.save(place.personal / "hello.md", TOOL)

    wait_until(lambda: place.names() == ["hello"])

    place.wait_for_report()


def test_only_tool_folders_and_two_parents_are_watched(tmp_path):
    place = Place(tmp_path)
    (place.project / "deep/deeper").mkdir(parents=True)
    (place.project / "node_modules/x").mkdir(parents=True)
    (place.root / "src/a/b").mkdir(parents=True)
    place.toolbox.tools_found()
    discovery = place.toolbox._discovery
    assert discovery is not None

    watched_folders = {
        os.path.relpath(path, tmp_path) for path in watched(discovery.places) if path.startswith(str(tmp_path))
    }

    inside = {"", "/.hilt", "/.hilt/tools", "/.hilt/tools/deep", "/.hilt/tools/deep/deeper"}
    assert {f"workspace{path}" for path in inside} <= watched_folders
    assert not any("src" in path or "node_modules" in path for path in watched_folders)


def test_a_watch_without_listeners_can_be_closed(tmp_path):
    place = Place(tmp_path)
    place.toolbox.tools_found()
    discovery = place.toolbox._discovery
    assert discovery is not None

    FolderWatch(discovery).close()
