"""Generated repositories that a command plants: afterwards no git command, in any folder, runs anything of theirs.

What git really does is the reference. Each layout is also planted without a sandbox, which shows that enough of them
work. A second command completes or exchanges what the first has left.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.sandbox.confined import Box
from tests.sandbox.test_disarming import ENVIRONMENT, any_box, run_freely  # noqa: F401 -- a fixture

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")

LAYOUTS = int(os.environ.get("HILT_STRESS") or 1) * 40
# runs in the sandbox, once for each of two commands
PLANT = r"""
import os, random, shutil, sys
from contextlib import suppress

count, phase, top = int(sys.argv[1]), int(sys.argv[2]), os.getcwd()
evil = sys.argv[3]


class Layout:
    def __init__(self, number):
        self.chance = random.Random(number)
        self.top = f"{top}/case{number}"
        self.later = []

    def path(self, *names):
        return os.path.join(self.top, *names)

    def write(self, path, text, mode=0o644):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        how = self.chance.choice(["plain"] * 6 + ["link", "hard link", "moved", "later"])
        if how == "later":
            self.later.append((path, text, mode))
            return
        place = path if how == "plain" else self.path("elsewhere", str(self.chance.random()))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w") as file:
            file.write(text)
        os.chmod(place, mode)
        if how == "link":
            os.symlink(place, path)
        elif how == "hard link":
            os.link(place, path)
        elif how == "moved":
            os.rename(place, path)

    def folder(self, path):
        how = self.chance.choice(["plain"] * 8 + ["link"])
        if how == "link":
            place = self.path("elsewhere", str(self.chance.random()))
            os.makedirs(place)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(place, path)
        else:
            os.makedirs(path, exist_ok=True)

    def config(self, path, worktree):
        chance = self.chance
        core = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
        payload = f"[core]\n\tfsmonitor = {evil}\n[alias]\n\tst = !{evil}\n"
        kind = chance.choice(["here", "here", "included", "worktree", "hooks", "one line", "none"])
        if kind == "here":
            core += payload
        elif kind == "included":
            self.write(self.path("included.conf"), payload)
            core += f"[include]\n\tpath = {self.path('included.conf')}\n"
        elif kind == "worktree":
            core += "[extensions]\n\tworktreeConfig = true\n"
            self.write(os.path.join(os.path.dirname(path), "config.worktree"), payload)
            self.write(os.path.join(worktree, "config.worktree"), payload)
        elif kind == "hooks":
            self.write(self.path("h/post-commit"), f"#!/bin/sh\n{evil}\n", 0o755)
            core += f"[core]\n\thooksPath = {self.path('h')}\n"
        elif kind == "one line":
            core += f"[alias] st = !{evil}\n"
        self.write(path, core)

    def reference(self, base, target):
        chance = self.chance
        kind = chance.choice(["relative", "relative", "absolute", "link", "dots", "space"])
        if kind == "link":
            link = self.path("l", str(chance.random()))
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)
            target = link
        text = target if kind == "absolute" else os.path.relpath(target, base)
        return {"dots": "./" + text, "space": text + "\0 "}.get(kind, text)

    def make(self):
        chance = self.chance
        common = self.path(chance.choice(["lib", "store/x", "w/.git", "w/.git/modules/m", "a b/c", ".env.d/x"]))
        for name in ("objects", "refs/heads"):
            if chance.random() < 0.95:
                self.folder(os.path.join(common, name))
        if chance.random() < 0.5:
            self.write(os.path.join(common, "HEAD"), "ref: refs/heads/main\n")
        worktree = common
        if chance.random() < 0.6:
            worktree = chance.choice([os.path.join(common, "worktrees/x"), self.path("g"), self.path("w2/.git")])
            if chance.random() < 0.9:
                self.write(os.path.join(worktree, "HEAD"), "ref: refs/heads/side\n")
            self.write(os.path.join(worktree, "commondir"), self.reference(worktree, common) + "\n")
        self.config(os.path.join(common, "config"), worktree)
        if chance.random() < 0.5:
            self.write(os.path.join(common, "hooks/post-commit"), f"#!/bin/sh\n{evil}\n", 0o755)
        entry = self.path(chance.choice(["src", "deep/er/src", "lib/src"]), ".git")
        kind = chance.choice(["file", "file", "file", "link", "none"])
        if kind == "file":
            end = chance.choice(["\n", "", "\r\n"])
            self.write(entry, f"gitdir: {self.reference(os.path.dirname(entry), worktree)}{end}")
        elif kind == "link":
            os.makedirs(os.path.dirname(entry), exist_ok=True)
            os.symlink(self.reference(os.path.dirname(entry), worktree).strip("\0 "), entry)

    def complete(self):
        for path, text, mode in self.later:
            with suppress(OSError):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "x") as file:
                    file.write(text)
                os.chmod(path, mode)
        kind = self.chance.choice(["nothing", "exchange", "rename"])
        for name in ("lib", "store", "g"):
            with suppress(OSError):
                if kind == "rename":
                    os.rename(self.path(name), self.path(name + "-2"))
                if kind != "nothing" and os.path.isdir(self.path(name + "-2")):
                    os.symlink(name + "-2", self.path(name))


