"""The order of calls: those that touch the same target run in order of arrival, others in parallel (ADR 0009)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping


class Ticket:
    """One call's place in the queue."""

    __slots__ = ("followers", "is_aside", "lanes", "paths", "session", "start", "waits")

    def __init__(self, paths: Callable[[], Mapping[str, bool]], start: Callable[[], None], session: str) -> None:
        self.paths = paths
        self.start = start
        self.session = session
        self.is_aside = False  # whether calls of other sessions may pass it
        self.waits = 0  # earlier calls that it waits for
        self.followers: dict[Ticket, None] = {}
        self.lanes: list[tuple[str, bool]] = []


class Lanes:
    """Starts each call once all earlier calls that it must wait for have ended. Not thread-safe.

    A path is a lane, shared by readers and exclusive to a writer. A call is also in the lane "below F" of every folder
    F above its path: a folder and its contents count as the same target.
    """

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, bool], dict[Ticket, None]] = {}  # by name, and whether for writers
        self._alone: Ticket | None = (
            None  # a call that is alone and in no lane yet: most calls end before the next one starts
        )

    def enter(self, paths: Callable[[], Mapping[str, bool]], start: Callable[[], None], session: str = "") -> Ticket:
        """Queue a call; `paths` returns the paths that it reads, or writes (True); it is called only if calls overlap.

        If the call must wait, `start` is called when its turn comes; otherwise the caller starts it.
        """
        ticket = Ticket(paths, start, session)
        if self._alone is None and not self._lanes:
            self._alone = ticket
        else:
            if self._alone is not None:
                self._join_lanes(self._alone, self._alone.paths())
                self._alone = None
            touches = paths()
            for path, write in touches.items():
                self._wait_for(ticket, path, write=write)
            self._join_lanes(ticket, touches)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """End a call's turn, and start the calls that waited only for it."""
        if ticket is self._alone:
            self._alone = None
            return
        for lane in ticket.lanes:
            members = self._lanes.get(lane, {})
            members.pop(ticket, None)
            if not members:
                self._lanes.pop(lane, None)
        _release(ticket.followers)

    def step_aside(self, ticket: Ticket) -> None:
        """Let calls of other sessions pass a call that waits for a person; file locks keep their changes apart."""
        ticket.is_aside = True
        others = [follower for follower in ticket.followers if follower.session != ticket.session]
        for follower in others:
            del ticket.followers[follower]
        _release(others)

    def _join_lanes(self, ticket: Ticket, paths: Mapping[str, bool]) -> None:
        for path, write in paths.items():
            ticket.lanes.append((path, write))
            ticket.lanes.extend((f"below {folder}", write) for folder in _above(path))
        for lane in ticket.lanes:
            self._lanes.setdefault(lane, {})[ticket] = None

    def _wait_for(self, ticket: Ticket, path: str, *, write: bool) -> None:
        names = (path, f"below {path}", *_above(path))
        for lane in ((name, of_writers) for name in names for of_writers in ((True, False) if write else (True,))):
            for earlier in self._lanes.get(lane, ()):
                if earlier.is_aside and earlier.session != ticket.session:
                    continue
                if ticket not in earlier.followers:
                    earlier.followers[ticket] = None
                    ticket.waits += 1


def _release(followers: Iterable[Ticket]) -> None:
    """Start the calls that no longer wait for any other."""
    for follower in followers:
        follower.waits -= 1
        if not follower.waits:
            follower.start()


def _above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the workspace itself last."""
    while "/" in path.strip("/"):
        path = path.rpartition("/")[0]
        yield path
    if path != ".":
        yield "."
