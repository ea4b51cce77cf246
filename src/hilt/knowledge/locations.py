"""The folders with a user's knowledge: shared ones, those of one client, and those named in settings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hilt.knowledge.folders import FolderShelf, prefixes
from hilt.loaders import paths_of
from hilt.places import utf8_path

CLIENTS = ("claude", "codex", "pi")
PERSONAL = ("skills", "agents", "commands")  # below our own configuration directory
PROJECT = (*paths_of("skill"), *paths_of("agent"), *paths_of("command"))  # below a workspace

_JSON_BYTES = 1024 * 1024
_KINDS = {"skills": "skill", "agents": "agent", "commands": "command"}


class KnowledgePlaces(NamedTuple):
    """The inputs that determine where to look."""

    environ: Mapping[str, str]
    config: str  # our own configuration directory
    paths: Sequence[str]  # named in our settings
    workspace: str
    is_sensitive: Callable[[str], bool]


def shelves(places: KnowledgePlaces, client: str) -> tuple[list[FolderShelf], list[str]]:
    """Return the folders to search for a client ("none", one of CLIENTS, or "all"), and warnings on skipped ones."""
    home = _home(places.environ)
    candidates = [(os.path.join(home, ".claude/kb"), "kb")]
    if client in ("claude", "all"):
        candidates += [(os.path.join(home, ".claude", name), kind) for name, kind in _KINDS.items()]
        candidates += _plugins(home, places.workspace)
    if client in ("codex", "all"):
        candidates.append((os.path.join(home, ".codex/skills"), "skill"))
    if client in ("pi", "all"):
        candidates.append((os.path.join(home, ".pi/agent/skills"), "skill"))
    candidates += [(os.path.join(places.config, name), _KINDS[name]) for name in PERSONAL]
    candidates += [(os.path.join(home, folder), "skill") for folder in (".agents/skills", ".jcli/skills")]
    by_path: dict[str, FolderShelf] = {}
    for path, kind in candidates:
        real = os.path.realpath(path)
        if os.path.isdir(real) and not _skip_reason(real, places.is_sensitive):
            by_path.setdefault(real, FolderShelf(real, kind, places.is_sensitive))
    warnings: list[str] = []
    for configured, path in _configured(places, home, warnings):
        real = os.path.realpath(path)
        reason = _skip_reason(real, places.is_sensitive)
        if reason:
            warnings.append(f"skipped {_quoted(configured)} in related_context.paths: {reason}")
        else:
            by_path.setdefault(real, FolderShelf(real, kind_of_folder(real), places.is_sensitive))
    return list(by_path.values()), warnings


def kind_of_folder(path: str) -> str:
    """Return the kind of entries in a folder, by its name."""
    name = os.path.basename(path)
    return "command" if name.endswith("-commands") else _KINDS.get(name, "kb")


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _skip_reason(path: str, is_sensitive: Callable[[str], bool]) -> str:
    """Return why a folder is skipped; empty if it is not."""
    if any(is_sensitive(prefix) for prefix in prefixes(path)):
        return "sensitive path"
    if not os.path.isdir(path):
        return "not a folder" if os.path.exists(path) else "no such folder"
    return "" if os.access(path, os.R_OK | os.X_OK) else "permission denied"


def _configured(places: KnowledgePlaces, home: str, warnings: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the paths of our settings, or of jinn's if ours have none: as configured, and expanded."""
    paths, parent = places.paths, places.config
    if not paths:
        file = _jinn_file(places.environ, home)
        parent = os.path.dirname(file)
        paths = _jinn_paths(file, warnings)
    for text in paths:
        if not text or "\0" in text:
            continue
        path = home + text[1:] if text == "~" or text.startswith("~/") else text
        yield text, os.path.join(parent, path)


def _jinn_file(environ: Mapping[str, str], home: str) -> str:
    config = environ.get("JINN_CONFIG_DIR") or environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(config, "jinn", "config.json")


def _jinn_paths(file: str, warnings: list[str]) -> list[str]:
    if not os.path.exists(file):
        return []
    value = _json(file)
    section = value.get("related_context", {}) if isinstance(value, dict) else None
    paths = section.get("paths", []) if isinstance(section, dict) else None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        warnings.append("jinn's config.json could not be read: related_context.paths must be an array of strings")
        return []
    return paths


# --- plugins of Claude --------------------------------------------------------------------------------------------


def _plugins(home: str, workspace: str) -> Iterator[tuple[str, str]]:
    """Yield the component folders of the plugins that are installed, for the user or for this project."""
    value = _json(os.path.join(home, ".claude/plugins/installed_plugins.json"))
    plugins = value.get("plugins") if isinstance(value, dict) else None
    for installs in plugins.values() if isinstance(plugins, dict) else ():
        for install in installs if isinstance(installs, list) else [installs]:
            path = install.get("installPath") if isinstance(install, dict) else None
            if isinstance(path, str) and os.path.isabs(path) and "\0" not in path and _is_ours(install, workspace):
                yield from _components(path)


def _is_ours(install: dict[str, Any], workspace: str) -> bool:
    project = install.get("projectPath")
    if install.get("scope") not in ("project", "local") or not isinstance(project, str):
        return True
    return "\0" not in project and f"{workspace}/".startswith(os.path.realpath(project).rstrip("/") + "/")


def _components(plugin: str) -> Iterator[tuple[str, str]]:
    manifest = _json(os.path.join(plugin, ".claude-plugin/plugin.json"))
    prefix = os.path.realpath(plugin) + "/"
    for name, kind in _KINDS.items():
        declared = manifest.get(name) if isinstance(manifest, dict) else None
        for path in [
            name,
            *([declared] if isinstance(declared, str) else declared if isinstance(declared, list) else ()),
        ]:
            if isinstance(path, str) and "\0" not in path:
                full = os.path.realpath(os.path.join(plugin, path))
                if full.startswith(prefix) and os.path.isdir(full):
                    yield full, kind


def _json(path: str) -> Any:
    """Return the contents of a small JSON file, or None if it is invalid."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            data = file.read(_JSON_BYTES + 1)
        return json.loads(data.decode("utf-8-sig")) if len(data) <= _JSON_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


def _quoted(path: str) -> str:
    return repr(utf8_path(path))
