from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator

import pytest

from hilt.catalog import built_in_names
from hilt.custom import candidates, tool_cache
from hilt.custom.candidates import Candidate, UnreadableTool
from hilt.custom.definition import (
    Content,
    Definition,
    Format,
    Loaded,
    ToolProblem,
    fingerprint,
)
from hilt.custom.discovery import Discovery, open_discovery, trusting
from hilt.custom.precedence import CustomTools
from hilt.custom.workers import Workers
from hilt.errors import ToolError
from hilt.formats import times
from hilt.loaders import LoadedFolder
from hilt.state.trust import Trust
from hilt.surroundings import Surroundings
from hilt.testing import Folder, environment
from tests.trusting import file_at

PROJECT, SECOND = ".hilt/tools/", ".nanocoder/tools/"


def markdown(name: str, description: str = "Do.", *, body: str = "true") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"


def folder_tool(name: str) -> str:
    return (
        f"---\nname: {name}\nscript: script.sh\nruntime: bash\n"
        "inputSchema: {type: object}\noutputSchema: {type: object}\n---\nDo.\n"
    )


class Desk:
    """A workspace, a home and a state directory, and the tools that discovery finds there."""

    def __init__(self, base: str, workers: Workers) -> None:
        self.environ = environment(base)
        self.workspace = Folder(os.path.join(base, "workspace"))
        self.home = Folder(self.environ["HOME"])
        self.config = Folder(self.environ["HILT_CONFIG_DIR"])
        self.extra = Folder(os.path.join(base, "extra"))
        self.state = self.environ["HILT_STATE_DIR"]
        self.workers = workers
        for folder in (self.workspace, self.home, self.config, self.extra):
            os.makedirs(folder.path)

    def open(self, *directories: str) -> Discovery:
        reserved = built_in_names()
        return open_discovery(
            self.workspace.path, Surroundings(self.environ), self.workers, directories=directories, reserved=reserved
        )

    def tools(self, *directories: str) -> CustomTools:
        return self.open(*directories).current()

    def trust(self, *names: str) -> None:
        trust = Trust(self.state)
        for name in names:
            trust.trust(file_at(self.workspace.join(name), "tool"), self.workspace.bytes(name))
        trust.close()

    def project(self, name: str, text: str) -> str:
        path = self.workspace.write(name, text)
        self.trust(name)
        return path


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers() as opened:
        yield opened


@pytest.fixture
def desk(base, workers) -> Desk:
    return Desk(base, workers)


def names(tools: CustomTools) -> list[str]:
    return sorted(tools.definitions)


def origins(tools: CustomTools) -> dict[str, str]:
    return {name: definition.origin for name, definition in tools.definitions.items()}


# --- places and layers ----------------------------------------------------------------------------------------------


def test_a_project_folder_that_is_the_configuration_directory_stays_untrusted(desk):
    desk.environ["HILT_CONFIG_DIR"] = desk.workspace.join(".hilt")
    desk.workspace.write(PROJECT + "a.md", markdown("a"))

    tools = desk.tools()

    assert (names(tools), [file.path for file in tools.untrusted]) == ([], [desk.workspace.join(PROJECT + "a.md")])


@pytest.mark.parametrize("broken", [False, True])
def test_higher_places_hide_lower_ones_unless_they_are_broken(desk, broken):
    everywhere = [
        desk.extra.write("a.md", markdown("a") if not broken else "---\nname: a\n---\n"),
        desk.project(PROJECT + "a.md", markdown("a")),
        desk.project(SECOND + "a.md", markdown("a")),
        desk.config.write("tools/a.md", markdown("a")),
        desk.home.write(".config/nanocoder/tools/a.md", markdown("a")),
        desk.home.write(".jean2/tools/a/tool.md", folder_tool("a")),
    ]
    desk.home.write(".jean2/tools/a/script.sh", "echo {}")

    tools = desk.tools(desk.extra.path)

    assert origins(tools) == {"a": everywhere[broken]}
    assert [hidden.origin for hidden in tools.hidden] == everywhere[broken + 1 :]
    assert {problem.origin for problem in tools.problems} == set(everywhere[:broken])
    for path in everywhere[broken:]:
        assert origins(desk.tools(desk.extra.path)) == {"a": path}
        os.unlink(path)
    assert names(desk.tools(desk.extra.path)) == []


def test_of_two_tools_with_one_name_in_a_folder_the_first_file_wins(desk):
    desk.config.write("tools/b.md", markdown("same"))
    first = desk.config.write("tools/a.md", markdown("same"))

    tools = desk.tools()

    assert origins(tools) == {"same": first}
    (problem,) = tools.problems
    assert (problem.origin, problem.name) == (desk.config.join("tools/b.md"), "same")
    assert str(first) in problem.message


