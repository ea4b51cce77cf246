"""Every file in the proposal for nanocoder's custom tools, on every surface."""

from __future__ import annotations

import os

import pytest

from hilt.testing import Folder
from tests.custom.test_javascript_tools import TICKET
from tests.custom.test_markdown_tools import K8S_PODS
from tests.programs import PATH, program
from tests.seeds.surfaces import SURFACES
from tests.surfaces.commands import Command

# the keys and the body as printed, with a value for each placeholder of the description
FULL = """\
---
name: k8s_all
description: what the tool does - fed to the LLM
parameters:
  namespace:
    type: string
    description: surfaced to the LLM
    required: true              # default false
    default: a                    # used when not provided
    enum: [a, b, c]                     # restrict values
    pattern: ^[a-z]$                    # string only
    minLength: 1                      # string only
    maxLength: 3                      # string only
  selector:
    type: array
    items: { type: string }             # array only
  count:
    type: integer
    min: 1                            # number/integer only
    max: 9                            # number/integer only
approval: never  # default: always
read_only: true                 # default: !approval==always; surfaces to ToolEntry.readOnly
timeout_ms: 300000                          # default: 30000, max: 300000
cwd: ${PLACE}                              # default: project root; supports ${VAR} substitution
env:                                     # extra env vars; ${VAR} substitution allowed
  FOO: bar
shell: sh                         # default: bash if available, else sh
---

# Body is a shell script. Parameters interpolate as {{ name }}.
# Use {{# name }}…{{/ name }} for "if defined" sections (Mustache-style).

kubectl get pods -n {{ namespace }} {{# selector }}-l "{{ selector }}"{{/ selector }}
pwd; echo $FOO
"""


@pytest.mark.parametrize("surface", SURFACES)
def test_the_files_of_the_proposal_run_unchanged(tmp_path, surface):
    program("node")
    command = Command(str(tmp_path), HILT_TRUST="all", PLACE="sub")
    write = command.folder.write
    programs = Folder(str(tmp_path / "bin"))
    os.chmod(programs.write("kubectl", "#!/bin/sh\nprintf '<%s>' \"$@\"; echo\n"), 0o755)
    command.environ["PATH"] = programs.path + os.pathsep + PATH
    write(".nanocoder/tools/k8s-pods.md", K8S_PODS)
    write(".nanocoder/tools/k8s-all.md", FULL.replace("{{ name }}", "name").replace("{{# name }}…{{/ name }}", "name"))
    write(".nanocoder/tools/jira.ts", TICKET)  # with a local address
    write("sub/a.txt", "")

    with SURFACES[surface](command) as ask:
        assert ask("k8s_pods", {"namespace": "prod"}).text == "<get><pods><-n><prod>\n"
        selected = ask("k8s_pods", {"namespace": "prod", "selector": "app=api; touch hacked", "colour": "red"})
        assert selected.text == "<get><pods><-n><prod><-l><app=api; touch hacked>\n"
        for args, message in (
            ({}, "⚒ Missing required parameter: namespace"),
            ({"namespace": "Prod!"}, "namespace"),
            ({"namespace": "x" * 64}, "namespace"),
        ):
            rejected = ask("k8s_pods", args)
            assert (rejected.ok, message in rejected.text) == (False, True)
        everything = ask("k8s_all", {"namespace": "b", "selector": ["x", "y"], "count": 9})
        assert everything.text == f"<get><pods><-n><b><-l><x y>\n{os.path.realpath(command.folder.join('sub'))}\nbar\n"
        assert not ask("k8s_all", {"namespace": "d"}).ok
        assert not ask("k8s_all", {"namespace": "b", "count": 10}).ok
        assert ask("jira_ticket", {"key": "ABC-1"}).text == "ticket ABC-1"
    assert not os.path.exists(command.folder.join("hacked"))
