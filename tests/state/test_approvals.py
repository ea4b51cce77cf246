from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.call import ApprovalRequest
from hilt.errors import ToolError
from hilt.state.approvals import Approval, Approvals, attend, call_digest, refusal
from hilt.state.db import Database
from hilt.state.tables import MIGRATIONS
from tests.databases import connected
from tests.state.asking import CALL, DIGEST

HANG_SECONDS = 60
PROCESSES = 20


@pytest.fixture
def approvals(tmp_path) -> Iterator[Approvals]:
    store = Approvals(str(tmp_path))
    yield store
    store.close()


def ask(approvals: Approvals, digest: str = DIGEST, *, session: str = "s", seconds: float = 600) -> Approval:
    return approvals.ask("w", session, digest, CALL, seconds=seconds)


def change(tmp_path: Path, statement: str, *values: object) -> None:
    """Change the stored rows, to simulate the passage of time."""
    with connected(tmp_path / "state.db") as db:
        assert db.execute(statement, values).rowcount > 0
    db.close()


def code(work: Any) -> str:
    with pytest.raises(ToolError) as caught:
        work()
    return caught.value.code


# --- asking -------------------------------------------------------------------------------------------------------


def test_a_question_is_stored_with_everything_that_is_shown(approvals, tmp_path):
    asked = ApprovalRequest(
        "edit_file",
        {"path": "a\udcff.py", "n": 1, "deep": [None, {"x": True}]},
        "why",
        "edit",
        diff="-a\n+ü\n",
        rules=("Write(path:./a)", "Write(path:./b)"),
        workspace="/w\udcff",
        session="s",
    )

    approval = approvals.ask("w", "s", DIGEST, asked, seconds=60)

    other = Approvals(str(tmp_path))
    assert other.pending() == other.pending("w") == [approval]
    assert other.pending("elsewhere") == []
    assert other.find(approval.id) == approval
    assert (approval.asked, approval.state, approval.answered_at) == (asked, "pending", None)
    assert approval.expires_at - approval.asked_at == 60_000_000_000
    other.close()


@pytest.mark.parametrize(
    "other, same",
    [
        (("w", "s", "d"), True),
        (("w", "s", "e"), False),
        (("w", "t", "d"), False),
        (("v", "s", "d"), False),
    ],
)
def test_only_the_same_call_of_the_same_session_keeps_its_id(approvals, other, same):
    first = approvals.ask("w", "s", "d", CALL, seconds=600)

    assert (approvals.ask(*other, CALL, seconds=600).id == first.id) == same
    assert len(approvals.pending()) == (1 if same else 2)


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_whose_question_was_answered_asks_again(approvals, approved):
    first = ask(approvals)
    approvals.answer(first.id, approved=approved, by="me")

    assert ask(approvals).id != first.id


def test_an_expired_question_is_asked_again(approvals):
    first = ask(approvals, seconds=0)

    assert approvals.pending() == []
    assert approvals.find(first.id).state == "expired"
    assert ask(approvals).id != first.id


@pytest.mark.parametrize("change", [{"reason": "a rule asks"}, {"risk": "dangerous"}, {"rules": ("Bash(ls:*)",)}])
def test_a_call_that_is_pending_for_another_reason_is_asked_anew(approvals, change):
    old = ask(approvals)

    new = approvals.ask("w", "s", DIGEST, CALL._replace(**change), seconds=600)

    assert new.id != old.id
    assert approvals.pending() == [new]
    assert approvals.find(old.id).state == "expired"
    assert code(lambda: approvals.answer(old.id, approved=True, by="t")) == "not_found"
    assert ask(approvals).id not in (old.id, new.id)


def test_a_session_with_too_many_questions_is_limited_and_others_are_not(approvals):
    for number in range(100):
        ask(approvals, str(number))

    assert code(lambda: ask(approvals, "more")) == "limit_exceeded"
    assert ask(approvals, "0").state == "pending"
    assert ask(approvals, "more", session="another").state == "pending"


@pytest.mark.parametrize(
    "names, limit",
    [
        ({"session"}, 200),
        ({"session", "client"}, 300),
        ({"session", "no client"}, 300),
        ({"session", "client", "workspace"}, 1000),
    ],
)
def test_a_caller_cannot_exceed_the_limit_by_choosing_names(approvals, names, limit):
    def ask_as(number):
        chosen = {name: str(number) if name in names else "same" for name in ("workspace", "session", "client")}
        asked = CALL._replace(client="" if "no client" in names else chosen["client"])
        return approvals.ask(chosen["workspace"], chosen["session"], str(number), asked, seconds=60)

    for number in range(limit):
        ask_as(number)

    assert code(lambda: ask_as("more")) == "limit_exceeded"


