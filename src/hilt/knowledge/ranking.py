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
SUBJECT_TERMS = 6  # this many of the weightiest terms are the subject of a long query
DOCUMENTS_MAX = 2500  # that the rarest terms may match in total
HEAD_TERMS = 3
DOCUMENTS_MIN = 50  # fewer documents do not show which words are frequent
EDGE_CHARACTERS = 16 * 1024

_FIELDS = (1.0, 1.0, 0.7, 0.35)  # title, tags, description, text


class QueryTerm(NamedTuple):
    """A query term: its word, its weight, and how many documents have it."""

    term: str
    word: str
    weight: float
    documents: int


class Query(NamedTuple):
    """A query: its weighted terms, heaviest first, the total weight and number of its subject terms.

    `is_one_word`: nothing else was asked for, not even in words such as "what is the".
    """

    terms: tuple[QueryTerm, ...]
    subject_weight: float
    subject_size: int
    is_one_word: bool

    @property
    def match(self) -> str:
        """The terms as an FTS5 query; empty if no document can match.

        The rarest terms are looked up everywhere, as long as they match few documents; the next ones only in title,
        tags and description, where a frequent word is still significant.
        """
        anywhere: list[str] = []
        heads: list[str] = []
        remaining = DOCUMENTS_MAX
        for term in self.terms:
            quoted = f'"{term.term}"'
            if term.documents <= remaining and not heads:
                anywhere.append(quoted)
                remaining -= term.documents
            elif len(heads) < HEAD_TERMS:
                heads.append(quoted)
        parts = [*anywhere, *([f"{{title tags description}} : ({' OR '.join(heads)})"] if heads else ())]
        return " OR ".join(parts)


def query_terms(text: str) -> dict[str, str]:
    """Return the distinct terms of a query, in order, each with its word; the middle of a long text is skipped."""
    if len(text) > 2 * EDGE_CHARACTERS:
        text = f"{text[:EDGE_CHARACTERS]}\n{text[-EDGE_CHARACTERS:]}"
    words_by_term: dict[str, str] = {}
    for term, word in words.terms(text):
        if len(words_by_term) >= TERMS_MAX:
            break
        if not (term.isdigit() and len(term) > 4):  # addresses and line numbers
            words_by_term.setdefault(term, word.lower())
    return words_by_term


def weigh(text: str, words_by_term: Mapping[str, str], frequencies: Mapping[str, int], total: int) -> Query:
    """Return the query with each term weighted by how few of the `total` documents have it."""
    is_one_word = len(text.split()) == 1
    total = max(total, DOCUMENTS_MIN)
    weights = {term: math.log1p((total - count + 0.5) / (count + 0.5)) for term, count in frequencies.items()}
    if not weights:
        return Query((), 0.0, 0, is_one_word)
    average = sum(weights.values()) / len(weights)
    terms = [
        QueryTerm(term, word, weights.get(term, average), frequencies.get(term, 0))
        for term, word in words_by_term.items()
    ]
    if len(terms) > LONG_TERMS:
        terms = [term for term in terms if term.documents]
    terms.sort(key=lambda term: -term.weight)
    subject = terms[:SUBJECT_TERMS]
    subject_weight = sum(term.weight for term in subject)
    matched = tuple(term for term in terms if term.documents)[:MATCHED_TERMS]
    return Query(matched, subject_weight, len(subject), is_one_word)


def score(query: Query, fields: Sequence[str]) -> tuple[float, list[str]]:
    """Return how much of the query a document covers, from 0 to 1, and the words it matches.

    The score is the share of the query terms or of their weight, whichever is larger: a term that every document has
    still matches them all. One of several words that occurs once, and only in the text, is a coincidence.
    """
    covered = counted = 0.0
    matched = []
    occurrences = 0
    for term in query.terms:
        needle = f" {term.term} "
        for share, field in zip(_FIELDS, fields, strict=True):
            if needle in field:
                covered += term.weight * share
                counted += share
                matched.append(term.word)
                occurrences += 2 if share > _FIELDS[-1] else field.count(needle)
                break
    if not matched or not query.subject_weight or (occurrences < 2 and not query.is_one_word):
        return 0.0, []
    return min(1.0, max(covered / query.subject_weight, counted / query.subject_size)), matched


Fields = tuple[str, str, str, str]  # title, tags, description, text


def best(query: str, texts: Sequence[Fields], limit: int) -> list[int]:
    """Return the positions of the texts that share a term with the query, best first."""
    import sqlite3
    from contextlib import closing

    terms = query_terms(query)
    indexed = [[words.indexed(field) for field in fields] for fields in texts]
    counts = {term: sum(any(f" {term} " in field for field in fields) for fields in indexed) for term in terms}
    weighed = weigh(query, terms, {term: count for term, count in counts.items() if count}, len(texts))
    if not weighed.terms:
        return []
    match = " OR ".join(f'"{term.term}"' for term in weighed.terms)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE texts USING fts5(title, tags, description, body)")
        db.executemany(
            "INSERT INTO texts (rowid, title, tags, description, body) VALUES (?,?,?,?,?)",
            ((position, *fields) for position, fields in enumerate(indexed)),
        )
        order = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts, 8.0, 6.0, 4.0, 1.0), rowid"
        positions = [position for (position,) in db.execute(order, (match,))]
    # equal scores keep the BM25 order
    positions.sort(key=lambda position: -score(weighed, indexed[position])[0])
    return positions[:limit]
