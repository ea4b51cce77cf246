"""What a program under Landlock can do, as root and as an ordinary user; and that its gaps are reported."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from hilt.sandbox import landlock, ruleset
from tests.sandbox.confined import SECRET, Box, Refused, Worker, as_user

pytestmark = pytest.mark.skipif(not ruleset.abi(), reason="needs a kernel with Landlock")


@pytest.fixture
def box(worker: Worker) -> Iterator[Box]:
    box = Box(worker, kind="landlock")
    yield box
    box.close()


def test_the_workspace_is_writable_and_the_system_is_readable(box):
    done = box.run("echo one > a; mkdir b; mv a b/c; cat b/c; head -c0 /etc/passwd && echo read; ls /usr > /dev/null")

    assert done == (0, "one\nread\n")


def test_temporary_files_and_caches_are_writable(box):
    assert box.run("f=$(mktemp) && echo x > $f && cat $f && echo y > $XDG_CACHE_HOME/y").output == "x\n"
    assert list((box.home / ".cache").iterdir()) == []


@pytest.mark.parametrize(
    "script",
    [
        "echo evil > ~/x",
        "echo evil > ~/notes",
        "rm ~/notes",
        "mv ~/notes .",
        "ln ~/notes .",
        "truncate -s0 ~/notes",
        "ln -s ~/notes n; echo evil > n",
        "echo evil > /tmp/hilt-test-evil",
        "echo evil > /var/tmp/hilt-test-evil",
        "echo evil > /etc/hilt-test-evil",
        "echo evil > /dev/shm/hilt-test-evil",
    ],
)
def test_nothing_outside_the_workspace_is_written(box, script):
    box.write("home/notes", "mine")
    before = box.tree(box.home)

    assert box.run(script).code != 0

    assert box.tree(box.home) == before
    assert not any(os.path.exists(f"{place}/hilt-test-evil") for place in ("/tmp", "/var/tmp", "/etc", "/dev/shm"))


def test_credentials_and_the_state_are_not_readable(box):
    paths = [".ssh/id", ".netrc", ".config/gh/hosts.yml", ".config/hilt/x", ".bash_history", ".mozilla/x"]
    for path in (*paths, "notes", ".config/app/x"):
        box.write(f"home/{path}", f"{SECRET} {path}\n")
    box.write("state/state.db")
    box.write("elsewhere")

    script = " ".join(f"~/{path}" for path in (*paths, "notes", ".config/app/x"))
    done = box.run(f"cat {script} {box.state}/state.db {box.base}/elsewhere")

    assert [line for line in done.output.splitlines() if SECRET in line] == [
        f"{SECRET} notes",
        f"{SECRET} .config/app/x",
    ]


def test_the_home_can_be_hidden(box):
    box.write("home/notes")
    box.write("home/.cargo/bin/prog", "#!/bin/sh\necho ran\n").chmod(0o755)

    done = box.run("cat ~/notes; ~/.cargo/bin/prog", read="workspace")

    assert SECRET not in done.output
    assert "ran\n" in done.output


def test_read_only_leaves_the_workspace_unchanged_and_hides_sensitive_files(box):
    box.write("ws/sub/.env")
    box.write("ws/sub/plain", "seen\n")
    before = box.tree()

    done = box.run("echo x > a; rm -rf sub; cat sub/.env; cat sub/plain", name="read-only")

    assert SECRET not in done.output
    assert done.output.endswith("seen\n")
    assert box.tree() == before


@pytest.mark.parametrize("network, is_reached", [("none", False), ("full", True)])
def test_tcp_needs_the_network(box, network, is_reached):
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        done = box.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo heard", network=network)

    assert ("heard" in done.output) == is_reached


@pytest.mark.parametrize(
    "script",
    [
        "s.socket(); a.sendto(b'x', s.MSG_FASTOPEN, ('127.0.0.1', 1))",
        "s.socket().listen()",
        "s.socket(proto=262)",  # multipath TCP
        "s.socket(type=s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "s.socket(s.AF_INET6)",
        "s.socket(s.AF_UNIX)",
        "s.socketpair(type=s.SOCK_DGRAM)",
        "s.socket(s.AF_NETLINK, s.SOCK_RAW, 0)",
    ],
)
def test_no_socket_leaves_without_the_network(box, script):
    done = box.run(f'python3 -I -S -c "import socket as s; s.socketpair(); {script}"')

    assert "OSError" in done.output
    assert "not supported" in done.output


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_other_processes_keep_their_limits_and_priorities(box, processes):
    victim = processes.enter_context(subprocess.Popen([*as_user(box.worker.uid), "sleep", "60"]))
    processes.callback(victim.kill)
    pid = victim.pid
    before = Path(f"/proc/{pid}/limits").read_text(), os.sched_getaffinity(pid), os.getpriority(os.PRIO_PROCESS, pid)

    for act in ("resource.prlimit({}, resource.RLIMIT_NOFILE, (9, 9))", "os.setpriority(0, {}, 19)"):
        refused = box.run(f'python3 -I -S -c "import os, resource; {act.format(pid)}"')
        assert "PermissionError" in refused.output
        own = box.run(f'python3 -I -S -c "import os, resource; {act.format(0)}"')
        assert own == (0, "")
    assert box.run(f"taskset -p 1 {pid} || chrt -b -p 0 {pid} || ionice -c 3 -p {pid}").code != 0

    after = Path(f"/proc/{pid}/limits").read_text(), os.sched_getaffinity(pid), os.getpriority(os.PRIO_PROCESS, pid)
    assert after == before


@pytest.mark.skipif(ruleset.abi() < 6, reason="this version of Landlock does not restrict signals")
def test_signals_reach_no_process_outside(box):
    assert box.run(f"kill -0 {box.worker.pid}").code != 0
    assert box.run("sleep 60 & kill $!").code == 0


def test_no_capability_is_left(box):
    assert set(box.run("grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2").output.split()) == {"0" * 16}


def test_memory_and_files_of_other_processes_are_not_readable(box):
    # root with its capabilities could read both in spite of Landlock
    assert box.run(f"cat /proc/{box.worker.pid}/environ").code != 0
    assert box.run(f"cat /proc/{box.worker.pid}/maps").code != 0
    assert box.run("cat /proc/self/environ > /dev/null").code == 0


def test_a_program_can_use_its_own_terminal_and_no_other(box):
    ours, theirs = os.openpty()
    name = os.ttyname(theirs)
    os.chown(name, box.worker.uid, -1)

    assert box.run(f"echo evil > {name}").code != 0
    assert box.run(f"exec 3< {name}").code != 0
    assert box.run("test -t 0 && echo own > /dev/tty", tty=True).output == "own\r\n"

    os.set_blocking(ours, False)
    with pytest.raises(BlockingIOError):
        os.read(ours, 1)
    os.close(ours)
    os.close(theirs)


def test_a_workspace_that_contains_the_state_is_refused_unless_read_only(box):
    with pytest.raises(Refused) as raised:
        box.run("true", roots=[str(box.base)])
    assert raised.value.code == "sandbox_unavailable"

    box.write("state/state.db")
    done = box.run(f"cat {box.state}/state.db; echo ran", roots=[str(box.base)], name="read-only")
    assert SECRET not in done.output
    assert done.output.endswith("ran\n")


def test_a_private_loopback_is_refused(box):
    with pytest.raises(Refused) as raised:
        box.run("true", network="loopback")

    assert raised.value.code == "sandbox_unavailable"


def test_older_versions_have_more_gaps():
    counts = [len(landlock.missing(version)) for version in range(1, 8)]

    assert counts == sorted(counts, reverse=True)
    assert any("signals reach" in gap for gap in landlock.missing(5))
    assert not any("signals reach" in gap for gap in landlock.missing(6))


@pytest.mark.parametrize("version", range(1, ruleset.abi() + 1))
def test_rulesets_of_every_version_can_be_created(box, version):
    # a newer kernel accepts the rulesets of older ones
    box.write("home/.ssh/id")

    assert box.worker.ask(do="landlock", version=version, **box.request("true")) >= 0


def test_the_gaps_are_real(box):
    """The gaps in `missing` are real; if one of these fails, the list is too long."""
    box.write("ws/.env")
    box.mkdir("ws/.git")

    done = box.run("cat .env; mkdir -p .git/hooks && echo made; ls ~/ /tmp > /dev/null && echo listed")

    assert done.output == f"{SECRET}made\nlisted\n"
    assert box.run("chmod 700 ~ && touch ~").code == 0
