"""Replace matches of a pattern in many files at once."""

from collections.abc import Iterator
from typing import Annotated, Any

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.files.editing import Document, FileDiff, changed, diff_text, preview
from hilt.files.workspace import FORCED_BYTES, MAX_BYTES
from hilt.output import views
from hilt.params import Items
from hilt.places import utf8_path
from hilt.search import patterns, replacing
from hilt.search.replacing import Replaced
from hilt.search.ripgrep import Pattern
from hilt.search.selection import Selection
from hilt.search.tree import open_tree
from hilt.text.encodings import Span

FILES_MAX = 50
LINES_LISTED = 10

_MAGIC = "*?[{"


def _touches(args: dict[str, Any]) -> Iterator[Touch]:
    for target in _targets(args["files"]):
        yield Touch("write", _base(target)[0] or "." if _is_glob(target) else target)


@tool(effects="write", touches=_touches)
def search_replace(
    ctx: Context,
    pattern: str,
    replacement: str,
    files: str | Annotated[list[str], Items(1, FILES_MAX)],
    include: str | None = None,
    case_insensitive: bool = False,
    multiline: bool = True,
    literal: bool = False,
    dry_run: bool = False,
    force: bool = False,
) -> Output:
    """Replace every match of a regular expression in up to 50 files: all or nothing. `undo` reverts it.

    Details:
    The regular expression syntax is that of search_files. Bytes outside the matches do not change. Binary files are
    skipped, with an error for each.

    Args:
        pattern: Regular expression as in search_files; may span lines.
        replacement: $1, ${1}, $name: group; $0: match; $$: dollar sign; empty deletes.
        files: File, folder or glob such as src/**/*.go, or a list of them.
        include: Only files that also match this glob.
        case_insensitive: Ignore case.
        multiline: ^ and $ match at every line.
        literal: Treat pattern and replacement as plain text.
        dry_run: Preview the diff only.
        force: Allow files over 50 MB.
    """
    compiled = _pattern(pattern, replacement, literal=literal, ignore_case=case_insensitive, lines=multiline)
    targets = _Targets(ctx, include)
    for target in _targets(files):
        targets.add(target)
    targets.check()
    with ctx.workspace.change("search_replace", targets.paths, force=force) as draft:
        documents = []
        for path in draft.targets():
            try:
                documents.append(Document(path, draft.old(path) or b""))
            except ToolError as error:
                targets.fail(path, error)
        work = _Replacing(ctx, compiled, documents)
        work.replace(limit=FORCED_BYTES if force else MAX_BYTES)
        changes = work.changes
        meta: dict[str, Any] = {
            "files": [{"path": document.path, "matches": work.counts[document.path]} for document in work.matched],
            "total_matches": sum(work.counts.values()),
            "searched_files": len(documents),
        }
        if targets.errors:
            meta["errors"] = targets.errors
        notes = [f"skipped {path}: {error['error']}" for path, error in targets.errors.items()]
        if not changes:
            text = "\n".join([_no_changes(work, compiled, documents), *notes])
            return Output(text, view=views.none(text), meta={**meta, "dry_run": True} if dry_run else meta)
        meta["edit"] = {"diff": diff_text(changes), "first_changed_line": work.first_line}
        if dry_run:
            note = f"[dry-run: would replace {work.summary()}: {', '.join(work.lines())}]"
            text = "\n".join([diff_text(changes) + note, *notes])
            return preview(draft, changes, meta, otherwise="")._replace(text=text)
        for document in work.changed:
            draft.write(document.path, document.data)
        undo = draft.commit()
    return changed("\n".join([f"replaced {work.summary()}:", *work.lines(), *notes]), changes, meta, undo)


def _targets(files: str | list[str]) -> list[str]:
    return [files] if isinstance(files, str) else files


def _is_glob(target: str) -> bool:
    return any(character in target for character in _MAGIC)


def _base(glob: str) -> tuple[str, str]:
    """Split a glob into the folder that contains all its matches, and the remaining pattern."""
    parts = glob.split("/")
    plain = 0
    while plain < len(parts) - 1 and not _is_glob(parts[plain]) and "\\" not in parts[plain]:
        plain += 1
    base = "/".join(parts[:plain])
    return ("/" if plain and not base else base), "/".join(parts[plain:])


