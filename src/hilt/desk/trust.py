"""The project files that can run code: which need trust, their content for a review, and the trust in exactly that."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.formats.invisible import one_line
from hilt.formats.times import Moment
from hilt.loaders import PLACES, ProjectFile, UnreadableFile, folders, paths_of, project_file
from hilt.state.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Callable

    from hilt.runtime import Runtime
    from hilt.state.trust import Trusted


class FileTrust(NamedTuple):
    """Whether a person has trusted a file."""

    path: str
    kind: str
    state: str  # trusted, changed, gone or untrusted
    since: Moment | None = None  # when it was trusted


class TrustReview(NamedTuple):
    """The content of a file for a review, and the content that was trusted before."""

    file: ProjectFile
    content: bytes
    before: bytes | None
    is_trusted: bool  # with exactly this content


def known(state: str, folder: str) -> dict[ProjectFile, FileTrust]:
    """Return the trusted files, and the untrusted ones that apply to a folder."""
    with closing(Trust(state)) as store:
        files = {entry.file: _file_trust(entry) for entry in store.list()}
    for file in (*files_of(folder), *_rules_above(folder)):
        if file not in files and os.path.isfile(file.full):
            files[file] = FileTrust(file.full, file.kind, "untrusted")
    return files


def of_workspace(runtime: Runtime) -> dict[ProjectFile, FileTrust]:
    """Return the known files of a workspace, and its untrusted tools."""
    files = known(runtime.parts.state, runtime.parts.root)
    for tool in runtime.parts.toolbox.tools_found().untrusted:
        for file in tool.files:
            files.setdefault(file, FileTrust(file.full, file.kind, "untrusted"))
    return files


def files_of(project: str) -> list[ProjectFile]:
    """Return the files of a project that need trust, including the scripts that its hooks run."""
    from hilt.authority import hooks
    from hilt.skills import library

    root = os.path.realpath(project)
    single = [
        ProjectFile(place.kind, root, place.path) for place in PLACES if place.base == "project" and not place.is_folder
    ]
    present = [file for file in single if os.path.lexists(file.full) and not file.is_alias]
    return list(dict.fromkeys((*present, *hooks.project_files(root), *library.project_files(root))))


def files_at(path: str, open_workspace: Callable[[], Runtime]) -> list[ProjectFile]:
    """Return the file at a path, or the files of the project there that need trust."""
    full = os.path.abspath(path)
    if not os.path.isdir(full):
        files = [project_file(full)]
        if files == [None]:
            with open_workspace() as runtime:
                files = [loaded_file(runtime, _full(path))]
    elif (inside := project_file(full)) and inside.kind in ("skill", "command", "agent"):
        from hilt.skills.library import reviewable

        files = [project_file(file) for file in reviewable(full)]
    else:
        files = [*files_of(full)]
    if None in files or not files:
        raise ToolError(
            "not_found",
            f"{one_line(path)} is not a file that needs trust, and has none.",
            suggestion=f"These files do: {', '.join(place.path for place in PLACES if place.base == 'project')}.",
        )
    return [file for file in files if file is not None]


def loaded_file(runtime: Runtime, path: str) -> ProjectFile | None:
    """Return the file at a real path, if the workspace loads something from its folder only after it is trusted."""
    for kind in ("tool", "skill", "command", "agent"):
        named = runtime.settings["custom.dirs"] if kind == "tool" else ()
        for folder in folders(kind, runtime.parts.folders, runtime.parts.environ, named):
            if folder.anchor is not None and places.is_below(path, folder.path):
                return folder.file(path)
    return None


def removed(state: str, path: str) -> list[ProjectFile]:
    """Return the trusted skill files below a path that no longer exist: removing one changes the skill."""
    inside = os.path.realpath(path) + "/"
    with closing(Trust(state)) as store:
        files = [entry.file for entry in store.list() if entry.file.kind == "skill"]
    return [file for file in files if file.full.startswith(inside) and not os.path.lexists(file.full)]


def review(state: str, file: ProjectFile) -> TrustReview:
    """Return the content of a file for a review; raise if it cannot be read."""
    content = _content(file)
    with closing(Trust(state)) as store:
        return TrustReview(file, content, store.trusted_content(file), store.is_trusted(file, sha256(content)))


def trust(state: str, review: TrustReview) -> FileTrust:
    """Trust exactly the content that was reviewed."""
    with closing(Trust(state)) as store:
        return _file_trust(store.trust(review.file, review.content))


def distrust(state: str, file: ProjectFile) -> bool:
    """Revoke the trust in a file; return whether it was trusted."""
    with closing(Trust(state)) as store:
        return store.revoke(file)


def distrust_path(state: str, path: str) -> None:
    """Revoke the trust in the file at a path; raise if there is none."""
    full = _full(path)
    with closing(Trust(state)) as store:
        files = [entry.file for entry in store.list() if entry.file.full == full]
        if not [file for file in files if store.revoke(file)]:
            raise ToolError(
                "not_found",
                f"{one_line(path)} is not trusted.",
                suggestion=f"To list trusted files: {places.command('trust')}",
            )


def _full(path: str) -> str:
    """Return the absolute path of a file, with links in the path of its folder resolved."""
    full = os.path.abspath(path)
    return os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))


def _rules_above(folder: str) -> list[ProjectFile]:
    """Return the rule files in the parent folders of a project, which also apply to it."""
    from hilt.authority.rulebook import upward

    root, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    parents = [parent for parent in upward(root, home) if parent != root]
    return [ProjectFile("rules", parent, path) for parent in parents for path in paths_of("rules")]


def _content(file: ProjectFile) -> bytes:
    try:
        return file.read()
    except UnreadableFile as error:
        raise ToolError(error.code, f"{one_line(file.full)}: {one_line(str(error))}.") from error
    except OSError as error:
        code = "file_not_found" if isinstance(error, FileNotFoundError) else "permission_denied"
        raise ToolError(
            code, f"{one_line(file.full)}: {os.strerror(error.errno or 0)}.", suggestion="Pass the path of a file."
        ) from error


def _file_trust(entry: Trusted) -> FileTrust:
    try:
        state = "trusted" if sha256(_content(entry.file)) == entry.hash else "changed"
    except ToolError:
        state = "gone"
    return FileTrust(entry.file.full, entry.file.kind, state, Moment(entry.at))
