"""Every call on the page of agentos, on every surface."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from hilt.dialects.agentos import ENTRIES
from tests.agents.model_server import Turn, serving_model
from tests.programs import needs_sandbox
from tests.seeds.surfaces import SURFACES, Answer, Step, play
from tests.surfaces.commands import Command
from tests.web.servers import answer, serving

PATCH = '@@ -1,3 +1,3 @@\n-const version = "1.0.0";\n+const version = "1.1.0";\n'
PROGRAMS = (
    *("git", "node", "npm", "npx", "bun", "deno", "python3", "python", "pip", "ls", "cat", "grep", "find", "echo"),
    *("mkdir", "touch", "cp", "mv", "head", "tail", "wc", "sort", "uniq", "diff", "curl", "wget", "tar", "zip"),
    *("unzip", "jq", "sed", "awk", "which", "env", "date", "cargo", "rustc", "go", "make", "cmake"),
)


def spawned(answer: Answer) -> bool:
    data = answer.data
    return data["agentId"].startswith("agent_") and (data["response"], data["depth"]) == ("Three files.", 1)


@needs_sandbox
@pytest.mark.parametrize("surface", SURFACES)
def test_every_call_of_the_page_works(tmp_path, surface):
    command = Command(str(tmp_path), OPENAI_API_KEY="key-of-the-test")
    folder = command.folder
    folder.write("src/config.ts", "export const x = 1;\n" * 1000)
    folder.write("src/version.ts", 'const version = "1.0.0";\nexport { version };\n')
    folder.write("my-project/new.txt", "")
    subprocess.run(["git", "init", "-q", folder.join("my-project")], check=True)
    root = os.path.realpath(folder.path)
    content = json.dumps({"status": "success"}, indent=2)
    with (
        serving(answer("<title>Docs</title><p>Read this.</p>")) as site,
        serving_model(Turn("Three files."), repeat=True) as model,
    ):
        os.makedirs(tmp_path / "config", exist_ok=True)
        (tmp_path / "config/config.toml").write_text(
            f'[web]\nallow_private = ["{site.place}"]\n'
            f'[model]\nname = "openai:scripted"\nbase_url = "{model.openai_url}"\n'
        )
        steps = [
            Step(
                "tool::file_read",
                {"path": "src/config.ts", "maxBytes": 10000},
                lambda a: (
                    (len(a.data["content"]), a.data["size"], a.data["path"]) == (10000, 20000, f"{root}/src/config.ts")
                ),
            ),
            Step(
                "tool::file_write",
                {"path": "output/result.json", "content": content},
                lambda a: a.data == {"written": True, "path": f"{root}/output/result.json", "size": len(content)},
            ),
            Step(
                "tool::file_list",
                {"path": "src"},
                lambda a: (
                    [(entry["type"], entry["name"]) for entry in a.data["entries"]]
                    == [("file", "config.ts"), ("file", "version.ts")]
                ),
            ),
            Step(
                "tool::apply_patch",
                {"path": "src/version.ts", "patch": PATCH},
                lambda a: a.data == {"patched": True, "path": f"{root}/src/version.ts"},
            ),
            Step(
                "tool::shell_exec",
                {"argv": ["git", "status", "--short"], "cwd": "my-project"},
                lambda a: a.data == {"stdout": "?? new.txt\n", "stderr": "", "exitCode": 0},
            ),
            Step(
                "tool::web_fetch",
                {"url": site.url("/docs"), "maxSize": 100000},  # https://example.com/docs on the page
                lambda a: (a.data["status"], "Read this." in a.data["content"]) == (200, True),
            ),
            Step(
                "tool::web_search",
                {"query": "TypeScript async patterns", "provider": "brave", "maxResults": 10},
                lambda a: "BRAVE_API_KEY" in a.text,
                fails=True,
            ),
            Step(
                "tool::agent_spawn",
                {
                    "template": "code-analyzer",
                    "parentId": "agent-123",
                    "message": "Analyze the TypeScript files in src/",
                },
                spawned,
            ),
            Step(
                "tool::agent_send",
                {
                    "agentId": "agent-123",
                    "targetAgentId": "agent-456",
                    "message": "Task completed, ready for next step",
                },
                lambda a: a.data == {"sent": True, "targetAgentId": "agent-456"},
            ),
        ]
        assert [step.tool for step in steps] == list(ENTRIES)
        with SURFACES[surface](command) as ask:
            play(ask, steps)

    assert folder.read("src/version.ts") == 'const version = "1.1.0";\nexport { version };\n'
    assert folder.read("output/result.json") == content


def test_every_program_of_the_page_is_allowed():
    from hilt.shell.allowlist import refuse_argv

    assert [name for name in PROGRAMS if refuse_argv([name]) is not None] == []
