"""The accessibility tree of the programs on a Linux desktop: AT-SPI over D-Bus.

Requests are sent in batches, because programs answer one at a time. A program that answers slowly, or whose tree does
not end, costs a limited time, and the answer says that its tree is incomplete.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from hilt.desktop.backend import Element, ElementTree, Pause, ScreenWindow
from hilt.desktop.geometry import Box
from hilt.desktop.privacy import Privacy

NODES_MAX = 3000  # of one program
DEPTH_MAX = 40
CHILDREN_MAX = 150  # of a node; of longer lists, those in sight are looked up by position
PROBE_PIXELS = 8
PROGRAM_SECONDS = 8.0  # for the tree of one program
SILENCE_SECONDS = 3.0  # without any answer, after which a program counts as hanging
SKIP_SECONDS = 30.0  # for which a hanging program is not asked again
CALL_SECONDS = 3.0
BATCH = 200  # requests at a time
NAME_CHARACTERS = 200

_ACCESSIBLE = "org.a11y.atspi.Accessible"
_COMPONENT = "org.a11y.atspi.Component"
_ACTION = "org.a11y.atspi.Action"
_TEXT = "org.a11y.atspi.Text"
_VALUE = "org.a11y.atspi.Value"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_ROOT = "/org/a11y/atspi/accessible/root"
_BUS = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")

# bits of the state
_CHECKED, _DEFUNCT, _EDITABLE, _EXPANDED, _FOCUSED, _SELECTED, _SENSITIVE, _SHOWING = 4, 6, 7, 10, 12, 23, 24, 25
_SHOWN_STATES = {_CHECKED: "checked", _EXPANDED: "expanded", _FOCUSED: "focused", _SELECTED: "selected"}

_CLICKED = frozenset(
    (
        *("push button", "button", "toggle button", "check box", "radio button", "combo box", "switch", "link"),
        *("menu", "menu item", "check menu item", "radio menu item", "tearoff menu item", "push button menu"),
    )
)
_WRITTEN = frozenset(("entry", "text", "password text", "spin button", "paragraph", "editbar", "document text"))
_OTHERS = frozenset(
    (
        *("slider", "page tab", "list item", "table cell", "tree item", "icon", "table column header", "dial"),
        *("column header", "row header", "table row header", "color chooser", "date editor", "canvas button"),
    )
)
_CLIPPING = frozenset(("scroll pane", "viewport", "frame", "dialog", "window", "alert", "file chooser", "document web"))
_POPPING = frozenset(("menu", "combo box", "popup menu", "push button menu"))  # what is inside is in another window
_ACTIONS = ("click", "press", "toggle", "activate", "jump", "do default")
_LABELLED_BY = 2


class _Node(NamedTuple):
    """A node that is still to be asked about."""

    key: tuple[str, str]
    depth: int
    clip: Box
    window: ScreenWindow
    pops: bool  # whether it may be in a popup of the program


class Accessibility:
    """Reads the accessibility bus of a session."""

    def __init__(self, session_bus: str, privacy: Privacy) -> None:
        """Raise OSError if there is no accessibility bus."""
        self._privacy = privacy
        self._hanging: dict[str, float] = {}  # programs, and until when they are skipped
        with _opened(session_bus) as session:
            status = DBusAddress("/org/a11y/bus", "org.a11y.Bus", _PROPERTIES)
            # programs that start from now on offer their tree
            _ask(session, [_call(status, "Set", "ssv", ("org.a11y.Status", "IsEnabled", ("b", True)))])
            address = DBusAddress("/org/a11y/bus", "org.a11y.Bus", "org.a11y.Bus")
            reply = _ask(session, [_call(address, "GetAddress")])[0]
        if reply is None:
            raise OSError("the session has no accessibility bus")
        self._bus = _opened(str(reply[0]))

    def close(self) -> None:
        """Disconnect."""
        with suppress(OSError):
            self._bus.close()

    # --- the tree -------------------------------------------------------------------------------------------------

    def tree(self, windows: Sequence[ScreenWindow], pause: Pause) -> ElementTree:
        """Return the elements that are in these windows, topmost first, and that their containers do not hide."""
        elements: list[Element] = []
        notes: list[str] = []
        owners = {window.pid for window in windows if not window.private}
        for name, pid in self._programs():
            if pid not in owners or self._privacy.program_reason(pid, ()):
                continue
            own = [window for window in windows if window.pid == pid]
            if self._hanging.get(name, 0) > time.monotonic():
                notes.append(f"{own[0].app or name} did not answer a moment ago: use coordinates.")
                continue
            walk = _Walk(self._bus, name, pid, own, self._privacy)
            elements += walk.elements(pause)
            if walk.is_hanging:
                self._hanging[name] = time.monotonic() + SKIP_SECONDS
            if walk.is_cut:
                notes.append(f"The tree of {own[0].app or name} is incomplete: {walk.is_cut}.")
        order = {window.id: place for place, window in enumerate(windows)}
        elements.sort(key=lambda element: order.get(element.window, len(order)))
        without = [window for window in windows if not window.private and not window.is_popup]
        silent = {window.app or window.title for window in without if window.pid not in {e.pid for e in elements}}
        notes += [f"{name[:80]} offers no accessibility tree: use coordinates." for name in sorted(silent)]
        return ElementTree(tuple(elements), tuple(notes))

    def _programs(self) -> list[tuple[str, int]]:
        """Return the programs on the bus and their processes, as the bus knows them."""
        registry = DBusAddress(_ROOT, "org.a11y.atspi.Registry", _ACCESSIBLE)
        reply = _ask(self._bus, [_call(registry, "GetChildren")])[0]
        names = [str(name) for name, _ in reply[0]] if reply is not None else []
        replies = _ask(self._bus, [_call(_BUS, "GetConnectionUnixProcessID", "s", (name,)) for name in names])
        return [(name, int(pid[0])) for name, pid in zip(names, replies, strict=True) if pid is not None]

    # --- single elements ------------------------------------------------------------------------------------------

    def is_unchanged(self, element: Element) -> bool:
        """Whether an element is still there, with the same role, name, position and size."""
        facts = _facts(_ask(self._bus, _questions(element.key)))
        if facts is None or not facts.has(_SHOWING):
            return False
        same_name = not facts.name or facts.name == element.name
        return facts.extents == element.extents and facts.role == element.role and same_name

    def act(self, element: Element) -> bool:
        """Run the action that a click on the element has; return False if it has none."""
        if element.role not in _CLICKED:
            return False
        place = DBusAddress(element.key[1], element.key[0], _ACTION)
        try:
            reply = _ask(self._bus, [_call(place, "GetActions")])[0]
            names = [str(action[0]).casefold() for action in reply[0]] if reply is not None else []
        except (TimeoutError, TypeError, IndexError):
            return False
        name = next((name for name in _ACTIONS if name in names), None)
        if name is None:
            return False
        try:
            done = _ask(self._bus, [_call(place, "DoAction", "i", (names.index(name),))])[0]
        except TimeoutError:
            return True  # some programs answer only when the dialog that the action opened is closed
        return done is not None and bool(done[0])


class _Facts(NamedTuple):
    role: str
    name: str
    states: int
    extents: Box

    def has(self, state: int) -> bool:
        return bool(self.states >> state & 1)


class _Walk:
    """One walk through the tree of one program."""

    def __init__(
        self, bus: DBusConnection, name: str, pid: int, windows: Sequence[ScreenWindow], privacy: Privacy
    ) -> None:
        self._bus = bus
        self._name = name
        self._pid = pid
        self._windows = windows
        self._privacy = privacy
        self._until = time.monotonic() + PROGRAM_SECONDS
        self._seen: set[tuple[str, str]] = set()
        self._order: list[tuple[tuple[int, ...], Element]] = []
        self.is_cut = ""
        self.is_hanging = False

    def elements(self, pause: Pause) -> list[Element]:
        """Return the elements in the order of the tree."""
        level = [(place, node) for place, node in enumerate(self._tops())]
        ranked: list[tuple[tuple[int, ...], _Node]] = [((place,), node) for place, node in level]
        while ranked and not self.is_cut:
            pause(0)
            ranked = self._next(ranked)
        elements = [element for _, element in sorted(self._order, key=lambda entry: entry[0])]
        return self._described(elements)

    def _tops(self) -> Iterator[_Node]:
        """Yield the program's windows in the tree, each with the window on the screen that it is."""
        reply = self._ask([_call(DBusAddress(_ROOT, self._name, _ACCESSIBLE), "GetChildren")])[0]
        keys = self._own(_references(reply))[:CHILDREN_MAX]
        for key, facts in zip(keys, self._facts(keys), strict=True):
            if facts is None or not facts.has(_SHOWING) or self._privacy.title_reason(facts.name):
                continue
            candidates = [window for window in self._windows if window.box.overlap(facts.extents)]
            if candidates:
                window = max(
                    candidates, key=lambda each: (each.title == facts.name, _likeness(each.box, facts.extents))
                )
                if not window.private:
                    yield _Node(key, 0, window.box, window, pops=window.is_popup)

    def _next(self, ranked: list[tuple[tuple[int, ...], _Node]]) -> list[tuple[tuple[int, ...], _Node]]:
        """Take in one level of the tree, and return the next."""
        known = self._facts([node.key for _, node in ranked])
        showing = []
        for (rank, node), facts in zip(ranked, known, strict=True):
            if facts is None or not facts.has(_SHOWING) or facts.has(_DEFUNCT):
                continue
            node = self._placed(node, facts)
            box = facts.extents.clipped(node.clip)
            self._order.append((rank, self._element(node, facts, box)))
            showing.append((rank, node, facts, box))
        below: list[tuple[tuple[int, ...], _Node]] = []
        for (rank, node, facts, box), keys in zip(showing, self._children(showing), strict=True):
            clip = box if facts.role in _CLIPPING else node.clip
            pops = node.pops or facts.role in _POPPING
            for place, key in enumerate(keys):
                if key in self._seen or len(self._seen) >= NODES_MAX or node.depth >= DEPTH_MAX:
                    if key not in self._seen:
                        self.is_cut = f"it has more than {NODES_MAX} parts or {DEPTH_MAX} levels"
                    continue
                self._seen.add(key)
                below.append(((*rank, place), _Node(key, node.depth + 1, clip, node.window, pops)))
        return below

    def _placed(self, node: _Node, facts: _Facts) -> _Node:
        """Return the node in the popup that shows it, if one does."""
        if not node.pops or node.window.is_popup or facts.extents.is_empty:
            return node
        center = facts.extents.center
        popup = next((w for w in self._windows if w.is_popup and not w.private and w.box.contains(center)), None)
        return node if popup is None else node._replace(window=popup, clip=popup.box)

    def _element(self, node: _Node, facts: _Facts, box: Box) -> Element:
        is_writable = facts.role in _WRITTEN and facts.has(_EDITABLE)
        is_interactive = facts.has(_SENSITIVE) and (facts.role in _CLICKED or facts.role in _OTHERS or is_writable)
        states = ", ".join(word for state, word in _SHOWN_STATES.items() if facts.has(state))
        return Element(
            *(node.key, self._pid, facts.role, facts.name, "", states, facts.extents, box, node.window.id, node.depth),
            is_interactive and not box.is_empty,
        )

    def _children(self, nodes: Sequence[tuple[Any, _Node, _Facts, Box]]) -> list[list[tuple[str, str]]]:
        replies = self._ask(
            [_call(DBusAddress(node.key[1], node.key[0], _ACCESSIBLE), "GetChildren") for _, node, _, _ in nodes]
        )
        children = []
        for (_, node, _, box), reply in zip(nodes, replies, strict=True):
            keys = self._own(_references(reply))
            children.append(keys if len(keys) <= CHILDREN_MAX else self._in_sight(node, box))
        return children

    def _in_sight(self, node: _Node, box: Box) -> list[tuple[str, str]]:
        """Return the children of a long list that can be seen, found by position."""
        place = DBusAddress(node.key[1], node.key[0], _COMPONENT)
        columns = [box.x + box.width * part // 16 for part in (1, 3, 5, 7, 9, 11, 13, 15)]
        points = [(x, y) for y in range(box.y + 2, box.bottom, PROBE_PIXELS) for x in columns]
        replies = self._ask([_call(place, "GetAccessibleAtPoint", "iiu", (x, y, 0)) for x, y in points])
        found = self._own([(str(reply[0][0]), str(reply[0][1])) for reply in replies if reply is not None])
        return [key for key in dict.fromkeys(found) if key != node.key and not key[1].endswith("/null")][
            : CHILDREN_MAX * 4
        ]

    def _own(self, keys: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the references to this program itself: it may claim parts of another, even of a private one."""
        return [key for key in keys if key[0] == self._name]

    def _facts(self, keys: Sequence[tuple[str, str]]) -> list[_Facts | None]:
        replies = self._ask([question for key in keys for question in _questions(key)])
        return [_facts(replies[place : place + 4]) for place in range(0, len(replies), 4)]

    def _ask(self, messages: Sequence[Message]) -> list[Any]:
        if self.is_hanging:
            return [None] * len(messages)
        try:
            return _ask(self._bus, messages, self._until - time.monotonic())
        except TimeoutError as error:
            self.is_cut, self.is_hanging = str(error), True
            return [None] * len(messages)

    # --- what a person would call an element ------------------------------------------------------------------------

    def _described(self, elements: list[Element]) -> list[Element]:
        """Add labels to interactive elements without a name, and the contents of fields."""
        places = [place for place, element in enumerate(elements) if element.is_interactive]
        nameless = [place for place in places if not elements[place].name]
        replies = self._ask([_on(elements[place], _ACCESSIBLE, "GetRelationSet") for place in nameless])
        labels = [(place, _label(reply)) for place, reply in zip(nameless, replies, strict=True)]
        labelled = [(place, key) for place, key in labels if key is not None and key[0] == self._name]
        for (place, _), facts in zip(labelled, self._facts([key for _, key in labelled]), strict=True):
            if facts is not None:
                elements[place] = elements[place]._replace(name=facts.name)
        fields = [place for place, element in enumerate(elements) if element.role in _WRITTEN - {"password text"}]
        texts = self._ask([_on(elements[place], _TEXT, "GetText", "ii", (0, NAME_CHARACTERS)) for place in fields])
        dials = [place for place in places if elements[place].role in ("slider", "spin button", "dial")]
        numbers = self._ask(
            [_on(elements[place], _PROPERTIES, "Get", "ss", (_VALUE, "CurrentValue")) for place in dials]
        )
        for place, reply in zip(fields, texts, strict=True):
            if reply is not None and reply[0]:
                elements[place] = elements[place]._replace(value=str(reply[0]))
        for place, reply in zip(dials, numbers, strict=True):
            if reply is not None and elements[place].role != "spin button":
                elements[place] = elements[place]._replace(value=f"{float(reply[0][1]):g}")
        return elements


def _likeness(one: Box, other: Box) -> float:
    shared = one.overlap(other)
    return shared / max(1, one.width * one.height + other.width * other.height - shared)


# --- messages -------------------------------------------------------------------------------------------------------


def _opened(address: str) -> DBusConnection:
    try:
        return open_dbus_connection(address)
    except (OSError, KeyError, StopIteration, RuntimeError, ValueError) as error:
        raise OSError(f"D-Bus does not answer at {address}: {error}") from error


def _call(place: DBusAddress, method: str, signature: str | None = None, body: tuple[Any, ...] = ()) -> Message:
    return new_method_call(place, method, signature, body)


def _on(
    element: Element, interface: str, method: str, signature: str | None = None, body: tuple[Any, ...] = ()
) -> Message:
    return _call(DBusAddress(element.key[1], element.key[0], interface), method, signature, body)


def _questions(key: tuple[str, str]) -> list[Message]:
    name, path = key
    accessible = DBusAddress(path, name, _ACCESSIBLE)
    return [
        _call(accessible, "GetRoleName"),
        _call(DBusAddress(path, name, _PROPERTIES), "Get", "ss", (_ACCESSIBLE, "Name")),
        _call(accessible, "GetState"),
        _call(DBusAddress(path, name, _COMPONENT), "GetExtents", "u", (0,)),
    ]


def _facts(replies: Sequence[Any]) -> _Facts | None:
    """Return the facts in the replies to `_questions`; None if the element is gone or not valid."""
    role, name, state, extents = replies
    try:
        if role is None or state is None:
            return None
        states = sum(int(word) << 32 * place for place, word in enumerate(state[0][:2]))
        box = Box(*(max(-100_000, min(int(number), 100_000)) for number in extents[0])) if extents else Box(0, 0, 0, 0)
        return _Facts(str(role[0]), str(name[0][1])[:NAME_CHARACTERS] if name else "", states, box)
    except (TypeError, ValueError, IndexError):
        return None


def _references(reply: Any) -> list[tuple[str, str]]:
    try:
        return [(str(name), str(path)) for name, path in reply[0]] if reply is not None else []
    except (TypeError, ValueError, IndexError):
        return []


def _label(reply: Any) -> tuple[str, str] | None:
    """Return the label of an element, from its relations."""
    with suppress(TypeError, ValueError, IndexError):
        for kind, targets in reply[0] if reply is not None else ():
            if kind == _LABELLED_BY and targets:
                return str(targets[0][0]), str(targets[0][1])
    return None


def _ask(bus: DBusConnection, messages: Sequence[Message], seconds: float = CALL_SECONDS) -> list[Any]:
    """Send requests and return the bodies of their replies in order; None for errors. Raise TimeoutError if late."""
    until = time.monotonic() + seconds
    bodies: list[Any] = []
    for start in range(0, len(messages), BATCH):
        waiting: dict[int, int] = {}
        batch = messages[start : start + BATCH]
        bodies += [None] * len(batch)
        for place, message in enumerate(batch, start):
            serial = next(bus.outgoing_serial)
            bus.send(message, serial=serial)
            waiting[serial] = place
        while waiting:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("it answers too slowly")
            try:
                reply = bus.receive(timeout=min(left, SILENCE_SECONDS))
            except TimeoutError:
                raise TimeoutError("it does not answer") from None
            place = waiting.pop(reply.header.fields.get(HeaderFields.reply_serial, 0), -1)
            if place >= 0 and reply.header.message_type == MessageType.method_return:
                bodies[place] = reply.body
    return bodies


def session_bus(environ: Mapping[str, str]) -> str:
    """Return the address of the session bus."""
    found = environ.get("DBUS_SESSION_BUS_ADDRESS")
    if found:
        return found
    folder = environ.get("XDG_RUNTIME_DIR")
    if folder:
        return f"unix:path={folder}/bus"
    raise OSError("DBUS_SESSION_BUS_ADDRESS is not set")
