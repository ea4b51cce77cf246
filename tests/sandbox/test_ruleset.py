"""What a program can read under a ruleset that allows only reading."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from errno import EACCES, ELOOP

import pytest

from hilt.sandbox import capturing, ruleset
from hilt.sandbox.backend import Launch, StartSteps

pytestmark = pytest.mark.skipif(not ruleset.abi(), reason="needs a kernel with Landlock")

CAT = shutil.which("cat") or "/bin/cat"


@pytest.fixture
def run(tmp_path) -> Iterator[Callable[..., str]]:
    """Run a program in the folder `inside`, which it may read; return its output."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "file").write_text("inside")
    (tmp_path / "secret").write_text("SECRET")
    (inside / "link").symlink_to(tmp_path / "secret")
    folder = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)

    def run(*argv: str, files: tuple[int, ...] = ()) -> str:
        program = os.path.realpath(argv[0])
        rules = ruleset.reading(folder, files, (program, sys.base_prefix))
        try:
            confined = Launch(steps=StartSteps(ruleset=rules), trusted=True)
            done = capturing.run(argv, cwd=folder, env={"LC_ALL": "C"}, confined=confined)
            return (done.stdout.head + done.stderr.head).decode()
        finally:
            if rules is not None:
                os.close(rules)

    yield run
    os.close(folder)


def test_a_program_that_may_read_a_folder_reads_nothing_else(run, tmp_path):
    def complaint(path: str) -> str:
        return str(run(CAT, path)).partition(": ")[2]  # the name of the program is its path or only its last part

    assert run(CAT, "file") == "inside"
    assert complaint("link") in [f"link: {reason}\n" for reason in (os.strerror(EACCES), os.strerror(ELOOP))]
    assert complaint("../secret") == "../secret: Permission denied\n"
    assert complaint(str(tmp_path / "secret")) == f"{tmp_path}/secret: Permission denied\n"


def test_an_open_file_can_be_allowed(run, tmp_path):
    with open(tmp_path / "secret", "rb") as file:
        assert run(CAT, str(tmp_path / "secret"), files=(file.fileno(),)) == "SECRET"


@pytest.mark.parametrize(
    "attempt",
    [
        "open('new', 'w')",
        "open('file', 'a')",
        "os.unlink('file')",
        "os.mkdir('new')",
        "os.execv('../program', ['program'])",
    ],
)
def test_a_read_only_program_changes_nothing_and_starts_nothing(run, tmp_path, attempt):
    shutil.copy(CAT, tmp_path / "program")  # the prefix of Python, which it may read, can be /usr
    script = f"import os\ntry:\n    {attempt}\nexcept PermissionError:\n    print('refused')"

    assert run(sys.executable, "-I", "-S", "-c", script) == "refused\n"
    assert sorted(os.listdir(tmp_path / "inside")) == ["file", "link"]


@pytest.mark.skipif(ruleset.abi() < 4, reason="this version of Landlock does not restrict the network")
def test_a_read_only_program_reaches_no_network(run):
    attempt = "import _socket\ntry:\n    _socket.socket().connect(('127.0.0.1', 9))\n"
    script = f"{attempt}except PermissionError:\n    print('refused')"

    assert run(sys.executable, "-I", "-S", "-c", script) == "refused\n"