def test_the_name_of_a_built_in_tool_is_rejected_except_from_a_named_directory(desk):
    desk.config.write("tools/x.md", markdown("read_file"))
    desk.home.write(".jean2/tools/read-file/tool.md", folder_tool("read-file"))
    desk.home.write(".jean2/tools/read-file/script.sh", "")
    desk.extra.write("y.md", markdown("read_file"))

    assert names(desk.tools()) == ["read-file"]
    (problem,) = desk.tools().problems
    assert "read_file is the name of a built-in tool" in problem.message
    assert names(desk.tools(desk.extra.path)) == ["custom__read_file", "read-file"]


def test_a_broken_file_hides_no_other_and_its_call_reports_the_problem(desk):
    path = desk.config.write("tools/k8s-pods.md", "---\nname: k8s_pods\ndescription: Do.\nparameters: 3\n---\ntrue\n")
    desk.config.write("tools/fine.md", markdown("fine"))

    tools = desk.tools()

    assert names(tools) == ["fine"]
    assert tools.find("nothing") is None
    for name in ("k8s_pods", "k8s-pods"):
        with pytest.raises(ToolError) as caught:
            tools.find(name)
        assert (caught.value.code, caught.value.details["file"]) == ("tool_invalid", path)
        assert caught.value.details["line"] == 4
        assert f"{path}:4: " in caught.value.message


def test_a_readme_and_other_files_are_skipped_silently(desk):
    for name in (
        "README.md",
        "notes.txt",
        ".hidden.md",
        "types.d.ts",
        "__init__.py",
        "empty/x.txt",
        "node_modules/a.js",
    ):
        desk.config.write(f"tools/{name}", "# words\n")
    os.mkfifo(desk.config.join("tools/pipe"))

    tools = desk.tools()

    assert (names(tools), tools.problems) == ([], ())


def test_unreadable_files_are_reported(desk):
    os.makedirs(desk.config.join("tools"))
    os.mkfifo(desk.config.join("tools/pipe.md"))
    os.symlink("/nowhere", desk.config.join("tools/lost.md"))
    desk.config.write("tools/large.md", b"x" * ((1 << 20) + 1))
    desk.config.write("tools/fine.md", markdown("fine"))

    tools = desk.tools()

    assert names(tools) == ["fine"]
    assert sorted(os.path.basename(problem.origin) for problem in tools.problems) == ["large.md", "lost.md", "pipe.md"]


def test_a_failing_reader_does_not_affect_other_files(desk):
    def read(content: Content, form: Format) -> Loaded:
        if form == "python":
            raise RuntimeError("oh")
        return _read_name(content, form)

    desk.extra.write("a.py", "")
    desk.extra.write("b.md", markdown("b"))

    tools = Discovery(
        [LoadedFolder("tool", desk.extra.path, "personal")], read, trusted=lambda: lambda path, digest: False
    ).current()

    assert names(tools) == ["b"]
    assert "RuntimeError: oh" in tools.problems[0].message


def test_an_invalid_tool_name_is_reported(desk):
    desk.home.write(".jean2/tools/a/tool.json", json.dumps({"name": "no name", "script": "s", "runtime": "bash"}))

    assert names(desk.tools()) == []
    assert desk.tools().problems


@pytest.mark.starts_processes
def test_all_formats_are_found_together(desk):
    desk.config.write("tools/m.md", markdown("m"))
    desk.config.write("tools/f/tool.md", folder_tool("f"))
    desk.config.write("tools/f/script.sh", "echo {}")
    desk.config.write("tools/p.py", 'from hilt import tool\n@tool\ndef p():\n    """Do."""\n')

    tools = desk.tools()

    assert (names(tools), tools.problems) == (["f", "m", "p"], ())
    assert {definition.format for definition in tools.definitions.values()} == {"folder", "markdown", "python"}


# --- trust ----------------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_nothing_of_a_project_is_loaded_before_its_content_is_trusted(desk):
    ran = desk.workspace.join("ran")
    path = desk.workspace.write(
        PROJECT + "p.py", f'open({ran!r}, "w")\nfrom hilt import tool\n@tool\ndef p():\n    """Do."""\n'
    )
    desk.workspace.write(PROJECT + "m.md", markdown("m"))

    tools = desk.tools()

    assert (names(tools), tools.problems, os.path.exists(ran)) == ([], (), False)
    assert [file.path for file in tools.untrusted] == [desk.workspace.join(PROJECT + "m.md"), path]
    with pytest.raises(ToolError) as caught:
        tools.find("p")
    assert (caught.value.code, caught.value.details) == ("untrusted", {"file": path})

    desk.trust(PROJECT + "p.py")

    assert (names(desk.tools()), os.path.exists(ran)) == (["p"], True)


