from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from skills_ref import validate  # type: ignore[import-untyped]

from hilt.testing import Folder
from tests.skills.places import text
from tests.surfaces.cli.test_approve import at_terminal, status_and_text
from tests.surfaces.commands import HILT, Command


def config(command: Command) -> Folder:
    return Folder(command.environ["HILT_CONFIG_DIR"])


def as_json(command: Command, *words: str) -> Any:
    done = command.run("skills", *words, "--json")
    assert done.stderr == b"", done.stderr.decode()
    return json.loads(done.stdout)


def failed(command: Command, *words: str) -> str:
    """Run a command that fails, and return its error code."""
    done = command.run("skills", *words)
    assert (done.returncode, done.stdout) == (1, b"")
    return done.stderr.decode().partition(":")[0]


# --- list and show ------------------------------------------------------------------------------------------------


def test_skills_are_listed_with_those_that_failed_to_load(command):
    config(command).write("skills/pdf/SKILL.md", text("pdf", description="Reads PDF files."))
    config(command).write("skills/BAD/SKILL.md", text("bad"))
    config(command).write("commands/fix.md", "---\ndescription: Fix it\nargument-hint: ISSUE\n---\nFix $1.\n")
    command.folder.write(".hilt/skills/new/SKILL.md", text("new", description="Evil \x1b[2J text."))
    Folder(command.environ["HOME"]).write(".claude/skills/pdf/SKILL.md", text("pdf"))

    status, lines = status_and_text(command, "skills")
    data = as_json(command, "list")

    assert status == 0
    assert "pdf            personal  Reads PDF files." in lines
    assert "hilt           built-in  How to use hilt" in lines
    assert "Evil" not in lines
    assert all(word in lines.replace("\n", "") for word in ("fix", "BAD", ".hilt/skills/new", ".claude/skills/pdf"))
    assert [skill["name"] for skill in data["skills"]] == ["hilt", "pdf", "skill-creator", "tool-creator"]
    assert [(skill_command["name"], skill_command["argument_hint"]) for skill_command in data["commands"]] == [
        ("fix", "ISSUE")
    ]
    assert [item["name"] for item in data["untrusted"]] == ["new"]
    assert [os.path.basename(problem["path"]) for problem in data["problems"]] == ["BAD"]
    assert len(data["hidden"]) == 1


def test_a_skill_is_shown(command):
    more = "license: MIT\nallowed-tools: Read\n"
    config(command).write("skills/pdf/SKILL.md", text("pdf", "Line one.\n\n\x1b[31mLine two.", more=more))
    config(command).write("skills/pdf/references/a.md", "")

    output = command.run("skills", "show", "pdf").stdout.decode()
    data = as_json(command, "show", "pdf")

    assert output.startswith("pdf\n\nDoes things.\n\npersonal, ")
    assert output.endswith("license: MIT\nallowed tools: Read\nfile: references/a.md\n\nLine one.\n\n[31mLine two.\n")
    assert (data["license"], data["allowed_tools"], data["files"]) == ("MIT", "Read", ["references/a.md"])
    assert failed(command, "show", "pfd") == "not_found"


# --- new and check ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, folder", [((), "workspace/.hilt"), (("--personal",), "config")])
def test_a_new_skill_is_valid(command, tmp_path, words, folder):
    done = command.run("skills", "new", "release-notes", *words)

    path = tmp_path / folder / "skills/release-notes"
    assert done.stdout.decode().startswith(f"{path}/SKILL.md\n")
    assert validate(path) == []
    assert command.run("skills", "check", str(path)).returncode == 0
    assert failed(command, "new", "release-notes", *words) == "already_exists"
    names = [skill["name"] for skill in as_json(command, "list")["skills"]]
    assert ("release-notes" in names) is bool(words)


@pytest.mark.parametrize("name", ["", "A", "a_b", "../a", "/tmp/a", "a/b", "-", "a--b", "x" * 65, "a\nb"])
def test_a_new_skill_needs_a_valid_name(command, name):
    before = command.folder.tree()

    assert command.run("skills", "new", "--", name).returncode == 1
    assert command.folder.tree() == before


def test_check_sets_the_exit_status(command):
    command.folder.write("pdf/SKILL.md", text("pdf"))
    command.folder.write("docx/SKILL.md", text("other", more="version: 1\n"))

    good = command.run("skills", "check", "pdf")
    bad = command.run("skills", "check", "docx/SKILL.md")

    assert (good.returncode, good.stdout) == (0, b"pdf: valid\n")
    assert bad.returncode == 1
    assert b"version" in bad.stdout
    assert b"other" in bad.stdout
    assert command.run("skills", "check", ".", cwd=command.folder.join("pdf")).returncode == 0
    assert as_json(command, "check", "pdf") == {"path": "pdf", "valid": True, "problems": []}
    assert len(json.loads(command.run("skills", "check", "docx", "--json").stdout)["problems"]) == 2
    assert command.run("skills", "check", "missing").returncode == 1


