from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from hilt.call import Result
from hilt.custom import folder_tools, module_tools, scripts
from hilt.custom.candidates import Untrusted
from hilt.custom.definition import Definition, Execute, ToolProblem, fingerprint, to_tool
from hilt.custom.discovery import open_discovery
from hilt.custom.precedence import NOTHING, CustomTools
from hilt.custom.workers import Workers
from hilt.desk.custom_tools import check_tools
from hilt.formats.digests import sha256
from hilt.loaders import ProjectFile
from hilt.processes.declared_sandbox import DeclaredSandbox
from hilt.runtime import Runtime
from hilt.state.approvals import Approvals
from hilt.state.trust import Trust
from hilt.surfaces.cli.tool_files import describe, lines_of, listed
from hilt.surroundings import Surroundings
from tests.surfaces.commands import HILT, Command
from tests.surfaces.terminals import Screen
from tests.trusting import file_at
from tests.web.servers import Request, answer, redirect, serving

TOOLS = ".hilt/tools/"
GREET = "---\nname: greet\ndescription: Greet.\napproval: never\n---\necho hello\n"


@pytest.fixture
def run(command) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HILT, "tools", *words],
            env=command.environ,
            cwd=command.folder.path,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.fixture
def at_terminal(command) -> Callable[..., Screen]:
    def at_terminal(*words: str) -> Screen:
        return Screen(
            [HILT, "tools", *words], env={**command.environ, "TERM": "dumb"}, cwd=command.folder.path, columns=200
        )

    return at_terminal


@pytest.fixture
def answered(at_terminal) -> Callable[..., tuple[int, str]]:
    def answered(*words: str, typed: str = "y\n", times: int = 1) -> tuple[int, str]:
        """Run the command for a user who types the same at every prompt; return the status and all text."""
        with at_terminal(*words) as screen:
            for _ in range(times):
                screen.expect("[y/n] > ")
                screen.type(typed)
            status, _ = screen.end()
            return status, screen.text

    return answered


def own(command: Command, name: str = "") -> str:
    return os.path.join(command.environ["HILT_CONFIG_DIR"], "tools", name)


def trusts(command: Command, name: str) -> bool:
    trust = Trust(command.state)
    try:
        return trust.is_trusted(file_at(command.folder.join(name), "tool"), sha256(command.folder.bytes(name)))
    finally:
        trust.close()


@pytest.fixture
def find(command) -> Iterator[Callable[[], CustomTools]]:
    with Workers() as workers:
        yield lambda: open_discovery(command.folder.path, Surroundings(command.environ), workers).current()


def definition(**fields: Any) -> Definition:
    base_definition = Definition("t", "Do.\nMore.", {"type": "object"}, "/x/t.md", "personal", "markdown", "/x", "hash")
    return base_definition._replace(**fields)


# --- list and show --------------------------------------------------------------------------------------------------


def test_tools_are_listed_by_source_with_their_problems():
    discovered = CustomTools(
        {
            "b": definition(name="b", dangerous=True),
            "a": definition(name="a", source="project", description="Evil \x1b[2J\nmore"),
        },
        (),
        (ToolProblem("/x/c.md", "It is broken.", 3),),
        (Untrusted("/w/d.md", (ProjectFile("tool", "/w", "d.md"),)),),
        {},
    )

    assert listed(discovered) == (
        "project:\n  a  markdown, Evil ␛[2J\npersonal:\n  b  markdown, ⚠ Do.\n"
        "broken:\n  /x/c.md:3: It is broken.\n"
        f"not trusted, so not loaded (to review: {HILT} tools trust):\n  /w/d.md\n"
    )
    assert listed(NOTHING) == ""