def test_large_calls_do_not_fill_the_disk(approvals, tmp_path, monkeypatch):
    monkeypatch.setattr("hilt.state.approvals.STORED_BYTES", 10_000)

    def ask_large(session: str) -> Approval:
        asked = CALL._replace(arguments={"content": "x" * 2000})
        stored: Approval = approvals.ask("w", session, session, asked, seconds=60)
        return stored

    pending = [ask_large(session) for session in "abcd"]
    assert code(lambda: ask_large("e")) == "limit_exceeded"
    assert ask_large("d").id == pending[-1].id

    change(tmp_path, "UPDATE approvals SET state='used' WHERE session<>'a'")
    later = [ask_large(session) for session in "efg"]
    change(tmp_path, "UPDATE approvals SET state='expired' WHERE session<>'a'")
    ask_large("h")
    assert [approvals.find(item.id).session for item in (pending[0], pending[-1], *later)] == list("adefg")
    assert [code(lambda id=item.id: approvals.find(id)) for item in pending[1:3]] == ["not_found"] * 2


def test_old_finished_questions_are_deleted(approvals, tmp_path):
    old, recent = ask(approvals, "old", seconds=0), ask(approvals, "kept", seconds=0)
    change(tmp_path, "UPDATE approvals SET expires_at=expires_at-? WHERE id=?", 8 * 86400 * 10**9, old.id)

    ask(approvals)

    assert approvals.find(recent.id).state == "expired"
    assert code(lambda: approvals.find(old.id)) == "not_found"


def test_an_approval_is_found_by_an_id_prefix(approvals, tmp_path):
    for number, id in enumerate(("aa11", "aa22", "bb")):
        approval = ask(approvals, str(number))
        change(tmp_path, "UPDATE approvals SET id=? WHERE id=?", id, approval.id)

    assert approvals.find("b").id == "bb"
    assert approvals.find("aa1").id == "aa11"
    with pytest.raises(ToolError) as caught:
        approvals.find("aa")
    assert (caught.value.code, caught.value.details) == ("ambiguous_id", {"candidates": ["aa11", "aa22"]})


@pytest.mark.parametrize("id", ["", "*", "a*", "?", "zz", "cc", "aa11'--", "\udcff", "A" * 10_000])
def test_an_invalid_id_is_not_found(approvals, id):
    ask(approvals)

    assert code(lambda: approvals.find(id)) == "not_found"
    assert code(lambda: approvals.use(id.replace("\udcff", "x"), "w", "s", DIGEST)) == "not_found"


def test_reading_creates_no_database(tmp_path):
    reader = Approvals(str(tmp_path / "state"))

    assert (reader.pending(), reader.grants(), reader.attended()) == ([], [], False)
    assert code(lambda: reader.find("ab")) == "not_found"
    assert code(lambda: reader.revoke("ab")) == "not_found"
    assert os.listdir(tmp_path) == []


# --- scope of an approval -----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)
FILES = st.dictionaries(st.text(max_size=3), st.none() | st.binary(min_size=32, max_size=32), max_size=2)
CALLS = st.tuples(st.sampled_from(["edit_file", "run_shell"]), ARGUMENTS, FILES)


def exact(value: Any) -> Any:
    """Return the value with types, so that True and 1, which are different JSON, differ."""
    if isinstance(value, dict):
        return {key: exact(inner) for key, inner in value.items()}
    return [exact(inner) for inner in value] if isinstance(value, list | tuple) else (type(value), value)


@given(CALLS, CALLS)
def test_two_calls_have_the_same_digest_only_if_they_are_equal(first, other):
    assert (call_digest(*first) == call_digest(*other)) == (exact(first) == exact(other))


@given(CALLS)
def test_the_order_of_arguments_does_not_matter(call):
    tool, args, files = call

    backwards = dict(reversed(args.items()))

    assert call_digest(tool, backwards, dict(reversed(files.items()))) == call_digest(tool, args, files)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"x"])
def test_a_call_that_is_not_json_cannot_be_approved(value):
    assert code(lambda: call_digest("x", {"a": value}, {})) == "invalid_args"


# --- answering and using ------------------------------------------------------------------------------------------


def test_an_approval_is_used_once(approvals):
    id = ask(approvals).id
    answered = approvals.answer(id, approved=True, by="console")

    assert approvals.use(id, "w", "s", DIGEST).state == "used"
    assert code(lambda: approvals.use(id, "w", "s", DIGEST)) == "denied"
    assert approvals.find(id) == answered._replace(state="used")
    assert (answered.answered_by, answered.state) == ("console", "approved")


