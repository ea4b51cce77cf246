from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.call import Result
from hilt.errors import ToolError
from hilt.files.door import Door, Root
from hilt.policy.paths import PROTECTED, READABLE, SENSITIVE, PathRules
from hilt.runtime import Runtime
from hilt.testing import environment
from tests.open_files import open_below

RULES = PathRules(SENSITIVE, READABLE, PROTECTED)


def door_to(path: str, **options: Any) -> Door:
    return Door([Root(path, label=None, writable=True, **options)], RULES)


def opened(door: Door, path: str) -> tuple[int, int] | str:
    """Return the device and inode of the file that a path opens, or the error code."""
    try:
        with door.open_file(path) as (_, status, _):
            return status.st_dev, status.st_ino
    except ToolError as error:
        return error.code


def code_of(result: Result) -> str | None:
    return None if result.error is None else result.error.code


def refusal_code(door: Door, path: str, *, write: bool) -> str | None:
    try:
        with door.place(path, write=write):
            return None
    except ToolError as error:
        return error.code


# --- random trees ---------------------------------------------------------------------------------------------------

NAMES = ["a", "b", "c", ".git", ".env", "..notes"]
components = st.sampled_from([*NAMES, ".", "..", ""])
paths = st.lists(components, min_size=1, max_size=6).map("/".join)
targets = st.one_of(
    paths,
    paths.map(lambda path: "ROOT/" + path),  # absolute, inside
    paths.map(lambda path: "OUTSIDE/" + path),  # absolute, outside
    st.sampled_from(["../outside/a", "../../outside/secret", "../workspace/a", "/", "/etc/passwd", "."]),
)
entries = st.dictionaries(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join),
    st.one_of(st.just("file"), st.just("folder"), targets.map(lambda target: "-> " + target)),
    min_size=1,
    max_size=10,
)


