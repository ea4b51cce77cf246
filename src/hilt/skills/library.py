"""The skills and commands of a workspace and its user, up to date with their files.

A project's skill is loaded only if the user trusts exactly the bytes of its whole folder, and a project's command only
if they trust those of its file; until then, files are only hashed. Loading uses the bytes that were checked.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.loaders import LoadedFolder, ProjectFile, Scanner, WritablePlaces, paths_of, project_file
from hilt.places import command, utf8_path
from hilt.skills import commands
from hilt.skills.commands import PromptCommand, is_command
from hilt.skills.folder_contents import (
    UnusableFile,
    file_below,
    file_bytes,
    file_names,
    matching_files,
    open_folder,
    whole_folder,
)
from hilt.skills.skill import DEFINITIONS, Skill, mixes_scripts, name_problem, normalize, parse
from hilt.state.trust import Trust

BUILT_IN = LoadedFolder("skill", os.path.join(os.path.dirname(os.path.abspath(__file__)), "builtin"), "built-in")
ENTRIES_MAX = 1000  # in one folder of skills
NEAREST_MAX = 3
NAMES_MAX = 30  # in an error message


class LibraryProblem(NamedTuple):
    """A file or folder that is not a usable skill or command, and why."""

    path: str
    message: str


class Unreviewed(NamedTuple):
    """A project's skill or command that is not loaded: the user has not trusted its current content."""

    kind: Literal["skill", "command"]
    name: str
    path: str
    files: tuple[str, ...]  # new, changed or removed since it was trusted

    @property
    def error(self) -> ToolError:
        """The error of an attempt to load it."""
        count = len(self.files)
        return ToolError(
            "untrusted",
            f"The {self.kind} {self.name} is not loaded: the current content of {utf8_path(self.path)} is not "
            f"trusted ({count} new, changed or removed file{'s' * (count != 1)}).",
            suggestion=f"Ask the user to review it: {command('trust', utf8_path(self.path))}",
            files=[utf8_path(file) for file in self.files[:NAMES_MAX]],
        )


class LibraryContents(NamedTuple):
    """All skills and commands by name, and what is not loaded."""

    skills: dict[str, Skill]
    commands: dict[str, PromptCommand]
    hidden: tuple[str, ...] = ()  # the paths of skills and commands that another one of the same name hides
    problems: tuple[LibraryProblem, ...] = ()
    untrusted: tuple[Unreviewed, ...] = ()


NOTHING = LibraryContents({}, {})


class TrustedFiles:
    """The files that the user trusts now."""

    def __init__(self, trust: Trust, *, everything: bool) -> None:
        self._everything = everything
        self._known = {} if everything else {item.file: item.hash for item in trust.list()}

    def is_untrusted(self, file: ProjectFile, digest: bytes) -> bool:
        """Whether a file is not trusted with this content."""
        return not self._everything and self._known.get(file) != digest

    def removed(self, folder: ProjectFile, names: Collection[str]) -> list[str]:
        """Return the files below a folder that were trusted and are no longer there."""
        inside = folder.path + "/"
        trusted = (file for file in self._known if file[:2] == folder[:2] and file.path.startswith(inside))
        return [file.full for file in trusted if file.path[len(inside) :] not in names]


