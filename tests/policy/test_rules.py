"""Rule files, and what they decide."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import product

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hilt.policy import rules
from hilt.policy.rules import RuleSet, decide, listed, narrowest
from hilt.policy.subject import Subject, Touched
from tests.policy.calls import (
    HOME,
    NAMES,
    ROOT,
    acting,
    call,
    fetching,
    outside,
    path,
    reading,
    shell,
    writing,
)

# as on the page of j-cli, comments and missing indentation included
DOCUMENTED = """\
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


def parse(text: str, *, trusted: bool = True) -> RuleSet:
    return rules.parse(text, "permissions.yaml", NAMES, trusted=trusted, home=HOME)


def verdict(subject: Subject, *sets: RuleSet) -> str | None:
    ruling = decide(sets, subject)
    return None if ruling is None else ruling.verdict


def having(subject: Subject, **lists: list[str]) -> str | None:
    """Return the decision of the rules in these lists, which must all be valid."""
    sets = [listed(name, texts, name, NAMES, home=HOME) for name, texts in lists.items()]  # type: ignore[arg-type]
    assert [problem for rule_set in sets for problem in rule_set.problems] == []
    return verdict(subject, *sets)


@pytest.mark.parametrize(
    "subject, expected",
    [
        (reading("a.py"), "allow"),
        (reading("src", tree=True), "allow"),
        (call("find_files", path("read", ".", tree=True)), "allow"),
        (shell("ls"), "allow"),
        (shell("ls -la src"), "allow"),
        (shell("git status"), "allow"),
        (shell("git status && ls"), "allow"),
        (shell("git status --short"), None),
        (shell("git push"), None),
        (shell("rm -rf build"), "deny"),
        (shell("ls; rm -rf build"), "deny"),
        (shell("sudo ls"), "deny"),
        (shell("ls && sudo ls"), "deny"),
        (writing("a.py"), None),
    ],
    ids=lambda value: value.command or value.tool if isinstance(value, Subject) else str(value),
)
def test_the_documented_file_does_what_its_comments_say(subject, expected):
    parsed = parse(DOCUMENTED)

    assert (parsed.problems, parsed.notes) == ((), ())
    assert verdict(subject, parsed) == expected


@pytest.mark.parametrize(
    "text",
    [
        DOCUMENTED,
        DOCUMENTED.replace("permissions:\n", ""),
        "permissions:\n" + "\n".join("  " + line for line in DOCUMENTED.splitlines()[2:]),
        "permissions: {allow_all: false, allow: [Read, 'Bash:ls.*', 'Bash:git status'], deny: ['Bash:rm -rf.*']}",
    ],
    ids=["next to the lists", "absent", "around the lists", "on one line"],
)
def test_the_permissions_key_may_be_around_the_lists_next_to_them_or_absent(text):
    parsed = parse(text)

    assert parsed.problems == ()
    assert [verdict(shell(command), parsed) for command in ("ls", "rm -rf x", "make")] == ["allow", "deny", None]


def test_a_ruling_names_its_rule_and_its_line():
    ruling = decide([parse(DOCUMENTED)], shell("ls; rm -rf x"))

    assert ruling is not None
    assert ruling.rule is not None
    assert (ruling.verdict, ruling.rule.text, ruling.file, ruling.line) == (
        "deny",
        "Bash:rm -rf.*",
        "permissions.yaml",
        14,
    )
    assert ruling.reason.startswith("Bash:rm -rf.* (permissions.yaml, line 14)")


@pytest.mark.parametrize("trusted", [True, False])
def test_no_network_denies_only_calls_that_use_the_network(trusted):
    parsed = parse("network: false\nallow: ['*']", trusted=trusted)

    for subject in (call("web_search"), call("web_fetch", Touched("network", "https://a.example/"))):
        assert verdict(subject, parsed) == "deny"
    assert verdict(call("run_shell", Touched("network", "*")), parsed) == "deny"
    assert verdict(reading("a"), parsed) != "deny"
    assert verdict(call("web_search"), parse("network: true\nallow: [WebSearch]")) == "allow"


@pytest.mark.parametrize("text", ["", "# nothing", "permissions:", "allow:\ndeny:\n", "allow_all:"])
def test_a_file_may_be_empty(text):
    assert parse(text) == RuleSet("permissions.yaml")


def test_allow_all_allows_everything_and_deny_still_wins():
    parsed = parse("allow_all: true\ndeny: ['Bash:sudo.*']\nask: [Write]")

    assert verdict(shell("rm -rf /"), parsed) == "allow"
    assert verdict(call("register_hook"), parsed) == "allow"
    assert verdict(shell("ls $HOME > x"), parsed) == "allow"
    assert verdict(shell("sudo ls"), parsed) == "deny"
    assert verdict(writing("a"), parsed) == "ask"