def test_a_changed_file_is_no_longer_trusted(desk):
    desk.project(PROJECT + "m.md", markdown("m"))
    discovery = desk.open()
    assert names(discovery.current()) == ["m"]

    desk.workspace.write(PROJECT + "m.md", markdown("m", body="evil"))

    assert names(discovery.current(rescan=True)) == []
    assert names(desk.tools()) == []


def test_revoked_trust_applies_at_the_next_scan(desk):
    path = desk.project(PROJECT + "m.md", markdown("m"))
    discovery = desk.open()
    assert names(discovery.current()) == ["m"]

    trust = Trust(desk.state)
    trust.revoke(file_at(path))
    trust.close()

    assert names(discovery.current(rescan=True)) == []


def test_every_file_of_a_folder_must_be_trusted(desk):
    desk.project(PROJECT + "f/tool.md", folder_tool("f"))
    desk.workspace.write(PROJECT + "f/script.sh", "echo {}")

    assert names(desk.tools()) == []
    (untrusted,) = desk.tools().untrusted
    assert [file.path for file in untrusted.files] == [PROJECT + "f/script.sh"]

    desk.trust(PROJECT + "f/script.sh")
    assert names(desk.tools()) == ["f"]

    desk.workspace.write(PROJECT + "f/deep/more.sh", "evil")
    assert names(desk.tools()) == []


def test_a_file_trusted_as_another_kind_is_not_a_trusted_tool(desk):
    path = desk.workspace.write(PROJECT + "m.md", markdown("m"))
    trust = Trust(desk.state)
    trust.trust(file_at(path, "rules"), desk.workspace.bytes(PROJECT + "m.md"))
    trust.close()

    assert names(desk.tools()) == []


def test_the_environment_can_trust_everything(desk):
    desk.environ["HILT_TRUST"] = "all"
    desk.workspace.write(PROJECT + "m.md", markdown("m"))

    assert names(desk.tools()) == ["m"]


@pytest.mark.parametrize("link", ["file", "folder", "script", "tools", "config"])
def test_links_of_a_project_are_not_followed(desk, link):
    desk.environ["HILT_TRUST"] = "all"
    desk.extra.write("m.md", markdown("m"))
    desk.extra.write("f/tool.md", folder_tool("f"))
    desk.extra.write("f/script.sh", "")
    os.makedirs(desk.workspace.join(PROJECT))
    if link == "file":
        os.symlink(desk.extra.join("m.md"), desk.workspace.join(PROJECT + "m.md"))
    elif link == "folder":
        os.symlink(desk.extra.join("f"), desk.workspace.join(PROJECT + "f"))
    elif link == "script":
        desk.workspace.write(PROJECT + "f/tool.md", folder_tool("f"))
        os.symlink(desk.extra.join("f/script.sh"), desk.workspace.join(PROJECT + "f/script.sh"))
    else:
        os.rmdir(desk.workspace.join(PROJECT))
        target = desk.workspace.join(".hilt/tools" if link == "tools" else ".hilt")
        if link == "config":
            os.rmdir(target)
            os.rename(desk.extra.path, desk.extra.path + "2")
            os.makedirs(desk.extra.path)
            os.rename(desk.extra.path + "2", desk.extra.join("tools"))
        os.symlink(desk.extra.path, target)

    tools = desk.tools()

    assert names(tools) == []
    assert "symbolic link" in tools.problems[0].message


def test_a_file_that_becomes_a_link_before_it_is_opened_is_not_read(desk):
    os.symlink(desk.extra.write("m.md", markdown("m")), desk.extra.join("link.md"))

    assert candidates._contents(desk.extra.join("link.md"), follow=True) == markdown("m").encode()
    with pytest.raises(UnreadableTool, match="symbolic link"):
        candidates._contents(desk.extra.join("link.md"), follow=False)


def test_links_of_the_user_are_followed(desk):
    os.makedirs(desk.config.join("tools"))
    os.symlink(desk.extra.write("m.md", markdown("m")), desk.config.join("tools/m.md"))

    assert names(desk.tools()) == ["m"]


# --- changes --------------------------------------------------------------------------------------------------------


