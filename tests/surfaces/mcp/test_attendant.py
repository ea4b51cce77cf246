"""Progress and log messages that a running tool sends to the client."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hilt.surfaces.mcp.attendant import NOTE_CHARACTERS, NOTES_AT_ONCE, ClientAttendant
from hilt.surfaces.mcp.plain import Client


@pytest.fixture
def sent() -> list[tuple[str, tuple[Any, ...]]]:
    return []


@pytest.fixture
def attending(sent) -> ClientAttendant:
    return ClientAttendant(Client("test", frozenset()), send=lambda kind, values: sent.append((kind, values)))


@pytest.mark.parametrize("done", ["a", None, {}, True, math.nan, math.inf])
def test_progress_that_is_not_a_number_is_not_reported(attending, sent, done):
    attending.progress(done, None, "")

    assert sent == []


def test_invalid_totals_and_long_messages_of_progress_are_corrected(attending, sent):
    attending.progress(1, {}, 5)
    attending.progress(2, 3.5, "x" * 100_000)

    assert sent == [("progress", (1, None, "5")), ("progress", (2, 3.5, "x" * NOTE_CHARACTERS))]


def test_a_log_message_has_data_of_limited_length(attending, sent):
    for data in (None, {"a": 1}, "text", {"a": "x" * 100_000}):
        attending.log("info", data)

    assert [values[1] for _, values in sent][:3] == ["null", {"a": 1}, "text"]
    assert len(sent[3][1][1]) == NOTE_CHARACTERS


def test_a_flood_of_notifications_is_throttled(attending, sent):
    for number in range(20_000):
        attending.progress(number, None, "")

    assert NOTES_AT_ONCE <= len(sent) < NOTES_AT_ONCE * 20
