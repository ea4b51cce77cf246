from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from hilt.authority import weighing
from hilt.call import Call, Result
from hilt.runtime import Runtime
from hilt.testing import Folder, environment, temporary_runtime
from tests.marks import wait_until
from tests.programs import needs_sandbox

pytestmark = needs_sandbox


def run(runtime, command, **args):
    return runtime.call("run_shell", command=command, **args)


def body(result):
    """Return the output between the exit code and the classification."""
    first, _, following = result.text.partition("\n")
    output, classification, _ = following.rpartition("\n[classification: ")
    assert first.startswith("[exit: ")
    assert classification
    return output


# --- results ----------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_the_result_is_the_exit_code_the_output_and_the_classification(runtime):
    result = run(runtime, "echo hello")

    assert result.text.startswith("[exit: 0]\nhello\n[classification: success — ")
    assert (result.ok, result.risk, result.classification) == (True, "safe", "success")
    assert result.view == {"type": "shell-output", "command": "echo hello", "stdout": "hello\n", "exitCode": 0}
    assert (result.meta["exit_code"], result.meta["timeout_ms"]) == (0, 30_000)


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "command, code, classification",
    [
        ("true", 0, "success"),
        ("exit 3", 3, "error"),
        ("grep nothing /dev/null", 1, "expected_nonzero"),
        ("cd . && diff /dev/null /etc/passwd >/dev/null", 1, "expected_nonzero"),
        ("test -e missing", 1, "expected_nonzero"),
        ("cd missing && grep nothing /dev/null", 1, "error"),
        ("cat <<A >/dev/null; grep nothing <<B\nx\nA\ny\nB", 1, "expected_nonzero"),
        ("no-such-command", 127, "error"),
        ("bash -c 'ulimit -c 0; exec python3 -c \"import os; os.abort()\"'", 134, "signal"),
    ],
)
def test_a_command_that_ran_is_a_success_whatever_its_exit_status(runtime, command, code, classification):
    result = run(runtime, command, force=True)

    assert result.ok
    assert result.text.startswith(f"[exit: {code}]\n")
    assert result.classification == classification


@pytest.mark.starts_processes
def test_both_streams_are_merged_in_order_of_arrival(runtime):
    assert body(run(runtime, "echo 1; echo 2 >&2; echo 3; echo 4 >&2")) == "1\n2\n3\n4"


@pytest.mark.starts_processes
def test_no_output_leaves_an_empty_line(runtime):
    assert run(runtime, "true").text.startswith("[exit: 0]\n\n[classification: ")


@pytest.mark.starts_processes
def test_output_is_raw_by_default_and_repeated_lines_are_collapsed_when_compact(runtime):
    command = "for i in 1 2 3 4; do echo same; done; echo; echo; echo; echo; echo two; echo two"

    assert body(run(runtime, command)).splitlines() == ["same"] * 4 + [""] * 4 + ["two"] * 2
    assert body(run(runtime, command, compact=True)).splitlines() == ["same [the same line 4 times]", "", "two", "two"]


@pytest.mark.starts_processes
def test_colours_reach_the_view_and_not_the_model(runtime):
    result = run(runtime, r"printf '\033[31mred\033[0m\a \033]0;title\007done\n'")

    assert body(result) == "red done"
    assert result.view["stdout"] == "\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07done\n"


@pytest.mark.starts_processes
def test_invalid_bytes_are_replaced(runtime):
    assert body(run(runtime, r"printf 'a\xffb'")) == "a\ufffdb"


@pytest.mark.starts_processes
def test_the_command_has_an_empty_standard_input(runtime):
    assert body(run(runtime, "cat; read -r line || echo end")) == "end"


# --- long output ------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
@pytest.mark.parametrize("read", ["all", "workspace"])
def test_commands_and_tools_find_ripgrep_after_the_programs_of_the_user(base, read):
    environ = {**environment(base), "PATH": f"{base}/bin:/usr/bin:/bin", "HILT_TRUST": "all"}
    tool = "---\nname: search\ndescription: Search.\n---\nrg --version | head -1\n"
    folder = Folder(f"{base}/workspace")
    folder.write(".hilt/tools/search.md", tool)
    command = 'rg --version | head -1; ls "$(dirname "$(command -v rg)")"'
    with Runtime(folder.path, environ=environ, flags={"shell.read": read, "approve": "all"}) as runtime:
        assert re.match(r"\[exit: 0\]\nripgrep 15\.\S+.*\nrg\n\[", runtime.call("run_shell", command=command).text)
        assert runtime.call("search").text.startswith("ripgrep 15.")
        os.chmod(Folder(base).write("bin/rg", "#!/bin/sh\necho mine\n"), 0o755)
        assert runtime.call("search").text.startswith("mine")


