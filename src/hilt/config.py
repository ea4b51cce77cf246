"""Settings from built-in defaults, the personal file, the project's file, the environment and flags; later ones win.

A project's file can only tighten settings until the user trusts its content. While a file is unreadable or has an
unknown key, every call is denied, because the file may have been meant to forbid it (ADR 0010).
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, get_args

from hilt import loaders, places
from hilt.choices import choices
from hilt.errors import ToolError, did_you_mean
from hilt.formats.digests import sha256
from hilt.loaders import ProjectFile
from hilt.params import NetworkName
from hilt.policy import paths

MAX_NUMBER = 1_000_000_000  # upper limit of every number; still valid as seconds and as a limit in megabytes
PROJECT, FOREIGN = loaders.paths_of("config")  # the second is another program's; these keys apply once it is trusted
TOOLS_DIR = "HILT_TOOLS_DIR"  # shorter name of HILT_CUSTOM_DIRS
FOREIGN_KEYS = ("disabledTools", "alwaysAllow")

Trusts = Callable[[ProjectFile, bytes], bool]  # whether the user trusts a project's file with this content


class Key(NamedTuple):
    """One setting: its type, default, and how an untrusted project's value tightens it (None: it cannot)."""

    type: type
    default: Any
    tighten: Callable[[Any, Any], Any] | None = None
    choices: tuple[str, ...] = ()
    separator: str = os.pathsep  # between the items of a list, in a variable
    variable: str = ""  # if it is not derived from the name


def _union(own: Sequence[str], project: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*own, *project)))


def _stricter(choices: Sequence[str]) -> Callable[[str, str], str]:
    """Return a function that picks the stricter of two choices; `choices` go from strict to lax."""
    return lambda own, project: min(own, project, key=choices.index)


def _smaller(own: float | None, project: float) -> float:
    """Return the smaller limit; None is no limit."""
    return project if own is None else min(own, project)


_PROFILES = ("read-only", "workspace-write", "full")
_NETWORKS: tuple[NetworkName, ...] = get_args(NetworkName)
_READS = ("workspace", "all")
_UNDOS = ("caution", "auto", "off")
_PROVIDERS = ("exa", "tavily", "brave", "duckduckgo")
_BOXES = ("read-only", "workspace-write", "declared")


KEYS: dict[str, Key] = {
    "workspace.name": Key(str, None),
    "workspace.roots": Key(list, ()),
    "workspace.sensitive": Key(list, paths.SENSITIVE, _union),
    "workspace.readable": Key(list, paths.READABLE),
    "workspace.protected": Key(list, (), _union),
    "workspace.writable": Key(list, ()),
    "mode": Key(str, "normal", choices=choices("mode")),
    "profile": Key(str, "full", _stricter(choices("profile")), choices("profile")),
    "tools.in_profile": Key(list, ()),
    "disabledTools": Key(list, (), _union),
    "tools.only": Key(list, ()),
    "alwaysAllow": Key(list, ()),
    "approve": Key(str, None, choices=choices("approve")),
    "approvals.timeout_s": Key(int, 1800),
    "dialect": Key(str, None),
    "shell.sandbox": Key(str, "workspace-write", _stricter(_PROFILES), _PROFILES),
    "shell.network": Key(str, "none", _stricter(_NETWORKS), _NETWORKS),
    "shell.read": Key(str, "all", _stricter(_READS), _READS),
    "shell.writable": Key(list, ()),
    "shell.env": Key(list, ()),
    "shell.sockets": Key(list, ()),
    "shell.processes": Key(int, 1024, min),
    "shell.memory_mb": Key(int, 16_384, min),
    "shell.file_mb": Key(int, 16_384, min),
    "shell.tmp_mb": Key(int, 2048, min),
    "shell.undo": Key(str, "auto", _stricter(_UNDOS), _UNDOS),
    "custom.dirs": Key(list, ()),
    "custom.sandbox": Key(str, "declared", _stricter(_BOXES), _BOXES),
    "mcp.servers": Key(dict, {}),
    "lsp.after_edit": Key(str, "off", choices=("off", "warm")),
    "lsp.memory_mb": Key(int, 4096, min),
    "output.overflow_chars": Key(int, 50_000, min),
    "output.keep_days": Key(int, 7),
    "output.keep_mb": Key(int, 500),
    "undo.calls": Key(int, 500),
    "undo.mb": Key(int, 200),
    "events.keep": Key(bool, default=True, tighten=min),
    "events.keep_days": Key(int, 7, min),
    "events.keep_mb": Key(int, 200, min),
    "related_context.paths": Key(list, ()),
    "telemetry.endpoint": Key(str, None),
    "web.search_provider": Key(str, None, choices=_PROVIDERS),
    "web.base_urls": Key(dict, {}),
    "web.allow_private": Key(list, (), separator=",", variable="HILT_ALLOW_PRIVATE"),
    "model.name": Key(str, None, variable="HILT_MODEL"),
    "model.base_url": Key(str, None),
    "model.api_key_env": Key(str, None),
    "model.context_tokens": Key(int, None),
    "agents.keep_days": Key(int, 30),
    "agents.keep_mb": Key(int, 500),
    "agents.max_cost_day": Key(float, None, _smaller),
    "agents.prices": Key(dict, {}),
    "agents.max_depth": Key(int, 5, min),
    "agents.max_children": Key(int, 20, min),
    "agents.idle_s": Key(int, 3600),
    "agents.max_queued": Key(int, 10_000, min),
    "agents.database": Key(str, None),
    "agents.lease_s": Key(int, 30),
    "agents.limits": Key(dict, {}),
    "state.mb": Key(int, 5120),
    "desktop.display": Key(str, None),
    "desktop.private": Key(list, (), _union),
    "desktop.longest_side": Key(int, 1568),
    "resident": Key(str, "auto", choices=("auto", "off")),
}

