from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hilt.surfaces import OPTIONS, split
from hilt.surfaces.cli import help_text
from hilt.surfaces.cli.command_table import COMMANDS, GROUPS, parser_of
from hilt.surfaces.cli.parsing import Parser


def with_those_below(parser: Parser) -> Iterator[Parser]:
    yield parser
    for below in parser.commands.values():
        yield from with_those_below(below)


PARSERS = {parser.prog: parser for name in COMMANDS for parser in with_those_below(parser_of(name))}
SHOWN = {prog: parser for prog, parser in PARSERS.items() if not parser.hidden}


@pytest.mark.parametrize("prog", SHOWN)
def test_the_help_of_a_command_is_its_own_with_examples_and_fits_80_columns(prog):
    parser = SHOWN[prog]

    text = help_text.of(parser)

    lines = text.splitlines()
    assert lines[0] == f"{parser.summary}."
    assert f"Usage: {prog} [OPTIONS]" in text
    assert [line for line in lines if len(line) > 80] == []
    assert all(f"  {name} " in text for name, below in parser.commands.items() if not below.hidden)
    assert all(option in text for action in parser.flags for option in action.option_strings)
    assert prog in text.partition("\nExamples:\n")[2]


def test_no_word_of_a_help_is_broken():
    for parser in SHOWN.values():
        words = set(help_text.of(parser).split())
        assert set(parser.details.split()) <= words
        for action in (*parser.flags, *parser.arguments):
            assert {word.rstrip(":") for word in str(action.help).split()} <= {word.rstrip(":") for word in words}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_examples_and_all_of_them_parse(name):
    top = parser_of(name)
    examples = [example for parser in with_those_below(top) for example, _ in parser.examples]

    assert examples
    for example in examples:
        words = shlex.split(example.partition("|")[0].partition(">")[0].replace('eval "$(', "").replace(')"', ""))
        if words[:1] != ["hilt"]:
            continue
        _, rest = split(words[1:])
        parser, rest = parser_of(rest[0]).reached(rest[1:])
        if "--help" not in rest:
            parser.read(rest)


def test_every_command_is_in_one_group_on_its_own_line():
    lines = help_text.overview().splitlines()

    assert sum(map(len, GROUPS.values())) == len(COMMANDS)
    for name, command in COMMANDS.items():
        assert [line for line in lines if line.split()[:1] == [name]] == [f"  {name:<10}  {command.summary}"]
    assert all(f"  --{name} " in help_text.overview() for name in OPTIONS)
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize(
    "words, first",
    [
        (["audit", "--help"], "List recorded calls, and verify the audit trail."),
        (["audit", "-h"], "List recorded calls, and verify the audit trail."),
        (["help", "audit"], "List recorded calls, and verify the audit trail."),
        (["audit", "verify", "--help"], "Check that no row was changed, removed or added."),
        (["audit", "--limit", "2", "--help"], "List recorded calls, and verify the audit trail."),
        (["tools", "new", "--help"], "Write a working example of a tool to start from."),
        (["stdio", "--help"], "Serve requests as JSON lines until the input ends."),
        (["mcp", "install", "--help"], "Add hilt to the MCP servers of a host."),
        (["--workspace", ".", "call", "--help"], "Call a tool from the command line."),
        (["call", "read_file", "--help"], "read_file"),
        (["help"], "hilt, the tool runtime for AI agents"),
    ],
)
def test_help_belongs_to_the_command(command, words, first):
    done = command.run(*words)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines()[0] == first


@pytest.mark.parametrize(
    "words, message, where",
    [
        (["adit"], "unknown command 'adit'; did you mean audit?", "hilt"),
        (["xyzzy"], "unknown command 'xyzzy'", "hilt"),
        (["--worksapce", "."], "unknown option '--worksapce'; did you mean --workspace?", "hilt"),
        (["audit", "--limt", "2"], "unknown option '--limt'; did you mean --limit?", "hilt audit"),
        (["audit", "--sesion=x"], "unknown option '--sesion'; did you mean --session?", "hilt audit"),
        (["audit", "verfy"], "unknown command 'verfy' for hilt audit; did you mean verify?", "hilt audit"),
        (["audit", "--lim", "2"], "unknown option '--lim'; did you mean --limit?", "hilt audit"),
        (["grants", "revoke", "--jsn"], "unknown option '--jsn'", "hilt grants revoke"),
        (["tools", "show"], "missing required argument: TOOL", "hilt tools show"),
        (["config"], "hilt config needs a command: show, check", "hilt config"),
        (["resident"], "hilt resident needs a command: start, stop, status", "hilt resident"),
        (["audit", "--limit"], "--limit needs a value", "hilt audit"),
        (["serve", "--port", "many"], "--port takes an integer from 0 to 65535, not 'many'", "hilt serve"),
        (["audit", "--json=1"], "--json takes no value", "hilt audit"),
        (["stats", "--json", "--prometheus"], "--prometheus cannot be used with --json", "hilt stats"),
        (["completion", "bsh"], "SHELL takes bash, zsh, fish, not 'bsh'; did you mean bash?", "hilt completion"),
        (["doctor", "x"], "unexpected argument 'x'", "hilt doctor"),
        (["call", "read_file", "pth=a"], "unknown argument 'pth'; did you mean path?", "hilt call read_file"),
        (["call", "read_file", "a"], "'a' is not KEY=VALUE", "hilt call read_file"),
        (["approve", "shw", "4c1e"], "unknown command 'shw' for hilt approve; did you mean show?", "hilt approve"),
        (["trust", "revok", "a"], "unknown command 'revok' for hilt trust; did you mean revoke?", "hilt trust"),
        (["approve", "4c1e", "4c1f"], "unexpected argument '4c1f'", "hilt approve"),
        (["--profile", "nan", "tools"], "--profile takes nano, minimal, full, not 'nan'; did you mean nano?", "hilt"),
    ],
)
def test_a_typo_suggests_the_nearest_word(command, words, message, where):
    done = command.run(*words)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"hilt: {message}\nTry {where} --help.\n"


def test_global_options_work_before_and_after_the_command(command):
    for words in (["--session", "s", "sessions", "end"], ["sessions", "end", "--session=s"]):
        assert command.run(*words).stdout == b"session s has not been used here\n"


def test_after_two_dashes_everything_is_an_argument(command):
    command.folder.write("--raw", "x\n")

    done = command.run("call", "read_file", "--", "path=--raw", "line_numbers=false")

    assert b"x" in done.stdout
    assert command.run("tools", "show", "--", "--json").stderr.startswith(b"unknown_tool: ")


def test_words_and_options_may_be_mixed(command):
    command.folder.write("a.txt", "one\ntwo\n")

    done = command.run("call", "--raw", "read_file", "path=a.txt", "--json", '{"tail": 1}', "line_numbers=false")

    assert b'"result":"two"' in done.stdout


def test_only_the_module_of_the_command_is_imported():
    script = "import sys; from hilt.surfaces.cli import main; main(['audit', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    loaded = {name for name in done.stdout.split() if name.startswith("hilt.surfaces.cli.")}
    assert loaded & {f"hilt.surfaces.cli.{name}" for name in COMMANDS} == {"hilt.surfaces.cli.audit"}
    assert "hilt.runtime" not in done.stdout.split()