def _pattern(text: str, replacement: str, *, literal: bool, ignore_case: bool, lines: bool) -> Pattern:
    if "\0" in replacement or any("\ud800" <= character <= "\udfff" for character in replacement):
        raise ToolError(
            "invalid_args",
            "The replacement contains a NUL character or a lone surrogate, which a text file cannot contain.",
        )
    pattern = patterns.read_pattern(
        text, literal=literal, ignore_case=ignore_case, multiline=True, lines=lines, replacement=replacement
    )
    if literal:
        return pattern._replace(replacement=replacement.replace("$", "$$"))
    parsed = patterns.groups(text)
    pattern = pattern._replace(replacement=patterns.braced(replacement, parsed.names))
    for name, position in patterns.references(pattern.replacement or ""):
        if name not in parsed.names and not (name.isdecimal() and int(name) <= parsed.number):
            available = ", ".join(
                [f"${number}" for number in range(parsed.number + 1)] + [f"${name}" for name in parsed.names]
            )
            raise ToolError(
                "invalid_args",
                f"The replacement refers to the group ${name}; the pattern has only {available}.",
                suggestion="Write $$ for a dollar sign.",
                position=position,
            )
    return pattern


class _Targets:
    """The files to change, and those that are skipped."""

    def __init__(self, ctx: Context, include: str | None) -> None:
        self._ctx = ctx
        self._include = None if include is None else Selection(include=[include])
        self._sizes: dict[str, int] = {}  # by path
        self._missing: list[str] = []
        self.errors: dict[str, dict[str, str]] = {}

    @property
    def paths(self) -> list[str]:
        """All files, sorted by path."""
        return sorted(self._sizes)

    def add(self, target: str) -> None:
        """Add the files that a path, folder or glob selects."""
        if not target:
            raise ToolError(
                "invalid_args", "files is empty.", suggestion='Send a path or glob; "." selects everything.'
            )
        try:
            path, status = self._ctx.workspace.status(target)
        except ToolError as error:
            if error.code != "file_not_found" or not _is_glob(target):
                raise
        else:
            import stat

            if stat.S_ISDIR(status.st_mode):
                self._expand(target, Selection(), target)
            elif self._accepts(path):
                with self._ctx.door.place(target, write=True) as place:  # does not follow links
                    self._sizes[place.path] = status.st_size
            return
        base, pattern = _base(target)
        anchored = f"/{pattern}" if base else pattern
        selection = Selection(include=[anchored], argument="files")
        try:
            self._expand(base or ".", selection, target)
        except ToolError as error:
            if error.code != "file_not_found":
                raise
            self._missing.append(target)

    def _expand(self, folder: str, selection: Selection, target: str) -> None:
        before = len(self._sizes)
        with open_tree(self._ctx, folder) as tree:
            matches = tree.files(selection, keep=10 * FILES_MAX)
            prefix = "" if tree.path == "." else f"{tree.path}/"
            for path, size in zip(matches.paths, tree.sizes(matches.paths), strict=True):
                full = prefix + path
                if self._accepts(full):
                    self._add_file(full, size)
        if matches.total > len(matches.paths) and len(self._sizes) <= FILES_MAX and self._include is None:
            raise _too_many(matches.total)
        if len(self._sizes) == before:
            self._missing.append(target)

    def _add_file(self, path: str, size: int) -> None:
        try:
            path.encode()
            self._ctx.workspace.judge(path, write=True)
        except UnicodeEncodeError:
            self.errors[utf8_path(path)] = {"error": "its name is not UTF-8", "error_code": "unsupported_file"}
        except ToolError as error:
            self.fail(path, error)
        else:
            self._sizes[path] = size

    def _accepts(self, path: str) -> bool:
        from hilt.formats import globs

        return self._include is None or globs.matcher(self._include.include)(path)

    def fail(self, path: str, error: ToolError) -> None:
        """Record that a file is skipped."""
        self.errors[path] = {"error": error.message, "error_code": error.code, "suggestion": error.suggestion}

    def check(self) -> None:
        """Raise if no file matches, or too many do."""
        if len(self._sizes) > FILES_MAX:
            raise _too_many(len(self._sizes))
        if not self._sizes and not self.errors:
            selection = ", ".join(self._missing) or "both files and include"
            raise ToolError(
                "file_not_found",
                f"No file matches {selection}.",
                suggestion="List files with find_files; files that .gitignore hides must be given by path.",
            )
        total = sum(self._sizes.values())
        if total > FORCED_BYTES and len(self._sizes) > 1:
            raise ToolError(
                "resource_limit",
                f"The files have {total >> 20} MB in total; the limit is {FORCED_BYTES >> 20} MB.",
                suggestion="Replace in fewer files at once.",
            )


def _too_many(count: int) -> ToolError:
    return ToolError(
        "resource_limit",
        f"{count} files match; the limit is {FILES_MAX} at once.",
        suggestion="List the files with matches with search_files, format filenames, and send those; or use include.",
        count=count,
    )