# which lists match a call, and what follows: deny > ask > allow > default
@pytest.mark.parametrize("lists", list(product([False, True], repeat=3)))
@pytest.mark.parametrize(
    "subject, text",
    [
        (reading("src/a.py"), "Read"),
        (reading("src/a.py"), "*"),
        (reading("src/a.py"), "Read:src/.*"),
        (reading("src/a.py"), "read_file(path:src/**)"),
        (shell("cargo build"), "Bash(cargo build:*)"),
        (shell("cargo build"), "tool::shell_exec(/cargo .*/)"),
        (shell("cargo build"), "run_shell(=cargo build)"),
        (writing("src/a.py", tool="edit_file"), "Write(path:src/**)"),
        (fetching("https://docs.rs/serde"), "WebFetch(domain:docs.rs)"),
        (acting("click"), "ComputerUse(action:click)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_deny_beats_ask_beats_allow_beats_the_default(lists, subject, text):
    names = [name for name, is_present in zip(("deny", "ask", "allow"), lists, strict=True) if is_present]

    assert having(subject, **{name: [text] for name in reversed(names)}) == (names[0] if names else None)


BROKEN = [
    ("allow: [", None),
    ("allow: *", None),
    ("- Read", None),
    ("allow:\n- Read\nallow:\n- Write", None),
    ("alow: [Read]", None),
    ("permissions: [Read]", None),
    ("permissions: {allow: [Read]}\ndeny: [Write]", None),
    ("allow: Read", None),
    ("allow: [1]", None),
    ("allow: [null]", None),
    ("allow_all: yes", None),
    ("allow_all: 1", None),
    ("network: no", None),
    ("allow: [{Bash: ls.*}]", None),
    ("allow: [{rule: Read, matches: [a]}]", "Read"),
    ("allow: [{rule: Read, match: a}]", "Read"),
    ("allow: ['']", None),
    ("allow: ['(x)']", None),
    ("deny: ['Bash:(']", "Bash"),
    ("deny: ['Bash:']", "Bash"),
    ("deny: ['Bash:(?=a)b']", "Bash"),
    ("deny: ['Bash:a)|(b']", "Bash"),
    ("deny: ['Bash:a{1000}{1000}{1000}']", "Bash"),
    ("deny: ['Bash()']", "Bash"),
    ("deny: ['Bash(ls']", "Bash"),
    ("deny: ['Bash(ls)']", "Bash"),
    ("deny: ['Bash(:*)']", "Bash"),
    ("deny: ['Bash(//)']", "Bash"),
    ("deny: ['Bash(path:src/**)']", "Bash"),
    ("deny: ['bash:rm.*']", "Bash"),
    ("deny: ['Bassh:rm.*']", "Bash"),
    ("deny: ['runshell']", "Bash"),
    ("deny: ['Write(path:)']", "write"),
    ("deny: ['Write(path:../x)']", "write"),
    ("deny: ['Write(path:a{b})']", "write"),
    ("deny: ['Write(path:{a,b})']", "write"),
    ("deny: ['Write(path:a**)']", "write"),
    ("deny: ['Read(path:{a,b})']", "read"),
    ("deny: ['WebFetch(domain:https://docs.rs/)']", "network"),
    ("deny: ['WebFetch(domain:)']", "network"),
    ("deny: ['ComputerUse(action:a b)']", "ComputerUse"),
]
BY_COMMANDS = {"read": ("Read", "Bash"), "write": ("write", "Bash")}  # a program reads and writes any file
GOVERNED = {
    "Read": reading("a"),
    "Bash": shell("ls"),
    "write": writing("a", tool="apply_patch"),
    "network": fetching("https://docs.rs/"),
    "ComputerUse": acting("click"),
}


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("text, governed", BROKEN, ids=str)
def test_a_broken_rule_asks_about_everything_it_could_have_governed(text, governed, trusted):
    others = listed("allow", ["*"], "others", NAMES)

    parsed = parse(text, trusted=trusted)

    assert parsed.problems
    for name, subject in GOVERNED.items():
        ruling = decide([others, parsed], subject)
        assert ruling is not None
        if governed is None or name in BY_COMMANDS.get(governed, [governed]):
            assert (ruling.verdict, ruling.file) == ("ask", "permissions.yaml")
            assert "permissions.yaml, line " in ruling.reason
        else:
            assert ruling.verdict == "allow"


def test_a_file_that_cannot_be_read_asks_about_everything():
    broken = rules.broken("permissions.yaml", "permissions.yaml: Permission denied.")

    assert [verdict(subject, broken) for subject in GOVERNED.values()] == ["ask"] * len(GOVERNED)


def test_the_valid_rules_of_a_broken_file_still_apply():
    parsed = parse("deny: ['Bash:rm.*', 'Write(path:[)']\nallow: [Read]\nextra: 1")

    assert [problem.line for problem in parsed.problems] == [1, 3]
    assert verdict(shell("rm x"), parsed) == "deny"
    assert verdict(reading("a"), parsed) == "ask"


def test_an_unknown_tool_is_noted_and_breaks_nothing():
    parsed = parse("deny: [mcp__github__push]\nallow: ['kubectl_pods:prod.*']")

    assert parsed.problems == ()
    assert [note.partition(": ")[2] for note in parsed.notes] == [
        "'mcp__github__push' matches no existing tool.",
        "'kubectl_pods:prod.*' matches no existing tool.",
    ]
    assert verdict(reading("a"), parsed) is None


def test_of_thousands_of_path_rules_a_call_tries_those_for_its_folder():
    parsed = parse("deny:\n" + "".join(f"- Read(path:folder{number}/*)\n" for number in range(5000)))

    assert parsed.problems == ()
    assert [rule.text for rule in parsed.rules.about(reading("folder7/a"))] == ["Read(path:folder7/*)"]
    assert (verdict(reading("folder4999/a"), parsed), verdict(reading("a"), parsed)) == ("deny", None)


@pytest.mark.parametrize("verdict_", ["allow", "ask", "deny"])
@pytest.mark.parametrize(
    "rule, match, not_match",
    [
        ("Bash:ls.*", ["ls", "ls -la"], ["rm x", "make"]),
        ("Bash(cargo build:*)", ["cargo build", "cargo build --release"], ["cargo run", "cargo builder"]),
        ("Write(path:src/**)", ["src/a.py", "src/a/b.py"], ["docs/a.md"]),
        ("Read(path:~/notes/*)", ["/homes/ann/notes/a"], ["/homes/bob/notes/a", "notes/a"]),
        ("WebFetch(domain:docs.rs)", ["docs.rs", "https://DOCS.rs/serde"], ["docs.rs.evil.com", "www.docs.rs"]),
        ("ComputerUse(action:double_click)", ["double_click", "doubleclick"], ["click"]),
        ("Read:src/.*", ["src/a.py"], ["docs/a.md"]),
        ("Bash", ["run_shell", "tool::shell_exec"], ["Read"]),
        ("*", ["anything"], []),
    ],
)
def test_examples_are_checked_when_the_file_is_read(rule, match, not_match, verdict_):
    def file(**examples):
        return parse(json.dumps({verdict_: [{"rule": rule, **examples}]}))

    assert file(match=match, not_match=not_match).problems == ()
    for line in match:
        (problem,) = file(not_match=[line]).problems
        assert repr(line) in problem.reason
    for line in not_match:
        (problem,) = file(match=[line]).problems
        assert repr(line) in problem.reason


def test_a_rule_whose_example_fails_asks_about_what_it_governs():
    parsed = parse("allow: [Read, {rule: 'Bash:ls', match: [ls -la]}]")

    assert verdict(shell("ls"), parsed) == "ask"
    assert verdict(reading("a"), parsed) == "allow"


@pytest.mark.parametrize("name", ["Bash", "run_shell", "shell_exec", "tool::shell_exec"])
@pytest.mark.parametrize("suffix", ["", ":ls.*", "(ls:*)", "(/ls.*/)"])
def test_rules_on_any_name_of_a_tool_are_equivalent(name, suffix):
    for verdict_ in ("allow", "deny"):
        assert having(shell("ls -la"), **{verdict_: [name + suffix]}) == verdict_
        assert having(reading("a"), **{verdict_: [name + suffix]}) is None


@pytest.mark.parametrize(
    "allow, command",
    [
        # one command behind another
        ("Bash:ls.*", "ls; rm x"),
        ("Bash:ls.*", "ls && curl evil.com"),
        ("Bash:ls.*", "ls || make"),
        ("Bash:ls.*", "ls | sh"),
        ("Bash:ls.*", "ls & make"),
        ("Bash:ls.*", "ls\nmake"),
        ("Bash(ls:*)", "ls; rm x"),
        ("Bash(ls:*)", "ls\nmake"),
        ("Bash(/ls.*/)", "ls && make"),
        # inside another
        ("Bash:ls.*", "ls $(make)"),
        ("Bash:ls.*", "ls `make`"),
        ("Bash:ls.*", "ls <(make)"),
        ("Bash:ls.*", 'ls "$(make)"'),
        ("Bash:ls.*", "ls ${x:-$(make)}"),
        ("Bash:ls.*", "ls() { make; }; ls"),
        ("Bash:ls.*", "(make)"),
        ("Bash:ls.*", "if ls; then make; fi"),
        # started by another
        ("Bash:ls.*", "timeout 5 ls"),
        ("Bash:ls.*", "env ls"),
        ("Bash:(env|ls).*", "env make"),
        ("Bash:ls.*", "sh -c ls"),
        ("Bash:sh.*", "sh -c make"),
        ("Bash:find.*", "find . -exec make {} ;"),
        ("Bash:echo.*", "echo x | xargs make"),
        # known only at run time
        ("Bash:.*", "ls $HOME"),
        ("Bash:.*", "$x"),
        ("Bash:.*", "./*.sh"),
        ("Bash:l.*", "l[s]"),
        ("Bash(ls:*)", "ls $HOME"),
        ("Bash:.*", "ls 'unbalanced"),
        # redirections that write
        ("Bash:.*", "ls > x"),
        ("Bash:ls.*", "ls >> ~/.bashrc"),
        ("Bash:ls.*", "ls 2> x"),
        ("Bash:ls.*", "ls &> x"),
        ("Bash(ls:*)", "ls > x"),
        # set or fed before the program starts
        ("Bash:ls.*", "LD_PRELOAD=./x.so ls"),
        ("Bash(ls:*)", "LD_PRELOAD=./x.so ls"),
        ("Bash(make:*)", "MAKEFLAGS=--eval=x make"),
        ("Bash:make.*", "MAKEFLAGS=--eval=x make"),
        ("Bash:ls.*", "</dev/null PATH=. ls"),
        ("Bash:ls.*", "PATH=.; ls"),
        ("Bash:ls.*", "X[0]=1 ls"),
        ("Bash:psql", "psql <<< 'drop table x'"),
        ("Bash:psql", "psql <<E\ndrop table x\nE"),
        ("Bash:sh", "sh < evil"),
        ("Bash(sh:*)", "sh <<E\nmake\nE"),
        ("Bash:sh", "{ sh; } < evil"),
        # another program with the same prefix
        ("Bash:ls.*", "'ls x/../evil'"),
        ("Bash:ls .*", "'ls x/../../evil' y"),
        ("Bash:ls.*", "lsx/evil"),
        ("Bash:ls.*", "ls/../evil"),
        ("Bash:(ls|cat).*", "ls/../evil"),
        ("Bash:bin/.*", "bin/../evil"),
        ("Bash(cargo build:*)", "cargo builder"),
        ("Bash(cargo build:*)", "'cargo build' x"),
        ("Bash:ls", "ls -la"),
        ("Bash:ls.*", "als"),
        # another tool
        ("Read", "ls"),
        ("Write(path:**)", "ls"),
        ("WebFetch(domain:*)", "curl https://docs.rs"),
    ],
)
def test_an_allow_of_commands_cannot_be_bypassed(allow, command):
    assert having(shell(command), allow=[allow]) is None


@pytest.mark.parametrize(
    "allow, command",
    [
        (["Bash:ls.*"], "ls -la"),
        (["Bash:ls.*"], "ls 2>/dev/null"),
        (["Bash:ls.*"], "ls 2>&1"),
        (["Bash:ls.*"], "ls 'a b' \"c\""),
        (["Bash:ls.*"], "ls *.py"),
        (["Bash:ls.*"], "ls # rm x"),
        (["Bash:(ls|wc).*"], "ls | wc -l"),
        (["Bash:ls.*", "Bash(wc:*)"], "ls | wc -l"),
        (["Bash:git status", "Bash:git log.*"], "git status && git log -3"),
        (["Bash:.*"], "./build.sh && make"),
        (["Bash:.*"], "FOO=1 make"),
        ([r"Bash:\./build\.sh.*"], "./build.sh --fast"),
        (["Bash:scripts/.*"], "scripts/build.sh"),
        (["Bash:FOO=1 make"], "FOO=1 make"),
        (["Bash:psql.*"], "psql -f a.sql"),
        (["Bash:sed.*"], "sed -n 5p f"),
        (["Bash(sed:*)"], "sed -i s/a/b/ f"),
        (["Bash(awk:*)"], "awk '$1 > 3 {print $2}' f"),
        (["Bash(git:*)"], "git checkout -- ."),
        (["Bash(git:*)"], "git -c user.name=x commit"),
        (["Bash(tar:*)"], "tar xf a.tgz"),
        (["Bash(find:*)"], "find . -name x"),
        (["Bash(=sed '1e ls' f)"], "sed '1e ls' f"),
        (["Bash(=LD_PRELOAD=./x.so make)"], "LD_PRELOAD=./x.so make"),
        (["Bash(env:*)", "Bash(make:*)"], "env A=1 make"),
        (["Bash:\\[ .*"], "[ -f a ]"),
        (["Bash:cat"], "cat <<E\ntext\nE"),
        (["Bash(cargo build:*)"], "cargo   build --release"),
        (["Bash(cargo build:*)"], '"cargo" build "--release"'),
        (["Bash:rm .*"], "rm x"),
        (["Bash:timeout 5 ls", "Bash:ls"], "timeout 5 ls"),
        (["Bash"], "ls $HOME > x; rm y | sh"),
        (["*"], "ls $HOME > x; rm y | sh"),
    ],
)
def test_an_allow_of_commands_covers_matching_commands(allow, command):
    assert having(shell(command), allow=allow) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        # a program that runs code because of its own language, its options or a variable
        "sed '1e ls' f",
        "sed s/a/b/e f",
        "sed -n '1w made' f",
        "sed 's/a/b/w made' f",
        "awk 'BEGIN{system(x)}'",
        "awk 'BEGIN{system(\"ls\")}'",
        "awk '{print | \"make\"}' f",
        "awk '{print > \"made\"}' f",
        "awk '{print > $1}' f",
        "find . -exec ls {} +",
        "find . -fprintf made x",
        "sort -o made f",
        "sort --compress-program=make f",
        "xargs make",
        "env make",
        "env LD_PRELOAD=./x.so",
        "env NODE_OPTIONS=--require=./x.js",
        "export BASH_ENV=x",
        "tar cf a --checkpoint-action=exec=make b",
        "tar cIf make a b",
        "zip -TT make a b",
        "git -c core.pager=./x log",
        "git -c alias.x='!make' x",
        "git config core.fsmonitor ./x",
        "git --exec-path=x log",
        "git grep -Oless x",
        "git clone ext::sh",
        "git rebase -x make main",
        "git fetch --upload-pack=make x",
        "git init --template=x",
        "ssh -o ProxyCommand=x h",
        "scp -S make a h:b",
        "rsync -e make a h:b",
        "rsync --rsync-path=make a h:b",
        "vim -c '!ls' f",
        "less '+!ls' f",
        "less -k keys f",
        "man -P make ls",
        "dc -e '!ls'",
        "sqlite3 a.db '.shell ls'",
        "psql -c '\\! ls'",
        "mysql -e 'system ls'",
        "make --eval='x:;ls'",
        "make SHELL=./x",
        "fd . -x make",
        "split --filter=make f",
        "tcpdump -z make -w f",
        "fzf --preview make",
        "script -c make f",
        "flock l make",
        "watch make",
        "timeout 5 make",
        "parallel make ::: a",
        "nc -e make h 1",
        "socat - EXEC:make",
        "docker exec c make",
        "kubectl exec p -- make",
        "gcc -fplugin=./x.so a.c",
        "uv run make",
        "go test -exec make",
    ],
)
@pytest.mark.parametrize("form", ["Bash({}:*)", "Bash:{}.*", "Bash(/{}.*/)"])
def test_an_allow_of_a_program_does_not_cover_what_it_starts(command, form):
    program = command.split()[0]

    assert having(shell(command), allow=[form.format(program)]) is None


@pytest.mark.parametrize("command", ["sed '1e rm x' f", "awk 'BEGIN{system(x)}'", "PERL5OPT=-Mx perl a"])
def test_a_deny_of_a_program_asks_about_hidden_code(command):
    assert having(shell(command), deny=["Bash(rm:*)"]) in ("ask", "deny")


@pytest.mark.parametrize("command", ["echo 'rm x' | sh", "echo x | python3", "ls && rm x"])
def test_two_allows_do_not_allow_a_dangerous_combination(command):
    assert having(shell(command), allow=["Bash:(ls|echo).*", "Bash:(sh|python3|rm x)"]) is None


@pytest.mark.parametrize(
    "deny, command",
    [
        ("Bash:rm -rf.*", "ls; rm -rf x"),
        ("Bash:rm -rf.*", "r''m -rf x"),
        ("Bash:rm -rf.*", "\\rm -rf x"),
        ("Bash:rm -rf.*", "/bin/rm -rf x"),
        ("Bash:^rm -rf", "/bin/rm -rf x"),
        ("Bash:^rm -rf", "ls; rm   -rf x"),
        ("Bash:^rm -rf", "timeout 5 rm -rf x"),
        ("Bash:^rm -rf", "sh -c 'rm -rf x'"),
        ("Bash:^rm -rf", "echo $(rm -rf x)"),
        ("Bash:^rm -rf", "xargs rm -rf"),
        ("Bash:rm -rf.*", "echo rm -rf x"),
        ("Bash:curl.*evil", "curl \\\n evil"),
        ("Bash:curl.*evil", "curl 'a\nb' evil"),
        ("Bash:rm", "rm $x"),
        ("Bash:rm -rf.*", "r''m -rf $x"),
        ("Bash:rm -rf .+", "/bin/r''m -rf $x"),
        ("Bash:> /etc", "ls > /etc/x"),
        ("Bash(rm:*)", "rm x"),
        ("Bash(rm:*)", "ls && /bin/rm x"),
        ("Bash(rm:*)", "r'm' x"),
        ("Bash(rm:*)", "FOO=1 rm x"),
        ("Bash(rm:*)", "rm 'unbalanced"),
        ("Bash(git push:*)", "git push $x"),
        ("Bash(/push/)", "git push"),
        ("Bash", "ls"),
        ("*", "ls"),
    ],
)
def test_a_deny_of_commands_is_found_anywhere(deny, command):
    assert having(shell(command), deny=[deny], allow=["*"]) == "deny"
    assert having(shell(command), ask=[deny], allow=["*"]) == "ask"


@pytest.mark.parametrize("command", ["git $x", "$x push", "git $(cat x) y", "ls 'unbalanced"])
def test_a_deny_that_could_match_at_run_time_asks(command):
    assert having(shell(command), deny=["Bash(git push:*)"], allow=["*"]) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "bash <<EOF\n$x\nEOF",
        "sh <<< $x",
        "echo $x | bash",
        "cat x | /bin/sh -s -- y",
        "cat x | env bash -e",
        "bash /dev/stdin < x",
        "bash <(cat x)",
        'sh -c "$x"',
        'bash -lc "$x"',
        "eval $x",
        "source <(cat x)",
    ],
)
def test_a_deny_of_a_prefix_asks_about_the_input_of_a_shell(command):
    assert having(shell(command), deny=["Bash(git push:*)"], allow=["*"]) == "ask"
    assert having(shell(command), allow=["*"]) == "allow"