@pytest.mark.parametrize(
    "fields, says",
    [
        ({}, "sandbox: none; it runs with all your permissions"),
        ({"sandbox": DeclaredSandbox(write=("out",))}, "sandbox: yes, without network\nmay write: out"),
        ({"sandbox": DeclaredSandbox(network=True)}, "sandbox: yes, with network"),
        ({"details": {"env": ["KEY"], "runtime": "bun"}}, "environment: KEY"),
        ({"approval": "never", "read_only": True}, "approval: never, read-only"),
        ({"dangerous": True}, "⚠ declared dangerous by its author"),
        ({"warm": True}, "stays running between calls"),
        ({"details": {"securityScript": "security.ts"}}, "security check: security.ts before every call"),
        ({"notes": ("odd key",)}, "note: odd key"),
    ],
)
def test_the_capabilities_of_a_tool_are_shown(fields, says):
    text = describe(definition(**fields))

    assert text.startswith("from /x/t.md:1 (personal)\nformat: markdown")
    assert says in text


# --- new ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, name", [("markdown", "hi"), ("folder", "say-hi"), ("python", "hi")])
def test_a_new_tool_loads_at_once_and_passes_its_example(command, run, kind, name):
    done = run("new", name, "--kind", kind, "--personal")

    assert (done.returncode, done.stderr) == (0, "")
    root, environ = command.folder.path, command.environ
    with Workers() as workers:
        discovered = open_discovery(root, Surroundings(environ), workers).current()
        assert (list(discovered.definitions), discovered.problems) == ([name], ())
        new_tool = discovered.definitions[name]
        assert new_tool.origin.startswith(done.stdout.strip())
        executors: dict[str, Callable[[Definition], Execute]] = {
            "markdown": partial(scripts.BoundScript, surroundings=Surroundings(environ)),
            "folder": partial(folder_tools.FolderTool, surroundings=Surroundings(environ), grants=NoGrants()),
            "python": partial(
                module_tools.execute, modules=module_tools.Modules(workers, Surroundings(environ), root, root)
            ),
        }
        tool = to_tool(new_tool, executors[kind](new_tool))
        with Runtime(root, tools=[tool], environ=environ, flags={"mode": "yolo"}) as runtime:

            def call(called: str, args: Mapping[str, Any]) -> Result:
                return runtime.call(called, **args)

            assert call(name, {"name": "World"}).error is None
            checked = check_tools(discovered, call, Surroundings(environ))
    assert lines_of(checked)[-1].startswith(f"{name}: OK")


class NoGrants:
    """A user without any grants."""

    def has(self, grant: str) -> bool:
        return False


def test_a_new_tool_of_a_project_waits_for_trust(command, run, find):
    done = run("new", "hi")

    assert (
        done.stdout
        == f"{command.folder.join(TOOLS + 'hi.md')}\nIt is not loaded until you trust it: {HILT} tools trust\n"
    )
    assert [tool_file.path for tool_file in find().untrusted] == [command.folder.join(TOOLS + "hi.md")]


@pytest.mark.parametrize(
    "words, says",
    [
        (["new"], "missing required argument: NAME"),
        (["new", "a", "b"], "unexpected argument 'b'"),
        (["new", "a", "--kind", "perl"], "--kind takes folder, markdown, python, not 'perl'"),
        (["new", "../a"], "invalid_args"),
        (["new", "say-hi"], "invalid_args"),
        (["new", "A", "--kind=python"], "invalid_args"),
        (["new", "read_file"], "the name of a built-in tool"),
        (["new", "there"], "exists"),
        (["fly"], "unknown command 'fly'"),
        (["install"], "missing required argument: PATH"),
        (["install", "--all"], "unknown option '--all'"),
    ],
)
def test_a_tool_that_cannot_be_created_is_reported_and_nothing_is_written(command, run, words, says):
    command.folder.write(TOOLS + "there.md", "mine")
    before = command.folder.tree()

    done = run(*words)

    assert done.returncode != 0
    assert says in done.stderr
    assert command.folder.tree() == before