def test_the_next_scan_sees_added_changed_broken_repaired_and_deleted_tools(desk):
    reported: list[list[str]] = []
    discovery = desk.open()
    discovery.listen(lambda tools: reported.append(names(tools)))

    def scan() -> dict[str, str]:
        return {name: definition.description for name, definition in discovery.current(rescan=True).definitions.items()}

    assert scan() == {}
    desk.config.write("tools/a.md", markdown("a", "One."))
    assert scan() == {"a": "One."}
    desk.config.write("tools/a.md", markdown("a", "Two."))
    assert scan() == {"a": "Two."}
    desk.config.write("tools/a.md", "---\nname: a\n")
    assert scan() == {}
    with pytest.raises(ToolError, match="is broken"):
        discovery.current().find("a")
    desk.config.write("tools/a.md", markdown("a", "Two."))
    assert scan() == {"a": "Two."}
    os.rename(desk.config.join("tools/a.md"), desk.config.join("tools/b.md"))
    assert scan() == {"a": "Two."}
    os.unlink(desk.config.join("tools/b.md"))
    assert scan() == {}
    assert scan() == {}
    assert reported == [["a"], ["a"], [], ["a"], ["a"], []]


@pytest.mark.parametrize("settled", [True, False])
def test_a_change_with_the_same_size_and_time_is_seen(desk, monkeypatch, settled):
    monkeypatch.setattr(times, "TICK_NS", -(10**18) if settled else 10**18)
    path = desk.config.write("tools/a.md", markdown("a", "One."))
    discovery = desk.open()
    before = os.stat(path)
    assert discovery.current(rescan=True).definitions["a"].description == "One."

    desk.config.write("tools/a.md", markdown("a", "Two."))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert discovery.current(rescan=True).definitions["a"].description == "Two."


@pytest.mark.starts_processes
def test_the_worker_of_a_file_ends_when_the_file_is_no_longer_a_tool(desk):
    path = desk.config.write("tools/p.py", 'from hilt import tool\n@tool\ndef p():\n    """Do."""\n')
    other = desk.config.write("tools/q.py", 'from hilt import tool\n@tool\ndef q():\n    """Do."""\n')
    discovery = desk.open()
    assert names(discovery.current()) == ["p", "q"]
    assert len(desk.workers.pids) == 2

    os.unlink(path)
    discovery.current(rescan=True)
    assert len(desk.workers.pids) == 1
    os.unlink(other)
    discovery.current(rescan=True)

    assert desk.workers.pids == []


def test_a_change_within_one_tick_of_the_clock_is_seen(desk, monkeypatch):
    monkeypatch.setattr(times, "TICK_NS", 10**18)
    path = desk.config.write("tools/a.md", markdown("a", "One."))
    status = os.stat(path)
    unchanged = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    monkeypatch.setattr(Candidate, "_facts", lambda self, name: unchanged)
    discovery = desk.open()
    assert discovery.current(rescan=True).definitions["a"].description == "One."

    desk.config.write("tools/a.md", markdown("a", "Two."))

    assert discovery.current(rescan=True).definitions["a"].description == "Two."


def test_folders_are_not_scanned_again_before_the_interval_ends(desk):
    discovery = desk.open()
    discovery._every = 1000.0
    discovery.current()
    desk.config.write("tools/a.md", markdown("a"))

    assert names(discovery.current()) == []
    assert names(discovery.current(rescan=True)) == ["a"]


def test_a_slow_file_blocks_only_the_first_scan(desk):
    started, proceed = threading.Event(), threading.Event()

    def slow(content: Content, form: Format) -> Loaded:
        started.set()
        assert proceed.wait(60)
        return _read_name(content, form)

    desk.extra.write("a.md", "one")
    here = [LoadedFolder("tool", desk.extra.path, "personal")]
    discovery = Discovery(here, slow, trusted=lambda: lambda path, digest: False, every=0.0)
    proceed.set()
    assert names(discovery.current()) == ["a"]
    proceed.clear()
    started.clear()
    desk.extra.write("b.md", "two")
    thread = threading.Thread(target=discovery.current)
    thread.start()
    assert started.wait(60)

    assert names(discovery.current()) == ["a"]

    proceed.set()
    thread.join(60)
    assert names(discovery.current()) == ["a", "b"]


