"""Splits text into terms, with the same rules for documents and queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import normalize

TERM_CHARACTERS = 64

_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED = ("\u3040", "\uac00", "\ud7a4")  # from kana to ideographs, and Hangul: scripts written without spaces

_STOP_WORDS = """
a about above after again all also am an and any are as at be because been before being below between both but by can
could did do does doing don down during each few for from further get give had has have having he hello help her here
hers hi him his how i if in into is it its itself just let like many me more most much must my need no nor not now of
off on once only or other our out over own per please same she should show so some such tell than thank thanks that the
their them then there these they this those through to today too try under until up us use used using very want was we
were what when where which while who why will with would yes yet you your
"""
STOP = frozenset(_STOP_WORDS.split())


def terms(text: str) -> Iterator[tuple[str, str]]:
    """Yield (term, word) for everything in the text that can be looked up, in order, with repetitions.

    A name such as `fetchUser` counts as itself and as its parts.
    """
    if not text.isascii():
        # drop accents of Latin letters, as people omit them; marks of other scripts change the letter
        unaccented = (mark for mark in normalize("NFKD", text) if not "\u0300" <= mark <= "\u036f")
        text = normalize("NFC", "".join(unaccented))
    for word in _WORD.findall(text):
        parts = _CAMEL_CASE.split(word) if not (word.islower() or word.isupper()) else [word]
        for part in [word, *parts] if len(parts) > 1 else parts:
            folded = part.casefold()[:TERM_CHARACTERS]
            if folded >= _UNSPACED[0] and _is_unspaced(folded):
                yield from ((folded[at : at + 2], part) for at in range(max(1, len(folded) - 1)))
            elif len(folded) > 1 and folded not in STOP:
                yield stem(folded), part


def indexed(text: str) -> str:
    """Return the terms of a text as one string, with a space before and after each."""
    return f" {' '.join(term for term, _ in terms(text))} "


def stem(word: str) -> str:
    """Return a word without its English endings."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and any(v in word[: -len(ending)] for v in "aeiouy"):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _is_unspaced(word: str) -> bool:
    first = word[0]
    return "\u3040" <= first <= "\u9fff" or _UNSPACED[1] <= first < _UNSPACED[2]
