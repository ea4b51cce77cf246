"""Scales images down, and extracts the text of PDFs: the part of reading that runs in a limited child process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from hilt.errors import ToolError
from hilt.sandbox.decoding import Decoder

IMAGE_BYTES = 5 * 1024 * 1024
IMAGE_PIXELS = 8000  # of width or height
SCALED_PIXELS = 2000

PDF_ADVICE = "convert the PDF to text first (pdftotext, pdftk, or a cloud OCR service) and read the text file"

_ONE_AT_A_TIME = threading.BoundedSemaphore()
SCALER = Decoder(__name__, "scaled", _ONE_AT_A_TIME, "Ask the user for a smaller image.")
PDF_READER = Decoder(__name__, "pdf_text", _ONE_AT_A_TIME, PDF_ADVICE, seconds=30)


def scaled(data: bytes, name: str) -> tuple[int, int, str | None] | None:
    """Return the size of an image and, if it is too large, a smaller JPEG in base64; None if Pillow cannot read it."""
    try:
        from PIL import Image
    except ImportError:
        return None
    import io
    import warnings
    from base64 import b64encode

    warnings.simplefilter("ignore")
    try:
        picture = Image.open(io.BytesIO(data))
        width, height = picture.size
        if len(data) <= IMAGE_BYTES and max(width, height) <= IMAGE_PIXELS:
            return width, height, None
        check_pixels(name, width, height)
        scale = min(1.0, SCALED_PIXELS / max(width, height))
        smaller = picture.convert("RGB").resize((max(1, int(width * scale)), max(1, int(height * scale))))
        buffer = io.BytesIO()
        smaller.save(buffer, "JPEG", quality=85)
    except (MemoryError, ToolError):
        raise
    except Exception:  # noqa: BLE001 -- Pillow raises many kinds of errors for broken images
        return None
    return width, height, b64encode(buffer.getvalue()).decode()


def check_pixels(name: str, width: int, height: int) -> None:
    """Raise if decoding an image would take too much memory, however few bytes it has."""
    if width * height > IMAGE_PIXELS**2:
        raise ToolError(
            "file_too_large",
            f"The image {name} is too large: {width} x {height} pixels; the limit is {IMAGE_PIXELS**2} in all.",
            suggestion=SCALER.advice,
        )


def too_large(name: str, size: str) -> ToolError:
    """Return the error for an image that cannot be scaled down."""
    from hilt.installer import add_command

    return ToolError(
        "file_too_large",
        f"The image {name} is too large: {size}; the limits are {IMAGE_BYTES} bytes and {IMAGE_PIXELS} pixels.",
        suggestion='Ask the user for a smaller image, or to install the extra "documents", which scales images down: '
        + add_command("documents"),
    )


def pdf_text(data: bytes, name: str) -> str:
    """Return the text of a PDF, page by page."""
    try:
        import pypdfium2
    except ImportError:
        from hilt.installer import add_command, missing

        advice = f"{missing('documents', f'Reading {name}', 'pypdfium2')} To install it: {add_command('documents')}"
        raise ToolError("unsupported_file", advice, suggestion=PDF_ADVICE) from None
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            return "\n".join(_pages(document)) + "\n"
    except pypdfium2.PdfiumError as error:
        message = f"{name} is a PDF; its text cannot be extracted."
        raise ToolError("unsupported_file", message, suggestion=PDF_ADVICE) from error


def _pages(document: Any) -> Iterator[str]:
    for number in range(len(document)):
        with closing(document[number]) as page, closing(page.get_textpage()) as text:
            yield f"[page {number + 1} of {len(document)}]\n" + text.get_text_range().replace("\r\n", "\n")
