"""Limit the nesting of HTML so that parsing takes linear time: drop tags that are too deep or too large.

A parser spends time in proportion to the depth at every tag, so a few hundred kilobytes of `<div>` would block the
process for minutes. The depth is overestimated: an end tag counts only if it certainly closes something. SVG is dropped
entirely and MathML loses its outer tag, because inside them other parsing rules apply and the estimate would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DEPTH = 400
TAG_CHARACTERS = 20_000
ATTRIBUTES = 300

# possessive quantifiers: no backtracking
_ATTRIBUTES = r"""(?:[\s/]+|[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+)*+"""
_TOKEN = re.compile(
    rf"<(?:(/?)([a-z][^\s/>]*+)({_ATTRIBUTES})>?+|!--(?:-?>|.*?--!?>|.*)|[!?/][^>]*+)", re.DOTALL | re.ASCII
)
_ATTRIBUTE = re.compile(r"[\s\"'][^\s=>]+")
_EMPTY = re.compile(r"""(?:\s+[^\s/>="'<]+="[^"<]*+")*+\s*+/""")
_IN_DRAWING = re.compile(r"<!--.*?(?:-->|\Z)|<!\[cdata\[.*?(?:\]\]>|\Z)|<(/?)svg(?=[\s/>])", re.DOTALL)
# tags that end an SVG which is never closed
_OUTSIDE = re.compile(
    r"<(?:b|big|blockquote|body|br|center|code|dd|div|dl|dt|em|embed|h[1-6]|head|hr|i|img|li|listing|menu|meta|nobr|ol|p"
    r"|pre|ruby|s|small|span|strong|strike|sub|sup|table|tt|u|ul|var|font)(?=[\s/>])"
)
# tags that are closed implicitly, and void elements
_SHALLOW = frozenset(
    (
        *("p", "td", "th", "tr", "tbody", "thead", "tfoot", "option"),
        *(
            "area",
            "base",
            "br",
            "col",
            "embed",
            "hr",
            "img",
            "input",
            "link",
            "meta",
            "param",
            "source",
            "track",
            "wbr",
        ),
    )
)
# closed by the next one, or by the end of the list
_ITEMS = {"li": "li", "dt": "dd", "dd": "dd"}
_LISTS = frozenset(("ul", "ol", "dl", "menu"))
# raw text elements; inside a script even its end tag may be text
_RAW = {
    name: re.compile(rf"</{name}(?=[\s/>])")
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}
# a frameset has no text, and a script inside it is not raw text
_DROPPED = frozenset(("svg", "math", "frameset"))


def flattened(html: str) -> str:
    """Return HTML without tags that are too deep or too large."""
    pieces, last = [], 0
    # some non-ASCII letters change their length in lower case
    for start, end in _excess(html.lower() if html.isascii() else _lower(html)):
        pieces.append(html[last:start])
        last = end
    return " ".join((*pieces, html[last:])) if pieces else html


def _excess(html: str) -> Iterator[tuple[int, int]]:
    """Yield the spans to drop; `html` is in lower case."""
    open_tags: list[str] = []
    unsure = False  # whether tags may be text of a script
    balanced = True  # whether every SVG so far was closed
    position = 0
    search = _TOKEN.search
    while token := search(html, position):
        position = token.end()
        is_end, name, attributes = token.groups()
        if name is None or name in _SHALLOW:
            if attributes and _is_overloaded(attributes):
                yield token.start(), position
        elif is_end:
            if not unsure:
                _close(open_tags, name)
        elif name in _RAW:
            if _is_overloaded(attributes):
                yield token.start(), position
            start, end = position, _RAW[name].search(html, position)
            position = len(html) if end is None else end.start()
            if name == "script" and html.find("<!--", start, position) >= 0:
                unsure = unsure or html.find("<script", start, position) >= 0
        elif name in _DROPPED or len(open_tags) >= DEPTH or _is_overloaded(attributes):
            if name == "svg" and not _EMPTY.fullmatch(attributes):
                closed = _end_of_drawing(html, position) if balanced else 0
                balanced = closed > 0
                outside = None if balanced else _OUTSIDE.search(html, position)
                position = closed or (len(html) if outside is None else outside.start())
            yield token.start(), position
        elif not open_tags or _ITEMS.get(name) != open_tags[-1]:
            open_tags.append(_ITEMS.get(name, name))


def _close(open_tags: list[str], name: str) -> None:
    """Close the tags that an end tag certainly closes."""
    name = _ITEMS.get(name, name)
    if open_tags and open_tags[-1] == name:
        open_tags.pop()
    elif name in _LISTS and len(open_tags) > 1 and open_tags[-1] in ("li", "dd") and open_tags[-2] == name:
        del open_tags[-2:]


def _is_overloaded(attributes: str) -> bool:
    return len(attributes) > TAG_CHARACTERS and len(_ATTRIBUTE.findall(attributes)) > ATTRIBUTES


def _end_of_drawing(html: str, position: int) -> int:
    """Return where the SVG around `position` ends; 0 if it is never closed."""
    depth = 1
    for tag in _IN_DRAWING.finditer(html, position):
        if tag[1] is not None:
            depth += -1 if tag[1] else 1
            if not depth:
                closing = html.find(">", tag.end())
                return len(html) if closing < 0 else closing + 1
    return 0


def _lower(html: str) -> str:
    return re.sub("[A-Z]+", lambda match: match[0].lower(), html)
