"""References in a prompt, such as `@file:src/main.py:10-40`, and the text and images that they include.

Everything is read by calling tools, so that the same rules, approvals and record apply as for any other call. Only the
prompt is searched for references, never the included text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from hilt.call import Call, Result
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.runtime import Runtime

TOTAL_BYTES = 256 * 1024  # of text, for all references of a prompt
REFERENCES_MAX = 50
IMAGES_MAX = 10
ENTRIES_MAX = 500  # of a folder
FOLDER_DEPTH = 2
CANDIDATES_MAX = 100

_BARE = r"[^\s\"'`<>]+"
# not in the middle of a word, as in me@file:x
_REFERENCE = re.compile(rf"(?<![^\s(\[{{<\"'`,;])@(file|skill|command):(?:\"([^\"\n]+)\"((?::\d[\d-]*)?)|({_BARE}))")
_RANGE = re.compile(r":(\d{1,9})(?:(-)(\d{1,9})?)?\Z")
_PUNCTUATION = ".,;:!?)]}"
_SHOWING = "\n[Showing lines "  # the start of read_file's note about omitted lines
_KINDS = ("file", "skill", "command")
_GLOB_CHARACTERS = re.compile(r"([\\*?\[\]{},!])")


class Expansion(NamedTuple):
    """A prompt with the text of its references, and their images as MCP content blocks."""

    text: str
    images: tuple[dict[str, Any], ...] = ()


class FileRange(NamedTuple):
    """A path, and the lines to read, counted from 1; without `first` the whole file, without `last` up to its end."""

    path: str
    first: int | None = None
    last: int | None = None


def expand(
    runtime: Runtime, prompt: str, *, command: Callable[[str], str], around: Callable[[str, str], str]
) -> Expansion:
    """Return a prompt that the user typed, followed by the contents of its references.

    If one is missing, denied or too long, a note after the reference says so. `command` returns the text of a command
    by its name, or raises a ToolError. `around` puts marks that the content of a file cannot imitate around it, given
    with its source.
    """
    reader = _Reader(runtime, command)
    text = _REFERENCE.sub(reader.replace, prompt)
    # it depends on the contents, so that none of them can contain it; the same prompt always has the same
    contents = "".join(around(block.text, block.source) for block in reader.blocks)
    mark = sha256(contents.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    blocks = [
        around(block.text, block.source)
        if block.is_data
        else f"[The user asked for {block.source}. Its text ends at the mark {mark}:]\n{block.text}\n[{mark}]"
        for block in reader.blocks
    ]
    return Expansion("\n\n".join([text, *blocks]), tuple(reader.images))


def file_range(text: str) -> FileRange:
    """Return the path and the lines of a reference such as a.py, a.py:10, a.py:10- or a.py:10-40."""
    match = _RANGE.search(text)
    if match is None or not match.start():
        return FileRange(text)
    first, dash, last = match.groups()
    return FileRange(text[: match.start()], int(first), int(last) if last else None if dash else int(first))


class _Refused(Exception):
    """Why a reference is not included."""


class _Block(NamedTuple):
    """The text of a reference; data unless the user chose it to be followed."""

    source: str
    text: str
    is_data: bool


class _Reader:
    """Reads the references of one prompt."""

    def __init__(self, runtime: Runtime, command: Callable[[str], str]) -> None:
        self._runtime = runtime
        self._command = command
        self._notes: dict[str, str] = {}  # by reference
        self._room = TOTAL_BYTES
        self.blocks: list[_Block] = []
        self.images: list[dict[str, Any]] = []

    def replace(self, match: re.Match[str]) -> str:
        """Return a reference as it was typed, with a note if there is one."""
        kind, quoted, lines, bare = match.groups()
        # a name may end with punctuation, but usually that belongs to the sentence
        name = quoted or bare.rstrip(_PUNCTUATION) or bare
        punctuation = "" if quoted else bare[len(name) :]
        reference = match[0].removesuffix(punctuation)
        if reference not in self._notes:
            if kind != "file":
                self._notes[reference] = self._noted(self._instructions, reference, kind, name)
            else:
                whole = file_range(f"x{lines}")._replace(path=quoted) if quoted else file_range(bare)
                candidates = [whole, file_range(name)] if punctuation else [whole]
                self._notes[reference] = self._noted(self._first_file, reference, candidates)
        return f"{reference}{self._notes[reference]}{punctuation}"

    def _noted(self, read: Callable[..., str], *args: Any) -> str:
        """Return the note of a reference, usually empty."""
        if len(self._notes) >= REFERENCES_MAX:
            return f" [not included: a prompt can have at most {REFERENCES_MAX} references]"
        try:
            return read(*args)
        except _Refused as refused:
            return f" [not included: {refused}]"
        except ToolError as error:
            return f" [not included: {error.code}: {error.message}]"

    def _instructions(self, reference: str, kind: str, name: str) -> str:
        text = self._call("load_skill", name=name).result if kind == "skill" else self._command(name)
        return self._include(reference, text, "it is too long to use", is_data=False)

    def _first_file(self, reference: str, candidates: list[FileRange]) -> str:
        """Read the first of these files that exists."""
        for candidate in candidates[:-1]:
            try:
                return self._file(reference, candidate)
            except ToolError as error:
                if error.code != "file_not_found":
                    raise
        return self._file(reference, candidates[-1])

    def _file(self, reference: str, target: FileRange) -> str:
        path = target.path
        try:
            if target.first is not None:
                return self._lines(reference, target)
            result = self._call("read_file", path=path, max_bytes=self._room)
        except ToolError as error:
            if error.code != "not_a_file":
                raise
            return self._folder(reference, path, error)
        if result.content:
            return self._images(result)
        size = result.meta.get("size", 0)
        if result.meta.get("binary"):
            raise _Refused(f"a binary file of {size} bytes")
        if result.meta.get("truncated"):
            raise _too_long(f"{size} bytes", f"read {path} with read_file")
        return self._include(reference, result.result, f"read {path} with read_file")

    def _lines(self, reference: str, target: FileRange) -> str:
        """Read a range of lines, which may take several calls."""
        first, last = target.first or 1, target.last
        pages: list[str] = []
        size = 0
        while True:
            args = {} if last is None else {"end_line": last}
            result = self._call("read_file", path=target.path, start_line=first, truncate="none", **args)
            if result.content:
                return self._images(result)
            text, size = result.result, size + len(result.result)
            if size > self._room:
                raise _too_long("the lines are too long", f"read a part of {target.path} with read_file")
            next_line = _line_after(result)
            if next_line is None or next_line <= first or (last is not None and next_line > last):
                pages.append(text)
                return self._include(reference, "\n".join(pages), f"read a part of {target.path} with read_file")
            page, mark, note = text.rpartition(_SHOWING)
            # the note stays if it says that a line was cut
            pages.append(text if not mark or "too long to show" in note else page)
            first = next_line

    def _folder(self, reference: str, path: str, error: ToolError) -> str:
        result = self._request("list_dir", path=path, depth=FOLDER_DEPTH, max_entries=ENTRIES_MAX)
        if result.error is not None:
            raise error  # neither a file nor a folder
        entries, total = result.data["entries"], result.data["total_count"]
        lines = [*entries, *([f"[{len(entries)} of {total} entries]"] if len(entries) < total else [])]
        return self._include(reference, "\n".join(lines) or "[an empty folder]", f"list {path} with list_dir")

    def _images(self, result: Result) -> str:
        blocks = [block for block in result.content if block.get("type") == "image"]
        if not blocks:
            raise _Refused("not a text or an image")
        if len(self.images) + len(blocks) > IMAGES_MAX:
            raise _Refused(f"a prompt can have at most {IMAGES_MAX} images; view it with read_file")
        self.images += blocks
        return f" [image {len(self.images)}]"

    def _include(self, reference: str, text: str, advice: str, *, is_data: bool = True) -> str:
        size = len(text.encode("utf-8", "replace"))
        if size > self._room:
            raise _too_long(f"{size} bytes", advice)
        self._room -= size
        self.blocks.append(_Block(reference, text, is_data))
        return ""

    def _call(self, tool: str, **args: Any) -> Result:
        result = self._request(tool, **args)
        if result.error is not None:
            raise result.error
        return result

    def _request(self, tool: str, **args: Any) -> Result:
        return self._runtime.request(Call(tool, args, dialect="jinn"))


def _too_long(size: str, advice: str) -> _Refused:
    return _Refused(f"{size}; all references together can have at most {TOTAL_BYTES >> 10} KB; {advice}")


def _line_after(result: Result) -> int | None:
    """Return the line after those that a call of read_file returned, or None at the end of the file."""
    truncation = result.meta.get("truncation")
    next_line = truncation["next"]["args"].get("start_line") if truncation and "next" in truncation else None
    return next_line if isinstance(next_line, int) else None


# --- completion -----------------------------------------------------------------------------------------------------


def complete(runtime: Runtime, prefix: str, *, skills: Iterable[str] = (), commands: Iterable[str] = ()) -> list[str]:
    """Return the references that complete the word under the cursor, such as `@file:src/ma`.

    A candidate that ends with a slash or a colon is incomplete. Files that ignore rules or path rules hide are not
    offered. `skills` and `commands` are their names.
    """
    kind, colon, typed = prefix.removeprefix("@").partition(":")
    if not prefix.startswith("@"):
        return []
    if not colon:
        return [f"@{name}:" for name in _KINDS if name.startswith(kind)]
    if kind == "file":
        return [f"@file:{path}" for path in _paths(runtime, typed.removeprefix('"'))]
    names = {"skill": skills, "command": commands}.get(kind, ())
    return [f"@{kind}:{name}" for name in sorted(names) if name.startswith(typed)][:CANDIDATES_MAX]


def _paths(runtime: Runtime, typed: str) -> list[str]:
    """Return the files and folders whose path starts as typed, one level deep, quoted if needed."""
    folder, slash, start = typed.rpartition("/")
    place = os.path.normpath(folder + slash) if folder + slash else "."
    if os.path.isabs(place) and (place + "/").startswith(runtime.parts.root + "/"):
        place = os.path.relpath(place, runtime.parts.root)
    escaped = _GLOB_CHARACTERS.sub(r"\\\1", start)
    args = {
        "path": place,
        "pattern": f"/{{{escaped}*,{escaped}*/**}}",
        "limit": 10_000,
        "hidden": start.startswith("."),
    }
    result = runtime.request(Call("find_files", args, dialect="jinn"))
    if result.error is not None:
        return []
    above = "" if place == "." else place.rstrip("/") + "/"
    names: dict[str, None] = {}
    for path in result.data["files"]:
        first, more, _ = path.removeprefix(above).partition("/")
        if path.startswith(above) and first.startswith(start):
            names.setdefault(_as_reference(f"{folder}{slash}{first}{more}"))
    return [name for name in names if name][:CANDIDATES_MAX]


def _as_reference(path: str) -> str:
    """Return a path as written in a reference, "" if that is impossible; the quotes of a folder stay open."""
    if path.isprintable() and re.fullmatch(_BARE, path) and path[-1] not in _PUNCTUATION and not _RANGE.search(path):
        return path
    if '"' in path or not path.isprintable():
        return ""
    return f'"{path}' if path.endswith("/") else f'"{path}"'
