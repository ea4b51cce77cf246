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
from hilt.lsp.queries import ServerAnswer, ServerQuestion
from hilt.lsp.shapes import Location, Symbol, TextChange, diagnostic_line
from hilt.output import views
from hilt.params import Line, ReadPath
from hilt.places import is_below, utf8_path
from hilt.text import encodings
from hilt.text.encodings import Span

FILE_BYTES = 4 * 1024 * 1024
LOCATIONS_MAX = 100
SYMBOLS_MAX = 1000
LINE_CHARACTERS = 200
SCANNED_MAX = 5000  # entries of a folder, to find the language of its files

# locations in such files are reported, but their columns count the server's units
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
    apply it changes all files or none, and `undo` reverts it. Locations outside the workspace are reported, but those
    files are not read. Columns count characters.

    Args:
        action: rename returns a diff.
        path: File; for symbols, also a folder.
        line: Line, counted from 1.
        character: Column, counted from 1.
        symbol: Symbol name, such as Class.method.
        new_name: New name for rename.
        apply: Write the renamed files.
    """
    _check_arguments(action, new_name, apply=apply)
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
        return query.locations(action)


def _check_arguments(action: str, new_name: str | None, *, apply: bool) -> None:
    if action == "rename" and not new_name:
        raise ToolError("invalid_args", "rename needs new_name.", suggestion="Pass new_name.")
    if action != "rename" and (new_name is not None or apply):
        raise ToolError(
            "invalid_args", f"new_name and apply are for rename, not for {action}.", suggestion="Omit them."
        )


class _File:
    """A text file of the workspace that a server reports on."""

    def __init__(self, ctx: Context, path: str) -> None:
        file = ctx.workspace.read(path, limit=FILE_BYTES, remember=False)
        if encodings.is_binary(file.data[:512]):
            raise ToolError("binary_file", f"{file.path} is binary ({len(file.data)} bytes).", path=file.path)
        self.path = file.path
        self.text, self.encoding = encodings.decode(file.data)
        self.real = ctx.workspace.full_path(file.path)
        self.lines = SourceLines(self.text)

    def character(self, position: Position, encoding: str) -> int:
        """Convert a column from the server's units to characters."""
        return to_character(self.lines.line(position.line), position.character, encoding)

    def name_at(self, symbol: Symbol, encoding: str) -> int:
        """Return where the name of a symbol begins: some servers report the beginning of its definition."""
        start = self.character(symbol.start, encoding)
        name = find_symbol(self.lines.line(symbol.start.line)[start:], symbol.name)
        return start + (name or 0)


