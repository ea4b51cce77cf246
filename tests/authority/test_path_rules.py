"""Path rules apply to the real target of a path, at the time it is opened, and to commands."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hilt.call import Call, Result, UserAnswer
from hilt.errors import ToolError
from hilt.files.door import Door, Root
from hilt.policy.paths import PROTECTED, READABLE, SENSITIVE, PathRules
from hilt.runtime import Runtime
from hilt.sandbox.network import NONE
from hilt.sandbox.profile import Profile
from hilt.testing import Folder, environment
from tests.state.exchanging import RULES, attack

STRESS = int(os.environ.get("HILT_STRESS") or 0)
TRIES = STRESS * 5 if STRESS else 25
SECRET = "the-denied-words"

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="swaps names by renameat2")


class World:
    """A workspace with personal rules, and a user who approves."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.folder = Folder(os.path.join(base, "workspace"))
        self.home = Folder(os.path.join(base, "home"))
        for folder in (self.folder, self.home):
            os.makedirs(folder.path, exist_ok=True)
        self.asked: list[str] = []

    def rules(self, **lists: list[str]) -> None:
        Folder(os.path.join(self.base, "config")).write("permissions.yaml", json.dumps(lists))

    @contextmanager
    def runtime(self, answer: str = "once", **flags: Any) -> Iterator[Runtime]:
        def asker(asked: Any) -> UserAnswer:
            self.asked.append(asked.reason)
            return UserAnswer(answer)

        env = environment(self.base)
        with Runtime(self.folder.path, environ=env, flags=flags, asker=asker) as runtime:
            yield runtime


@pytest.fixture
def world(base) -> World:
    return World(base)


def code(result: Result) -> str:
    return "ok" if result.error is None else result.error.code


def visible_text(result: Result) -> str:
    return f"{result.text}{result.data}{result.view}{result.content}{result.error}"


# --- swapped names --------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
@linux_only
@pytest.mark.parametrize("rules", RULES)
def test_swapping_names_while_calls_run_does_not_bypass_a_rule(base, rules):
    outcome = attack(base, rules, TRIES)

    assert outcome["leaks"] == {}
    assert "internal" not in outcome["codes"]
    assert outcome["codes"]["ok"]  # the harmless half of the calls


@pytest.mark.starts_processes
@linux_only
@pytest.mark.parametrize("rules", RULES)
def test_swapping_names_as_an_ordinary_user_does_not_bypass_a_rule(base, rules):
    command = [sys.executable, "-m", "tests.state.exchanging", base, rules, str(TRIES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)

    assert outcome["leaks"] == {}
    assert "internal" not in outcome["codes"]


# --- files that a call opens besides those it names -----------------------------------------------------------------


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "name, args",
    [
        ("search_files", {"pattern": "words"}),
        ("search_files", {"pattern": "words", "format": "filenames"}),
        ("search_files", {"pattern": "words", "no_ignore": True, "hidden": True}),
        ("find_files", {"pattern": "*"}),
        ("list_dir", {"path": ".", "depth": 5}),
        ("list_dir", {"path": ".", "depth": 5, "details": True}),
        ("checksum_tree", {"path": "."}),
        ("detect_project", {"path": "."}),
    ],
)
@pytest.mark.parametrize(
    "rule", ["Read(path:secrets/**)", "Read(path:secrets)", "Read(path:SECRETS/*)", "Read(path:t*n*)"]
)
def test_an_approved_walk_skips_denied_paths(world, name, args, rule):
    world.folder.write("secrets/token.txt", SECRET)
    world.folder.write("secrets/token/package.json", '{"name": "secret", "dependencies": {"react": "1"}}')
    world.folder.write("open.txt", "words")
    world.rules(deny=[rule])
    with world.runtime() as runtime:
        result = runtime.call(name, **args)

    assert code(result) == "ok", result
    assert world.asked
    assert SECRET not in visible_text(result)
    assert "token" not in visible_text(result)
    assert "react" not in visible_text(result)


def test_a_denied_image_is_not_shown_through_a_link(world):
    world.folder.write("secrets/a.png", b"\x89PNG\r\n\x1a\n" + bytes(64))
    os.symlink("secrets/a.png", world.folder.join("a.png"))
    world.rules(deny=["Read(path:secrets/**)"])
    with world.runtime() as runtime:
        assert code(runtime.call("read_file", path="a.png")) == "denied"