@pytest.mark.parametrize("command", ["bash <<EOF\ngit push\nEOF", "sh <<< 'git push'", "echo git push | bash"])
def test_a_deny_of_a_prefix_denies_literal_input_of_a_shell(command):
    assert having(shell(command), deny=["Bash(git push:*)"], allow=["*"]) == "deny"
    assert having(shell(command), allow=["Bash(bash:*)", "Bash(sh:*)", "Bash(echo:*)"]) is None


@pytest.mark.parametrize(
    "command",
    ["rmdir x", "ls rm", "git status", "echo $x", "bash -c 'rmdir x'", "bash -lc 'kill 1'", "bash x.sh", "eval ls"],
)
def test_a_deny_of_a_prefix_does_not_apply_to_other_commands(command):
    assert having(shell(command), deny=["Bash(rm:*)", "Bash(git push:*)"], allow=["*"]) == "allow"


@pytest.mark.parametrize(
    "subject, expected",
    [
        (writing("src/a.py"), "allow"),
        (writing("src/a.py", tool="edit_file"), "allow"),
        (writing("src/a.py", "src/b.py", tool="apply_patch"), "allow"),
        (writing("src/a.py", tool="undo"), "allow"),
        (writing("src/a.py", "docs/a.md", tool="apply_patch"), None),
        (writing("docs/a.md"), None),
        (writing("SRC/a.py"), None),
        (writing("xsrc/a.py"), None),
        (reading("src/a.py"), None),
        (call("write_file", outside("write", "/etc/passwd")), None),
        (call("write_file", outside("write", "/other/src/a.py")), None),
        (call("search_replace", path("write", "src", tree=True)), "allow"),
        (call("search_replace", path("write", ".", tree=True)), None),
        (call("undo"), None),  # its paths are unknown
        (call("write_file", path("write", "src/a"), Touched("network", "https://docs.rs")), None),
    ],
)
def test_an_allow_by_path_covers_every_write_of_any_tool(subject, expected):
    assert having(subject, allow=["Write(path:src/**)"]) == expected


