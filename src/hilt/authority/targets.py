"""A call as rules see it: all names of its tool, its effects, and its resolved targets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hilt import places
from hilt.call import Touch
from hilt.catalog import Catalog, built_in_names, dialect
from hilt.choices import dialect_names
from hilt.config import Settings
from hilt.context import Context
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.files.door import Door
from hilt.pipeline import Decision, Prepared
from hilt.policy.decision import Vote
from hilt.schema import SPELLINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.policy.rule_forms import Names
    from hilt.policy.subject import Base, Subject, Touched
    from hilt.shell.risk import Risk

# programs that change the working directory or start something in another one
_MOVERS = frozenset(
    (
        *("cd", "pushd", "popd", "chdir", "eval", "source", ".", "env", "sudo", "doas", "su", "runuser"),
        *("chroot", "unshare", "nsenter", "bwrap", "systemd-run", "start-stop-daemon", "find", "fd", "parallel", "git"),
    )
)


def subject_of(prepared: Prepared, names: frozenset[str], door: Door, base: Base, risk: Risk | None) -> Subject:
    """Return the call as rules match it, with its paths resolved."""
    from hilt.policy.subject import Subject, Touched

    root = base.copy or base.root
    touches: list[Touched] = []
    for touch in prepared.touches:
        if touch.effect in ("read", "write"):
            touches.append(touched(touch.effect, touch.target, door, root))
        elif touch.effect == "network":
            touches.append(Touched("network", touch.target))
    command = next((touch.target for touch in prepared.touches if touch.effect == "execute"), "")
    if risk is not None:
        touches += _redirections(prepared, risk, door, root)
    ways = list(_ways(prepared, touches, door, root, command))
    originals = ((way, base.original(way.target)) for way in (*touches, *ways))
    ways += [way._replace(target=original) for way, original in originals if original is not None]
    return Subject(
        tool=prepared.tool.name,
        names=names,
        effects=effects_of(prepared),
        touches=tuple(touches),
        command=command,
        parts=() if risk is None else risk.parts,
        texts=() if touches or command else _texts(prepared.args),
        actions=_actions(prepared),
        ways=tuple(ways),
    )


def _ways(prepared: Prepared, touches: Sequence[Touched], door: Door, root: str, command: str) -> Iterator[Touched]:
    """Yield what the call accesses besides its touches: links, contents that a diff shows, its working directory."""
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
    """Return what redirections write; `named` is empty for a relative path if the shell may change its directory."""
    cwd = str(prepared.args.get("cwd") or ".")
    moves = any(part.kind == "command" and _may_move(part.words) for part in risk.parts)
    writes: list[Touched] = []
    for part in risk.parts:
        for path in part.writes if part.kind == "redirection" else ():
            full = os.path.expanduser(path)
            named = path if not moves or os.path.isabs(full) else ""
            writes.append(touched("write", os.path.join(cwd, full), door, root)._replace(named=named))
    return writes


def _may_move(words: tuple[str | None, ...]) -> bool:
    return bool(words) and (words[0] is None or os.path.basename(words[0]) in _MOVERS)


def touched(effect: str, path: str, door: Door, root: str) -> Touched:
    """Return a touch of a path, resolved."""
    from hilt.policy.subject import Touched

    target, _ = followed(_full(path, door, root))
    return Touched(effect, target, _relative(target, root), os.path.isdir(target), path)


def _links(effect: str, path: str, door: Door, root: str) -> Iterator[Touched]:
    """Yield the links in a path, each with its folder resolved."""
    from hilt.policy.subject import Touched

    _, links = followed(_full(path, door, root))
    for link in links:
        yield Touched(effect, link, _relative(link, root), named=path)


def followed(path: str) -> tuple[str, list[str]]:
    """Return an absolute path resolved, and the links in it."""
    *links, real = (step for step, _ in places.steps(path))
    return real, links


def _full(path: str, door: Door, root: str) -> str:
    """Return the absolute path for a path of a call, without resolving links."""
    try:
        place, parts = door.locate(path)
        return os.path.join(place.real, *parts)
    except ToolError:
        return os.path.join(root, path.replace("\0", ""))


def _relative(path: str, root: str) -> str | None:
    inside = os.path.relpath(path, root)
    return None if inside == ".." or inside.startswith("../") else inside


def names_of(catalog: Catalog) -> Names:
    """Return all names that rules may use, each with all names of the tools that it means in any dialect."""
    from hilt.policy.rule_forms import Names

    tools_by_name: dict[str, set[str]] = {}
    for name in (*built_in_names(), *catalog.extra_names()):
        tools_by_name[name] = {name}
    for dialect_name in dialect_names():
        for entry in dialect(dialect_name).values():
            tools_by_name.setdefault(entry.name, set()).add(entry.tool)
    groups = {tool: {tool} for tools in tools_by_name.values() for tool in tools}
    for name, tools in tools_by_name.items():
        if len(tools) == 1:  # a name of two tools would join their groups
            groups[next(iter(tools))].add(name)
    own = {tool: frozenset(group) for tool, group in groups.items()}
    twins = {name: frozenset(twin for tool in tools for twin in own[tool]) for name, tools in tools_by_name.items()}

    def effects(name: str) -> frozenset[str]:
        combined: set[str] = set()
        for tool in tools_by_name.get(name, ()):
            with suppress(ToolError):
                combined |= catalog.find(tool).tool.effects
        return frozenset(combined)

    return Names(twins, effects, own)


def has_dry_run(tool: Tool) -> bool:
    """Whether a tool has a dry run; only built-in tools are trusted with it."""
    return tool.source == "built-in" and "dry_run" in tool.schema["properties"]


def effects_of(prepared: Prepared) -> frozenset[str]:
    """Return the effects of this call: an action that only reads, and a dry run, have the effect read."""
    effects = prepared.tool.effects
    if prepared.args.get("dry_run") is True and has_dry_run(prepared.tool):
        return frozenset({"read"})
    if effects == {"write"} and prepared.tool.source == "built-in" and _only_reads(prepared.touches):
        return frozenset({"read"})
    if any(touch.effect == "network" for touch in prepared.touches):
        return effects | {"network"}
    return effects


def _only_reads(touches: Sequence[Touch]) -> bool:
    return bool(touches) and all(touch.effect == "read" for touch in touches)


def risk_of(prepared: Prepared, settings: Settings) -> Risk | None:
    """Return the risk of the command that a call runs; None if it runs no command."""
    for touch in prepared.touches:
        if touch.effect == "execute":
            from hilt.shell.risk import classify

            return classify(touch.target, sandboxed=settings["shell.sandbox"] != "full")
    return None


def _actions(prepared: Prepared) -> frozenset[str]:
    """Return every spelling of a call's action: the tool's own, and the dialect's."""
    action = prepared.args.get("action")
    aliases = prepared.tool.schema.get("properties", {}).get("action", {}).get(SPELLINGS, {})
    others = (spelling for spelling, value in aliases.items() if value == action)
    spellings = (action, prepared.foreign.get("action"), *others)
    return frozenset(spelling for spelling in spellings if isinstance(spelling, str))


