"""Fixtures: one desktop for a module, with a form, an agent that may do everything, and a person at the keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hilt.runtime import Runtime
from tests.desktop.x_session import NAMES, Agent, GtkForm, XClient, XSession, x_session


@pytest.fixture(scope="module")
def desktop() -> Iterator[XSession]:
    with x_session() as session:
        yield session


@pytest.fixture(scope="module")
def opened(desktop) -> Iterator[Runtime]:
    with desktop.runtime("yolo", mode="yolo", **{"desktop.private": ["title:secret*"]}) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def shared_form(desktop) -> Iterator[GtkForm]:
    with desktop.form() as form:
        yield form


@pytest.fixture
def form(shared_form) -> GtkForm:
    """The form, empty."""
    shared_form.do("reset")
    shared_form.do("place", x=100, y=60)
    shared_form.do("rename", title="Form")
    shared_form.events.clear()
    form: GtkForm = shared_form
    return form


@pytest.fixture
def agent(opened) -> Agent:
    """An agent in its own session."""
    return Agent(opened, f"agent-{next(NAMES)}")


@pytest.fixture
def person(desktop) -> Iterator[XClient]:
    client = XClient(desktop.display)
    yield client
    client.x.disconnect()
