from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.starts_processes

BOTH = """
import sys, threading

sys.setswitchinterval(1e-5)
failures = []

def load(name):
    try:
        import hilt.sdk
        __import__(name)
    except ImportError as error:
        failures.append(error)

threads = [threading.Thread(target=load, args=(name,)) for name in ("mcp.server.runner", "mcp.client.client")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(bool(failures))
"""


def test_the_server_and_the_client_can_be_imported_at_the_same_time():
    assert subprocess.run([sys.executable, "-c", BOTH], check=False).returncode == 0