class _Query:
    """One query: its file, its position, and the files in its answer."""

    def __init__(self, ctx: Context, languages: Languages, path: str) -> None:
        self._ctx = ctx
        self._languages = languages
        self._path = path
        self._files: dict[str, _File | None] = {}  # by real path; None if it cannot be read
        self._denied: set[str] = set()  # those that tools may not read
        self._hidden = 0  # locations in them
        self._position = Position(0, 0)
        self._file: _File | None = None
        self._notes: dict[str, None] = {}
        self._server = self._private = ""

    # --- querying -------------------------------------------------------------------------------------------------

    @property
    def file(self) -> _File:
        """The file of the query."""
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

    def _ask(self, action: str, **parameters: Any) -> ServerAnswer:
        file, language = self.file, self._language()
        question = ServerQuestion(action, language.name, file.real, file.text, *self._position, **parameters)
        return self._note(self._languages.ask(question))

    def _note(self, answer: ServerAnswer) -> ServerAnswer:
        self._notes |= dict.fromkeys(answer.notes)
        self._server, self._private = answer.server, answer.private
        return answer

    def find(self, line: int | None, character: int | None, symbol: str | None) -> None:
        """Resolve the position given by the arguments."""
        if line is None:
            if symbol is None:
                raise ToolError(
                    "invalid_args", "The position is missing.", suggestion="Pass line and character, or symbol."
                )
            self._find_symbol(symbol)
            return
        lines = self.file.lines
        if line > len(lines):
            count = len(lines) - (lines.line(len(lines) - 1) == "")  # an empty last line does not count
            raise ToolError(
                "past_end",
                f"{self.file.path} has {count} lines, not {line}.",
                suggestion="Use a smaller line.",
                lines=count,
            )
        text = lines.line(line - 1)
        if symbol is not None:
            column = find_symbol(text, symbol.rpartition(".")[2] or symbol)
            if column is None:
                raise ToolError(
                    "not_found",
                    f"{symbol} is not in line {line} of {self.file.path}: {text.strip()[:200]}",
                    suggestion="Correct the line, or omit it to find the symbol by name.",
                )
            character = column + 1
        elif character is None:
            raise ToolError("invalid_args", "The column is missing.", suggestion="Pass character, or symbol.")
        self._position = Position(line - 1, min(character - 1, len(text)))

    def _find_symbol(self, name: str) -> None:
        """Find a symbol by its name: in the file, then in the workspace, then where the file uses it."""
        answer = self._ask("symbols")
        matches = [symbol for symbol in shapes.symbols(answer.result) if symbol.is_named(name)]
        if not matches:
            simple = name.rpartition(".")[2] or name
            matches = [symbol for symbol in self._search_workspace(simple) if symbol.is_named(name)]
            lines = self.file.lines
            first_use = next((index for index in range(len(lines)) if _is_used(lines.line(index), simple)), None)
            if len(matches) != 1 and first_use is not None:
                self._position = Position(first_use, find_symbol(lines.line(first_use), simple) or 0)
                return
        symbols = {(self._display_path(symbol), symbol.start): symbol for symbol in matches}
        if not symbols:
            raise ToolError(
                "not_found",
                f"{answer.server} found no symbol {name} in {self.file.path} or the workspace.",
                suggestion="Call lsp_query with action symbols to see the names.",
            )
        if len(symbols) > 1:
            listed = ", ".join(f"{symbol.kind} {self._located(symbol)}" for symbol in list(symbols.values())[:10])
            raise ToolError(
                "ambiguous_id",
                f"{name} matches {len(symbols)} symbols: {listed}.",
                suggestion="Pass the line of one of them, or a qualified name such as Class.method.",
            )
        self._go_to(matches[0], answer.encoding)

    def _search_workspace(self, name: str) -> list[Symbol]:
        """Return the symbols of the workspace that match a name; none if no server can search for them."""
        try:
            answer = self._ask("workspace_symbols", query=name)
        except ToolError as error:
            if error.code != "lsp_unavailable":
                raise
            return []
        return [symbol for symbol in shapes.symbols(answer.result) if not self._is_hidden(symbol.path)]

    def _go_to(self, symbol: Symbol, encoding: str) -> None:
        if symbol.path and symbol.path != self.file.real:
            other = self._read(symbol.path)
            if other is None:
                raise ToolError(
                    "not_found",
                    f"{symbol.name} is defined in {utf8_path(symbol.path)}, which tools cannot read.",
                    suggestion="Pass the line and character of a position in the workspace.",
                )
            self._file = other
        self._position = Position(symbol.start.line, self.file.name_at(symbol, encoding))

    # --- files of answers -----------------------------------------------------------------------------------------

    def _read(self, real: str) -> _File | None:
        """Return a file from an answer; None if it is outside the workspace or cannot be read."""
        if self._file is not None and real == self._file.real:
            return self._file
        if real not in self._files:
            self._files[real] = None
            try:
                inside = self._ctx.door.inside(real)
                if inside is not None:
                    self._files[real] = _File(self._ctx, inside[0].display_path(inside[1]))
            except ToolError as error:
                if error.code not in _UNREADABLE:
                    self._denied.add(real)
        return self._files[real]

    def _is_hidden(self, real: str) -> bool:
        """Whether tools may not read a file of the workspace, such as a sensitive one."""
        self._read(real)
        return real in self._denied

    def _resolve(self, location: Location, encoding: str) -> tuple[str, int, int] | None:
        """Return path, line and column of a location; None in a hidden file."""
        if self._is_hidden(location.path):
            self._hidden += 1
            return None
        file = self._read(location.path)
        if file is None:
            path = self._order(location)[0]
            if self._private and is_below(path, self._private):
                path = f"[{self._server}]{path.removeprefix(self._private)}"  # hides the local path
            return _printable(path), location.start.line + 1, location.start.character + 1
        return _printable(file.path), location.start.line + 1, file.character(location.start, encoding) + 1

    def _line_at(self, location: Location) -> str | None:
        file = self._read(location.path)
        return None if file is None else file.lines.line(location.start.line).strip()[:LINE_CHARACTERS]

    def _display_path(self, symbol: Symbol) -> str:
        file = self._read(symbol.path) if symbol.path else self.file
        return _printable(symbol.path if file is None else file.path)

    def _located(self, symbol: Symbol) -> str:
        return f"{'.'.join((*symbol.containers, symbol.name))} ({self._display_path(symbol)}:{symbol.start.line + 1})"

    def _output(self, lines: list[str], meta: dict[str, Any], server: str, listed: Sequence[views.File] = ()) -> Output:
        notes = list(self._notes)
        if self._hidden:
            noun = f"location{'s' * (self._hidden != 1)}"
            notes.append(f"omitted {self._hidden} {noun} in files that tools cannot read")
        text = "\n".join([*lines, *(f"[{note}]" for note in notes)])
        view = views.file_list(listed) if listed else views.none(text)
        return Output(text, view=view, meta={"server": server, **meta})

    # --- actions --------------------------------------------------------------------------------------------------

    def locations(self, action: str) -> Output:
        """Return where a symbol is defined or used."""
        answer = self._ask(action)
        locations = shapes.locations(answer.result)
        if action == "references":
            locations.sort(key=self._order)
        source_lines: dict[tuple[str, int, int], str | None] = {}  # by path, line and column; for the view
        total = len(locations)
        for location in locations:
            place = self._resolve(location, answer.encoding) if len(source_lines) < LOCATIONS_MAX else None
            if place is not None:
                total -= place in source_lines
                source_lines[place] = self._line_at(location)
        total -= self._hidden
        lines = [f"{path}:{line}:{column}" for path, line, column in source_lines]
        if len(source_lines) < total:
            lines.append(f"[truncated: showing {len(source_lines)} of {total}]")
        if not lines:
            noun = "definition" if action == "definition" else "references"
            lines = [f"no {noun} found for {self._here()}"]
        places = [{"path": path, "line": line, "character": column} for path, line, column in source_lines]
        listed = [views.File(place[0], line=place[1], content=line) for place, line in source_lines.items()]
        return self._output(lines, {"locations": places, "total": total}, answer.server, listed)

    def _order(self, location: Location) -> tuple[str, Position]:
        inside = self._ctx.door.inside(location.path)
        return (location.path if inside is None else inside[0].display_path(inside[1])), location.start

    def _here(self) -> str:
        return f"{self.file.path}:{self._position.line + 1}:{self._position.character + 1}"

    def hover(self) -> Output:
        """Return the type and documentation of a symbol."""
        answer = self._ask("hover")
        text = shapes.hover_text(answer.result)
        return self._output([text or f"no information about {self._here()}"], {}, answer.server)

    def symbols(self, name: str | None) -> Output:
        """Return the symbols of a file, or those of the workspace with a name."""
        import stat

        _, status = self._ctx.workspace.status(self._path)
        if stat.S_ISDIR(status.st_mode):
            return self._workspace_symbols(name)
        answer = self._ask("symbols")
        symbols = shapes.symbols(answer.result)
        if name is not None:
            symbols = [symbol for symbol in symbols if symbol.is_named(name)]
        rows = []
        for symbol in symbols:
            column = self.file.name_at(symbol, answer.encoding) + 1
            indent = "  " * (0 if symbol.path else len(symbol.containers))
            rows.append(f"{indent}{symbol.kind} {symbol.name} ({symbol.start.line + 1}:{column})")
        return self._listed(rows, answer.server, f"no symbols in {self.file.path}")

    def _listed(self, rows: list[str], server: str, otherwise: str) -> Output:
        return self._output(_truncated(rows) or [otherwise], {"total": len(rows)}, server)

    def _workspace_symbols(self, name: str | None) -> Output:
        if not name:
            raise ToolError(
                "invalid_args",
                f"{self._path} is a folder; symbols needs a file, or a name to search for.",
                suggestion="Pass symbol.",
            )
        self._file = _File(self._ctx, self._typical_file())  # some servers search only the project of an open file
        answer = self._ask("workspace_symbols", query=name)
        rows = []
        for symbol in sorted(shapes.symbols(answer.result), key=lambda symbol: not symbol.is_named(name)):
            place = self._resolve(Location(symbol.path, symbol.start), answer.encoding)
            if place is not None:
                path, line, column = place
                file = self._read(symbol.path)
                column = column if file is None else file.name_at(symbol, answer.encoding) + 1
                rows.append(f"{symbol.kind} {symbol.name} {path}:{line}:{column}")
        return self._listed(rows, answer.server, f"no symbols match {name}")

    def _typical_file(self) -> str:
        """Return a file in the most common language of a folder."""
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
        diagnostics = shapes.diagnostics(answer.result)
        rows = [diagnostic_line(self.file.path, self.file.lines, item, answer.encoding) for item in diagnostics]
        counts: dict[str, int] = {}
        for item in diagnostics:
            counts[item.severity] = counts.get(item.severity, 0) + 1
        listed = [views.File(self.file.path, line=item.start.line + 1, content=item.message) for item in diagnostics]
        otherwise = f"no diagnostics for {self.file.path}"
        return self._output(_truncated(rows) or [otherwise], {"counts": counts}, answer.server, listed)

    def rename(self, new_name: str, *, apply: bool) -> Output:
        """Preview or apply a rename."""
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
                suggestion="Pass the position of an identifier that the workspace defines.",
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
                note = f"[preview: {summary}; pass apply: true to apply it]"
                output = preview(draft, changes, meta, otherwise="", many=True)
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
        return inside[0].display_path(inside[1])


