"""Draw docs/images/rooms.svg, the packages of hilt and what they import; with --check, only compare it."""

from __future__ import annotations

import re
import sys
from html import escape

from tests.test_architecture import ARCHITECTURE, FOUNDATION, LAYERS, MODULES, hilt_imports, top_level

PICTURE = ARCHITECTURE.parent / "images/rooms.svg"
WIDTH = 1240
MARGIN = 20
HEIGHT = 34
GAP = 40
ROW = 78
LETTER = 7.8
STEP = 17  # the width of the number of a step

STYLE = """
  .sheet { fill: #ffffff } .room { fill: #f3f5f8; stroke: #9aa4b2 } .way { fill: #e7f0ff; stroke: #2f6fd0 }
  .import { fill: none; stroke: #9aa4b2; stroke-opacity: .55 }
  text { font: 13px ui-monospace, monospace; fill: #1d2430 }
  .number { fill: #2f6fd0 } .digits { font-size: 10px; fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    .sheet { fill: #14181f } .room { fill: #1f2630; stroke: #56606e } .way { fill: #1b2d4a; stroke: #6ea3f5 }
    .import { stroke: #6b7686 } text { fill: #e3e8ef } .number { fill: #6ea3f5 } .digits { fill: #14181f }
  }
"""


def room_of(module: str) -> str:
    """Return the room of a module: its package, or `words` for the values and types used everywhere."""
    return "words" if top_level(module) in FOUNDATION else top_level(module)


def rows() -> list[list[str]]:
    """Return the rooms layer by layer, the surfaces first."""
    layers = [sorted({room_of(name) for name in layer if not name.startswith("__")}) for layer in LAYERS]
    return [layer for layer in reversed(layers) if layer]


def edges() -> set[tuple[str, str]]:
    """Return which room imports which, without the imports that another way implies."""
    below = {
        room: {room_of(other) for module in MODULES if room_of(module) == room for other in hilt_imports(module)}
        for row in rows()
        for room in row
    }
    place = {room: number for number, row in enumerate(rows()) for room in row}
    down = {room: {other for other in others if place.get(other, 0) > place[room]} for room, others in below.items()}

    def reached(room: str) -> set[str]:
        return down[room].union(*(reached(other) for other in down[room]))

    return {
        (room, other)
        for room, others in down.items()
        for other in others
        if not any(other in reached(between) for between in others)
    }


def steps() -> dict[str, list[int]]:
    """Return the rooms that a call passes, each with the numbers of its steps in the table of the page."""
    table = ARCHITECTURE.read_text(encoding="utf-8").partition("| step | where |")[2].partition("\n\n")[0]
    passed: dict[str, list[int]] = {}
    for number, line in enumerate(table.strip().splitlines()[2:], 1):
        names = re.findall(r"`(\w+)", line.split("|")[2])
        for room in dict.fromkeys(room_of(name) for name in names):
            passed.setdefault(room, []).append(number)
    return passed


def draw() -> str:
    """Return the picture."""
    passed = steps()
    boxes: dict[str, tuple[float, float, float]] = {}
    for number, row in enumerate(rows()):
        widths = [len(room) * LETTER + 24 + STEP * len(passed.get(room, ())) for room in row]
        left = (WIDTH - sum(widths) - GAP * (len(row) - 1)) / 2
        for room, width in zip(row, widths, strict=True):
            boxes[room] = (left, MARGIN + number * ROW, width)
            left += width + GAP
    height = 2 * MARGIN + ROW * (len(rows()) - 1) + HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<title>The packages of hilt, what they import, and the steps of a call</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="sheet" width="{WIDTH}" height="{height}"/>',
            *(_curve(boxes[upper], boxes[lower]) for upper, lower in sorted(edges())),
            *(_room(room, box, passed.get(room, [])) for room, box in boxes.items()),
            "</svg>\n",
        ]
    )


def _curve(upper: tuple[float, float, float], lower: tuple[float, float, float]) -> str:
    x, y = upper[0] + upper[2] / 2, upper[1] + HEIGHT
    end_x, end_y = lower[0] + lower[2] / 2, lower[1]
    bend = (end_y - y) / 2
    return (
        f'<path class="import" d="M{x:.0f} {y:.0f} C{x:.0f} {y + bend:.0f} {end_x:.0f} {end_y - bend:.0f}'
        f' {end_x:.0f} {end_y:.0f}"/>'
    )


def _room(room: str, box: tuple[float, float, float], numbers: list[int]) -> str:
    left, top, width = box
    kind = "way" if numbers else "room"
    parts = [
        f'<rect class="{kind}" x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="5"/>',
        f'<text x="{left + 12:.0f}" y="{top + 22:.0f}">{escape(room)}</text>',
    ]
    first = left + 12 + len(room) * LETTER + STEP / 2 + 3
    for place, number in enumerate(numbers):
        x, y = first + place * STEP, top + HEIGHT / 2
        parts += [
            f'<circle class="number" cx="{x:.0f}" cy="{y:.0f}" r="8"/>',
            f'<text class="digits" x="{x:.0f}" y="{y + 3.5:.1f}" text-anchor="middle">{number}</text>',
        ]
    return "".join(parts)


def main() -> int:
    """Write the picture, or with --check compare it, and return the exit status."""
    picture = draw()
    if "--check" not in sys.argv:
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        print(f"{PICTURE.name} is not what scripts/rooms.py draws: run python -m scripts.rooms")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
