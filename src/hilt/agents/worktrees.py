"""The git worktrees of agents: created from the last commit, and removed once their changes have been applied.

A worktree is a folder next to the state directory. The agent works there under the rules of the user's workspace. Its
changes become a patch, which the tool apply_patch applies to the folder of its parent, in the session of its parent,
with approval. A worktree whose changes were not applied stays until the user removes it (ADR 0031).

The record of a worktree, in the state directory, is written when the worktree is complete: a worktree without a record
was left by a killed process, and nobody has worked in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from hilt.agents.safe_git import Changes, FileChange, SafeGit, file_state
from hilt.call import Call
from hilt.config import Settings
from hilt.errors import ToolError
from hilt.handles import put_file, remove_path
from hilt.places import command, is_below, worktrees_dir
from hilt.state.roster import AgentRecord, Roster
from hilt.text.binary_patch import literal
from hilt.text.diffing import unified_diff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Attendant
    from hilt.runtime import Runtime

PATCH_CHARACTERS = 20 << 20
_NAMED_MAX = 5  # paths in a message


class Repository(NamedTuple):
    """The repository that contains a workspace, and the path of the workspace in it, "" for its top folder."""

    common: str
    prefix: str
    head: str


class WorktreeRecord(NamedTuple):
    """A worktree: its folder, its metadata in the repository, and the commit that its changes are relative to.

    `problem` says why its changes were not applied.
    """

    workspace: str
    top: str
    git_dir: str
    prefix: str
    base: str
    problem: str = ""

    @property
    def root(self) -> str:
        """The folder that the agent works in."""
        return os.path.join(self.top, self.prefix).rstrip("/")


class Worktrees:
    """The worktrees of the agents of one workspace."""

    def __init__(self, runtime: Runtime, store: Roster) -> None:
        self._runtime = runtime
        self._store = store
        self._trees = worktrees_dir(runtime.parts.state)
        self._records = os.path.join(runtime.parts.state, "worktrees")

    # --- the folder of an agent ---------------------------------------------------------------------------------------

    def check(self) -> Repository:
        """Return the repository of the workspace; raise if agents cannot have worktrees here."""
        root = self._runtime.parts.root
        if is_below(os.path.realpath(self._trees), root):
            raise _unusable(f"The folder for worktrees, {self._trees}, would be inside the workspace.")
        git = self._git(root)
        try:
            facts = git.run("rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--git-common-dir")
        except ToolError as error:
            if "not a git repository" not in error.message:
                raise
            raise _unusable("The workspace is not in a git repository.") from None
        is_bare, is_inside, common = os.fsdecode(facts).splitlines()
        if is_bare == "true" or is_inside != "true":
            raise _unusable("The repository of the workspace is bare, or the workspace is inside its .git.")
        try:
            head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
        except ToolError:
            raise _unusable("The repository has no commit yet.") from None
        prefix = os.fsdecode(git.run("rev-parse", "--show-prefix")).rstrip("\n")
        return Repository(os.path.realpath(os.path.join(root, common)), prefix, head)

    def owner(self, session: str) -> str:
        """Return the agent in whose worktree a session works: itself, or the nearest above it; "" if there is none."""
        for id in self._store.chain(session):
            agent = self._store.get(id)
            if agent is not None and agent.profile.worktree and (agent.ended is None or self.record(id) is not None):
                return id
        return ""

    @contextmanager
    def in_folder(self, session: str, settings: Settings) -> Iterator[Runtime]:
        """Yield the runtime of a session, in the worktree or workspace that it works in; create a missing worktree."""
        record = self._worktree(session)
        if record is None:
            yield self._runtime.in_session(session, settings)
            return
        runtime = self._runtime.in_session(session, settings, record.root)
        try:
            yield runtime
        finally:
            runtime.parts.close()

    def _worktree(self, session: str) -> WorktreeRecord | None:
        owner = self.owner(session)
        if not owner:
            return None
        try:
            record = self.record(owner) or self._create(owner)
        except OSError as error:
            raise ToolError(
                "permission_denied",
                f"The worktree of the agent {owner} cannot be created: {os.strerror(error.errno or 0)}.",
                suggestion=f"Check the free space and the permissions of {self._trees}.",
            ) from error
        if not os.path.isdir(record.root):
            raise ToolError(
                "file_not_found",
                f"The worktree {record.top} of the agent {owner} was removed.",
                suggestion="Start another agent.",
            )
        return record

    def record(self, id: str) -> WorktreeRecord | None:
        """Return the worktree of an agent; None if it has none, or it was removed."""
        try:
            with open(self._record_path(id), encoding="utf-8", errors="surrogateescape") as file:
                return WorktreeRecord(**json.load(file))
        except FileNotFoundError:
            return None

    def _create(self, id: str) -> WorktreeRecord:
        repository = self.check()
        above = self.owner(agent.parent) if (agent := self._store.get(id)) is not None else ""
        outer = self.record(above) if above else None
        base = repository.head if outer is None else outer.base
        git = self._git(self._runtime.parts.root)
        entries = git.entries(base)
        top = os.path.join(self._trees, id)
        git_dir = os.path.join(repository.common, "worktrees", id)
        os.makedirs(self._trees, mode=0o700, exist_ok=True)
        _remove(top, git_dir)  # of a process that was killed; nobody has worked there
        git.run("worktree", "add", "--quiet", "--detach", "--no-checkout", top, base)
        git.write(top, entries)
        self._git(top, git_dir).run("read-tree", base)
        record = WorktreeRecord(self._runtime.parts.id, top, git_dir, repository.prefix, base)
        os.makedirs(record.root, exist_ok=True)
        self._save(id, record)
        return record

    def _git(self, folder: str, git_dir: str = "") -> SafeGit:
        return SafeGit(folder, self._runtime.parts.surroundings, git_dir=git_dir)

    def _record_path(self, id: str) -> str:
        if "/" in id or id.startswith("."):  # in a shared database, others write ids
            raise _unusable(f"The id {id!r} of the agent is not the name of a folder.")
        return os.path.join(self._records, f"{id}.json")

    def _save(self, id: str, record: WorktreeRecord) -> None:
        text = json.dumps(record._asdict())
        put_file(self._record_path(id), text.encode("utf-8", "surrogateescape"), synced=True)

    # --- applying changes ---------------------------------------------------------------------------------------------

    def changes(self, record: WorktreeRecord, id: str) -> Changes:
        """Return the changes in a worktree that have not been applied yet."""
        index = self._record_path(id) + ".index"
        try:
            return self._git(record.top, record.git_dir).changes(record.top, record.base, index)
        finally:
            for path in (index, index + ".lock"):
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def apply_changes(self, agent: AgentRecord, target: Runtime, client: Attendant | None) -> str:
        """Apply the changes of an agent to the folder of its parent; return what happened, for people and models.

        `target` is the runtime of the parent's folder, and `client` asks the user. The worktree is removed after that
        if the agent cannot continue.
        """
        record = self.record(agent.id)
        if record is None:
            return ""
        changes = self.changes(record, agent.id)
        if not changes.files and not changes.unsupported:
            self._settle(agent, record, changes)
            return ""
        problem, note = self._apply(agent, record, changes, target, client)
        if problem:
            return self._keep_changes(agent.id, record, problem)
        # the agent, its jobs and its agents have ended, but a person may work there too
        if self.changes(record, agent.id) != changes:
            record = self._advance(agent.id, record, changes)
            self._keep_changes(agent.id, record, "Something changed there while the patch was applied.")
            return f"{note} Something else changed in {record.root} meanwhile, so the worktree stays."
        self._settle(agent, record, changes)
        return note

    def keep(self, agent: AgentRecord, reason: str) -> str:
        """Remove the worktree of a failed agent if it has no changes; else keep it, and return where it is."""
        record = self.record(agent.id)
        if record is None:
            return ""
        changes = self.changes(record, agent.id)
        if changes.files or changes.unsupported:
            return self._keep_changes(agent.id, record, reason)
        self.remove(agent.id, record)
        return ""

    def _apply(
        self, agent: AgentRecord, record: WorktreeRecord, changes: Changes, target: Runtime, client: Attendant | None
    ) -> tuple[str, str]:
        """Apply changes; return why that failed, or "" and what to report."""
        outside = [change.path for change in changes.files if not change.path.startswith(record.prefix)]
        problems = {**changes.unsupported, **dict.fromkeys(outside, "it is outside the workspace")}
        if problems:
            return f"A patch cannot hold {_joined([f'{path}: {why}' for path, why in problems.items()])}.", ""
        files = [_moved(change, record.prefix) for change in changes.files]
        count = f"{len(files)} file{'s' * (len(files) != 1)}"
        if all(file_state(target.parts.root, change.path) == change.new for change in files):
            return "", f"[worktree] Its changes to {count} are in the workspace."
        patch = make_patch(files)
        if len(patch) > PATCH_CHARACTERS:
            return f"The patch has {len(patch):,} characters; the limit is {PATCH_CHARACTERS:,}.", ""
        # with `through`, the decision on the call asks before the patch is applied
        through = "agent_spawn" if agent.kind == "spawned" else "agent"
        call = Call("apply_patch", {"patch": patch}, id=f"{agent.id}-patch", session=agent.parent, through=(through,))
        result = target.request(call, attendant=client)
        if result.error is None:
            undo = result.meta.get("undo")
            return "", f"[worktree] Its changes to {count} were applied{f' (undo {undo})' if undo else ''}."
        saved = target.parts.session(agent.parent).keep_text(patch, f"{agent.id}.patch")
        where = f" The patch is in {saved}." if saved else ""
        return f"{result.error.code}: {result.error.message} {result.error.suggestion}{where}", ""

    def _keep_changes(self, id: str, record: WorktreeRecord, problem: str) -> str:
        self._save(id, record._replace(problem=problem))
        retry = command("agents", "apply", id)
        return f"[worktree] Its changes were not applied. {problem} They stay in {record.root}; to apply them: {retry}"

    def _settle(self, agent: AgentRecord, record: WorktreeRecord, changes: Changes) -> None:
        if agent.kind != "spawned" or agent.ended is not None:
            self.remove(agent.id, record)
        elif changes.files:
            self._advance(agent.id, record, changes)

    def _advance(self, id: str, record: WorktreeRecord, changes: Changes) -> WorktreeRecord:
        """Record changes that were applied: the next patch is relative to them."""
        base = self._git(record.top, record.git_dir).record(changes, record.base)
        record = record._replace(base=base, problem="")
        self._save(id, record)
        return record

    def remove(self, id: str, record: WorktreeRecord) -> None:
        """Remove a worktree with its metadata in the repository."""
        from hilt.config import digest

        parts = self._runtime.parts.in_copy(record.root, self._runtime.settings)
        parts.history.clear()
        parts.close()
        _remove(record.top, record.git_dir)
        with suppress(OSError):
            os.rmdir(os.path.join(self._runtime.parts.state, "journal", digest(record.root)))
        with suppress(FileNotFoundError):
            os.unlink(self._record_path(id))

    def sweep(self) -> None:
        """Remove the worktrees of agents that have ended, unless they hold changes."""
        for id in self._recorded():
            record, agent = self.record(id), self._store.get(id)
            if record is None or record.workspace != self._runtime.parts.id:
                continue
            if agent is not None and (agent.ended is None or agent.owner):
                continue
            if record.problem and os.path.isdir(record.top):
                continue  # checked before
            if not os.path.isdir(record.top):
                self.remove(id, record)
                continue
            changes = self.changes(record, id)
            if changes.files or changes.unsupported:
                self._keep_changes(id, record, "The agent has ended.")
            else:
                self.remove(id, record)

    def _recorded(self) -> Iterator[str]:
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._records)):
                if name.endswith(".json"):
                    yield name.removesuffix(".json")


def make_patch(files: list[FileChange]) -> str:
    """Return a patch in git's format; a file that only has another name is a rename."""
    removed = {change.old: change.path for change in reversed(files) if change.new is None and change.old is not None}
    renamed: dict[str, str] = {}  # by the new path
    for change in files:
        if change.old is None and change.new is not None and change.new.data and change.new in removed:
            renamed[change.path] = removed.pop(change.new)
    sources = set(renamed.values())
    return "".join(_diff(change, renamed.get(change.path)) for change in files if change.path not in sources)


