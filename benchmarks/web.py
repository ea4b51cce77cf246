"""Fetching a web page as Markdown, and truncating an endless one."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchmarks.clock import best
from benchmarks.figure import Figure
from benchmarks.place import fresh_place
from benchmarks.program import request, session

SIZE = 1024 * 1024
PARAGRAPH = (
    "<p>A paragraph of a page that explains something, with <a href='/part/{0}#more'>a link to part {0}</a>, a name "
    "such as <code>value_{0}</code>, and a few <em>words</em> that matter more than the others, which go on for as "
    "long as paragraphs in documents of this kind usually do, so that a reader knows what it is about.</p>\n"
)
SECTION = (
    "<section id='part-{0}'><h2>Part {0}</h2>\n{1}<pre><code class='language-python'>def part_{0}(value):\n"
    "    return value + {0}\n</code></pre>\n<ul><li>first of {0}</li><li>second of {0}</li></ul>\n"
    "<table><tr><th>name</th><th>value</th></tr><tr><td>part</td><td>{0}</td></tr></table></section>\n"
)


def figures() -> Iterator[Figure]:
    """Measure a page of 1 MB against its plain download and its plain conversion, and the memory of an endless one."""
    page = _page()
    with _site(page) as port, fresh_place() as place:
        place.environ["HILT_ALLOW_PRIVATE"] = f"127.0.0.1:{port}"
        html = page.decode()
        with session(place) as hilt:
            numbers = iter(range(1000))

            def fetch() -> None:
                url = f"http://127.0.0.1:{port}/page?{next(numbers)}"  # a new URL each time: pages are cached
                hilt.ask(request("web_fetch", url=url, max_size=2 * SIZE))

            def reference() -> None:
                _download(port)
                _convert(html)

            base, took = best(10, reference, fetch)
        yield Figure("web_fetch of 1 MB as Markdown", took, "ms", "download and conversion", base, max_ratio=1.5)
        for kind in ("text", "html", "packed"):
            with session(place) as hilt:
                hilt.call("list_tools")
                idle = hilt.memory()
                hilt.reset_peak()
                hilt.ask(request("web_fetch", url=f"http://127.0.0.1:{port}/endless-{kind}", max_size=500_000))
                used = hilt.peak() - idle
            yield Figure(f"web_fetch of an endless body ({kind}), memory", used, "MB", "idle session", idle, maximum=40)


def _page() -> bytes:
    sections: list[str] = []
    size = 0
    while size < SIZE:
        number = len(sections)
        sections.append(SECTION.format(number, "".join(PARAGRAPH.format(number * 8 + part) for part in range(8))))
        size += len(sections[-1])
    body = "".join(sections)
    return f"<!doctype html><title>Parts</title><nav>menu</nav><main>{body}</main><footer>end</footer>".encode()


def _download(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/page")
    connection.getresponse().read()
    connection.close()


def _convert(html: str) -> None:
    from html_to_markdown import convert

    convert(html)


@contextmanager
def _site(page: bytes) -> Iterator[int]:
    """Run a server in its own process, so that it does not distort the measurement."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            try:
                while True:
                    line, _ = listener.accept()
                    threading.Thread(target=_serve, args=(line, page), daemon=True).start()
            finally:
                os._exit(0)
        port: int = listener.getsockname()[1]
        try:
            yield port
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)


def _serve(line: socket.socket, page: bytes) -> None:
    import zlib

    with line, suppress(OSError):
        path = line.recv(65536).split(b" ")[1]
        if path.startswith(b"/page"):
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n"
            line.sendall(head % len(page) + page)
            line.shutdown(socket.SHUT_WR)
            return
        kind = b"text/plain" if path.endswith(b"text") else b"text/html"
        piece = b"<p>one more paragraph of a page that never ends</p>\n" * 1000
        head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n"
        if path.endswith(b"packed"):
            head += b"Content-Encoding: gzip\r\n"
            packer = zlib.compressobj(9, zlib.DEFLATED, 31)
            piece = packer.compress(piece * 200) + packer.flush()
        line.sendall(head + b"\r\n")
        while True:
            line.sendall(piece)
