"""The completion scripts, run in the real shells; zsh and fish where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from hilt.choices import CHOICES
from hilt.surfaces.cli.commands import COMMANDS, parser_of
from hilt.surfaces.cli.completion import script
from tests.surfaces.commands import HILT, Command

BASH = """
source "$0"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_hilt "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def bash(command, tmp_path):
    """Return a function that completes the last of some words in bash."""
    path = tmp_path / "completion.bash"
    path.write_bytes(command.run("completion", "bash").stdout)
    command.folder.write("notes.txt", "x\n")
    command.folder.write("docs/a.txt", "x\n")

    def complete(*words: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", BASH, str(path), *words],
            env={**command.environ, "PATH": f"{os.path.dirname(HILT)}:{os.environ['PATH']}"},
            cwd=command.folder.path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr == ""
        return sorted(filter(None, done.stdout.splitlines()))

    return complete


@pytest.mark.parametrize(
    "words, completions",
    [
        (["hilt", ""], sorted(COMMANDS)),
        (["hilt", "a"], ["agents", "approve", "audit"]),
        (["hilt", "--mode", ""], sorted(CHOICES["mode"])),
        (["hilt", "--mode", "=", "p"], ["plan"]),
        (["hilt", "--mode", "plan", "undo", ""], ["clear", "last", "list", "preview", "restore"]),
        (["hilt", "audit", ""], ["head", "verify"]),
        (["hilt", "audit", "--json", "v"], ["verify"]),
        (["hilt", "audit", "--li"], ["--limit"]),
        (["hilt", "audit", "--wor"], ["--workspace"]),
        (["hilt", "audit", "verify", "--w"], ["--witness", "--workspace"]),
        (["hilt", "tools", "new", "x", "--kind", ""], ["folder", "markdown", "python"]),
        (["hilt", "tools", "show", "read"], ["read_file"]),
        (["hilt", "call", "write"], ["write_file"]),
        (["hilt", "call", "--json", "{}", "write"], ["write_file"]),
        (["hilt", "audit", "--tool", "write"], ["write_file"]),
        (["hilt", "trust", "no"], ["notes.txt"]),
        (["hilt", "call", "list_dir", "--workspace", ""], ["docs"]),
        (["hilt", "completion", ""], ["bash", "fish", "zsh"]),
        (["hilt", "mcp", "install", "cl"], ["claude", "claude-desktop"]),
        (["hilt", "--schema", ""], ["anthropic", "mcp", "openai"]),
        (["hilt", "resident", "s"], ["start", "status", "stop"]),
        (["hilt", "call", "read_file", "path=x"], []),
    ],
)
def test_bash_completes(bash, words, completions):
    assert bash(*words) == completions


def test_bash_completes_a_tool_of_the_user(bash, command):
    tools = os.path.join(command.environ["HILT_CONFIG_DIR"], "tools")
    os.makedirs(tools)
    with open(os.path.join(tools, "greet_me.md"), "w", encoding="utf-8") as file:
        file.write("---\nname: greet_me\ndescription: Greet.\n---\necho hello\n")

    assert bash("hilt", "call", "gre") == ["greet_me"]


def test_a_name_that_a_shell_would_run_is_neither_run_nor_offered(bash, command, tmp_path):
    marker = tmp_path / "marker"
    program = tmp_path / "hilt"
    program.write_text(f"#!/bin/sh\ncat <<'END'\nread_file\n$(touch {marker})\n`touch {marker}`\nread;touch\nEND\n")
    program.chmod(0o755)

    assert bash(str(program), "call", "") == ["read_file"]
    assert not marker.exists()


def test_a_path_with_any_name_is_one_completion_and_nothing_runs(bash, command):
    command.folder.write("odd*$(touch marker)", "x\n")
    command.folder.write("odd", "x\n")

    assert bash("hilt", "trust", "od") == ["odd", "odd*$(touch marker)"]
    assert not os.path.exists(command.folder.join("marker"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script_of_a_shell(shell):
    text = script(shell)

    for name in COMMANDS:
        parser = parser_of(name)
        assert name in text
        for flag in (flag for action in parser.flags for flag in action.option_strings if flag.startswith("--")):
            assert (f"-l {flag[2:]}" if shell == "fish" else flag) in text
    assert "resident serve" not in text  # it is hidden


@pytest.mark.parametrize(
    "shell, check",
    [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])],
)
def test_the_shell_can_parse_its_script(shell, check, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script(shell), encoding="utf-8")

    done = subprocess.run([*check, str(path)], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


def complete_in_fish(command: Command, line: str) -> list[str]:
    text = f'{script("fish")}\ncomplete -C "{line}"\n'
    done = subprocess.run(
        ["fish", "--no-config", "-c", text], env=command.environ, cwd=command.folder.path, capture_output=True, text=True, timeout=60  # noqa: E501
    )  # fmt: skip
    return sorted(row.split("\t")[0] for row in done.stdout.splitlines())


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    "line, completions",
    [
        ("hilt a", ["agents", "approve", "audit"]),
        ("hilt audit v", ["verify"]),
        ("hilt audit --li", ["--limit"]),
        ("hilt audit --since 1h v", ["verify"]),
        ("hilt tools new x --kind p", ["python"]),
        ("hilt --mode pl", ["plan"]),
    ],
)
def test_fish_completes(command, line, completions):
    assert complete_in_fish(command, line) == completions


ZSH = """
autoload -Uz compinit; compinit -u -D
source "$1"
compadd() { local -a given; while (($#)); do [[ $1 == -a ]] && { shift; given+=(${(P)1}); }; shift; done
  print -l -- ${(M)given:#$PREFIX*} }
_describe() { print -l -- ${(M)${items%%:*}:#$PREFIX*} }
_files() { : }
compset() { PREFIX=${PREFIX#*=} }
words=(${=2} ''); [[ $2 == *' ' ]] || words[-1]=()
CURRENT=$#words; PREFIX=$words[-1]
_hilt
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    "line, completions",
    [
        ("hilt a", ["agents", "approve", "audit"]),
        ("hilt audit v", ["verify"]),
        ("hilt audit --li", ["--limit"]),
        ("hilt tools new x --kind p", ["python"]),
        ("hilt --mode pl", ["plan"]),
        ("hilt --mode=pl", ["plan"]),
    ],
)
def test_zsh_completes(command, tmp_path, line, completions):
    path = tmp_path / "_hilt"
    path.write_text(script("zsh"), encoding="utf-8")

    done = subprocess.run(
        ["zsh", "-f", "-c", ZSH, "zsh", str(path), line], env=command.environ, capture_output=True, text=True, timeout=60  # noqa: E501
    )  # fmt: skip

    assert sorted(done.stdout.split()) == completions