def test_several_paths_may_be_allowed_by_several_rules():
    subject = writing("src/a.py", "docs/a.md", tool="apply_patch")

    assert having(subject, allow=["Write(path:src/**)", "Edit(path:docs/*.md)"]) == "allow"


@pytest.mark.parametrize(
    "subject, expected",
    [
        (reading("secret/key"), "deny"),
        (reading("secret"), "deny"),
        (reading("Secret/KEY"), "deny"),
        (reading("a/secret/key"), "deny"),
        (call("multi_read", path("read", "a"), path("read", "secret/key")), "deny"),
        (reading("secrets"), "allow"),
        (writing("secret/key"), "allow"),
        (reading(".", tree=True), "ask"),
        (reading("a", tree=True), "ask"),
        (reading("secret/deep", tree=True), "deny"),
    ],
)
def test_a_deny_by_path_applies_below_it_and_in_any_case(subject, expected):
    assert having(subject, deny=["Read(path:secret)"], allow=["*"]) == expected


@pytest.mark.parametrize(
    "relative, tree, expected",
    [
        ("src", True, "allow"),
        (".", True, "ask"),
        ("conf", True, "ask"),
        ("conf/a", True, "deny"),
        ("conf/b", True, "allow"),
    ],
)
def test_a_folder_asks_only_when_a_denied_path_may_be_below(relative, tree, expected):
    assert having(reading(relative, tree=tree), deny=["Read(path:conf/a/**)"], allow=["*"]) == expected


