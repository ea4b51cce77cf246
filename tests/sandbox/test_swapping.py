"""A running program swaps names while others start: they get no more access."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from tests.sandbox.confined import SECRET, Box, Busy, Worker

pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")

STARTS = int(os.environ.get("HILT_STRESS") or 2) * 10

# swaps a folder that the next plan mounts into with a link out of the workspace
SWAP = """
import ctypes, os, random, sys, time
inner, outside = sys.argv[1:]
os.makedirs(f"sub/{os.path.dirname(inner)}", exist_ok=True)
open(f"sub/{inner}", "w").write("made by the job")
os.symlink(outside, "link")
swap = ctypes.CDLL(None).renameat2
print("on", flush=True)
started = time.monotonic()
while True:
    swap(-100, b"sub", -100, b"link", 2)
    # long enough for one half of a plan, and short enough to change before the other half; longer and longer on a busy
    # machine, where a plan takes so long that no command would ever start
    time.sleep(random.random() * 0.01 * (1 + (time.monotonic() - started) / 10))
"""


# a folder that programs can see: in the temporary folder, paths outside the workspace would be hidden
PLACES = [folder for folder in ("/srv", "/opt", os.path.expanduser("~")) if os.access(folder, os.W_OK)]


@pytest.fixture
def box(worker: Worker) -> Iterator[Box]:
    with closing(Box(worker, folder=PLACES[0])) as box:
        yield box


def swap_and_start(
    box: Box,
    inner: str,
    outside: str,
    script: str,
    *,
    starts: int = STARTS,
    before: Callable[[], None] = lambda: None,
) -> list[str]:
    """Run a swapping job and commands at the same time, until one has started; return the output of those that have."""
    # the outside folder looks as the plan expects
    for path in (inner, ".git/config", ".git/hooks/x", ".git/worktrees/w/x", ".git/modules/x/HEAD"):
        box.write(f"{outside}/{path}", "")
    box.write("ws/swap.py", SWAP)
    job = box.start(f"mkdir -p deep/er; cd deep/er; exec python3 ../../swap.py {inner} ../../../{outside}")
    printed: list[str] = []
    try:
        attempts = 0
        while attempts < starts or not any(output.endswith("ran\n") for output in printed):
            attempts += 1
            with suppress(Busy):
                before()
                printed.append(box.run(script).output)
    finally:
        box.stop(job)
    return printed


@pytest.mark.parametrize("inner", [".git/config", ".env", ".claude/settings.json"])
def test_swapping_a_folder_with_a_link_makes_nothing_writable(box, inner):
    outside = box.mkdir("outside")

    printed = swap_and_start(box, inner, "outside", f"echo evil > {outside}/marker; echo ran")

    assert set(os.listdir(outside)) <= {".git", inner.partition("/")[0]}
    assert any(output.endswith("ran\n") for output in printed)


@pytest.mark.parametrize("inner", [".git/config", ".env"])
def test_swapping_a_folder_with_a_link_uncovers_nothing(box, inner):
    secret = box.write("home/.ssh/id")

    printed = swap_and_start(box, inner, "home/.ssh", f"cat {secret}; echo evil > {secret}; echo ran")

    assert not any(SECRET in output for output in printed)
    assert secret.read_text() == SECRET
    assert any(output.endswith("ran\n") for output in printed)


def test_moving_a_folder_shows_no_sensitive_file(box):
    box.write("ws/sub/.env")
    box.mkdir("ws/link")
    box.write("ws/swap.py", "import ctypes, random, time\n" + SWAP[SWAP.index("swap =") :])
    job = box.start("exec python3 swap.py")

    try:
        printed = [box.run("cat sub/.env link/.env; echo ran").output for _ in range(STARTS)]
    finally:
        box.stop(job)

    assert not any(SECRET in output for output in printed)
    assert all(output.endswith("ran\n") for output in printed)