@pytest.mark.parametrize("words", [("new", "hi", "--personal"), ("new", "hi")])
def test_a_file_in_place_of_a_tool_folder_is_reported(command, run, words):
    command.folder.write(".hilt", "")
    os.makedirs(os.path.dirname(own(command).rstrip("/")), exist_ok=True)
    with open(own(command).rstrip("/"), "w", encoding="utf-8"):
        pass

    done = run(*words)

    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "permission_denied" in done.stderr


# --- check ----------------------------------------------------------------------------------------------------------


def test_check_reports_every_problem_and_fails(command, run):
    command.folder.write(TOOLS + "wait.md", GREET)
    path = own(command, "broken.md")
    os.makedirs(own(command))
    with open(path, "w", encoding="utf-8") as file:
        file.write("---\nname: broken\ndescription: Do.\ntimeout_ms: 0\n---\ntrue\n")
    with open(own(command, "greet.md"), "w", encoding="utf-8") as file:
        file.write(GREET.replace("---\necho", "kolor: red\n---\necho"))

    done = run("check")

    assert done.returncode == 1
    assert f"{path}:4: " in done.stdout
    assert "kolor" in done.stdout
    assert "greet: OK\n" in done.stdout
    assert f"{command.folder.join(TOOLS + 'wait.md')}: not trusted, so not loaded" in done.stdout


def test_check_without_tools_succeeds(run):
    done = run("check")

    assert (done.returncode, done.stdout) == (0, "There are no custom tools.\n")


def test_the_example_of_a_tool_that_asks_runs_when_the_user_agrees(command, run, at_terminal):
    os.makedirs(own(command))
    with open(own(command, "greet.md"), "w", encoding="utf-8") as file:
        file.write(GREET.replace("never", "always").replace("---\necho", "examples: [{expect: hello}]\n---\necho"))

    unasked = run("check")
    with at_terminal("check") as screen:
        screen.expect("deny > ")
        screen.type("y\n")
        status, text = screen.end()

    assert (unasked.returncode, status) == (1, 0)
    assert "example 1: no_one_to_ask: greet needs approval" in unasked.stdout
    assert "greet: OK, 1 example passed" in text
    assert "greet: OK, 1 example passed" in run("check", "--approve", "once").stdout
    with closing(Approvals(command.state)) as approvals:
        assert approvals.pending() == []


# --- trust ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed, trusted", [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_tool_is_shown_before_it_is_trusted(command, answered, find, typed, trusted):
    command.folder.write(TOOLS + "greet.md", GREET)

    status, text = answered("trust", typed=typed)

    assert "| echo hello" in text
    assert (status, trusts(command, TOOLS + "greet.md")) == (0 if trusted else 1, trusted)
    assert list(find().definitions) == (["greet"] if trusted else [])


def test_the_difference_is_shown_when_a_trusted_tool_changed(command, answered, find):
    command.folder.write(TOOLS + "greet.md", GREET)
    answered("trust")
    command.folder.write(TOOLS + "greet.md", GREET.replace("hello", "evil"))
    assert list(find().definitions) == []

    status, text = answered("trust", TOOLS + "greet.md")

    assert status == 0
    assert "| -echo hello\r\n| +echo evil" in text or "| -echo hello\n| +echo evil" in text
    assert list(find().definitions) == ["greet"]


def test_a_folder_is_trusted_file_by_file(command, answered):
    command.folder.write(TOOLS + "f/tool.md", "---\nname: f\n---\n")
    command.folder.write(TOOLS + "f/lib/script.sh", "true\n")

    assert answered("trust", TOOLS + "f", times=2)[0] == 0

    assert trusts(command, TOOLS + "f/tool.md")
    assert trusts(command, TOOLS + "f/lib/script.sh")


def test_without_tools_there_is_nothing_to_trust(answered):
    assert answered("trust", times=0)[0] == 0


