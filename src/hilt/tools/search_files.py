"""Search file contents."""

from typing import Annotated, Any, Literal

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views
from hilt.params import Bounds, ReadPath
from hilt.schema import TEXT, fields
from hilt.search.patterns import read_pattern
from hilt.search.ripgrep import Pattern
from hilt.search.ripgrep_output import MatchedFile, SearchMatch
from hilt.search.selection import Selection
from hilt.search.tree import MatchCounts, Matches, Tree, open_tree

FEW_MATCHES = 3  # with fewer results than this, report how many files the ignore rules hide
OFFSET_MAX = 100_000

Format = Literal["text", "json", "filenames"]


_MATCH = fields(
    "file:string line:integer column:integer text:string end_line?:integer context_before?:string context_after?:string"
)
_ANSWER = fields(
    "results:[match] truncated:boolean total_count:integer total_is_minimum?:boolean dropped?:integer "
    "ignored_files?:integer unreadable?:integer hint?:string next?:next",
    match=_MATCH,
) | {TEXT: True}


@tool(effects="read", output=_ANSWER, traits=Traits(profile="nano"))
def search_files(
    ctx: Context,
    pattern: str,
    path: ReadPath = ".",
    format: Format = "text",
    include: str | None = None,
    literal: bool = False,
    max_matches: Annotated[int, Bounds(1, 10_000, clamp=True)] = 500,
    context_lines: Annotated[int, Bounds(0, 20, clamp=True)] = 0,
    case_insensitive: bool = False,
    type: str | None = None,
    offset: Annotated[int, Bounds(0, OFFSET_MAX, clamp=True)] = 0,
    multiline: bool = False,
    no_ignore: bool = False,
    hidden: bool = False,
    timeout: Annotated[float, Bounds(0.05, 100, clamp=True)] = 60,
) -> Output:
    """Search file contents with a ripgrep regular expression: no look-around, no back-references.

    Skips binary files, .git, node_modules, vendor, dist, build and caches.

    Details:
    Matches are sorted by path and line. Skips files that .gitignore hides, and always the folders .git, node_modules,
    vendor, `__pycache__`, .cache, dist and build. Long lines are cut to 200 characters around the match. A truncated
    result includes the call for the next page. A glob without a slash matches file names; with a leading !, include
    excludes the files that match. With multiline, matches are counted instead of lines. The format json has results
    with file, line, column, text; truncated; total_count. Sensitive files are never searched. Lines of files that
    changed during the search are omitted and counted in dropped.

    Args:
        pattern: Regular expression, or plain text with literal.
        path: Folder or file to search.
        format: text: path:line:text; filenames: path:count.
        include: Glob of files to search: *.go, src/**/*.{js,ts}.
        literal: Treat pattern as plain text.
        max_matches: Maximum matches, or files with filenames.
        context_lines: Lines to show around each match.
        case_insensitive: Ignore case.
        type: File type, such as py or rust.
        offset: Matches to skip.
        multiline: Allow matches across lines.
        no_ignore: Search files that .gitignore excludes.
        hidden: Search dotfiles.
        timeout: Seconds; then the result is partial.
    """
    regex = read_pattern(
        pattern, literal=literal, ignore_case=case_insensitive, multiline=multiline or (literal and "\n" in pattern)
    )
    optional: dict[str, Any] = {"include": include, "literal": literal, "case_insensitive": case_insensitive}
    optional |= {"type": type, "multiline": multiline, "no_ignore": no_ignore, "hidden": hidden}
    optional |= {"context_lines": context_lines}
    next_args = {"pattern": pattern, "path": path, "format": format, "max_matches": max_matches}
    next_args |= {name: value for name, value in optional.items() if value}
    with open_tree(ctx, path) as tree:
        globs = [] if include is None else [tree.below(include.removeprefix("!"))]
        included, excluded = ([], globs) if include and include[0] == "!" else (globs, [])
        selection = Selection(include=included, exclude=excluded, kind=type, hidden=hidden, no_ignore=no_ignore)
        page = _ResultPage(tree, regex, selection, offset, max_matches, next_args)
        if format == "filenames":
            return page.filenames(timeout)
        return page.matches(timeout, context_lines, format)


