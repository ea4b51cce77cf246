"""The completion scripts, run in the real shells; zsh and fish where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from hilt.choices import choices
from hilt.surfaces.cli.command_table import COMMANDS
from tests.surfaces.commands import HILT

BASH = """
source "$0"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
_python_argcomplete hilt
printf '%s\\n' "${COMPREPLY[@]}"
"""
LINES = [
    ("hilt a", ["agents", "approve", "audit"]),
    ("hilt audit v", ["verify"]),
    ("hilt audit --li", ["--limit"]),
    ("hilt audit --since 1h v", ["verify"]),
    ("hilt tools new x --kind p", ["python"]),
    ("hilt --mode pl", ["plan"]),
]


@pytest.fixture
def bash(command, tmp_path):
    """Return a function that completes the last of some words in bash."""
    path = tmp_path / "completion.bash"
    path.write_bytes(command.run("completion", "bash").stdout)
    command.folder.write("notes.txt", "x\n")
    command.folder.write("docs/a.txt", "x\n")

    def complete(line: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", BASH, str(path), line],
            env={**command.environ, "PATH": f"{os.path.dirname(HILT)}:{os.environ['PATH']}"},
            cwd=command.folder.path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr == ""
        return sorted(filter(None, map(str.strip, done.stdout.splitlines())))

    return complete


@pytest.mark.parametrize(
    "line, completions",
    [
        *LINES,
        ("hilt ", sorted(COMMANDS)),
        ("hilt --mode ", sorted(choices("mode"))),
        ("hilt --mode=p", ["plan"]),
        ("hilt --mode plan undo ", ["clear", "last", "list", "preview", "restore"]),
        ("hilt audit ", ["head", "verify"]),
        ("hilt audit --json v", ["verify"]),
        ("hilt audit --wor", ["--workspace"]),
        ("hilt audit verify --w", ["--witness", "--workspace"]),
        ("hilt tools new x --kind ", ["folder", "markdown", "python"]),
        ("hilt tools show read", ["read_file"]),
        ("hilt call write", ["write_file"]),
        ("hilt call --json {} write", ["write_file"]),
        ("hilt audit --tool write", ["write_file"]),
        ("hilt trust no", ["notes.txt"]),
        ("hilt call list_dir --workspace ", ["docs/"]),
        ("hilt completion ", ["bash", "fish", "zsh"]),
        ("hilt mcp install cl", ["claude", "claude-desktop"]),
        ("hilt --schema ", ["anthropic", "mcp", "openai"]),
        ("hilt resident s", ["start", "status", "stop"]),  # serve is hidden
        ("hilt call read_file path=x", []),
        ("hilt nonsense ", []),
    ],
)
def test_bash_completes(bash, line, completions):
    assert bash(line) == completions


def test_bash_completes_a_tool_of_the_user(bash, command):
    tools = os.path.join(command.environ["HILT_CONFIG_DIR"], "tools")
    os.makedirs(tools)
    with open(os.path.join(tools, "greet_me.md"), "w", encoding="utf-8") as file:
        file.write("---\nname: greet_me\ndescription: Greet.\n---\necho hello\n")

    assert bash("hilt call gre") == ["greet_me"]


def test_a_path_with_any_name_is_one_completion_and_nothing_runs(bash, command):
    command.folder.write("odd*$(touch marker)", "x\n")
    command.folder.write("odd", "x\n")

    assert bash("hilt trust od") == ["odd", r"odd\*\$\(touch\ marker\)"]
    assert not os.path.exists(command.folder.join("marker"))


@pytest.mark.parametrize(
    "shell, check",
    [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])],
)
def test_the_shell_can_parse_its_script(command, shell, check, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_bytes(command.run("completion", shell).stdout)

    done = subprocess.run([*check, str(path)], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize("line, completions", LINES)
def test_fish_completes(command, line, completions):
    text = f'{command.run("completion", "fish").stdout.decode()}\ncomplete -C "{line}"\n'

    done = subprocess.run(
        ["fish", "--no-config", "-c", text],
        env={**command.environ, "PATH": f"{os.path.dirname(HILT)}:{os.environ['PATH']}"},
        cwd=command.folder.path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert sorted(row.split("\t")[0] for row in done.stdout.splitlines()) == completions


ZSH = """
autoload -Uz compinit; compinit -u -D
source "$1"
_describe() { print -l -- ${${(P)2}%%:*} }
BUFFER=$2 CURSOR=${#2} words=(${=2})
_python_argcomplete
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("line, completions", [*LINES, ("hilt --mode=pl", ["--mode=plan"])])
def test_zsh_completes(command, tmp_path, line, completions):
    path = tmp_path / "_hilt"
    path.write_bytes(command.run("completion", "zsh").stdout)

    done = subprocess.run(
        ["zsh", "-f", "-c", ZSH, "zsh", str(path), line],
        env={**command.environ, "PATH": f"{os.path.dirname(HILT)}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert sorted(done.stdout.split()) == completions
