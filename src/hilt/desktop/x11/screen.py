"""The windows and pixels of an X display."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import xcffib
from xcffib.xproto import ImageFormat, MapState, WindowClass

from hilt.desktop.geometry import Box, Point
from hilt.desktop.interface import Capture, ScreenWindow
from hilt.desktop.privacy import Privacy, hidden_parts
from hilt.desktop.x11.x_server import XConnection
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from PIL.Image import Image

CLIENT_DEPTH = 3  # levels of a window manager's frame above the window of the program
CHILDREN_MAX = 200  # windows of one level of a frame
CHAIN_MAX = 50  # levels from the root to the window under the pointer
_REPLY_HEAD = 32


class _Top(NamedTuple):
    """A child of the root window, and the window of the program inside it."""

    id: int
    client: int
    box: Box
    is_popup: bool
    is_drawn: bool  # whether it has pixels
    is_opaque: bool


class XScreen:
    """Reads the windows and pixels of an X display."""

    def __init__(self, connection: XConnection, privacy: Privacy) -> None:
        self.connection = connection
        self.privacy = privacy
        screen = connection.screen
        self.area = Box(0, 0, screen.width_in_pixels, screen.height_in_pixels)

    # --- windows --------------------------------------------------------------------------------------------------

    def windows(self) -> tuple[ScreenWindow, ...]:
        """Return the visible windows, topmost first."""
        with self.connection.frozen():
            tops = self._tops()
            active = self.connection.numbers(self.connection.root, "_NET_ACTIVE_WINDOW")
            return tuple(self._window(top, active) for top in tops if top.is_drawn)

    def _tops(self) -> list[_Top]:
        connection = self.connection
        core = connection.core
        children = list(core.QueryTree(connection.root).reply().children)[::-1]
        requests = [
            (id, core.GetWindowAttributes(id), core.GetGeometry(id), connection.shape.QueryExtents(id))
            for id in children
        ]
        is_composited = self._is_composited()
        tops = []
        for id, attributes_request, geometry_request, shape_request in requests:
            try:
                attributes, geometry = attributes_request.reply(), geometry_request.reply()
                shape = shape_request.reply()
            except xcffib.Error:
                continue
            if attributes.map_state != MapState.Viewable:
                continue
            border = 2 * geometry.border_width
            box = Box(geometry.x, geometry.y, geometry.width + border, geometry.height + border).clipped(self.area)
            is_drawn = attributes._class != WindowClass.InputOnly and not box.is_empty
            is_opaque = not shape.bounding_shaped and not (is_composited and geometry.depth == 32)
            is_popup = bool(attributes.override_redirect)
            tops.append(_Top(id, id if is_popup else self.client(id), box, is_popup, is_drawn, is_opaque))
        return tops

    def _is_composited(self) -> bool:
        owner = self.connection.core.GetSelectionOwner(self.connection.atom("_NET_WM_CM_S0")).reply().owner
        return bool(owner)

    def client(self, top: int) -> int:
        """Return the program's window inside a frame; the frame itself if there is none."""
        level = [top]
        for _ in range(CLIENT_DEPTH):
            states = [self.connection.ask_property(id, "WM_STATE") for id in level]
            for id, state in zip(level, states, strict=True):
                if self.connection.raw(state):
                    return id
            level = [child for id in level for child in self._children(id)][:CHILDREN_MAX]
        return top

    def _children(self, window: int) -> list[int]:
        try:
            return list(self.connection.core.QueryTree(window).reply().children)
        except xcffib.Error:
            return []

    def _window(self, top: _Top, active: Sequence[int]) -> ScreenWindow:
        names, title = self._names_and_title(self._request_names(top.client))
        pid = self._owner(top.client)
        private = self.privacy.reason(pid, names, title)
        app = names[-1] if names else ""
        is_active = top.client in active
        return ScreenWindow(top.id, pid, app, title, top.box, private, is_active, top.is_popup, top.is_opaque)

    def _request_names(self, window: int) -> list[Any]:
        return [self.connection.ask_property(window, name) for name in ("WM_CLASS", "_NET_WM_NAME", "WM_NAME")]

    def _names_and_title(self, requests: Sequence[Any]) -> tuple[list[str], str]:
        """Return the names that a window reports, and its title."""
        classes, title, old_title = (self.connection.raw(request) for request in requests)
        names = [name.decode("utf-8", "replace") for name in classes.split(b"\0") if name]
        return names, title.decode("utf-8", "replace") if title else old_title.decode("latin-1")

    def _owner(self, window: int) -> int:
        return self.connection.owner(self.connection.ask_owner(window))

    def client_of(self, window: ScreenWindow) -> int:
        """Return the window of the program."""
        return window.id if window.is_popup else self.client(window.id)

    # --- input targets --------------------------------------------------------------------------------------------

    def under_pointer(self) -> list[int]:
        """Return the windows under the pointer, from the root's child to the innermost."""
        core = self.connection.core
        return self._chain(core.QueryPointer)

    def focused(self) -> list[int]:
        """Return the windows that receive keyboard input, from the root's child to the innermost."""
        core = self.connection.core
        focus = core.GetInputFocus().reply().focus
        below = self.under_pointer()
        if focus == xcffib.xproto.InputFocus._None:
            return []
        if focus == xcffib.xproto.InputFocus.PointerRoot:
            return below
        chain = [focus]
        with suppress(xcffib.Error):
            while len(chain) < CHAIN_MAX:
                parent = core.QueryTree(chain[0]).reply().parent
                if parent in (0, self.connection.root):
                    break
                chain.insert(0, parent)
        # keys go to the window under the pointer if it is inside the focused one
        return [*chain, *below] if focus in below or focus == self.connection.root else chain

    def private_reason(self, chain: Sequence[int]) -> str:
        """Return why one of these windows, or the program inside their frame, is private; empty if none is."""
        if not chain:
            return ""
        connection = self.connection
        ids = dict.fromkeys((*chain, self.client(chain[0])))
        requests = [(connection.ask_owner(id), self._request_names(id)) for id in ids]
        for owner_request, name_requests in requests:
            names, title = self._names_and_title(name_requests)
            reason = self.privacy.reason(connection.owner(owner_request), names, title)
            if reason:
                return reason
        return ""

    def windows_at(self, point: Point) -> list[int]:
        """Return the windows at a point, from the root's child to the innermost."""
        core, root = self.connection.core, self.connection.root
        return self._chain(lambda window: core.TranslateCoordinates(root, window, point.x, point.y))

    def owners_at(self, point: Point) -> set[int]:
        """Return the processes whose windows are at a point: the topmost window, and those inside it."""
        requests = [self.connection.ask_owner(window) for window in self.windows_at(point)]
        return {self.connection.owner(request) for request in requests}

    def _chain(self, ask: Callable[[int], Any]) -> list[int]:
        """Return nested windows, from the root's child to the innermost; `ask` requests the child of a window."""
        chain: list[int] = []
        window = self.connection.root
        with suppress(xcffib.Error):
            while len(chain) < CHAIN_MAX and (window := ask(window).reply().child):
                chain.append(window)
        return chain

    # --- pixels ---------------------------------------------------------------------------------------------------

    def capture(self) -> Capture:
        """Return the pixels of the screen without those of private windows."""
        with self.connection.frozen():
            windows = self.windows()
            data = self._pixels(self.area)
        image = _image(data, self.area, self.connection)
        for box in hidden_parts(windows):
            image.paste((0, 0, 0), (box.x, box.y, box.right, box.bottom))
        return Capture(image, windows)

    def _pixels(self, box: Box) -> bytes:
        core = self.connection.core
        cookie = core.GetImage(ImageFormat.ZPixmap, self.connection.root, *box, 0xFFFFFFFF)
        # the reply object would hold one Python integer for each byte
        reply: Any = self.connection.x.wait_for_reply(cookie.sequence)
        return bytes(xcffib.ffi.buffer(reply.cdata, reply.known_max))[_REPLY_HEAD:]


def _image(data: bytes, area: Box, connection: XConnection) -> Image:
    from PIL import Image

    depth = connection.screen.root_depth
    formats = {format.depth: format.bits_per_pixel for format in connection.x.get_setup().pixmap_formats}
    if formats.get(depth) != 32:
        advice = "Use a display with a depth of 24, such as Xvfb :1 -screen 0 1280x800x24."
        raise ToolError("no_display", f"The display has a depth of {depth}, which is not supported.", suggestion=advice)
    order = "BGRX" if connection.x.get_setup().image_byte_order == 0 else "XRGB"
    return Image.frombuffer("RGB", (area.width, area.height), data, "raw", order, 0, 1).copy()
