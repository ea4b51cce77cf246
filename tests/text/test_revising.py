"""Batched edits have the same outcome as sequential edits."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.files.editing import Document, context_lines
from hilt.text import revising
from hilt.text.encodings import Span

# few and similar, so that texts repeat, overlap and straddle earlier replacements
PIECES = st.sampled_from(["abab", "aba", "b", "\n", "\r\n", "    ", "\t", "é", "x = 1", "x = 12", " ", "“q”", "\r"])
TEXTS = st.lists(PIECES, max_size=30).map("".join)
Edits = list[tuple[str, str, bool]]


@pytest.fixture(params=["swept", "searched"])
def sweep(request, monkeypatch) -> None:
    """Sweep at the first search, or never."""
    swept = request.param == "swept"
    monkeypatch.setattr(revising, "SEARCHES", 1 if swept else -1)
    monkeypatch.setattr(revising, "_PARTS_MIN", 1)


@st.composite
def documents(draw: Any) -> tuple[bytes, Edits]:
    text = draw(TEXTS.filter(bool))
    written = text
    edits: Edits = []
    for _ in range(draw(st.integers(2, 12))):
        start = draw(st.integers(0, len(written) - 1))
        old = draw(st.one_of(st.just(written[start : start + draw(st.integers(1, 20))]), TEXTS.filter(bool)))
        new = draw(TEXTS)
        edits.append((old, new, draw(st.booleans())))
        written += new
    codec = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    return text.encode(codec), edits


def outcomes(document: Document, edits: Edits) -> list[object]:
    """Return everything that a caller can see of the edits, and the final bytes."""
    results: list[object] = []
    for old, new, fuzzy_indent in edits:
        results.append(document.original_span(old, new, fuzzy_indent=fuzzy_indent))
        try:
            match = document.edit(old, new, fuzzy_indent=fuzzy_indent)
        except ToolError as error:
            results.append((error.code, error.message, error.details))
        else:
            results.append((match, context_lines(document, match, 2)))
    return [*results, document.data, document.text]


@given(documents())
def test_batched_edits_equal_sequential_edits(sweep, document):
    data, edits = document
    batched, sequential = Document("a.txt", data), Document("a.txt", data)
    batched.expect([old for old, _, _ in edits])

    assert outcomes(batched, edits) == outcomes(sequential, edits)


@pytest.mark.parametrize("seed", range(20))
def test_batched_edits_of_repetitive_texts_equal_sequential_edits(sweep, seed):
    random = Random(seed)
    for _ in range(40):
        text = random_text(random, 10, 60)
        written = text
        edits: Edits = []
        for _ in range(10):
            start = random.randrange(len(written))
            edits.append((written[start : start + random.randint(4, 12)], random_text(random, 0, 6), False))
            written += edits[-1][1]
        batched, sequential = Document("a.txt", text.encode()), Document("a.txt", text.encode())
        batched.expect([old for old, _, _ in edits])

        assert outcomes(batched, edits) == outcomes(sequential, edits)


def test_text_is_located_after_earlier_replacements(sweep):
    random = Random(1)
    for _ in range(3000):
        text = random_text(random, 10, 60)
        parts = [random_text(random, 4, 9) for _ in range(5)]
        parts += [text[at : at + random.randint(4, 12)] for at in (random.randrange(len(text) - 4) for _ in range(4))]
        revision = revising.Revision(revising.SamplePlaces(text, parts))
        cuts = sorted(random.sample(range(len(text) + 1), 8))
        spans = [Span(start, end, random_text(random, 0, 6)) for start, end in zip(cuts[::2], cuts[1::2], strict=True)]
        for span in random.sample(spans, len(spans)):
            revision.add(span)
        current = text
        for span in reversed(spans):
            current = current[: span.start] + span.new + current[span.end :]

        for part in parts:
            at = revision.find_only(part)
            if at is not None:
                line, offset = revision.position(at)
                assert [place for place in range(len(current)) if current.startswith(part, place)] == [offset]
                assert line == current.count("\n", 0, offset) + 1
                assert revision.before(at, len(current)) == current[:offset]
                assert revision.after(at, len(current)) == current[offset:]


def random_text(random: Random, minimum: int, maximum: int) -> str:
    """Return a repetitive text; hypothesis prefers texts with little repetition."""
    return "".join(random.choices("ab\n", k=random.randint(minimum, maximum)))


def test_many_edits_of_one_text_do_not_rebuild_it_each_time():
    lines = [f"value {number:05} of a longer text\n" for number in range(2000)]
    document = Document("a.txt", "".join(lines).encode())
    edits = [(line.strip(), line.strip().upper()) for line in lines[::2]]
    document.expect([old for old, _ in edits])
    before = document.text

    for old, new in edits:
        document.edit(old, new, fuzzy_indent=False)

    assert document._text is before
    assert (
        document.data
        == "".join(line.upper() if number % 2 == 0 else line for number, line in enumerate(lines)).encode()
    )


def test_short_parts_that_resemble_each_other_are_swept():
    lines = [f"l{number}." for number in range(100_000)]
    parts = lines[1000:2000] + lines[50_000:51_000]
    places = revising.SamplePlaces("\n".join(lines), parts)

    windows = [places.window(part) for part in [*parts[: revising.SEARCHES], *parts]]

    assert None not in windows[revising.SEARCHES :]