for number in range(count):
    layout = Layout(number)
    if phase == 2:
        made, layout.top = layout.top, f"{os.environ['TMPDIR']}/again{number}"
        with suppress(OSError):
            layout.make()  # once more, to know what it left for later
        shutil.rmtree(layout.top, ignore_errors=True)
        layout.later = [(path.replace(layout.top, made), text.replace(layout.top, made), mode)
                        for path, text, mode in layout.later]
        layout.top = made
        layout.complete()
    else:
        with suppress(OSError):
            layout.make()
"""
# in every folder: what a person may do next; git is started only where it finds a repository
VISIT = """
find . -type d ! -name objects | while read -r folder; do
    cd "$folder" && if git rev-parse --git-dir > /dev/null 2>&1; then
        git status; git diff; git log -1; git st; git add -A; git commit -qm x --allow-empty; git branch
    fi; cd "$OLDPWD"
done > /dev/null 2>&1; true
"""


def plant(box: Box, folder: Path, *, confined: bool) -> list[str]:
    """Plant all layouts in a folder, and return the notes."""
    (folder / "plant.py").write_text(PLANT)
    box.own()
    notes = []
    for phase in (1, 2):
        script = f"export TMPDIR=${{TMPDIR:-/tmp}}; python3 plant.py {LAYOUTS} {phase} {folder}/evil.sh"
        if confined:
            done = box.run(script)
            assert done.code == 0, done.output
            notes += box.notes
        else:
            run_freely(box, folder, script)
    return notes


def visit(box: Box, folder: Path) -> set[str]:
    """Run git in every folder, and return the layouts that ran something."""
    evil = box.base / folder.name / "evil.sh"
    assert evil.exists()
    run_freely(box, folder, f"export {' '.join('='.join(item) for item in ENVIRONMENT.items())}; {VISIT}")
    marker = box.base / "marker"
    lines = marker.read_text().split() if marker.exists() else []
    marker.unlink(missing_ok=True)
    return set(lines)


def make_folder(box: Box, name: str) -> Path:
    folder = box.base / name
    folder.mkdir(exist_ok=True)
    (folder / "evil.sh").write_text('#!/bin/sh\npwd | grep -o "case[0-9]*" >> "$HOME/../marker"\n')
    (folder / "evil.sh").chmod(0o755)
    box.own()
    return folder


def test_no_planted_repository_runs_anything_in_any_folder(any_box):  # noqa: F811
    box = any_box
    free, folder = make_folder(box, "free"), make_folder(box, "ws")
    plant(box, free, confined=False)

    notes = plant(box, folder, confined=True)

    working = visit(box, free)
    assert len(working) >= LAYOUTS // 5, "too few payloads work"
    assert visit(box, folder) == set()
    assert notes
