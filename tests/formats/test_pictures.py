"""The size of an image from its header, compared with Pillow."""

from __future__ import annotations

import io
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
