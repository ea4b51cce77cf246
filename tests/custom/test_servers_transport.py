"""A server whose start is given up does not stay."""

from __future__ import annotations

import threading

import pytest

from hilt.custom.servers_transport import _Starting


class Running:
    """A process that notes its end."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def end(self) -> None:
        """Note it."""
        self.ended.set()


@pytest.mark.parametrize("first", ["started", "given up"])
def test_a_start_that_is_given_up_ends_what_it_started(first):
    starting, running = _Starting(), Running()

    if first == "given up":
        starting.abandon()
    starting.run(lambda: running)  # type: ignore[arg-type, return-value]
    if first == "started":
        assert not running.ended.is_set()
        starting.abandon()

    assert running.ended.wait(30)


def test_a_start_that_is_wanted_goes_on():
    running = Running()

    _Starting().run(lambda: running)  # type: ignore[arg-type, return-value]

    assert not running.ended.is_set()
