from __future__ import annotations

from collections.abc import Callable

import pytest

from hilt.errors import ToolError
from hilt.surfaces.mcp import sessions as module
from hilt.surfaces.mcp.plain import SESSION
from hilt.surfaces.mcp.sessions import Session, Sessions


@pytest.fixture
def sessions(runtime) -> Sessions:
    return Sessions(runtime, None, at_once)


def at_once(work: Callable[[], None]) -> None:
    work()


def test_a_session_continues_only_with_its_offered_name(sessions):
    first = sessions.of_request({}, calls=True)

    assert sessions.of_request({}, calls=True) is not first
    assert sessions.of_request({SESSION: first.offered}, calls=True) is first
    assert first.offered is None
    assert sessions.of_request({SESSION: first.name}, calls=True) is not first


@pytest.mark.parametrize("name", ["default", "mcp-0123", "", 1, None, "x" * 201])
def test_no_name_reaches_a_session_of_another_kind(sessions, name):
    if isinstance(name, str) and 0 < len(name) <= 200:
        assert sessions.of_request({SESSION: name}, calls=True).name != name
    elif name is not None:
        with pytest.raises(ToolError):
            sessions.of_request({SESSION: name}, calls=True)


def test_a_flood_of_new_sessions_does_not_end_named_or_busy_ones(sessions, monkeypatch):
    monkeypatch.setattr(module, "SESSIONS_MAX", 5)
    named = sessions.of_request({SESSION: "mine"}, calls=True)
    working = sessions.of_request({}, calls=True)
    working.calls = 1
    name = working.offered

    for _ in range(50):
        sessions.of_request({}, calls=True)

    assert sessions.of_request({SESSION: "mine"}, calls=True) is named
    assert sessions.of_request({SESSION: name}, calls=True) is working


def test_a_flood_of_names_does_not_end_a_recently_used_session(sessions, monkeypatch):
    monkeypatch.setattr(module, "SESSIONS_MAX", 5)
    mine, *_ = [sessions.of_request({SESSION: f"name {number}"}, calls=True) for number in range(5)]

    with pytest.raises(ToolError, match="in use"):
        sessions.of_request({SESSION: "one more"}, calls=True)
    assert sessions.of_request({SESSION: "name 0"}, calls=True) is mine

    mine.used -= module.NAMED_SECONDS + 1
    sessions.of_request({SESSION: "one more"}, calls=True)  # takes the slot of that session


def test_a_new_session_is_refused_when_all_are_busy(sessions, monkeypatch):
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    for _ in range(2):
        sessions.of_request({}, calls=True).calls = 1

    with pytest.raises(ToolError, match="in use"):
        sessions.of_request({}, calls=True)


def test_a_request_without_a_call_leaves_no_session(sessions):
    listing = sessions.of_request({}, calls=False)

    assert sessions.of_request({SESSION: listing.offered}, calls=True) is not listing


def test_idle_sessions_end_and_busy_ones_do_not(sessions):
    idle, working = (sessions.of_request({SESSION: name}, calls=True) for name in ("idle", "working"))
    working.calls = 1

    sessions.end_idle(-1)

    assert sessions.of_request({SESSION: "idle"}, calls=True) is not idle
    assert sessions.of_request({SESSION: "working"}, calls=True) is working


def test_a_shared_session_is_shared_by_all(runtime):
    sessions = Sessions(runtime, Session("ours"), at_once)

    assert sessions.of_connection("x") is sessions.of_request({SESSION: "mine"}, calls=True)
    assert sessions.of_connection("x").name == "ours"