def test_rules_may_name_absolute_and_home_paths():
    lists = {"deny": ["Read(path:/etc/**)", "Read(path:~/.config/*)"], "allow": [f"Read(path:{ROOT}/src/*)"]}

    assert having(call("read_file", outside("read", "/etc/passwd")), **lists) == "deny"
    assert having(call("read_file", outside("read", f"{HOME}/.config/x")), **lists) == "deny"
    assert having(reading("src/a"), **lists) == "allow"
    assert having(reading("etc/passwd"), **lists) is None


@pytest.mark.parametrize(
    "target, allow, expected",
    [
        ("src/x", ["Bash:ls.*", "Write(path:src/**)"], "allow"),
        ("docs/x", ["Bash:ls.*", "Write(path:src/**)"], None),
        ("src/x", ["Bash:ls.*"], None),
        ("src/x", ["Write(path:src/**)"], None),
    ],
)
def test_a_redirection_is_allowed_only_by_its_path(target, allow, expected):
    subject = shell(f"ls > {target}", path("write", target, named=target))

    assert having(subject, allow=allow) == expected


def test_every_redirection_needs_a_known_path():
    subject = shell("ls > src/x 2> src/y", path("write", "src/x", named="src/x"))

    assert having(subject, allow=["Bash:ls.*", "Write(path:src/**)"]) is None


