from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.search import ripgrep
from hilt.search.reach import SearchedContents, SearchReach
from hilt.search.ripgrep_output import Events, SearchMatch, shorten


class RipgrepOutput(bytes):
    """The output of ripgrep, with a short repr for failing tests."""

    def __repr__(self) -> str:
        return f"{len(self)} bytes"


def feed_events(data, size, folder, **options):
    events = Events(lambda path: not path.startswith("no"), **{"keep": 5, "per_match": False, "per_file": 6, **options})
    for at in range(0, len(data), size):
        events.feed(data[at : at + size])
    with ExitStack() as stack:
        start = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, start)
        reach = stack.enter_context(SearchReach(start))

        @contextmanager
        def opened(path):
            with reach.opened(path) as descriptor:
                yield SearchedContents(descriptor)

        return events, events.matched(opened)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    for name, text in {
        "a.txt": "x\nno\nx x\n",
        'b "q"\n.txt': "é x\n",
        "no.txt": "x\n" * 3,
        "c.txt": "x\n" * 20,
        "d.txt": "-" * 100 + "x" + "-" * 3_000_000 + "x\ny\nx\n",
        "e.bin": "x\n\0",
    }.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def output(folder):
    command = [ripgrep.find() or "", "--no-config", "--json", "-C1", "-m6", "x", "./"]
    return RipgrepOutput(subprocess.run(command, cwd=folder, capture_output=True).stdout)


@pytest.mark.starts_processes
@settings(max_examples=20)
@given(size=st.integers(10_000, 400_000), keep=st.integers(0, 40))
def test_the_size_of_output_chunks_makes_no_difference(output, folder, size, keep):
    whole, matched = feed_events(output, len(output), folder, keep=keep)
    pieces, same = feed_events(output, size, folder, keep=keep)

    assert matched == same
    assert (whole.counts, whole.complete) == (pieces.counts, pieces.complete)
    assert (sum(whole.counts.values()), len(whole.counts), whole.complete) == (12, 4, True)
    assert sum(len(file.matches) for file in matched) == min(keep, 12)
    assert [file.path for file in matched] == sorted(file.path for file in matched)


@pytest.mark.starts_processes
def test_the_first_matches_by_path_are_kept_whatever_their_order(output, folder):
    _, matched = feed_events(output, 4096, folder, keep=4)

    assert [(file.path, len(file.matches)) for file in matched] == [("a.txt", 2), ('b "q"\n.txt', 1), ("c.txt", 1)]
    assert matched[1].matches == [SearchMatch(1, 3, "é x", 1)]


@pytest.mark.starts_processes
def test_a_line_too_long_to_keep_is_read_again_from_its_file(output, folder):
    _, matched = feed_events(output, 65536, folder, keep=20)

    assert matched[-1].matches == [
        SearchMatch(1, 101, "…" + "-" * 65 + "x" + "-" * 132 + "…", 1),
        SearchMatch(3, 1, "x", 3),
    ]


@pytest.mark.starts_processes
def test_files_with_unreported_matches_are_listed(output, folder):
    events, _ = feed_events(output, 65536, folder)

    assert list(events.truncated) == ["c.txt"]


@pytest.mark.starts_processes
def test_output_without_a_summary_is_not_complete(output, folder):
    events, _ = feed_events(output[: output.rfind(b"\n", 0, -1)], 65536, folder)

    assert not events.complete


@given(st.text(max_size=600), st.integers(1, 600))
def test_a_shortened_line_has_at_most_200_characters_including_the_match(text, column):
    shown = shorten(text, column)

    assert len(shown) <= 200
    if len(text) <= 200:
        assert shown == text
    else:
        assert shown.strip("…") in text
        if column <= len(text):
            assert text[column - 1] in shown


def test_multiline_matches_are_counted_one_by_one(tmp_path):
    lines = "one\ntwo\none\ntwo\n"
    spans = [{"match": {"text": ""}, "start": 0, "end": 7}, {"match": {"text": ""}, "start": 8, "end": 15}]
    data = {
        "path": {"text": "./a"},
        "lines": {"text": lines},
        "line_number": 5,
        "absolute_offset": 0,
        "submatches": spans,
    }
    stats = {"matched_lines": 4, "matches": 2}
    events = [
        {"type": "begin", "data": {"path": {"text": "./a"}}},
        {"type": "match", "data": data},
        {"type": "end", "data": {"path": {"text": "./a"}, "binary_offset": None, "stats": stats}},
    ]
    raw = b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)

    (tmp_path / "a").write_text(lines)

    parsed, matched = feed_events(raw, 64, tmp_path, per_match=True, per_file=None)

    assert parsed.counts == {"a": 2}
    assert matched[0].matches == [SearchMatch(5, 1, "one\ntwo", 6), SearchMatch(7, 1, "one\ntwo", 8)]


@pytest.mark.starts_processes
def test_matches_that_changed_since_the_search_are_reported_as_gone(tmp_path):
    (tmp_path / "a").write_text("one x\ntwo\nthree x\n")
    (tmp_path / "b").write_text("x" * 2_000_000 + "\n")
    command = [ripgrep.find() or "", "--no-config", "--json", "-C1", "x", "./"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True).stdout
    (tmp_path / "a").write_text("one x\nTWO\nthree y\n")
    (tmp_path / "b").write_text("y" * 2_000_000 + "\n")

    _, (first, second) = feed_events(output, 65536, tmp_path)

    assert (first.matches, first.lines) == ([SearchMatch(1, 5, "one x", 1)], {1: "one x"})
    assert (first.gone_matches, first.gone_lines) == (1, 1)
    assert (second.matches, second.gone_matches) == ([], 1)
