"""Names that tools never write, or only after asking: agent configuration, editor settings, startup files."""

from __future__ import annotations

import ctypes
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hilt.call import ApprovalRequest, Call, Result, UserAnswer
from hilt.desk.mcp_hosts import HOSTS
from hilt.errors import ToolError
from hilt.policy.modes import MODES
from hilt.policy.paths import ASKED, PROTECTED, PathRules, matcher, without
from hilt.runtime import Runtime
from hilt.sandbox.network import NONE
from hilt.testing import Folder, environment
from tests.trusting import file_at

REFUSED = (
    "sub/.claude/settings.json",
    "sub/.mcp.json",
    "sub/.hilt/x",
    "a/b/.gemini/settings.json",
    "a/opencode.json",
    ".Claude/settings.json",
    "sub/.ＣLAUDE/settings.json",
    "sub/.cla\u200bude/settings.json",
    "sub/OPENCODE.JSON",
)
ASKING = (
    ".vscode/tasks.json",
    ".envrc",
    "sub/.envrc",
    "a/b/.idea/workspace.xml",
    ".husky/pre-commit",
    "sub/.devcontainer/devcontainer.json",
    ".VSCode/tasks.json",
    "sub/.ｖscode/tasks.json",
    "sub/.vs\u200bcode/tasks.json",
    "x/../.vscode/tasks.json",
    "sub/HEAD",
    "sub/head",
)
TOOLS = ("write_file", "edit_file", "multi_edit", "apply_patch", "apply_patch_move", "search_replace")


class Person:
    """Answers every question the same way, and records the questions."""

    def __init__(self, kind: str = "once") -> None:
        self.kind = kind
        self.questions: list[ApprovalRequest] = []

    def __call__(self, asked: ApprovalRequest) -> UserAnswer:
        self.questions.append(asked)
        return UserAnswer(self.kind)


class World:
    """A workspace with its own home directory, settings and state."""

    def __init__(self, base: str, workspace: str = "workspace") -> None:
        self.base = base
        self.folder = Folder(os.path.join(base, workspace))
        self.home = Folder(os.path.join(base, "home"))
        os.makedirs(self.folder.path, exist_ok=True)
        os.makedirs(self.home.path, exist_ok=True)

    def settings(self, text: str) -> None:
        Folder(self.base).write("config/config.toml", text)

    @contextmanager
    def runtime(self, asker: Person | None = None, **flags: Any) -> Iterator[Runtime]:
        with Runtime(self.folder.path, environ=environment(self.base), flags=flags, asker=asker) as runtime:
            yield runtime


@pytest.fixture
def world(base) -> World:
    return World(base)


def code(result: Result) -> str:
    return "ok" if result.error is None else result.error.code


def change(runtime: Runtime, tool: str, path: str) -> Result:
    """Change a file from "old" to "new" with the given tool."""
    edit = {"path": path, "old_text": "old", "new_text": "new"}
    match tool:
        case "write_file":
            return runtime.call("write_file", path=path, content="new\n")
        case "edit_file":
            return runtime.call("edit_file", **edit)
        case "multi_edit":
            return runtime.call("multi_edit", edits=[edit])
        case "apply_patch":
            patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-old\n+new\n*** End Patch\n"
            return runtime.call("apply_patch", patch=patch)
        case "apply_patch_move":
            move = f"*** Begin Patch\n*** Update File: plain.txt\n*** Move to: {path}\n*** End Patch\n"
            return runtime.call("apply_patch", patch=move)
    return runtime.call("search_replace", pattern="old", replacement="new", files=path)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("path", REFUSED)
def test_agent_configuration_is_refused_at_any_depth_in_any_spelling(world, tool, path):
    world.folder.write(path, "old\n")
    world.folder.write("plain.txt", "new\n")
    person = Person()
    before = world.folder.tree()

    with world.runtime(person) as runtime:
        result = change(runtime, tool, path)

    assert code(result) == "protected_path"
    assert person.questions == []
    assert world.folder.tree() == before