def test_an_effect_without_a_target_is_allowed_only_by_name():
    subject = writing("src/a")._replace(effects=frozenset(("write", "network")))

    assert having(subject, allow=["Write(path:src/**)", "WebFetch(domain:*)"]) is None
    assert having(subject, allow=["Write"]) == "allow"


def test_a_redirection_through_a_link_is_decided_by_its_target():
    subject = shell("ls > src/link", outside("write", "/etc/x")._replace(named="src/link"))

    assert having(subject, allow=["Bash:ls.*", "Write(path:src/**)"]) is None
    assert having(subject, deny=["Write(path:/etc/**)"], allow=["*"]) == "deny"


def test_a_command_with_network_needs_more_than_a_rule_on_commands():
    subject = shell("curl https://docs.rs", Touched("network", "*"))

    assert having(subject, allow=["Bash:curl.*"]) is None
    assert having(subject, allow=["Bash:curl.*", "WebFetch(domain:docs.rs)"]) is None
    assert having(subject, allow=["Bash"]) == "allow"
    assert having(subject, deny=["WebFetch(domain:evil.com)"], allow=["*"]) == "ask"


@pytest.mark.parametrize(
    "url, allowed, denied",
    [
        ("https://docs.rs/serde", "allow", "deny"),
        ("http://docs.rs", "allow", "deny"),
        ("https://DOCS.RS/", "allow", "deny"),
        ("https://docs.rs./", "allow", "deny"),
        ("https://docs.rs:443/", "allow", "deny"),
        ("https://user:pass@docs.rs/", "allow", "deny"),
        ("https://docs.rs:8443/", None, "deny"),
        ("http://docs.rs:443/", None, "deny"),
        ("ftp://docs.rs/", None, "deny"),
        ("https://docs.rs@evil.com/", None, "allow"),
        ("https://evil.com/docs.rs", None, "allow"),
        ("https://evil.com?docs.rs", None, "allow"),
        ("https://evil.com#@docs.rs", None, "allow"),
        ("https://docs.rs.evil.com/", None, "allow"),
        ("https://xdocs.rs/", None, "allow"),
        ("https://www.docs.rs/", None, "allow"),
        ("https://evil.com\\@docs.rs/", None, "ask"),
        ("https://docs.rs\t.evil.com/", None, "ask"),
        ("https://docs%2Ers/", None, "ask"),
        ("docs.rs", None, "ask"),
        ("https://ｄocs.rs/", None, "ask"),
    ],
)
def test_a_domain_rule_matches_the_host_that_a_url_leads_to(url, allowed, denied):
    assert having(fetching(url), allow=["WebFetch(domain:docs.rs)"]) == allowed
    assert having(fetching(url), deny=["tool::web_fetch(domain:docs.rs)"], allow=["*"]) == denied