@contextmanager
def random_tree(tree: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield a workspace with these entries, as far as they do not conflict, and a folder outside it."""
    with tempfile.TemporaryDirectory() as base:
        base = os.path.realpath(base)
        root, outside = os.path.join(base, "workspace"), os.path.join(base, "outside")
        os.makedirs(root)
        for name in NAMES:
            os.makedirs(os.path.join(outside, "folder"), exist_ok=True)
            with open(os.path.join(outside, name), "w") as file:
                file.write("secret")
        for path, what in tree.items():
            full = os.path.join(root, path)
            if not f"{os.path.realpath(os.path.dirname(full))}/".startswith(f"{root}/"):
                continue  # a link would create it elsewhere
            try:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                if what == "folder":
                    os.makedirs(full)
                elif what == "file":
                    with open(full, "x") as file:
                        file.write(path)
                else:
                    target = what.removeprefix("-> ").replace("ROOT", root).replace("OUTSIDE", outside)
                    os.symlink(target or ".", full)
            except OSError:
                continue  # another entry is in the way
        yield root, outside


@pytest.mark.parametrize("target", ["OUTSIDE", "../outside", "b"])
@pytest.mark.parametrize("what", ["file", "folder", "-> x"])
def test_a_random_tree_stays_inside_the_workspace(target, what):
    with random_tree({"b": "-> OUTSIDE", "a": f"-> {target}", "a/new": what, "a/new/c": what}) as (root, outside):
        assert sorted(os.listdir(root)) == ["a", "b"]
        assert sorted(os.listdir(outside)) == sorted([*NAMES, "folder"])


def resolve_naively(root: str, path: str) -> str | None:
    """Follow a path step by step; return the file it leads to, or None if the rules reject it."""
    pending = path.split("/")[::-1]
    at: list[str] = []
    links = 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return None
            at.pop()
            continue
        if RULES.is_sensitive("/".join([*at, part])):
            return None
        full = os.path.join(root, *at, part)
        if not os.path.lexists(full) or not os.path.isdir(os.path.dirname(full)):
            return None
        if os.path.islink(full):
            links += 1
            target = os.readlink(full)
            if links > 40 or (target.startswith("/") and not (target + "/").startswith(root + "/")):
                return None
            if target.startswith("/"):
                at, target = [], target[len(root) :]
                depth = 0
                for name in target.split("/"):
                    depth += {"..": -1, ".": 0, "": 0}.get(name, 1)
                    if depth < 0:
                        return None
            pending += target.split("/")[::-1]
            continue
        at.append(part)
        if os.path.isfile(full) and any(name not in ("", ".") for name in pending):
            return None
    resolved = os.path.join(root, *at)
    return None if path.endswith(("/", "/.")) and os.path.isfile(resolved) else resolved


def leaves_by_text(path: str) -> bool:
    depth = 0
    for part in path.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return False


@given(entries, st.lists(paths, min_size=1, max_size=12))
def test_the_door_opens_exactly_the_file_that_a_path_leads_to_under_the_rules(tree, requested):
    """For every path whose text stays inside: the door opens the file that a step-by-step walk finds, which is the one
    the kernel finds. If that walk meets a sensitive name, a missing file or the outside, the door opens nothing."""
    with random_tree(tree) as (root, _):
        door = door_to(root)
        for path in requested:
            if leaves_by_text(path) or path.startswith("/"):
                continue
            end = resolve_naively(root, path)
            if end is None or not os.path.isfile(end):
                assert isinstance(opened(door, path), str), path
            else:
                assert os.path.realpath(os.path.join(root, path)) == end
                status = os.stat(end)
                assert opened(door, path) == (status.st_dev, status.st_ino), path


@given(entries, st.lists(st.one_of(paths, targets), min_size=1, max_size=12))
def test_no_path_opens_an_outside_or_sensitive_file_or_leaks_a_handle(tree, requested):
    with random_tree(tree) as (root, outside):
        door = door_to(root)
        allowed = {}
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not RULES.is_sensitive(name)]
            for name in names:
                status = os.lstat(os.path.join(folder, name))
                if stat.S_ISREG(status.st_mode) and not RULES.is_sensitive(name):
                    allowed[status.st_dev, status.st_ino] = name
        before = open_below(root, outside)
        for path in requested:
            full = path.replace("ROOT", root).replace("OUTSIDE", outside)
            identity = opened(door, full)
            assert isinstance(identity, str) or identity in allowed, full
            for write in (False, True):
                refusal_code(door, full, write=write)
        assert open_below(root, outside) == before


@given(entries, st.lists(paths, min_size=1, max_size=12))
def test_a_file_to_write_is_never_reached_through_a_link(tree, requested):
    with random_tree(tree) as (root, _):
        door = door_to(root)
        for path in requested:
            try:
                with door.place(path, write=True) as place:
                    folder = os.path.realpath(f"/dev/fd/{place.folder}")
                    parents = place.parts[: len(place.parts) - len(place.missing) - (place.name != ".")]
                    assert folder == os.path.join(root, *parents)
                    assert place.status is None or not stat.S_ISLNK(place.status.st_mode)
            except ToolError:
                continue


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "workspace"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "b.txt").write_text("b")
    (root / "..notes").write_text("a name with dots")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "workspace-2").mkdir()
    (tmp_path / "workspace-2" / "a.txt").write_text("a neighbour whose name begins the same")
    return root


@pytest.mark.parametrize(
    "path, code",
    [
        ("a.txt", None),
        ("./a.txt", None),
        ("sub/../a.txt", None),
        ("sub//b.txt", None),
        ("..notes", None),
        ("{root}/a.txt", None),
        ("{root}/./sub/../a.txt", None),
        ("{root}//a.txt", None),
        ("../workspace/a.txt", None),
        ("..", "path_outside_workspace"),
        ("../outside/secret", "path_outside_workspace"),
        ("sub/../../outside/secret", "path_outside_workspace"),
        ("{root}/../outside/secret", "path_outside_workspace"),
        ("{root}-2/a.txt", "path_outside_workspace"),
        ("../workspace-2/a.txt", "path_outside_workspace"),
        ("/etc/passwd", "path_outside_workspace"),
        ("//etc/passwd", "path_outside_workspace"),
        ("~/x", "path_outside_workspace"),
        ("~root/x", "path_outside_workspace"),
        ("a\0b", "invalid_args"),
        ("nothing", "file_not_found"),
        ("nothing/../a.txt", "file_not_found"),
        ("a.txt/x", "file_not_found"),
        ("sub", "not_a_file"),
        (".", "not_a_file"),
        ("", "not_a_file"),
        ("x" * 300, "invalid_args"),
        ("x/" * 2000 + "y", "file_not_found"),
        ("x/" * 3000 + "y", "invalid_args"),
    ],
)
def test_a_path_opens_inside_the_workspace_and_nowhere_else(tree, path, code):
    outcome = opened(door_to(str(tree)), path.format(root=tree))

    assert outcome == code if code else not isinstance(outcome, str)


@pytest.mark.parametrize(
    "link, target, reading, writing",
    [
        ("in", "a.txt", None, "not_a_file"),
        ("in", "{root}/a.txt", None, "not_a_file"),
        ("in", "sub/../a.txt", None, "not_a_file"),
        ("in", "missing.txt", "file_not_found", "not_a_file"),
        ("out", "../outside/secret", "path_outside_workspace", "path_outside_workspace"),
        ("out", "{root}/../outside/secret", "path_outside_workspace", "path_outside_workspace"),
        ("out", "/etc/passwd", "path_outside_workspace", "path_outside_workspace"),
        ("out", "../outside/missing", "path_outside_workspace", "path_outside_workspace"),
        ("out", "/nowhere/at/all", "path_outside_workspace", "path_outside_workspace"),
        ("loop", "loop", "file_not_found", "not_a_file"),
        ("git", ".git/config", "sensitive_path", "sensitive_path"),
    ],
)
def test_links_are_followed_for_reading_when_they_stay_inside_and_never_for_writing(
    tree, link, target, reading, writing
):
    (tree / link).symlink_to(target.format(root=tree))
    (tree / ".git").mkdir()
    (tree / ".git" / "config").write_text("token")

    assert refusal_code(door_to(str(tree)), link, write=False) == reading
    assert refusal_code(door_to(str(tree)), link, write=True) == writing


@pytest.mark.parametrize("target", ["../outside", "{root}/../outside"])
def test_a_link_to_an_outside_folder_is_rejected_even_for_a_missing_file(tree, target):
    (tree / "way").symlink_to(target.format(root=tree))

    for path in ("way/secret", "way/new.txt", "way/new/folder/x.txt"):
        assert refusal_code(door_to(str(tree)), path, write=True) == "path_outside_workspace"
        assert refusal_code(door_to(str(tree)), path, write=False) == "path_outside_workspace"
    assert os.listdir(tree.parent / "outside") == ["secret"]


@pytest.fixture(params=["pipe", "socket", "device"])
def special(request, tree):
    path = tree / "special"
    if request.param == "pipe":
        os.mkfifo(path)
        yield str(path)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            handle = os.open(tree, os.O_RDONLY)
            try:
                server.bind(f"/dev/fd/{handle}/special" if os.path.isdir("/proc/self/fd") else str(path))
            finally:
                os.close(handle)
            yield str(path)
    else:
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero: reading it would never end
        except PermissionError:
            os.symlink("/dev/zero", path)
        yield str(path)


def test_a_special_file_is_rejected_without_blocking(tree, special):
    door = door_to(str(tree))

    assert opened(door, "special") in ("not_a_file", "path_outside_workspace")
    assert opened(door, "special/x") in ("file_not_found", "path_outside_workspace")


def test_an_absolute_path_may_use_a_link_to_the_workspace(tree, base):
    alias = tree.parent / "alias"
    alias.symlink_to(tree)
    with Runtime(str(alias), environ=environment(base)) as runtime:
        for path in (f"{alias}/a.txt", f"{tree}/a.txt", "a.txt"):
            assert runtime.call("read_file", path=path, line_numbers=False).text == "a"
        assert runtime.call("write_file", path=f"{alias}/sub/new.txt", content="new").meta["path"] == "sub/new.txt"


def test_the_file_system_root_may_be_the_workspace(tree, base):
    with Runtime("/", environ=environment(base)) as runtime:
        for path in (f"{tree}/a.txt", str(tree / "a.txt").lstrip("/"), f"..{tree}/a.txt"):
            assert runtime.call("read_file", path=path, line_numbers=False).text == "a"
        assert runtime.call("write_file", path=f"{tree}/new.txt", content="x").ok
        assert code_of(runtime.call("read_file", path=os.path.join(base, "state", "trail.db"))) == "sensitive_path"


def test_the_narrowest_root_applies(tree):
    outer = Root(str(tree), label=None, writable=True)
    inner = Root(str(tree / "sub"), label="sub", writable=False)

    root, parts = Door([outer, inner], RULES).locate(f"{tree}/sub/b.txt")

    assert (root.label, parts) == ("sub", ["b.txt"])


def test_the_folders_of_hilt_are_closed_to_tools_even_inside_the_workspace(tmp_path):
    environ = {"HOME": str(tmp_path), "PATH": os.defpath}
    with Runtime(str(tmp_path), environ=environ) as runtime:
        assert runtime.call("write_file", path="a.txt", content="x" * 10).ok
        (tmp_path / ".config" / "hilt").mkdir(parents=True)
        (tmp_path / ".config" / "hilt" / "config.toml").write_text("undo.calls = 3\n")

        refusals = {
            path: code_of(runtime.call(tool, path=path, **args))
            for path, tool, args in [
                (".local/state/hilt/state.db", "read_file", {}),
                (f"{tmp_path}/.local/state/hilt/trail.db", "read_file", {}),
                (".LOCAL/../.local/state/./hilt/trail.db", "stat_file", {}),
                (".local/state/hilt/state.db", "write_file", {"content": ""}),
                (".config/hilt/config.toml", "write_file", {"content": "[workspace]\nsensitive = []\n"}),
                (".config/hilt/tools/new.py", "write_file", {"content": ""}),
            ]
        }

        assert set(refusals.values()) <= {"sensitive_path", "protected_path", "file_not_found"}
        assert runtime.call("read_file", path=".config/hilt/config.toml", line_numbers=False).text == "undo.calls = 3"
        listed = runtime.call("list_dir", hidden=True, depth=10).data["entries"]
        assert not [name for name in listed if "hilt/" in name and name.startswith(".local/state/hilt/")]


def test_overflow_files_are_readable_when_the_state_is_inside_the_workspace(tmp_path):
    environ = {"HOME": str(tmp_path), "PATH": os.defpath}
    (tmp_path / "long.txt").write_text("line\n" * 5000)
    with Runtime(str(tmp_path), environ=environ) as runtime:
        remainder = runtime.call("read_file", path="long.txt").meta["truncation"]["remainder"]

        assert runtime.call("read_file", path=remainder).ok
        assert code_of(runtime.call("write_file", path=remainder, content="x")) == "protected_path"