@pytest.mark.parametrize("words", [(), ("mine",), ("mine/greet.md",)])
def test_a_tool_in_a_named_folder_of_the_workspace_is_trusted_like_the_projects(command, answered, words):
    command.folder.write("mine/greet.md", GREET)
    command.environ["HILT_TOOLS_DIR"] = "mine"
    assert b"untrusted" in command.run("call", "greet").stderr

    status, text = answered("trust", *words)

    assert (status, "| echo hello" in text) == (0, True)
    assert b"hello" in command.run("--approve", "once", "call", "greet").stdout


def test_a_tool_outside_a_project_needs_no_trust(command, answered):
    command.folder.write("elsewhere/a.md", GREET)

    status, text = answered("trust", "elsewhere/a.md", times=0)

    assert status == 1
    assert "needs no trust" in text


@pytest.mark.parametrize("words", [["trust"], ["install", "x.md"], ["remove", "x"]])
def test_only_a_user_at_a_terminal_may_trust_or_install_tools(command, run, words):
    command.folder.write(TOOLS + "greet.md", GREET)
    command.folder.write("x.md", GREET)

    done = run(*words)

    assert done.returncode == 1
    assert "requires a person at a terminal" in done.stderr
    assert not os.path.exists(own(command))
    assert not trusts(command, TOOLS + "greet.md")


# --- install and remove ---------------------------------------------------------------------------------------------


def folder_files(name: str = "f") -> dict[str, str]:
    front = f"name: {name}\nscript: script.sh\nruntime: bash\nenv: [MY_KEY]\ninputSchema: {{type: object}}"
    return {
        f"{name}/tool.md": f"---\n{front}\noutputSchema: {{}}\n---\nDo.\n",
        f"{name}/script.sh": "echo '{}'\n",
    }


def archived(path: str, files: Mapping[str, str]) -> str:
    if path.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as zipped:
            for name, text in files.items():
                zipped.writestr(name, text)
        return path
    with tarfile.open(path, "w:gz") as tarred:
        for name, text in files.items():
            item = tarfile.TarInfo(name)
            item.size = len(text.encode())
            tarred.addfile(item, io.BytesIO(text.encode()))
    return path


@pytest.fixture(params=["path", "folder", "zip", "tgz", "git"])
def source(command, request, tmp_path) -> str:
    """The same tool in every format that can be installed."""
    files = folder_files()
    if request.param in ("zip", "tgz"):
        return archived(str(tmp_path / f"a.{request.param}"), {f"top-1.0/{name}": text for name, text in files.items()})
    place = tmp_path / "source"
    for name, text in {**files, "README.md": "# words\n"}.items():
        path = place / ("tools" if request.param == "git" else "") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if request.param != "git":
        return str(place / "f") if request.param == "path" else str(place)
    committed(str(place), command.environ)
    return f"file://{place}"