def _texts(args: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the string arguments, which expressions match when a call has no known touches."""
    return tuple(value for value in args.values() if isinstance(value, str))


def vote_on_paths(prepared: Prepared, ctx: Context) -> Decision | None:
    """Vote on the workspace boundary, sensitive names and write protection; ask about what runs by itself."""
    start_files: dict[str, None] = {}
    for touch in prepared.touches if prepared.tool.writes is None else _all_touches(prepared, ctx):
        if touch.effect == "write":
            with suppress(ToolError):
                start_files |= dict.fromkeys(ctx.workspace.ask(touch.target))
        if touch.effect in ("read", "write") and not touch.partial:
            try:
                ctx.workspace.judge(touch.target, write=touch.effect == "write")
            except ToolError as error:
                return _alone(Vote("deny", "paths", error.message, error))
    only_reads = "write" in prepared.tool.effects and "write" not in effects_of(prepared)
    if not start_files or only_reads:
        return None
    names = ", ".join(start_files)
    return _alone(Vote("ask", "paths", f"{names} can run programs automatically"))


def _alone(vote: Vote) -> Decision:
    return Decision(vote, (vote,))


def _all_touches(prepared: Prepared, ctx: Context) -> Iterator[Touch]:
    yield from prepared.touches
    if prepared.tool.writes is not None:
        yield from (Touch("write", path) for path in prepared.tool.writes(ctx, prepared.args))
