from __future__ import annotations

import os

import pytest

from hilt.errors import ToolError
from hilt.skills.library import LibraryContents
from tests.skills.places import SkillUser

REVIEW = "---\ndescription: Review a change\nargument-hint: '[branch] [focus]'\n---\nReview $1 for $2.\n"


@pytest.fixture
def user(tmp_path) -> SkillUser:
    return SkillUser(str(tmp_path))


def contents(user: SkillUser, **variables: str) -> LibraryContents:
    with user.runtime(**variables) as runtime:
        return runtime.parts.skills.current(rescan=True)


def expand(user: SkillUser, name: str, arguments: str = "", **variables: str) -> str:
    with user.runtime(**variables) as runtime:
        try:
            return runtime.parts.skills.expand(name, arguments)
        except ToolError as error:
            return error.code


def test_a_command_is_expanded_with_its_arguments(user):
    user.config.write("commands/review.md", REVIEW)

    [command] = contents(user).commands.values()

    assert (command.name, command.description, command.argument_hint) == (
        "review",
        "Review a change",
        "[branch] [focus]",
    )
    assert (
        expand(user, "review", "main 'odd names'")
        == expand(user, "/review", "main 'odd names'")
        == ("Review main for odd names.")
    )


def test_the_place_with_the_highest_precedence_wins(user):
    places = {
        ".hilt/commands": user.workspace,
        ".claude/commands": user.workspace,
        "commands": user.config,
        ".claude/commands ": user.home,
    }
    for place, folder in places.items():
        folder.write(f"{place.strip()}/go.md", f"{folder.path} {place.strip()}\n")
    order = []

    for place, folder in places.items():
        order.append(expand(user, "go", HILT_TRUST="all"))
        os.unlink(folder.join(f"{place.strip()}/go.md"))

    assert order == [f"{folder.path} {place.strip()}" for place, folder in places.items()]
    assert expand(user, "go", HILT_TRUST="all") == "not_found"


def test_a_subfolder_is_a_namespace(user):
    user.config.write("commands/frontend/test.md", "Test the frontend.\n")
    user.config.write("commands/backend/test.md", "Test the backend.\n")
    user.config.write("commands/backend/db/migrate.md", "Migrate.\n")
    user.config.write("commands/README.md", "Not a command.\n")
    user.config.write("commands/notes.txt", "Not a command.\n")
    user.config.write("commands/.git/hidden.md", "Not a command.\n")

    assert list(contents(user).commands) == ["backend:db:migrate", "backend:test", "frontend:test"]
    assert expand(user, "frontend:test") == "Test the frontend."
    assert expand(user, "migrate") == "Migrate."
    assert expand(user, "test") == "ambiguous_id"
    assert expand(user, "tset") == "not_found"


def test_a_projects_command_is_loaded_only_while_its_content_is_trusted(user):
    user.workspace.write(".hilt/commands/go.md", "Go.\n")
    user.workspace.write(".claude/commands/stay.md", "Stay.\n")
    assert (expand(user, "go"), expand(user, "stay")) == ("untrusted", "untrusted")
    assert {(item.kind, item.name) for item in contents(user).untrusted} == {("command", "go"), ("command", "stay")}

    user.trust(".hilt/commands")

    assert (expand(user, "go"), expand(user, "stay")) == ("Go.", "untrusted")
    user.workspace.write(".hilt/commands/go.md", "Go away.\n")
    assert expand(user, "go") == "untrusted"


def test_an_untrusted_command_does_not_hide_the_users_own(user):
    user.workspace.write(".hilt/commands/go.md", "Evil.\n")
    user.config.write("commands/go.md", "Mine.\n")

    assert expand(user, "go") == "Mine."


def test_arguments_and_shell_commands_in_the_text_are_plain_text(user):
    mark = user.workspace.join("ran")
    user.config.write("commands/go.md", f"!`touch {mark}` $(touch {mark}) @file:a.txt $ARGUMENTS\n")

    text = expand(user, "go", f"$1 `touch {mark}` $ARGUMENTS")

    assert text == f"!`touch {mark}` $(touch {mark}) @file:a.txt $1 `touch {mark}` $ARGUMENTS"
    assert not os.path.exists(mark)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret.md", "go.md"])
def test_links_in_a_project_are_not_followed(user, target):
    user.workspace.write("secret.md", "Secret.\n")
    user.workspace.write(".hilt/commands/go.md", "Go.\n")
    os.symlink(target, user.workspace.join(".hilt/commands/link.md"))

    assert expand(user, "go", HILT_TRUST="all") == "Go."
    assert expand(user, "link", HILT_TRUST="all") == "not_found"


def test_a_users_own_link_is_followed_unless_it_points_into_the_workspace(user):
    user.home.write("dotfiles/go.md", "Go.\n")
    user.workspace.write("evil.md", "Evil.\n")
    os.makedirs(user.home.join(".claude/commands"))
    os.symlink(user.home.join("dotfiles/go.md"), user.home.join(".claude/commands/go.md"))
    os.symlink(user.workspace.join("evil.md"), user.home.join(".claude/commands/evil.md"))

    assert list(contents(user).commands) == ["go"]


@pytest.mark.parametrize("name", ["a b", "a:b", "x" * 65, "g\u043e", "a\u200b", "é\u0301\n"])
def test_a_file_with_an_invalid_name_is_reported(user, name):
    user.config.write(f"commands/{name}.md", "Text.\n")

    assert contents(user).commands == {}
    assert len(contents(user).problems) == 1


@pytest.mark.parametrize(
    "data, text",
    [
        (b"Plain.\n", "Plain."),
        (b"\xef\xbb\xbf---\r\ndescription: d\r\n---\r\nOne.\r\nTwo.\r\n", "One.\nTwo."),
        ("A\u200bB\u202e\x1b[0m\n".encode(), "AB[0m"),
        (b"---\nargument-hint: [a] [b]\n---\nText.\n", "Text."),
        (b"\xff\n", "not_found"),
        (b"", "not_found"),
        (b"---\ndescription: d\n---\n", "not_found"),
    ],
)
def test_common_variants_of_command_files_are_read(user, data, text):
    user.config.write("commands/go.md", data)

    assert expand(user, "go") == text


def test_a_hint_in_brackets_is_shown_as_written(user):
    user.config.write("commands/go.md", "---\nargument-hint: [issue] [priority]\n---\nText.\n")

    assert contents(user).commands["go"].argument_hint == "[issue] [priority]"