class _ResultPage:
    """One page of results, starting at the offset."""

    def __init__(
        self, tree: Tree, pattern: Pattern, selection: Selection, offset: int, limit: int, next_args: dict[str, Any]
    ) -> None:
        self._tree = tree
        self._pattern = pattern
        self._selection = selection
        self._offset = offset
        self._limit = limit
        self._next_args = next_args

    def matches(self, timeout: float, around: int, format: Format) -> Output:
        """Return matches, as text or JSON."""
        keep = self._offset + self._limit
        matches = self._tree.matches(self._pattern, self._selection, keep=keep, context=around, seconds=timeout)
        files = _without_first(matches.files, self._offset)
        results = [
            _result(self._tree.display_path(file.path), file, match, around) for file in files for match in file.matches
        ]
        facts = self._facts(matches, len(results), matches.total, "matches")
        listed = [views.File(item["file"], line=item["line"], content=item["text"]) for item in results]
        view = views.file_list(listed, total=matches.total)
        if format == "json":
            return Output(data={"results": results, **facts}, view=view, meta={"backend": "ripgrep"})
        lines = [
            line for file in files for line in _listing(_one_line(self._tree.display_path(file.path)), file, around)
        ]
        if around and lines:
            lines.pop(0)  # the separator before the first group
        return self._text(lines, len(results), "matches", facts, view)

    def filenames(self, timeout: float) -> Output:
        """Return the files that match, with the number of matches."""
        keep = self._offset + self._limit
        counts = self._tree.counts(self._pattern, self._selection, keep=keep, seconds=timeout)
        files = [(self._tree.display_path(path), count) for path, count in counts.files[self._offset :]]
        facts = self._facts(counts, len(files), counts.total_files, "files")
        facts["total_matches"] = counts.total
        listed = [views.File(path, content=f"{count} match{'es' * (count != 1)}") for path, count in files]
        lines = [f"{_one_line(path)}:{count}" for path, count in files]
        return self._text(lines, len(files), "files", facts, views.file_list(listed, total=counts.total_files))

    def _facts(self, search: Matches | MatchCounts, count: int, total: int, noun: str) -> dict[str, Any]:
        end = self._offset + count
        facts: dict[str, Any] = {"truncated": end < total or search.is_minimum, "total_count": total}
        if search.is_minimum:
            facts["total_is_minimum"] = True
            facts["hint"] = (
                "There may be more: the search stopped before it counted everything. Narrow it with path or include."
            )
        elif total and not count:
            facts["hint"] = f"There are only {total} {noun}; offset {self._offset} is past the last."
        elif total < FEW_MATCHES:
            hidden = self._tree.hidden(self._selection)
            if hidden:
                files = f"{hidden} file{'s' * (hidden != 1)}"
                facts["ignored_files"] = hidden
                facts["hint"] = f"Ignore rules excluded {files}; send no_ignore: true to search them too."
        if end > OFFSET_MAX and end < total:
            facts["hint"] = (
                f"The largest offset is {OFFSET_MAX}; narrow the search with path or include to see the rest."
            )
        elif count and end < total:
            facts["next"] = {"tool": "search_files", "args": {**self._next_args, "offset": end}}
        if search.unreadable:
            facts["unreadable"] = search.unreadable
        if search.dropped:
            facts["dropped"] = search.dropped
        if self._tree.is_file and search.binary:
            facts["hint"] = f"{self._tree.path} is binary and was not searched."
        return facts

    def _text(self, lines: list[str], count: int, noun: str, facts: dict[str, Any], view: dict[str, Any]) -> Output:
        notes = []
        total = facts["total_count"]
        if not total:
            notes.append("No matches so far." if "total_is_minimum" in facts else "No matches.")
        elif count and facts["truncated"]:
            at_least = "at least " if "total_is_minimum" in facts else ""
            notes.append(f"Showing {noun} {self._offset + 1}-{self._offset + count} of {at_least}{total}.")
        if "next" in facts:
            notes.append(f"Use offset={facts['next']['args']['offset']} to continue.")
        if "dropped" in facts:
            omitted = f"{facts['dropped']} {'file' if noun == 'files' else 'line'}{'s' * (facts['dropped'] != 1)}"
            notes.append(f"{omitted} omitted: changed during the search.")
        if "hint" in facts:
            notes.append(facts["hint"])
        if notes:
            lines.append(f"[{' '.join(notes)}]")
        meta = {"truncation": facts, "backend": "ripgrep"}
        return Output("\n".join(lines), view=view, meta=meta, bounded=True)


def _without_first(files: list[MatchedFile], offset: int) -> list[MatchedFile]:
    """Return the files without the first `offset` matches."""
    remaining = []
    for file in files:
        matches = file.matches[offset:]
        offset = max(0, offset - len(file.matches))
        if matches:
            remaining.append(file._replace(matches=matches))
    return remaining


def _result(path: str, file: MatchedFile, match: SearchMatch, around: int) -> dict[str, Any]:
    result: dict[str, Any] = {"file": path, "line": match.line, "column": match.column, "text": match.text}
    if match.end_line != match.line:
        result["end_line"] = match.end_line
    before = [file.lines[line] for line in range(match.line - around, match.line) if line in file.lines]
    after = [file.lines[line] for line in range(match.end_line + 1, match.end_line + around + 1) if line in file.lines]
    if before:
        result["context_before"] = "\n".join(before)
    if after:
        result["context_after"] = "\n".join(after)
    return result


def _listing(path: str, file: MatchedFile, around: int) -> list[str]:
    """Return path:line:text for each match; with context, lines around a match as path-line-text, in groups."""
    matched: dict[int, str] = {}
    for match in file.matches:
        for number, text in enumerate(match.text.split("\n"), match.line):
            matched.setdefault(number, text)
    if not around:
        return [f"{path}:{number}:{text}" for number, text in matched.items()]
    near = {
        number
        for match in file.matches
        for number in range(match.line - around, match.end_line + around + 1)
        if number in file.lines or number in matched
    }
    lines = []
    last = -1
    for number in sorted(near):
        if number != last + 1:
            lines.append("--")
        last = number
        lines.append(
            f"{path}:{number}:{matched[number]}" if number in matched else f"{path}-{number}-{file.lines[number]}"
        )
    return lines


def _one_line(path: str) -> str:
    return path.replace("\n", "\\n").replace("\r", "\\r")
