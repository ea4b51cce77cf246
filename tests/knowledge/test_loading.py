"""A call loads only the knowledge modules that its tool needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.starts_processes

SCRIPT = """
import sys
from hilt import Runtime
from hilt.testing import environment
with Runtime({workspace!r}, environ=environment({base!r})) as runtime:
    assert runtime.call({tool!r}, **{args!r}).ok
print(sorted(name for name in sys.modules if name.startswith("hilt.knowledge.") or name == "hilt.state.memory"))
"""


@pytest.mark.parametrize(
    "tool,args,loaded",
    [
        ("read_file", {"path": "a.txt"}, []),
        ("write_file", {"path": "b.txt", "content": ""}, []),
        ("memory", {"action": "list"}, ["hilt.state.memory"]),
        ("detect_project", {}, ["hilt.knowledge.projects"]),
    ],
)
def test_a_call_loads_only_what_its_tool_needs(base, workspace, tool, args, loaded):
    workspace.write("a.txt", "text\n")
    script = SCRIPT.format(workspace=workspace.path, base=base, tool=tool, args=args)

    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert (completed.stdout.strip(), completed.stderr) == (str(loaded), "")