def _diff(change: FileChange, source: str | None) -> str:
    if source is not None:
        assert change.new is not None  # noqa: S101
        executable = change.new.mode == "100755"
        return unified_diff("", "", source, new_path=change.path, executable=(executable, executable))
    old, new = (None if state is None else _text(state.data) for state in (change.old, change.new))
    is_text = not (change.old is not None and old is None) and not (change.new is not None and new is None)
    before, after = (state is not None and state.mode == "100755" for state in (change.old, change.new))
    if is_text:
        return unified_diff(old, new, change.path, executable=(before, after))
    # only the header, without hunks
    header = unified_diff(
        None if change.old is None else "", None if change.new is None else "", change.path, executable=(before, after)
    )
    if not header:
        header = unified_diff("", "", change.path, executable=(False, True)).partition("\n")[0] + "\n"
    data = [None if state is None else state.data for state in (change.old, change.new)]
    return header + literal(*data)


def _text(data: bytes) -> str | None:
    """Return data as text; None if it is not UTF-8 text."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _moved(change: FileChange, prefix: str) -> FileChange:
    return change._replace(path=change.path[len(prefix) :])


def _joined(texts: list[str]) -> str:
    more = len(texts) - _NAMED_MAX
    return "; ".join(texts[:_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")


def _remove(top: str, git_dir: str) -> None:
    """Remove a worktree and its metadata; a link that was put on the path in the repository is not followed."""
    remove_path(os.path.join(os.path.realpath(os.path.dirname(top)), os.path.basename(top)))
    remove_path(git_dir)


def _unusable(message: str) -> ToolError:
    return ToolError("invalid_request", message, suggestion="Start the agent without a worktree.")
