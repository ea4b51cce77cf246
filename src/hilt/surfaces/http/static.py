"""The files of the console, read once: no path of a request ever reaches the file system (ADR 0039)."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from typing import NamedTuple

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "console")
START = "index.html"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_COMPRESSED = (".html", ".css", ".js", ".json", ".svg", ".txt")
_HASHED = re.compile(r"-[0-9A-Z]{8}\.\w+\Z")  # a name that changes with the content
_PAGES = re.compile(rb'<meta name="pages" content="([\w ]+)">')
_COMPRESS_MIN = 1024  # bytes; compressing less is not worth it


class StaticFile(NamedTuple):
    """A file, ready to send."""

    body: bytes
    compressed: bytes | None
    kind: str
    tag: str
    is_hashed: bool


def read_files(folder: str = FOLDER) -> dict[str, StaticFile]:
    """Return the files of the console by URL path; skip files of other types."""
    files: dict[str, StaticFile] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            kind = _TYPES.get(os.path.splitext(name)[1])
            if kind is not None:
                path = os.path.join(parent, name)
                files["/" + os.path.relpath(path, folder).replace(os.sep, "/")] = _read(path, kind)
    start = files.pop("/" + START)
    return {**files, "/": start, **{f"/{page}": start for page in pages(start)}}


def pages(start: StaticFile) -> list[str]:
    """Return the pages of the console, as the build has written them into the start page, which each path serves."""
    match = _PAGES.search(start.body)
    return match[1].decode().split() if match else []


def _read(path: str, kind: str) -> StaticFile:
    with open(path, "rb") as file:
        body = file.read()
    compressed = None
    if path.endswith(_COMPRESSED) and len(body) >= _COMPRESS_MIN:
        compressed = gzip.compress(body, 9, mtime=0)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return StaticFile(body, compressed, kind, tag, _HASHED.search(path) is not None)