# --- install and remove -------------------------------------------------------------------------------------------


def test_all_files_of_a_skill_are_installed_and_it_can_be_used_at_once(command):
    command.folder.write("pdf/SKILL.md", text("pdf", "Installed."))
    command.folder.write("pdf/references/deep/a.md", "a\n")
    os.chmod(command.folder.write("pdf/scripts/run.sh", "echo\n"), 0o755)

    done = command.run("skills", "install", "pdf/")

    target = config(command).join("skills/pdf")
    assert done.stdout.decode() == f"Installed {target}\n"
    assert Folder(target).tree() == Folder(command.folder.join("pdf")).tree()
    assert os.stat(f"{target}/scripts/run.sh").st_mode & stat.S_IXUSR
    assert not os.stat(f"{target}/SKILL.md").st_mode & stat.S_IXUSR
    assert "Installed." in command.ask({"tool": "load_skill", "args": {"name": "pdf"}})[0]["result"]
    assert os.listdir(os.path.dirname(target)) == ["pdf"]


def test_an_installed_skill_is_replaced_only_by_force_and_backed_up(command):
    command.folder.write("pdf/SKILL.md", text("pdf", "One."))
    assert command.run("skills", "install", "pdf").returncode == 0
    command.folder.write("pdf/SKILL.md", text("pdf", "Two."))

    assert failed(command, "install", "pdf") == "already_exists"
    assert "One." in as_json(command, "show", "pdf")["body"]
    done = command.run("skills", "install", "pdf", "--force")

    assert "Two." in as_json(command, "show", "pdf")["body"]
    backup = done.stdout.decode().rpartition(" is in ")[2].strip()
    assert "One." in Folder(backup).read("SKILL.md")


# files of the folder pdf, and links: a target in place of contents
INVALID: dict[str, dict[str, str | bytes | Path]] = {
    "no SKILL.md": {"pdf/other.md": ""},
    "another name": {"pdf/SKILL.md": text("docx")},
    "an unknown field": {"pdf/SKILL.md": text("pdf", more="version: 1\n")},
    "missing": {},
    "a file": {"pdf": "text"},
    "a link inside": {"pdf/SKILL.md": text("pdf"), "pdf/a.md": Path("SKILL.md")},
    "a link out": {"pdf/SKILL.md": text("pdf"), "pdf/a.md": Path("/etc/hostname")},
    "a linked SKILL.md": {"real.md": text("pdf"), "pdf/b.md": "", "pdf/SKILL.md": Path("../real.md")},
    "a linked folder": {"real/pdf/SKILL.md": text("pdf"), "pdf": Path("real/pdf")},
    "a device": {"pdf/SKILL.md": text("pdf"), "pdf/scripts": Path("/dev/null")},
    "too large": {"pdf/SKILL.md": text("pdf"), "pdf/assets/a.bin": b"x" * ((1 << 20) + 1)},
}


@pytest.mark.parametrize("files", INVALID.values(), ids=INVALID)
def test_only_valid_skills_are_installed(command, files):
    for name, contents in files.items():
        if isinstance(contents, Path):
            os.symlink(contents, command.folder.join(name))
        else:
            command.folder.write(name, contents)

    assert failed(command, "install", "pdf") == "tool_invalid"
    assert not os.path.exists(config(command).join("skills/pdf"))


def test_a_link_in_place_of_an_installed_skill_is_not_followed(command):
    command.folder.write("pdf/SKILL.md", text("pdf", "New."))
    elsewhere = Folder(command.environ["HOME"])
    elsewhere.write("pdf/SKILL.md", text("pdf", "Mine."))
    os.makedirs(config(command).join("skills"))
    os.symlink(elsewhere.join("pdf"), config(command).join("skills/pdf"))

    assert failed(command, "install", "pdf") == "already_exists"
    assert command.run("skills", "install", "pdf", "--force").returncode == 0

    assert "Mine." in elsewhere.read("pdf/SKILL.md")
    assert not os.path.islink(config(command).join("skills/pdf"))


