from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from hilt.desktop.privacy import Privacy
from tests.marks import wait_until
from tests.programs import program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are inspected in /proc")

OWN = os.getpid()


@pytest.mark.parametrize(
    "names, title",
    [
        (["xterm", "XTerm"], ""),
        (["gnome-terminal-server", "Gnome-terminal"], "~"),
        (["keepassxc", "KeePassXC"], "Passwords.kdbx"),
        (["Rofi"], ""),
        (["firefox"], "hilt — Mozilla Firefox"),
        (["firefox"], "Approvals · Hilt - Chromium"),
        (["any"], "My SECRET plan"),
        (["wallet-app"], ""),
    ],
)
def test_windows_with_private_names_or_titles_are_private(names, title):
    privacy = Privacy(["title:*secret*", "Wallet*"])

    assert privacy.reason(OWN, names, title)


@pytest.mark.parametrize("names, title", [(["gimp"], "terminal.png"), (["mousepad"], "notes"), ([], "Philtre")])
def test_other_windows_are_not_private(names, title):
    process = subprocess.Popen([program("sleep"), "60"])
    try:
        assert Privacy(["title:*secret*"]).reason(process.pid, names, title) == ""
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("pid", [0, 2**22 + 1])
def test_windows_of_unknown_processes_are_private(pid):
    assert Privacy().reason(pid, ["mousepad"], "notes") == "its process is unknown"


@pytest.mark.parametrize("renamed", [False, True])
def test_a_process_that_holds_a_pseudo_terminal_is_a_terminal(tmp_path, renamed):
    script = "import os, sys; os.openpty(); print('open', flush=True); sys.stdin.read()"
    python = sys.executable
    if renamed:
        python = shutil.copy(os.path.realpath("/usr/bin/python3"), tmp_path / "harmless")
    process = subprocess.Popen([python, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert Privacy().reason(process.pid, ["notes"], "notes") == "it is a terminal"
    finally:
        process.communicate()


def test_a_program_is_a_terminal_if_a_child_process_of_the_same_program_is():
    script = (
        "import subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', 'import os, sys; os.openpty(); sys.stdin.read()']).wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        privacy = Privacy()
        wait_until(lambda: privacy.reason(process.pid, ["editor"], "notes") == "it is a terminal")
    finally:
        process.communicate()
