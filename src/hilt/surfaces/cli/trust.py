"""`hilt trust`: project files that can run code, and the trust in their exact content."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from typing import NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.formats.invisible import decoded, one_line
from hilt.formats.times import rfc3339
from hilt.loaders import PLACES, ProjectFile, UnreadableFile, paths_of, project_file
from hilt.state.trust import Trust, Trusted
from hilt.surfaces.cli.layout import local_time
from hilt.surfaces.cli.person import run_for_person
from hilt.surfaces.terminal_prompt import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_STATES = {
    "trusted": "trusted {since}",
    "changed": "trusted {since}, changed since: no longer trusted",
    "gone": "trusted {since}, file missing",
    "untrusted": "not trusted",
}


class TrustedFile(NamedTuple):
    """A file that needs trust, and its state."""

    file: ProjectFile
    state: str  # a key of _STATES
    at: int | None = None  # when it was trusted

    @property
    def path(self) -> str:
        """The absolute path."""
        return self.file.full


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Settings, rules, hooks, tools, skills and commands of a project have no effect until a person
has seen and trusted their exact content. A folder means all such files in it. Without PATH, the files are listed.
Requires a person at a terminal."""
    parser.add_argument("path", metavar="PATH", nargs="?", help="A file, a skill, or the folder of a project")
    listing = parser.command("list", "List trusted files, and files of this project that need trust", _list)
    for below in (parser, listing):
        below.add_argument("--json", action="store_true", help="Print the list as JSON")
    revoking = parser.command("revoke", "Revoke the trust in a file", _revoke)
    revoking.add_argument("path", metavar="PATH", help="The file")
    listing.examples = [("hilt trust list --json", "List the files as JSON")]
    parser.examples = [
        ("hilt trust", "List trusted and untrusted files"),
        ("hilt trust .", "Review each file of this project"),
        ("hilt trust .hilt/skills/release", "Review the files of a skill"),
        ("hilt trust revoke .hilt/hooks.yaml", "Revoke the trust in a file"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    if arguments.path is None:
        return _list(options, arguments)
    return run_for_person("trust", lambda screen: _trust(screen, options, arguments.path))


def _list(options: Options, arguments: Namespace) -> int:
    folder = options.get("workspace") or places.workspace_dir(os.environ, ".")
    return run_for_person("trust", lambda _: _print(folder, as_json=arguments.json))


def _revoke(options: Options, arguments: Namespace) -> int:
    return run_for_person("trust", lambda _: _forget(arguments.path))


def _forget(path: str) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        full = _full(path)
        files = [entry.file for entry in trusted.list() if entry.file.full == full]
        if not [file for file in files if trusted.revoke(file)]:
            raise ToolError(
                "not_found",
                f"{one_line(path)} is not trusted.",
                suggestion=f"To list trusted files: {places.command('trust')}",
            )
    sys.stdout.write(f"No longer trusted: {one_line(path)}\n")
    return 0


def _trust(screen: Terminal, options: Options, path: str) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        files = _files_at(path, options)
        answers = [_trust_one_of(screen, trusted, file, len(files)) for file in files]
        answers += [_trust_without(screen, trusted, file) for file in _removed(trusted, path)]
    return 0 if all(answers) else 1


def _trust_one_of(screen: Terminal, trusted: Trust, file: ProjectFile, count: int) -> bool:
    """Review a file; of several, one that cannot be read is reported, and the others are still reviewed."""
    try:
        return trust_file(screen, trusted, file)
    except ToolError as error:
        if count == 1:
            raise
        screen.write(f"{error.message}\nNot trusted.\n")
        return False


def _full(path: str) -> str:
    """Return the absolute path of a file, with links in the path of its folder resolved."""
    full = os.path.abspath(path)
    return os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))


def _removed(trusted: Trust, path: str) -> list[ProjectFile]:
    """Return the trusted skill files below a path that no longer exist: removing one changes the skill."""
    inside = os.path.realpath(path) + "/"
    files = [entry.file for entry in trusted.list() if entry.file.kind == "skill"]
    return [file for file in files if file.full.startswith(inside) and not os.path.lexists(file.full)]


def _trust_without(screen: Terminal, trusted: Trust, file: ProjectFile) -> bool:
    screen.write(f"{one_line(file.full)} was removed since it was trusted.\nTrust the skill without it? [y/n] > ")
    answer = screen.read()
    if answer.strip().casefold() not in ("y", "yes"):
        screen.write(("" if answer else "\n") + "Not trusted.\n")
        return False
    trusted.revoke(file)
    screen.write("Trusted until it changes.\n")
    return True


