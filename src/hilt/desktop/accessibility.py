"""The accessibility tree of the programs on a Linux desktop: AT-SPI over D-Bus.

Requests are sent in batches, because programs answer one at a time. The time for each program is limited: if it answers
slowly, or its tree does not end, a note says that its tree is incomplete.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from hilt.desktop.geometry import Box
from hilt.desktop.interface import Element, ElementTree, Pause, ScreenWindow
from hilt.desktop.privacy import Privacy

NODES_MAX = 3000  # of one program
DEPTH_MAX = 40
CHILDREN_MAX = 150  # of a node; in longer lists, the visible ones are looked up by position
PROBE_PIXELS = 8
PROGRAM_SECONDS = 8.0  # for the tree of one program
SILENCE_SECONDS = 3.0  # without a reply, after which a program counts as hanging
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

_CLICKABLE_ROLES = frozenset(
    (
        *("push button", "button", "toggle button", "check box", "radio button", "combo box", "switch", "link"),
        *("menu", "menu item", "check menu item", "radio menu item", "tearoff menu item", "push button menu"),
    )
)
_TEXT_ROLES = frozenset(("entry", "text", "password text", "spin button", "paragraph", "editbar", "document text"))
_OTHER_ROLES = frozenset(
    (
        *("slider", "page tab", "list item", "table cell", "tree item", "icon", "table column header", "dial"),
        *("column header", "row header", "table row header", "color chooser", "date editor", "canvas button"),
    )
)
_CLIPPING_ROLES = frozenset(
    ("scroll pane", "viewport", "frame", "dialog", "window", "alert", "file chooser", "document web")
)
_POPUP_ROLES = frozenset(
    ("menu", "combo box", "popup menu", "push button menu")
)  # their children are in another window
_ACTIONS = ("click", "press", "toggle", "activate", "jump", "do default")
_LABELLED_BY = 2


class _Node(NamedTuple):
    """A node whose properties have not been read."""

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
        self._hanging: dict[str, float] = {}  # until when a program is skipped
        with _connect(session_bus) as session:
            status = DBusAddress("/org/a11y/bus", "org.a11y.Bus", _PROPERTIES)
            # programs that start from now on provide their tree
            _ask(session, [_call(status, "Set", "ssv", ("org.a11y.Status", "IsEnabled", ("b", True)))])
            address = DBusAddress("/org/a11y/bus", "org.a11y.Bus", "org.a11y.Bus")
            reply = _ask(session, [_call(address, "GetAddress")])[0]
        if reply is None:
            raise OSError("the session has no accessibility bus")
        self._bus = _connect(str(reply[0]))

    def close(self) -> None:
        """Disconnect."""
        with suppress(OSError):
            self._bus.close()

    # --- the tree -------------------------------------------------------------------------------------------------

    def tree(self, windows: Sequence[ScreenWindow], pause: Pause) -> ElementTree:
        """Return the elements in these windows that their containers do not hide, those of the topmost window first."""
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
        order = {window.id: index for index, window in enumerate(windows)}
        elements.sort(key=lambda element: order.get(element.window, len(order)))
        public = [window for window in windows if not window.private and not window.is_popup]
        silent = {window.app or window.title for window in public if window.pid not in {e.pid for e in elements}}
        notes += [f"{name[:80]} has no accessibility tree: use coordinates." for name in sorted(silent)]
        return ElementTree(tuple(elements), tuple(notes))

    def _programs(self) -> list[tuple[str, int]]:
        """Return the programs on the bus, and their process ids as reported by the bus."""
        registry = DBusAddress(_ROOT, "org.a11y.atspi.Registry", _ACCESSIBLE)
        reply = _ask(self._bus, [_call(registry, "GetChildren")])[0]
        names = [str(name) for name, _ in reply[0]] if reply is not None else []
        replies = _ask(self._bus, [_call(_BUS, "GetConnectionUnixProcessID", "s", (name,)) for name in names])
        return [(name, int(pid[0])) for name, pid in zip(names, replies, strict=True) if pid is not None]

    # --- single elements ------------------------------------------------------------------------------------------

    def is_unchanged(self, element: Element) -> bool:
        """Whether an element still exists, with the same role, name, position and size."""
        properties = _properties(_ask(self._bus, _property_requests(element.key)))
        if properties is None or not properties.has(_SHOWING):
            return False
        same_name = not properties.name or properties.name == element.name
        return properties.extents == element.extents and properties.role == element.role and same_name

    def act(self, element: Element) -> bool:
        """Run the element's click action; return False if it has none."""
        if element.role not in _CLICKABLE_ROLES:
            return False
        address = DBusAddress(element.key[1], element.key[0], _ACTION)
        try:
            reply = _ask(self._bus, [_call(address, "GetActions")])[0]
            names = [str(action[0]).casefold() for action in reply[0]] if reply is not None else []
        except (TimeoutError, TypeError, IndexError):
            return False
        name = next((name for name in _ACTIONS if name in names), None)
        if name is None:
            return False
        try:
            done = _ask(self._bus, [_call(address, "DoAction", "i", (names.index(name),))])[0]
        except TimeoutError:
            return True  # some programs reply only when the dialog that the action opened is closed
        return done is not None and bool(done[0])