@pytest.mark.starts_processes
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("path", ASKING)
def test_files_that_editors_and_environments_run_ask_before_a_write(world, tool, path):
    os.mkdir(world.folder.join("x"))
    if tool != "apply_patch_move":
        world.folder.write(os.path.normpath(path), "old\n")
    world.folder.write("plain.txt", "new\n")
    before = world.folder.tree()
    refusing, agreeing = Person("deny"), Person()

    with world.runtime() as runtime:
        assert code(change(runtime, tool, path)) == "approval_required"
    with world.runtime(refusing) as runtime:
        assert code(change(runtime, tool, path)) == "USER_REJECTION"
    assert world.folder.tree() == before
    with world.runtime(agreeing) as runtime:
        result = change(runtime, tool, path)

    assert code(result) == "ok", result.error
    assert "can run programs" in agreeing.questions[0].reason
    assert world.folder.read(os.path.normpath(path)) == "new\n"


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("sign", ["lib/HEAD", "lib/worktrees/x/commondir"])
@pytest.mark.parametrize("name", ["config", "hooks/post-commit", "Hooks/post-commit", "commondir", "refs/x"])
def test_a_folder_that_is_a_repository_is_read_only(world, tool, name, sign):
    world.folder.write(sign, "ref: refs/heads/main\n")
    world.folder.write("lib/other/config", "old\n")
    world.folder.write("plain.txt", "new\n")
    if tool not in ("write_file", "apply_patch_move"):
        world.folder.write(f"lib/{name}", "old\n")
    before = world.folder.tree()

    with world.runtime(Person()) as runtime:
        assert code(change(runtime, tool, f"lib/{name}")) == "protected_path"
        assert world.folder.tree() == before
        assert code(runtime.call("write_file", path="lib/other/config", content="new\n")) == "ok"


def test_names_of_git_are_writable_beside_checked_out_worktrees(world):
    world.folder.write("worktrees/x/config/a", "old\n")

    with world.runtime(Person()) as runtime:
        assert code(runtime.call("write_file", path="config/a", content="new\n")) == "ok"
        assert code(runtime.call("write_file", path="worktrees/x/config/a", content="new\n")) == "ok"


@pytest.mark.parametrize("mode", MODES)
def test_protected_files_ask_in_every_mode_and_are_refused_when_nobody_can_answer(world, mode):
    person = Person("deny")

    with world.runtime(person, mode=mode) as runtime:
        result = runtime.call("write_file", path=".vscode/tasks.json", content="x")

    is_denied = mode in ("plan", "scheduler")
    assert code(result) == ("denied" if is_denied else "USER_REJECTION")
    assert len(person.questions) == (0 if is_denied else 1)
    assert world.folder.tree() == {}


def test_an_always_answer_stores_no_grant_that_would_not_apply(world):
    person = Person("always")

    with world.runtime(person) as runtime:
        for content in ("1", "2"):
            assert runtime.call("write_file", path=".envrc", content=content).ok

    assert [asked.rules for asked in person.questions] == [(), ()]


def test_a_rule_that_asks_too_adds_no_second_question(world):
    Folder(world.base).write("config/permissions.yaml", json.dumps({"ask": ["Write"]}))
    person = Person()

    with world.runtime(person) as runtime:
        assert runtime.call("write_file", path=".envrc", content="x").ok

    (asked,) = person.questions
    assert ".envrc can run programs" in asked.reason
    assert "permissions.yaml" in asked.reason


def test_a_dry_run_does_not_ask_and_writes_nothing(world):
    person = Person("deny")

    with world.runtime(person) as runtime:
        result = runtime.call("write_file", path=".vscode/tasks.json", content="x", dry_run=True)

    assert result.ok
    assert (person.questions, world.folder.tree()) == ([], {})


def test_explain_reports_that_the_call_would_ask(world):
    with world.runtime(mode="yolo") as runtime:
        explanation = runtime.explain(Call("write_file", {"path": "sub/.envrc", "content": "x"}))

    assert (explanation.decision.verdict, explanation.decision.voter) == ("ask", "paths")