def test_a_used_approval_is_reported_as_used_even_when_the_files_have_changed(approvals):
    id = ask(approvals).id
    approvals.answer(id, approved=True, by="console")
    approvals.use(id, "w", "s", DIGEST)

    with pytest.raises(ToolError) as caught:
        approvals.use(id, "w", "s", "of other files")

    assert [fact for fact in (id, "used") if fact not in caught.value.message] == []


def test_a_pending_approval_says_how_to_answer_it(approvals):
    id = ask(approvals).id

    with pytest.raises(ToolError) as caught:
        approvals.use(id, "w", "s", DIGEST)

    assert (caught.value.code, caught.value.details) == ("approval_required", {"approval": id})
    assert f"hilt approve {id}" in caught.value.suggestion
    assert "run_shell" in caught.value.message
    assert "it asks" in caught.value.message


def test_a_denial_reports_its_reason_every_time(approvals):
    id = ask(approvals).id
    approvals.answer(id, approved=False, reason="use make check \udcff", by="me")

    for _ in range(2):
        with pytest.raises(ToolError) as caught:
            approvals.use(id, "w", "s", DIGEST)
        assert caught.value.code == "USER_REJECTION"
        assert "use make check \\udcff" in caught.value.message


def test_an_unanswered_question_is_not_a_denial(approvals):
    approval = ask(approvals, seconds=0)

    assert code(lambda: approvals.use(approval.id, "w", "s", DIGEST)) == "approval_timeout"
    assert code(lambda: approvals.answer(approval.id, approved=True, by="me")) == "not_found"
    assert refusal(approvals.find(approval.id)).code == "approval_timeout"


def test_an_unused_approval_expires(approvals, tmp_path):
    id = ask(approvals).id
    approvals.answer(id, approved=True, by="me")
    change(tmp_path, "UPDATE approvals SET expires_at=1 WHERE id=?", id)

    with pytest.raises(ToolError) as caught:
        approvals.use(id, "w", "s", DIGEST)

    assert caught.value.code == "denied"
    assert "expired" in caught.value.message


def test_a_late_answer_restarts_the_time_to_use_it(approvals, tmp_path):
    id = ask(approvals, seconds=600).id
    change(tmp_path, "UPDATE approvals SET asked_at=asked_at-?, expires_at=expires_at-?", 590 * 10**9, 590 * 10**9)

    done = approvals.answer(id, approved=True, by="me")

    assert done.answered_at is not None
    assert done.expires_at - done.answered_at == 600 * 10**9


@pytest.mark.parametrize(
    "workspace, session, digest",
    [("w", "s", "other"), ("w", "other", DIGEST), ("other", "s", DIGEST), ("w", "s", "")],
)
@pytest.mark.parametrize("approved", [True, False, None])
def test_an_approval_of_another_call_is_rejected_and_not_consumed(approvals, workspace, session, digest, approved):
    id = ask(approvals).id
    if approved is not None:
        approvals.answer(id, approved=approved, by="me")

    assert code(lambda: approvals.use(id, workspace, session, digest)) == "denied"

    if approved:
        assert approvals.use(id, "w", "s", DIGEST).state == "used"


@pytest.mark.parametrize("first, second", [(True, True), (False, True), (False, False)])
def test_the_first_answer_counts(approvals, first, second):
    id = ask(approvals).id
    approvals.answer(id, approved=first, by="me")

    with pytest.raises(ToolError) as caught:
        approvals.answer(id, approved=second, by="you")

    assert caught.value.code == "not_found"
    assert [fact for fact in (id, "approved" if first else "denied", "by me") if fact not in caught.value.message] == []
    assert approvals.find(id).answered_by == "me"


def test_an_unused_approval_can_be_revoked(approvals):
    id = ask(approvals).id
    approvals.answer(id, approved=True, by="me")

    approvals.answer(id, approved=False, reason="wait", by="you")

    assert code(lambda: approvals.use(id, "w", "s", DIGEST)) == "USER_REJECTION"


def test_a_used_approval_cannot_be_answered_again(approvals):
    id = ask(approvals).id
    approvals.answer(id, approved=True, by="me")
    approvals.use(id, "w", "s", DIGEST)

    for approved in (True, False):
        assert code(lambda approved=approved: approvals.answer(id, approved=approved, by="me")) == "not_found"


def test_waiting_ends_with_the_answer(approvals, tmp_path):
    id = ask(approvals).id
    other = Approvals(str(tmp_path))
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            other.answer(id, approved=False, reason="no", by="console")

    answered = approvals.wait(id, pause)

    assert (answered.state, answered.reason, len(pauses)) == ("denied", "no", 3)
    other.close()


