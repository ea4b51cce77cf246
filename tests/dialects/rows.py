"""One call for every row of every dialect, with the required arguments only."""

from __future__ import annotations

from typing import Any, NamedTuple

PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** End Patch"

CALLS: dict[str, dict[str, dict[str, Any]]] = {
    "jcli": {
        "Read": {"path": "a.txt"},
        "Write": {"path": "a.txt", "content": "1\n"},
        "Edit": {"path": "a.txt", "old_string": "one"},
        "Glob": {"pattern": "*.txt"},
        "Grep": {"pattern": "one"},
        "Bash": {"command": "echo 1 > a.txt"},
        "TaskOutput": {"task_id": "job_1"},
        "WebFetch": {"url": "https://example.com/"},
        "WebSearch": {"query": "one"},
        "Ask": {"questions": [{"question": "Which?", "options": ["one", "two"]}]},
        "Task": {"action": "list"},
        "TodoWrite": {"todos": [{"content": "one"}]},
        "TodoRead": {},
        "EnterPlanMode": {},
        "ExitPlanMode": {},
        "LoadSkill": {"name": "hilt"},
        "Compact": {},
        "Agent": {"prompt": "Count."},
        "RegisterHook": {"action": "list"},
        "ComputerUse": {"action": "doubleclick", "element": 2},
    },
    "agentos": {
        "tool::file_read": {"path": "a.txt"},
        "tool::file_write": {"path": "a.txt", "content": "1\n"},
        "tool::file_list": {"path": "."},
        "tool::apply_patch": {"path": "a.txt", "patch": "@@ -1 +1 @@\n-one\n+1\n"},
        "tool::shell_exec": {"argv": ["cp", "a.txt", "b.txt"]},
        "tool::web_fetch": {"url": "https://example.com/"},
        "tool::web_search": {"query": "one"},
        "tool::agent_spawn": {"template": "general", "message": "Count."},
        "tool::agent_send": {"agentId": "agent_1", "targetAgentId": "agent_2", "message": "one"},
    },
    "claude_code": {
        "Read": {"file_path": "a.txt"},
        "Write": {"file_path": "a.txt", "content": "1\n"},
        "Edit": {"file_path": "a.txt", "old_string": "one", "new_string": "1"},
        "MultiEdit": {"file_path": "a.txt", "edits": [{"old_string": "one", "new_string": "1"}]},
        "Glob": {"pattern": "*.txt"},
        "Grep": {"pattern": "one"},
        "Bash": {"command": "echo 1 > a.txt"},
        "BashOutput": {"bash_id": "job_1"},
        "KillShell": {"shell_id": "job_1"},
        "TodoWrite": {"todos": [{"content": "one", "status": "pending", "activeForm": "doing one"}]},
        "WebFetch": {"url": "https://example.com/", "prompt": "What is it?"},
        "WebSearch": {"query": "one"},
        "Task": {"description": "count", "prompt": "Count.", "subagent_type": "general-purpose"},
        "Skill": {"skill": "hilt"},
    },
    "codex": {
        "shell": {"command": ["bash", "-lc", "echo 1 > a.txt"]},
        "apply_patch": {"input": PATCH},
        "update_plan": {"plan": [{"step": "one", "status": "pending"}]},
        "view_image": {"path": "a.png"},
    },
}


class Row(NamedTuple):
    """A name of a dialect, and the arguments of a call."""

    dialect: str
    name: str
    args: dict[str, Any]


ROWS = [Row(name, entry, args) for name, calls in CALLS.items() for entry, args in calls.items()]
