"""Query a language server."""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Literal

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.files.editing import Document, changed, diff_text, preview
from hilt.lsp import shapes
from hilt.lsp.access import Languages
from hilt.lsp.known_servers import Language, endings, language_of
from hilt.lsp.positions import Position, SourceLines, find_symbol, to_character
from hilt.lsp.questions import ServerAnswer, ServerQuestion
from hilt.lsp.shapes import Location, Symbol, TextChange, diagnostic_line
from hilt.output import views
from hilt.params import Line, ReadPath
from hilt.places import is_below, utf8_path
from hilt.text import encodings
from hilt.text.encodings import Span

FILE_BYTES = 4 * 1024 * 1024
LISTED_MAX = 100
SYMBOLS_MAX = 1000
LINE_CHARACTERS = 200
SCANNED_MAX = 5000  # entries of a folder, to find the language of its files

# the place of a symbol in such a file is named, but its column counts the units of the server
_UNREADABLE = ("file_not_found", "file_too_large", "binary_file")

Action = Literal["definition", "references", "hover", "symbols", "diagnostics", "rename"]


def _touches(args: dict[str, Any]) -> Iterator[Touch]:
    yield Touch("read", args["path"])
    if args["action"] == "rename" and args["apply"]:
        # only the server knows which files a rename writes, so it counts as the whole workspace
        yield Touch("write", ".")


@tool(effects="write", touches=_touches, timeout=240, traits=Traits(may_only_read=True))
def lsp_query(
    ctx: Context,
    action: Action,
    path: ReadPath,
    line: Line | None = None,
    character: Line | None = None,
    symbol: str | None = None,
    new_name: str | None = None,
    apply: bool = False,
) -> Output:
    """Query a language server: definitions, references, types, symbols, diagnostics, rename.

    Give the position as line and character, line and symbol, or symbol alone.

    Details:
    definition and references return file:line:column, references at most 100. hover returns the type and the
    documentation. symbols lists a file, or with a folder as path the symbols of the workspace that match symbol.
    diagnostics returns file:line:column severity source/code: message. rename returns a diff and changes nothing; with
    apply it changes all files or none, and `undo` reverts it. Places outside the workspace are named, but not
    read. Columns count characters.

    Args:
        action: rename returns a diff.
        path: File; for symbols, also a folder.
        line: Line, counted from 1.
        character: Column, counted from 1.
        symbol: Symbol name, such as Class.method.
        new_name: New name for rename.
        apply: Write the renamed files.
    """
    _refuse_odd(action, new_name, apply=apply)
    with ctx.languages as languages:
        query = _Query(ctx, languages, path)
        if action == "symbols":
            return query.symbols(symbol)
        if action == "diagnostics":
            return query.diagnostics()
        query.find(line, character, symbol)
        if action == "hover":
            return query.hover()
        if action == "rename":
            return query.rename(new_name or "", apply=apply)
        return query.places(action)


def _refuse_odd(action: str, new_name: str | None, *, apply: bool) -> None:
    if action == "rename" and not new_name:
        raise ToolError("invalid_args", "rename needs new_name.", suggestion="Pass new_name.")
    if action != "rename" and (new_name is not None or apply):
        raise ToolError(
            "invalid_args", f"new_name and apply are for rename, not for {action}.", suggestion="Leave them out."
        )


class _File:
    """A file of the workspace as a server knows it."""

    def __init__(self, ctx: Context, path: str) -> None:
        found = ctx.workspace.read(path, limit=FILE_BYTES, remember=False)
        if encodings.is_binary(found.data[:512]):
            raise ToolError("binary_file", f"{found.path} is binary ({len(found.data)} bytes).", path=found.path)
        self.path = found.path
        self.text, self.encoding = encodings.decode(found.data)
        self.real = ctx.workspace.full_path(found.path)
        self.lines = SourceLines(self.text)

    def character(self, place: Position, encoding: str) -> int:
        """Return the character at a column of the server's."""
        return to_character(self.lines.line(place.line), place.character, encoding)

    def name_at(self, found: Symbol, encoding: str) -> int:
        """Return where the name of a symbol begins: some servers report the beginning of its definition."""
        start = self.character(found.start, encoding)
        name = find_symbol(self.lines.line(found.start.line)[start:], found.name)
        return start + (name or 0)


