"""The budget of the content blocks of one result: images, audio and files, whichever tool returned them."""

from __future__ import annotations

from typing import Any

from hilt.formats.pictures import dimensions, hides_size

BLOCKS = 100
CHARACTERS = 8 << 20  # of base64
PIXELS = 64_000_000  # of all images
_NAMED = 5  # blocks left out that the note describes


def within_budget(blocks: tuple[dict[str, Any], ...], text_limit: int) -> tuple[tuple[dict[str, Any], ...], str]:
    """Return the blocks that fit in the budget, and a note on the rest; `text_limit` applies to their text."""
    fitting: list[dict[str, Any]] = []
    left_out: list[str] = []
    text = data = pixels = 0
    for block in blocks:
        encoded = block.get("data") or _resource(block).get("blob")
        encoded = encoded if isinstance(encoded, str) else ""
        length = _length(block) - len(encoded)
        is_short = text + length <= text_limit and data + len(encoded) <= CHARACTERS and len(fitting) < BLOCKS
        image = _decoded(encoded) if is_short else b""
        width, height = dimensions(image or b"") or (0, 0)
        # programs draw an image by its contents, so one of unknown size may be a bomb
        is_drawn = block.get("type") == "image" and block.get("mimeType") != "image/svg+xml"
        is_known = not is_drawn or (image is not None and not hides_size(image))
        if is_short and is_known and pixels + width * height <= PIXELS:
            fitting.append(block)
            text, data, pixels = text + length, data + len(encoded), pixels + width * height
        else:
            size = f"{width} x {height} pixels" if width else f"{length + len(encoded)} characters"
            size += ", whose header does not tell its width and height" if is_short and not is_known else ""
            left_out.append(f"{str(block['type'])[:20]} of {size}")
    if not left_out:
        return blocks, ""
    listed = ", ".join(left_out[:_NAMED]) + ", ..." * (len(left_out) > _NAMED)
    return tuple(fitting), (
        f"[Left out {len(left_out)} of {len(blocks)} content blocks: {listed}. A result has at most {BLOCKS} blocks, "
        f"{text_limit} characters of text, {CHARACTERS} of data, and {PIXELS} pixels.]"
    )


def _resource(block: dict[str, Any]) -> dict[str, Any]:
    resource = block.get("resource")
    return resource if isinstance(resource, dict) else {}


def _length(block: dict[str, Any]) -> int:
    """Return the number of characters in a block, at any depth."""
    total = 0
    pending: list[Any] = [block]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            pending += value
        else:
            total += len(str(value))
    return total


def _decoded(encoded: str) -> bytes | None:
    from base64 import b64decode

    try:
        return b64decode(encoded, validate=True)
    except ValueError:
        return None  # not base64, although programs may read it