_IN_PROFILE = {"name": "profile", "tools": "tools.in_profile"}  # the keys of the table [profile]

# no project file can set these, trusted or not
PERSONAL = (
    "workspace.roots",
    "workspace.writable",
    "shell.writable",
    "shell.sockets",
    "web.allow_private",
    "agents.database",
    "state.mb",
)


class RuntimePaths(NamedTuple):
    """Paths of a runtime: its workspace and the user's folders."""

    root: str
    id: str
    config: str
    state: str
    home: str


class Settings:
    """The settings of one runtime, immutable, with the source of each value."""

    def __init__(self, values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self._values = values
        self.sources = sources

    def __getitem__(self, key: str) -> Any:
        """Return the value of a dotted key."""
        return self._values[key]

    def replaced(self, source: str, changes: Mapping[str, Any]) -> "Settings":
        """Return the settings with other values of some keys, from this source."""
        return Settings({**self._values, **changes}, {**self.sources, **dict.fromkeys(changes, source)})


def load(
    workspace: str, environ: Mapping[str, str], flags: Mapping[str, Any], trusts: Trusts = lambda file, data: False
) -> Settings:
    """Read every source and return the effective settings."""
    cache = os.path.join(places.state_dir(environ), "cache")
    personal = os.path.join(places.config_dir(environ), *loaders.paths_of("config", "config"))
    values: dict[str, Any] = {name: key.default for name, key in KEYS.items()}
    sources = dict.fromkeys(KEYS, "default")
    for name, value in read_file(personal, personal, cache).items():
        # the defaults stay sensitive: workspace.readable is the setting for exceptions
        values[name] = _union(KEYS[name].default, value) if name == "workspace.sensitive" else value
        sources[name] = "config.toml"
    for name, value in _project_values(workspace, values, cache, trusts).items():
        values[name], sources[name] = value, PROJECT
    for name, value in _foreign_values(workspace, trusts).items():
        values[name], sources[name] = _union(values[name], value), FOREIGN
    for name in KEYS:
        variable = variable_of(name)
        if environ.get(variable):
            values[name], sources[name] = checked(name, from_text(name, environ[variable]), variable), variable
    if environ.get(TOOLS_DIR) and sources["custom.dirs"] != "HILT_CUSTOM_DIRS":
        values["custom.dirs"] = tuple(part for part in environ[TOOLS_DIR].split(os.pathsep) if part)
        sources["custom.dirs"] = TOOLS_DIR
    for name, value in flags.items():
        if name not in KEYS:
            raise _unknown_key(name, "flag")
        values[name], sources[name] = checked(name, value, "flag"), "flag"
    return Settings(values, sources)


def variable_of(name: str) -> str:
    """Return the variable that sets a key."""
    return KEYS[name].variable or "HILT_" + name.upper().replace(".", "_")


def needs_trust(name: str) -> bool:
    """Whether a project's value of a setting applies only when its file is trusted."""
    return KEYS[name].tighten is None and name not in PERSONAL


def _project_values(workspace: str, values: Mapping[str, Any], cache: str, trusts: Trusts) -> dict[str, Any]:
    """Return the values set by a project's file: only stricter ones unless it is trusted."""
    file = ProjectFile("config", workspace, PROJECT)
    data = _read(file.full, PROJECT, follow=False)
    if data is None:
        return {}
    project = _parsed(data, file.full, PROJECT, cache)
    tightened = {name: join(values[name], value) for name, value in project.items() if (join := KEYS[name].tighten)}
    own = _as_trusted(project, values)
    return own if own == tightened or trusts(file, data) else tightened


def _as_trusted(project: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    # lists that forbid something only grow
    return {
        name: _union(values[name], value) if KEYS[name].tighten is _union else value
        for name, value in project.items()
        if name not in PERSONAL
    }


def _foreign_values(workspace: str, trusts: Trusts) -> dict[str, Any]:
    """Return the settings in another program's file in the project, if the user trusts it."""
    file = ProjectFile("config", workspace, FOREIGN)
    try:
        data = file.read()
    except (OSError, ValueError):
        return {}  # an unreadable file cannot be trusted
    if not trusts(file, data):
        return {}
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _invalid(FOREIGN, str(error)) from error
    lists: dict[str, Any] = {}
    for table in (parsed, parsed.get("nanocoder")) if isinstance(parsed, dict) else ():
        for name in FOREIGN_KEYS:
            if isinstance(table, dict) and table.get(name) is not None:
                lists[name] = _union(lists.get(name, ()), checked(name, table[name], FOREIGN))
    return lists


def read_file(path: str, source: str, folder: str, *, follow: bool = True) -> dict[str, Any]:
    """Return the dotted keys of a TOML file; none if it does not exist. `folder` is for the cache."""
    data = _read(path, source, follow=follow)
    return {} if data is None else _parsed(data, path, source, folder)


def _read(path: str, source: str, *, follow: bool) -> bytes | None:
    try:
        return loaders.read(path, follow=follow)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _invalid(source, os.strerror(error.errno or 0)) from error
    except ValueError as error:
        raise _invalid(source, str(error)) from error


def _parsed(data: bytes, path: str, source: str, folder: str) -> dict[str, Any]:
    """Return the dotted keys of a file; its parsed content is cached, because importing a parser takes time."""
    stamp = [path, sha256(data).hex()]
    cache = os.path.join(folder, f"config-{digest(path)}.json")
    try:
        with open(cache, "rb") as file:
            cached = json.load(file)
        if cached["stamp"] == stamp:
            return flat_keys(cached["data"], source)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no usable cache
    parsed = _parse_toml(data, source)
    flat = flat_keys(parsed, source)
    _write_cache(cache, {"stamp": stamp, "data": parsed})
    return flat


def _parse_toml(data: bytes, source: str) -> dict[str, Any]:
    from hilt.formats.toml_tables import loads

    try:
        return loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise _invalid(source, str(error)) from error


def _write_cache(cache: str, value: object) -> None:
    try:
        text = json.dumps(value)
    except TypeError:
        return  # dates and times: no key accepts them, and validation has already rejected them
    from hilt.handles import put_file

    with suppress(OSError):  # without a cache, the next start is only slower
        put_file(cache, text.encode())


def flat_keys(data: Mapping[str, Any], source: str, prefix: str = "") -> dict[str, Any]:
    """Return the dotted keys of a file's tables with their validated values."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        key = prefix + name
        if key == "profile" and isinstance(value, dict):
            # [profile] as a table: its name, and tools added to it
            renamed = {_IN_PROFILE.get(inner, f"profile.{inner}"): setting for inner, setting in value.items()}
            flat.update(flat_keys(renamed, source))
        elif key in KEYS:
            flat[key] = checked(key, value, source)
        elif isinstance(value, dict) and any(dotted.startswith(key + ".") for dotted in KEYS):
            flat.update(flat_keys(value, source, key + "."))
        else:
            raise _unknown_key(key, source)
    return flat


def _unknown_key(key: str, source: str) -> ToolError:
    near = did_you_mean(key, KEYS)
    return _invalid(source, f"unknown key {key[:200]}" + (f"; did you mean {near}?" if near else ""))


def checked(name: str, value: Any, source: str) -> Any:
    """Validate the value of a setting and return it; it was set in `source`, which the error names."""
    key = KEYS[name]
    if key.type is list:
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise _invalid(source, f"{name} must be an array of strings, not {value!r}")
    if key.type is dict:
        if isinstance(value, dict):
            return value
        raise _invalid(source, f"{name} must be a table, not {value!r}")
    if key.type is bool:
        if isinstance(value, bool):
            return value
        raise _invalid(source, f"{name} must be true or false, not {value!r}")
    if key.type is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER:
            return float(value)
        raise _invalid(source, f"{name} must be a number above 0, at most {MAX_NUMBER}, not {value!r}")
    if not isinstance(value, key.type) or isinstance(value, bool):
        raise _invalid(source, f"{name} must be {'an integer' if key.type is int else 'a string'}, not {value!r}")
    allowed = key.choices or choices(name)
    if allowed and value not in allowed:
        raise _invalid(source, f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    if isinstance(value, int) and value < 1:
        raise _invalid(source, f"{name} must be at least 1, not {value}")
    if isinstance(value, int) and value > MAX_NUMBER:
        raise _invalid(source, f"{name} must be at most {MAX_NUMBER}, not {value}")
    return value


def from_text(name: str, text: str) -> Any:
    """Convert the text of an environment variable to the type of a setting, without validating it."""
    kind = KEYS[name].type
    if kind is list:
        return [item.strip() for item in text.split(KEYS[name].separator)]
    if kind is int and text.isdecimal() and len(text) < 20:
        return int(text)
    if kind is float:
        with suppress(ValueError):
            return float(text)
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if kind is dict:
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def _invalid(source: str, reason: str) -> ToolError:
    return ToolError(
        "denied",
        f"{source}: {reason}" + ("" if reason.endswith("?") else "."),
        suggestion=f"Ask the user to correct {source}.",
    )


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return sha256(text.encode("utf-8", "surrogateescape")).hex()[:16]
