"""`hilt trust`: files of a project that can run code, and the content of them that a person has agreed to."""

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
from hilt.surfaces.cli.grants import moment
from hilt.surfaces.cli.person import answered
from hilt.surfaces.cli.prompt import Terminal, decoded, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_STATES = {
    "trusted": "trusted {since}",
    "changed": "trusted {since}, changed: not trusted",
    "gone": "trusted {since}, gone",
    "untrusted": "not trusted",
}


class TrustedFile(NamedTuple):
    """A file that needs trust, and how it stands."""

    path: str
    kind: str
    state: str  # a key of _STATES
    at: int | None = None  # when it was trusted


def build(parser: Parser) -> None:
    """Say what the command takes."""
    parser.run = _run
    parser.details = """Settings, rules, hooks and tools of a project are not used before a person has seen and trusted
exactly their content. A folder stands for all such files in it. Without PATH, the files are listed. All of this needs
a person at a terminal."""
    parser.add_argument("path", metavar="PATH", nargs="?", help="A file, or the folder of a project")
    listing = parser.command("list", "List files that are trusted, or that need it here", _list)
    for below in (parser, listing):
        below.add_argument("--json", action="store_true", help="Print the list as JSON")
    revoking = parser.command("revoke", "Trust a file no longer", _revoke)
    revoking.add_argument("path", metavar="PATH", help="The file")
    parser.examples = [
        ("hilt trust", "List what is trusted, and what waits for it"),
        ("hilt trust .", "Show each file of this project, and ask"),
        ("hilt trust revoke .hilt/hooks.yaml", "Trust a file no longer"),
    ]


def _run(options: Options, given: Namespace) -> int:
    if given.path is None:
        return _list(options, given)
    return answered("trust", lambda screen: _trust(screen, given.path))


def _list(options: Options, given: Namespace) -> int:
    folder = options.get("workspace") or places.workspace_dir(os.environ, ".")
    return answered("trust", lambda _: _print(folder, as_json=given.json))


def _revoke(options: Options, given: Namespace) -> int:
    return answered("trust", lambda _: _forget(given.path))


def _forget(path: str) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        if not trusted.revoke(path):
            raise ToolError(
                "not_found",
                f"{one_line(path)} is not trusted.",
                suggestion=f"{places.command('trust')} lists what is.",
            )
    sys.stdout.write(f"No longer trusted: {one_line(path)}\n")
    return 0


def _trust(screen: Terminal, path: str) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        answers = [trust_file(screen, trusted, file) for file in _named(path)]
    return 0 if all(answers) else 1


def _named(path: str) -> list[str]:
    """Return the files that a path means: itself, or those of a project that need trust."""
    full = os.path.abspath(path)
    if not os.path.isdir(full):
        return [full]
    found = _files_of(full)
    if not found:
        raise ToolError(
            "not_found",
            f"{one_line(path)} has no file that needs trust.",
            suggestion=f"Such files are {', '.join(PROJECT_FILES)}.",
        )
    return found


def _files_of(project: str) -> list[str]:
    """Return the files of a project that need trust, with the scripts that its hooks run."""
    from hilt.authority.hooks import project_files

    known = [os.path.join(project, name) for name in PROJECT_FILES]
    return list(dict.fromkeys([*filter(os.path.lexists, known), *project_files(project)]))


def trust_file(screen: Terminal, trusted: Trust, name: str) -> bool:
    """Show a file and ask; what is trusted are the very bytes that were shown."""
    from hilt.formats.digests import sha256

    # what a file is, its name says; which file it is, says the place where the name leads now
    kind, path = kind_of(name), os.path.realpath(name)
    content, shown = _content(path), one_line(name if name == path else f"{name} -> {path}")
    if trusted.is_trusted(kind, path, sha256(content)):
        screen.write(f"{shown} is trusted already.\n")
        return True
    before = trusted.kept(path)
    page = screen.page()
    if before is None:
        screen.write(f"{shown} ({kind}), {len(content):,} bytes:\n" + page.text(decoded(content), whole=True))
    else:
        screen.write(f"{shown} ({kind}) has changed since it was trusted:\n")
        screen.write(page.diff(_difference(before, content), whole=True))
    screen.write("Trust this content? [y/n] > ")
    answer = screen.read()
    if answer.strip().casefold() not in ("y", "yes"):
        screen.write(("" if answer else "\n") + "Not trusted.\n")
        return False
    trusted.trust(kind, path, content)
    screen.write("Trusted, until it changes.\n")
    return True


def _content(path: str) -> bytes:
    try:
        # a pipe with nobody at its other end must not hold us
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError("not_a_file", f"{one_line(path)} is not a regular file.")
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        code = "file_not_found" if isinstance(error, FileNotFoundError) else "permission_denied"
        raise ToolError(
            code, f"{one_line(path)}: {os.strerror(error.errno or 0)}.", suggestion="Name a file."
        ) from error
    if len(content) > MAX_BYTES:
        raise ToolError("file_too_large", f"{one_line(path)} has more than {MAX_BYTES:,} bytes.")
    return content


def _difference(before: bytes, after: bytes) -> str:
    from difflib import unified_diff

    # split at newlines alone: other ends of lines are shown, not obeyed
    old, new = (decoded(content).split("\n") for content in (before, after))
    return "\n".join(unified_diff(old, new, "trusted", "now", lineterm=""))


def _print(folder: str, *, as_json: bool) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        found = [*_known(trusted), *_new(trusted, folder)]
    if as_json:
        sys.stdout.write(json.dumps([_data(one) for one in found], ensure_ascii=False) + "\n")
        return 0
    for one in found:
        state = _STATES[one.state].format(since=moment(one.at or 0))
        sys.stdout.write(f"{one_line(one.path)}  {one.kind}, {state}\n")
    if not found:
        sys.stdout.write("No file is trusted, and this project has none that needs it.\n")
    return 0


def _data(one: TrustedFile) -> dict[str, str | None]:
    since = None if one.at is None else rfc3339(one.at)
    return {"path": one.path, "kind": one.kind, "state": one.state, "since": since}


def _known(trusted: Trust) -> list[TrustedFile]:
    return [TrustedFile(one.path, one.kind, _state(one), one.at) for one in trusted.list()]


def _new(trusted: Trust, folder: str) -> list[TrustedFile]:
    """Return the files that need trust here and do not have it."""
    seen = {one.path for one in trusted.list()}
    found = []
    for path in [*_files_of(folder), *_rules_above(folder)]:
        if os.path.isfile(path) and os.path.realpath(path) not in seen:
            found.append(TrustedFile(os.path.abspath(path), kind_of(path), "untrusted"))
            seen.add(os.path.realpath(path))
    return found


def _rules_above(folder: str) -> list[str]:
    """Return the rule files of the folders above a project, which hold in it too."""
    from hilt.authority.rulebook import RULES, upward

    root, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    above = [one for one in upward(root, home) if one != root]
    return [os.path.join(one, name, RULES) for one in above for name in (".hilt", ".jcli")]


def _state(one: Trusted) -> str:
    from hilt.formats.digests import sha256

    try:
        return "trusted" if sha256(_content(one.path)) == one.hash else "changed"
    except ToolError:
        return "gone"