def test_undo_does_not_restore_a_file_that_must_not_be_written(world):
    with world.runtime() as runtime:
        for path in ("locked/a.txt", "free.txt"):
            runtime.call("write_file", path=path, content="old\n")
        edits = [{"path": path, "old_text": "old", "new_text": "new"} for path in ("locked/a.txt", "free.txt")]
        id = runtime.call("multi_edit", edits=edits).meta["undo"]
    world.rules(deny=["Write(path:locked/**)"])
    with world.runtime() as runtime:
        whole = runtime.call("undo", action="restore", id=id)
        single = runtime.call("undo", action="restore", id=id, path="free.txt")

    assert (code(whole), code(single)) == ("denied", "ok")
    assert world.folder.read("locked/a.txt") == "new\n"
    assert world.folder.read("free.txt") == "old\n"


@pytest.mark.parametrize("action", ["preview", "restore"])
def test_undo_does_not_show_a_file_that_must_not_be_read(world, action):
    with world.runtime() as runtime:
        runtime.call("write_file", path="secrets/a.txt", content=SECRET)
        id = runtime.call("write_file", path="secrets/a.txt", content="other", force=True).meta["undo"]
    world.rules(allow=["*"], deny=["Read(path:secrets/**)"])
    with world.runtime() as runtime:
        result = runtime.call("undo", action=action, id=id)

    assert code(result) == "denied"
    assert SECRET not in visible_text(result)
    assert world.folder.read("secrets/a.txt") == "other"


MOVE = "*** Begin Patch\n*** Update File: secrets/a.txt\n*** Move to: open.txt\n@@\n-one\n+two\n*** End Patch\n"


@pytest.mark.parametrize(
    "name, args",
    [
        ("edit_file", {"path": "secrets/a.txt", "old_text": "one", "new_text": "two"}),
        ("edit_file", {"path": "secrets/a.txt", "old_text": "one", "new_text": "two", "dry_run": True}),
        ("write_file", {"path": "secrets/a.txt", "content": "two\n"}),
        ("multi_edit", {"edits": [{"path": "secrets/a.txt", "old_text": "one", "new_text": "two"}]}),
        ("search_replace", {"pattern": "one", "replacement": "two", "files": "secrets/a.txt"}),
        ("apply_patch", {"patch": MOVE}),
    ],
)
def test_a_change_does_not_show_or_move_a_file_that_must_not_be_read(world, name, args):
    world.folder.write("secrets/a.txt", f"one\n{SECRET}\n")
    world.rules(allow=["*"], deny=["Read(path:secrets/**)"])
    with world.runtime() as runtime:
        decided = runtime.explain(Call(name, args)).decision.verdict
        result = runtime.call(name, **args)

    assert (decided, code(result)) == ("deny", "denied")
    assert SECRET not in visible_text(result)
    assert world.folder.tree() == {"secrets/": None, "secrets/a.txt": f"one\n{SECRET}\n"}


def test_a_write_only_file_can_be_created_but_not_replaced(world):
    world.rules(allow=["*"], deny=["Read(path:inbox/**)"])
    with world.runtime() as runtime:
        assert code(runtime.call("write_file", path="inbox/a.txt", content="x")) == "ok"
        assert code(runtime.call("read_file", path="inbox/a.txt")) == "denied"
        assert code(runtime.call("write_file", path="inbox/a.txt", content="y", force=True)) == "denied"


@pytest.mark.starts_processes
def test_a_rule_on_a_link_applies_to_the_link_and_its_target(world):
    world.folder.write("releases/5/a.txt", SECRET)
    os.symlink("releases/5", world.folder.join("current"))
    world.rules(deny=["Read(path:current/**)"])
    with world.runtime() as runtime:
        for path in ("current/a.txt", "releases/5/a.txt"):
            assert code(runtime.call("read_file", path=path)) == "denied"
        assert SECRET not in visible_text(runtime.call("search_files", pattern="words", path="releases"))


def test_an_ask_rule_on_a_link_asks_once(world):
    world.folder.write("releases/5/a.txt", "text")
    os.symlink("releases/5", world.folder.join("current"))
    world.rules(ask=["Read(path:current/**)"])
    with world.runtime() as runtime:
        assert code(runtime.call("read_file", path="current/a.txt")) == "ok"

    assert len(world.asked) == 1


