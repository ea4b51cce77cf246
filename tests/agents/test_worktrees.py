"""Agents that work in their own git worktree: isolation, the patch, and worktrees that stay."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hilt.agents.safe_git import FileChange, FileState, file_state
from hilt.agents.worktrees import make_patch
from hilt.testing import temporary_runtime
from tests.agents.model_server import ScriptedCall, Turn
from tests.agents.test_children import define, settled
from tests.programs import HAS_SANDBOX, needs_sandbox

STRESS = os.environ.get("HILT_STRESS")


def call(tool: str, **args: Any) -> ScriptedCall:
    return ScriptedCall(tool, args)


def git(folder: str, *args: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    done = subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(folder):
    """A workspace with one commit."""
    root = folder.join("")
    git(root, "init", "-q")
    folder.write("a.txt", "one\ntwo\nthree\n")
    folder.write("b.bin", b"\0\1\2")
    folder.write("old.txt", "moved as it is\n")
    folder.write("gone.txt", "deleted\n")
    folder.write("run.sh", "echo hi\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return folder


def worktrees(base: str) -> list[str]:
    try:
        return sorted(os.listdir(f"{base}/state-worktrees"))
    except FileNotFoundError:
        return []


CHANGE = (
    "printf 'one\\nTWO\\nthree\\n' > a.txt; printf '\\0\\1\\3' > b.bin; mv old.txt new.txt; rm gone.txt; "
    "chmod +x run.sh; mkdir -p d/e; echo fresh > 'd/e/über file.txt'; printf '\\0new' > d/c.bin"
)


@needs_sandbox
def test_changes_in_a_worktree_are_applied_with_approval(talk, repository, base):
    from hilt.call import UserAnswer

    asked: list[Any] = []

    def asker(question: Any) -> UserAnswer:
        asked.append(question)
        assert repository.read("a.txt") == "one\ntwo\nthree\n"
        return UserAnswer("once")

    talking = talk(
        Turn(calls=[call("agent", prompt="x", worktree=True)]),
        Turn(calls=[call("run_shell", command=CHANGE, force=True)]),
        Turn(calls=[call("write_file", path="w.txt", content="w"), call("read_file", path="a.txt")]),
        Turn("changed"),
        Turn("ok"),
        asker=asker,
    )

    talking.send("go")

    assert [question.tool for question in asked] == ["apply_patch"]
    assert "TWO" in asked[0].diff
    text = talking.results[0].result.text
    assert text.startswith("changed\n\n[worktree] Its changes to 9 files were applied"), text
    assert repository.read("a.txt") == "one\nTWO\nthree\n"
    assert repository.read("new.txt") == "moved as it is\n"
    assert repository.read("d/e/über file.txt") == "fresh\n"
    assert repository.read("w.txt") == "w"
    with open(repository.join("b.bin"), "rb") as first, open(repository.join("d/c.bin"), "rb") as second:
        assert (first.read(), second.read()) == (b"\0\1\3", b"\0new")
    assert os.access(repository.join("run.sh"), os.X_OK)
    assert not os.path.exists(repository.join("old.txt"))
    assert not os.path.exists(repository.join("gone.txt"))
    assert worktrees(base) == []
    assert len(git(repository.join(""), "worktree", "list").splitlines()) == 1
    undo = text.partition("(undo ")[2].partition(")")[0]
    assert talking.runtime.call("undo", action="restore", id=undo).ok
    assert repository.read("a.txt") == "one\ntwo\nthree\n"
    assert sorted(os.listdir(repository.join(""))) == [".git", "a.txt", "b.bin", "gone.txt", "old.txt", "run.sh"]


def by_agent(talk: Any, *calls: ScriptedCall, flags: dict[str, Any] | None = None, **options: Any) -> Any:
    """Let an agent in a worktree make these calls, and return the conversation of its parent."""
    talking = talk(
        Turn(calls=[call("agent", prompt="x", worktree=True, **options)]),
        Turn(calls=list(calls)),
        Turn("done"),
        Turn("ok"),
        flags={"approve": "once"} if flags is None else flags,
    )
    talking.send("go")
    return talking


def kept_worktree(talking: Any, base: str) -> str:
    """Return the worktree that a result names."""
    (name,) = worktrees(base)
    text = talking.results[0].result.text or str(talking.results[0].result.error.message)
    assert f"{base}/state-worktrees/{name}" in text
    return f"{base}/state-worktrees/{name}"


WRITE = call("write_file", path="w.txt", content="of the agent")


def test_a_worktree_in_which_nothing_changed_is_removed(talk, repository, base):
    talking = by_agent(talk, call("read_file", path="a.txt"))

    assert talking.results[0].result.text == "done"
    assert worktrees(base) == []
    assert os.listdir(repository.join(".git/worktrees")) == []


@pytest.mark.parametrize("flags, code", [({}, "approval_required"), ({"approve": "deny"}, "USER_REJECTION")])
def test_changes_that_nobody_approved_stay_in_the_worktree(talk, repository, base, flags, code):
    talking = by_agent(talk, WRITE, flags=flags)

    folder = kept_worktree(talking, base)
    assert code in talking.results[0].result.text
    assert not os.path.exists(repository.join("w.txt"))
    with open(f"{folder}/w.txt") as file:
        assert file.read() == "of the agent"
    (agent,) = talking.runtime.parts.roster.newest(1)
    record = talking.runtime.parts.agents.worktrees.record(agent.id)
    assert (record.root, code in record.problem) == (folder, True)


def test_a_conflict_is_reported_and_the_patch_stays_readable(talk, repository, base):
    repository.write("a.txt", "quite\ndifferent\n")
    talking = by_agent(talk, call("edit_file", path="a.txt", old_text="two", new_text="TWO"))

    kept_worktree(talking, base)
    text = talking.results[0].result.text
    assert "patch_conflict" in text
    patch = talking.runtime.call("read_file", path=text.partition("The patch is in ")[2].partition(" ")[0].rstrip("."))
    assert "+TWO" in patch.text
    assert repository.read("a.txt") == "quite\ndifferent\n"


def test_uncommitted_changes_of_the_user_stay(talk, repository, base):
    repository.write("a.txt", "one\ntwo\nthree\nmine\n")
    repository.write("untracked.txt", "mine\n")
    talking = by_agent(
        talk, call("read_file", path="untracked.txt"), call("edit_file", path="a.txt", old_text="one", new_text="ONE")
    )

    assert "file_not_found" in "".join(talking.server.prompts[2].results.values())
    assert repository.read("a.txt") == "ONE\ntwo\nthree\nmine\n"
    assert worktrees(base) == []


@pytest.mark.parametrize(
    "command, why",
    [
        ("ln -s a.txt link", "link: it is a symbolic link"),
        ("mkfifo pipe", None),
        ("truncate -s 1T a.txt || truncate -s 60M a.txt", "a.txt: it has "),
        ("mkdir inner && git init -q inner && echo x > inner/f", "inner/: it is a repository"),
    ],
)
def test_a_change_that_a_patch_cannot_hold_keeps_the_worktree(talk, repository, base, command, why):
    talking = by_agent(talk, call("run_shell", command=command), WRITE)

    if why is None:  # git ignores pipes
        assert repository.read("w.txt") == "of the agent"
        return
    folder = kept_worktree(talking, base)
    assert why in talking.results[0].result.text
    assert os.path.exists(f"{folder}/w.txt")
    assert not os.path.exists(repository.join("w.txt"))


def test_a_link_that_an_agent_leaves_does_not_reach_files_of_the_user(talk, repository, base):
    secret = f"{base}/secret"
    with open(secret, "w") as file:
        file.write("hidden words")
    talking = by_agent(talk, call("run_shell", command=f"ln -sf {secret} a.txt; mkdir d; ln -s {base} d/up"))

    kept_worktree(talking, base)
    assert b"hidden words" not in b"".join(request.raw for request in talking.server.prompts)


PROGRAMS = {
    "core.fsmonitor": "{}",
    "core.hooksPath": "{folder}",
    "core.pager": "{}",
    "core.sshCommand": "{}",
    "core.alternateRefsCommand": "{}",
    "diff.external": "{}",
    "filter.evil.clean": "{}",
    "filter.evil.smudge": "{}",
    "filter.evil.process": "{}",
    "filter.evil.required": "true",
    "diff.evil.textconv": "{}",
    "diff.evil.command": "{}",
    "merge.evil.driver": "{}",
    "gpg.program": "{}",
    "commit.gpgSign": "true",
    "credential.helper": "!{}",
    "alias.worktree": "!{}",
}
HOOKS = (
    *("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit", "fsmonitor-watchman"),
    *("pre-auto-gc", "post-rewrite", "query-watchman"),
)


def test_git_runs_no_program_that_the_repository_configures(talk, repository, base):
    """The attack: every setting, hook and attribute that names a program writes a marker."""
    marker, root = f"{base}/marker", repository.join("")
    program = f"{base}/program"
    with open(program, "w") as file:
        file.write(f"#!/bin/sh\necho $0 $@ >> {marker}\n")
    os.chmod(program, 0o755)
    repository.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "attributes")
    os.makedirs(f"{root}/.git/info", exist_ok=True)
    with open(f"{root}/.git/info/attributes", "w") as file:
        file.write("* filter=evil diff=evil\n")
    for name in HOOKS:
        os.symlink(program, f"{root}/.git/hooks/{name}")
    for name, value in PROGRAMS.items():
        if name != "core.hooksPath":
            git(root, "config", name, value.format(program))
    subprocess.run(["git", "status"], cwd=root, capture_output=True)
    assert os.path.exists(marker)  # the attack works
    os.unlink(marker)

    talking = by_agent(talk, call("edit_file", path="a.txt", old_text="two", new_text="TWO"), WRITE)

    assert "were applied" in talking.results[0].result.text
    assert not os.path.exists(marker)
    git(root, "config", "core.hooksPath", f"{root}/.git/hooks")
    result = talking.runtime.parts.agents.worktrees.check()
    assert result.prefix == ""
    assert not os.path.exists(marker)
    assert repository.read("a.txt") == "one\nTWO\nthree\n"


def test_a_command_in_a_worktree_cannot_write_the_main_repository(talk, repository, base):
    root = repository.join("").rstrip("/")
    config = repository.read(".git/config")
    attacks = [
        f"echo x > {root}/.git/hooks/pre-commit",
        f"echo x >> {root}/.git/config",
        "git config core.fsmonitor /bin/false",
        "git config --worktree core.fsmonitor /bin/false",
        'echo x > "$(git rev-parse --git-common-dir)/hooks/post-checkout"',
        'echo x > "$(git rev-parse --git-dir)/commondir"',
        'echo x > "$(git rev-parse --git-dir)/config.worktree"',
        "echo 'gitdir: /tmp' > .git",
        "rm -f .git; mkdir .git",
        f"echo x > {root}/w.txt",
        f"echo x > {base}/state-worktrees/other",
        f"ls {base}/state",
    ]
    calls = [call("run_shell", command=command, force=True) for command in attacks]
    calls += [
        call("write_file", path=".git", content="gitdir: /tmp"),
        call("write_file", path=".git/hooks/pre-commit", content="x"),
        call("write_file", path=f"{root}/w.txt", content="x"),
        call("write_file", path=f"{root}/.git/hooks/pre-commit", content="x"),
        call("read_file", path=f"{root}/a.txt"),
        call("write_file", path=".hilt/permissions.yaml", content="allow_all: true"),
    ]
    talking = by_agent(talk, *calls)

    results = talking.server.prompts[2].results
    assert len(results) == len(calls)
    assert repository.read(".git/config") == config
    assert not os.path.exists(repository.join(".git/hooks/pre-commit"))
    assert not os.path.exists(repository.join(".git/hooks/post-checkout"))
    names, text = sorted(os.listdir(root)), talking.results[0].result.text
    if not HAS_SANDBOX:  # Landlock cannot prevent all of it, but what git would run is disabled
        names, text = [name for name in names if not name.startswith(".git.disabled-")], text[: len("done")]
    assert names == [".git", "a.txt", "b.bin", "gone.txt", "old.txt", "run.sh"]
    assert text == "done"
    assert worktrees(base) == []


STATUS = call("run_shell", command="git status --short; git log --oneline")


@pytest.mark.parametrize("read", ["all", "workspace"])
def test_git_works_in_a_worktree(talk, repository, read):
    talking = by_agent(talk, WRITE, STATUS, flags={"approve": "once", "shell.read": read})

    output = "".join(talking.server.prompts[2].results.values())
    assert "?? w.txt" in output
    assert "first" in output


@pytest.mark.parametrize("rule", ["{root}/.git/**", "{root}/.git", "{above}/work*/.git/HEAD"])
def test_a_repository_that_a_rule_hides_is_not_readable_in_a_worktree(talk, repository, base, rule):
    root = repository.join("").rstrip("/")
    pattern = rule.format(root=root, above=base)
    allowed = "allow: [write_file, apply_patch, agent, run_shell]"
    repository.write(".hilt/permissions.yaml", f'permissions:\n  {allowed}\n  deny: ["Read(path:{pattern})"]\n')
    talking = by_agent(talk, call("run_shell", command=f"cat {root}/.git/HEAD"))

    assert "refs/heads" not in "".join(talking.server.prompts[2].results.values())


RULES = """permissions:
  allow: [write_file, edit_file, apply_patch, agent, run_shell]
  deny: ["Write(path:kept/**)", "Write(path:{root}/absolute/**)", "Read(path:{above}/work*/hidden.txt)"]
