"""Every call and file in the reference of j-cli, on every surface."""

from __future__ import annotations

import json
import os

import pytest

from hilt.dialects.jcli import ENTRIES
from tests.agents.model_server import Turn, serving_model
from tests.marks import wait_until
from tests.programs import needs_sandbox
from tests.seeds.surfaces import SURFACES, Ask, Step, play
from tests.surfaces.commands import Command
from tests.tools.test_read_file import picture
from tests.web.servers import Request, answer, serving

BUILT = "[exit: 0]\ncargo build --release\n[classification: success — exit status 0]"
# as printed, with the lost indentation restored
PERMISSIONS = """\
# .jcli/permissions.yaml
permissions:
  # Allow all (skip all tool confirmations)
  allow_all: false
  # Allow list (skip confirmation if matched, supports regex)
  allow:
    - Read
    - Grep
    - Glob
    - "Bash:ls.*" # Regex match on command parameter
    - "Bash:git status"
  # Deny list (takes priority over allow, direct reject if matched)
  deny:
    - "Bash:rm -rf.*" # Block dangerous commands
    - "Bash:.*sudo.*" # Block sudo commands
"""
ASK = """{
"questions": [{
"header": "Style",
"question": "Choose code style",
"options": ["Concise", "Detailed", "Standard"],
"multi_select": false
}]
}"""

UNAPPROVED = ("approval_required", "input_required")
NOBODY = ("no_one_to_ask", "input_required")  # no user answers; some clients are asked instead

# the arguments as printed
CALLS: list[tuple[str, str, object]] = [
    ("Read", """{"path": "src/main.rs"}""", "1\tfn main() {}"),
    ("Read", """{"path": "screenshot.png"}""", lambda a: a.images == ("image/png",)),
    ("Read", """{"path": "large.log", "offset": 100, "limit": 50}""", lambda a: a.text.startswith("101\tentry 101\n")),
    ("Write", r"""{"path": "src/new_file.rs", "content": "fn main() {}\n"}""", "wrote 13 bytes to src/new_file.rs"),
    ("Edit", r"""{"path": "src/main.rs", "old_string": "fn main() {}", "new_string": "fn main() { println!(\"Hello\"); }"}""", lambda a: "edited src/main.rs" in a.text),  # noqa: E501
    ("Glob", """{"pattern": "**/*.rs"}""", "src/main.rs\nsrc/new_file.rs"),
    ("Glob", """{"pattern": "src/**/*.tsx", "excludePattern": "**/node_modules/**"}""", "src/App.tsx"),
    ("Grep", r"""{"pattern": "fn\\s+\\w+", "type": "rust"}""", lambda a: a.text.startswith("src/main.rs:1:fn main()")),
    ("Grep", """{"pattern": "TODO", "glob": "*.rs", "output_mode": "count"}""", "[No matches.]"),
    ("Bash", """{"command": "cargo build --release", "timeout": 300}""", BUILT),
    ("Task", """{"action": "create", "title": "Implement user auth", "description": "Add login/register functionality"}""", lambda a: a.data["task"]["id"] == 1),  # noqa: E501
    ("Task", """{"action": "update", "taskId": 1, "status": "in_progress"}""", lambda a: a.data["task"]["status"] == "in_progress"),  # noqa: E501
    ("Task", """{"action": "list", "ready": true}""", lambda a: a.data["tasks"] == []),
]  # fmt: skip
# tools that the reference describes without an example
OTHERS: list[Step] = [
    Step("Task", {"action": "get", "taskId": 1}, lambda a: a.data["task"]["title"] == "Implement user auth"),
    Step("TodoWrite", {"todos": [{"id": 1, "content": "a", "status": "pending"}]}, lambda a: len(a.data["todos"]) == 1),
    Step("TodoWrite", {"todos": [{"id": 1, "status": "completed"}], "merge": True}, lambda a: "completed" in a.text),
    Step("TodoRead", {}, lambda a: a.data["todos"] == [{"id": 1, "content": "a", "status": "completed"}]),
    Step("LoadSkill", {"name": "skill-creator"}, lambda a: a.text.startswith("[Skill skill-creator, built into")),
    Step("LoadSkill", {"name": "j-cli", "arguments": "x"}, "not_found", fails=True),
    Step("RegisterHook", {"action": "list"}, lambda a: True),
    Step("RegisterHook", {"action": "help"}, lambda a: "pre_tool_execution" in a.text),
    Step(
        "Compact", {}, lambda a: a.text.startswith("There is nothing to compact")
    ),  # hilt does not manage the conversation
    # every action needs approval, and no user is available
    Step("ComputerUse", {"action": "screenshot", "som": True}, lambda a: a.code in UNAPPROVED, fails=True),
    Step("ComputerUse", {"action": "keys", "keys": ["cmd", "c"]}, lambda a: a.code in UNAPPROVED, fails=True),
    Step("WebSearch", {"query": "serde", "count": 3, "type": "keyword"}, lambda a: bool(a.code), fails=True),
]