@pytest.mark.parametrize("name, args", [("list_dir", {"path": "private"}), ("read_file", {"path": "private/a.txt"})])
def test_a_path_opens_once_its_question_is_answered(world, name, args):
    world.folder.write("private/a.txt", "mine")
    world.rules(ask=["Read(path:private/**)"])
    with world.runtime() as runtime:
        assert code(runtime.call(name, **args)) == "ok"
    with world.runtime(answer="deny") as runtime:
        assert code(runtime.call(name, **args)) == "USER_REJECTION"


# --- commands ---------------------------------------------------------------------------------------------------------


def profile_of(runtime: Runtime, door: Door | None = None) -> Profile:
    """Return the sandbox profile that a command of the runtime gets."""
    session = runtime.parts.session("default")
    return runtime.parts.confinement._profile(door or session.door, "default", session.overflow.open(), NONE)


def test_a_command_gets_the_path_rules(world):
    outside = world.home.write("Private/deep/a.txt", SECRET)
    world.home.write("notes/a.key", "k")
    world.home.write("notes/b.txt", "b")
    world.folder.write("secrets/key.txt", SECRET)
    os.symlink("secrets", world.folder.join("alias"))
    root = world.folder.path
    world.rules(
        deny=["Read(path:alias/**)", "Read(path:~/private/**)", "Write(path:~/notes/**/*.key)", "Write(path:made/**)"],
        ask=["Read(path:asked/**)", "Write(path:**)"],
    )
    with world.runtime() as runtime:
        profile = profile_of(runtime)
        again = profile_of(runtime)

    assert profile.denies_read
    assert profile.denies_write
    for path in ("secrets", "secrets/key.txt", "asked/x", "alias"):
        assert profile.denies_read(f"{root}/{path}"), path
    assert not profile.denies_read(f"{root}/src")
    assert profile.denies_write(f"{root}/made/new.txt")
    assert profile.writable == (root,)
    assert dict(profile.denied_outside) == {
        os.path.dirname(os.path.dirname(outside)): True,
        world.home.join("notes/a.key"): False,
    }
    assert profile.denied_missing == (f"{root}/made",)
    # the same rules compare equal, so cached searches of the workspace stay valid
    assert (again.denies_read, again.denies_write) == (profile.denies_read, profile.denies_write)


def test_rules_of_an_untrusted_project_apply_to_commands(world):
    world.folder.write(".hilt/permissions.yaml", "deny: ['Read(path:secrets/**)', 'Write(path:**)']")
    with world.runtime() as runtime:
        profile = profile_of(runtime)

    assert profile.denies_read is not None
    assert profile.denies_read(world.folder.join("secrets"))
    assert profile.writable == ()


def test_without_path_rules_a_command_gets_none(world):
    with world.runtime() as runtime:
        profile = profile_of(runtime)

    fields = (profile.denies_read, profile.denies_write, profile.denied_outside, profile.denied_missing)
    assert fields == (None, None, (), ())


def test_rules_that_match_too_many_outside_files_refuse_commands(world):
    for number in range(1100):
        world.home.write(f"many/{number}.key")
    world.rules(allow=["*"], deny=["Read(path:~/many/*.key)"])
    with world.runtime() as runtime, pytest.raises(ToolError) as raised:
        profile_of(runtime)

    assert raised.value.code == "sandbox_unavailable"


@pytest.mark.starts_processes
def test_denied_files_are_found_in_an_unlistable_folder(base):
    script = (
        "import sys; from tests.state.ordinary import obey_permissions; obey_permissions();"
        "from hilt.processes.confinement import denied_paths; base = sys.argv[1];"
        "reach = lambda path: 'yes' if path.startswith(base + '/shut/ann/x') else 'maybe'"
        " if (base + '/shut/ann/x').startswith(path) else 'no';"
        "print(denied_paths(reach, [base + '/shut/ann/x'], ()))"
    )
    base = os.path.realpath(base)
    inner = os.path.join(base, "shut/ann/x")
    os.makedirs(inner)
    os.chmod(os.path.join(base, "shut"), stat.S_IXUSR | stat.S_IWUSR)
    try:
        done = subprocess.run([sys.executable, "-c", script, base], capture_output=True, text=True)
    finally:
        os.chmod(os.path.join(base, "shut"), 0o700)

    assert done.stdout.strip() == str([inner]), done.stderr


