"""Desktop control for one call: takes screenshots, points and types for a session.

It waits for its turn, watches the panic key, and takes thumbnails of the screen before and after an action.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol

from hilt.call import Json
from hilt.desktop.element_map import KEY, ElementMap, NumberedElement, stale
from hilt.desktop.geometry import Box, ImageFrame, Point, around, fitted, uncovered
from hilt.desktop.interface import Capture, Element, ElementTree, ScreenBackend, ScreenWindow
from hilt.desktop.shared_display import SharedDisplay
from hilt.errors import ToolError
from hilt.fence import Fence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from PIL.Image import Image

MARKS_MAX = 200  # elements numbered on one screenshot
VISIBLE_MIN = 5  # pixels; a smaller part of an element does not count as visible
PAUSE_SECONDS = 0.02  # how often a wait checks whether the call was stopped
QUIET_SECONDS = 0.5  # without a change, after which a screen counts as quiet
LOOK_SECONDS = 0.25
PATH_PIXELS = 12  # between the points of a drag
IMAGE_BYTES = 1_500_000  # of a PNG; larger images are sent as JPEG
THUMBNAIL_PIXELS = 320
JPEG_QUALITY = 80


class ValueStore(Protocol):
    """Values that a session stores between calls."""

    def get(self, key: str) -> Json:
        """Return a value, or None."""

    def set(self, key: str, value: Json) -> None:
        """Store a value."""


class PanicState(Protocol):
    """Whether the user has pressed the panic key in this session or a parent session."""

    def is_set(self) -> bool:
        """Whether the session may no longer use the desktop."""

    def set(self) -> None:
        """Bar the session and its parent sessions from the desktop."""


class Picture(NamedTuple):
    """An encoded image."""

    data: bytes
    kind: str  # MIME type


class Screenshot(NamedTuple):
    """An image for the model, the numbered elements on it, and notes on them."""

    picture: Picture
    thumbnail: Picture
    frame: ImageFrame
    elements: tuple[NumberedElement, ...]
    windows: tuple[ScreenWindow, ...]
    notes: tuple[str, ...]


class ActionTarget(NamedTuple):
    """The target of an action: a point of the screen, and the element if one was given."""

    point: Point
    element: Element | None = None


class Desktop:
    """The desktop for one call; use it as a context manager."""

    def __init__(
        self,
        access: SharedDisplay,
        session: ValueStore,
        panic: PanicState,
        fence: Fence,
        *,
        longest: int,
        called: float,
    ) -> None:
        """`longest` is the longest side of an image; `called` is the time of the call, in seconds since the epoch."""
        self._access = access
        self._session = session
        self._panic = panic
        self._fence = fence
        self._longest = longest
        self._called = called
        self._stack = ExitStack()
        self._screen: ScreenBackend | None = None
        self._map = ElementMap()
        self.thumbnails: list[Picture] = []  # before and after an action

    def __enter__(self) -> Desktop:
        self._check()
        with ExitStack() as stack:
            self._screen = screen = stack.enter_context(self._access.reserved(self._check))
            stack.callback(screen.watch_panic(self._panic.set))
            self._map = ElementMap(self._session.get(KEY))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        if exc[0] is None:
            self._check()

    @property
    def screen(self) -> ScreenBackend:
        """The screen; available inside the context."""
        if self._screen is None:
            raise RuntimeError("the desktop is not open")
        return self._screen

    def _check(self) -> None:
        """Raise if the call was stopped or the panic key was pressed."""
        self._fence.check()
        if self._panic.is_set():
            raise ToolError(
                "denied",
                "The user pressed the panic key: the desktop is closed for the rest of this session.",
                suggestion="Stop, and ask the user what they want.",
            )

    def pause(self, seconds: float) -> None:
        """Wait; raise if the call was stopped or the panic key was pressed."""
        deadline = time.monotonic() + seconds
        while True:
            self._check()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            time.sleep(min(remaining, PAUSE_SECONDS))

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> ImageFrame:
        """The image that coordinates refer to: the last one, or the whole screen."""
        return self._map.frame or fitted(self.screen.area, self._longest)

    def screenshot(self, *, marks: bool, app: str | None = None, region: Sequence[float] | None = None) -> Screenshot:
        """Take a screenshot, of an app or a region if given, and number the elements on it."""
        from PIL import Image

        capture = self.screen.capture()
        area = self._area_to_show(capture, app, region)
        frame = fitted(area, self._longest)
        left, top = area.x - self.screen.area.x, area.y - self.screen.area.y
        image = capture.image.crop((left, top, left + area.width, top + area.height))
        if frame.scale != 1:
            image = image.resize(frame.size, Image.Resampling.LANCZOS)
        thumbnail = make_thumbnail(image)
        tree = self._access.tree(capture.windows, self.pause) if marks else ElementTree(())
        items = [item for item in self._visible(tree.elements, capture.windows) if area.contains(item.point)]
        notes = list(tree.notes)
        if len(items) > MARKS_MAX:
            notes.append(f"{len(items) - MARKS_MAX} more elements have no number: use region or app to see fewer.")
            del items[MARKS_MAX:]
        if items:
            from hilt.desktop.set_of_mark import draw_marks

            marked = draw_marks(image, frame, [item.element.box for item in items])
            image, frame = marked.image, marked.frame
            items = [item for index, item in enumerate(items) if index not in marked.unplaced]
        self._map.frame = frame
        self._map.replace(items)
        self._store_map()
        return Screenshot(encode(image), thumbnail, frame, tuple(items), capture.windows, tuple(notes))

    def _area_to_show(self, capture: Capture, app: str | None, region: Sequence[float] | None) -> Box:
        area = self.screen.area
        if region is not None:
            x, y, width, height = region
            start, end = self.frame.to_screen(x, y), self.frame.to_screen(x + width, y + height)
            shown = Box(start.x, start.y, end.x - start.x, end.y - start.y).clipped(area)
            if shown.is_empty:
                advice = f"Use x, y, width, height within {_size(self.frame)}."
                raise ToolError("invalid_args", "The region is not on the screen.", suggestion=advice)
            return shown
        if app is None:
            return area
        return around([window.box for window in matching_windows(capture.windows, app)])

    def windows(self) -> tuple[ScreenWindow, ...]:
        """Return the windows, topmost first."""
        return self.screen.windows()

    def tree(self, app: str | None = None) -> tuple[tuple[NumberedElement, ...], ElementTree]:
        """Return the visible elements, and the whole tree; only of one app if given."""
        windows = self.screen.windows()
        window_ids = {window.id for window in (windows if app is None else matching_windows(windows, app))}
        tree = self._access.tree(windows, self.pause)
        elements = tuple(element for element in tree.elements if element.window in window_ids)
        return tuple(self._visible(elements, windows, every=True)), tree._replace(elements=elements)

    def number(self, item: NumberedElement) -> int:
        """Return the number that identifies an element in later calls."""
        self._map.frame = self.frame
        number = self._map.add(item)
        self._store_map()
        return number

    def _store_map(self) -> None:
        self._session.set(KEY, self._map.stored())

    def _visible(
        self, elements: Sequence[Element], windows: Sequence[ScreenWindow], *, every: bool = False
    ) -> list[NumberedElement]:
        """Return the interactive elements that no window covers, with `every` also the others, in reading order."""
        levels = {window.id: level for level, window in enumerate(windows)}  # 0 is the topmost
        now = time.time()
        items = []
        for element in elements:
            level = levels.get(element.window)
            if level is None or not (every or element.is_interactive):
                continue
            box = element.box.clipped(windows[level].box)
            covers = [window.box for window in windows[:level]]
            part = max(uncovered(box, covers), key=lambda part: part.width * part.height, default=Box(0, 0, 0, 0))
            if min(part.width, part.height) >= VISIBLE_MIN:
                items.append((level, NumberedElement(element._replace(box=part), part.center, now)))
        items.sort(key=lambda item: (item[0], item[1].element.box.center.y // 8, item[1].element.box.x))
        return [item for _, item in items]

    # --- acting ---------------------------------------------------------------------------------------------------

    def target(self, x: float | None, y: float | None, number: int | None) -> ActionTarget | None:
        """Return the screen position of a point in the last image, or of an element; None if neither is given."""
        if number is not None:
            item = self._map.get(number, self._called)
            self._require_unchanged(number, item)
            return ActionTarget(item.point, item.element)
        if x is None and y is None:
            return None
        if x is None or y is None:
            missing = "x" if x is None else "y"
            raise ToolError("invalid_args", f"The point has no {missing}.", suggestion="Pass both coordinates.")
        point = self.frame.to_screen(x, y)
        if not self.frame.shown.contains(point) or not self.screen.area.contains(point):
            raise ToolError(
                "invalid_args",
                f"The point ({x:g}, {y:g}) is outside the last image, which is {_size(self.frame)}.",
                suggestion="Use a point in the last screenshot.",
            )
        return ActionTarget(point)

    def _require_unchanged(self, number: int, item: NumberedElement) -> None:
        element = item.element
        try:
            unchanged = self._access.elements().is_unchanged(element)
        except OSError as error:
            raise stale(f"Element {number} cannot be found: {error}.") from error
        if not unchanged:
            raise stale(f"Element {number} has moved, changed or disappeared.")
        # a program may report any position for its elements
        if element.pid not in self.screen.owners_at(item.point):
            raise stale(f"Element {number} is covered by another window.")
        window = next((window for window in self.screen.windows() if window.id == element.window), None)
        if window is None:
            raise stale(f"The window of element {number} is gone.")
        if window.private:
            raise ToolError("denied", f"The window of element {number} is private: {window.private}.")

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Take thumbnails of the screen before and after an action."""
        self.thumbnails.append(make_thumbnail(self.screen.capture().image))
        try:
            yield
        finally:
            self.thumbnails.append(make_thumbnail(self.screen.capture().image))

    def click(self, target: ActionTarget, *, button: int = 1, count: int = 1) -> str:
        """Click; return how: by the element's own action, or with the pointer."""
        if target.element is not None and (button, count) == (1, 1) and self._access.elements().act(target.element):
            self.pause(LOOK_SECONDS)
            return "action"
        self.screen.click(target.point, button, count, self.pause)
        return "pointer"

    def focus(self, app: str) -> ScreenWindow:
        """Raise the topmost window of an app and give it the keyboard focus."""
        window = matching_windows(self.screen.windows(), app)[0]
        self.screen.activate(window, self.pause)
        return window

    def drag(self, start: ActionTarget, end: ActionTarget, seconds: float) -> None:
        """Drag from one target to another, through points between them."""
        (x, y), (to_x, to_y) = start.point, end.point
        steps = max(2, int(max(abs(to_x - x), abs(to_y - y)) / PATH_PIXELS))
        points = [Point(x + (to_x - x) * step // steps, y + (to_y - y) * step // steps) for step in range(steps + 1)]
        self.screen.drag(points, seconds, self.pause)

    def wait_quiet(self, seconds: float) -> bool:
        """Wait until the screen stops changing; return False if it still changes after this long."""
        deadline = time.monotonic() + seconds
        last, since = self.screen.capture().image, time.monotonic()
        while time.monotonic() < deadline:
            self.pause(LOOK_SECONDS)
            image = self.screen.capture().image
            if image.tobytes() != last.tobytes():
                last, since = image, time.monotonic()
            elif time.monotonic() - since >= QUIET_SECONDS:
                return True
        return False

    def wait_for(self, query: str, seconds: float) -> NumberedElement | None:
        """Wait until an element is visible; return None if it does not appear."""
        deadline = time.monotonic() + seconds
        while True:
            matches = find_elements(self.tree()[0], query)
            if matches or time.monotonic() >= deadline:
                return matches[0] if matches else None
            self.pause(LOOK_SECONDS)


def find_elements(items: Sequence[NumberedElement], query: str) -> list[NumberedElement]:
    """Return the elements whose role, name, value or states contain all words of a query, best match first."""
    words = query.casefold().split()

    def text(item: NumberedElement) -> str:
        return f"{item.element.role} {item.element.name} {item.element.value} {item.element.states}".casefold()

    matches = [item for item in items if words and all(word in text(item) for word in words)]
    exact = query.casefold().strip()
    return sorted(matches, key=lambda item: (item.element.name.casefold() != exact, not item.element.is_interactive))


def matching_windows(windows: Sequence[ScreenWindow], app: str) -> list[ScreenWindow]:
    """Return the windows whose app or title contains this text; raise if there are none, or all are private."""
    wanted = app.casefold().strip()
    matches = [window for window in windows if wanted in window.app.casefold() or wanted in window.title.casefold()]
    if not wanted or not matches:
        apps = sorted({window.app for window in windows if window.app and not window.private})
        raise ToolError(
            "not_found",
            f"No window matches {app[:80]!r}.",
            suggestion=f"Use one of: {', '.join(apps)[:500] or 'none'}.",
        )
    exact = [window for window in matches if wanted in (window.app.casefold(), window.title.casefold())]
    visible = [window for window in exact or matches if not window.private]
    if not visible:
        raise ToolError("denied", f"The windows of {app[:80]!r} are private: {matches[0].private}.")
    return visible


def _size(frame: ImageFrame) -> str:
    width, height = frame.size
    return f"{width}×{height}"


def encode(image: Image) -> Picture:
    """Return an image as PNG, or as JPEG if that is too large."""
    from io import BytesIO

    buffer = BytesIO()
    image.save(buffer, "PNG")
    if buffer.tell() <= IMAGE_BYTES:
        return Picture(buffer.getvalue(), "image/png")
    return _jpeg(image)


def make_thumbnail(image: Image) -> Picture:
    """Return a small version of an image."""
    small = image.copy()
    small.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
    return _jpeg(small)


def _jpeg(image: Image) -> Picture:
    from io import BytesIO

    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return Picture(buffer.getvalue(), "image/jpeg")