def test_protected_files_can_be_read_without_asking(world):
    for path in (*REFUSED, ".vscode/tasks.json", ".envrc"):
        world.folder.write(path, "old\n")

    with world.runtime() as runtime:
        for path in (*REFUSED, ".vscode/tasks.json", ".envrc"):
            assert runtime.call("read_file", path=path).ok


def test_undo_of_a_protected_file_asks_again_and_then_restores_it(world):
    world.folder.write(".vscode/tasks.json", "old\n")
    with world.runtime(Person()) as runtime:
        id = change(runtime, "write_file", ".vscode/tasks.json").meta["undo"]

    with world.runtime(refusing := Person("deny")) as runtime:
        assert code(runtime.call("undo", action="restore", id=id)) == "USER_REJECTION"
        assert runtime.call("undo", action="preview", id=id).ok
    assert world.folder.read(".vscode/tasks.json") == "new\n"
    with world.runtime(agreeing := Person()) as runtime:
        assert code(runtime.call("undo", action="restore", id=id)) == "ok"

    assert world.folder.read(".vscode/tasks.json") == "old\n"
    assert [len(refusing.questions), len(agreeing.questions)] == [1, 1]


def test_undo_does_not_restore_a_file_that_has_become_protected(world):
    world.folder.write("ci/build.yml", "old\n")
    with world.runtime() as runtime:
        id = change(runtime, "write_file", "ci/build.yml").meta["undo"]
    world.settings('workspace.protected = ["ci/*.yml"]')

    with world.runtime(Person()) as runtime:
        assert code(runtime.call("undo", action="restore", id=id)) == "protected_path"
    assert world.folder.read("ci/build.yml") == "new\n"


@pytest.mark.starts_processes
def test_search_and_replace_over_a_folder_skips_protected_files(world):
    paths = (".vscode/a.json", "sub/.vscode/a.json", "sub/.claude/a.json", "sub/plain.json")
    for path in paths:
        world.folder.write(path, "old\n")
    person = Person()

    with world.runtime(person) as runtime:
        result = runtime.call("search_replace", pattern="old", replacement="new", files="**/*.json")
        by_pattern = runtime.call(
            "search_replace", pattern="old", replacement="new", files=["**/.vscode/*.json", "sub/p*"]
        )

    assert [world.folder.read(path) for path in paths] == ["old\n", "old\n", "old\n", "new\n"]
    assert person.questions == []
    assert {error["error_code"] for error in result.meta.get("errors", {}).values()} <= {"protected_path"}
    assert {error["error_code"] for error in by_pattern.meta["errors"].values()} == {"protected_path"}


def test_a_crash_during_a_change_of_a_protected_file_is_recovered_without_asking(world):
    world.folder.write(".vscode/tasks.json", "old\n")
    from hilt.state.history import Snapshot

    with world.runtime(Person()) as runtime:
        store = runtime.parts.session(runtime.session).store
        data = b"old\n"
        from hilt.formats.digests import sha256

        file = Snapshot(".vscode/tasks.json", sha256(data), 0o644, len(data), sha256(b"new\n"), (), None)
        store.history().begin(runtime.session, "write_file", [(file, data)]).release()
    world.folder.write(".vscode/tasks.json", "new\n")

    with world.runtime() as runtime:
        result = runtime.call("read_file", path=".vscode/tasks.json")

    assert result.meta["recovered"][0]["outcome"] == "completed"


# --- swaps ------------------------------------------------------------------------------------------------------------


TURNS = int(os.environ.get("HILT_STRESS") or 10) * 10


