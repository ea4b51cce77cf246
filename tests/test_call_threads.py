from __future__ import annotations

import threading

from hilt.call_threads import CallThreads

WAIT_SECONDS = 60


def test_a_thread_that_waits_for_a_person_is_replaced_by_another():
    threads = CallThreads(2)
    answered, ran = threading.Event(), threading.Event()

    def wait() -> None:
        with threads.lent():
            answered.wait(WAIT_SECONDS)

    for _ in range(10):
        threads.put(wait)
    threads.put(ran.set)

    assert ran.wait(WAIT_SECONDS)
    answered.set()
    threads.close()


def test_work_queued_before_the_wait_runs_too():
    threads = CallThreads(1)
    queued, answered, ran = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        queued.wait(WAIT_SECONDS)
        with threads.lent():
            answered.wait(WAIT_SECONDS)

    threads.put(wait)
    threads.put(ran.set)
    queued.set()

    assert ran.wait(WAIT_SECONDS)
    answered.set()
    threads.close()
