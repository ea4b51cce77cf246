"""The width and height of an image, from its header alone.

A header that programs may read in different ways has no size here: a bomb would be let through as a small image.
"""

from __future__ import annotations

from struct import error, unpack_from

_SEGMENTS = 1000  # of a PNG, JPEG or GIF, before its first pixels
_ICONS = 100  # in one file
_PNG = b"\x89PNG\r\n\x1a\n"
# first bytes of what programs may draw although its size is not found; what is not an image at all is never drawn
_DRAWN = (
    *(_PNG, b"\xff\xd8", b"GIF8", b"RIFF", b"\0\0\1\0", b"\0\0\2\0", b"\xff\x0a", b"\0\0\0\x0cJXL "),
    *(
        b"\0\0\0\x0cjP  ",
        b"\xff\x4f\xff\x51",
        b"II*\0",
        b"MM\0*",
        b"II+\0",
        b"MM\0+",
        b"icns",
        b"8BPS",
        b"DDS ",
        b"qoif",
    ),
    *(b"P%d" % number for number in range(1, 8)),
)
_ALONE = (0x01, *range(0xD0, 0xDA))  # marks of a JPEG without a length


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, JPEG, GIF, WebP, BMP, TIFF or ICO; None for others and broken ones."""
    try:
        return _dimensions(data)
    except (error, IndexError):
        return None  # the header is incomplete


def hides_size(data: bytes) -> bool:
    """Whether programs may draw this, although its header does not tell its width and height."""
    try:
        is_unknown = _dimensions(data) is None
    except (error, IndexError):
        return False  # it ends before its size
    return is_unknown and (data.startswith(_DRAWN) or data[4:8] == b"ftyp")


def _dimensions(data: bytes) -> tuple[int, int] | None:
    width = height = 0
    if data.startswith(_PNG):
        width, height = _png(data)
    elif data.startswith((b"GIF87a", b"GIF89a")):
        width, height = _gif(data)
    elif data.startswith(b"BM"):
        is_old = unpack_from("<I", data, 14)[0] == 12
        width, height = map(abs, unpack_from("<HH" if is_old else "<ii", data, 18))
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        width, height = _webp(data)
    elif data.startswith(b"\xff\xd8"):
        width, height = _jpeg(data)
    elif data.startswith((b"II*\0", b"MM\0*")):
        width, height = _tiff(data, "<" if data.startswith(b"I") else ">")
    elif data.startswith((b"\0\0\1\0", b"\0\0\2\0")):
        width, height = _icon(data)
    return (width, height) if width and height else None


def _png(data: bytes, start: int = 0) -> tuple[int, int]:
    """Return the size in the first chunk; none if there is another header, because some programs read the last one."""
    kind, width, height = unpack_from(">4sII", data, start + 12)
    if kind != b"IHDR":
        return 0, 0
    position = start + 33
    for _ in range(_SEGMENTS):
        kind = data[position + 4 : position + 8]
        if kind == b"IHDR":
            break
        if kind in (b"IDAT", b""):
            return width, height
        position += 12 + unpack_from(">I", data, position)[0]
    return 0, 0


def _gif(data: bytes) -> tuple[int, int]:
    """Return the size of the screen, or of what it needs for the first frame: programs enlarge it."""
    width, height, flags = unpack_from("<HHB", data, 6)
    position = 13 + (6 << (flags & 7) if flags & 0x80 else 0)
    for _ in range(_SEGMENTS):
        if data[position] == 0x2C:
            left, top, frame_width, frame_height = unpack_from("<4H", data, position + 1)
            return max(width, left + frame_width), max(height, top + frame_height)
        if data[position] != 0x21:
            break
        position += 2
        while data[position]:
            position += 1 + data[position]
        position += 1
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    if data[12:16] == b"VP8 ":
        width, height = unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if data[12:16] == b"VP8L":
        bits = unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if data[12:16] == b"VP8X":
        return unpack_from("<I", data, 24)[0] % (1 << 24) + 1, unpack_from("<I", data, 26)[0] // 256 + 1
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    """Return what the frame header says, the first segment that is not metadata or a table."""
    position = 2
    for _ in range(_SEGMENTS):
        mark, kind, length = unpack_from(">BBH", data, position)
        if mark != 0xFF or (kind != 0xFF and (kind in _ALONE or length < 2)):
            break
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = unpack_from(">HH", data, position + 5)
            return width, height
        position += 1 if kind == 0xFF else 2 + length  # a mark may be padded
    return 0, 0


def _tiff(data: bytes, order: str) -> tuple[int, int]:
    """Return the size of the first page; none if a field of it occurs twice."""
    start = unpack_from(order + "I", data, 4)[0]
    sizes: dict[int, int] = {}
    for number in range(unpack_from(order + "H", data, start)[0]):
        position = start + 2 + 12 * number
        tag, kind, count = unpack_from(order + "HHI", data, position)
        if tag in (256, 257):
            if tag in sizes or count != 1 or kind not in (3, 4):
                return 0, 0
            sizes[tag] = unpack_from(order + ("H" if kind == 3 else "I"), data, position + 8)[0]
    return sizes.get(256, 0), sizes.get(257, 0)


def _icon(data: bytes) -> tuple[int, int]:
    """Return the largest width and height of the images in it, which may be larger than its directory says."""
    count = unpack_from("<H", data, 4)[0]
    starts = [unpack_from("<I", data, 18 + 16 * number)[0] for number in range(min(count, _ICONS + 1))]
    sizes = [_png(data, at) if data.startswith(_PNG, at) else unpack_from("<ii", data, at + 4) for at in starts]
    if not 0 < count <= _ICONS or (0, 0) in sizes:
        return 0, 0
    return max(abs(width) for width, _ in sizes), max(abs(height) for _, height in sizes)
