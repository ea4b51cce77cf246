"""Ways out of the workspace, into sensitive files and into configuration, through every tool."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hilt import tool
from hilt.call import Call, Output, Result
from hilt.catalog import Catalog
from hilt.params import WritePath
from hilt.runtime import Runtime
from hilt.schema import TOUCH, Schema
from hilt.testing import Folder, temporary_runtime

# --- swapping while calls run -----------------------------------------------------------------------------------------

SECRET = "the secret outside"
TURNS = 10 * int(os.environ.get("HILT_STRESS") or 20)  # of eight threads, with two calls each


def photograph(root: str) -> dict[str, tuple[int, int, bytes]]:
    """Return every file below a folder with its inode, modification time and contents."""
    entries = {}
    for folder, _, names in os.walk(root):
        for name in names:
            full = os.path.join(folder, name)
            status = os.lstat(full)
            with open(full, "rb") as file:
                entries[full] = (status.st_ino, status.st_mtime_ns, file.read())
    return entries


@pytest.fixture
def memory() -> Iterator[str]:
    base = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    yield base
    shutil.rmtree(base)


@pytest.mark.starts_processes
def test_thousands_of_reads_and_writes_while_links_are_swapped_touch_nothing_outside(memory):
    outside = Folder(os.path.join(memory, "outside"))
    outside.write("secret.txt", SECRET)
    outside.write("file.txt", SECRET)
    outside.write("er/file.txt", SECRET)
    with temporary_runtime(memory) as (runtime, folder):
        for name in ("file.txt", "dir/file.txt", "dir/secret.txt", "deep/er/file.txt", "moving/file.txt"):
            folder.write(name, "inside\n")
        os.symlink("dir", folder.join("flip"))
        before = photograph(outside.path)
        swapper = subprocess.Popen(
            [sys.executable, "-m", "tests.state.swapping", folder.path, outside.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert swapper.stdout
        assert swapper.stdout.readline() == "ready\n"
        texts: set[str] = set()
        codes: set[str] = set()

        def note(result: Result) -> None:
            texts.add(result.text if result.data is None else str(result.data))
            if result.error is not None:
                codes.add(result.error.code)
                texts.add(result.error.message)

        paths = ["file.txt", "dir/file.txt", "dir/secret.txt", "deep/er/file.txt", "moving/file.txt"]
        paths += ["flip/secret.txt", "flip/file.txt"]

        def work(worker: int) -> None:
            for turn in range(TURNS):
                path = paths[(worker + turn) % len(paths)]
                note(runtime.call("read_file", path=path, line_numbers=False))
                match turn % 4:
                    case 0:
                        note(runtime.call("write_file", path=path, content="inside\n", force=True))
                    case 1:
                        note(runtime.call("stat_file", path=path))
                    case 2:
                        new = f"{os.path.dirname(path) or '.'}/new-{worker}.txt"
                        note(runtime.call("write_file", path=new, content="inside\n"))
                    case 3:
                        note(runtime.call("list_dir", path=os.path.dirname(path) or "."))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rounds, _ = swapper.communicate("end\n")

    assert int(rounds) > 100
    assert photograph(outside.path) == before
    assert not [text for text in texts if SECRET in text]
    assert "internal" not in codes, codes
    assert "path_outside_workspace" in codes  # some calls met a swap


# --- sensitive and protected names, through every tool and every spelling --------------------------------------------


def with_path(name: str, path: str) -> dict[str, Any]:
    """Return arguments that make a tool touch a path; empty for a tool without one."""
    if name == "apply_patch":
        return {"patch": f"*** Begin Patch\n*** Update File: {path}\n@@\n-token\n+stolen\n*** End Patch\n"}
    if name == "search_replace":
        return {"pattern": "token", "replacement": "stolen", "files": path}
    schema = Catalog().find(name).tool.schema
    return smallest(schema, path) if takes_path(schema) else {}


def takes_path(schema: Schema) -> bool:
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return TOUCH in schema or any(map(takes_path, inner))


def smallest(schema: Schema, path: str) -> Any:
    """Return the smallest valid value of a schema, with the path in every path field."""
    if TOUCH in schema:
        return [path] if schema.get("type") == "array" else path
    if schema.get("type") == "object":
        required = {
            name: inner
            for name, inner in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or takes_path(inner)
        }
        return {name: smallest(inner, path) for name, inner in required.items()}
    if schema.get("type") == "array":
        return [smallest(schema["items"], path)]
    if "enum" in schema:
        return "diagnostics" if "diagnostics" in schema["enum"] else schema["enum"][0]
    return {"string": "token", "integer": 1, "number": 1, "boolean": False}[schema["type"]]


# tools that run programs are confined by the sandbox, which has its own tests
TOOLS = [
    tool.name for tool in Catalog().tools() if with_path(tool.name, "x") and not tool.effects & {"execute", "network"}
]
WRITING = [
    tool.name
    for tool in Catalog().tools()
    if tool.name in TOOLS and "write" in tool.effects and not tool.traits.may_only_read
]

SPELLINGS = [
    ".git/config",
    "./.git/config",
    ".git//config",
    ".//.git/./config",
    "sub/../.git/config",
    ".git/config/",
    ".git/../.git/config",
    ".GIT/config",
    ".Git/CONFIG",
    "{root}/.git/config",
    "{root}/sub/../.git/config",
    "//{root}/.git/config",
    "~/workspace/.git/config",
    "link-to-git/config",
    "link-to-config",
    "link-to-link",
    "sub/link-up/.git/config",
    "\uff0egit/config",
    ".g\u200bit/config",
    ".git\u200d/config",
    ".\uff47\uff49\uff54/config",
    "sub/.env",
    "sub/.env.local",
    "sub/.ENV.Production",
    ".env",
    ".ssh/id_ed25519",
    "sub/.aws/credentials",
    ".gnupg/secring.gpg",
    "deep/.git/hooks/pre-commit",
]


@pytest.fixture
def guarded(runtime, workspace):
    names = [".git/config", "deep/.git/hooks/pre-commit", "sub/.env", "sub/.env.local", "sub/.ENV.Production", ".env"]
    names += [".ssh/id_ed25519", "sub/.aws/credentials", ".gnupg/secring.gpg", ".hilt/config.toml", ".mcp.json"]
    for name in names:
        workspace.write(name, "" if name == ".hilt/config.toml" else "token\n")
    os.symlink(".git", workspace.join("link-to-git"))
    os.symlink(".git/config", workspace.join("link-to-config"))
    os.symlink("link-to-config", workspace.join("link-to-link"))
    os.symlink("..", workspace.join("sub/link-up"))
    return workspace


def code_of(result: Result) -> str | None:
    return None if result.error is None else result.error.code


def ready(runtime: Runtime, name: str) -> None:
    """Switch the session to a mode where the tool checks its paths: a plan is read only in plan mode."""
    if name == "exit_plan_mode":
        assert runtime.call("enter_plan_mode").ok


def reported_text(result: Result) -> str:
    """Return everything that a caller sees of a result."""
    error = result.error
    return f"{result.text} {result.data} {dict(result.meta)} {result.view} {error and (error.message, error.details)}"


@pytest.mark.parametrize("name", TOOLS)
def test_a_sensitive_file_is_refused_by_every_tool_in_every_spelling(runtime, guarded, base, name, monkeypatch):
    monkeypatch.setenv("HOME", base)
    ready(runtime, name)
    before = guarded.tree()

    for spelling in SPELLINGS:
        args = with_path(name, spelling.format(root=guarded.path))
        result = runtime.call(name, **args)

        assert result.error is not None, spelling
        codes = {result.error.code}
        # on a file system that distinguishes these characters the path may not exist
        assert codes <= {"sensitive_path", "path_outside_workspace", "invalid_args"}, (spelling, result.error)
        assert "token\n" not in reported_text(result).replace("'token'", ""), spelling
    assert guarded.tree() == before


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize(
    "path",
    [
        ".hilt/config.toml",
        ".hilt/new/tool.py",
        "./.HILT/config.toml",
        "sub/.claude/settings.json",
        ".mcp.json",
        "sub/../.mcp.json",
        ".cursor/rules/x",
        ".codex/config.toml",
        ".jcli/x",
        ".nanocoder/x",
        "agents.config.json",
        "Agents.Config.JSON",
    ],
)
def test_configuration_is_not_written_by_any_tool(runtime, guarded, name, path):
    before = guarded.tree()

    result = runtime.call(name, **with_path(name, path))

    assert result.error is not None
    assert result.error.code == "protected_path"
    assert guarded.tree() == before


@pytest.mark.parametrize(
    "patch",
    [
        "*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n",
        "*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: ok.txt\n*** Move to: {path}\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: {path}\n*** Move to: stolen.txt\n*** End Patch\n",
        "--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-token\n+x\n",
        "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n",
        "--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-token\n",
        "diff --git a/ok.txt b/{path}\nrename from ok.txt\nrename to {path}\n",
        "diff --git a/{path} b/stolen.txt\nrename from {path}\nrename to stolen.txt\n",
        "diff --git a/{path} b/{path}\nold mode 100644\nnew mode 100755\n",
    ],
)
@pytest.mark.parametrize(
    "path, code",
    [
        (".git/hooks/pre-commit", "sensitive_path"),
        ("sub/.env.local", "sensitive_path"),
        (".mcp.json", "protected_path"),
        ("../outside.txt", "path_outside_workspace"),
        ("link-to-config", "sensitive_path"),
    ],
)
def test_every_kind_of_patch_header_follows_the_same_rules(runtime, guarded, patch, path, code):
    guarded.write("ok.txt", "ok\n")
    before = guarded.tree()

    result = runtime.call("apply_patch", patch=patch.format(path=path))

    assert result.error is not None
    assert result.error.code in (code, "patch_invalid")
    assert guarded.tree() == before
    assert not os.path.exists(guarded.join("../outside.txt"))


@pytest.mark.parametrize("action", ["preview", "restore"])
def test_a_snapshot_from_before_a_name_became_sensitive_is_neither_restored_nor_previewed(base, action):
    with temporary_runtime(base) as (runtime, folder):
        folder.write("vault.txt", "token\n")
        id = runtime.call("write_file", path="vault.txt", content="public\n").meta["undo"]
    folder.write("../config/config.toml", '[workspace]\nsensitive = ["vault*"]\n')

    with temporary_runtime(base) as (runtime, _):
        result = runtime.call("undo", action=action, id=id)

    assert result.error is not None
    assert result.error.code == "sensitive_path"
    assert "token" not in reported_text(result)
    assert folder.read("vault.txt") == "public\n"


def test_an_undo_does_not_write_through_a_path_that_became_a_link(runtime, workspace):
    outside = workspace.write("../outside/a.txt", "theirs\n")
    workspace.write("dir/a.txt", "old\n")
    id = runtime.call("write_file", path="dir/a.txt", content="new\n").meta["undo"]
    shutil.rmtree(workspace.join("dir"))
    os.symlink(os.path.dirname(outside), workspace.join("dir"))

    result = runtime.call("undo", action="restore", id=id)

    assert result.error.code == "path_outside_workspace"
    assert workspace.read("../outside/a.txt") == "theirs\n"


def test_a_folder_listing_shows_neither_sensitive_names_nor_link_targets(runtime, guarded):
    os.symlink("/etc", guarded.join("etc"))

    entries = runtime.call("list_dir", path=".", hidden=True, depth=10, max_entries=10_000).data["entries"]

    assert not [entry for entry in entries if ".git" in entry or ".env" in entry.lower() or ".ssh" in entry]
    assert not [entry for entry in entries if entry.startswith("etc/")]


@pytest.mark.starts_processes
@pytest.mark.parametrize("name", [name for name in TOOLS if name not in WRITING])
@pytest.mark.parametrize("folder", [".", "sub", "{root}", "sub/link-up"])
def test_no_tool_that_searches_a_folder_shows_its_sensitive_files(runtime, guarded, name, folder):
    for path in (".git/config", "sub/.env", "sub/.env.local", ".ssh/id_ed25519", "sub/.aws/credentials"):
        guarded.write(path, "token-of-the-user\n")
    guarded.write("sub/plain.txt", "token\n")
    os.symlink("/etc", guarded.join("sub/etc"))
    args = with_path(name, folder.format(root=guarded.path))
    optional = {"hidden": True, "depth": 10, "include_hidden": True, "no_ignore": True, "follow": True}
    properties = Catalog().find(name).tool.schema["properties"]

    result = runtime.call(name, **args, **{key: value for key, value in optional.items() if key in properties})

    assert code_of(result) != "internal"
    for hint in ("token-of-the-user", "id_ed25519", ".env.local", "root:x:0"):
        assert hint not in reported_text(result)


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "files",
    [".git/*", ".g*/*", "**/*", "**/.env*", ".e??", "sub/**", "*/.aws/*", "link-to-git/*", "link-*", "out/*", "../*"],
)
def test_a_pattern_of_files_to_change_reaches_nothing_sensitive_protected_or_outside(runtime, guarded, files):
    outside = guarded.write("../outside/o.txt", "token\n")
    os.symlink(os.path.dirname(outside), guarded.join("out"))
    guarded.write("sub/plain.txt", "token\n")
    before = guarded.tree()

    result = runtime.call("search_replace", pattern="token", replacement="stolen", files=files)

    assert code_of(result) != "internal"
    assert {path for path, text in guarded.tree().items() if before.get(path) != text} <= {"sub/plain.txt"}
    assert guarded.read("../outside/o.txt") == "token\n"


# --- special files ----------------------------------------------------------------------------------------------------


def make_special(kind: str, path: str) -> socket.socket | None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
        except PermissionError:
            os.mkfifo(path)
    else:
        server = socket.socket(socket.AF_UNIX)
        short = tempfile.mkdtemp()
        server.bind(os.path.join(short, "s"))
        shutil.move(os.path.join(short, "s"), path) if os.stat(short).st_dev == os.stat(
            os.path.dirname(path)
        ).st_dev else os.mkfifo(path)
        shutil.rmtree(short)
        return server
    return None


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("name", [name for name in TOOLS if name not in ("stat_file", "list_dir")])
def test_special_files_are_refused_by_every_tool_without_blocking(runtime, workspace, kind, name):
    server = make_special(kind, workspace.join("special"))
    try:
        ready(runtime, name)
        result = runtime.call(name, **with_path(name, "special"))
    finally:
        if server is not None:
            server.close()

    assert result.error is not None
    assert result.error.code == "not_a_file"
    assert not stat.S_ISREG(os.lstat(workspace.join("special")).st_mode)


# --- an abandoned call ----------------------------------------------------------------------------------------------


class Slow:
    """A tool that waits during a change until it is released."""

    def __init__(self, timeout: float) -> None:
        self.inside = threading.Event()
        self.released = threading.Event()
        self.ended = threading.Event()

        @tool(effects="write", timeout=timeout)
        def slow_write(ctx, path: WritePath) -> Output:
            """Write a file, slowly."""
            try:
                with ctx.workspace.change("slow_write", [path]) as draft:
                    draft.write(path, b"too late\n")
                    self.inside.set()
                    self.released.wait()
                    draft.commit()
            finally:
                self.ended.set()
            return Output("written")

        self.tool = slow_write


@pytest.fixture(params=["timeout", "cancelled"])
def abandoned(request, base) -> Iterator[tuple[Runtime, Folder, Slow, Result]]:
    """A runtime with an abandoned call that is still running, inside its change."""
    slow = Slow(timeout=0.05 if request.param == "timeout" else 600)
    with temporary_runtime(base, tools=[slow.tool]) as (runtime, folder):
        folder.write("a.txt", "old\n")
        results: list[Result] = []
        done = threading.Event()

        def record(result: Result) -> None:
            results.append(result)
            done.set()

        runtime.watch_deadlines()
        running = runtime.submit(Call("slow_write", {"path": "a.txt"}), record)
        slow.inside.wait()
        if request.param == "cancelled":
            running.cancel()
        done.wait()
        assert results[0].error is not None
        assert results[0].error.code == request.param
        yield runtime, folder, slow, results[0]
        slow.released.set()


def test_an_abandoned_call_never_commits(abandoned):
    runtime, folder, slow, _ = abandoned

    slow.released.set()
    slow.ended.wait()

    # queued in the same lane, so it runs after the abandoned call has ended
    assert runtime.call("write_file", path="a.txt", content="after\n").ok
    assert folder.read("a.txt") == "after\n"
    assert [change.operation for change in runtime.parts.history.changes()] == ["write_file"]
    assert sorted(os.listdir(folder.path)) == ["a.txt"]


def test_locks_of_an_abandoned_call_do_not_block_other_files(abandoned):
    runtime, folder, _, _ = abandoned

    assert runtime.call("write_file", path="b.txt", content="x").ok
    assert folder.read("a.txt") == "old\n"


def test_a_call_that_is_committing_cannot_be_abandoned(base):
    slow = Slow(timeout=600)
    with temporary_runtime(base, tools=[slow.tool]) as (runtime, folder):
        folder.write("a.txt", "old\n")
        results: list[Result] = []
        done = threading.Event()

        def record(result: Result) -> None:
            results.append(result)
            done.set()

        running = runtime.submit(Call("slow_write", {"path": "a.txt"}), record)
        slow.inside.wait()
        running.fence.commit()
        running.cancel()
        slow.released.set()
        done.wait()

    assert results[0].ok
    assert folder.read("a.txt") == "too late\n"
