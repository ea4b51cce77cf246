"""`hilt approve`, `deny`, `grants` and `trust`: the answers of a person at a terminal.

A tool of a model must not answer for the person. In the sandbox it cannot, because the state directory is hidden there;
a command that runs without one is still below a process of hilt, and the first thing here is to look for those.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable
from contextlib import closing

from hilt import places
from hilt.errors import ToolError
from hilt.state.approvals import Approval, Approvals, Grant
from hilt.state.trust import MAX_BYTES, PROJECT_FILES, Trust, Trusted, kind_of
from hilt.surfaces.cli import Usage
from hilt.surfaces.cli.ancestry import hilt_above
from hilt.surfaces.cli.audit import valued, workspace_id
from hilt.surfaces.cli.prompt import Answer, Terminal, controlling_terminal, decoded, one_line, prompt

BY = "terminal"
_SECOND = 1_000_000_000
_COMMAND_MOST = 200
_VALUE_MOST = 40


def approve(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt approve [ID [--once|--always] [--for 8h]|show ID]`."""
    return answered("approve", lambda screen: _approve(screen, options, words))


def deny(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt deny ID [--reason TEXT]`."""
    given, rest = valued(words, ("--reason",))
    if len(rest) != 1 or not _is_name(rest[0]):
        raise Usage("deny needs the id of an approval, and may have --reason TEXT")
    return answered("deny", lambda _: _deny(rest[0], given.get("--reason", "")))


def grants(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt grants [list|revoke ID]`."""
    return answered("grants", lambda _: _grants(options, words))


def trust(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt trust [list|PATH|revoke PATH]`."""
    return answered("trust", lambda screen: _trust(screen, options, words))


def answered(command: str, work: Callable[[Terminal], int]) -> int:
    """Do the work of a command for a person at a terminal, and for nobody else."""
    found = hilt_above(os.getpid())
    if found is not None:
        raise _refused(command, f"This one was started below hilt itself ({one_line(found)}).")
    try:
        if not os.isatty(0):
            raise ToolError("no_one_to_ask", "The input is not a terminal.")
        with controlling_terminal() as screen:
            return work(screen)
    except ToolError as error:
        if error.code != "no_one_to_ask":
            raise
        raise _refused(command, error.message) from error


def _is_name(word: str) -> bool:
    return not word.startswith("-") and word not in ("show", "revoke")


def _refused(command: str, reason: str) -> ToolError:
    return ToolError(
        "denied",
        f"hilt {command} is for a person at a terminal. {reason}",
        suggestion=f"Ask the user to run in a terminal of their own: {places.command(command)}",
    )


# --- approvals ----------------------------------------------------------------------------------------------------


def _approve(screen: Terminal, options: dict[str, str], words: list[str]) -> int:
    given, words = valued(words, ("--for",))
    seconds = _seconds(given["--for"]) if "--for" in given else None
    if seconds is not None and len(words) == 1:
        words = [*words, "--always"]
    if seconds is not None and "--always" not in words:
        raise Usage("--for goes with the id of an approval that is kept, not with --once")
    with closing(Approvals(places.state_dir(os.environ))) as approvals:
        match words:
            case []:
                workspace = workspace_id(options["workspace"]) if "workspace" in options else None
                return _list_pending(screen, approvals.pending(workspace))
            case ["show", id]:
                sys.stdout.write(screen.page().draw(approvals.find(id).asked, whole=True))
                return 0
            case [id] | [id, "--once" | "--always"] | ["--once" | "--always", id] if _is_name(id):
                found = _pending(approvals, id)
                return _settle(approvals, found, _choose(screen, found, words), seconds)
    raise Usage("approve takes the id of an approval and --once, --always or --for 8h, or show ID")


def _seconds(value: str) -> int:
    unit = {"m": 60, "h": 3600, "d": 86400}.get(value[-1:])
    if unit is None or not re.fullmatch("0*[1-9][0-9]{0,3}", value[:-1], re.ASCII):
        raise Usage(f"--for needs a time such as 30m, 8h or 7d, not {value!r}")
    return int(value[:-1]) * unit


def _pending(approvals: Approvals, id: str) -> Approval:
    found = approvals.find(id)
    if found.state == "pending":
        return found
    raise ToolError(
        "not_found",
        f"The approval {found.id} is not pending: it is {found.state}.",
        suggestion=f"{places.command('approve')} lists what is pending.",
    )


def _choose(screen: Terminal, approval: Approval, words: list[str]) -> Answer:
    if len(words) == 1:
        return prompt(approval.asked, read=screen.read, write=screen.write, width=screen.width, color=screen.color)
    sys.stdout.write(screen.page().draw(approval.asked, whole=False))
    return Answer("always" if "--always" in words else "once")


def _settle(approvals: Approvals, approval: Approval, answer: Answer, seconds: int | None) -> int:
    approved, always = answer.kind != "deny", answer.kind == "always"
    expires = None if seconds is None else time.time_ns() + seconds * _SECOND
    done = approvals.answer(approval.id, approved=approved, reason=answer.reason, by=BY, always=always, expires=expires)
    if not approved:
        sys.stdout.write("Denied.\n")
        return 1
    until = time.strftime("%H:%M", time.localtime(done.expires_at // _SECOND))
    sys.stdout.write(f"Approved, for one call until {until}. {places.command('deny', done.id)} takes it back.\n")
    if always:
        for rule in approval.asked.rules:
            span = "From now on" if expires is None else f"Until {_moment(expires)}"
            sys.stdout.write(f"{span} allowed here: {one_line(rule)}\n")
        sys.stdout.write(f"{places.command('grants')} lists what is allowed so, and revokes it.\n")
    return 0


def _deny(id: str, reason: str) -> int:
    with closing(Approvals(places.state_dir(os.environ))) as approvals:
        before = approvals.find(id)
        approvals.answer(before.id, approved=False, reason=reason, by=BY)
    sys.stdout.write(f"Denied: {one_line(before.asked.tool)}, {_summary(before)}\n")
    if before.state == "approved":
        sys.stdout.write(f"It had been approved. Rules that were kept with it: {places.command('grants')}\n")
    return 0


def _list_pending(screen: Terminal, pending: list[Approval]) -> int:
    if not pending:
        sys.stdout.write("Nothing waits for approval.\n")
        return 0
    page = screen.page()
    for approval in pending:
        asked = approval.asked
        left = max(0, approval.expires_at - time.time_ns()) // _SECOND
        where = one_line(f"{asked.workspace or approval.workspace}, session {approval.session}")
        sys.stdout.write(f"{approval.id}  {one_line(asked.tool)}  ({_span(left)} left)  {where}\n")
        sys.stdout.write(page.text(_summary(approval), whole=True))
        sys.stdout.write(f"  why: {one_line(asked.reason)}\n")
    sys.stdout.write(f"\n{places.command('approve', 'ID')} shows one and asks; deny ID [--reason TEXT] denies it\n")
    return 0


def _summary(approval: Approval) -> str:
    """Return what a call is about, on one line and short."""
    asked = approval.asked
    if asked.command:
        return _short(asked.command, _COMMAND_MOST)
    texts = [
        f"{one_line(name)}: {_short(value if isinstance(value, str) else json.dumps(value), _VALUE_MOST)}"
        for name, value in asked.arguments.items()
    ]
    return _short(", ".join(texts), _COMMAND_MOST) or "no arguments"


def _short(text: str, most: int) -> str:
    shown = one_line(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _span(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


# --- grants -------------------------------------------------------------------------------------------------------


def _grants(options: dict[str, str], words: list[str]) -> int:
    with closing(Approvals(places.state_dir(os.environ))) as approvals:
        match words:
            case [] | ["list"]:
                workspace = workspace_id(options["workspace"]) if "workspace" in options else None
                for grant in (found := approvals.grants(workspace)):
                    sys.stdout.write(_grant(grant))
                if not found:
                    sys.stdout.write("No calls are always allowed.\n")
                return 0
            case ["revoke", id]:
                sys.stdout.write(f"No longer allowed: {one_line(approvals.revoke(id).rule)}\n")
                return 0
    raise Usage("grants takes list or revoke ID")


def _grant(grant: Grant) -> str:
    until = f", until {_moment(grant.expires_at)}" if grant.expires_at is not None else ""
    where = one_line(grant.folder or grant.workspace)
    return f"{grant.id}  {one_line(grant.rule)}\n  in {where}, since {_moment(grant.at)}{until}\n"


def _moment(nanoseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(nanoseconds // _SECOND))


# --- trust --------------------------------------------------------------------------------------------------------


def _trust(screen: Terminal, options: dict[str, str], words: list[str]) -> int:
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        match words:
            case [] | ["list"]:
                return _list_trust(trusted, options.get("workspace") or places.workspace_dir(os.environ, "."))
            case ["revoke", path]:
                if not trusted.revoke(path):
                    raise ToolError(
                        "not_found",
                        f"{one_line(path)} is not trusted.",
                        suggestion=f"{places.command('trust')} lists what is.",
                    )
                sys.stdout.write(f"No longer trusted: {one_line(path)}\n")
                return 0
            case [path] if _is_name(path):
                answers = [trust_file(screen, trusted, one) for one in _named(path)]
                return 0 if all(answers) else 1
    raise Usage("trust takes list, the path of a file or a project, or revoke PATH")


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


def _list_trust(trusted: Trust, folder: str) -> int:
    known = trusted.list()
    for one in known:
        sys.stdout.write(f"{one_line(one.path)}  {one.kind}, trusted {_moment(one.at)}{_present(one)}\n")
    paths = {one.path for one in known}
    for path in [*_files_of(folder), *_rules_above(folder)]:
        if os.path.isfile(path) and os.path.realpath(path) not in paths:
            sys.stdout.write(f"{one_line(os.path.abspath(path))}  {kind_of(path)}, not trusted\n")
            paths.add(path)
    if not paths:
        sys.stdout.write("No file is trusted, and this project has none that needs it.\n")
    return 0


def _rules_above(folder: str) -> list[str]:
    """Return the rule files of the folders above a project, which hold in it too."""
    from hilt.authority.rulebook import RULES, upward

    root, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    above = [one for one in upward(root, home) if one != root]
    return [os.path.join(one, name, RULES) for one in above for name in (".hilt", ".jcli")]


def _present(one: Trusted) -> str:
    from hilt.formats.digests import sha256

    try:
        return "" if sha256(_content(one.path)) == one.hash else ", changed: not trusted"
    except ToolError:
        return ", gone"
