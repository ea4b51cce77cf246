"""Start the resident process; imports nothing expensive."""

from __future__ import annotations

import os
import sys

from hilt import places


def spawn() -> None:
    """Start the resident process, without waiting for it; a second one exits at once."""
    null = os.open(os.devnull, os.O_RDWR)
    state = places.state_dir(os.environ)
    places.make_state_dir(state)
    log = os.open(os.path.join(state, "resident.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.posix_spawn(
            sys.executable,
            # with -P nothing is imported from the working directory, which may be hostile
            [sys.executable, "-P", "-m", "hilt", "resident", "serve"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(null)
        os.close(log)