def test_an_allow_by_domain_covers_every_address_of_the_call():
    subject = call("web_fetch", Touched("network", "https://docs.rs"), Touched("network", "https://evil.com"))

    assert having(subject, allow=["WebFetch(domain:docs.rs)"]) is None
    assert having(subject, deny=["WebFetch(domain:evil.com)"], allow=["*"]) == "deny"
    assert having(call("web_search"), allow=["WebFetch(domain:*)"]) is None


def test_an_action_matches_in_every_spelling():
    subject = acting("keys", "key_combo")

    assert having(subject, allow=["ComputerUse(action:keys)"]) == "allow"
    assert having(subject, deny=["computer(action:key_combo)"], allow=["*"]) == "deny"
    assert having(acting("click"), allow=["ComputerUse(action:screenshot)"]) is None
    assert (
        having(call("register_hook")._replace(actions=frozenset(("click",))), allow=["ComputerUse(action:click)"])
        is None
    )


# rules and calls that overlap in many ways
TEXTS = [
    "*",
    "Read",
    "Write",
    "Bash",
    "Bash:ls.*",
    "Bash:.*",
    "Bash:^rm",
    "Bash(git push:*)",
    "Bash(/ls|wc.*/)",
    "run_shell(=ls; rm x)",
    "Write(path:src/**)",
    "Write(path:*.py)",
    "Read(path:secret)",
    "Read(path:**)",
    "WebFetch(domain:docs.rs)",
    "WebFetch(domain:*.rs)",
    "ComputerUse(action:click)",
    "RegisterHook",
    "nowhere",
]
BAD_TEXTS = ["Bash:(", "Write(path:[)", "WebFetch(domain:/)", "bash", "", "Read(x)"]
SUBJECTS = [
    *(shell(command) for command in ("ls", "ls; rm x", "ls | wc -l", "git $x", "ls > x", "rm -rf /", "A=1 ls", "(")),
    shell("ls > src/x", path("write", "src/x", named="src/x")),
    shell("curl x", Touched("network", "*")),
    reading("a.py"),
    reading("secret/x"),
    reading(".", tree=True),
    writing("src/a.py"),
    writing("src/a.py", "docs/a.md", tool="apply_patch"),
    call("undo"),
    fetching("https://docs.rs/"),
    fetching("https://a.rs:1/"),
    fetching("https:\\\\docs.rs"),
    acting("click"),
    call("register_hook"),
]
STRICTNESS = {"allow": 0, None: 1, "ask": 2, "deny": 3}
verdicts = st.sampled_from(["allow", "ask", "deny"])
lists = st.lists(st.tuples(verdicts, st.sampled_from(TEXTS)), max_size=5)
subjects = st.sampled_from(SUBJECTS)


def sets(pairs) -> list[RuleSet]:
    return [listed(verdict_, [text], "a file", NAMES) for verdict_, text in pairs]


def strictness(subject: Subject, rule_sets: list[RuleSet]) -> int:
    return STRICTNESS[verdict(subject, *rule_sets)]


@given(lists, st.sampled_from(TEXTS), subjects)
def test_another_deny_never_allows_more(pairs, text, subject):
    rule_sets = sets(pairs)

    assert strictness(subject, [*rule_sets, listed("deny", [text], "more", NAMES)]) >= strictness(subject, rule_sets)


@given(lists, st.lists(st.sampled_from([*TEXTS, *BAD_TEXTS])), verdicts, st.booleans(), subjects)
def test_an_untrusted_project_never_allows_more(pairs, texts, verdict_, allow_all, subject):
    rule_sets = sets(pairs)
    project = listed(verdict_, texts, "project", NAMES, trusted=False)
    whole = parse(f"allow_all: {str(allow_all).lower()}", trusted=False)

    assert strictness(subject, [project, whole, *rule_sets]) >= strictness(subject, rule_sets)


@given(lists, st.sampled_from(BAD_TEXTS), verdicts, subjects)
def test_a_broken_rule_never_allows_more(pairs, text, verdict_, subject):
    rule_sets = sets(pairs)
    bad = listed(verdict_, [text], "bad", NAMES)

    assert bad.rules == ()
    assert strictness(subject, [bad, *rule_sets]) >= strictness(subject, rule_sets)


@given(lists, subjects, st.randoms())
def test_the_order_of_rules_does_not_matter(pairs, subject, random):
    rule_sets = sets(pairs)
    shuffled = random.sample(rule_sets, len(rule_sets))

    assert verdict(subject, *rule_sets) == verdict(subject, *shuffled)


@given(lists, lists, subjects)
def test_a_deny_or_ask_of_either_file_wins(first, second, subject):
    both = verdict(subject, *sets(first), *sets(second))
    alone = [verdict(subject, *sets(pairs)) for pairs in (first, second)]

    for stricter in ("deny", "ask"):
        if stricter in alone:
            assert both == stricter
            return
    assert both in ("allow", None)
    assert both == "allow" or "allow" not in alone


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.command or subject.tool)
def test_the_grant_of_an_approval_covers_that_call_and_no_other(subject):
    grant = listed("allow", narrowest(subject), "grants", NAMES)

    assert grant.problems == ()
    if grant.rules:
        assert verdict(subject, grant) == "allow"
    if not grant.rules or grant.rules[0].text == subject.tool or any(touched.tree for touched in subject.touches):
        return
    others = [other for other in SUBJECTS if other != subject and verdict(other, grant) == "allow"]
    # commands that were approved together are not approved one by one, but a part of the written paths is
    assert [other for other in others if not set(other.touches) <= set(subject.touches)] == []