def test_one_of_ten_simultaneous_installs_succeeds(command):
    command.folder.write("pdf/SKILL.md", text("pdf"))
    command.folder.write("pdf/references/a.md", "a\n")
    statuses: list[int] = []

    def install() -> None:
        statuses.append(command.run("skills", "install", "pdf").returncode)

    threads = [threading.Thread(target=install) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [0, *[1] * 9]
    assert Folder(config(command).join("skills")).tree() == {
        "pdf/": None,
        "pdf/SKILL.md": text("pdf"),
        "pdf/references/": None,
        "pdf/references/a.md": "a\n",
    }


def test_a_removed_skill_can_be_installed_again(command):
    config(command).write("skills/pdf/SKILL.md", text("pdf"))
    config(command).write("skills/pdf/references/a.md", "a\n")
    before = config(command).tree()

    done = command.run("skills", "remove", "pdf").stdout.decode()

    assert done.startswith(f"Removed {config(command).join('skills/pdf')}\n")
    assert os.listdir(config(command).join("skills")) == []
    restore = done.rpartition(": ")[2].strip()
    assert subprocess.run(["sh", "-c", restore], env=command.environ, cwd=command.folder.path).returncode == 0
    assert config(command).tree() == before


def test_a_pipe_is_not_installed(command):
    command.folder.write("pdf/SKILL.md", text("pdf"))
    os.mkfifo(command.folder.join("pdf/pipe"))

    assert failed(command, "install", "pdf") == "tool_invalid"


@pytest.mark.parametrize("name", ["pfd", "../pdf", "..", ".", "", "skill-creator", "/etc"])
def test_only_personal_skills_are_removed(command, name):
    config(command).write("skills/pdf/SKILL.md", text("pdf"))
    config(command).write("pdf/SKILL.md", text("pdf"))
    before = config(command).tree()

    assert failed(command, "remove", "--", name) == "not_found"
    assert config(command).tree() == before


def test_removing_a_link_removes_only_the_link(command):
    home = Folder(command.environ["HOME"])
    home.write("pdf/SKILL.md", text("pdf"))
    os.makedirs(config(command).join("skills"))
    os.symlink(home.join("pdf"), config(command).join("skills/pdf"))

    assert command.run("skills", "remove", "pdf").returncode == 0
    assert os.listdir(config(command).join("skills")) == []
    assert home.read("pdf/SKILL.md") == text("pdf")


@pytest.mark.parametrize("words", ["install pdf", "remove pdf"])
def test_a_tool_cannot_change_the_users_skills(command, words):
    command.folder.write("pdf/SKILL.md", text("pdf"))
    config(command).write("config.toml", '[shell]\nsandbox = "full"\n')

    line = ("call", "run_shell", f"command={HILT} skills {words}", "--approve", "once")
    blocked = command.run(*line)
    reply = command.run(*line, "force=true")

    assert blocked.stderr.startswith(b"command_blocked")
    assert f"denied: hilt skills {words.split()[0]} requires a person" in reply.stdout.decode().replace("\n", " ")
    assert not os.path.exists(config(command).join("skills"))


# --- trust --------------------------------------------------------------------------------------------------------


def test_a_skill_is_reviewed_file_by_file_and_again_after_a_change(command):
    path = ".hilt/skills/pdf"
    command.folder.write(f"{path}/SKILL.md", text("pdf"))
    command.folder.write(f"{path}/scripts/run.sh", "echo one\n")
    command.folder.write(".hilt/commands/go.md", "Go.\n")
    listed = status_and_text(command, "trust")[1].replace("\n", "")
    assert "run.sh  skill, not trusted" in listed
    assert "go.md  command, not trusted" in listed

    answer(command, path, "y", "y")
    assert loaded(command, "pdf")

    command.folder.write(f"{path}/scripts/run.sh", "echo two\n")
    assert not loaded(command, "pdf")
    page = answer(command, path, "y")
    assert "| -echo one\n| +echo two\n" in page
    assert loaded(command, "pdf")

    os.unlink(command.folder.join(f"{path}/scripts/run.sh"))
    assert not loaded(command, "pdf")
    page = answer(command, ".", "y", "y")  # the command, then the removed file
    assert "was removed since it was trusted" in page.replace("\n", " ")
    assert loaded(command, "pdf")


def test_all_skills_of_a_folder_are_reviewed(command):
    for name in ("a", "b"):
        command.folder.write(f".agents/skills/{name}/SKILL.md", text(name))

    answer(command, ".agents/skills", "y", "y")

    assert loaded(command, "a")
    assert loaded(command, "b")


def answer(command: Command, path: str, *answers: str) -> str:
    """Review a path at a terminal with these answers; return the output."""
    with at_terminal(command, "trust", path) as screen:
        page = ""
        for typed in answers:
            page += screen.expect("[y/n] > ")
            screen.type(f"{typed}\n")
        assert screen.end()[0] == 0
    return page


def loaded(command: Command, name: str) -> bool:
    return bool(command.ask({"tool": "load_skill", "args": {"name": name}})[0]["ok"])
