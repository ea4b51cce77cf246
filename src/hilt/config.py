"""Settings: built-in defaults, the personal file, the project's file, the environment, flags; later ones win.

A project's file can only tighten until the person trusts its content. A file that cannot be read or holds a key that
does not exist refuses every call, because what it meant to forbid is not known.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hilt import places
from hilt.choices import CHOICES
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.policy import paths

MAX_BYTES = 1024 * 1024
MOST = 1_000_000_000  # of any number; as seconds it still is a time, as megabytes a limit that a system takes
PROJECT = ".hilt/config.toml"
TOOLS_DIR = "HILT_TOOLS_DIR"  # the shorter name of the variable for custom.dirs
FOREIGN = "agents.config.json"  # of another program; these two keys of it count once it is trusted
FOREIGN_KEYS = ("disabledTools", "alwaysAllow")

Trusts = Callable[[str, bytes], bool]  # whether a person trusts a project's file with this content


class Key(NamedTuple):
    """One setting: its type, its default, and how a project's value joins the user's (None: not for projects)."""

    type: type
    default: Any
    tighten: Callable[[Any, Any], Any] | None = None
    choices: tuple[str, ...] = ()
    separator: str = os.pathsep  # between the items of a list, in a variable
    variable: str = ""  # when it is not made of the name


def _more(own: Sequence[str], project: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*own, *project)))


def _stricter(choices: Sequence[str]) -> Callable[[str, str], str]:
    """Of choices that are ordered from strict to lax, the stricter of two."""
    return lambda own, project: min(own, project, key=choices.index)


_PROFILES = ("read-only", "workspace-write", "full")
_NETWORKS = ("none", "loopback", "full")
_READS = ("workspace", "all")
_PROVIDERS = ("exa", "tavily", "brave", "duckduckgo")
_BOXES = ("read-only", "workspace-write", "declared")


KEYS: dict[str, Key] = {
    "workspace.roots": Key(list, ()),
    "workspace.sensitive": Key(list, paths.SENSITIVE, _more),
    "workspace.readable": Key(list, paths.READABLE),
    "workspace.protected": Key(list, (), _more),
    "workspace.writable": Key(list, ()),
    "mode": Key(str, "normal", choices=CHOICES["mode"]),
    "profile": Key(str, "full", _stricter(CHOICES["profile"]), CHOICES["profile"]),
    "tools.in_profile": Key(list, ()),
    "disabledTools": Key(list, (), _more),
    "tools.only": Key(list, ()),
    "alwaysAllow": Key(list, ()),
    "approve": Key(str, None, choices=CHOICES["approve"]),
    "approvals.timeout_s": Key(int, 1800),
    "dialect": Key(str, None, choices=CHOICES["dialect"]),
    "shell.sandbox": Key(str, "workspace-write", _stricter(_PROFILES), _PROFILES),
    "shell.network": Key(str, "none", _stricter(_NETWORKS), _NETWORKS),
    "shell.read": Key(str, "all", _stricter(_READS), _READS),
    "shell.writable": Key(list, ()),
    "shell.env": Key(list, ()),
    "shell.processes": Key(int, 1024, min),
    "shell.memory_mb": Key(int, 16_384, min),
    "shell.file_mb": Key(int, 16_384, min),
    "shell.tmp_mb": Key(int, 2048, min),
    "custom.dirs": Key(list, ()),
    "custom.sandbox": Key(str, "declared", _stricter(_BOXES), _BOXES),
    "mcp.servers": Key(dict, {}),
    "output.overflow_chars": Key(int, 50_000, min),
    "output.keep_days": Key(int, 7),
    "output.keep_mb": Key(int, 500),
    "undo.calls": Key(int, 500),
    "undo.mb": Key(int, 200),
    "related_context.paths": Key(list, ()),
    "telemetry.endpoint": Key(str, None),
    "web.search_provider": Key(str, None, choices=_PROVIDERS),
    "web.base_urls": Key(dict, {}),
    "web.allow_private": Key(list, (), separator=",", variable="HILT_ALLOW_PRIVATE"),
    "resident": Key(str, "auto", choices=("auto", "off")),
}

_IN_PROFILE = {"name": "profile", "tools": "tools.in_profile"}  # the keys of a table [profile]

# what no file of a project sets, trusted or not
PERSONAL = ("workspace.roots", "workspace.writable", "shell.writable", "web.allow_private")


class RuntimePaths(NamedTuple):
    """Where a runtime works: its workspace and the folders of the user."""

    root: str
    id: str
    config: str
    state: str
    home: str


class Settings:
    """All settings of one runtime, frozen, with the source of each value."""

    def __init__(self, values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self._values = values
        self.sources = sources

    def __getitem__(self, key: str) -> Any:
        """Return the value of a dotted key."""
        return self._values[key]


def load(
    workspace: str, environ: Mapping[str, str], flags: Mapping[str, Any], trusts: Trusts = lambda path, data: False
) -> Settings:
    """Read every source and return the settings in force."""
    cache = os.path.join(places.state_dir(environ), "cache")
    personal = os.path.join(places.config_dir(environ), "config.toml")
    values: dict[str, Any] = {name: key.default for name, key in KEYS.items()}
    sources = dict.fromkeys(KEYS, "default")
    for name, value in read_file(personal, personal, cache).items():
        # what is sensitive by itself stays so: exceptions are for workspace.readable to name
        values[name] = _more(KEYS[name].default, value) if name == "workspace.sensitive" else value
        sources[name] = "config.toml"
    for name, value in _of_project(workspace, values, cache, trusts).items():
        values[name], sources[name] = value, PROJECT
    for name, value in _of_foreign(workspace, trusts).items():
        values[name], sources[name] = _more(values[name], value), FOREIGN
    for name in KEYS:
        variable = variable_of(name)
        if environ.get(variable):
            values[name], sources[name] = checked(name, from_text(name, environ[variable]), variable), variable
    if environ.get(TOOLS_DIR) and sources["custom.dirs"] != "HILT_CUSTOM_DIRS":
        values["custom.dirs"] = tuple(part for part in environ[TOOLS_DIR].split(os.pathsep) if part)
        sources["custom.dirs"] = TOOLS_DIR
    for name, value in flags.items():
        if name not in KEYS:
            raise _no_key(name, "flag")
        values[name], sources[name] = checked(name, value, "flag"), "flag"
    return Settings(values, sources)


def variable_of(name: str) -> str:
    """Return the variable that sets a key."""
    return KEYS[name].variable or "HILT_" + name.upper().replace(".", "_")


def needs_trust(name: str) -> bool:
    """Whether a project's value of a setting counts only when its file is trusted."""
    return KEYS[name].tighten is None and name not in PERSONAL