@pytest.mark.parametrize(
    "subject, expected",
    [
        (shell("cargo build --release"), ("run_shell(/cargo build --release/)",)),
        (shell("ls a.b"), (r"run_shell(/ls a\.b/)",)),
        (shell("git commit -m 'a b'"), ("run_shell(=git commit -m 'a b')",)),
        (shell("ls; rm x"), ("run_shell(=ls; rm x)",)),
        (shell("./build.sh"), ("run_shell(=./build.sh)",)),
        (shell("ls | sh"), ("run_shell(=ls | sh)",)),
        (shell("python3 <<E\n1\nE"), ("run_shell(=python3 <<E\n1\nE)",)),
        (shell("echo $HOME"), ()),
        (shell("ls > x"), ()),
        (shell("ls > x", path("write", "x", named="x")), ("run_shell(=ls > x)", "write_file(path:./x)")),
        (shell("("), ()),
        (shell("echo " + "x" * 5000), ()),
        (shell("curl x", Touched("network", "*")), ()),
        (writing("src/a.py", tool="edit_file"), ("write_file(path:./src/a.py)",)),
        (writing("a[1]*.py"), (r"write_file(path:./a\[1\]\*.py)",)),
        (writing("a", "b", tool="apply_patch"), ("write_file(path:./a)", "write_file(path:./b)")),
        (reading("src", tree=True), ("read_file(path:./src/**)",)),
        (reading(".", tree=True), ("read_file(path:./**)",)),
        (call("read_file", outside("read", "/opt/x")), ("read_file(path:/opt/x)",)),
        (fetching("https://user@DOCS.rs./x"), ("web_fetch(domain:docs.rs)",)),
        (fetching("http://localhost:8080/"), ("web_fetch(domain:localhost:8080)",)),
        (fetching("http://[::1]:80/"), ("web_fetch(domain:[::1])",)),
        (fetching("docs.rs"), ("web_fetch",)),
        (acting("keys", "key_combo"), ("computer(action:key_combo)",)),
        (call("undo"), ("undo",)),
    ],
)
def test_an_approval_grants_the_narrowest_rules(subject, expected):
    assert narrowest(subject) == expected
    if expected:
        assert having(subject, allow=list(expected)) == "allow"


TOKENS = [
    *(
        "ls",
        "evil",
        "./evil",
        "lsx/evil",
        "ls/../evil",
        "x",
        "-l",
        "A=1",
        "PATH=.",
        "eval",
        "exec",
        "command",
        "env",
        ".",
    ),
    *(" ", " ", " ", "\n", "\t", "\\\n", "\\", "'", '"', "'ls'", '"ls x"', "#"),
    *(";", "&", "&&", "||", "|", "|&", "(", ")", "{ ", "; }", "!", "<", ">", ">>", "2>", "&>", "<<<", "<<E\n", "\nE\n"),
    *(
        "$x",
        "${x:-evil}",
        "$(evil)",
        "`evil`",
        "<(evil)",
        ">(evil)",
        "$'evil'",
        "*",
        "?",
        "~",
        "ls()",
        "if",
        "then",
        "fi",
    ),
]
lines = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=8).map("".join)


@pytest.fixture
def folder(tmp_path):
    """A folder with programs that record that they ran."""
    for place in (tmp_path / "bin", tmp_path / "here", tmp_path / "here" / "ls x", tmp_path / "here" / "lsx"):
        place.mkdir()
    for program in ("bin/ls", "bin/env", "bin/evil", "here/evil", "here/lsx/evil"):
        file = tmp_path / program
        file.write_text(f'#!/bin/sh\necho {file.name} >>"$RAN"\n')
        file.chmod(0o755)
    return tmp_path


@pytest.mark.starts_processes
@given(line=st.just("ls") | lines.map(lambda text: "ls" + text) | lines)
def test_commands_that_a_rule_allows_run_nothing_else(folder, line):
    if having(shell(line), allow=["Bash:ls.*"]) != "allow":
        return
    here, ran = folder / "here", folder / "ran"
    ran.write_text("")
    before = sorted(here.iterdir())

    subprocess.run(
        [str(shutil.which("bash")), "-c", line],
        cwd=here,
        env={"PATH": str(folder / "bin"), "RAN": str(ran), "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )

    assert set(ran.read_text().split()) <= {"ls"}
    assert sorted(here.iterdir()) == before


@given(lines, lines)
@example("ls", "ls;ls")
def test_a_granted_command_covers_only_its_own_parts(command, other_command):
    assume(command.strip() and command != other_command)
    grants = narrowest(shell(command))

    if grants:
        assert having(shell(command), allow=list(grants)) == "allow"
        granted = [part.words for part in shell(command).parts]
        parts = shell(other_command).parts
        if not parts or any(part.words not in granted for part in parts):
            assert having(shell(other_command), allow=list(grants)) is None


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8)
paths = st.lists(names.filter(lambda name: name not in (".", "..")), min_size=1, max_size=4).map("/".join)


@given(paths, paths)
def test_a_granted_path_covers_only_itself(path_a, path_b):
    grants = narrowest(writing(path_a))

    assert having(writing(path_a), allow=list(grants)) == "allow"
    assert having(writing(path_b), allow=list(grants)) == ("allow" if path_a == path_b else None)