class SkillLibrary(Scanner[LibraryContents]):
    """Finds and loads skills and commands."""

    def __init__(
        self,
        skill_places: Sequence[LoadedFolder],
        command_places: Sequence[LoadedFolder],
        territory: WritablePlaces,
        trust: Trust,
        *,
        trusts_everything: bool,
        also: Sequence[str] = (),
    ) -> None:
        """Read these places."""
        places = [place for place in (*skill_places, *command_places) if place.source != "built-in"]
        super().__init__(places, also, NOTHING)
        self._skill_places = tuple(skill_places)
        self._command_places = tuple(command_places)
        self._territory = territory
        self._trust = trust
        self._trusts_everything = trusts_everything

    def close(self) -> None:
        """Close the database of trust."""
        self._trust.close()

    def _loaded(self, contents: LibraryContents) -> object:
        return contents.skills, contents.commands

    def load(self, name: str) -> Skill:
        """Return a skill, read from its files; raise if there is none that may be loaded."""
        return self._load(name)[0]

    def _load(self, name: str) -> tuple[Skill, LoadedFolder]:
        normalized = normalize(name)
        trusted = self._trusted()
        reasons: list[ToolError] = []
        for place in self._skill_places:
            for entry in self._entries(place, []):
                if normalize(entry) != normalized:
                    continue
                try:
                    item = self._skill(place, entry, trusted)
                except UnusableFile as error:
                    path = utf8_path(os.path.join(place.path, entry))
                    message = f"The skill {normalized} in {path} is invalid: {error}"
                    reasons.append(ToolError("tool_invalid", message, suggestion="Use another skill, or fix this one."))
                    continue
                if isinstance(item, Skill):
                    return item, place
                if item is not None:
                    reasons.append(item.error)
        if reasons:
            raise next((reason for reason in reasons if reason.code == "untrusted"), reasons[0])
        raise unknown("skill", name, self.current().skills)

    def file(self, name: str, relative: str) -> tuple[str, bytes]:
        """Return the path and the contents of another file of a skill; a project's must be trusted."""
        skill, place = self._load(name)
        path = f"{skill.path}/{relative}"
        try:
            if relative not in skill.files:
                raise UnusableFile("There is no such file.")
            with open_folder(skill.path, follow=place.anchor is None) as handle:
                data = file_below(handle, relative)
        except UnusableFile as error:
            message = f"{utf8_path(relative)[:200]} of the skill {skill.name} cannot be read: {error}"
            raise ToolError("file_not_found", message, suggestion="Use a path that load_skill lists.") from None
        if place.anchor is not None and self._trusted().is_untrusted(place.file(path), sha256(data)):
            raise Unreviewed("skill", skill.name, skill.path, (path,)).error
        return path, data

    def expand(self, name: str, arguments: str = "") -> str:
        """Return the prompt of a command with the arguments filled in; raise if there is no such command."""
        contents = self.current(rescan=True)
        names = commands.matching(name, contents.commands)
        if len(names) == 1:
            return contents.commands[names[0]].expand(arguments)
        if names:
            raise ToolError(
                "ambiguous_id",
                f"{len(names)} commands end in {quoted_name(name)}: {', '.join(names[:NAMES_MAX])}.",
                suggestion="Use the full name.",
            )
        untrusted = {item.name: item for item in contents.untrusted if item.kind == "command"}
        for unreviewed in commands.matching(name, untrusted):
            raise untrusted[unreviewed].error
        raise unknown("command", name, contents.commands)

    # --- scanning -------------------------------------------------------------------------------------------------

    def _trusted(self) -> TrustedFiles:
        return TrustedFiles(self._trust, everything=self._trusts_everything)

    def _scan(self) -> LibraryContents:
        trusted = self._trusted()
        problems: list[LibraryProblem] = []
        untrusted: list[Unreviewed] = []
        hidden: list[str] = []
        skills: dict[str, Skill] = {}
        for item in self._iter_skills(trusted, problems):
            if isinstance(item, Unreviewed):
                untrusted.append(item)
            elif skills.setdefault(item.name, item) is not item:
                hidden.append(item.path)
        prompt_commands: dict[str, PromptCommand] = {}
        for loaded in self._iter_commands(trusted, problems):
            if isinstance(loaded, Unreviewed):
                untrusted.append(loaded)
            elif prompt_commands.setdefault(loaded.name, loaded) is not loaded:
                hidden.append(loaded.path)
        return LibraryContents(
            dict(sorted(skills.items())),
            dict(sorted(prompt_commands.items())),
            tuple(hidden),
            tuple(problems),
            tuple(untrusted),
        )

    def _iter_skills(self, trusted: TrustedFiles, problems: list[LibraryProblem]) -> Iterator[Skill | Unreviewed]:
        for place in self._skill_places:
            for entry in self._entries(place, problems):
                try:
                    item = self._skill(place, entry, trusted)
                except UnusableFile as error:
                    problems.append(LibraryProblem(os.path.join(place.path, entry), str(error)))
                    continue
                if item is not None:
                    yield item

    def _entries(self, place: LoadedFolder, problems: list[LibraryProblem]) -> list[str]:
        """Return the names of the folders in a place that may be skills, each name once."""
        try:
            with open_folder(place.path, follow=place.anchor is None) as handle, os.scandir(handle) as listing:
                folders = (entry.name for entry in listing if _is_folder(entry) and not entry.name.startswith("."))
                names = sorted(islice(folders, ENTRIES_MAX + 1))
        except UnusableFile as error:
            if os.path.lexists(place.path):
                problems.append(LibraryProblem(place.path, str(error)))
            return []
        by_name: dict[str, str] = {}
        for name in names[:ENTRIES_MAX]:
            if by_name.setdefault(normalize(name), name) != name:
                message = f"It has the same name as {utf8_path(by_name[normalize(name)])}."
                problems.append(LibraryProblem(os.path.join(place.path, name), message))
        if len(names) > ENTRIES_MAX:
            problems.append(LibraryProblem(place.path, f"It has more than {ENTRIES_MAX} folders; the rest is skipped."))
        return list(by_name.values())

    def _skill(self, place: LoadedFolder, entry: str, trusted: TrustedFiles) -> Skill | Unreviewed | None:
        """Return the skill in a folder, or an Unreviewed if it is not trusted; None if the folder is not a skill."""
        path = os.path.join(place.path, entry)
        with open_folder(path, follow=place.anchor is None) as handle:
            definition = next((name for name in DEFINITIONS if _exists(handle, name)), None)
            if definition is None:
                return None
            _check_name(normalize(entry))
            if place.anchor is None:
                return self._own_skill(place, path, handle, definition)
            files = whole_folder(handle).files
        if definition not in files:
            raise UnusableFile(f"{definition} is not a regular file.")
        changed_files = [
            f"{path}/{file}"
            for file, content in files.items()
            if trusted.is_untrusted(place.file(f"{path}/{file}"), sha256(content))
        ]
        changed_files += trusted.removed(place.file(path), files)
        if changed_files:
            return Unreviewed("skill", normalize(entry), path, tuple(changed_files))
        return parse(path, files.pop(definition), place.source, definition, tuple(files))

    def _own_skill(self, place: LoadedFolder, path: str, handle: int, definition: str) -> Skill:
        if place.source == "personal":
            self._check_own(path)
            self._check_own(os.path.join(path, definition))
        data = file_bytes(handle, definition, follow=True)
        others = tuple(file for file in file_names(handle, hidden=False) if file != definition)
        return parse(path, data, place.source, definition, others)

    def _check_own(self, path: str) -> None:
        if self._territory.root_of(os.path.realpath(path)):
            raise UnusableFile(
                "It is inside the workspace, where tools can write; only the project's own folders count."
            )

    def _iter_commands(
        self, trusted: TrustedFiles, problems: list[LibraryProblem]
    ) -> Iterator[PromptCommand | Unreviewed]:
        for place in self._command_places:
            is_own = place.anchor is None
            try:
                if is_own:
                    self._check_own(place.path)
                with open_folder(place.path, follow=is_own) as handle:
                    for file, data in matching_files(handle, is_command, follow=is_own):
                        path = os.path.join(place.path, file)
                        try:
                            yield self._command(place, file, path, data, trusted)
                        except UnusableFile as error:
                            problems.append(LibraryProblem(path, str(error)))
            except UnusableFile as error:
                if os.path.lexists(place.path):
                    problems.append(LibraryProblem(place.path, str(error)))

    def _command(
        self, place: LoadedFolder, file: str, path: str, data: bytes | UnusableFile, trusted: TrustedFiles
    ) -> PromptCommand | Unreviewed:
        if isinstance(data, UnusableFile):
            raise data
        name = commands.command_name(file)
        if place.anchor is None:
            self._check_own(path)
        elif trusted.is_untrusted(place.file(path), sha256(data)):
            return Unreviewed("command", name, path, (path,))
        return commands.parse(name, data, place.source, path)