class _Properties(NamedTuple):
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
        self._deadline = time.monotonic() + PROGRAM_SECONDS
        self._seen: set[tuple[str, str]] = set()
        self._order: list[tuple[tuple[int, ...], Element]] = []
        self.is_cut = ""
        self.is_hanging = False

    def elements(self, pause: Pause) -> list[Element]:
        """Return the elements in the order of the tree."""
        level = [(index, node) for index, node in enumerate(self._tops())]
        ranked: list[tuple[tuple[int, ...], _Node]] = [((index,), node) for index, node in level]
        while ranked and not self.is_cut:
            pause(0)
            ranked = self._next(ranked)
        elements = [element for _, element in sorted(self._order, key=lambda entry: entry[0])]
        return self._described(elements)

    def _tops(self) -> Iterator[_Node]:
        """Yield the program's windows in the tree, each with its window on the screen."""
        reply = self._ask([_call(DBusAddress(_ROOT, self._name, _ACCESSIBLE), "GetChildren")])[0]
        keys = self._own(_references(reply))[:CHILDREN_MAX]
        for key, properties in zip(keys, self._properties(keys), strict=True):
            if properties is None or not properties.has(_SHOWING) or self._privacy.title_reason(properties.name):
                continue
            candidates = [window for window in self._windows if window.box.overlap(properties.extents)]
            if candidates:
                window = max(
                    candidates,
                    key=lambda each: (each.title == properties.name, _similarity(each.box, properties.extents)),
                )
                if not window.private:
                    yield _Node(key, 0, window.box, window, pops=window.is_popup)

    def _next(self, ranked: list[tuple[tuple[int, ...], _Node]]) -> list[tuple[tuple[int, ...], _Node]]:
        """Add the elements of one level of the tree, and return the next level."""
        node_properties = self._properties([node.key for _, node in ranked])
        showing = []
        for (rank, node), properties in zip(ranked, node_properties, strict=True):
            if properties is None or not properties.has(_SHOWING) or properties.has(_DEFUNCT):
                continue
            node = self._placed(node, properties)
            box = properties.extents.clipped(node.clip)
            self._order.append((rank, self._element(node, properties, box)))
            showing.append((rank, node, properties, box))
        below: list[tuple[tuple[int, ...], _Node]] = []
        for (rank, node, properties, box), keys in zip(showing, self._children(showing), strict=True):
            clip = box if properties.role in _CLIPPING_ROLES else node.clip
            pops = node.pops or properties.role in _POPUP_ROLES
            for index, key in enumerate(keys):
                if key in self._seen or len(self._seen) >= NODES_MAX or node.depth >= DEPTH_MAX:
                    if key not in self._seen:
                        self.is_cut = f"it has more than {NODES_MAX} parts or {DEPTH_MAX} levels"
                    continue
                self._seen.add(key)
                below.append(((*rank, index), _Node(key, node.depth + 1, clip, node.window, pops)))
        return below

    def _placed(self, node: _Node, properties: _Properties) -> _Node:
        """Return the node, moved to the popup that shows it, if any."""
        if not node.pops or node.window.is_popup or properties.extents.is_empty:
            return node
        center = properties.extents.center
        popup = next((w for w in self._windows if w.is_popup and not w.private and w.box.contains(center)), None)
        return node if popup is None else node._replace(window=popup, clip=popup.box)

    def _element(self, node: _Node, properties: _Properties, box: Box) -> Element:
        is_writable = properties.role in _TEXT_ROLES and properties.has(_EDITABLE)
        is_interactive = properties.has(_SENSITIVE) and (
            properties.role in _CLICKABLE_ROLES or properties.role in _OTHER_ROLES or is_writable
        )
        states = ", ".join(word for state, word in _SHOWN_STATES.items() if properties.has(state))
        return Element(
            *(
                node.key,
                self._pid,
                properties.role,
                properties.name,
                "",
                states,
                properties.extents,
                box,
                node.window.id,
                node.depth,
            ),
            is_interactive and not box.is_empty,
        )

    def _children(self, nodes: Sequence[tuple[Any, _Node, _Properties, Box]]) -> list[list[tuple[str, str]]]:
        replies = self._ask(
            [_call(DBusAddress(node.key[1], node.key[0], _ACCESSIBLE), "GetChildren") for _, node, _, _ in nodes]
        )
        children = []
        for (_, node, _, box), reply in zip(nodes, replies, strict=True):
            keys = self._own(_references(reply))
            children.append(keys if len(keys) <= CHILDREN_MAX else self._visible_children(node, box))
        return children

    def _visible_children(self, node: _Node, box: Box) -> list[tuple[str, str]]:
        """Return the visible children of a long list, looked up by position."""
        address = DBusAddress(node.key[1], node.key[0], _COMPONENT)
        columns = [box.x + box.width * part // 16 for part in (1, 3, 5, 7, 9, 11, 13, 15)]
        points = [(x, y) for y in range(box.y + 2, box.bottom, PROBE_PIXELS) for x in columns]
        replies = self._ask([_call(address, "GetAccessibleAtPoint", "iiu", (x, y, 0)) for x, y in points])
        keys = self._own([(str(reply[0][0]), str(reply[0][1])) for reply in replies if reply is not None])
        return [key for key in dict.fromkeys(keys) if key != node.key and not key[1].endswith("/null")][
            : CHILDREN_MAX * 4
        ]

    def _own(self, keys: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the references to this program itself: it may claim elements of another, even of a private one."""
        return [key for key in keys if key[0] == self._name]

    def _properties(self, keys: Sequence[tuple[str, str]]) -> list[_Properties | None]:
        replies = self._ask([request for key in keys for request in _property_requests(key)])
        return [_properties(replies[index : index + 4]) for index in range(0, len(replies), 4)]

    def _ask(self, messages: Sequence[Message]) -> list[Any]:
        if self.is_hanging:
            return [None] * len(messages)
        try:
            return _ask(self._bus, messages, self._deadline - time.monotonic())
        except TimeoutError as error:
            self.is_cut, self.is_hanging = str(error), True
            return [None] * len(messages)

    # --- labels and values ------------------------------------------------------------------------------------------

    def _described(self, elements: list[Element]) -> list[Element]:
        """Add labels to interactive elements without a name, and the contents of fields."""
        places = [index for index, element in enumerate(elements) if element.is_interactive]
        nameless = [index for index in places if not elements[index].name]
        replies = self._ask([_on(elements[index], _ACCESSIBLE, "GetRelationSet") for index in nameless])
        labels = [(index, _label(reply)) for index, reply in zip(nameless, replies, strict=True)]
        labelled = [(index, key) for index, key in labels if key is not None and key[0] == self._name]
        for (index, _), properties in zip(labelled, self._properties([key for _, key in labelled]), strict=True):
            if properties is not None:
                elements[index] = elements[index]._replace(name=properties.name)
        fields = [index for index, element in enumerate(elements) if element.role in _TEXT_ROLES - {"password text"}]
        texts = self._ask([_on(elements[index], _TEXT, "GetText", "ii", (0, NAME_CHARACTERS)) for index in fields])
        dials = [index for index in places if elements[index].role in ("slider", "spin button", "dial")]
        numbers = self._ask(
            [_on(elements[index], _PROPERTIES, "Get", "ss", (_VALUE, "CurrentValue")) for index in dials]
        )
        for index, reply in zip(fields, texts, strict=True):
            if reply is not None and reply[0]:
                elements[index] = elements[index]._replace(value=str(reply[0]))
        for index, reply in zip(dials, numbers, strict=True):
            if reply is not None and elements[index].role != "spin button":
                elements[index] = elements[index]._replace(value=f"{float(reply[0][1]):g}")
        return elements


def _similarity(one: Box, other: Box) -> float:
    shared = one.overlap(other)
    return shared / max(1, one.width * one.height + other.width * other.height - shared)


# --- messages -------------------------------------------------------------------------------------------------------


def _connect(address: str) -> DBusConnection:
    try:
        return open_dbus_connection(address)
    except (OSError, KeyError, StopIteration, RuntimeError, ValueError) as error:
        raise OSError(f"D-Bus does not answer at {address}: {error}") from error


def _call(address: DBusAddress, method: str, signature: str | None = None, body: tuple[Any, ...] = ()) -> Message:
    return new_method_call(address, method, signature, body)


def _on(
    element: Element, interface: str, method: str, signature: str | None = None, body: tuple[Any, ...] = ()
) -> Message:
    return _call(DBusAddress(element.key[1], element.key[0], interface), method, signature, body)


def _property_requests(key: tuple[str, str]) -> list[Message]:
    name, path = key
    accessible = DBusAddress(path, name, _ACCESSIBLE)
    return [
        _call(accessible, "GetRoleName"),
        _call(DBusAddress(path, name, _PROPERTIES), "Get", "ss", (_ACCESSIBLE, "Name")),
        _call(accessible, "GetState"),
        _call(DBusAddress(path, name, _COMPONENT), "GetExtents", "u", (0,)),
    ]


def _properties(replies: Sequence[Any]) -> _Properties | None:
    """Return the properties in the replies to `_property_requests`; None if the element is gone or invalid."""
    role, name, state, extents = replies
    try:
        if role is None or state is None:
            return None
        states = sum(int(word) << 32 * index for index, word in enumerate(state[0][:2]))
        box = Box(*(max(-100_000, min(int(number), 100_000)) for number in extents[0])) if extents else Box(0, 0, 0, 0)
        return _Properties(str(role[0]), str(name[0][1])[:NAME_CHARACTERS] if name else "", states, box)
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
    deadline = time.monotonic() + seconds
    bodies: list[Any] = []
    for start in range(0, len(messages), BATCH):
        waiting: dict[int, int] = {}
        batch = messages[start : start + BATCH]
        bodies += [None] * len(batch)
        for index, message in enumerate(batch, start):
            serial = next(bus.outgoing_serial)
            bus.send(message, serial=serial)
            waiting[serial] = index
        while waiting:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("it answers too slowly")
            try:
                reply = bus.receive(timeout=min(remaining, SILENCE_SECONDS))
            except TimeoutError:
                raise TimeoutError("it does not answer") from None
            index = waiting.pop(reply.header.fields.get(HeaderFields.reply_serial, 0), -1)
            if index >= 0 and reply.header.message_type == MessageType.method_return:
                bodies[index] = reply.body
    return bodies


def session_bus(environ: Mapping[str, str]) -> str:
    """Return the address of the session bus."""
    address = environ.get("DBUS_SESSION_BUS_ADDRESS")
    if address:
        return address
    folder = environ.get("XDG_RUNTIME_DIR")
    if folder:
        return f"unix:path={folder}/bus"
    raise OSError("DBUS_SESSION_BUS_ADDRESS is not set")