@pytest.mark.starts_processes
@pytest.mark.parametrize("size", [128 * 1024, 1024 * 1024])
def test_a_command_may_be_longer_than_an_argument(runtime, workspace, size):
    text = "é" * (size // 2 - 1) + "\n"
    command = f"cat > out.txt <<'END'\n{text}END\necho $0; ls /proc/self/fd; exit 3"

    result = runtime.call("run_shell", command=command, force=True)

    assert result.ok, result.error
    assert result.text.startswith("[exit: 3]\nbash\n0\n1\n2\n3\n[")
    assert workspace.read("out.txt") == text
    job = runtime.call("run_shell", command=f"{command} # in the background", force=True, run_in_background=True)
    assert runtime.call("job_output", task_id=job.data["task_id"]).data["output"] == "bash\n0\n1\n2\n3\n"


@pytest.mark.starts_processes
@pytest.mark.parametrize("count", [20_000, 300_000], ids=["in memory", "on disk"])
def test_long_output_shows_both_ends_and_a_file_contains_all_of_it(runtime, count):
    result = run(runtime, f"seq {count}")

    *lines, _, note = result.text.split("\n")
    file = result.meta["truncation"]["output_file"]
    assert len(result.text) <= 50_000
    assert lines[1:4] == ["1", "2", "3"]
    assert lines[-1] == str(count)
    assert file in note
    window = runtime.call("read_file", path=file, start_line=count - 1, line_numbers=False)
    assert window.text == f"{count - 1}\n{count}"
    with open(file, encoding="utf-8") as saved:
        assert saved.read() == "".join(f"{number}\n" for number in range(1, count + 1))


@pytest.mark.starts_processes
def test_the_file_keeps_invalid_bytes(runtime):
    result = run(runtime, r"printf 'first\xff\n'; seq 20000")

    with open(result.meta["truncation"]["output_file"], "rb") as file:
        assert file.readline() == b"first\xff\n"


@pytest.mark.starts_processes
def test_too_much_output_ends_the_command(runtime):
    result = run(runtime, "yes | head -c 100000000")

    assert result.error.code == "resource_limit"
    assert result.risk == "caution"
    assert os.path.getsize(result.error.details["output_file"]) == 64 << 20


@pytest.mark.starts_processes
def test_one_very_long_line_is_truncated_like_others(runtime):
    result = run(runtime, "head -c 300000 /dev/zero | tr '\\0' x")

    assert result.meta["truncation"]["total_bytes"] == 300_000
    assert len(result.text) <= 50_000


# --- time ---------------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_a_timeout_returns_the_output_so_far(runtime):
    result = run(runtime, "echo before; sleep 60; echo after", timeout=1)

    assert result.ok
    assert result.text.startswith(
        "[exit: 124]\nbefore\n\nCommand timed out after 1 seconds\n[classification: timeout — "
    )
    assert result.classification == "timeout"


@pytest.mark.starts_processes
def test_a_timeout_without_output_returns_only_the_notice(runtime):
    result = run(runtime, "sleep 60", timeout=1)

    assert result.text.startswith("[exit: 124]\nCommand timed out after 1 seconds\n[classification: timeout — ")


@pytest.mark.starts_processes
def test_a_timeout_suggests_a_call_that_works(runtime):
    advice = run(runtime, "sleep 60", timeout=1).text.split("\n")[-1]

    assert advice.startswith("[timeout: ")
    assert [fact for fact in ("1 s", "300 seconds", "run_in_background: true") if fact not in advice] == []


@pytest.mark.starts_processes
def test_a_grandchild_that_keeps_the_pipe_open_does_not_delay_the_result(runtime):
    began = time.monotonic()
    result = run(runtime, "(setsid sleep 300 &) ; echo started", timeout=60)

    assert body(result) == "started"
    assert time.monotonic() - began < 30  # far from both the grandchild's end and the timeout


@pytest.mark.starts_processes
def test_a_timeout_over_the_maximum_is_clamped(runtime):
    result = run(runtime, "true", timeout=1000)

    assert result.meta["timeout_ms"] == 300_000
    assert result.meta["notes"] == ["timeout 1000 was changed to 300, its maximum"]


@pytest.mark.starts_processes
def test_a_cancelled_command_ends_at_once_with_its_children(runtime, workspace):
    results: list[Result] = []
    ended = threading.Event()

    def done(result: Result) -> None:
        results.append(result)
        ended.set()

    running = runtime.submit(Call("run_shell", {"command": "sleep 300 & echo > running; wait"}), done)
    wait_until(lambda: os.path.exists(workspace.join("running")))
    running.cancel()

    assert ended.wait(30)
    assert results[0].error is not None
    assert results[0].error.code == "cancelled"


@pytest.mark.starts_processes
def test_many_commands_run_at_once(runtime):
    with ThreadPoolExecutor(12) as pool:
        outputs = list(pool.map(lambda number: body(run(runtime, f"sleep 0.2; echo {number}")), range(24)))

    assert outputs == [str(number) for number in range(24)]


# --- risk -------------------------------------------------------------------------------------------------------


def test_a_command_that_only_removes_what_undo_brings_back_runs(runtime, workspace):
    workspace.write("dist/a", "old\n")
    workspace.write("src/a.py", "x = 1\n")
    workspace.write("README.md", "read\n")

    result = runtime.call("run_shell", command="rm -rf dist && ls")

    assert result.ok, result.error
    assert not os.path.exists(workspace.join("dist"))
    runtime.call("undo", action="restore", id=result.meta["undo"]["id"])
    assert workspace.read("dist/a") == "old\n"


@pytest.mark.parametrize(
    "command",
    [
        *("rm -rf vendor", "rm -rf vendor/lib", "cd vendor && rm -rf lib", "cd / && rm -rf src", "cd $X; rm src/a.py"),
        *("rm -rf src vendor README.md", "rm -rf {root}", "rm -rf {root}/*", "rm -rf {above}", "rm -rf /tmp/*"),
        *("rm -rf $(pwd)/src", "find . -name objects -exec rm -rf {} +", "find . -iname HEAD -delete"),
        *("find . -path './.git/obj*' -delete", r"find . -path ./.git/HEAD -execdir rm -rf objects \;"),
        *("cd .gi? && rm -rf objects", "CDPATH=.git; cd objects && rm -rf pack", "env -C .git rm -rf objects"),
        *(
            "rm -rf linked/objects",
            "rm -rf linked/*",
            "cd linked && rm -rf objects",
            "find . -iname VENDOR -exec rm -r {} +",
        ),
        *("setpriv --reset-env rm -rf src", "rm -rf out/x", "cd out; rm x"),
    ],
)
def test_a_removal_of_a_repository_or_of_most_of_the_workspace_is_refused(runtime, workspace, command):
    workspace.write("src/a.py", "x = 1\n")
    workspace.write("README.md", "read\n")
    workspace.write("other", "read\n")
    for folder in ("vendor/lib/.git/refs", ".git/objects/pack", "../out"):
        os.makedirs(workspace.join(folder), exist_ok=True)
    os.symlink(".git", workspace.join("linked"))
    os.symlink("../out", workspace.join("out"))
    workspace.write(".git/HEAD", "ref: refs/heads/main\n")
    workspace.write("vendor/lib/.git/HEAD", "ref: refs/heads/main\n")
    root = os.path.realpath(workspace.path)

    result = runtime.call(
        "run_shell", command=command.replace("{root}", root).replace("{above}", os.path.dirname(root))
    )

    assert result.error.code == "command_blocked"
    assert workspace.read("src/a.py") == "x = 1\n"


def test_a_removal_that_cannot_be_undone_now_is_refused(runtime, workspace):
    for name in "abcd":
        workspace.write(name, "x\n")
    job = runtime.call("run_shell", command="sleep 60", run_in_background=True).data["task_id"]

    assert runtime.call("run_shell", command="rm a").error.code == "command_blocked"
    assert runtime.call("run_shell", command="rm a", run_in_background=True).error.code == "command_blocked"
    runtime.call("job_stop", task_id=job)
    assert runtime.call("run_shell", command="rm a").ok


def test_a_removal_in_a_repository_is_refused(runtime, workspace):
    for folder in ("inside", ".git/objects"):
        os.makedirs(workspace.join(folder))
    workspace.write(".git/HEAD", "ref: refs/heads/main\n")
    for name in "abcd":
        workspace.write(name, "x\n")

    assert runtime.call("run_shell", command="rm -rf objects", cwd=".git").error.code == "command_blocked"
    assert runtime.call("run_shell", command="rm -rf x", cwd="inside").ok


def test_what_may_run_only_because_it_can_be_undone_does_not_run_without_an_overlay(runtime, workspace, monkeypatch):
    for name in "abcd":
        workspace.write(name, "x\n")
    decide = weighing._is_undone

    def start_job_after(*args):
        undone = decide(*args)
        if undone:
            # as another call does between the decision and the start
            runtime.call("run_shell", command="sleep 60", run_in_background=True)
        return undone

    monkeypatch.setattr(weighing, "_is_undone", start_job_after)
    result = runtime.call("run_shell", command="rm a")

    assert "a background job of the session is running" in result.error.message
    assert os.path.exists(workspace.join("a"))
    assert runtime.call("run_shell", command="rm a", force=True).ok


def test_what_the_sandbox_denied_is_named_with_the_setting_that_allows_it(runtime, workspace):
    workspace.write(".env", "TOKEN=1\n")

    def last(command, **arguments):
        return runtime.call("run_shell", command=command, **arguments).result.splitlines()[-1]

    assert last("cat .env") == "[sandbox: .env is hidden; the user can list it in workspace.readable]"
    assert last("touch .vscode/x") == "[sandbox: .vscode/x is read-only; the user can list it in shell.writable]"
    assert last("cat missing").startswith("[classification: error")
    assert last("echo '.env: Permission denied' > a; cat b").startswith("[classification: error")
    assert 'send network: "loopback"' in last("curl -s http://localhost:9/ || exit 7")
    assert 'send network: "full"' in last("npm() { sleep 60; }; npm install", timeout=1)


def test_a_dangerous_command_is_blocked_with_the_reason(runtime, workspace):
    workspace.write("kept.txt", "kept")

    result = run(runtime, "echo fine && rm kept.txt")

    assert result.error.code == "command_blocked"
    assert "run_shell with force: true" in result.error.suggestion
    assert "rm" in result.error.message
    assert result.error.details["part"] == "rm kept.txt"
    assert result.risk == "dangerous"
    assert "force" in result.error.suggestion
    assert workspace.read("kept.txt") == "kept"


@pytest.mark.starts_processes
def test_force_runs_a_dangerous_command_in_the_sandbox(runtime, workspace, base):
    workspace.write("gone.txt")
    outside = os.path.join(base, "outside.txt")
    with open(outside, "w", encoding="utf-8"):
        pass

    result = run(runtime, f"rm gone.txt; rm {outside}", force=True)

    assert (result.ok, result.risk) == (True, "dangerous")
    assert not os.path.exists(workspace.join("gone.txt"))
    assert os.path.exists(outside)


def test_a_dry_run_reports_the_risk_and_runs_nothing(runtime, workspace):
    result = run(runtime, "rm -rf /tmp/test; echo x > made.txt", dry_run=True)

    first, risk, *details = result.text.splitlines()
    assert first == "[dry-run] would execute: rm -rf /tmp/test; echo x > made.txt"
    assert risk.startswith("[risk: dangerous — ")
    assert details == ["[runs: rm, echo]", "[writes: made.txt]"]
    assert (result.ok, result.risk, result.classification) == (True, "dangerous", "success")
    assert workspace.tree() == {}


@pytest.mark.parametrize("command", ["", "  \n\t"])
def test_an_empty_command_is_rejected(runtime, command):
    assert run(runtime, command).error.code == "invalid_args"


def test_a_missing_command_is_rejected(runtime):
    assert runtime.call("run_shell").error.code == "invalid_args"


def test_a_command_with_nul_is_rejected(runtime):
    assert run(runtime, "echo a\0b", force=True).error.code == "invalid_args"


# --- environment ------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_a_command_runs_in_the_workspace_or_one_of_its_folders(runtime, workspace):
    workspace.write("inner folder/a.txt")

    assert body(run(runtime, "pwd")) == os.path.realpath(workspace.path)
    assert body(run(runtime, "ls", cwd="inner folder")) == "a.txt"


@pytest.mark.parametrize(
    "cwd, code",
    [("..", "path_outside_workspace"), ("missing", "file_not_found"), ("file", "invalid_args"), ("/", None)],
)
def test_a_working_directory_outside_or_missing_is_rejected(runtime, workspace, cwd, code):
    workspace.write("file")

    result = run(runtime, "pwd", cwd=cwd)

    assert result.error is not None
    assert code is None or result.error.code == code


@pytest.mark.starts_processes
def test_the_environment_is_scrubbed(base):
    with temporary_runtime(base) as (runtime, _):
        vars(runtime.parts)["environ"].update(SECRET_TOKEN="hush", LANG="C.UTF-8", TERM="dumb")
        names = {line.partition("=")[0] for line in body(run(runtime, "env")).splitlines()}

    assert "SECRET_TOKEN" not in names
    assert names <= {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.starts_processes
def test_the_user_can_add_variables_to_the_environment(base):
    with temporary_runtime(base, flags={"shell.env": ["MY_VARIABLE", "ABSENT"]}) as (runtime, _):
        vars(runtime.parts)["environ"].update(MY_VARIABLE="mine", OTHER="not")

        assert body(run(runtime, 'echo "$MY_VARIABLE$OTHER$ABSENT"')) == "mine"


@pytest.mark.starts_processes
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the loader of Linux")
def test_the_sandbox_itself_loads_no_library_of_the_workspace(base):
    with temporary_runtime(base, flags={"shell.env": ["LD_LIBRARY_PATH"]}) as (runtime, workspace):
        library = os.path.join(workspace.path, "lib")
        vars(runtime.parts)["environ"].update(LD_LIBRARY_PATH=library)
        run(runtime, "mkdir lib; echo planted | tee lib/libselinux.so.1 lib/libcap.so.2")

        assert body(run(runtime, "echo $LD_LIBRARY_PATH")) == library


@pytest.mark.starts_processes
def test_a_command_can_run_in_a_terminal(runtime):
    result = run(runtime, "test -t 0 && test -t 1 && stty size", tty=True)

    assert body(result) == "40 120"


@pytest.mark.starts_processes
def test_only_the_workspace_and_tmp_are_writable(runtime, workspace, base):
    result = run(runtime, f"echo in > made; echo out > {base}/out; echo out > ~/out; echo tmp > /tmp/t; cat /tmp/t")

    assert workspace.read("made") == "in\n"
    assert body(result).splitlines()[-1] == "tmp"
    assert not os.path.exists(os.path.join(base, "out"))
    assert not os.path.exists(os.path.join(base, "home", "out"))
    assert not os.path.exists("/tmp/t")


@pytest.mark.starts_processes
def test_secrets_are_unreadable_and_configuration_is_unwritable(runtime, workspace):
    workspace.write(".env", "KEY=secret")
    workspace.write("deep/er/.env.local", "KEY=secret")
    workspace.write(".git/config", "[core]\n")

    result = run(runtime, "cat .env deep/er/.env.local; echo evil >> .git/config; mkdir -p .hilt; touch .hilt/x; true")

    assert "secret" not in result.text
    assert workspace.read(".git/config") == "[core]\n"
    assert not os.path.exists(workspace.join(".hilt"))


RESOLVE = "python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 80)'"
CONNECT = "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)'"


@pytest.mark.starts_processes
@pytest.mark.parametrize("command", [RESOLVE, CONNECT, f"{RESOLVE} 2>&1 | tail -1; exit 6"])
def test_a_command_that_fails_without_network_gets_advice(runtime, command):
    result = run(runtime, command)

    last = result.text.split("\n")[-1]
    assert last.startswith("[network: none in this sandbox; ")
    assert 'network: "full"' in last
    assert "shell.network" in last


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "command", ["echo Could not resolve host", "echo nothing of the kind; exit 6", f"{RESOLVE} 2>/dev/null"]
)
def test_the_network_advice_is_absent_when_it_is_not_the_cause(runtime, command):
    assert "[network: " not in run(runtime, command).text


@pytest.mark.starts_processes
def test_the_network_advice_is_absent_when_the_sandbox_allows_the_network(base):
    with temporary_runtime(base, flags={"shell.sandbox": "full", "approve": "all"}) as (runtime, _):
        assert "[network: " not in run(runtime, "echo Could not resolve host: a; exit 6").text


@pytest.mark.starts_processes
def test_a_socket_named_in_the_workspace_is_not_used_since_commands_can_link_it_to_another(base):
    used, linked = os.path.join(base, "used"), os.path.join(base, "workspace", "linked")
    script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with closing(socket.socket(socket.AF_UNIX)) as service:
        service.bind(used)
        service.listen()
        for named in (used, linked):
            with temporary_runtime(base, flags={"shell.sockets": [named]}) as (runtime, workspace):
                workspace.write("connect.py", script)
                run(runtime, f"ln -sf {used} linked")
                result = run(runtime, f"python3 connect.py {named}", network="loopback")
            assert result.meta["exit_code"] == (named != used), result.text


def test_full_network_access_needs_approval(runtime, base):
    assert run(runtime, "true", network="full").error.code == "approval_required"


def test_without_a_sandbox_the_user_is_asked(base):
    with temporary_runtime(base, flags={"shell.sandbox": "full"}) as (runtime, _):
        result = run(runtime, "echo free")

    assert result.error.code == "approval_required"
    assert "disables the sandbox" in result.error.message


@pytest.mark.starts_processes
def test_a_background_server_answers_the_next_command_over_the_loopback_of_the_session(runtime, workspace):
    workspace.write("index.html", "served")
    started = run(runtime, "python3 -m http.server 8123", run_in_background=True, network="loopback")
    fetch = (
        "import time, urllib.request\n"
        "for _ in range(200):\n"
        "    try: print(urllib.request.urlopen('http://127.0.0.1:8123/index.html').read().decode()); break\n"
        "    except OSError: time.sleep(0.05)\n"
    )
    workspace.write("fetch.py", fetch)

    assert started.data["task_id"]
    assert body(run(runtime, "python3 fetch.py", network="loopback")) == "served"
    assert "served" not in body(run(runtime, "timeout 2 python3 fetch.py"))


# --- jobs ---------------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_a_job_returns_at_once_and_its_output_is_read_later(runtime):
    started = run(runtime, "echo begun; sleep 0.1; echo done; exit 3", run_in_background=True)
    ended = runtime.call("job_output", task_id=started.data["task_id"])

    assert list(started.data) == ["task_id"]
    assert ended.data == {"status": "failed", "exit_code": 3, "output": "begun\ndone\n"}


@pytest.mark.starts_processes
def test_a_job_is_confined(runtime, workspace, base):
    started = run(runtime, f"echo x > {base}/out; echo y > inside", run_in_background=True)
    runtime.call("job_output", task_id=started.data["task_id"])

    assert workspace.read("inside") == "y\n"
    assert not os.path.exists(os.path.join(base, "out"))


def test_a_dangerous_job_is_blocked(runtime):
    assert run(runtime, "rm x", run_in_background=True).error.code == "command_blocked"


# --- the dialect of j-cli -----------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_the_bash_tool_of_jcli(runtime):
    short = runtime.call("Bash", command="echo hi")
    long = runtime.call("Bash", command="true", timeout=900)

    assert short.text.startswith("[exit: 0]\nhi\n")
    assert short.meta["timeout_ms"] == 120_000
    assert long.meta["timeout_ms"] == 600_000
    assert long.meta["notes"] == ["timeout 900 was changed to 600, its maximum"]


@pytest.mark.starts_processes
def test_the_task_output_tool_of_jcli(runtime):
    started = runtime.call("Bash", command="echo built", run_in_background=True)
    ended = runtime.call("TaskOutput", task_id=started.data["task_id"], block=True, timeout=60_000)

    assert ended.data == {"status": "completed", "exit_code": 0, "output": "built\n"}


@pytest.mark.starts_processes
def test_a_timed_out_command_can_clean_up_inside_the_sandbox(runtime):
    result = run(runtime, "trap 'echo bye; exit 0' TERM; echo ready; sleep 100 & wait", timeout=1)

    assert body(result).startswith("ready\nbye\n")
    assert result.classification == "timeout"


@pytest.mark.starts_processes
def test_the_last_line_is_reported_as_progress_while_the_command_runs(runtime, workspace):
    messages: list[str] = []
    ended = threading.Event()
    results: list[Result] = []

    class Attendant:
        approve = ask = elicit = sample = log = output = staticmethod(lambda *args: None)
        can_ask = has_questions = False

        def progress(self, done, total, message):
            messages.append(message)
            workspace.write("go", "")

    def done(result):
        results.append(result)
        ended.set()

    command = r"until [ -e go ]; do printf '\033[1mstep\033[0m one\n'; sleep 0.05; done"
    runtime.submit(Call("run_shell", {"command": command}), done, attendant=Attendant())

    assert ended.wait(60)
    assert results[0].ok
    assert set(messages) == {"step one"}