def _printable(path: str) -> str:
    """Return a path from a server with unprintable characters escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in utf8_path(path))


def _truncated(rows: list[str]) -> list[str]:
    """Return at most SYMBOLS_MAX rows, and a note if there are more."""
    if len(rows) <= SYMBOLS_MAX:
        return rows
    return [*rows[:SYMBOLS_MAX], f"[truncated: showing {SYMBOLS_MAX} of {len(rows)}]"]


def _is_used(line: str, name: str) -> bool:
    return name in line and find_symbol(line, name) is not None


def _spans(path: str, text: str, edits: list[TextChange], encoding: str) -> list[Span]:
    """Return edits as spans of the text; raise if they do not match it."""
    lines = SourceLines(text)
    spans = []
    for edit in edits:
        ends = []
        for position in (edit.start, edit.end):
            line = lines.line(position.line)
            character = to_character(line, position.character, encoding)
            # the end of the text may be given as the start of the line after the last one
            if position.line > len(lines) or (position.line == len(lines) and position.character):
                raise _stale(path)
            ends.append(lines.offset(Position(position.line, character)))
        spans.append(Span(ends[0], ends[1], edit.text))
    spans.sort()
    if any(span.end < span.start for span in spans) or any(left.end > right.start for left, right in pairwise(spans)):
        raise _stale(path)
    return spans


def _stale(path: str) -> ToolError:
    return ToolError(
        "stale_file",
        f"The language server's edits do not match {path}; nothing was changed.",
        suggestion="Send the call again.",
        path=path,
    )
