"""`hilt trust`: project files that can run code, and the trust in their exact content."""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import closing
from typing import NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.formats.times import rfc3339
from hilt.state.trust import MAX_BYTES, PROJECT_FILES, Trust, Trusted, kind_of
from hilt.surfaces.cli.layout import local_time
from hilt.surfaces.cli.person import run_for_person
from hilt.surfaces.cli.prompt import Terminal, decoded, one_line

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

    path: str
    kind: str
    state: str  # a key of _STATES
    at: int | None = None  # when it was trusted


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
    return run_for_person("trust", lambda screen: _trust(screen, arguments.path))


def _list(options: Options, arguments: Namespace) -> int:
    folder = options.get("workspace") or places.workspace_dir(os.environ, ".")
    return run_for_person("trust", lambda _: _print(folder, as_json=arguments.json))


def _revoke(options: Options, arguments: Namespace) -> int:
    return run_for_person("trust", lambda _: _forget(arguments.path))


def _forget(path: str) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        if not trusted.revoke(path):
            raise ToolError(
                "not_found",
                f"{one_line(path)} is not trusted.",
                suggestion=f"To list trusted files: {places.command('trust')}",
            )
    sys.stdout.write(f"No longer trusted: {one_line(path)}\n")
    return 0


def _trust(screen: Terminal, path: str) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        answers = [trust_file(screen, trusted, file) for file in _files_at(path)]
        answers += [_trust_without(screen, trusted, file) for file in _removed(trusted, path)]
    return 0 if all(answers) else 1


def _removed(trusted: Trust, path: str) -> list[str]:
    """Return the trusted skill files below a path that no longer exist: removing one changes the skill."""
    inside = os.path.realpath(path) + "/"
    files = [entry.path for entry in trusted.list() if entry.kind == "skill" and entry.path.startswith(inside)]
    return [file for file in files if not os.path.lexists(file)]


def _trust_without(screen: Terminal, trusted: Trust, file: str) -> bool:
    screen.write(f"{one_line(file)} was removed since it was trusted.\nTrust the skill without it? [y/n] > ")
    answer = screen.read()
    if answer.strip().casefold() not in ("y", "yes"):
        screen.write(("" if answer else "\n") + "Not trusted.\n")
        return False
    trusted.revoke(file)
    screen.write("Trusted until it changes.\n")
    return True


def _files_at(path: str) -> list[str]:
    """Return the file at a path, or the files of the project there that need trust."""
    full = os.path.abspath(path)
    if not os.path.isdir(full):
        return [full]
    from hilt.skills.library import reviewable

    files = reviewable(full) if kind_of(f"{full}/.") in ("skill", "command", "agent") else _files_of(full)
    if not files:
        raise ToolError(
            "not_found",
            f"{one_line(path)} has no file that needs trust.",
            suggestion=f"These files do: {', '.join(PROJECT_FILES)}; and those of skills and commands.",
        )
    return files


def _files_of(project: str) -> list[str]:
    """Return the files of a project that need trust, including the scripts that its hooks run."""
    from hilt.authority import hooks
    from hilt.skills import library

    candidates = [os.path.join(project, name) for name in PROJECT_FILES]
    files = [*filter(os.path.lexists, candidates), *hooks.project_files(project), *library.project_files(project)]
    return list(dict.fromkeys(files))


def trust_file(screen: Terminal, trusted: Trust, name: str) -> bool:
    """Show a file, prompt, and trust exactly the bytes that were shown; return whether it is trusted."""
    from hilt.formats.digests import sha256

    # the kind depends on the name as given, the content on the path that it resolves to
    kind, path = kind_of(name), os.path.realpath(name)
    content, label = file_content(path), one_line(name if name == path else f"{name} -> {path}")
    if trusted.is_trusted(kind, path, sha256(content)):
        screen.write(f"{label} is already trusted.\n")
        return True
    before = trusted.trusted_content(path)
    page = screen.page()
    if before is None:
        screen.write(f"{label} ({kind}), {len(content):,} bytes:\n" + page.text(decoded(content), whole=True))
    else:
        screen.write(f"{label} ({kind}) has changed since it was trusted:\n")
        screen.write(page.diff(_difference(before, content), whole=True))
    screen.write("Trust this content? [y/n] > ")
    answer = screen.read()
    if answer.strip().casefold() not in ("y", "yes"):
        screen.write(("" if answer else "\n") + "Not trusted.\n")
        return False
    trusted.trust(kind, path, content)
    screen.write("Trusted until it changes.\n")
    return True


def file_content(path: str) -> bytes:
    """Return the content of a file that a person reviews."""
    try:
        # do not block on a pipe without a writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError("not_a_file", f"{one_line(path)} is not a regular file.")
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        code = "file_not_found" if isinstance(error, FileNotFoundError) else "permission_denied"
        raise ToolError(
            code, f"{one_line(path)}: {os.strerror(error.errno or 0)}.", suggestion="Pass the path of a file."
        ) from error
    if len(content) > MAX_BYTES:
        raise ToolError("file_too_large", f"{one_line(path)} has more than {MAX_BYTES:,} bytes.")
    return content


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
        sys.stdout.write(f"{one_line(file.path)}  {file.kind}, {state}\n")
    if not files:
        sys.stdout.write("No file is trusted, and no file of this project needs trust.\n")
    return 0


def trust_data(file: TrustedFile) -> dict[str, str | None]:
    """Return a file that needs trust, for programs."""
    since = None if file.at is None else rfc3339(file.at)
    return {"path": file.path, "kind": file.kind, "state": file.state, "since": since}


def known_files(trusted: Trust, folder: str) -> list[TrustedFile]:
    """Return the trusted files, and the untrusted ones that apply to a folder."""
    files = [TrustedFile(entry.path, entry.kind, _state(entry), entry.at) for entry in trusted.list()]
    return [*files, *_untrusted_files(trusted, folder)]


def _untrusted_files(trusted: Trust, folder: str) -> list[TrustedFile]:
    """Return the untrusted files that apply to a folder."""
    seen = {entry.path for entry in trusted.list()}
    untrusted = []
    for path in [*_files_of(folder), *_rules_above(folder)]:
        if os.path.isfile(path) and os.path.realpath(path) not in seen:
            untrusted.append(TrustedFile(os.path.abspath(path), kind_of(path), "untrusted"))
            seen.add(os.path.realpath(path))
    return untrusted


def _rules_above(folder: str) -> list[str]:
    """Return the rule files in the parent folders of a project, which also apply to it."""
    from hilt.authority.rulebook import RULES, upward

    root, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    parents = [parent for parent in upward(root, home) if parent != root]
    return [os.path.join(parent, name, RULES) for parent in parents for name in (".hilt", ".jcli")]


def _state(entry: Trusted) -> str:
    from hilt.formats.digests import sha256

    try:
        return "trusted" if sha256(file_content(entry.path)) == entry.hash else "changed"
    except ToolError:
        return "gone"
