from __future__ import annotations

import shutil
import signal
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.shell.exit_status import ANSWERS, Outcome, classify_exit

CLASSES = ("success", "expected_nonzero", "error", "timeout", "signal")


@pytest.mark.parametrize(
    "command",
    [
        "grep x f",
        "rg x",
        "diff a b",
        "cmp a b",
        "test -f x",
        "[ -f x ]",
        "[[ -f x ]]",
        "/usr/bin/grep x f",
        "'grep' x f",
        "cat f | grep x",
        "cat f | sort | grep x",
        "cd src && grep x f",
        "cd src; grep x f",
        "cd a && cd b && grep x f",
        "VAR=1 grep x f",
        "VAR=1; grep x f",
        "export A=1 && grep x f",
        "make; grep x f",
        "make || grep x f",
        "make\ngrep x f",
        "make & grep x f",
        "make && true || grep x f",
        "grep x f && grep y f",
        "grep x f && echo found",
        "(grep x f)",
        "(cd a && grep x f)",
        "{ make; grep x f; }",
        "if make; then grep x f; fi",
        "if a; then grep x f; else diff a b; fi",
        "if a; then grep x f; elif b; then test -f y; fi",
        "for f in a b; do grep x $f; done",
        "while read l; do grep x $l; done < f",
        "case a in a) grep x f;; b) cmp a b;; esac",
        "! grep x f",
        "! cat f | grep x",
        "env A=1 grep x f",
        "command grep x f",
        "time grep x f",
        "time -p grep x f",
        "nice -n 5 grep x f",
        "timeout 5 grep x f",
        "timeout -k 1 5 grep x f",
        "exec grep x f",
        "grep x f > out 2>&1",
        "grep x <<EOF\na\nEOF",
        "cat <<EOF | grep x\na\nEOF",
        "sh -c 'grep x f'",
        "bash -c 'cd a && grep x f'",
        "set -o pipefail; grep x f",
        "set -o pipefail; grep y g | grep x",
        "grep x f # make",
        "grep x \\\n f",
    ],
)
def test_status_1_of_a_search_or_comparison_is_an_answer(command):
    assert classify_exit(command, 1).classification == "expected_nonzero"


@pytest.mark.parametrize(
    "command, printed, expected",
    [
        ("cd a && grep x f", "bash: line 1: cd: a: No such file or directory\n", "error"),
        ("pushd a && grep x f", "bash: line 2: pushd: a: No such file or directory\n", "error"),
        ("cd a; grep x f", "bash: line 1: cd: a: No such file or directory\n", "expected_nonzero"),
        ("cd a && grep x f", "cd: a\n", "expected_nonzero"),
    ],
)
def test_a_missing_folder_is_an_error(command, printed, expected):
    assert classify_exit(command, 1, output=printed).classification == expected


@pytest.mark.parametrize(
    "command",
    [
        "make",
        "ls x",
        "echo grep",
        "grep x f | make",
        "grep x f; make",
        "grep x f || make",
        "make && grep x f",
        "npm test && grep x log",
        "grep x f && make",
        "grep x f; exit 1",
        "grep x f || exit 1",
        "set -e; make; grep x f",
        "set -euo pipefail\ngrep x f",
        "set -o pipefail; make | grep x",
        "trap 'make' EXIT; grep x f",
        "grep x f &",
        "if grep x f; then make; fi",
        "if a; then grep x f; else make; fi",
        "for x in a; do make; done",
        "(grep x f; make)",
        "! make",
        "$x",
        "$x a | $y",
        "grep() { make; }; grep x f",
        "f() { grep x f; }; f",
        "x=$(grep a b)",
        "xargs grep x",
        "find . -exec grep x {} +",
        'sh -c "$x"',
        "sh -ec 'make; grep x f'",
        "echo 'unfinished",
        "",
        "coproc grep x",
        "git diff --exit-code",
    ],
)
def test_status_1_of_other_commands_is_an_error(command):
    assert classify_exit(command, 1).classification == "error"


@pytest.mark.parametrize("command", ["grep x f", "diff a b", "test x"])
def test_only_status_1_is_an_answer(command):
    assert classify_exit(command, 0) == Outcome("success", "exit status 0")
    assert classify_exit(command, 2) == Outcome("error", "exit status 2")


@pytest.mark.parametrize(
    "command, reason",
    [
        ("grep x f", "grep: no line matched"),
        ("rg x", "rg: no line matched"),
        ("diff a b", "diff: the files differ"),
        ("cmp a b", "cmp: the files differ"),
        ("[ -f x ]", "[: the condition is false"),
        ("! grep x f", "grep succeeded, and ! negated it"),
        ("make", "make failed with exit status 1"),
        ("a && b", "exit status 1"),
    ],
)
def test_the_reason_names_the_command(command, reason):
    assert classify_exit(command, 1).reason == reason


@pytest.mark.parametrize(
    "code, signalled, expected",
    [
        (126, False, ("error", "could not be executed")),
        (127, False, ("error", "not found")),
        (124, False, ("error", "124")),
        (137, False, ("signal", "SIGKILL")),
        (139, False, ("signal", "SIGSEGV")),
        (143, False, ("signal", "SIGTERM")),
        (-9, False, ("signal", "SIGKILL")),
        (9, True, ("signal", "SIGKILL")),
        (137, True, ("signal", "SIGKILL")),
        (255, False, ("error", "255")),
        (128, False, ("error", "128")),
    ],
)
def test_other_statuses_are_explained(code, signalled, expected):
    outcome = classify_exit("make", code, signalled=signalled)

    assert outcome.classification == expected[0]
    assert expected[1] in outcome.reason


def test_only_a_command_that_hilt_stopped_timed_out():
    assert classify_exit("grep x f", 124, timed_out=True).classification == "timeout"
    assert classify_exit("timeout 1 sleep 5", 124).classification == "error"


@given(st.text(), st.integers(-70, 300), st.booleans(), st.booleans())
def test_any_text_and_status_get_a_class(command, code, timed_out, signalled):
    assert classify_exit(command, code, timed_out=timed_out, signalled=signalled).classification in CLASSES


@pytest.mark.starts_processes
@pytest.mark.parametrize("name", sorted(set(ANSWERS) - {"rg"}))
def test_the_programs_really_exit_with_1(name, tmp_path):
    (tmp_path / "a").write_text("a\n")
    (tmp_path / "b").write_text("b\n")
    line = {
        "diff": "diff a b",
        "cmp": "cmp a b",
        "test": "test -f none",
        "[": "[ -f none ]",
        "[[": "[[ -f none ]]",
    }.get(name, f"{name} zzz a")
    if shutil.which(name) is None and name not in ("[[", "[", "test"):
        pytest.skip(f"{name} is not installed")

    code = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True).returncode

    assert (code, classify_exit(line, code).classification) == (1, "expected_nonzero")


@pytest.mark.starts_processes
def test_a_child_ended_by_a_signal_is_recognized_by_the_status_of_the_shell():
    code = subprocess.run(["bash", "-c", "bash -c 'kill -SEGV $$'; exit $?"], capture_output=True).returncode

    assert classify_exit("./program", code) == Outcome(
        "signal", "a program was terminated by SIGSEGV (exit status 139)"
    )
    assert code - 128 == signal.SIGSEGV
