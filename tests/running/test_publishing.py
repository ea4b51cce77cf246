from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from hilt.call import Call
from hilt.state.callers import CallObserver
from hilt.state.events import EventStore, mark_serving
from tests.programs import needs_sandbox

pytestmark = pytest.mark.starts_processes


@needs_sandbox
def test_a_call_that_outlives_the_server_is_not_reported_as_interrupted(runtime, workspace):
    server, ended = mark_serving(runtime.parts.state), threading.Event()
    with closing(EventStore(runtime.parts.state)) as store:
        call = Call("run_shell", {"command": "until [ -e go ]; do sleep 0.01; done"})
        runtime.submit(call, lambda result: ended.set())
        while not store.of_type("call_started", 0, store.last()):
            time.sleep(0.01)

        server.close()
        workspace.write("go", "")
        ended.wait()
        runtime.close()

        assert CallObserver(runtime.parts.state, store).poll() == []
        assert len(store.of_type("call", 0, store.last())) == 1