def _files_at(path: str, options: Options) -> list[ProjectFile]:
    """Return the file at a path, or the files of the project there that need trust."""
    full = os.path.abspath(path)
    if not os.path.isdir(full):
        files = [project_file(full) or _file_of_workspace(_full(path), options)]
    elif (inside := project_file(full)) and inside.kind in ("skill", "command", "agent"):
        from hilt.skills.library import reviewable

        files = [project_file(file) for file in reviewable(full)]
    else:
        files = [*files_of(full)]
    if None in files or not files:
        raise ToolError(
            "not_found",
            f"{one_line(path)} is not a file that needs trust, and has none.",
            suggestion=f"These files do: {', '.join(place.path for place in PLACES if place.base == 'project')}.",
        )
    return [file for file in files if file is not None]


def _file_of_workspace(full: str, options: Options) -> ProjectFile | None:
    """Return a file in a folder that settings name, if it needs trust in this workspace."""
    from hilt.surfaces.opening import open_runtime

    with open_runtime(options) as runtime:
        return runtime.file_to_trust(full)


def files_of(project: str) -> list[ProjectFile]:
    """Return the files of a project that need trust, including the scripts that its hooks run."""
    from hilt.authority import hooks
    from hilt.skills import library

    root = os.path.realpath(project)
    single = [
        ProjectFile(place.kind, root, place.path) for place in PLACES if place.base == "project" and not place.is_folder
    ]
    present = [file for file in single if os.path.lexists(file.full) and not file.is_alias]
    return list(dict.fromkeys((*present, *hooks.project_files(root), *library.project_files(root))))


def trust_file(screen: Terminal, trusted: Trust, file: ProjectFile) -> bool:
    """Show a file, prompt, and trust exactly the bytes that were shown; return whether it is trusted."""
    from hilt.formats.digests import sha256

    content, label = file_content(file), one_line(file.full)
    if trusted.is_trusted(file, sha256(content)):
        screen.write(f"{label} is already trusted.\n")
        return True
    before = trusted.trusted_content(file)
    page = screen.page()
    if before is None:
        screen.write(f"{label} ({file.kind}), {len(content):,} bytes:\n" + page.text(decoded(content), whole=True))
    else:
        screen.write(f"{label} ({file.kind}) has changed since it was trusted:\n")
        screen.write(page.diff(_difference(before, content), whole=True))
    screen.write("Trust this content? [y/n] > ")
    answer = screen.read()
    if answer.strip().casefold() not in ("y", "yes"):
        screen.write(("" if answer else "\n") + "Not trusted.\n")
        return False
    trusted.trust(file, content)
    screen.write("Trusted until it changes.\n")
    return True


def file_content(file: ProjectFile) -> bytes:
    """Return the content of a file that a person reviews."""
    try:
        return file.read()
    except UnreadableFile as error:
        raise ToolError(error.code, f"{one_line(file.full)}: {one_line(str(error))}.") from error
    except OSError as error:
        code = "file_not_found" if isinstance(error, FileNotFoundError) else "permission_denied"
        raise ToolError(
            code, f"{one_line(file.full)}: {os.strerror(error.errno or 0)}.", suggestion="Pass the path of a file."
        ) from error


def _difference(before: bytes, after: bytes) -> str:
    from difflib import unified_diff

    # split only at newlines: other line separators are shown as characters
    old, new = (decoded(content).split("\n") for content in (before, after))
    return "\n".join(unified_diff(old, new, "trusted", "now", lineterm=""))


def _print(folder: str, *, as_json: bool) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        files = known_files(trusted, folder)
    if as_json:
        sys.stdout.write(json.dumps([trust_data(file) for file in files], ensure_ascii=False) + "\n")
        return 0
    for file in files:
        state = _STATES[file.state].format(since=local_time(file.at or 0))
        sys.stdout.write(f"{one_line(file.path)}  {file.file.kind}, {state}\n")
    if not files:
        sys.stdout.write("No file is trusted, and no file of this project needs trust.\n")
    return 0


def trust_data(file: TrustedFile) -> dict[str, str | None]:
    """Return a file that needs trust, for programs."""
    since = None if file.at is None else rfc3339(file.at)
    return {"path": file.path, "kind": file.file.kind, "state": file.state, "since": since}


def known_files(trusted: Trust, folder: str) -> list[TrustedFile]:
    """Return the trusted files, and the untrusted ones that apply to a folder."""
    entries = trusted.list()
    files = [TrustedFile(entry.file, _state(entry), entry.at) for entry in entries]
    known = {entry.file for entry in entries}
    untrusted = [file for file in (*files_of(folder), *_rules_above(folder)) if file not in known]
    return [*files, *(TrustedFile(file, "untrusted") for file in untrusted if os.path.isfile(file.full))]


def _rules_above(folder: str) -> list[ProjectFile]:
    """Return the rule files in the parent folders of a project, which also apply to it."""
    from hilt.authority.rulebook import upward

    root, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    parents = [parent for parent in upward(root, home) if parent != root]
    return [ProjectFile("rules", parent, path) for parent in parents for path in paths_of("rules")]


def _state(entry: Trusted) -> str:
    from hilt.formats.digests import sha256

    try:
        return "trusted" if sha256(file_content(entry.file)) == entry.hash else "changed"
    except ToolError:
        return "gone"
