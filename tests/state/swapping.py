"""Swap names in a workspace between files and links to outside files, as fast as possible, until stopped.

The swaps are renames, so that every name exists at every moment.
"""

from __future__ import annotations

import os
import select
import sys


def swap(root: str, outside: str) -> None:
    """Make one round of swaps."""
    for name, target in (("file.txt", f"{outside}/secret.txt"), ("dir", outside), ("deep/er", outside)):
        full = f"{root}/{name}"
        exchange(full, target)
        # a folder that moves within the workspace while it is walked
        os.rename(f"{root}/moving", f"{root}/moved")
        os.rename(f"{root}/moved", f"{root}/moving")
    os.symlink(outside, f"{root}/flip.new")
    os.rename(f"{root}/flip.new", f"{root}/flip")
    os.symlink("dir", f"{root}/flip.new")
    os.rename(f"{root}/flip.new", f"{root}/flip")


def exchange(full: str, target: str) -> None:
    """Replace a file or folder with a link, and then restore it."""
    aside, link = full + ".aside", full + ".link"
    os.symlink(target, link)
    os.rename(full, aside)
    os.rename(link, full)
    os.unlink(full)
    os.rename(aside, full)


if __name__ == "__main__":
    root, outside = sys.argv[1:]
    print("ready", flush=True)
    rounds = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            swap(root, outside)
        except OSError:
            # a call has written where we were about to swap: clean up and continue
            for name in ("file.txt", "dir", "deep/er"):
                full = f"{root}/{name}"
                if os.path.islink(full):
                    os.unlink(full)
                if os.path.lexists(full + ".link"):
                    os.unlink(full + ".link")
                if os.path.lexists(full + ".aside") and not os.path.lexists(full):
                    os.rename(full + ".aside", full)
                elif os.path.lexists(full + ".aside"):
                    os.rename(full + ".aside", f"{root}/trash-{name.replace('/', '-')}-{rounds}")
            if os.path.lexists(f"{root}/moved") and not os.path.lexists(f"{root}/moving"):
                os.rename(f"{root}/moved", f"{root}/moving")
            elif os.path.lexists(f"{root}/moved"):
                os.rename(f"{root}/moved", f"{root}/trash-moved-{rounds}")
            if os.path.lexists(f"{root}/flip.new"):
                os.unlink(f"{root}/flip.new")
        rounds += 1
    print(rounds)
