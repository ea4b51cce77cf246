"""Convert pages for a model: the main content of HTML, without hidden text, as Markdown or plain text; indented JSON.

Parsers spend time in proportion to the depth at every tag, so a small page can take minutes: `convert` and other users
of `parse` run in a limited child process.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from hilt.installer import needs
from hilt.sandbox.decoding import Decoder, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from hilt.fence import Fence

HTML_CHARACTERS = 4_000_000  # the rest of a page is cut off
CELLS = 200_000  # a larger table becomes plain lines: every row would be padded to the longest
STYLE_RULES = 500  # rules that hide something, at most per page
MAIN_CHARACTERS = 200  # an element with less text is not the main content

# never text of the page
_DROPPED = (
    *("script", "style", "noscript", "template", "iframe", "frame", "object", "embed", "canvas", "audio", "video"),
    *("form", "input", "select", "textarea", "button", "datalist", "dialog", "link", "meta", "head"),
)
_BOILERPLATE = (
    *("nav", "footer", "aside", "[role=navigation]", "[role=search]", "[role=contentinfo]", "[role=complementary]"),
    *("[role=banner]", "[role=dialog]", "[role=alertdialog]", "[class*=cookie]", "[id*=cookie]", "[class*=consent]"),
    *("#comments", ".comments", ".comment-list", ".sidebar", "#sidebar", ".breadcrumb", ".breadcrumbs", ".toc"),
    *(".share", ".social", ".advertisement", ".skip-link", "body > header"),
)
_CANDIDATES = (
    "style, [style], [hidden], [aria-hidden], [title], "
    '[href*="script" i], [href*="data" i], [href*="blob" i], [src*="script" i], [src*="data" i], [src*="blob" i]'
)
_REMOVED = "data-hilt-removed"
_NEVER_REMOVED = frozenset(("html", "body", "main", "article"))  # often hidden until a script has run
# declarations that hide an element, in a style without whitespace
_HIDES = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:(?:0|0?\.0\d*)(?![.\d])|font-size:0?\.?[01](?![.\d])(?!r?em)"
    r"|clip(?:-path)?:(?:rect\(0|inset\((?:50|100)%)|(?:left|top|text-indent|margin-left):-\d{3,}|transform:scale\(0\)"
    r"|color:transparent",
    re.IGNORECASE,
)
_CLIPS = re.compile(r"overflow(?:-[xy])?:(?:hidden|clip)", re.IGNORECASE)
_TINY = re.compile(r"(?:height|width):[01](?:px)?(?![.\d%a-z])", re.IGNORECASE)
_BRACE = re.compile("([{}])")
# simple selectors only: no pseudo-classes, no long chains
_SELECTOR = re.compile(r"[\w.#*\[\]=\"'-]{1,100}(?:[ >+~]+[\w.#*\[\]=\"'-]{1,100}){0,3}")
_STYLE_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_BLANKS = re.compile(r"\s+|!important")


_TURNS = threading.BoundedSemaphore(2)
_ADVICE = 'Use extract_mode "raw", or another page.'
_CONVERTER = Decoder(__name__, "convert", _TURNS, _ADVICE, seconds=5)
_INDENTER = Decoder(__name__, "with_indents", _TURNS, _ADVICE)


class WebPage(NamedTuple):
    """The title and the text of a page, and whether it was too long to convert as a whole."""

    title: str
    text: str
    is_cut: bool = False


def read(html: str, base_url: str, fence: Fence, *, plain: bool) -> WebPage:
    """Return the main content of a page, with absolute links; as plain text, or as Markdown."""
    data = html[:HTML_CHARACTERS].encode("utf-8", "replace")
    title, text = decode(_CONVERTER, base_url[:300], data, fence, base_url=base_url, plain=plain)
    return WebPage(title, text, len(html) > HTML_CHARACTERS)


def convert(html: bytes, base_url: str, *, plain: bool) -> tuple[str, str]:
    """Return the title and the main content of a page, as `read` does."""
    with needs("web", "Reading web pages"):
        import html_to_markdown

    tree = parse(html)
    tree.strip_tags(["svg"])  # first, because a drawing also has a title
    tree.unwrap_tags(["math"])
    title = tree.css_first("title")
    title_text = "" if title is None else " ".join(title.text().split())
    base = tree.css_first("base[href]")
    if base is not None:
        from urllib.parse import urljoin

        base_url = urljoin(base_url, base.attributes.get("href") or "")
    _prune(tree)
    body = _main(tree)
    if body is None:
        return title_text, ""
    options = html_to_markdown.ConversionOptions(
        extract_metadata=False,
        base_url=base_url,
        output_format="plain" if plain else "markdown",
        compact_tables=True,
    )
    pruned = body.html or ""
    del tree, title, base, body  # several times the size of the page
    return title_text, html_to_markdown.convert(pruned, options).content or ""


def indented(text: str, url: str, fence: Fence) -> str:
    """Return indented JSON, unless it is not JSON, or indenting makes it many times as long."""
    longer = decode(_INDENTER, url[:300], text.encode("utf-8", "replace"), fence)
    return text if longer is None else str(longer)


def with_indents(data: bytes) -> str | None:
    """Return JSON as `indented` does; None for the text as it is."""
    text = data.decode()
    parts: list[str] = []
    size = 0
    try:
        for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text)):
            parts.append(part)
            size += len(part)
            if size > len(text) * 8 + 1000:
                return None
    except (ValueError, RecursionError):
        return None  # truncated, or not JSON
    return "".join(parts)


def parse(html: bytes) -> LexborHTMLParser:
    """Parse a page in UTF-8."""
    with needs("web", "Reading web pages"):
        from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    try:
        return LexborHTMLParser(html.decode("utf-8", "replace"))
    except SelectolaxError as error:
        raise MemoryError from error  # every page can be parsed


def _prune(tree: LexborHTMLParser) -> None:
    """Remove hidden elements, and elements without text."""
    hidden = []
    sheets = []
    for node in tree.css(_CANDIDATES):  # one pass over the page
        attributes = node.attributes
        if node.tag == "style":
            sheets.append(node.text())
        elif "hidden" in attributes or _is_set(attributes.get("aria-hidden")) or _hides(attributes.get("style") or ""):
            hidden.append(node)
        else:
            _disarm(node)
    selectors = (selector for sheet in sheets for selector in _hiding_selectors(sheet))
    for selector in islice(selectors, STYLE_RULES):
        hidden += _selected(tree, selector)
    _remove(tree, [node for node in hidden if node.tag not in _NEVER_REMOVED])
    tree.strip_tags(list(_DROPPED))
    if _largest_table(tree) > CELLS:
        for cell in tree.css("td, th"):
            cell.insert_after(" ")
        tree.unwrap_tags(["table", "thead", "tbody", "tfoot", "tr", "caption", "colgroup", "td", "th"])


def _is_set(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def _disarm(node: LexborNode) -> None:
    """Remove tooltips, and links that run scripts or embed data."""
    attributes = node.attributes
    if "title" in attributes:
        del node.attrs["title"]
    for name in ("href", "src"):
        link = "".join((attributes.get(name) or "").split()).lower()
        if link.startswith(("javascript:", "data:", "vbscript:", "blob:")):
            del node.attrs[name]


def _remove(tree: LexborHTMLParser, nodes: list[LexborNode]) -> None:
    """Remove elements, some of which may be nested."""
    if not nodes:
        return
    for node in nodes:
        node.attrs[_REMOVED] = ""
    # inner ones first: removing an element frees its children
    for node in reversed(tree.css(f"[{_REMOVED}]")):
        node.decompose()


def _hides(style: str) -> bool:
    compact = _BLANKS.sub("", style)
    return bool(_HIDES.search(compact) or (_CLIPS.search(compact) and _TINY.search(compact)))


def _hiding_selectors(sheet: str) -> Iterator[str]:
    """Yield the selectors of elements that a style sheet hides, outside @media and other at-rules."""
    depth, selectors = 0, ""
    for piece in _BRACE.split(_STYLE_COMMENT.sub("", sheet)):
        if piece in ("{", "}"):
            depth = max(0, depth + (1 if piece == "{" else -1))
        elif depth == 0:
            selectors = piece.rpartition(";")[2].strip()
        elif depth == 1 and not selectors.startswith("@") and _hides(piece):
            yield from filter(_SELECTOR.fullmatch, map(str.strip, selectors.split(",")))


def _selected(tree: LexborHTMLParser, selector: str) -> list[LexborNode]:
    from selectolax.lexbor import SelectolaxError

    try:
        return tree.css(selector)
    except SelectolaxError:
        return []  # not supported by the parser


def _main(tree: LexborHTMLParser) -> LexborNode | None:
    """Return the element with the main content, without navigation and other boilerplate."""
    body = tree.body
    if body is None:
        return None
    main = _longest(tree, "main, [role=main]", MAIN_CHARACTERS)
    length = len(body.text()) if main is None else main[0]
    main = main or _longest(tree, "article", max(MAIN_CHARACTERS, length // 3))
    if main is not None:
        length, body = main
    boilerplate = body.css(", ".join(_BOILERPLATE))
    _remove(tree, [node for node in boilerplate if node.tag not in _NEVER_REMOVED and len(node.text()) * 2 < length])
    return body


def _longest(tree: LexborHTMLParser, selector: str, minimum: int) -> tuple[int, LexborNode] | None:
    """Return the matching element with the most text, and the length of its text, if that is enough."""
    candidates = [(len(node.text()), node) for node in tree.css(selector)]
    longest = max(candidates, key=lambda pair: pair[0], default=None)
    return longest if longest is not None and longest[0] >= minimum else None


def _largest_table(tree: LexborHTMLParser) -> int:
    """Return the number of cells of the largest table, with all rows padded to its longest."""
    rows: dict[int, int] = {}
    longest: dict[int, int] = {}
    for row in tree.css("tr"):
        table = row.parent
        if table is not None and table.tag != "table":
            table = table.parent
        key = 0 if table is None else table.mem_id
        rows[key] = rows.get(key, 0) + 1
        longest[key] = max(longest.get(key, 0), sum(map(_span, row.iter())))
    return max((count * longest[key] for key, count in rows.items()), default=0)


def _span(cell: LexborNode) -> int:
    span = cell.attributes.get("colspan") or ""
    return min(int(span), 1000) if span.isdecimal() and len(span) < 9 else 1