@pytest.mark.parametrize("guarded", [".vscode", ".claude", "sub/.vscode", "sub/.mcp.json"])
def test_a_folder_swapped_for_a_link_after_the_decision_opens_no_protected_file(world, guarded):
    """The folder is a plain one when the call is decided, and sometimes a link when the file is opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        pytest.skip("no way to exchange two names")
    os.makedirs(world.folder.join(guarded))
    os.makedirs(world.folder.join("plain"))
    os.symlink(world.folder.join(guarded), world.folder.join("link"))
    names = [os.fsencode(world.folder.join(name)) for name in ("plain", "link")]
    over = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not over.is_set():
            assert libc.renameat2(-100, names[0], -100, names[1], 2) == 0
            swaps += 1

    codes: dict[str, int] = {}
    with world.runtime() as runtime:
        thread = threading.Thread(target=swap)
        thread.start()
        for turn in range(TURNS):
            name = f"plain/{turn}.json"
            outcome = code(runtime.call("write_file", path=name, content="x"))
            codes[outcome] = codes.get(outcome, 0) + 1
        over.set()
        thread.join()

    assert os.listdir(world.folder.join(guarded)) == []
    assert swaps > TURNS
    assert set(codes) - {"ok"}, "no swap was met"
    assert "internal" not in codes


def test_an_approval_for_one_protected_file_opens_no_other(world):
    """Approving one protected name does not allow another, even when one call reaches both."""
    with world.runtime() as runtime:
        store = runtime.parts.session(runtime.session).store
    mine, other = store.door.for_call(), store.door.for_call()

    assert mine.ask("sub/.vscode/tasks.json") == ["sub/.vscode"]

    with mine.place("sub/.vscode/other.json", write=True):
        pass
    for door, path in ((mine, ".vscode/tasks.json"), (mine, "sub/.envrc"), (other, "sub/.vscode/tasks.json")):
        with pytest.raises(ToolError) as raised, door.place(path, write=True):
            pass
        assert raised.value.code == "protected_path"


# --- a home directory as the workspace ------------------------------------------------------------------------------

STARTS = (
    ".bashrc",
    ".config/fish/config.fish",
    ".local/lib/python3.11/site-packages/x.pth",
    ".local/bin/ls",
    ".config/Code/User/settings.json",
    ".config/nvim/init.lua",
    ".vim/plugin/x.vim",
    ".emacs.d/init.el",
    ".config/zed/settings.json",
    ".config/pip/pip.conf",
    ".npmrc",
    ".BASHRC",
    *(
        ".bashrc.d/x.sh",
        ".oh-my-zsh/custom/x.zsh",
        ".ipython/startup/x.py",
        ".vscode-server/server-env-setup",
        ".psqlrc",
    ),
    *("bin/git", "go/bin/git", ".a-name-that-no-list-has"),
)


@pytest.mark.parametrize("path", STARTS)
@pytest.mark.parametrize("workspace, before", [("home", ""), (".", "home/")])
def test_startup_files_ask_when_the_workspace_is_or_contains_the_home_folder(base, workspace, before, path):
    world = World(base, workspace)
    refusing, agreeing = Person("deny"), Person()

    with world.runtime(refusing, mode="yolo") as runtime:
        assert code(runtime.call("write_file", path=before + path, content="x")) == "USER_REJECTION"
    assert not os.path.exists(world.home.join(path))
    with world.runtime(agreeing) as runtime:
        assert code(runtime.call("write_file", path=before + path, content="x")) == "ok"
        assert code(runtime.call("write_file", path=before + "notes.txt", content="x")) == "ok"

    assert len(refusing.questions) == len(agreeing.questions) == 1


def test_startup_files_are_ordinary_files_elsewhere(world):
    with world.runtime() as runtime:
        for path in (".bashrc", "bin/run", "sub/.profile", ".local/bin/x"):
            assert code(runtime.call("write_file", path=path, content="x")) == "ok"


def test_a_workspace_inside_the_home_folder_asks_for_the_startup_files_in_it(base):
    world = World(base, "home/.config")
    person = Person("deny")

    with world.runtime(person) as runtime:
        assert code(runtime.call("write_file", path="fish/config.fish", content="x")) == "USER_REJECTION"
        assert code(runtime.call("write_file", path="other/x", content="x")) == "USER_REJECTION"


def test_the_target_of_a_startup_file_link_asks_too(base):
    world = World(base, "home")
    world.home.write("dotfiles/bashrc", "old\n")
    os.symlink("dotfiles/bashrc", world.home.join(".bashrc"))

    with world.runtime(Person("deny")) as runtime:
        assert code(runtime.call("write_file", path="dotfiles/bashrc", content="x")) == "USER_REJECTION"


def test_the_user_exempts_names_in_a_home_directory_for_file_tools(base):
    world = World(base, "home")
    world.settings('workspace.writable = [".npm", ".config/tool"]')

    with world.runtime(Person("deny")) as runtime:
        for path, expected in {".npm/x": "ok", ".config/tool/x": "ok", ".config/y": "USER_REJECTION"}.items():
            assert code(runtime.call("write_file", path=path, content="x")) == expected
        for path in (".cache/x", ".github/workflows/x.yml", "project/bin/x"):
            assert code(runtime.call("write_file", path=path, content="x")) == "ok"


# --- settings -------------------------------------------------------------------------------------------------------


def test_the_user_can_unprotect_single_names_for_file_tools(world):
    world.settings('workspace.writable = [".Claude", ".vscode"]')

    with world.runtime() as runtime:
        for path in ("sub/.claude/x", ".vscode/tasks.json"):
            assert code(runtime.call("write_file", path=path, content="x")) == "ok"
        assert code(runtime.call("write_file", path=".codex/x", content="x")) == "protected_path"


def test_names_are_unprotected_separately_for_commands_and_file_tools(world):
    world.settings('workspace.writable = [".claude"]\nshell.writable = [".vscode", ".bashrc", ".codex"]')

    with world.runtime() as runtime:
        profile = profile_of(runtime)
        assert code(runtime.call("write_file", path=".codex/x", content="x")) == "protected_path"

    assert {".claude", ".idea", ".envrc"} <= set(profile.protected)
    assert not {".vscode", ".codex"} & set(profile.protected)
    assert [profile.is_protected(path) for path in ("a/.claude", "a/.vscode", "a/.Husky", "a/b")] == [
        *(True, False, True, False)
    ]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_project_adds_protected_names_and_removes_none(world, trusted):
    text = 'workspace.protected = [".github/workflows"]\nworkspace.writable = [".claude"]\nshell.writable = [".claude"]'
    path = world.folder.write(".hilt/config.toml", text)
    world.settings('workspace.protected = ["Makefile"]')
    if trusted:
        from contextlib import closing

        from hilt.state.trust import Trust

        with closing(Trust(os.path.join(world.base, "state"))) as trust:
            trust.trust(file_at(path, "config"), text.encode())

    with world.runtime(Person()) as runtime:
        for name in (".github/workflows/ci.yml", "Makefile", "sub/makefile", ".claude/x"):
            assert code(runtime.call("write_file", path=name, content="x")) == "protected_path"
        assert code(runtime.call("write_file", path=".github/CODEOWNERS", content="x")) == "ok"
        profile = profile_of(runtime)

    assert {".github/workflows", "Makefile", ".claude"} <= set(profile.protected)
    assert profile.is_protected(".github/workflows")
    assert profile.is_protected("a/Makefile")
    assert not profile.is_protected(".github")


def profile_of(runtime: Runtime) -> Any:
    """Return the sandbox profile of the commands of a runtime."""
    session = runtime.parts.session(runtime.session)
    return runtime.parts.confinement._profile(session.door, runtime.session, session.overflow.open(), NONE)


# --- the lists ------------------------------------------------------------------------------------------------------


def test_the_project_server_files_of_other_programs_are_protected():
    is_protected = matcher((*PROTECTED, *ASKED))

    for host in HOSTS.values():
        for path in host.project:
            assert is_protected(path.partition("/")[0]), path


def test_no_name_is_on_two_lists():
    assert not set(PROTECTED) & set(ASKED)
    assert without(("a", "B/c", "d"), ("b/C/", "/D")) == ("a",)


@pytest.mark.parametrize("parts", [("a",), ("sub", ".vscode"), (".vscode", "x")])
def test_a_cached_verdict_on_a_name_equals_a_fresh_one(parts: tuple[str, ...]):
    rules = PathRules((), (), (), ASKED)

    verdicts = []
    for _ in range(2):
        rules.check(parts, write=True)
        verdicts.append(rules.asks(parts))

    assert verdicts == [parts[-1] == ".vscode"] * 2
