"""The native client and the Python client, side by side."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hilt import places
from hilt.choices import FLAGS, choices
from hilt.surfaces import OPTIONS, handover
from hilt.surfaces.resident import _with_coerced_locale
from tests.marks import wait_until
from tests.surfaces.native import Server, accept, build, has_run_python, serving, short_folder

PYTHON_CLIENT = [sys.executable, "-P", "-m", "hilt"]


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with short_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def program(base) -> str:
    """The native client, with a program in place of hilt-py beside it."""
    return build(f"{base}/bin")


@pytest.fixture(scope="module")
def environ(base) -> dict[str, str]:
    os.makedirs(f"{base}/cwd")
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": base, "HILT_STATE_DIR": f"{base}/state"}


@pytest.fixture(scope="module")
def server(environ) -> Iterator[Server]:
    with serving(environ["HILT_STATE_DIR"]) as server:
        yield server


@pytest.fixture(autouse=True)
def forget(program, server) -> None:
    """Start each test without traces of the previous one."""
    has_run_python(program)
    server.take()


@pytest.fixture(params=["native", "python"])
def client(request, program) -> list[str]:
    """The command line of each client."""
    return [program] if request.param == "native" else PYTHON_CLIENT


def run(
    line: list[str], environ: dict[str, str], input: bytes = b"", cwd: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        line, env=environ, cwd=cwd or f"{environ['HOME']}/cwd", input=input, capture_output=True, timeout=60
    )


def header(line: list[str], environ: dict[str, str], server: Server) -> bytes | None:
    """Return what a client sends; None if it does not send anything."""
    server.answer = accept
    done = run(line, environ)
    sent = server.take()
    assert sent is None or (done.returncode, done.stdout, done.stderr) == (7, b"", b"")
    if line[0] != sys.executable:
        assert (has_run_python(line[0]) is None) == (sent is not None), done.stderr.decode()
    return sent


# --- command lines and environments -----------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
VALUES = st.one_of(st.sampled_from(sorted({choice for flag in FLAGS for choice in choices(flag)})), WORDS)
ARGUMENTS = st.lists(
    st.one_of(
        st.builds("--{}={}".format, st.sampled_from(list(OPTIONS)), VALUES),
        st.builds("--{}".format, st.sampled_from(list(OPTIONS))),
        VALUES.filter(lambda value: not value.startswith("-")).map("{}x".format),
        st.sampled_from(["--", "", "-", "--=", "--tools=", "--bogus", "--tool=x", "--toolsx=y"]),
    ),
    max_size=4,
)
VARIABLES = st.dictionaries(
    st.sampled_from(["_", "PWD", "OLDPWD", "SHLVL", "PWDX", "A", "HILT_SESSION", "é"]), WORDS, max_size=4
)


@given(arguments=ARGUMENTS, variables=VARIABLES)
@settings(max_examples=200 if os.environ.get("HILT_STRESS") else 25)
@example(arguments=[], variables={})
@example(arguments=["--workspace", "/x é", "--tools=a=b,c"], variables={"A": "line\nline\n"})
@example(arguments=["--mode", "plan"], variables={"_": "x", "PWD": "y"})
@example(arguments=["--mode", "bogus"], variables={})
@example(arguments=["--session", "é"], variables={})
def test_both_clients_send_the_same_header(program, environ, server, arguments, variables):
    environ = {**environ, **variables}

    sent = header([program, *arguments], environ, server)
    expected = header([*PYTHON_CLIENT, *arguments], environ, server)

    assert sent in (None, expected)
    names = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    if expected is not None and len(set(names)) == len(names) and "".join(arguments).isascii() and "--" not in names:
        assert sent == expected


@pytest.mark.parametrize(
    "name, value", [(name, value) for name in OPTIONS for value in (*(choices(name) or ("some value",)), "é", "")]
)
def test_every_option_and_choice_is_known(program, environ, server, name, value):
    is_valid = value in (choices(name) or ("some value",)) or (name, value) == ("workspace", "é")

    joined = header([program, f"--{name}={value}"], environ, server)
    separate = header([program, f"--{name}", value], environ, server)

    assert joined == separate
    assert (joined is not None) == is_valid
    assert joined is None or f"\0o:{name}={value}\0".encode() in joined


@pytest.mark.parametrize(
    "words",
    [["--version"], ["resident", "status"], ["stdio"], ["call", "x"], ["--"], ["--tools"], ["--tools=a", "--tools=b"]],
)
def test_every_other_command_line_is_left_to_python(program, environ, server, words):
    done = run([program, *words], environ, b"input")

    assert (done.returncode, done.stdout, server.take()) == (0, b"input", None)
    assert has_run_python(program) == "".join(f"<{word}>" for word in words)


def test_both_clients_send_the_first_value_of_a_variable_that_is_set_twice(program, environ, server):
    twice = [b"A=first", b"HILT_STATE_DIR=%b" % environ["HILT_STATE_DIR"].encode(), b"A=second", b"nothing", b"=odd"]
    script = "import ctypes, sys; line, entries = eval(sys.stdin.read()); block = lambda words: (ctypes.c_char_p * (len(words) + 1))(*words, None); ctypes.CDLL(None).execve(line[0], block(line), block(entries))"  # noqa: E501
    sent = []
    for line in ([program], PYTHON_CLIENT):
        entries = [*twice, b"LANG=C.UTF-8", b"HILT_STATE_DIR=/nowhere"]
        run([sys.executable, "-c", script], environ, repr(([word.encode() for word in line], entries)).encode())
        sent.append(server.take())

    assert sent[0] == sent[1]
    assert b"\0e:A=first\0" in (sent[0] or b"")
    assert b"second" not in (sent[0] or b"")


def test_an_environment_that_is_too_large_is_left_to_python(program, environ, server):
    large = {f"LARGE{number}": "x" * 120_000 for number in range(9)}

    assert header([program], {**environ, **large}, server) is None


def test_a_deleted_working_directory_is_left_to_python(program, environ, server, tmp_path):
    deleted = tmp_path / "gone"
    deleted.mkdir()

    run(["bash", "-c", f"cd {deleted} && rmdir {deleted} && exec {program}"], environ)

    assert has_run_python(program) is not None
    assert server.take() is None


@pytest.mark.parametrize(
    "variables, reaches",
    [
        ({"HILT_STATE_DIR": "{base}/state"}, True),
        ({"HILT_STATE_DIR": "{base}//state/"}, True),
        ({"HILT_STATE_DIR": "{base}/bin/../state"}, False),
        ({"HILT_STATE_DIR": "{base}/./state"}, False),
        ({"HILT_STATE_DIR": "../state"}, False),
        ({"HILT_STATE_DIR": "/nowhere", "XDG_STATE_HOME": "{base}/xdg"}, False),
        ({"HILT_STATE_DIR": "", "XDG_STATE_HOME": "{base}/xdg", "HOME": "/nowhere"}, True),
        ({"XDG_STATE_HOME": "{base}/xdg"}, True),
        ({"XDG_STATE_HOME": "xdg", "HOME": "{base}/home"}, False),
        ({"XDG_STATE_HOME": "", "HOME": "{base}/home"}, True),
        ({"HOME": "{base}/home"}, True),
        ({"HOME": ""}, False),
        ({}, False),
        ({"HILT_STATE_DIR": "{base}/" + "long/" * 30 + "state"}, True),
        ({"HILT_STATE_DIR": "{base}/" + "x" * 250}, False),
    ],
)
def test_the_state_directory_is_the_one_of_python_or_left_to_it(program, variables, reaches):
    with short_folder() as base:
        environ = {name: value.format(base=base) for name, value in variables.items()}
        for name in ("bin", "cwd"):
            os.mkdir(f"{base}/{name}")
        state = places.state_dir(environ) if reaches else f"{base}/state"
        with serving(state) as server:
            done = run([program], environ, cwd=f"{base}/cwd")

            assert (done.returncode, server.take() is not None) == ((7, True) if reaches else (0, False))


@pytest.mark.parametrize(
    "variables, words, reaches",
    [
        ({"HILT_RESIDENT": "off"}, [], False),
        ({"HILT_RESIDENT": "auto"}, [], True),
        ({"HILT_RESIDENT": ""}, [], True),
        ({"HILT_RESIDENT": "off"}, ["mcp"], False),
        ({"HILT_MCP": "sdk"}, ["mcp"], False),
        ({"HILT_MCP": "sdk"}, [], True),
    ],
)
def test_variables_can_turn_it_off(program, environ, server, variables, words, reaches):
    server.answer = accept
    run([program, *words], {**environ, **variables})

    assert (server.take() is not None) == reaches


def test_a_terminal_is_left_to_python(program, environ, server):
    master, slave = pty.openpty()
    process = subprocess.Popen([program], stdin=slave, stdout=subprocess.DEVNULL, env=environ)
    os.write(master, b"\x04")
    process.wait(60)
    os.close(master)
    os.close(slave)

    assert has_run_python(program) is not None
    assert server.take() is None


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_closed_stream_is_left_to_python(program, environ, server, number):
    subprocess.run(
        ["sh", "-c", f"exec {program} {number}{'<' if number == 0 else '>'}&-"], env=environ, capture_output=True
    )

    assert has_run_python(program) is not None
    assert server.take() is None


# --- what follows a header --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [b"", b"-", b"-declined", b"x", b"\0"])
def test_a_server_that_declines_leaves_the_whole_input_to_python(program, environ, server, answer):
    server.answer = lambda connection: connection.sendall(answer)

    done = run([program, "--tools=a"], environ, b"input\n" * 50_000)

    assert (done.returncode, done.stdout) == (0, b"input\n" * 50_000)
    assert has_run_python(program) == "<--tools=a>"


@pytest.mark.parametrize(
    "answer, status, output",
    [
        (b"{}\n\0000", 0, b"{}\n"),
        (b"\0001", 1, b""),
        (b"{}\n", 1, b"{}\n" + handover.LOST),
        (b'{"cut', 1, b'{"cut' + handover.LOST),
        (b"{}\n\0", 1, b"{}\n" + handover.LOST),
        (b"{}\n\000x", 1, b"{}\n" + handover.LOST),
        (b"{}\n\0001more", 1, b"{}\n" + handover.LOST),
        (b"", 1, handover.LOST),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_replies_and_the_exit_status_are_the_same(client, environ, server, answer, status, output, apart):
    def send(connection: socket.socket) -> None:
        connection.sendall(b"+")
        for part in [answer[index : index + 1] for index in range(len(answer))] if apart else [answer]:
            connection.sendall(part)

    server.answer = send

    done = run(client, environ)

    assert (done.returncode, done.stdout, done.stderr) == (status, output, b"")


def echo(connection: socket.socket) -> None:
    connection.sendall(b"+")
    while chunk := connection.recv(65536):
        connection.sendall(chunk)
    connection.sendall(b"\0000")


def test_large_streams_pass_in_both_directions_at_once(client, environ, server):
    server.answer = echo
    text = b"0123456789abcdef\n" * 300_000

    done = run(client, environ, text)

    assert (done.returncode, done.stdout == text, done.stderr) == (0, True, b"")


def test_streams_that_do_not_block_are_waited_for(client, environ, server):
    server.answer = echo
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        process = subprocess.Popen(client, stdin=theirs.fileno(), stdout=subprocess.PIPE, env=environ)
        wait_until(lambda: server.headers)
        ours.sendall(b"late\n")
        ours.shutdown(socket.SHUT_WR)
        output, _ = process.communicate(timeout=60)

    assert (process.returncode, output) == (0, b"late\n")


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGHUP, -1)])
def test_a_signal_ends_a_call_in_the_same_way(client, environ, server, number, status):
    began, disconnected = threading.Event(), threading.Event()

    def hold(connection: socket.socket) -> None:
        connection.sendall(b"+{}\n")
        began.set()
        assert connection.recv(1) == b""
        disconnected.set()

    server.answer = hold
    process = subprocess.Popen(
        client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"{}\n"
    process.send_signal(number)
    assert process.wait(60) == status
    output, errors = process.communicate()

    assert disconnected.wait(60)
    assert (output, errors) == (b"", b"")


def test_an_ignored_interrupt_stays_ignored(client, environ, server):
    server.answer = echo
    process = subprocess.Popen(
        ["sh", "-c", f"trap '' INT; exec {' '.join(client)}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"one\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(b"two\n", timeout=60)

    assert (process.returncode, output) == (0, b"two\n")


def test_output_that_cannot_be_written_is_reported_in_the_same_way(client, environ, server):
    server.answer = lambda connection: connection.sendall(b"+{}\n\0000")
    line = " ".join(client)

    full = run(["sh", "-c", f"exec {line} > /dev/full"], environ)
    reading, writing = os.pipe()
    os.close(reading)
    closed = subprocess.run(client, env=environ, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)

    assert (full.returncode, full.stderr) == (1, b"hilt: cannot write: No space left on device\n")
    assert (closed.returncode, closed.stderr) == (1, b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_nothing_is_sent_to_a_server_of_another_user(program, environ):
    with short_folder() as base:
        os.chmod(base, 0o777)
        script = (
            "import os, socket, sys; listener = socket.socket(socket.AF_UNIX); os.setuid(12345)\n"
            f"listener.bind({base + '/resident.sock'!r}); os.chmod({base + '/resident.sock'!r}, 0o777)\n"
            "listener.listen(); print(flush=True); print(repr(listener.accept()[0].recv(100)), flush=True)\n"
            "print(repr(listener.accept()[0].recv(100)), flush=True)"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd="/") as foreign:
            assert foreign.stdout is not None
            foreign.stdout.readline()
            done = run([program], {**environ, "HILT_STATE_DIR": base})
            assert handover.connect(base) is None
            received = foreign.stdout.read()

    assert done.returncode == 0
    assert has_run_python(program) is not None
    assert received == b"b''\n" * 2


# --- hilt mcp ---------------------------------------------------------------------------------------------------------


def test_mcp_is_a_pipe_whose_ends_close_one_after_the_other(program, environ, server):
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"+")
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        connection.sendall(received.upper() + b"\0end\n")

    server.answer = serve
    words = ["--workspace", "/x", "mcp", "--search", "--profile=nano", "--tools=a,b", "--dialect=jcli", "--session=s"]

    done = run([program, *words], environ, b"one\ntwo\n")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"ONE\nTWO\n\0end\n", b"")
    fields = (server.take() or b"").split(b"\0")
    assert fields[:4] == [
        handover.PROTOCOL.encode(),
        header([program], environ, server).split(b"\0")[1],  # type: ignore[union-attr]  # it is sent
        b"mcp",
        f"{environ['HOME']}/cwd".encode(),
    ]
    options = b"workspace=/x profile=nano tools=a,b dialect=jcli session=s search=on".split()
    assert [field[2:] for field in fields if field.startswith(b"o:")] == options


@pytest.mark.parametrize(
    "words",
    [
        ["mcp", "--http"],
        ["mcp", "--lean"],
        ["mcp", "--search", "--search"],
        ["mcp", "--mode=plan"],
        ["--search", "mcp"],
        ["mcp", "mcp"],
        ["mcp", "list"],
        ["mcp", "--tools-dir", "x"],
        ["mcp", "--profile=bogus"],
    ],
)
def test_mcp_with_other_words_is_left_to_python(program, environ, server, words):
    done = run([program, *words], environ, b"input")

    assert (done.returncode, done.stdout, server.take()) == (0, b"input", None)
    assert has_run_python(program) == "".join(f"<{word}>" for word in words)


def test_mcp_that_is_declined_is_left_to_python_with_its_whole_input(program, environ, server):
    server.answer = lambda connection: connection.sendall(b"-")

    done = run([program, "mcp"], environ, b"input")

    assert (done.returncode, done.stdout, has_run_python(program)) == (0, b"input", "<mcp>")


def test_mcp_answers_are_passed_on_at_once(program, environ, server):
    server.answer = echo
    process = subprocess.Popen([program, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(3):
        process.stdin.write(b"%d\n" % number)
        process.stdin.flush()
        assert process.stdout.readline() == b"%d\n" % number
    output, _ = process.communicate(timeout=60)

    assert (process.returncode, output) == (1, b"\0000")  # not a whole line


@pytest.mark.parametrize("answer, status", [(b"", 0), (b"line\n", 0), (b"line\nhalf", 1)])
def test_mcp_ends_with_the_server_and_reports_a_line_that_was_cut(program, environ, server, answer, status):
    server.answer = lambda connection: connection.sendall(b"+" + answer)

    process = subprocess.Popen([program, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
    assert process.wait(60) == status
    output, _ = process.communicate()

    assert output == answer


# --- the program behind it --------------------------------------------------------------------------------------------


def test_python_is_the_one_beside_the_real_program(program, environ, tmp_path):
    for folder in ("cwd", "bin", "links"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "hilt-py").write_text("#!/bin/sh\necho wrong\n")
        (tmp_path / folder / "hilt-py").chmod(0o755)
    (tmp_path / "bin" / "hilt").symlink_to(program)
    (tmp_path / "links" / "hilt").symlink_to("../bin/hilt")
    environ = {**environ, "PATH": f"{tmp_path}/bin:{os.defpath}", "_": f"{tmp_path}/bin/hilt"}
    lines = [
        ["hilt", "x"],
        [f"{tmp_path}/links/hilt", "x"],
        ["bash", "-c", f"exec -a {tmp_path}/bin/hilt {program} x"],
        ["bash", "-c", f"exec -a '' {program} x"],
        ["bash", "-c", f"cd {tmp_path}/cwd && exec -a hilt {program} x"],
    ]

    for line in lines:
        done = run(line, environ, b"input", str(tmp_path / "cwd"))

        assert (done.stdout, has_run_python(program)) == (b"input", "<x>"), line


def test_python_is_beside_a_link_if_the_program_is_in_a_cache(program, environ, tmp_path):
    for folder in ("cache", "venv", "links", "cwd"):
        (tmp_path / folder).mkdir()
        if folder != "cache":
            (tmp_path / folder / "hilt-py").write_text(f"#!/bin/sh\necho {folder}\n")
            (tmp_path / folder / "hilt-py").chmod(0o755)
    (tmp_path / "cache" / "hilt").write_bytes(Path(program).read_bytes())
    (tmp_path / "cache" / "hilt").chmod(0o755)
    (tmp_path / "venv" / "hilt").symlink_to(tmp_path / "cache" / "hilt")  # as uv --link-mode=symlink does
    (tmp_path / "links" / "hilt").symlink_to("../venv/hilt")

    for line in (
        [f"{tmp_path}/venv/hilt", "x"],
        [f"{tmp_path}/links/hilt", "x"],
        ["bash", "-c", f"exec -a y {tmp_path}/venv/hilt x"],
    ):
        assert run(line, environ, cwd=str(tmp_path / "cwd")).stdout == b"venv\n"


def test_a_client_without_hilt_py_reports_that_it_is_missing(program, environ, tmp_path):
    alone = tmp_path / "hilt"
    alone.write_bytes(Path(program).read_bytes())
    alone.chmod(0o755)

    done = run([str(alone), "x"], environ)

    assert done.returncode == 127
    assert f"{tmp_path}/hilt-py: No such file".encode() in done.stderr


def test_python_gets_its_signals_unchanged(program, environ, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "hilt").write_bytes(Path(program).read_bytes())
    (folder / "hilt-py").write_text("#!/bin/sh\ngrep -E 'Sig(Ign|Cgt)' /proc/self/status\n")
    for name in ("hilt", "hilt-py"):
        (folder / name).chmod(0o755)

    through, alone = run([f"{folder}/hilt", "x"], environ), run([f"{folder}/hilt-py"], environ)

    assert through.stdout == alone.stdout


def test_without_arguments_at_all_python_runs(program, environ):
    script = f"import ctypes; ctypes.CDLL(None).execve({program.encode()!r}, (ctypes.c_char_p * 1)(), None)"

    run([sys.executable, "-c", script], environ)

    assert has_run_python(program) is not None


# --- the resident process ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LANG": "C"},
        {"LANG": "POSIX"},
        {"LANG": "C.UTF-8"},
        {"LANG": "nowhere.UTF-8"},
        {"LANG": "C.UTF-8", "LC_CTYPE": "C"},
        {"LANG": "C.UTF-8", "LC_CTYPE": "nowhere"},
        {"LANG": "C", "LC_CTYPE": "C.UTF-8"},
        {"LC_ALL": "C"},
        {"LC_ALL": "nowhere", "LANG": "C"},
        {"LC_ALL": "", "LANG": ""},
        {"PYTHONCOERCECLOCALE": "0"},
        {"PYTHONCOERCECLOCALE": "1"},
    ],
)
def test_a_caller_has_the_locale_that_an_interpreter_would_choose(variables):
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, check=True)

    assert _with_coerced_locale(variables) == json.loads(done.stdout)
