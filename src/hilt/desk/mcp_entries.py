"""The entries for hilt in the settings of MCP hosts. The rest of a file stays unchanged, byte for byte."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from hilt import places
from hilt.desk.mcp_hosts import Entry, HostFile, OwnTools
from hilt.desk.personal_files import SettingsChange, read_bytes
from hilt.errors import ToolError
from hilt.formats import jsonc, toml_tables
from hilt.formats.invisible import one_line, revealed
from hilt.formats.jsonc import NotEditable
from hilt.servers.configured import starts_hilt

_MARK = "\ufeff"

Edit = Callable[[str], str]  # of the text of a settings file


def entry_text(file: HostFile, name: str, entry: Entry) -> str:
    """Return the text of an entry, in the format of the file."""
    return _edited(file.path, "", _keys(file, name), entry)


def with_entry(file: HostFile, name: str, entry: Entry, *, only_hilt: bool = False) -> list[SettingsChange]:
    """Return the changes that add an entry; with `only_hilt`, they also turn off the host's own tools."""
    by_hand = f"Add this by hand:\n{entry_text(file, name, entry)}"
    return _changes(file, {name: entry}, _turn_off if only_hilt else None, by_hand)


def without_entry(file: HostFile, name: str) -> list[SettingsChange]:
    """Return the changes that remove an entry, and turn the host's own tools back on."""
    return _changes(file, {name: None}, _turn_on, "Remove the entry by hand.")


def other_folder(file: HostFile) -> str:
    """Return the folder that the entry for hilt names now, if it is not the workspace; empty otherwise."""
    for entry in _own_entries(file).values():
        words = [*map(str, entry.get("args", ()))]
        if "--workspace" in words[:-1]:
            folder = words[words.index("--workspace") + 1]
            return "" if folder == file.folder else folder
    return ""


def _own_entries(file: HostFile) -> dict[str, Any]:
    """Return the entries for hilt by name."""
    real = file.resolved(file.path)
    data = read_bytes(real)
    try:
        text = _text(data or b"")[1]
        servers = toml_tables.parse(text) if real.endswith(".toml") else jsonc.parse(text) if text.strip() else {}
    except NotEditable:
        return {}  # the host cannot read it either
    for key in _keys(file, "")[:-1]:
        servers = servers.get(key) if isinstance(servers, dict) else None
    return {name: entry for name, entry in servers.items() if _is_own(entry)} if isinstance(servers, dict) else {}


def without_own_entries(file: HostFile) -> list[SettingsChange]:
    """Return the changes that remove every entry for hilt, whatever its name."""
    names = _own_entries(file)
    by_hand = f"Remove the entry for hilt from {one_line(file.path)} by hand."
    return _changes(file, dict.fromkeys(names), _turn_on, by_hand) if names else []


def _is_own(entry: Any) -> bool:
    """Whether an entry starts hilt, or connects to `hilt serve` with the agents' token."""
    with suppress(OSError), open(os.path.join(places.state_dir(os.environ), "serve-agent-token")) as file:
        token = file.read().strip()
        if token and token in json.dumps(entry, default=str):
            return True
    return starts_hilt(entry)


def _changes(
    file: HostFile,
    entries: Mapping[str, Entry | None],
    own_tools: Callable[[OwnTools, str], str] | None,
    by_hand: str,
) -> list[SettingsChange]:
    """Return the changes of files; an entry of None is removed. `own_tools` edits the setting for the host's tools."""
    edits: dict[str, list[Edit]] = {
        file.path: [_entry_edit(file.path, _keys(file, name), entry) for name, entry in entries.items()]
    }
    if own_tools is not None and file.host.own_tools is not None:
        edits.setdefault(file.own_tools_path, []).append(partial(own_tools, file.host.own_tools))
    changes = [_change(path, file.resolved(path), steps, by_hand) for path, steps in edits.items()]
    return [change for change in changes if change.after != (change.before or b"")]


def _change(path: str, real: str, edits: Sequence[Edit], by_hand: str) -> SettingsChange:
    """Return the change that the edits make to a file; `by_hand` is what to do if it cannot be edited."""
    before = read_bytes(real)
    try:
        mark, text = _text(before or b"")
        for edit in edits:
            text = edit(text)
    except NotEditable as error:
        raise ToolError(
            "invalid_request",
            f"{one_line(path)} cannot be edited: {revealed(str(error))}.",
            suggestion=by_hand.rstrip(),
        ) from None
    return SettingsChange(path, real, before, (mark + text).encode())


def _keys(file: HostFile, name: str) -> list[str]:
    """Return the keys of an entry in the file."""
    if file.host.keys == ("mcp",):
        # newer versions of this file nest the servers one level deeper
        with suppress(NotEditable, KeyError, TypeError):
            inner = jsonc.parse(_text(read_bytes(file.resolved(file.path)) or b"{}")[1])["mcp"]["servers"]
            if isinstance(inner, dict) and "type" not in inner:
                return ["mcp", "servers", name]
    return [*file.host.keys, name]


def _text(data: bytes) -> tuple[str, str]:
    """Return the byte order mark of a file, if it has one, and the text after it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NotEditable("it is not UTF-8") from None
    return (_MARK, text[1:]) if text.startswith(_MARK) else ("", text)


def _entry_edit(path: str, keys: list[str], entry: Entry | None) -> Edit:
    return lambda text: _edited(os.path.realpath(path), text, keys, entry)


def _edited(path: str, text: str, keys: list[str], entry: Entry | None) -> str:
    if path.endswith(".toml"):
        return toml_tables.without_table(text, keys) if entry is None else toml_tables.with_table(text, keys, entry)
    return jsonc.without_member(text, keys) if entry is None else jsonc.with_member(text, keys, entry)


def _turn_off(own: OwnTools, text: str) -> str:
    """Turn off the host's own tools; tools that the user turned off stay off."""
    if isinstance(own.off, Mapping):
        for name, value in own.off.items():
            text = jsonc.with_member(text, [*own.keys, name], value)
        return text
    names = _names(own, text)
    missing = [name for name in own.off if name not in names]
    return jsonc.with_member(text, own.keys, [*names, *missing]) if missing else text


def _turn_on(own: OwnTools, text: str) -> str:
    """Turn the host's own tools back on, if everything that --only-hilt turns off is off."""
    if isinstance(own.off, Mapping):
        current = _value(own, text)
        if isinstance(current, dict) and own.off.items() <= current.items():
            for name in own.off:
                text = jsonc.without_member(text, [*own.keys, name])
        return text
    names = _names(own, text)
    others = [name for name in names if name not in own.off]
    if not set(own.off) <= set(names):
        return text
    return jsonc.with_member(text, own.keys, others) if others else jsonc.without_member(text, own.keys)


def _names(own: OwnTools, text: str) -> list[str]:
    current = _value(own, text)
    if current is not None and not isinstance(current, list):
        raise NotEditable(f"{'.'.join(own.keys)} is not a list")
    return current or []


def _value(own: OwnTools, text: str) -> Any:
    value = jsonc.parse(text) if text.strip() else None
    for key in own.keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