def project_files(root: str) -> list[ProjectFile]:
    """Return the files of a project's skills, commands and agents, which need trust."""
    folders = [(kind, path) for kind in ("skill", "command", "agent") for path in paths_of(kind)]
    return [
        ProjectFile(kind, root, os.path.relpath(file, root))
        for kind, path in folders
        for file in reviewable(os.path.join(root, path))
    ]


def reviewable(folder: str) -> list[str]:
    """Return the files that need trust in a folder of skills, commands or agents, or in a single skill; no links."""
    file = project_file(folder)
    kind = "" if file is None else file.kind
    try:
        with open_folder(folder, follow=True) as handle:
            names = [name for name in file_names(handle, hidden=True) if kind == "skill" or is_command(name)]
            if kind == "skill" and folder.endswith(paths_of("skill")):
                with os.scandir(handle) as listing:
                    inner = sorted(entry.name for entry in listing if entry.is_dir(follow_symlinks=False))
                return [file for name in inner for file in reviewable(os.path.join(folder, name))]
    except UnusableFile:
        return []
    return [os.path.join(folder, name) for name in names]


def unknown(kind: str, name: str, names: Collection[str]) -> ToolError:
    """Return the error for an unknown skill or command, with the nearest names."""
    from difflib import get_close_matches

    near = get_close_matches(normalize(name).casefold(), names, n=NEAREST_MAX, cutoff=0.5)
    shown_names = near or sorted(names)[:NAMES_MAX]
    choices = f"The nearest are: {', '.join(near)}." if near else f"Available: {', '.join(shown_names) or 'none'}."
    return ToolError("not_found", f"There is no {kind} {quoted_name(name)}.", suggestion=choices, nearest=near)


def quoted_name(name: str) -> str:
    """Return a name from a caller, quoted, shortened and printable."""
    return ascii(name[:100]) if not name.isprintable() else repr(name[:100])


def _check_name(name: str) -> None:
    reason = name_problem(name)
    if reason is None and mixes_scripts(name):
        reason = "it mixes letters of several scripts, so it may look like another name"
    if reason is not None:
        raise UnusableFile(f"The name of the folder is invalid: {reason}.")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True
