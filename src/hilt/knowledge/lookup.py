"""Ranks a few texts in memory as the index ranks documents: candidates by BM25, then by coverage."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from hilt.knowledge import ranking, words

Fields = tuple[str, str, str, str]  # title, tags, description, text


def best(query: str, texts: Sequence[Fields], limit: int) -> list[int]:
    """Return the positions of the texts that share a term with the query, best first."""
    terms = ranking.query_terms(query)
    indexed = [[words.indexed(field) for field in fields] for fields in texts]
    counts = {term: sum(any(f" {term} " in field for field in fields) for fields in indexed) for term in terms}
    weighed = ranking.weigh(query, terms, {term: count for term, count in counts.items() if count}, len(texts))
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
    positions.sort(key=lambda position: -ranking.score(weighed, indexed[position])[0])
    return positions[:limit]