def committed(place: str, environ: Mapping[str, str]) -> None:
    """Commit all files of a folder to a new repository."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", place]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True, env=environ)


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_a_tool_is_shown_and_installed_when_the_user_agrees(command, answered, find, source, typed):
    status, text = answered("install", source, typed=typed)

    for fact in ("| echo '{}'", "runtime bash", "environment: MY_KEY", "sandbox: none", "approval: "):
        assert fact in text
    assert status == (0 if typed == "y\n" else 1)
    if typed != "y\n":
        assert not os.path.exists(own(command, "f"))
        return
    assert list(find().definitions) == ["f"]
    assert sorted(os.listdir(own(command))) == [".installed.json", "f"]
    with open(own(command, ".installed.json"), encoding="utf-8") as file:
        record = json.load(file)
    installed = {name.removeprefix("f/"): text.encode() for name, text in folder_files().items()}
    assert record == {"f": {"from": source, "checksum": fingerprint(installed)}}
    assert record["f"]["checksum"] in text


def test_a_repository_is_fetched_with_no_git_from_the_workspace_that_is_named(command, tmp_path):
    mark, planted, empty = tmp_path / "mark", tmp_path / "workspace/bin/git", tmp_path / "elsewhere"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    planted.chmod(0o755)
    empty.mkdir()
    path = f"{planted.parent}:{command.environ['PATH']}"
    words = ["--workspace", str(tmp_path / "workspace"), "tools", "install", f"file://{empty}"]
    with Screen([HILT, *words], env={**command.environ, "PATH": path, "TERM": "dumb"}, cwd=str(empty)) as screen:
        screen.end()

    assert "git could not fetch" in screen.text
    assert not mark.exists()


def test_a_repository_that_redirects_is_not_followed(answered):
    with serving(b"") as other, serving(redirect(other.url("/words.git"))) as site:
        status, text = answered("install", site.url("/words.git"), times=0)

    assert status != 0
    assert "git could not fetch" in text
    assert (len(site.requests), other.requests) == (1, [])


def test_a_fetch_that_takes_longer_says_so(command):
    said = threading.Event()

    def late(_: Request) -> bytes:
        said.wait(60)
        return answer(status="404 Not Found")

    with serving(late) as site:
        words = [HILT, "tools", "install", site.url("/words.git")]
        with Screen(words, env={**command.environ, "TERM": "xterm"}, cwd=command.folder.path) as screen:
            screen.expect("… fetching the tools, ")
            said.set()
            screen.expect("git could not fetch")


@pytest.mark.parametrize(
    "source, name",
    [("words.git", "words"), ("words-1.0.tgz", "words-1.0"), ("my words.zip", "my-words"), (".zip", "tool")],
)
def test_a_source_that_is_itself_a_tool_gives_the_name(command, answered, tmp_path, source, name):
    files = {path.removeprefix("f/"): text for path, text in folder_files().items()}
    place = tmp_path / source
    if source.endswith(".git"):
        place.mkdir()
        for path, text in files.items():
            (place / path).write_text(text)
        committed(str(place), command.environ)
        status, text = answered("install", f"file://{place}/")
    else:
        status, text = answered("install", archived(str(place), files))

    assert (status, f"Install it as {own(command, name)}?" in text) == (0, True)
    assert sorted(os.listdir(own(command, name))) == ["script.sh", "tool.md"]


@pytest.mark.parametrize("change", ["the script", "a new file", "a file that went", "a link"])
def test_an_installed_tool_that_was_changed_is_reported(command, answered, run, tmp_path, change):
    place = tmp_path / "source"
    for name, text in folder_files().items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    answered("install", str(place / "f"))
    tools = [sys.executable, "-m", "hilt", "tools"]
    note = f"{own(command, 'f')}: note: changed since installation"

    def text_of(*words: str) -> str:
        return subprocess.run(
            [*tools, *words], env=command.environ, cwd=command.folder.path, capture_output=True, text=True, timeout=60
        ).stdout

    assert note not in text_of("check")
    assert "changed since installed" not in text_of("list")

    script = next(name for name in os.listdir(own(command, "f")) if name.endswith(".sh"))
    path = own(command, f"f/{script}")
    if change == "the script":
        with open(path, "a", encoding="utf-8") as file:
            file.write("# more\n")
    elif change == "a new file":
        with open(own(command, "f/new"), "w", encoding="utf-8"):
            pass
    else:
        os.unlink(path)
        if change == "a link":
            os.symlink("/etc/hostname", path)

    assert note in text_of("check")
    assert note in text_of("check", own(command, "f"))
    assert f"changed since installation:\n  {own(command, 'f')}\n" in text_of("list")


def test_a_removed_tool_is_not_reported_as_changed(command, answered, run, tmp_path):
    (tmp_path / "greet.md").write_text(GREET)
    answered("install", str(tmp_path / "greet.md"))

    os.unlink(own(command, "greet.md"))

    assert "changed" not in run("check").stdout


def test_a_program_is_not_run_to_be_shown(command, answered, tmp_path):
    ran = tmp_path / "ran"
    path = tmp_path / "p.py"
    path.write_text(f"from hilt import tool\nopen({str(ran)!r}, 'w')\n")

    status, text = answered("install", str(path))

    assert (status, ran.exists()) == (0, False)
    assert "it has all your permissions" in text
    assert os.path.exists(own(command, "p.py"))


def test_executables_of_a_folder_stay_executable(command, answered, tmp_path):
    place = tmp_path / "f"
    place.mkdir()
    (place / "tool.md").write_text(folder_files()["f/tool.md"])
    (place / "script.sh").write_text("#!/bin/sh\n")
    (place / "script.sh").chmod(0o755)

    assert answered("install", str(place))[0] == 0

    assert os.stat(own(command, "f/script.sh")).st_mode & stat.S_IXUSR
    assert not os.stat(own(command, "f/tool.md")).st_mode & stat.S_IXUSR


def test_the_installed_files_are_the_shown_files(command, at_terminal, tmp_path):
    path = tmp_path / "greet.md"
    path.write_text(GREET)

    with at_terminal("install", str(path)) as screen:
        screen.expect("[y/n] > ")
        path.write_text(GREET.replace("hello", "evil"))
        screen.type("y\n")
        assert screen.end()[0] == 0

    with open(own(command, "greet.md"), encoding="utf-8") as file:
        assert file.read() == GREET


@pytest.mark.parametrize(
    "name, says",
    [
        ("../evil/tool.md", "is outside its folder"),
        ("/tmp/evil/tool.md", "is outside its folder"),
        ("f/../../tool.md", "is outside its folder"),
        ("nothing.txt", "contains no tool"),
    ],
)
@pytest.mark.parametrize("suffix", [".zip", ".tgz"])
def test_an_invalid_archive_is_refused(command, answered, tmp_path, suffix, name, says):
    path = archived(str(tmp_path / f"a{suffix}"), {name: "x"})

    status, text = answered("install", path, times=0)

    assert (status, says in text) == (1, True), text
    assert not os.path.exists(own(command))


def test_links_and_bombs_in_archives_are_refused(command, answered, tmp_path):
    link = str(tmp_path / "link.tgz")
    with tarfile.open(link, "w:gz") as tarred:
        item = tarfile.TarInfo("f/tool.md")
        item.type, item.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tarred.addfile(item)
    bomb = str(tmp_path / "bomb.zip")
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("f/tool.md", b"0" * (20 << 20))
    torn = tmp_path / "torn.zip"
    torn.write_bytes(b"PK\x03\x04 nothing")
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 64 << 20
    headers = str(tmp_path / "headers.tgz")
    with gzip.open(headers, "wb") as packed:
        packed.write(header.tobuf(tarfile.USTAR_FORMAT) + bytes(header.size))
    slow = str(tmp_path / "slow.tgz")
    header.size = 4 << 20
    with gzip.open(slow, "wb") as packed:
        # a number without an end: tarfile searches it from every digit
        packed.write(header.tobuf(tarfile.USTAR_FORMAT) + b"0" * header.size)
    negative = str(tmp_path / "negative.tgz")
    header.size = 12
    with gzip.open(negative, "wb") as packed:
        packed.write(header.tobuf(tarfile.USTAR_FORMAT) + b"12 size=-99\n" + bytes(500) + tarfile.TarInfo("a").tobuf())
    hidden = archived(str(tmp_path / "hidden.tgz"), {".installed.json/tool.md": folder_files()["f/tool.md"]})

    for path, says in (
        (headers, "larger than 16 MiB uncompressed"),
        (slow, "takes more than 3 seconds"),
        (negative, "more than 500 files or 8 MiB"),
        (hidden, "has the hidden name"),
        (link, "not a regular file"),
        (bomb, "more than 500 files or 8 MiB"),
        (torn, "cannot be unpacked"),
    ):
        status, text = answered("install", str(path), times=0)
        assert (status, says in text) == (1, True), text


def test_links_in_a_folder_are_refused(command, answered, tmp_path):
    place = tmp_path / "f"
    place.mkdir()
    (place / "tool.md").write_text(folder_files()["f/tool.md"])
    (place / "script.sh").symlink_to("/etc/passwd")

    status, text = answered("install", str(place), times=0)

    assert (status, "not a regular file" in text) == (1, True)


def test_an_existing_tool_is_not_replaced(command, answered, tmp_path):
    path = tmp_path / "greet.md"
    path.write_text(GREET)
    answered("install", str(path))
    path.write_text(GREET.replace("hello", "evil"))

    status, text = answered("install", str(path), times=0)

    assert (status, "already_exists" in text) == (1, True)


def test_a_missing_source_is_reported(answered):
    assert "does not exist" in answered("install", "nothing", times=0)[1]
    assert "git could not fetch" in answered("install", "file:///nothing/of/this", times=0)[1]


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_a_tool_is_removed_when_the_user_agrees(command, answered, tmp_path, find, typed):
    place = tmp_path / "source"
    for name, text in folder_files().items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    (tmp_path / "greet.md").write_text(GREET)
    answered("install", str(place))
    answered("install", str(tmp_path / "greet.md"))

    status, _ = answered("remove", "f", typed=typed)

    remaining = ["greet"] if typed == "y\n" else ["f", "greet"]
    assert (status, sorted(find().definitions)) == (0 if typed == "y\n" else 1, remaining)
    with open(own(command, ".installed.json"), encoding="utf-8") as file:
        assert sorted(json.load(file)) == (["greet.md"] if typed == "y\n" else ["f", "greet.md"])


def test_a_link_is_removed_and_its_target_is_kept(command, answered, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "tool.md").write_text(folder_files()["f/tool.md"])
    os.makedirs(own(command))
    os.symlink(tmp_path / "kept", own(command, "f"))

    assert answered("remove", "f")[0] == 0

    assert not os.path.lexists(own(command, "f"))
    assert (tmp_path / "kept" / "tool.md").exists()


@pytest.mark.parametrize(
    "file, name",
    [("some file.md", "greet"), ("some file.md", "some file"), ("some file.md", "some file.md"), ("greet.md", "greet")],
)
def test_a_tool_is_removed_by_its_name_and_by_that_of_its_file(command, answered, file, name):
    os.makedirs(own(command), exist_ok=True)
    for written in (file, "other.md"):
        with open(own(command, written), "w", encoding="utf-8") as opened:
            opened.write(GREET if written == file else GREET.replace("name: greet", "name: other"))

    status, _ = answered("remove", name)

    assert (status, os.listdir(own(command))) == (0, ["other.md"])


@pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")
@pytest.mark.parametrize("sandbox, remaining", [("declared", ["loaded"]), ("read-only", [])])
def test_removing_a_tool_loads_modules_as_the_settings_say(command, answered, sandbox, remaining):
    command.environ["HILT_CUSTOM_SANDBOX"] = sandbox
    os.makedirs(own(command))
    module = "from contextlib import suppress\nfrom hilt import tool\n\n@tool\ndef greet() -> str:\n    'Greet.'\n"
    module += f"\nwith suppress(OSError):\n    open({command.folder.join('loaded')!r}, 'w')\n"
    with open(own(command, "file.py"), "w", encoding="utf-8") as file:
        file.write(module)

    status, _ = answered("remove", "greet")

    assert (status, os.listdir(own(command)), list(command.folder.tree())) == (0, [], remaining)


def test_a_dangling_link_is_removed(command, answered):
    os.makedirs(own(command), exist_ok=True)
    os.symlink("nowhere", own(command, "gone.md"))

    status, _ = answered("remove", "gone")

    assert (status, os.listdir(own(command))) == (0, [])


def test_a_missing_tool_cannot_be_removed(answered):
    status, text = answered("remove", "../x", times=0)

    assert (status, "There is no tool" in text) == (1, True)