class _Query:
    """One query: its file, its position, and the files that its answer names."""

    def __init__(self, ctx: Context, languages: Languages, path: str) -> None:
        self._ctx = ctx
        self._languages = languages
        self._path = path
        self._files: dict[str, _File | None] = {}  # by real path; None if it cannot be read
        self._refused: set[str] = set()  # those that are closed to tools
        self._hidden = 0  # places in them
        self._position = Position(0, 0)
        self._file: _File | None = None
        self._notes: dict[str, None] = {}
        self._server = self._private = ""

    # --- asking ---------------------------------------------------------------------------------------------------

    @property
    def file(self) -> _File:
        """The file that the query is about."""
        if self._file is None:
            self._file = _File(self._ctx, self._path)
        return self._file

    def _language(self) -> Language:
        language = language_of(self.file.path)
        if language is None:
            raise ToolError(
                "lsp_unavailable",
                f"No language server is known for {self.file.path}.",
                suggestion=f"Use search_files; servers are known for {', '.join(endings())}.",
            )
        return language

    def _ask(self, action: str, **more: Any) -> ServerAnswer:
        file, language = self.file, self._language()
        question = ServerQuestion(action, language.name, file.real, file.text, *self._position, **more)
        return self._noted(self._languages.ask(question))

    def _noted(self, answer: ServerAnswer) -> ServerAnswer:
        self._notes |= dict.fromkeys(answer.notes)
        self._server, self._private = answer.server, answer.private
        return answer

    def find(self, line: int | None, character: int | None, symbol: str | None) -> None:
        """Find the position that the arguments name."""
        if line is None:
            if symbol is None:
                raise ToolError("invalid_args", "No place is named.", suggestion="Pass line and character, or symbol.")
            self._find_symbol(symbol)
            return
        lines = self.file.lines
        if line > len(lines):
            count = len(lines) - (lines.line(len(lines) - 1) == "")  # what follows the last newline is not shown
            raise ToolError(
                "past_end",
                f"{self.file.path} has {count} lines, not {line}.",
                suggestion="Use a smaller line.",
                lines=count,
            )
        text = lines.line(line - 1)
        if symbol is not None:
            found = find_symbol(text, symbol.rpartition(".")[2] or symbol)
            if found is None:
                raise ToolError(
                    "not_found",
                    f"{symbol} is not in line {line} of {self.file.path}: {text.strip()[:200]}",
                    suggestion="Correct the line, or leave it out to find the symbol by name.",
                )
            character = found + 1
        elif character is None:
            raise ToolError("invalid_args", "No column is named.", suggestion="Pass character, or symbol.")
        self._position = Position(line - 1, min(character - 1, len(text)))

    def _find_symbol(self, name: str) -> None:
        """Find a symbol by its name: in the file, then in the workspace, then where the file uses it."""
        answer = self._ask("symbols")
        matches = [found for found in shapes.symbols(answer.result) if found.is_named(name)]
        if not matches:
            simple = name.rpartition(".")[2] or name
            matches = [found for found in self._named_anywhere(simple) if found.is_named(name)]
            used = next((at for at in range(len(self.file.lines)) if _is_used(self.file.lines.line(at), simple)), None)
            if len(matches) != 1 and used is not None:
                self._position = Position(used, find_symbol(self.file.lines.line(used), simple) or 0)
                return
        places = {(self._shown(found), found.start): found for found in matches}
        if not places:
            raise ToolError(
                "not_found",
                f"{answer.server} knows no symbol {name} in {self.file.path} or the workspace.",
                suggestion="Call lsp_query with action symbols to see the names.",
            )
        if len(places) > 1:
            listed = ", ".join(f"{found.kind} {self._place_of(found)}" for found in list(places.values())[:10])
            raise ToolError(
                "ambiguous_id",
                f"{name} names {len(places)} symbols: {listed}.",
                suggestion="Pass the line of one of them, or a qualified name such as Class.method.",
            )
        self._go_to(matches[0], answer.encoding)

    def _named_anywhere(self, name: str) -> list[Symbol]:
        """Return the symbols of the workspace that match a name; none if no server can search for them."""
        try:
            answer = self._ask("workspace_symbols", query=name)
        except ToolError as error:
            if error.code != "lsp_unavailable":
                raise
            return []
        return [found for found in shapes.symbols(answer.result) if not self._is_hidden(found.path)]

    def _go_to(self, found: Symbol, encoding: str) -> None:
        if found.path and found.path != self.file.real:
            other = self._read(found.path)
            if other is None:
                raise ToolError(
                    "not_found",
                    f"{found.name} is defined in {utf8_path(found.path)}, which tools cannot read.",
                    suggestion="Name a place in the workspace by line and character.",
                )
            self._file = other
        self._position = Position(found.start.line, self.file.name_at(found, encoding))

    # --- files of answers -----------------------------------------------------------------------------------------

    def _read(self, real: str) -> _File | None:
        """Return a file that an answer names; None if it is outside the workspace or cannot be read."""
        if self._file is not None and real == self._file.real:
            return self._file
        if real not in self._files:
            self._files[real] = None
            try:
                inside = self._ctx.door.inside(real)
                if inside is not None:
                    self._files[real] = _File(self._ctx, inside[0].shown(inside[1]))
            except ToolError as error:
                if error.code not in _UNREADABLE:
                    self._refused.add(real)
        return self._files[real]

    def _is_hidden(self, real: str) -> bool:
        """Whether a file of the workspace is closed to tools, such as a sensitive one."""
        self._read(real)
        return real in self._refused

    def _shown_place(self, place: Location, encoding: str) -> tuple[str, int, int] | None:
        """Return path, line and column of a place; None for a file that is hidden."""
        if self._is_hidden(place.path):
            self._hidden += 1
            return None
        file = self._read(place.path)
        if file is None:
            path = self._order(place)[0]
            if self._private and is_below(path, self._private):
                path = f"[{self._server}]{path.removeprefix(self._private)}"  # no path of this machine
            return _plain(path), place.start.line + 1, place.start.character + 1
        return _plain(file.path), place.start.line + 1, file.character(place.start, encoding) + 1

    def _line_at(self, place: Location) -> str | None:
        file = self._read(place.path)
        return None if file is None else file.lines.line(place.start.line).strip()[:LINE_CHARACTERS]

    def _shown(self, found: Symbol) -> str:
        file = self._read(found.path) if found.path else self.file
        return _plain(found.path if file is None else file.path)

    def _place_of(self, found: Symbol) -> str:
        return f"{'.'.join((*found.containers, found.name))} ({self._shown(found)}:{found.start.line + 1})"

    def _output(self, lines: list[str], meta: dict[str, Any], server: str, listed: Sequence[views.File] = ()) -> Output:
        notes = list(self._notes)
        if self._hidden:
            places = f"place{'s' * (self._hidden != 1)}"
            notes.append(f"{self._hidden} {places} in files that tools cannot read left out")
        text = "\n".join([*lines, *(f"[{note}]" for note in notes)])
        view = views.file_list(listed) if listed else views.none(text)
        return Output(text, view=view, meta={"server": server, **meta})

    # --- actions --------------------------------------------------------------------------------------------------

    def places(self, action: str) -> Output:
        """Return where a symbol is defined or used."""
        answer = self._ask(action)
        found = shapes.locations(answer.result)
        if action == "references":
            found.sort(key=self._order)
        kept: dict[tuple[str, int, int], str | None] = {}  # the line of each place, for people
        total = len(found)
        for place in found:
            shown = self._shown_place(place, answer.encoding) if len(kept) < LISTED_MAX else None
            if shown is not None:
                total -= shown in kept
                kept[shown] = self._line_at(place)
        total -= self._hidden
        lines = [f"{path}:{line}:{column}" for path, line, column in kept]
        if len(kept) < total:
            lines.append(f"[truncated: showing {len(kept)} of {total}]")
        if not lines:
            noun = "definition" if action == "definition" else "references"
            lines = [f"no {noun} found for {self._here()}"]
        places = [{"path": path, "line": line, "character": column} for path, line, column in kept]
        listed = [views.File(place[0], line=place[1], content=line) for place, line in kept.items()]
        return self._output(lines, {"locations": places, "total": total}, answer.server, listed)

    def _order(self, place: Location) -> tuple[str, Position]:
        inside = self._ctx.door.inside(place.path)
        return (place.path if inside is None else inside[0].shown(inside[1])), place.start

    def _here(self) -> str:
        return f"{self.file.path}:{self._position.line + 1}:{self._position.character + 1}"

    def hover(self) -> Output:
        """Return the type and documentation of a symbol."""
        answer = self._ask("hover")
        text = shapes.hover_text(answer.result)
        return self._output([text or f"nothing is known about {self._here()}"], {}, answer.server)

    def symbols(self, name: str | None) -> Output:
        """Return the symbols of a file, or those of the workspace with a name."""
        import stat

        _, status = self._ctx.workspace.status(self._path)
        if stat.S_ISDIR(status.st_mode):
            return self._workspace_symbols(name)
        answer = self._ask("symbols")
        found = shapes.symbols(answer.result)
        if name is not None:
            found = [symbol for symbol in found if symbol.is_named(name)]
        rows = []
        for symbol in found:
            column = self.file.name_at(symbol, answer.encoding) + 1
            indent = "  " * (0 if symbol.path else len(symbol.containers))
            rows.append(f"{indent}{symbol.kind} {symbol.name} ({symbol.start.line + 1}:{column})")
        return self._listed(rows, answer.server, f"no symbols in {self.file.path}")

    def _listed(self, rows: list[str], server: str, otherwise: str) -> Output:
        kept = rows[:SYMBOLS_MAX]
        if len(kept) < len(rows):
            kept.append(f"[truncated: showing {SYMBOLS_MAX} of {len(rows)}]")
        return self._output(kept or [otherwise], {"total": len(rows)}, server)

    def _workspace_symbols(self, name: str | None) -> Output:
        if not name:
            raise ToolError(
                "invalid_args",
                f"{self._path} is a folder; symbols needs a file, or a name to search for.",
                suggestion="Pass symbol.",
            )
        self._file = _File(self._ctx, self._typical_file())  # some servers search only the project of an open file
        answer = self._ask("workspace_symbols", query=name)
        found = shapes.symbols(answer.result)
        rows = []
        for symbol in sorted(found, key=lambda symbol: not symbol.is_named(name)):
            place = self._shown_place(Location(symbol.path, symbol.start), answer.encoding)
            if place is not None:
                path, line, column = place
                file = self._read(symbol.path)
                column = column if file is None else file.name_at(symbol, answer.encoding) + 1
                rows.append(f"{symbol.kind} {symbol.name} {path}:{line}:{column}")
        return self._listed(rows, answer.server, f"no symbols match {name}")

    def _typical_file(self) -> str:
        """Return a file of the language that most files in a folder have."""
        files: dict[str, list[str]] = {}
        for path, entry in islice(self._ctx.workspace.walk(self._path, depth=8), SCANNED_MAX):
            language = language_of(path)
            if language is not None and entry.is_file(follow_symlinks=False):
                files.setdefault(language.name, []).append(path)
        if not files:
            raise ToolError(
                "lsp_unavailable",
                f"{self._path} has no files of a language with a known server.",
                suggestion=f"Use search_files; servers are known for {', '.join(endings())}.",
            )
        return max(files.values(), key=len)[0]

    def diagnostics(self) -> Output:
        """Return the diagnostics of a file."""
        answer = self._ask("diagnostics")
        found = shapes.diagnostics(answer.result)
        rows = [diagnostic_line(self.file.path, self.file.lines, item, answer.encoding) for item in found]
        counts: dict[str, int] = {}
        for item in found:
            counts[item.severity] = counts.get(item.severity, 0) + 1
        kept = rows[:SYMBOLS_MAX]
        if len(kept) < len(rows):
            kept.append(f"[truncated: showing {SYMBOLS_MAX} of {len(rows)}]")
        listed = [views.File(self.file.path, line=item.start.line + 1, content=item.message) for item in found]
        otherwise = f"no diagnostics for {self.file.path}"
        return self._output(kept or [otherwise], {"counts": counts}, answer.server, listed)

    def rename(self, new_name: str, *, apply: bool) -> Output:
        """Preview a rename, or make it."""
        answer = self._ask("rename", new_name=new_name)
        change = shapes.workspace_change(answer.result)
        if change.refused:
            raise ToolError(
                "tool_failed",
                f"{answer.server} would also do this, which is not supported: {'; '.join(change.refused[:5])}.",
                suggestion="Make the change with other tools.",
            )
        if not change.files:
            raise ToolError(
                "not_found",
                f"{answer.server} finds nothing to rename at {self._here()}.",
                suggestion="Name the place of an identifier that the workspace defines.",
            )
        paths = {self._writable(real): edits for real, edits in sorted(change.files.items())}
        with self._ctx.workspace.change("lsp_query", list(paths)) as draft:
            documents = []
            for path, edits in paths.items():
                document = Document(path, draft.old(path) or b"")
                document.apply(_spans(path, document.text, edits, answer.encoding))
                documents.append(document)
            changes = [document.change for document in documents if document.data != draft.old(document.path)]
            count = sum(len(edits) for edits in paths.values())
            summary = f"{count} edit{'s' * (count != 1)} in {len(paths)} file{'s' * (len(paths) != 1)}"
            meta: dict[str, Any] = {
                "server": answer.server,
                "files": list(paths),
                "edits": count,
                "edit": {"diff": diff_text(changes)},
            }
            if not apply:
                note = f"[preview: {summary}; pass apply: true to make the rename]"
                output = preview(changes, meta, otherwise="", many=True)
                return output._replace(text=output.text + note)
            for document in documents:
                draft.write(document.path, document.data)
            undo = draft.commit()
        rows = [f"{path}: {len(edits)}" for path, edits in paths.items()]
        return changed("\n".join([f"renamed to {new_name}: {summary}", *rows]), changes, meta, undo, many=True)

    def _writable(self, real: str) -> str:
        inside = self._ctx.door.inside(real)
        if inside is None:
            raise ToolError(
                "path_outside_workspace",
                f"The rename would change {utf8_path(real)}, which is outside the workspace; nothing was changed.",
                path=utf8_path(real),
            )
        return inside[0].shown(inside[1])


def _plain(path: str) -> str:
    """Return a path that a server names on one line, whatever is in it."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in utf8_path(path))


def _is_used(line: str, name: str) -> bool:
    return name in line and find_symbol(line, name) is not None


def _spans(path: str, text: str, edits: list[TextChange], encoding: str) -> list[Span]:
    """Return edits as spans of the text; raise if they do not fit it."""
    lines = SourceLines(text)
    spans = []
    for edit in edits:
        ends = []
        for place in (edit.start, edit.end):
            line = lines.line(place.line)
            character = to_character(line, place.character, encoding)
            # the end of a text may be named as the beginning of the line after the last
            if place.line > len(lines) or (place.line == len(lines) and place.character):
                raise _stale(path)
            ends.append(lines.offset(Position(place.line, character)))
        spans.append(Span(ends[0], ends[1], edit.text))
    spans.sort()
    if any(span.end < span.start for span in spans) or any(one.end > other.start for one, other in pairwise(spans)):
        raise _stale(path)
    return spans


def _stale(path: str) -> ToolError:
    return ToolError(
        "stale_file",
        f"The edits of the language server do not fit {path}; nothing was changed.",
        suggestion="Send the call again.",
        path=path,
    )