def test_waiting_can_be_cancelled(approvals):
    id = ask(approvals).id

    def give_up(seconds: float) -> None:
        raise ToolError("cancelled", "stop")

    assert code(lambda: approvals.wait(id, give_up)) == "cancelled"


# --- grants -------------------------------------------------------------------------------------------------------


def test_an_always_answer_stores_the_shown_rules_for_this_workspace(approvals, tmp_path):
    asked = CALL._replace(rules=("run_shell(=make > x)", "Write(path:./x)"), workspace="/homes/me/w")
    id = approvals.ask("w", "s", DIGEST, asked, seconds=600).id

    approvals.answer(id, approved=True, by="console", always=True)

    grants = Approvals(str(tmp_path)).grants("w")
    assert [(grant.rule, grant.folder, grant.granted_by, grant.expires_at) for grant in grants] == [
        ("run_shell(=make > x)", "/homes/me/w", "console", None),
        ("Write(path:./x)", "/homes/me/w", "console", None),
    ]
    assert approvals.grants("elsewhere") == []
    assert approvals.use(id, "w", "s", DIGEST).state == "used"


def test_a_call_that_no_rule_covers_has_no_always_answer(approvals):
    id = approvals.ask("w", "s", DIGEST, CALL._replace(rules=()), seconds=600).id

    assert code(lambda: approvals.answer(id, approved=True, by="me", always=True)) == "invalid_args"
    assert (approvals.find(id).state, approvals.grants()) == ("pending", [])


def test_a_denial_stores_no_rule(approvals):
    approvals.answer(ask(approvals).id, approved=False, by="me", always=True)

    assert approvals.grants() == []


def test_a_rule_is_stored_once_per_workspace(approvals):
    first = approvals.add_grant("w", "Read", by="me")
    again = approvals.add_grant("w", "Read", by="you", expires=time.time_ns() + 10**12)
    approvals.add_grant("v", "Read", by="me")

    assert again.id == first.id
    assert [(grant.workspace, grant.granted_by) for grant in approvals.grants()] == [("w", "you"), ("v", "me")]


def test_a_rule_is_stored_separately_for_each_folder(approvals):
    first = approvals.add_grant("w", "run_shell(/make/)", by="me", folder="/w")
    other = approvals.add_grant("w", "run_shell(/make/)", by="me", folder="/w/sub")
    approvals.add_grant("w", "run_shell(/make/)", by="you", folder="/w/sub")
    assert [(grant.folder, grant.granted_by) for grant in approvals.grants("w")] == [("/w", "me"), ("/w/sub", "you")]

    approvals.revoke(other.id)
    assert [grant.id for grant in approvals.grants("w")] == [first.id]


def test_an_always_answer_is_stored_for_the_folder_of_the_command(approvals):
    asked = ApprovalRequest("run_shell", {}, "why", rules=("run_shell(/make/)",), workspace="/w", folder="/w/sub")
    id = approvals.ask("w", "s", "digest", asked, seconds=60).id
    approvals.answer(id, approved=True, by="me", always=True)
    assert [grant.folder for grant in approvals.grants("w")] == ["/w/sub"]


def test_grants_from_a_database_without_folders_are_kept(tmp_path):
    path = str(tmp_path / "state.db")
    old = Database(path, MIGRATIONS[:2], durable=True)
    row = ("0123456789ab", "w", "Read", "/w", "me", 1, None)
    old.write(lambda db: db.execute("INSERT INTO grants VALUES (?,?,?,?,?,?,?)", row))
    old.close()

    approvals = Approvals(str(tmp_path))
    approvals.add_grant("w", "Read", by="me", folder="/w/sub")
    assert [(grant.rule, grant.folder) for grant in approvals.grants("w")] == [("Read", "/w"), ("Read", "/w/sub")]
    approvals.close()


def test_a_grant_ends_when_it_expires_or_is_revoked(approvals):
    approvals.add_grant("w", "Past", by="me", expires=time.time_ns() - 1)
    future = approvals.add_grant("w", "Future", by="me", expires=time.time_ns() + 10**12)
    assert [grant.rule for grant in approvals.grants("w")] == ["Future"]

    assert approvals.revoke(future.id[:8]) == future

    assert approvals.grants() == []
    assert code(lambda: approvals.revoke(future.id)) == "not_found"


@pytest.mark.parametrize("id", ["", "*", "zz"])
def test_revoking_an_invalid_id_revokes_nothing(approvals, id):
    approvals.add_grant("w", "Read", by="me")

    assert code(lambda: approvals.revoke(id)) == "not_found"
    assert len(approvals.grants()) == 1


