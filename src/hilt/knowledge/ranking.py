"""How relevant a document is to a query: the share of the query terms it covers, weighted by field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hilt.knowledge import words

THRESHOLD = 0.3  # below this, a document merely shares a word with the query
MATCHED_TERMS = 16
TERMS_MAX = 256
LONG_TERMS = 12  # a longer query is pasted output: terms that no document has are noise
SUBJECT_TERMS = 6  # so many of the weightiest terms are what a long question is about
ROOM = 2500  # documents that the rarest terms may lead to, all together
HEAD_TERMS = 3
FEW = 50  # so few documents do not tell which words are frequent
EDGE_CHARACTERS = 16 * 1024

_FIELDS = (1.0, 1.0, 0.7, 0.35)  # title, tags, description, text


class QueryTerm(NamedTuple):
    """A query term: its word, its weight, and how many documents have it."""

    term: str
    word: str
    weight: float
    documents: int


class Query(NamedTuple):
    """A question as weighed terms, the weightiest first, what a full answer would weigh, and how many terms it has."""

    terms: tuple[QueryTerm, ...]
    whole: float
    size: int

    @property
    def match(self) -> str:
        """The terms to look up, as FTS5 wants them; empty when no document can answer.

        The rarest are looked up everywhere, as long as they lead to few documents; the next ones only in title, tags
        and description, where a frequent word still says something.
        """
        anywhere: list[str] = []
        heads: list[str] = []
        room = ROOM
        for asked in self.terms:
            quoted = f'"{asked.term}"'
            if asked.documents <= room and not heads:
                anywhere.append(quoted)
                room -= asked.documents
            elif len(heads) < HEAD_TERMS:
                heads.append(quoted)
        parts = [*anywhere, *([f"{{title tags description}} : ({' OR '.join(heads)})"] if heads else ())]
        return " OR ".join(parts)


def ask(text: str) -> dict[str, str]:
    """Return the distinct terms of a query, in order, each with its word; the middle of a long text is skipped."""
    if len(text) > 2 * EDGE_CHARACTERS:
        text = f"{text[:EDGE_CHARACTERS]}\n{text[-EDGE_CHARACTERS:]}"
    found: dict[str, str] = {}
    for term, word in words.terms(text):
        if len(found) >= TERMS_MAX:
            break
        if not (term.isdigit() and len(term) > 4):  # addresses and line numbers
            found.setdefault(term, word.lower())
    return found


def weigh(asked: Mapping[str, str], frequencies: Mapping[str, int], total: int) -> Query:
    """Return the question with each term weighed by how few of the `total` documents have it."""
    total = max(total, FEW)
    known = {term: math.log1p((total - count + 0.5) / (count + 0.5)) for term, count in frequencies.items()}
    if not known:
        return Query((), 0.0, 0)
    average = sum(known.values()) / len(known)
    terms = [QueryTerm(term, word, known.get(term, average), frequencies.get(term, 0)) for term, word in asked.items()]
    if len(terms) > LONG_TERMS:
        terms = [term for term in terms if term.documents]
    terms.sort(key=lambda term: -term.weight)
    subject = terms[:SUBJECT_TERMS]
    whole = sum(term.weight for term in subject)
    return Query(tuple(term for term in terms if term.documents)[:MATCHED_TERMS], whole, len(subject))


def score(question: Query, fields: Sequence[str]) -> tuple[float, list[str]]:
    """Return how much of the query a document covers, from 0 to 1, and the words it matches.

    It is the share of its words, or of their weight where that is more: a word that every document has still matches
    them all. One word that stands once in the text and nowhere else is a coincidence.
    """
    covered = counted = 0.0
    matched = []
    said = 0
    for asked in question.terms:
        inner = f" {asked.term} "
        for share, field in zip(_FIELDS, fields, strict=True):
            if inner in field:
                covered += asked.weight * share
                counted += share
                matched.append(asked.word)
                said += 2 if share > _FIELDS[-1] else field.count(inner)
                break
    if said < 2 or not question.whole:
        return 0.0, []
    return min(1.0, max(covered / question.whole, counted / question.size)), matched