"""


def test_path_rules_of_the_workspace_apply_in_the_worktree(talk, repository, base):
    root = repository.join("").rstrip("/")
    for path in ("kept/f", "absolute/f", "hidden.txt"):
        repository.write(path, "before\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "more")
    rules = RULES.format(root=root, above=base)
    repository.write(".hilt/permissions.yaml", rules)  # not committed
    talking = by_agent(
        talk,
        call("write_file", path="kept/f", content="x"),
        call("write_file", path="absolute/f", content="x"),
        call("edit_file", path="absolute/f", old_text="before", new_text="x"),
        call("read_file", path="hidden.txt"),
        call("run_shell", command="cat hidden.txt; echo x > kept/f; echo x > absolute/f; echo x > kept/new"),
        call("write_file", path="open.txt", content="x"),
    )

    results = "".join(talking.server.prompts[2].results.values())
    assert results.count("denied") >= 4
    assert "before" not in results
    assert [repository.read(path) for path in ("kept/f", "absolute/f", "hidden.txt")] == ["before\n"] * 3
    assert repository.read("open.txt") == "x"
    assert worktrees(base) == []


def test_agents_below_an_agent_work_in_its_worktree(talk, repository, base):
    define(
        repository,
        base,
        "lead",
        "---\nname: lead\nworktree: true\ntools: [agent, write_file, read_file, apply_patch]\n---\nLead.\n",
    )
    talking = talk(
        Turn(calls=[call("agent", prompt="x", agent="lead")]),
        Turn(calls=[call("agent", prompt="in the same worktree")]),
        Turn(calls=[call("write_file", path="below.txt", content="1")]),
        Turn("written"),
        Turn(calls=[call("agent", prompt="in another one", worktree=True)]),
        Turn(calls=[call("write_file", path="own.txt", content="2"), call("read_file", path="below.txt")]),
        Turn("written too"),
        Turn(calls=[call("read_file", path="below.txt"), call("read_file", path="own.txt")]),
        Turn("led"),
        Turn("ok"),
        flags={"approve": "once"},
    )

    talking.send("go")

    assert talking.results[0].result.text.startswith("led\n\n[worktree] Its changes to 2 files were applied"), (
        talking.results[0].result
    )
    assert "file_not_found" in "".join(talking.server.prompts[6].results.values())
    assert (repository.read("below.txt"), repository.read("own.txt")) == ("1", "2")
    assert worktrees(base) == []


def test_the_changes_of_a_spawned_agent_are_applied_after_each_response(talk, repository, base):
    talking = talk(
        Turn(calls=[WRITE]), Turn("first"),
        Turn(calls=[call("write_file", path="w.txt", content="again")]), Turn("second"),
        flags={"approve": "once"},
    )  # fmt: skip
    spawned = talking.runtime.call("agent_spawn", template="general", message="x", worktree=True)
    assert "were applied" in spawned.data["response"]
    assert repository.read("w.txt") == "of the agent"
    agent = spawned.data["agentId"]
    assert worktrees(base) == [agent]

    talking.runtime.call("agent_send", agentId="me", targetAgentId=agent, message="more")
    answered = settled(talking.runtime, agent, answers=2)

    assert "were applied" in answered.answer
    assert repository.read("w.txt") == "again"
    talking.runtime.call("job_stop", task_id=agent)
    talking.runtime.parts.agents.worktrees.sweep()
    assert worktrees(base) == []


def test_the_user_can_apply_changes_that_were_not_approved(talk, repository, base, capsys):
    from hilt.surfaces.cli import main

    talking = by_agent(talk, WRITE, flags={})
    (agent,) = talking.runtime.parts.roster.newest(1)
    environ = {**talking.runtime.parts.environ, "HILT_APPROVE": "once"}

    with pytest.MonkeyPatch.context() as patched:
        for name, value in environ.items():
            patched.setenv(name, value)
        patched.chdir(repository.join(""))
        assert main(["agents", "show", agent.id]) == 0
        shown = capsys.readouterr().out
        assert main(["agents", "apply", agent.id]) == 0
        assert "were applied" in capsys.readouterr().out
        assert main(["agents", "apply", agent.id]) != 0

    assert f"worktree: {base}/state-worktrees/{agent.id}. approval_required" in shown
    assert repository.read("w.txt") == "of the agent"
    assert worktrees(base) == []


def test_a_cancelled_agent_leaves_its_changes_in_the_worktree(talk, repository, base):
    talking = talk(Turn(calls=[WRITE]), Turn("late", hold=f"{base}/never"), flags={"approve": "once"})
    started = talking.runtime.call("agent", prompt="x", worktree=True, run_in_background=True).data["task_id"]
    while len(talking.server.prompts) < 2:
        pass
    assert talking.runtime.call("job_stop", task_id=started).ok

    record = talking.runtime.parts.agents.worktrees.record(started)
    assert os.path.exists(f"{record.root}/w.txt")
    talking.runtime.parts.agents.worktrees.sweep()
    assert worktrees(base) == [started]
    assert not os.path.exists(repository.join("w.txt"))


def test_jobs_of_an_agent_end_before_its_changes_are_applied(talk, repository, base):
    job = "while :; do echo x >> w.txt; sleep 0.01; done"
    talking = by_agent(
        talk,
        call("run_shell", command=job, run_in_background=True),
        call("run_shell", command="while [ ! -s w.txt ]; do sleep 0.01; done"),
    )

    assert "were applied" in talking.results[0].result.text
    assert repository.read("w.txt").startswith("x\n")
    assert worktrees(base) == []


def test_changes_that_the_user_makes_meanwhile_are_not_deleted(talk, repository, base):
    from hilt.call import UserAnswer

    def asker(question: Any) -> UserAnswer:
        (name,) = worktrees(base)
        with open(f"{base}/state-worktrees/{name}/mine.txt", "w") as file:
            file.write("of the person")
        return UserAnswer("once")

    turns = Turn(calls=[call("agent", prompt="x", worktree=True)]), Turn(calls=[WRITE]), Turn("done"), Turn("ok")
    talking = talk(*turns, asker=asker)

    talking.send("go")

    with open(f"{kept_worktree(talking, base)}/mine.txt") as file:
        assert file.read() == "of the person"
    assert repository.read("w.txt") == "of the agent"


def test_a_workspace_can_be_part_of_a_repository(talk, folder, base):
    git(base, "init", "-q")
    folder.write("a.txt", "one\n")
    git(base, "add", "workspace")
    git(base, "commit", "-qm", "first")
    talking = by_agent(
        talk, call("write_file", path="a.txt", content="two\n"), call("write_file", path="../out.txt", content="x")
    )

    assert "were applied" in talking.results[0].result.text
    assert folder.read("a.txt") == "two\n"
    assert not os.path.exists(f"{base}/out.txt")


@pytest.mark.parametrize("kind", ["no repository", "no commit", "bare", "submodule", "inside"])
def test_an_agent_without_a_usable_repository_is_rejected(talk, folder, base, kind):
    root = folder.join("")
    if kind == "bare":
        git(root, "init", "-q", "--bare")
    elif kind != "no repository":
        git(root, "init", "-q")
    if kind == "submodule":
        folder.write("a.txt", "x")
        git(root, "add", "-A")
        git(root, "update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + ",module")
        git(root, "commit", "-qm", "first")
    environ = {}
    if kind == "inside":
        folder.write("a.txt", "x")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
        environ = {"HILT_STATE_DIR": f"{root}/state"}
    talking = talk(Turn(calls=[call("agent", prompt="x", worktree=True)]), Turn("ok"), environ=environ)

    talking.send("go")

    error = talking.results[0].result.error
    assert (error.code, "worktree" in error.suggestion or kind == "submodule") == ("invalid_request", True), error
    assert worktrees(base) == []
    assert [agent.status for agent in talking.runtime.parts.roster.newest(9)] in ([], ["failed"])


def test_undo_in_the_workspace_does_not_list_changes_in_a_worktree(talk, repository, base):
    talking = by_agent(
        talk,
        call("write_file", path="a.txt", content="of the agent"),
        flags={},
    )

    assert talking.runtime.call("undo", action="list").text.count("a.txt") == 0
    assert repository.read("a.txt") == "one\ntwo\nthree\n"


def test_a_definition_can_ask_for_a_worktree(talk, repository, base):
    define(repository, base, "apart", "---\nname: apart\nworktree: true\n---\nWork.\n")
    define(repository, base, "odd", "---\nname: odd\nworktree: perhaps\n---\nWork.\n")
    talking = talk(
        Turn(calls=[call("agent", prompt="x", agent="apart"), call("agent", prompt="x", agent="odd")]),
        Turn(calls=[WRITE]),
        Turn("done"),
        Turn("ok"),
        flags={"approve": "deny"},
    )

    talking.send("go")

    results = {result.id: result.result for result in talking.results}
    assert sorted("worktree" in str(result.text) for result in results.values()) == [False, True]
    assert len(worktrees(base)) == 1


LINES = st.sampled_from(
    ["a", "b", "", "-- a", "++ b", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "x\r", "\ufeffü", "diff --git"]
)
CONTENTS = st.one_of(
    st.none(),
    st.builds(
        lambda lines, end: ("\n".join(lines) + end).encode(), st.lists(LINES, max_size=9), st.sampled_from(["", "\n"])
    ),
    st.binary(max_size=9),
)
STATES = st.builds(lambda data, mode: data and FileState(mode, data), CONTENTS, st.sampled_from(["100644", "100755"]))


@settings(max_examples=300 if STRESS else 25, deadline=None)
@example({'d"d': (None, FileState("100644", b"\0"))})  # a name that git quotes, in a file without hunks
@given(st.dictionaries(st.sampled_from(["a", "b b", "c/ü", 'd"d', "a "]), st.tuples(STATES, STATES), min_size=1))
def test_a_patch_makes_exactly_the_changes(states):
    changes = [
        FileChange(path, old or None, new or None)
        for path, (old, new) in states.items()
        if (old or None) != (new or None)
    ]
    with tempfile.TemporaryDirectory() as base, temporary_runtime(base) as (runtime, workspace):
        for change in changes:
            if change.old is not None:
                workspace.write(change.path, change.old.data)
                os.chmod(workspace.join(change.path), int(change.old.mode[-3:], 8))
        if not changes:
            return
        result = runtime.call("apply_patch", patch=make_patch(changes))
        assert result.ok, (result, make_patch(changes))
        for change in changes:
            assert file_state(workspace.path, change.path) == change.new