def project(base: str, *, place: str, model: str) -> Command:
    command = Command(base, OPENAI_API_KEY="key-of-the-test")
    write = command.folder.write
    write("src/main.rs", "fn main() {}\n")
    write("src/App.tsx", "export {}\n")
    write("src/node_modules/x.tsx", "export {}\n")
    write("screenshot.png", picture("PNG"))
    write("large.log", "".join(f"entry {number}\n" for number in range(1, 301)))
    for name, text in {"cargo": 'echo "cargo $*"', "npm": 'echo "npm $*"; exec sleep 600'}.items():
        os.chmod(write(f"bin/{name}", f"#!/bin/sh\n{text}\n"), 0o755)
    command.environ["PATH"] = command.folder.join("bin") + os.pathsep + command.environ["PATH"]
    os.makedirs(os.path.join(base, "config"), exist_ok=True)
    with open(os.path.join(base, "config", "config.toml"), "w", encoding="utf-8") as file:
        file.write(f'[web]\nallow_private = ["{place}"]\nsearch_provider = "exa"\n')
        file.write(f'[model]\nname = "openai:scripted"\nbase_url = "{model}"\n')
    return command


def page(request: Request) -> bytes:
    wants_json = request.headers.get("accept") == "application/vnd.github.v3+json"
    return answer('{"name": "rust"}', "application/json") if wants_json else answer("<h1>serde</h1>")


def background(ask: Ask) -> None:
    """Run the example of a background command, read its output and stop it."""
    task = ask("Bash", json.loads("""{"command": "npm run dev", "run_in_background": true}""")).data
    running = ask("TaskOutput", {"task_id": task["task_id"], "block": True, "timeout": 500})
    assert (running.data["status"], running.data["exit_code"]) == ("running", None)
    assert ask("job_stop", task).ok
    ended = ask("TaskOutput", {**task, "block": True}).data
    assert (ended["status"], ended["output"]) == ("stopped", "npm run dev\n")


def planning(ask: Ask) -> None:
    """Enter and leave plan mode; without a user who can approve the plan, one of the two fails."""
    entered = ask("EnterPlanMode", {})
    if entered.ok:
        assert "ExitPlanMode" in entered.text
        assert ask("Write", {"path": "b.txt", "content": ""}).code == "denied"
    assert entered.ok or entered.code in NOBODY
    assert not ask("ExitPlanMode", {"allowedPrompts": ["run the tests"]}).ok


@needs_sandbox
@pytest.mark.parametrize("surface", SURFACES)
def test_every_call_of_the_reference_works(tmp_path, surface):
    with serving(page) as site, serving_model(Turn("Done."), repeat=True) as model:
        command = project(str(tmp_path), place=site.place, model=model.openai_url)
        fetches = [
            # the pages are local ones
            """{"url": "https://docs.rs/serde"}""".replace("https://docs.rs", site.url("")),
            """{"url": "https://api.github.com/repos/rust-lang/rust", "headers": {"Accept": "application/vnd.github.v3+json"}}""".replace(  # noqa: E501
                "https://api.github.com", site.url("")
            ),
        ]
        with SURFACES[surface](command) as ask:
            play(ask, [Step(tool, json.loads(args), expected) for tool, args, expected in CALLS])  # type: ignore[arg-type]
            assert "# serde" in ask("WebFetch", json.loads(fetches[0])).text
            assert '"name": "rust"' in ask("WebFetch", json.loads(fetches[1])).text
            assert ask("Ask", json.loads(ASK)).code in NOBODY
            assert ask("Agent", {"prompt": "Say that it is done.", "description": "say it"}).text == "Done."
            background(ask)
            play(ask, OTHERS)
            command.folder.write(".jcli/permissions.yaml", PERMISSIONS)
            wait_until(lambda: ask("Bash", {"command": "echo sudo"}).code == "denied")
            assert ask("Bash", {"command": "rm -rf.*"}).code == "denied"
            planning(ask)

    assert command.folder.read("src/main.rs") == 'fn main() { println!("Hello"); }\n'
    assert command.folder.read("src/new_file.rs") == "fn main() {}\n"


def test_every_tool_of_the_reference_is_called_here():
    called = {tool for tool, _, _ in CALLS} | {step.tool for step in OTHERS}

    others = {"WebFetch", "Ask", "Agent", "TaskOutput", "EnterPlanMode", "ExitPlanMode"}
    assert called | others == set(ENTRIES)
