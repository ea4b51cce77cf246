"""The size of an image from its header, compared with Pillow."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hilt.formats.pictures import dimensions

PAGES = [Image.new("RGBA", (70, 50), color) for color in ("red", "blue")]


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (300, 2), (4000, 3000)])
@pytest.mark.parametrize(
    "kind, options",
    [
        ("PNG", {}),
        ("GIF", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"big_tiff": False, "tiffinfo": {270: "text"}}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("JPEG", {"exif": b"Exif\0\0" + b"x" * 60_000, "comment": b"\xff\xc0"}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0"}),
    ],
)
def test_the_size_is_that_of_pillow(kind: str, options: dict[str, Any], size):
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind, **options)

    assert dimensions(buffer.getvalue()) == size


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_an_animation_has_the_size_of_its_canvas(kind):
    buffer = io.BytesIO()
    PAGES[0].save(buffer, kind, save_all=True, append_images=PAGES[1:])

    assert dimensions(buffer.getvalue()) == (70, 50)


STARTS = [
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"BM",
    b"II*\0\x08\0\0\0",
    b"MM\0*\0\0\0\x08",
    b"\0\0\1\0\2\0",
    b"\xff\xd8",
    b"RIFF1234WEBPVP8 ",
    b"RIFF1234WEBPVP8L",
    b"RIFF1234WEBP",
]


@given(st.sampled_from(STARTS), st.binary(max_size=60))
def test_any_bytes_have_a_size_or_none(start, rest):
    size = dimensions(start + rest)

    assert size is None or min(size) > 0


def test_a_jpeg_of_endless_padding_has_no_size():
    assert dimensions(b"\xff\xd8" + b"\xff" * 5_000_000) is None


@pytest.mark.parametrize("format", ["png", "bmp"])
def test_an_icon_has_the_size_of_its_largest_image(format):
    buffer = io.BytesIO()
    Image.new("RGBA", (256, 200)).save(buffer, "ICO", sizes=[(16, 16), (256, 200)], bitmap_format=format)
    icon = buffer.getvalue()

    # a bitmap of an icon has as many rows again for its mask
    assert dimensions(icon) == (256, 200 if format == "png" else 400)
    assert dimensions(icon.replace(icon[22:26], b"\1\1\0\0")) == dimensions(icon)


def saved(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (3000, 2000)).save(buffer, kind)
    return buffer.getvalue()


def screen(width: int, height: int) -> bytes:
    picture = saved("GIF")
    return picture[:6] + struct.pack("<HH", width, height) + picture[10:]


def misleading(mark: bytes) -> bytes:
    """A JPEG whose real frame comes before a forged one, for a reader that takes what follows the mark for a length."""
    picture = saved("JPEG")
    forged = b"\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00"
    comment = b"\xff\xfe" + struct.pack(">H", 65000) + b"x" * 64998
    rest = 2 + 2 + 0xFFFE - 2 - 2 - len(comment) - 4
    return (
        picture[:2] + mark + comment + b"\xff\xfe" + struct.pack(">H", rest + 15) + b"x" * rest + forged + picture[2:]
    )


def header(width: int, height: int) -> bytes:
    return b"\0\0\0\x0dIHDR" + struct.pack(">II", width, height) + b"\x08\0\0\0\0" + b"\0\0\0\0"


def chunks(*chunks: bytes) -> bytes:
    """A PNG of these chunks; Pillow, unlike libpng, takes its size from the last header."""
    return b"".join((b"\x89PNG\r\n\x1a\n", *chunks, b"\0\0\0\0IDAT\0\0\0\0"))


@pytest.mark.parametrize(
    "data, expected",
    [
        (screen(1, 1), (3000, 2000)),
        (screen(0, 0), (3000, 2000)),
        (screen(5000, 1), (5000, 2000)),
        (screen(1, 1).replace(b",\0\0\0\0", b"!\xfe\x03,\1\0\0!\xf9\4\0\0\0\0\0,\0\0\0\0", 1), (3000, 2000)),
        (misleading(b"\xff\xd0"), None),
        (misleading(b"\xff\xd8"), None),
        (misleading(b"\xff\x01"), None),
        (b"\xff\xd8\xff\xee\0\0" + saved("JPEG")[2:], None),
        (saved("PNG")[:8] + b"\0\0\0\x08tEXt" + b"\0\0\0\1" * 3 + saved("PNG")[8:], None),
        (chunks(header(1, 1), header(3000, 2000)), None),
        (chunks(header(1, 1), b"\0\0\0\x04tEXtIDAT\0\0\0\0", header(3000, 2000)), None),
        (b"RIFF\0\0\0\0WEBPEXIF\x08\0\0\0" + b"\0" * 8 + saved("WEBP")[12:], None),
    ],
)
def test_a_header_that_programs_read_differently_does_not_hide_a_large_image(data, expected):
    assert dimensions(data) == expected