def test_a_command_cannot_run_in_a_denied_folder(world):
    world.folder.write("secrets/key.txt", SECRET)
    world.rules(allow=["*"], deny=["Read(path:secrets/**)"])
    with world.runtime() as runtime:
        explained = runtime.explain(Call("run_shell", {"command": "cat key.txt", "cwd": "secrets"}))
        result = runtime.call("run_shell", command="cat key.txt", cwd="secrets")

    assert (explained.decision.verdict, code(result)) == ("deny", "denied")


def test_explain_names_the_rules_that_apply_to_a_command(world):
    world.rules(allow=["*"], deny=["Read(path:secrets/**)"], ask=["Write(path:src/**)"])
    with world.runtime() as runtime:
        plain = runtime.explain(Call("run_shell", {"command": "make"}))
        asked = runtime.explain(Call("run_shell", {"command": "echo x > src/a"}))
        read = runtime.explain(Call("read_file", {"path": "a"}))

    assert plain.sandbox == (
        "Read(path:secrets/**) (permissions.yaml, line 1): cannot be read",
        "Write(path:src/**) (permissions.yaml, line 1): cannot be written",
    )
    assert (asked.decision.verdict, asked.sandbox) == ("ask", plain.sandbox[:1])
    assert read.sandbox == ()


# --- files that are closed under every name ---------------------------------------------------------------------------


@pytest.fixture
def marking(world) -> Iterator[Runtime]:
    """A runtime that marks a file and a folder by their inodes, whatever their names."""
    world.folder.write("notes/a.txt", "harmless")
    marks = []
    for name in ("notes/renamed.txt", "notes/folder/b.txt"):
        world.folder.write(name, SECRET)
    os.link(world.folder.join("notes/renamed.txt"), world.folder.join("notes/linked.txt"))
    for name in ("notes/renamed.txt", "notes/folder"):
        status = os.stat(world.folder.join(name))
        marks.append((status.st_dev, status.st_ino))
    with world.runtime() as runtime:
        runtime.parts.marked = lambda status: (status.st_dev, status.st_ino) in marks
        yield runtime


@pytest.mark.parametrize("path", ["notes/renamed.txt", "notes/linked.txt", "notes/folder/b.txt", "notes/folder"])
@pytest.mark.parametrize(
    "name, args",
    [
        ("read_file", {}),
        ("stat_file", {}),
        ("list_dir", {}),
        ("search_files", {"pattern": "words"}),
        ("write_file", {"content": "x", "force": True}),
        ("edit_file", {"old_text": "the", "new_text": "a"}),
    ],
)
def test_a_marked_file_is_closed_under_every_name(world, marking, path, name, args):
    before = world.folder.tree()

    result = marking.call(name, path=path, **args)

    assert code(result) == "sensitive_path"
    assert SECRET not in visible_text(result)
    assert world.folder.tree() == before


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "name, args",
    [
        ("search_files", {"pattern": "words"}),
        ("search_files", {"pattern": "words", "format": "filenames"}),
        ("checksum_tree", {"path": "notes"}),
        ("list_dir", {"path": ".", "depth": 5}),
        ("find_files", {"pattern": "*"}),
    ],
)
def test_files_below_a_marked_folder_are_skipped(marking, name, args):
    result = marking.call(name, **args)

    assert code(result) == "ok"
    assert SECRET not in visible_text(result)
    assert "b.txt" not in visible_text(result)


def test_a_file_is_checked_again_after_it_is_opened(base):
    folder = Folder(base)
    folder.write("a.txt", SECRET)
    looks: list[os.stat_result] = []

    def marked(status: os.stat_result) -> bool:
        """Pass the first check, as if another file had been opened afterwards."""
        looks.append(status)
        return len(looks) > 1

    rules = PathRules(SENSITIVE, READABLE, PROTECTED)
    door = Door([Root(base, label=None, writable=True)], rules, marked=marked)

    with pytest.raises(ToolError) as raised, door.open_file("a.txt"):
        pass

    assert (raised.value.code, len(looks)) == ("sensitive_path", 2)
