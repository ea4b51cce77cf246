from __future__ import annotations

import os
from contextlib import closing

import pytest

from hilt.state.callers import INTERRUPTED, CallObserver, end_key, mark_caller, start_key
from hilt.state.events import EventStore, NewEvent


@pytest.fixture
def store(tmp_path):
    with closing(EventStore(str(tmp_path))) as store:
        yield store


def start(store: EventStore, id: str, process: str) -> None:
    store.append(NewEvent("call_started", {"id": id, "tool": "read_file", "process": process}, key=start_key(id)))


def test_a_call_is_reported_as_interrupted_once_when_the_mark_of_its_process_is_gone(tmp_path, store):
    process, mark = mark_caller(str(tmp_path))
    start(store, "c1", process)
    start(store, "c2", process)
    observer = CallObserver(str(tmp_path), store)
    assert observer.poll() == []

    store.append(NewEvent("call", {"id": "c1"}, key=end_key("c1")))
    mark.close()

    (event,) = observer.poll()
    assert (event.fields["id"], event.fields["outcome"]) == ("c2", INTERRUPTED)
    assert observer.poll() == []


def test_a_call_counts_as_running_if_the_mark_of_its_process_cannot_be_opened(tmp_path, store):
    process, mark = mark_caller(str(tmp_path))
    start(store, "c1", process)
    path = tmp_path / "callers" / process
    path.unlink()
    os.symlink(process, path)

    assert CallObserver(str(tmp_path), store).poll() == []
    mark.close()


def test_a_call_without_a_process_counts_as_running(tmp_path, store):
    store.append(NewEvent("call_started", {"id": "c1", "tool": "read_file"}))

    assert CallObserver(str(tmp_path), store).poll() == []
