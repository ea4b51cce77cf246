"""A call as rules see it: all names of its tool, its effects, and its targets where they really lead."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hilt.call import Touch
from hilt.catalog import Catalog, built_in_names, dialect, dialect_names
from hilt.config import Settings
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.files.door import LINKS_MAX, Door
from hilt.pipeline import Prepared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.commands.risk import Risk
    from hilt.policy.rule_forms import Names
    from hilt.policy.subject import Subject, Touched

# what changes the working directory, or starts something in another one
_MOVERS = frozenset(
    (
        *("cd", "pushd", "popd", "chdir", "eval", "source", ".", "env", "sudo", "doas", "su", "runuser"),
        *("chroot", "unshare", "nsenter", "bwrap", "systemd-run", "start-stop-daemon", "find", "fd", "parallel", "git"),
    )
)


def subject_of(prepared: Prepared, names: frozenset[str], door: Door, root: str, risk: Risk | None) -> Subject:
    """Return what rules are held against, with its paths resolved."""
    from hilt.policy.subject import Subject, Touched

    touches: list[Touched] = []
    for touch in prepared.touches:
        if touch.effect in ("read", "write"):
            touches.append(touched(touch.effect, touch.target, door, root))
        elif touch.effect == "network":
            touches.append(Touched("network", touch.target))
    command = next((touch.target for touch in prepared.touches if touch.effect == "execute"), "")
    if risk is not None:
        touches += _redirections(prepared, risk, door, root)
    return Subject(
        tool=prepared.tool.name,
        names=names,
        effects=effects_of(prepared),
        touches=tuple(touches),
        command=command,
        parts=() if risk is None else risk.parts,
        texts=() if touches or command else _texts(prepared.args),
        actions=_actions(prepared),
        ways=tuple(_ways(prepared, touches, door, root, command)),
    )


def _ways(prepared: Prepared, touches: Sequence[Touched], door: Door, root: str, command: str) -> Iterator[Touched]:
    """Yield what the call reaches besides its touches: links, the contents that a change shows, its folder."""
    for touch in prepared.touches:
        if touch.effect in ("read", "write"):
            yield from _links(touch.effect, touch.target, door, root)
    if not command:
        for written in touches:
            if written.effect == "write" and os.path.isfile(written.target):
                yield written._replace(effect="read")
    elif prepared.args.get("cwd") is not None:
        yield touched("read", str(prepared.args["cwd"]), door, root)._replace(tree=False)
        yield from _links("read", str(prepared.args["cwd"]), door, root)


def _redirections(prepared: Prepared, risk: Risk, door: Door, root: str) -> list[Touched]:
    """Return what redirections write; one that is relative is not known by name where the shell may move."""
    cwd = str(prepared.args.get("cwd") or ".")
    moves = any(part.kind == "command" and _may_move(part.words) for part in risk.parts)
    found: list[Touched] = []
    for part in risk.parts:
        for path in part.writes if part.kind == "redirection" else ():
            full = os.path.expanduser(path)
            known = not moves or os.path.isabs(full)
            found.append(touched("write", os.path.join(cwd, full), door, root)._replace(named=path if known else ""))
    return found


def _may_move(words: tuple[str | None, ...]) -> bool:
    return bool(words) and (words[0] is None or os.path.basename(words[0]) in _MOVERS)


def touched(effect: str, path: str, door: Door, root: str) -> Touched:
    """Return a touch of a path, followed to where it leads."""
    from hilt.policy.subject import Touched

    target, _ = followed(_full(path, door, root))
    return Touched(effect, target, _relative(target, root), os.path.isdir(target), path)


def _links(effect: str, path: str, door: Door, root: str) -> Iterator[Touched]:
    """Yield the links on the way to a path, each in the folder where it really is."""
    from hilt.policy.subject import Touched

    _, links = followed(_full(path, door, root))
    for link in links:
        yield Touched(effect, link, _relative(link, root), named=path)


def followed(path: str) -> tuple[str, list[str]]:
    """Return where an absolute path leads, and the links on the way.

    Names may be swapped meanwhile, which `os.path.realpath` answers with an error.
    """
    real = "/"
    links: list[str] = []
    pending = path.split("/")[::-1]
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            real = os.path.dirname(real)
            continue
        full = os.path.join(real, name)
        try:
            target = os.readlink(full) if len(links) < LINKS_MAX else ""
        except (OSError, ValueError):
            target = ""
        if not target:
            real = full
            continue
        links.append(full)
        real = "/" if os.path.isabs(target) else real
        pending += target.split("/")[::-1]
    return real, links


def _full(path: str, door: Door, root: str) -> str:
    """Return the absolute path that a path of a call means, its links not followed."""
    try:
        place, parts = door.locate(path)
        return os.path.join(place.real, *parts)
    except ToolError:
        return os.path.join(root, path.replace("\0", ""))


def _relative(path: str, root: str) -> str | None:
    inside = os.path.relpath(path, root)
    return None if inside == ".." or inside.startswith("../") else inside


def names_of(catalog: Catalog) -> Names:
    """Return every name that a rule may use, with all names of the same tool."""
    from hilt.policy.rule_forms import Names

    groups: dict[str, set[str]] = {}
    for name in (*built_in_names(), *catalog.extra_names()):
        groups.setdefault(name, set()).add(name)
    for spoken in dialect_names():
        for entry in dialect(spoken).values():
            groups.setdefault(entry.tool, set()).update((entry.name, entry.tool))
    twins = {name: frozenset(group) for group in groups.values() for name in group}

    def effects(name: str) -> frozenset[str]:
        try:
            return catalog.find(name).tool.effects
        except ToolError:
            return frozenset()

    return Names(twins, effects)


def has_dry_run(tool: Tool) -> bool:
    """Whether a tool can say what it would do; the word of a tool that is not ours is not taken for it."""
    return tool.source == "built-in" and "dry_run" in tool.schema["properties"]


def effects_of(prepared: Prepared) -> frozenset[str]:
    """Return the effects of this call: one that only looks, or only says what it would do, reads."""
    effects = prepared.tool.effects
    if prepared.args.get("dry_run") is True and has_dry_run(prepared.tool):
        return frozenset({"read"})
    if effects == {"write"} and prepared.tool.source == "built-in" and _looks(prepared.touches):
        return frozenset({"read"})
    if any(touch.effect == "network" for touch in prepared.touches):
        return effects | {"network"}
    return effects


def _looks(touches: Sequence[Touch]) -> bool:
    return bool(touches) and all(touch.effect == "read" for touch in touches)


def risk_of(prepared: Prepared, settings: Settings) -> Risk | None:
    """Return the risk of the command that a call runs; None when it runs none."""
    for touch in prepared.touches:
        if touch.effect == "execute":
            from hilt.commands.risk import classify

            return classify(touch.target, sandboxed=settings["shell.sandbox"] != "full")
    return None


def _actions(prepared: Prepared) -> frozenset[str]:
    """Return every spelling of the action that a call asks for: the tool's own, and that of the dialect."""
    given = (prepared.args.get("action"), prepared.foreign.get("action"))
    return frozenset(action for action in given if isinstance(action, str))


def _texts(args: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an expression speaks of in a call that touches nothing which is known: its texts."""
    return tuple(value for value in args.values() if isinstance(value, str))