def _of_project(workspace: str, values: Mapping[str, Any], cache: str, trusts: Trusts) -> dict[str, Any]:
    """Return what the file of a project makes of the values so far: stricter ones, or its own if it is trusted."""
    path = os.path.join(workspace, PROJECT)
    given = read_file(path, PROJECT, cache)
    tightened = {name: join(values[name], value) for name, value in given.items() if (join := KEYS[name].tighten)}
    own = _as_trusted(given, values)
    if own == tightened:
        return tightened
    # the very bytes that are trusted: what was parsed before may be of another file by now
    data = _bytes(path, PROJECT)
    return _as_trusted(flat_keys(_parsed(data, PROJECT), PROJECT), values) if trusts(path, data) else tightened


def _as_trusted(given: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    # lists that forbid something grow, whoever says so
    return {
        name: _more(values[name], value) if KEYS[name].tighten is _more else value
        for name, value in given.items()
        if name not in PERSONAL
    }


def _of_foreign(workspace: str, trusts: Trusts) -> dict[str, Any]:
    """Return the lists of another program's settings in a project, if the person trusts them."""
    path = os.path.join(workspace, FOREIGN)
    if not os.path.exists(path):
        return {}
    try:
        data = _bytes(path, FOREIGN)
    except ToolError:
        return {}  # nobody can have trusted what cannot be read
    if not trusts(path, data):
        return {}
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _broken(FOREIGN, str(error)) from error
    found: dict[str, Any] = {}
    for table in (given, given.get("nanocoder")) if isinstance(given, dict) else ():
        for name in FOREIGN_KEYS:
            if isinstance(table, dict) and table.get(name) is not None:
                found[name] = _more(found.get(name, ()), checked(name, table[name], FOREIGN))
    return found


def read_file(path: str, shown: str, folder: str) -> dict[str, Any]:
    """Return the flat keys of a TOML file; parsed once and kept in the state directory until it changes."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _broken(shown, os.strerror(error.errno or 0)) from error
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        # a link to a device would never end
        raise _broken(shown, f"it is not a regular file of at most {MAX_BYTES} bytes")
    stamp = [path, status.st_size, status.st_mtime_ns, status.st_ino]
    cache = os.path.join(folder, f"config-{digest(path)}.json")
    try:
        with open(cache, "rb") as file:
            kept = json.load(file)
        if kept["stamp"] == stamp:
            return flat_keys(kept["data"], shown)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no usable cache: the file itself is read
    data = _parsed(_bytes(path, shown), shown)
    flat = flat_keys(data, shown)
    _keep(cache, {"stamp": stamp, "data": data})
    return flat


def _bytes(path: str, shown: str) -> bytes:
    try:
        # a pipe with nobody at its other end must not hold us
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _broken(shown, f"it is not a regular file of at most {MAX_BYTES} bytes")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _broken(shown, os.strerror(error.errno or 0)) from error
    if len(data) > MAX_BYTES:
        raise _broken(shown, f"it is not a regular file of at most {MAX_BYTES} bytes")
    return data


def _parsed(data: bytes, shown: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise _broken(shown, str(error)) from error


def _keep(cache: str, value: object) -> None:
    try:
        text = json.dumps(value)
    except TypeError:
        return  # dates and times: no key takes them, and the check has already said so
    temporary = f"{cache}.{os.urandom(4).hex()}"
    try:
        os.makedirs(os.path.dirname(cache), mode=0o700, exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, cache)
    except OSError:
        # a cache that cannot be written only costs time
        with suppress(OSError):
            os.unlink(temporary)


def flat_keys(data: Mapping[str, Any], shown: str, prefix: str = "") -> dict[str, Any]:
    """Return the dotted keys of a file's tables with their values, checked."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        key = prefix + name
        if key == "profile" and isinstance(value, dict):
            # the table of a profile: which one, and what else belongs to it
            flat.update(
                flat_keys({_IN_PROFILE.get(inner, f"profile.{inner}"): one for inner, one in value.items()}, shown)
            )
        elif key in KEYS:
            flat[key] = checked(key, value, shown)
        elif isinstance(value, dict) and any(known.startswith(key + ".") for known in KEYS):
            flat.update(flat_keys(value, shown, key + "."))
        else:
            raise _no_key(key, shown)
    return flat


def _no_key(key: str, shown: str) -> ToolError:
    from hilt.schema import did_you_mean

    near = did_you_mean(key, KEYS)
    return _broken(shown, f"there is no key {key[:200]}" + (f"; did you mean {near}?" if near else ""))


def checked(name: str, value: Any, shown: str) -> Any:
    """Return the value of a setting, or raise what is wrong with it; `shown` is where it stands."""
    key = KEYS[name]
    if key.type is list:
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise _broken(shown, f"{name} must be an array of texts, not {value!r}")
    if key.type is dict:
        if isinstance(value, dict):
            return value
        raise _broken(shown, f"{name} must be a table, not {value!r}")
    if not isinstance(value, key.type) or isinstance(value, bool):
        raise _broken(shown, f"{name} must be {'a whole number' if key.type is int else 'text'}, not {value!r}")
    if key.choices and value not in key.choices:
        raise _broken(shown, f"{name} must be one of {', '.join(key.choices)}, not {value!r}")
    if isinstance(value, int) and value < 1:
        raise _broken(shown, f"{name} must be at least 1, not {value}")
    if isinstance(value, int) and value > MOST:
        raise _broken(shown, f"{name} must be at most {MOST}, not {value}")
    return value


def from_text(name: str, text: str) -> Any:
    """Return the value of a setting as a variable spells it, not yet checked."""
    kind = KEYS[name].type
    if kind is list:
        return [item.strip() for item in text.split(KEYS[name].separator)]
    if kind is int and text.isdecimal() and len(text) < 20:
        return int(text)
    if kind is dict:
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def _broken(shown: str, reason: str) -> ToolError:
    return ToolError(
        "denied",
        f"{shown}: {reason}" + ("" if reason.endswith("?") else "."),
        suggestion=f"Ask the user to correct {shown}.",
    )


def digest(text: str) -> str:
    """Return a short name for a text."""
    return sha256(text.encode("utf-8", "surrogateescape")).hex()[:16]
