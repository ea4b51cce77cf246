"""Skills are discovered, trusted and loaded, and a hostile project cannot do more than that."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

from hilt.skills import folder_contents
from hilt.skills.folder_contents import FILES_MAX
from hilt.skills.library import LibraryContents
from tests.marks import wait_until
from tests.skills.places import SkillUser, text
from tests.trusting import file_at


@pytest.fixture
def user(tmp_path) -> SkillUser:
    return SkillUser(str(tmp_path))


def contents(user: SkillUser, **variables: str) -> LibraryContents:
    with user.runtime(**variables) as runtime:
        return runtime.parts.skills.current(rescan=True)


def own(user: SkillUser, **variables: str) -> dict[str, str]:
    """Return the skills that are loaded and not built in, with their sources."""
    skills = contents(user, **variables).skills.values()
    return {skill.name: skill.source for skill in skills if skill.source != "built-in"}


def load(user: SkillUser, name: str, **variables: str) -> str:
    """Return the body of a skill, or the code of the error."""
    with user.runtime(**variables) as runtime:
        result = runtime.call("load_skill", name=name)
        return result.error.code if result.error else result.text.split("\n")[1]


# --- places -------------------------------------------------------------------------------------------------------

PROJECT = (".hilt/skills", ".claude/skills", ".agents/skills", ".jcli/skills")


def test_the_place_with_the_highest_precedence_wins(user):
    for number, folder in enumerate(PROJECT):
        user.workspace.write(f"{folder}/pdf/SKILL.md", text("pdf", f"project {number}"))
    user.config.write("skills/pdf/SKILL.md", text("pdf", "personal 0"))
    for number, folder in enumerate(PROJECT[1:], 1):
        user.home.write(f"{folder}/pdf/SKILL.md", text("pdf", f"personal {number}"))
    order: list[str] = []

    for folder in (*(user.workspace.join(name) for name in PROJECT), user.config.join("skills")):
        order.append(load(user, "pdf", HILT_TRUST="all"))
        os.rename(folder, f"{folder}-gone")
    for name in PROJECT[1:]:
        order.append(load(user, "pdf", HILT_TRUST="all"))
        os.rename(user.home.join(name), user.home.join(f"{name}-gone"))

    assert order == [*(f"project {number}" for number in range(4)), *(f"personal {number}" for number in range(4))]
    assert load(user, "pdf", HILT_TRUST="all") == "not_found"


def test_a_hidden_skill_is_reported(user):
    user.config.write("skills/pdf/SKILL.md", text("pdf"))
    hidden = os.path.dirname(user.home.write(".claude/skills/pdf/SKILL.md", text("pdf")))

    assert contents(user).hidden == (hidden,)


def test_a_users_skill_may_override_a_built_in_one(user):
    user.config.write("skills/skill-creator/SKILL.md", text("skill-creator", "Mine."))

    assert load(user, "skill-creator") == "Mine."


def test_a_file_in_place_of_a_skill_folder_is_reported_and_skipped(user):
    user.workspace.write(".claude/skills", "a file")
    user.config.write("skills/pdf/SKILL.md", text("pdf"))

    library = contents(user)

    assert "pdf" in library.skills
    assert [problem.path for problem in library.problems] == [user.workspace.join(".claude/skills")]


# --- trust --------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(user: SkillUser) -> SkillUser:
    """A project with a skill of three files, all of them trusted."""
    user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf"))
    user.workspace.write(".hilt/skills/pdf/references/deep/a.md", "a\n")
    user.workspace.write(".hilt/skills/pdf/scripts/run.sh", "echo run\n")
    user.trust(".hilt/skills")
    return user


def test_a_projects_skill_is_loaded_only_after_trust(user):
    user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf"))

    assert own(user) == {}
    assert load(user, "pdf") == "untrusted"
    assert [item.name for item in contents(user).untrusted] == ["pdf"]

    user.trust(".hilt/skills")

    assert own(user) == {"pdf": "project"}
    assert load(user, "pdf") == "Do it."


def test_trust_does_not_follow_a_skill_to_another_folder(project):
    os.rename(project.workspace.join(".hilt/skills"), project.workspace.join(".hilt/other"))
    os.mkdir(project.workspace.join(".claude"))
    os.rename(project.workspace.join(".hilt/other"), project.workspace.join(".claude/skills"))

    assert load(project, "pdf") == "untrusted"


CHANGES = {
    "SKILL.md": lambda folder: folder.write("SKILL.md", text("pdf", "Changed.")),
    "a reference": lambda folder: folder.write("references/deep/a.md", "b\n"),
    "a new file": lambda folder: folder.write("assets/new.bin", b"\0"),
    "a new hidden file": lambda folder: folder.write(".hidden", ""),
    "a removed file": lambda folder: os.unlink(folder.join("scripts/run.sh")),
    "a renamed file": lambda folder: os.rename(folder.join("scripts/run.sh"), folder.join("scripts/go.sh")),
    "a swapped file": lambda folder: os.replace(folder.join("scripts/run.sh"), folder.join("references/deep/a.md")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_in_the_folder_revokes_the_trust(project, change):
    assert load(project, "pdf") == "Do it."

    from hilt.testing import Folder

    change(Folder(project.workspace.join(".hilt/skills/pdf")))

    assert load(project, "pdf") == "untrusted"
    assert own(project) == {}


def test_reverting_a_change_restores_the_trust(project):
    project.workspace.write(".hilt/skills/pdf/scripts/run.sh", "echo other\n")
    assert load(project, "pdf") == "untrusted"

    project.workspace.write(".hilt/skills/pdf/scripts/run.sh", "echo run\n")

    assert load(project, "pdf") == "Do it."


def test_trust_as_another_kind_of_file_does_not_count(user):
    from contextlib import closing

    from hilt.state.trust import Trust

    path = user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf"))
    with closing(Trust(user.environ["HILT_STATE_DIR"])) as trust:
        trust.trust(file_at(path, "file"), text("pdf").encode())
        trust.trust(file_at(path, "command"), text("pdf").encode())

    assert load(user, "pdf") == "untrusted"


def test_an_untrusted_skill_does_not_hide_the_users_own(user):
    user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf", "Evil."))
    user.config.write("skills/pdf/SKILL.md", text("pdf", "Mine."))

    assert load(user, "pdf") == "Mine."


def test_an_untrusted_file_is_not_parsed(user):
    """A file that would break any parser is only hashed."""
    user.workspace.write(".hilt/skills/pdf/SKILL.md", "---\n" + "a: " * 1000 + "\n---\n")

    assert [item.name for item in contents(user).untrusted] == ["pdf"]
    assert contents(user).problems == ()


def test_a_file_that_changes_while_it_is_loaded_is_not_used(project, monkeypatch):
    """The bytes that were hashed are the bytes that are used."""
    read = folder_contents.file_bytes
    path = project.workspace.join(".hilt/skills/pdf/SKILL.md")

    def swap(folder: int, name: str, **options: object) -> bytes:
        data = read(folder, name, **options)  # type: ignore[arg-type]
        if name == "SKILL.md":
            Path(path).write_text(text("pdf", "Swapped after reading."))
        return data

    monkeypatch.setattr(folder_contents, "file_bytes", swap)

    assert load(project, "pdf") == "Do it."
    monkeypatch.undo()
    assert load(project, "pdf") == "untrusted"


def test_a_folder_that_is_swapped_continuously_loads_the_trusted_text_or_fails(project):
    folder = project.workspace.join(".hilt/skills/pdf")
    evil = project.workspace.write(".hilt/evil/SKILL.md", text("pdf", "Evil."))
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(folder, f"{folder}-moved")
            os.symlink(os.path.dirname(evil), folder)
            os.unlink(folder)
            os.rename(f"{folder}-moved", folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        with project.runtime() as runtime:
            results = [runtime.call("load_skill", name="pdf") for _ in range(200)]
    finally:
        stop.set()
        thread.join()

    assert not any("Evil." in result.text for result in results)
    assert {result.error.code for result in results if result.error} <= {
        *("not_found", "untrusted", "tool_invalid", "file_not_found", "path_outside_workspace"),
    }


# --- links --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", [".jcli", ".jcli/skills", ".jcli/skills/pdf", ".jcli/skills/pdf/SKILL.md"])
def test_links_to_a_projects_skill_are_not_followed(user, linked):
    user.home.write("elsewhere/.jcli/skills/pdf/SKILL.md", text("pdf", "Evil."))
    path = user.workspace.join(linked)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(user.home.join(f"elsewhere/{linked}"), path)

    assert own(user, HILT_TRUST="all") == {}
    assert load(user, "pdf", HILT_TRUST="all") in ("not_found", "tool_invalid")


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../outside.txt", "../other", "references/../../up", "nowhere", "chain/../../x"]
)
def test_a_link_that_points_outside_the_folder_makes_the_skill_invalid(project, target):
    folder = project.workspace.join(".hilt/skills/pdf")
    project.workspace.write("outside.txt", "secret\n")
    os.makedirs(os.path.join(folder, "references/deep/deeper"))
    os.symlink("references/deep/deeper", os.path.join(folder, "chain"))
    os.symlink(target, os.path.join(folder, "link"))

    assert load(project, "pdf") == "tool_invalid"
    [problem] = contents(project).problems
    assert "link" in problem.message


def test_a_link_inside_the_folder_is_neither_followed_nor_listed(project):
    os.symlink("references/deep/a.md", project.workspace.join(".hilt/skills/pdf/b.md"))
    os.symlink("references", project.workspace.join(".hilt/skills/pdf/more"))

    assert load(project, "pdf") == "Do it."
    assert contents(project).skills["pdf"].files == ("references/deep/a.md", "scripts/run.sh")


def test_a_users_own_skill_may_be_a_link(user):
    user.home.write("dotfiles/pdf/SKILL.md", text("pdf"))
    user.home.write("dotfiles/docx.md", text("docx", "Linked file."))
    os.makedirs(user.home.join(".claude/skills/docx"))
    os.symlink(user.home.join("dotfiles/pdf"), user.home.join(".claude/skills/pdf"))
    os.symlink(user.home.join("dotfiles/docx.md"), user.home.join(".claude/skills/docx/SKILL.md"))

    assert own(user) == {"docx": "personal", "pdf": "personal"}
    assert load(user, "docx") == "Linked file."


@pytest.mark.parametrize("linked", [".claude/skills", ".claude/skills/pdf", ".claude/skills/pdf/SKILL.md"])
def test_a_users_own_link_does_not_make_a_file_of_the_workspace_trusted(user, linked):
    user.workspace.write(f"stuff/{linked}" + ("" if linked.endswith(".md") else "/SKILL.md"), text("pdf", "Evil."))
    user.workspace.write("stuff/.claude/skills/pdf/SKILL.md", text("pdf", "Evil."))
    path = user.home.join(linked)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(user.workspace.join(f"stuff/{linked}"), path)

    assert own(user) == {}
    assert load(user, "pdf") == ("untrusted" if linked == ".claude/skills" else "tool_invalid")


def test_a_projects_link_to_the_users_skills_does_not_disable_them(user):
    user.home.write(".claude/skills/pdf/SKILL.md", text("pdf"))
    os.symlink(user.home.join(".claude"), user.workspace.join(".claude"))

    assert own(user) == {"pdf": "personal"}


def test_if_the_home_directory_is_the_workspace_its_skills_are_the_projects(user):
    user.home.write(".claude/skills/pdf/SKILL.md", text("pdf"))
    user.home.write(".agents/skills/docx/SKILL.md", text("docx"))
    user.workspace.path = user.home.path

    assert own(user) == {}
    assert own(user, HILT_TRUST="all") == {"docx": "project", "pdf": "project"}


def test_personal_skills_inside_the_workspace_need_trust(user):
    user.home.write(".claude/skills/pdf/SKILL.md", text("pdf"))
    user.workspace.path = user.home.join(".claude")
    assert own(user) == {}
    assert load(user, "pdf") == "untrusted"

    user.trust("skills")

    assert own(user) == {"pdf": "personal"}
    user.home.write(".claude/skills/pdf/SKILL.md", text("pdf", "Evil."))
    assert load(user, "pdf") == "untrusted"


# --- limits and odd files -----------------------------------------------------------------------------------------


def test_a_folder_with_too_many_files_is_rejected(user):
    user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf"))
    for number in range(FILES_MAX):
        user.workspace.write(f".hilt/skills/pdf/references/{number}.md", "")

    assert load(user, "pdf", HILT_TRUST="all") == "tool_invalid"


@pytest.mark.parametrize("size", [2 << 20, 1 << 40])
def test_a_huge_file_is_rejected_without_reading_it(user, size):
    for folder in (user.workspace.join(".hilt"), user.config.path):
        os.makedirs(f"{folder}/skills/pdf")
        with open(f"{folder}/skills/pdf/SKILL.md", "wb") as file:
            file.truncate(size)

    assert load(user, "pdf", HILT_TRUST="all") == "tool_invalid"
    assert len(contents(user).problems) == 2


def test_a_folder_with_too_many_bytes_is_rejected(user):
    user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf"))
    for number in range(9):
        user.workspace.write(f".hilt/skills/pdf/assets/{number}", b"x" * (1 << 20))

    assert load(user, "pdf", HILT_TRUST="all") == "tool_invalid"


def test_a_pipe_does_not_block(user):
    for folder in (user.workspace.join(".hilt"), user.config.path):
        os.makedirs(f"{folder}/skills/pdf")
        os.mkfifo(f"{folder}/skills/pdf/SKILL.md")

    assert load(user, "pdf", HILT_TRUST="all") == "tool_invalid"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("front", [BOMB, "a: " + "[" * 100_000, "x: " * 50_000, "- " * 100_000])
def test_front_matter_bombs_are_harmless(user, front):
    user.config.write("skills/pdf/SKILL.md", f"---\nname: pdf\ndescription: Does things.\n{front}\n---\nBody.\n")

    # only the simple lines of invalid front matter are used
    assert load(user, "pdf") == "Body."


@pytest.mark.parametrize(
    "data, body",
    [
        (text("pdf").replace("\n", "\r\n").encode(), "Do it."),
        (b"\xef\xbb\xbf" + text("pdf").encode(), "Do it."),
        (b"\xef\xbb\xbf" + text("pdf").replace("\n", "\r\n").encode(), "Do it."),
        (text("pdf", "a\u200bb\u202ec\U000e0041d\x1b[31m").encode(), "abcd[31m"),
        (text("pdf", more="version: 1\nmodel: x\n").encode(), "Do it."),
        (b"---\nname: pdf\ndescription: Use when: asked\n---\nDo it.\n", "Do it."),
        (b"---\nname: other\ndescription: d\n---\nDo it.\n", "Do it."),
    ],
)
def test_common_variants_of_skill_files_are_loaded(user, data, body):
    user.config.write("skills/pdf/SKILL.md", data)

    assert load(user, "pdf") == body


@pytest.mark.parametrize(
    "data", [b"", b"no front matter", b"---\nname: pdf\n---\nx\n", b"---\ndescription: \xff\n---\n"]
)
def test_a_broken_skill_is_reported_and_hides_nothing(user, data):
    user.config.write("skills/pdf/SKILL.md", data)
    user.home.write(".agents/skills/pdf/SKILL.md", text("pdf", "Works."))

    assert load(user, "pdf") == "Works."
    assert [problem.path for problem in contents(user).problems] == [user.config.join("skills/pdf")]


def test_a_description_is_one_visible_line(user):
    user.config.write("skills/pdf/SKILL.md", text("pdf", description='"a\\u200b\\nb  \\u001b[2Jc"'))

    assert contents(user).skills["pdf"].description == "a b [2Jc"


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../pdf",
        "/etc",
        "pdf/../pdf",
        "pdf/",
        ".",
        "..",
        "",
        "\0",
        "pdf\0",
        "*",
        "~",
        "pdf\n",
        "%2e%2e",
        "\ud800",
        "a" * 10**6,
    ],
)
def test_a_name_is_never_a_path(user, name):
    user.config.write("pdf/SKILL.md", text("pdf"))
    with user.runtime() as runtime:
        result = runtime.call("load_skill", name=name)

    assert result.error is not None
    assert result.error.code in ("not_found", "invalid_args")
    assert len(result.error.message) < 300


@pytest.mark.parametrize("folder", ["PDF", "p df", "p_df", "-pdf", "pdf-", "p--df", "pdf.bak", "pdf\u200b", "x" * 65])
def test_a_folder_with_an_invalid_name_is_reported(user, folder):
    user.config.write(f"skills/{folder}/SKILL.md", text("pdf"))

    assert own(user) == {}
    assert [problem.path for problem in contents(user).problems] == [user.config.join(f"skills/{folder}")]


@pytest.mark.parametrize("folder", ["skill-cre\u0430tor", "h\u0456lt", "\u03bfk-go"])
def test_a_name_that_mixes_scripts_is_rejected(user, folder):
    user.config.write(f"skills/{folder}/SKILL.md", text(folder))

    assert own(user) == {}


@pytest.mark.parametrize("folder", ["日本語", "été", "русский", "日本-pdf", "Ελληνικά".lower()])
def test_a_name_in_one_script_is_accepted(user, folder):
    user.config.write(f"skills/{folder}/SKILL.md", text(folder))

    assert list(own(user)) == [folder]
    assert load(user, folder) == "Do it."


def test_two_folders_with_the_same_normalized_name_are_one_skill(user):
    user.config.write("skills/e\u0301t/SKILL.md", text("ét", "First."))
    user.config.write("skills/\u00e9t/SKILL.md", text("ét", "Second."))

    assert load(user, "\u00e9t") == load(user, "e\u0301t") == "First."
    assert len(contents(user).problems) == 1


def test_an_unknown_name_is_reported_with_the_nearest_names(user):
    user.config.write("skills/release-notes/SKILL.md", text("release-notes"))
    with user.runtime() as runtime:
        near = runtime.call("load_skill", name="realease-note").error
        far = runtime.call("load_skill", name="zzz").error

    assert near is not None
    assert far is not None
    assert (near.code, near.details["nearest"]) == ("not_found", ["release-notes"])
    assert far.details["nearest"] == []
    assert all(name in far.suggestion for name in ("hilt", "release-notes", "skill-creator", "tool-creator"))


# --- changes while running ----------------------------------------------------------------------------------------


def test_changes_are_reported_to_listeners(user):
    path = user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf"))
    notified = threading.Semaphore(0)
    with user.runtime() as runtime:
        stop = runtime.parts.skill_watch.add(notified.release)
        assert runtime.call("load_skill", name="pdf").error
        user.trust(".hilt/skills")
        assert notified.acquire(timeout=60)
        assert runtime.call("load_skill", name="pdf").ok
        Path(path).write_text(text("pdf", "Changed."))
        assert notified.acquire(timeout=60)
        user.config.write("commands/fix.md", "Fix it.\n")
        wait_until(lambda: notified.acquire(blocking=False) and "fix" in runtime.parts.skills.current().commands)
        stop()

        assert "pdf" not in runtime.parts.skills.current(rescan=True).skills


def test_a_users_own_skill_may_be_large_and_contain_libraries(user):
    user.config.write("skills/pdf/SKILL.md", text("pdf"))
    user.config.write("skills/pdf/scripts/run.mjs", "")
    user.config.write("skills/pdf/.git/config", "")
    user.config.write("skills/pdf/scripts/" + "node_modules/x/" * 20 + "a.js", "")
    for number in range(FILES_MAX + 10):
        user.config.write(f"skills/pdf/zzz/{number}/a.md", "")

    skill = contents(user).skills["pdf"]

    assert load(user, "pdf") == "Do it."
    assert skill.files[0] == "scripts/run.mjs"
    assert len(skill.files) <= FILES_MAX


def test_reading_a_folder_with_many_subfolders_keeps_few_descriptors_open(user):
    """A project must not be able to exhaust the descriptors of hilt."""
    user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf"))
    for number in range(FILES_MAX - 10):
        os.makedirs(user.workspace.join(f".hilt/skills/pdf/{number}"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with user.runtime(HILT_TRUST="all") as runtime:
        assert runtime.call("load_skill", name="hilt").ok  # everything is imported and open
        used = len(os.listdir("/dev/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 60, hard))
        try:
            assert runtime.call("load_skill", name="pdf").ok
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_folder_with_very_many_entries_is_rejected(user):
    user.workspace.write(".hilt/skills/pdf/SKILL.md", text("pdf"))
    for number in range(3 * FILES_MAX):
        user.workspace.write(f".hilt/skills/pdf/{number}", "")

    assert load(user, "pdf", HILT_TRUST="all") == "tool_invalid"


def test_skills_in_an_extra_workspace_folder_are_not_the_users_own(user):
    user.config.write("config.toml", f'[workspace]\nroots = ["{user.home.path}/.agents"]\n')
    user.home.write(".agents/skills/pdf/SKILL.md", text("pdf"))
    with user.runtime() as runtime:
        written = runtime.call("write_file", path=user.home.join(".agents/skills/pdf/a.md"), content="x")
        loaded = runtime.call("load_skill", name="pdf")

    assert written.error is not None
    assert written.error.code == "protected_path"
    assert loaded.error is not None


def make_folder(path: str) -> None:
    os.makedirs(path)


def link_inside(path: str) -> None:
    with open(os.path.join(os.path.dirname(path), "other.md"), "w") as file:
        file.write(text("pdf"))
    os.symlink("other.md", path)


@pytest.mark.parametrize("make", [make_folder, link_inside])
@pytest.mark.parametrize("source", ["project", "personal"])
def test_a_definition_that_is_not_a_file_does_not_affect_others(user, make, source):
    folder = user.workspace.join(".hilt/skills") if source == "project" else user.config.join("skills")
    os.makedirs(f"{folder}/pdf")
    make(f"{folder}/pdf/SKILL.md")
    user.config.write("skills/docx/SKILL.md", text("docx"))

    skills = own(user, HILT_TRUST="all")

    is_usable = source == "personal" and make is link_inside
    assert skills == {"docx": "personal", **({"pdf": "personal"} if is_usable else {})}
    assert load(user, "pdf", HILT_TRUST="all") == ("Do it." if is_usable else "tool_invalid")


@pytest.mark.parametrize("place", [".hilt/skills", ".hilt/commands"])
def test_a_link_to_itself_does_not_affect_others(user, place):
    user.workspace.write(f"{place}/pdf/SKILL.md", text("pdf"))
    os.symlink("loop", user.workspace.join(f"{place}/loop"))
    os.symlink("loop.md", user.workspace.join(f"{place}/loop.md"))

    library = contents(user, HILT_TRUST="all")

    assert "pdf" in library.skills or "pdf:SKILL" in library.commands