# --- attendance ---------------------------------------------------------------------------------------------------


def test_a_user_is_available_while_a_process_attends(approvals, tmp_path):
    assert not approvals.attended()

    with attend(str(tmp_path)), attend(str(tmp_path)):
        assert approvals.attended()
    assert not approvals.attended()


@pytest.mark.starts_processes
def test_no_user_is_available_once_the_process_that_attends_is_killed(approvals, tmp_path):
    process = start("attend", str(tmp_path), "")
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "there\n"
        assert approvals.attended()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()

    assert not approvals.attended()


# --- many processes -----------------------------------------------------------------------------------------------


def start(action: str, directory: str, number: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.state.asking", action, directory, number]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def together(action: str, directory: Path, numbers: list[str]) -> list[str]:
    """Run the same action in many processes at once; return the output of each."""
    with ThreadPoolExecutor(len(numbers)) as pool:
        processes = list(pool.map(lambda number: start(action, str(directory), number), numbers))
        return list(pool.map(lambda process: process.communicate("\n", timeout=HANG_SECONDS)[0].strip(), processes))


@pytest.mark.starts_processes
def test_many_processes_that_ask_the_same_get_the_same_id(approvals, tmp_path):
    ids = together("ask_same", tmp_path, [str(number) for number in range(PROCESSES)])

    assert set(ids) == {approvals.pending()[0].id}
    assert len(approvals.pending()) == 1


@pytest.mark.starts_processes
def test_many_processes_that_ask_and_answer_lose_nothing(approvals, tmp_path):
    assert set(together("ask_own", tmp_path, [str(number) for number in range(PROCESSES)])) == {"done"}

    assert len(approvals.pending()) == 2 * PROCESSES
    assert len(approvals.grants()) == 1  # they all stored the same rule
    with connected(tmp_path / "state.db") as db:
        rows = db.execute("SELECT answered_by, count(*) FROM approvals WHERE state='approved' GROUP BY 1").fetchall()
    db.close()
    assert dict(rows) == {str(number): 2 for number in range(PROCESSES)}


@pytest.mark.starts_processes
def test_one_of_many_simultaneous_answers_counts(approvals, tmp_path):
    id = ask(approvals).id

    answers = Counter(together("answer", tmp_path, [f"{number}-{id}" for number in range(PROCESSES)]))

    # only a later denial may revoke an approval
    assert answers["approved"] <= 1
    assert answers["approved"] + answers["denied"] >= 1
    assert answers["denied"] <= 1
    assert answers["not_found"] == PROCESSES - answers["approved"] - answers["denied"]
    assert approvals.find(id).state == ("denied" if answers["denied"] else "approved")


@pytest.mark.starts_processes
def test_only_one_of_many_processes_uses_an_approval(approvals, tmp_path):
    id = ask(approvals).id
    approvals.answer(id, approved=True, by="me")

    outcomes = Counter(together("use", tmp_path, [f"{number}-{id}" for number in range(PROCESSES)]))

    assert outcomes == {"used": 1, "denied": PROCESSES - 1}


# --- older databases ----------------------------------------------------------------------------------------------


def test_an_older_database_without_approvals_opens_and_keeps_its_history(base):
    from hilt.state.tables import MIGRATIONS
    from hilt.testing import temporary_runtime

    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "old\n")
        assert runtime.call("write_file", path="a.txt", content="new\n").ok
    path = os.path.join(base, "state", "state.db")
    names = "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'"
    with connected(":memory:") as first:
        first.executescript(MIGRATIONS[0])
        original = {name for (name,) in first.execute(names)}
    first.close()
    with connected(path) as db:
        for (table,) in db.execute(names).fetchall():
            if table not in original:
                db.execute(f"DROP TABLE {table}")
        db.execute("DROP INDEX changes_of_run")
        for column in ("call", "layer", "began", "previewed", "run", "parent", "agent"):
            db.execute(f"ALTER TABLE changes DROP COLUMN {column}")
        db.execute("PRAGMA user_version=1")
    db.close()

    approvals = Approvals(os.path.join(base, "state"))
    assert ask(approvals).state == "pending"
    approvals.close()

    with temporary_runtime(base) as (runtime, folder):
        assert runtime.call("undo", action="list").data["total"] == 1
    with connected(path) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    db.close()


def test_an_asker_may_import_its_answer_from_here():
    from hilt.call import UserAnswer
    from hilt.state import approvals

    assert approvals.UserAnswer is UserAnswer
