"""The documentation is correct: its examples run, its links resolve, its tables are complete.

The examples of a page run in one shell. In a block marked `console`, `$ ` begins a command, `> ` continues it, and the
lines after it are its output. A block marked `bash` or `python` is run unchanged, and the `text` block that follows is
its output. A block with a path after the language is a file to save there. `...` matches any lines, or any text within
a line. Times, durations, ids, checksums and the version are not compared. Blocks marked `sh` are not run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from hilt.catalog import built_in_names, dialect
from hilt.choices import dialect_names
from hilt.config import KEYS, load, variable_of
from hilt.errors import CODES
from hilt.surfaces.cli.command_table import COMMANDS
from hilt.testing import environment
from scripts import site
from tests.agents.model_server import ScriptedCall, Turn, serving_model
from tests.programs import needs_sandbox

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *ROOT.glob("docs/**/*.md")])
ADD_A_TOOL = ROOT / "docs/guides/add-a-tool.md"
FIRST_AGENT = ROOT / "docs/guides/first-agent.md"

SKIPPED = {".git", ".venv", "venv", "build", "dist", "__pycache__"}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# --- the examples -------------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """A fenced block: its language, the path after it, its lines, and the number of the first line."""

    language: str
    path: str
    lines: list[str]
    at: int


class Example(NamedTuple):
    """A command and its expected output."""

    at: int
    command: str
    expected: list[str]


def blocks(page: Path) -> list[Block]:
    result: list[Block] = []
    block: Block | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        if block is None and line.startswith("```"):
            language, _, path = line[3:].partition(" ")
            block = Block(language, path, [], number + 1)
        elif block is not None and line == "```":
            result.append(block)
            block = None
        elif block is not None:
            block.lines.append(line)
    assert block is None, f"{page.name} has an unclosed block"
    return result


RUN = ("console", "bash", "python")
PAGES = [page for page in DOCUMENTS if any(block.language in RUN for block in blocks(page))]


def examples(page: Path, scripts: Path) -> Iterator[Example]:
    page_blocks = blocks(page)
    for index, block in enumerate(page_blocks):
        following = page_blocks[index + 1] if index + 1 < len(page_blocks) else None
        expected = following.lines if following is not None and following.language == "text" else []
        if block.language == "console":
            yield from typed(block)
        elif block.path:
            script = saved(block, scripts)
            folder = os.path.dirname(block.path) or "."
            yield Example(block.at, f"mkdir -p {folder} && cp {script} {block.path}", [])
        elif block.language == "bash":
            yield Example(block.at, "\n".join(block.lines), expected)
        elif block.language == "python":
            yield Example(block.at, f"python {saved(block, scripts)}", expected)


def typed(block: Block) -> Iterator[Example]:
    commands: list[Example] = []
    for number, line in enumerate(block.lines, block.at):
        if line.startswith("$ "):
            commands.append(Example(number, line[2:], []))
        elif line.startswith("> ") or line == ">":
            last = commands.pop()
            commands.append(last._replace(command=f"{last.command}\n{line[2:]}"))
        else:
            commands[-1].expected.append(line)
    return iter(commands)


def saved(block: Block, scripts: Path) -> Path:
    path = scripts / f"line-{block.at}"
    path.write_text("\n".join(block.lines) + "\n", encoding="utf-8")
    return path


def plain(text: str) -> str:
    """Return the text with everything that varies between runs replaced by a placeholder."""
    text = re.sub(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+Z)?", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "CHECKSUM", text)
    text = re.sub(r"\b[0-9a-f]{12}\b", "ID", text)
    text = re.sub(r"\b(hilt +|version )\d+\.\d+\.\d+\b", r"\1VERSION", text)
    text = re.sub(r" +\d+\.\d ms", " N ms", text)
    text = re.sub(r"\bin \d+\.\d+s\b", "in Ns", text)
    text = re.sub(r'"ms":\d+(?:\.\d+)?', '"ms":N', text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def pattern(expected: list[str]) -> re.Pattern[str]:
    parts = []
    for line in expected:
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(re.escape(plain(line)).replace(re.escape("..."), ".*") + r"\n")
    return re.compile("".join(parts))


def own_environment(base: Path) -> dict[str, str]:
    """Return the environment of a user without any hilt variables."""
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "LANG": "C.UTF-8", "HOME": str(base / "home"), "TMPDIR": str(base / "tmpdir")}
    for name in ("HOME", "TMPDIR"):
        os.makedirs(env[name])
    return env


def follow(page: Path, base: Path, workspace: Path, env: dict[str, str]) -> None:
    """Run all commands of the page, in order, in one shell, and compare the output."""
    scripts = base / "scripts"
    scripts.mkdir()
    expected = list(examples(page, scripts))
    assert expected, f"{page.name} has no examples"
    lines = [f"{example.command}\nprintf '\\n@@ %s\\n' {example.at}" for example in expected]
    script = scripts / "page.sh"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        done = subprocess.run(
            ["sh", "-u", str(script)],  # an unset variable must not resolve to the root folder
            cwd=workspace,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,  # a page takes seconds; machines may be busy
        )
    finally:
        subprocess.run(["hilt", "resident", "stop"], env=env, cwd=workspace, capture_output=True)
    report = "\n".join(differences(page, expected, done.stdout.decode()))
    if report:
        pytest.fail(report, pytrace=False)


def differences(page: Path, examples: list[Example], printed: str) -> Iterator[str]:
    for example in examples:
        output, mark, printed = printed.partition(f"\n@@ {example.at}\n")
        location = f"{name_of(page)}:{example.at}\n$ {example.command}\n"
        if not mark:
            yield f"{location}--- ended the shell\n{output}"
            return
        output = output if output.endswith("\n") or not output else output + "\n"
        if not pattern(example.expected).fullmatch(plain(output)):
            expected = "\n".join(example.expected)
            yield f"{location}--- expected\n{expected}\n--- printed\n{output}"


def runs_commands(page: Path) -> bool:
    """Whether an example of a page runs a command, which prompts first if there is no full sandbox."""
    return any("run_shell" in line for block in blocks(page) if block.language in RUN for line in block.lines)


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[needs_sandbox] if runs_commands(page) else [])
        for page in PAGES
        if page not in (ADD_A_TOOL, FIRST_AGENT)
    ],
)
def test_the_examples_of_a_page_print_what_it_shows(page, tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    follow(page, tmp_path, workspace, own_environment(tmp_path))


@pytest.mark.starts_processes
def test_the_first_agents_recover_from_a_models_mistake(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    turns = [
        Turn(calls=[ScriptedCall("read_file", {"path": "sums.py"})]),
        Turn(calls=[edit_of("a-b", "a + b")]),
        Turn(calls=[edit_of("a - b", "a + b")]),
        Turn("`add` now adds."),
    ]
    with serving_model(*turns, key="secret", repeat=True) as server:
        addresses = {"ANTHROPIC_BASE_URL": server.url, "OPENAI_BASE_URL": server.openai_url}
        keys = {"ANTHROPIC_API_KEY": "secret", "OPENAI_API_KEY": "secret"}
        follow(FIRST_AGENT, tmp_path, workspace, {**own_environment(tmp_path), **addresses, **keys})

    assert len(server.prompts) == 3 * len(turns)
    programs = [block for block in blocks(FIRST_AGENT) if block.path]
    assert [program.path for program in programs if len(program.lines) > 40] == []


def edit_of(old_text: str, new_text: str) -> ScriptedCall:
    return ScriptedCall("edit_file", {"path": "sums.py", "old_text": old_text, "new_text": new_text})


@pytest.mark.starts_processes
def test_adding_a_tool_by_the_guide_takes_one_source_file(tmp_path):
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "src", checkout / "src")  # with its bytecode, or every command would compile it
    (checkout / "tests").mkdir()
    for name in ("conftest.py", "probed.py"):
        shutil.copy(ROOT / "tests" / name, checkout / "tests")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    before = contents(checkout / "src")
    env = {**own_environment(tmp_path), "PYTHONPATH": str(checkout / "src")}

    follow(ADD_A_TOOL, tmp_path, checkout, env)

    after = contents(checkout / "src")
    added = after.keys() - before.keys()
    assert len(added) == 1
    assert {path: after[path] for path in before} == before


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- the tour -----------------------------------------------------------------------------------------------------


def tour(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "scripts/tour.sh")]
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


@pytest.mark.starts_processes
def test_the_tour_succeeds_cleans_up_and_fits_80_columns_without_colour(tmp_path):
    env = own_environment(tmp_path)

    done = tour(env)

    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(env["TMPDIR"]) == []
    assert os.listdir(env["HOME"]) == []
    lines = done.stdout.split("\n")
    assert [line for line in lines if len(line) > 80 and not line.startswith('{"ok":')] == []
    assert not any("\x1b" in line for line in lines)


@pytest.mark.starts_processes
def test_the_tour_stops_with_an_error_when_a_step_fails(tmp_path):
    env = own_environment(tmp_path)
    real = shutil.which("hilt", path=env["PATH"])
    broken = tmp_path / "bin" / "hilt"
    broken.parent.mkdir()
    broken.write_text(f'#!/bin/sh\n[ "$2" != apply_patch ] || exit 1\nexec {real} "$@"\n')
    broken.chmod(0o755)

    done = tour({**env, "PATH": f"{broken.parent}{os.pathsep}{env['PATH']}"})

    assert done.returncode == 1
    assert "this command failed: hilt call apply_patch" in done.stderr


@pytest.mark.starts_processes
def test_the_animation_of_the_readme_can_be_recorded(tmp_path):
    cast = tmp_path / "tour.cast"
    env = own_environment(tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "scripts.recording", str(cast)], cwd=ROOT, env=env, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    head, *events = [json.loads(line) for line in cast.read_text(encoding="utf-8").splitlines()]
    printed = "".join(text for _, _, text in events)
    assert head["version"] == 2
    for text in ("wants to change files", "restored 1 file"):
        assert text in printed
    assert "/tmp/" not in printed
    assert events[0][0] == 0
    assert "hilt run" in events[0][2]  # the first frame says something
    assert 8 < events[-1][0] < 12


def test_the_animation_of_the_readme_is_small():
    assert 0 < (ROOT / "docs/images/tour.svg").stat().st_size < 300_000


# --- the site -----------------------------------------------------------------------------------------------------


def nav_pages(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from nav_pages(below)


def test_the_navigation_of_the_site_lists_every_page_once():
    listed = list(nav_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))

    pages = [page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")]
    records = [page for page in pages if re.fullmatch(r"adr/\d{4}-.*", page)]  # listed in adr/README.md
    assert sorted(listed) == sorted({*pages, *site.ELSEWHERE.values()} - {*records})


def test_console_blocks_of_the_site_can_be_pasted(tmp_path):
    for page in DOCUMENTS:
        for block in blocks(page):
            if block.language == "console":
                staged = tmp_path / "staged.md"
                staged.write_text(site.staged_block("\n".join(["```console", *block.lines, "```"])), encoding="utf-8")
                pasted = [line for part in blocks(staged) if part.language == "bash" for line in part.lines]
                assert pasted == "\n".join(example.command for example in typed(block)).split("\n"), name_of(page)


def test_dead_links_of_the_built_site_are_found(tmp_path):
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide/index.html").write_text('<h2 id="top">Guide</h2><a href="../#home">up</a>')
    (tmp_path / "index.html").write_text(
        '<p id="home"></p><a href="guide/#top"></a><a href="guide/#gone"></a><a href="missing/"></a>'
        '<script src="https://elsewhere.example/a.js"></script><a href="https://elsewhere.example/">fine</a>'
    )

    assert list(site.problems(tmp_path)) == [
        "index.html loads https://elsewhere.example/a.js",
        "index.html: guide/#gone has no such heading",
        "index.html: missing/ does not exist",
    ]


@pytest.mark.starts_processes
@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_shell_blocks_are_commands_without_prompts(page):
    for block in blocks(page):
        if block.language in ("sh", "bash"):
            script = "\n".join(block.lines)
            assert not re.search(r"^[$>] ", script, flags=re.MULTILINE), f"{name_of(page)}:{block.at}"
            done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, ""), f"{name_of(page)}:{block.at}"
            for command in re.findall(r"^hilt (?:--\S+ \S+ )*([a-z]+)", script, flags=re.MULTILINE):
                assert command in COMMANDS, f"{name_of(page)}:{block.at}"


# --- reference pages, links and tables ----------------------------------------------------------------------------


@pytest.mark.starts_processes
@pytest.mark.parametrize("script", ["reference", "rooms"])
def test_what_is_generated_matches_the_code(script: str):
    command = [sys.executable, "-m", f"scripts.{script}", "--check"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_relative_to(ROOT):
            yield f"{name_of(page)}: {link} leaves the repository"
        elif not target.exists():
            yield f"{name_of(page)}: {link} does not exist"
        elif anchor and anchor not in anchors(target):
            yield f"{name_of(page)}: {link} has no such heading"


def test_every_relative_link_resolves():
    assert [link for page in DOCUMENTS for link in broken_links(page)] == []


def test_every_page_is_reachable_from_the_readme():
    reached: set[Path] = set()
    pending = [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in reached:
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", prose(page))
        targets = [(page.parent / link).resolve() for link in links if not re.match(r"[a-z]+:", link)]
        pending += [target for target in targets if target.suffix == ".md" and target.exists()]

    assert {name_of(page) for page in DOCUMENTS} - {name_of(page) for page in reached} == set()


def first_cells(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


def test_the_protocol_page_lists_every_error_code_once():
    cells = first_cells("docs/protocol.md")

    assert [code for code in CODES if cells.count(code) != 1] == []


def test_the_troubleshooting_page_lists_every_error_code_once():
    cells = first_cells("docs/troubleshooting.md")

    assert [code for code in CODES if cells.count(code) != 1] == []


def test_reserved_codes_are_exactly_those_that_no_tool_returns():
    table = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    sources = [path for path in (ROOT / "src/hilt").rglob("*.py") if path.name != "errors.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)

    for name in CODES:
        assert (f"| `{name}` | reserved |" in table) is (f'"{name}"' not in code), name


def test_the_configuration_page_lists_every_setting_and_its_variable():
    cells = first_cells("docs/configuration.md")
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")

    assert [key for key in KEYS if cells.count(key) != 1 or f"`{variable_of(key)}`" not in page] == []


def test_the_settings_files_in_the_configuration_page_are_valid(tmp_path):
    env = environment(str(tmp_path))
    os.makedirs(env["HILT_CONFIG_DIR"])

    for example_block in (block for block in blocks(ROOT / "docs/configuration.md") if block.language == "toml"):
        Path(env["HILT_CONFIG_DIR"], "config.toml").write_text("\n".join(example_block.lines), encoding="utf-8")
        assert "config.toml" in load(str(tmp_path), env, {}).sources.values()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_protocol_page_lists_every_command(command):
    assert f"`hilt {command}" in (ROOT / "docs/protocol.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", dialect_names())
def test_the_dialects_page_lists_every_name_with_its_tool(name):
    page = (ROOT / "docs/dialects.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.split("\n") if line.startswith("| `")]
    names = [quoted for row in rows for quoted in re.findall(r"`([^`]+)`", row[0])]

    if name == "jinn":
        assert set(names) <= set(built_in_names())
        return
    tools = [quoted for row in rows for quoted in re.findall(r"`([^`]+)`", row[1])]
    assert dict(zip(names, tools, strict=True)) == {entry.name: entry.tool for entry in dialect(name).values()}
    assert all(len(row) == 3 and row[2].removesuffix(" |").strip() for row in rows)


def repository_files() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.endswith(("_cache", ".hypothesis"))]
        yield from (Path(folder) / name for name in names if name not in SKIPPED)


def test_no_file_contains_a_path_from_a_developers_machine():
    # written in pieces, so that this file does not match
    names = ("wo" + "rk/", "ro" + "ot/", "ho" + r"me/\w", "Us" + r"ers/\w")
    places = re.compile(r"(?<![\w}\])/.~$-])/(?:" + "|".join(names) + ")")
    problems = []
    for path in repository_files():
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        problems += [f"{name_of(path)}: {match.group()}" for match in places.finditer(text)]

    assert problems == []
