from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import time

import pytest

from hilt.state.trail import Trail, TrailEntry, digest
from tests.surfaces.commands import HILT

SECOND = 1_000_000_000
BARS = "▁▂▃▄▅▆▇█"


@pytest.fixture
def filled(command):
    """The command, with recorded calls of the last ten hours."""
    trail = Trail(os.path.join(command.state, "trail.db"))
    now = time.time_ns()
    for number in range(100):
        tool = ["read_file", "run_shell", "a_tool_of_somebody_with_a_very_long_name"][number % 3]
        outcome = ["ok", "ok", "ok", "ok", "file_not_found"][number % 5]
        at = now - (100 - number) * 360 * SECOND
        micros = number * (50_000 if tool == "run_shell" else 10)
        trail.record(TrailEntry(at, "w", f"s{number % 2}", tool, digest({}), "allow", "", "", outcome, micros), {})
    trail.record(TrailEntry(now, "w", "s0", "\x1b[31minvented", "", "deny", "", "", "unknown_tool", 5), {})
    trail.close()
    return command


def stats_text(command, *words: str) -> str:
    done = command.run("stats", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return str(done.stdout.decode())


def test_a_table_shows_counts_failures_percentiles_and_a_plot(filled):
    lines = stats_text(filled).splitlines()

    assert re.fullmatch(r"101 calls since \d{4}-\d\d-\d\d \d\d:\d\d, 21 failed \(20\.8%\)", lines[0])
    assert lines[2].split() == ["tool", "calls", "failed", "p50", "p95", "each", "bar", "30.0", "min"]
    assert [line.split()[:3] for line in lines[3:8]] == [
        ["read_file", "34", "7"],
        ["a_tool_of_somebody_with…", "33", "6"],
        ["run_shell", "33", "7"],
        ["(unknown)", "1", "1"],
        ["all", "101", "21"],
    ]
    assert "2.5 s" in next(line for line in lines if line.startswith("run_shell"))
    assert set(lines[7].split()[-1]) <= set(BARS)
    assert lines[-1] == "failures: file_not_found 20, unknown_tool 1"
    assert max(map(len, lines)) <= 80


def test_calls_are_filtered_by_tool_session_workspace_and_time(filled):
    assert stats_text(filled, "--tool", "read_file").startswith("34 calls")
    assert stats_text(filled, "--session", "s1").startswith("50 calls")
    assert re.match(r"(19|20|21) calls", stats_text(filled, "--since", "2h"))
    assert stats_text(filled, "--tool=read_file", "--since=2999-01-01") == "No recorded calls match.\n"
    assert stats_text(filled, "--workspace", ".") == "No recorded calls match.\n"


def test_json_holds_the_same_and_more(filled):
    stats = json.loads(stats_text(filled, "--json"))

    assert set(stats) == {"start", "end", "tools", "errors", "failures"}
    assert sum(stats["failures"]) == 21
    assert stats["errors"] == {"file_not_found": 20, "unknown_tool": 1}
    shell = next(use for use in stats["tools"] if use["tool"] == "run_shell")
    assert (shell["calls"], shell["failed"], sum(shell["plot"])) == (33, 7, 33)
    assert (shell["p50_ms"], shell["p95_ms"]) == (2450.0, 4700.0)


def test_prometheus_reads_the_counters_of_every_tool(filled):
    text = stats_text(filled, "--prometheus")

    assert 'tool_execution_total{tool="run_shell",status="failure"} 7\n' in text
    assert 'tool_execution_total{tool="(unknown)",status="failure"} 1\n' in text
    assert 'function_call_duration_ms_bucket{tool="run_shell",status="success",le="1000"} 5\n' in text
    assert 'function_call_duration_ms_count{tool="run_shell",status="success"} 26\n' in text
    only = stats_text(filled, "--prometheus", "--tool", "read_file")
    assert set(re.findall(r'tool="([^"]*)"', only)) == {"read_file"}


def test_new_calls_are_counted(command):
    command.folder.write("a.txt", "a\n")
    command.ask({"tool": "read_file", "args": {"path": "a.txt"}}, {"tool": "Read", "args": {"path": "b.txt"}})

    text = stats_text(command, "--prometheus")

    assert 'tool_execution_total{tool="read_file",status="failure"} 1\n' in text
    assert 'tool_execution_total{tool="read_file",status="success"} 1\n' in text
    assert stats_text(command, "--workspace", ".").startswith("2 calls")


@pytest.mark.parametrize("name", ["stats", "log"])
def test_an_empty_trail_says_how_to_fill_it(command, name):
    text = command.run(name).stdout.decode()

    assert text.startswith("No calls are recorded yet. To make one: ")
    assert text.endswith("hilt call list_dir\n")


def test_broken_settings_do_not_hide_the_trail(filled):
    filled.folder.write(".hilt/config.toml", "nonsense = 1\n")

    assert stats_text(filled).startswith("101 calls")


@pytest.mark.parametrize(
    "words, reason",
    [
        (("--prometheus", "--since", "1h"), "--prometheus"),
        (("--prometheus", "--session", "s"), "--prometheus"),
        (("--json", "--prometheus"), "--prometheus"),
        (("--since",), "--since needs a value"),
        (("--since", "soon"), "--since needs a time"),
        (("more",), "more"),
    ],
)
def test_a_usage_error_is_reported(command, words, reason):
    done = command.run("stats", *words)

    assert done.returncode == 2
    assert reason in done.stderr.decode()


def on_a_terminal(command, **environ: str) -> str:
    """Run the command on a terminal of 80 columns and return its output."""
    control, terminal = pty.openpty()
    process = subprocess.Popen(
        [HILT, "stats"], stdout=terminal, stdin=terminal, cwd=command.folder.path, env=command.environ | environ
    )
    os.close(terminal)
    written = b""
    try:
        while part := os.read(control, 65536):
            written += part
    except OSError:
        pass  # the end of a terminal
    os.close(control)
    assert process.wait(60) == 0
    return written.decode()


@pytest.mark.parametrize(
    "environ, coloured",
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_support_them(filled, environ, coloured):
    output = on_a_terminal(filled, COLUMNS="80", **environ)

    assert ("\x1b[" in output) == coloured
    plain = re.sub(r"\x1b\[\d+m", "", output)
    assert "\x1b" not in plain
    assert plain.replace("\r\n", "\n").splitlines()[2:] == stats_text(filled).splitlines()[2:]


def test_ascii_output_gets_plain_bars(filled):
    filled.environ.update(PYTHONIOENCODING="ascii")

    assert stats_text(filled).isascii()
    assert "a_tool_of_somebody_with~" in stats_text(filled)
