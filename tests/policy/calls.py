"""Calls as rules see them, and the names of tools."""

from __future__ import annotations

from hilt.policy.rule_forms import Names
from hilt.policy.subject import Subject, Touched
from hilt.shell.risk import classify

ROOT = "/project/project"
HOME = "/homes/ann"

# the effects of tools, and all names of each, the tool's own first
TOOLS = {
    ("read_file", "Read", "tool::file_read"): "read",
    ("multi_read",): "read",
    ("search_files", "Grep"): "read",
    ("find_files", "Glob"): "read",
    ("list_dir", "tool::file_list"): "read",
    ("write_file", "Write", "tool::file_write"): "write",
    ("edit_file", "Edit"): "write",
    ("apply_patch", "tool::apply_patch"): "write",
    ("search_replace",): "write",
    ("undo",): "write",
    ("run_shell", "Bash", "shell_exec", "tool::shell_exec"): "execute",
    ("web_fetch", "WebFetch", "tool::web_fetch"): "network",
    ("web_search", "WebSearch", "tool::web_search"): "network",
    ("computer", "ComputerUse"): "control",
    ("register_hook", "RegisterHook"): "control",
}
TWINS = {name: frozenset(names) for names in TOOLS for name in names}
NAMES = Names(TWINS, lambda name: frozenset(next(effect for names, effect in TOOLS.items() if name in names).split()))


def call(tool: str, *touches: Touched) -> Subject:
    """A call of a tool that runs no command."""
    return Subject(tool, TWINS[tool], NAMES.effects(tool), touches)


def shell(command: str, *touches: Touched) -> Subject:
    """A call that runs a command."""
    touched = (Touched("execute", command), *touches)
    return Subject("run_shell", TWINS["run_shell"], frozenset(("execute",)), touched, command, classify(command).parts)


def path(effect: str, relative: str, *, tree: bool = False, named: str = "") -> Touched:
    """A path inside the workspace, resolved."""
    return Touched(effect, f"{ROOT}/{relative}" if relative != "." else ROOT, relative, tree, named)


def outside(effect: str, absolute: str) -> Touched:
    """A path outside the workspace, resolved."""
    return Touched(effect, absolute)


def reading(relative: str, *, tree: bool = False) -> Subject:
    """A read of one path."""
    return call("search_files" if tree else "read_file", path("read", relative, tree=tree))


def writing(*relatives: str, tool: str = "write_file") -> Subject:
    """A write of some paths."""
    return call(tool, *(path("write", relative) for relative in relatives))


def fetching(url: str) -> Subject:
    """A fetch of a URL."""
    return call("web_fetch", Touched("network", url))


def acting(*spellings: str) -> Subject:
    """An action on the desktop, in all its spellings."""
    return call("computer")._replace(actions=frozenset(spellings))