def test_a_file_that_failed_to_load_is_retried_after_a_while(desk, monkeypatch):
    monkeypatch.setattr(tool_cache, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(times, "TICK_NS", -1)
    installed: list[bool] = []

    def needs(content: Content, form: Format) -> Loaded:
        return _read_name(content, form) if installed else Loaded(problems=(ToolProblem(content.path, "No runtime."),))

    desk.extra.write("a.md", "one")
    here = [LoadedFolder("tool", desk.extra.path, "personal")]
    discovery = Discovery(here, needs, trusted=lambda: lambda path, digest: False)
    assert len(discovery.current().problems) == 1

    installed.append(True)

    assert names(discovery.current(rescan=True)) == ["a"]


# --- the cache ------------------------------------------------------------------------------------------------------


class RecordingReader:
    """A reader that records the files it reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, content: Content, form: Format) -> Loaded:
        self.read.append(os.path.basename(content.path))
        return _read_name(content, form)


def _read_name(content: Content, form: Format) -> Loaded:
    name = os.path.splitext(os.path.basename(content.path))[0]
    return Loaded(
        (
            Definition(
                name,
                "Do.",
                {"type": "object"},
                content.path,
                content.source,
                "markdown",
                os.path.dirname(content.path),
                fingerprint(content.files),
            ),
        )
    )


@pytest.fixture
def settled(monkeypatch) -> None:
    monkeypatch.setattr(times, "TICK_NS", -(10**18))


def scan(desk: Desk, cache: str) -> tuple[list[str], CustomTools]:
    reader = RecordingReader()
    here = [LoadedFolder("tool", desk.extra.path, "personal")]
    tools = Discovery(here, reader, trusted=lambda: lambda path, digest: False, cache=cache).current()
    return reader.read, tools


@pytest.mark.usefixtures("settled")
def test_unchanged_files_are_not_read_again_by_the_next_process(desk):
    cache = os.path.join(desk.state, "cache", "tools.json")
    desk.extra.write("a.md", "one")
    desk.extra.write("b.md", "two")

    first, tools = scan(desk, cache)
    second, again = scan(desk, cache)
    desk.extra.write("b.md", "three")
    third, _ = scan(desk, cache)

    assert (first, second, third) == (["a.md", "b.md"], [], ["b.md"])
    assert again == tools
    assert os.stat(cache).st_mode & 0o077 == 0


def test_a_file_that_was_just_written_is_not_cached_by_its_times(desk, monkeypatch):
    monkeypatch.setattr(times, "TICK_NS", 10**18)
    cache = os.path.join(desk.state, "cache", "tools.json")
    desk.extra.write("a.md", "one")

    assert (scan(desk, cache)[0], scan(desk, cache)[0]) == (["a.md"], ["a.md"])


DAMAGES = [
    "",
    "{",
    "[]",
    "null",
    json.dumps({"version": tool_cache.VERSION}),
    json.dumps({"version": tool_cache.VERSION, "tools": {"a": [1]}}),
    json.dumps({"version": tool_cache.VERSION, "tools": []}),
]


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_ignored(desk, damage):
    cache = os.path.join(desk.state, "cache", "tools.json")
    desk.extra.write("a.md", "one")
    scan(desk, cache)
    with open(cache, "w", encoding="utf-8") as file:
        file.write(damage)

    assert scan(desk, cache)[0] == ["a.md"]
    assert scan(desk, cache)[0] == []


@pytest.mark.usefixtures("settled")
def test_the_cache_of_another_version_is_ignored(desk, monkeypatch):
    cache = os.path.join(desk.state, "cache", "tools.json")
    desk.extra.write("a.md", "one")
    scan(desk, cache)

    monkeypatch.setattr(tool_cache, "VERSION", "another")

    assert scan(desk, cache)[0] == ["a.md"]


@pytest.mark.usefixtures("settled")
def test_a_cached_tool_still_needs_trust(desk):
    path = desk.project(PROJECT + "m.md", markdown("m"))
    assert names(desk.tools()) == ["m"]

    trust = Trust(desk.state)
    trust.revoke(file_at(path))
    trust.close()

    assert names(desk.tools()) == []


@pytest.mark.usefixtures("settled")
def test_a_folder_that_becomes_personal_is_read_again(desk):
    cache = os.path.join(desk.state, "cache", "tools.json")
    desk.extra.write("a.md", "one")
    scan(desk, cache)
    tools = Discovery(
        [LoadedFolder("tool", desk.extra.path, "directory")],
        _read_name,
        trusted=lambda: lambda path, digest: False,
        cache=cache,
    ).current()

    assert tools.definitions["a"].source == "directory"


def test_a_tool_is_trusted_by_its_path_and_content(desk):
    desk.project(PROJECT + "m.md", markdown("m"))
    trust = Trust(desk.state)
    hashes = {entry.file: entry.hash for entry in trust.list()}
    is_trusted = trusting(trust)

    ((file, digest),) = hashes.items()
    assert is_trusted(file, digest)
    assert not is_trusted(file, b"other")
    assert not is_trusted(file._replace(path=file.path + "x"), digest)
    trust.close()