class _Replacing:
    """Documents and their replacements."""

    def __init__(self, ctx: Context, pattern: Pattern, documents: list[Document]) -> None:
        self._ctx = ctx
        self._pattern = pattern
        self._documents = documents
        self.counts: dict[str, int] = {}
        self._line_numbers: dict[str, list[int]] = {}
        self.matched: list[Document] = []
        self.changed: list[Document] = []
        self.changes: list[FileDiff] = []

    @property
    def first_line(self) -> int:
        """The first changed line of the first file."""
        return self._line_numbers[self.changed[0].path][0]

    def replace(self, *, limit: int) -> None:
        """Find and replace in every document."""
        replacement = self._pattern.replacement or ""
        for crlf in (False, True):
            documents = [
                document for document in self._documents if ("\n" in replacement and _is_crlf(document)) == crlf
            ]
            if documents:
                pattern = self._pattern
                if crlf:
                    # new lines get the line ending of the file
                    new = replacement.replace("\r\n", "\n").replace("\n", "\r\n")
                    pattern = pattern._replace(replacement=new)
                self._replace(pattern, documents, limit)
        order = {document.path: position for position, document in enumerate(self._documents)}
        self.matched.sort(key=lambda document: order[document.path])
        self.changed.sort(key=lambda document: order[document.path])
        self.changes.sort(key=lambda change: order[change.path])

    def _replace(self, pattern: Pattern, documents: list[Document], limit: int) -> None:
        texts = [document.text.encode("utf-8", _errors(document)) for document in documents]
        for document, text, matches in zip(
            documents, texts, replacing.find(self._ctx, pattern, texts, limit=limit), strict=True
        ):
            self._ctx.fence.check()
            if not matches:
                continue
            self.counts[document.path] = len(matches)
            self.matched.append(document)
            self._apply(document, text, matches)

    def _apply(self, document: Document, text: bytes, matches: list[Replaced]) -> None:
        changing = [match for match in matches if text[match.start : match.end] != match.new]
        if not changing:
            return
        self._line_numbers[document.path] = [text.count(b"\n", 0, match.start) + 1 for match in changing[:LINES_LISTED]]
        spans = _spans(document, text, changing)
        document.apply(spans)
        self.changed.append(document)
        self.changes.append(document.change)

    def summary(self) -> str:
        """Return how many matches are replaced, in how many files."""
        total, files = sum(self.counts.values()), len(self.counts)
        return f"{total} match{'es' * (total != 1)} in {files} file{'s' * (files != 1)}"

    def lines(self) -> list[str]:
        """Return the number of matches and their lines for each file."""
        lines = []
        for document in self.matched:
            count = self.counts[document.path]
            numbers = list(dict.fromkeys(self._line_numbers.get(document.path, [])))
            location = (
                f" (line{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}{', …' * (count > LINES_LISTED)})"
                if numbers
                else ""
            )
            lines.append(f"{document.path}: {count}{location}")
        return lines


def _no_changes(work: _Replacing, pattern: Pattern, searched: list[Document]) -> str:
    files = f"{len(searched)} file{'s' * (len(searched) != 1)}"
    if work.counts:
        return f"Nothing changes: the {work.summary()} already equal their replacements."
    text = f"No matches in {files}; nothing was changed."
    searched_text = pattern.text.replace("\\n", "\n").replace("\\r", "\r")
    if "\n" in searched_text and "\r" not in searched_text:
        crlf = sum(map(_is_crlf, searched))
        if crlf:
            text += f" {crlf} of them have CRLF line endings; match them with \\r{'?' * (not pattern.literal)}\\n."
    return text


def _is_crlf(document: Document) -> bool:
    pairs = document.text.count("\r\n")
    return pairs > 0 and pairs == document.text.count("\n")


def _errors(document: Document) -> str:
    # invalid bytes: unchanged in UTF-8; three bytes each in a UTF-16 file
    return "surrogateescape" if document.encoding.name == "utf-8" else "surrogatepass"


def _spans(document: Document, text: bytes, matches: list[Replaced]) -> list[Span]:
    """Convert byte spans to character spans."""
    spans = []
    errors = _errors(document)
    at = done = 0
    try:
        for match in matches:
            at += len(text[done : match.start].decode("utf-8", errors))
            size = len(text[match.start : match.end].decode("utf-8", errors))
            spans.append(Span(at, at + size, match.new.decode("utf-8", errors)))
            at += size
            done = match.end
        is_exact = at + len(text[done:].decode("utf-8", errors)) == len(document.text)
    except UnicodeDecodeError:
        is_exact = False
    if not is_exact:
        raise ToolError(
            "encoding_error",
            f"The pattern matches part of a multi-byte character in {document.path}.",
            suggestion="Use a pattern that matches whole characters.",
        )
    return spans
