"""One of many processes that ask, answer and use approvals at the same time; prints the outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from hilt.call import ApprovalRequest
from hilt.errors import ToolError
from hilt.state import approvals as module
from hilt.state.approvals import Approvals, call_digest

CALL = ApprovalRequest(
    "run_shell", {"command": "make"}, "it asks", "command", command="make", rules=("run_shell(/make/)",)
)
DIGEST = call_digest("run_shell", {"command": "make"}, {})


def ask_same(approvals: Approvals, number: str) -> str:
    """Ask about the same call as the other processes."""
    return approvals.ask("w", "s", DIGEST, CALL, seconds=600).id


def ask_own(approvals: Approvals, number: str) -> str:
    """Ask about four calls that no other process asks about, and answer two of them."""
    for turn in range(4):
        id = approvals.ask("w", f"s{number}", f"{number}-{turn}", CALL, seconds=600).id
        if turn % 2:
            approvals.answer(id, approved=True, by=number, always=True)
    return "done"


def answer(approvals: Approvals, number: str) -> str:
    """Approve or deny the only pending call, as the other processes do."""
    turn, _, id = number.partition("-")
    return approvals.answer(id, approved=int(turn) % 2 == 0, by=turn).state


def use(approvals: Approvals, number: str) -> str:
    """Use the approval that the other processes try to use too."""
    return approvals.use(number.partition("-")[2], "w", "s", DIGEST).state


def attend(approvals: Approvals, number: str) -> str:
    """Attend until this process is killed."""
    with module.attend(sys.argv[2]):
        print("there", flush=True)
        time.sleep(600)
    return "gone"


ACTIONS: dict[str, Callable[[Approvals, str], str]] = {
    "ask_same": ask_same,
    "ask_own": ask_own,
    "answer": answer,
    "use": use,
    "attend": attend,
}

if __name__ == "__main__":
    action, directory, number = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print(ACTIONS[action](Approvals(directory), number))
    except ToolError as error:
        print(error.code)
