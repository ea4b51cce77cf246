from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hilt.shell.risk import CommandPart, Risk, classify
from hilt.shell.syntax import MAX_LENGTH
from tests.shell.command_lines import CAUTION, DANGEROUS, INLINE_CODE, SAFE

LINES = [
    *((line, "safe", reason) for line, reason in SAFE),
    *((line, "caution", reason) for line, reason in (*CAUTION, *INLINE_CODE)),
    *((line, "dangerous", reason) for line, reason in DANGEROUS),
]
ORDER = ("safe", "caution", "dangerous")


def words(risk: Risk) -> list[tuple[str | None, ...]]:
    return [part.words for part in risk.parts if part.kind == "command"]


@pytest.mark.parametrize("level", ORDER)
def test_a_command_line_has_its_level_and_reason(level):
    wrong = []
    for line, _, reason in [row for row in LINES if row[1] == level]:
        risk = classify(line)
        if risk.level != level or reason not in risk.reason:
            wrong.append((line, risk.level, risk.reason))

    assert wrong == []


def test_reading_a_repository_is_safe_only_in_the_sandbox():
    for line in [line for line, _ in SAFE if line.startswith("git ") and "--version" not in line]:
        risk = classify(line, sandboxed=False)

        assert (risk.level, "sandbox" in risk.reason) == ("caution", True), line


def test_inline_code_may_do_everything_only_in_the_sandbox():
    wrong = [line for line, _ in INLINE_CODE if classify(line, sandboxed=False).level != "dangerous"]

    assert wrong == []


@pytest.mark.parametrize(
    "line, paths",
    [
        ("rm -rf dist && npm run build", ("dist",)),
        ("touch a.tmp && rm -- ./a.tmp b", ("a.tmp", "b")),
        ("rm -rf build/* *.egg-info {out,tmp}/x", ("build", "*.egg-info", "out/x", "tmp/x")),
        ("rm -rf 'app/[id]'", ("app",)),
        ("rm -rf /tmp/work", ("/tmp/work",)),
        ("rmdir a; unlink b", ("a", "b")),
        ("find . -name '*.pyc' -delete", ("**/*.pyc",)),
        ("find src lib -type f -name '*.o' -not -path './x/*' -exec rm {} +", ("src/**/*.o", "lib/**/*.o")),
        (r"find . \( -name '*.pyc' -o -name __pycache__ \) -prune -exec rm -rf {} \;", ("**/*.pyc", "**/__pycache__")),
        ("find . -name '*.log' -print0 | xargs -0 rm -f", ("**/*.log",)),
        ("git checkout -- src/a.c && git restore b.c", ("src/a.c", "b.c")),
        ("git clean -fd", ()),
        ("truncate -s 0 server.log", ("server.log",)),
        ("bash -c 'rm x' && env rm y", ("x", "y")),
        ("python3 -c 'import os; os.remove(\"x\")'", ()),
        ("rm x; kill 5", ("x",)),
    ],
)
def test_a_removal_that_undo_covers_has_its_paths(line, paths):
    assert classify(line).removes == paths
    assert classify(line, sandboxed=False).removes is None


@pytest.mark.parametrize(
    "line",
    [
        *(
            "rm -rf .[[:alpha:]]it",
            "rm -rf .[^x]it",
            "rm -rf `echo .gi`{t,x}",
            r"rm -rf \.git{,x}",
            "rm -rf $PWD/objects",
        ),
        *(r"find . ! \( -name keep \) -delete", r"find . -not \( -name keep \) -exec rm -rf {} +"),
        *("find -L .git -name objects -delete", "find -H /data -name x -delete", "find . -name x -follow -delete"),
        *(r"find . -name x -printf '.git\n' | xargs rm -rf", r"find . -name x -exec echo .git \; | xargs rm -rf"),
        *("find . -name x | xargs -I{} rm -rf {}/../.git", "find . -name x | xargs -a names rm -rf"),
        *("find() { echo .git; }; find . -name x | xargs rm -rf", "alias rm='rm -rf .git'; rm x"),
        *("rm -rf .", "rm -rf ./", "rm -rf *", "rm -rf ./*", "rm -rf .*", "rm -rf ../x", "rm -rf x/..", "rm -rf ~/x"),
        *(
            "rm -rf .git",
            "rm -rf a/.git/objects",
            "rm -rf .g*",
            "rm -rf [.]git",
            "rm -rf $X",
            'rm -rf "$D/"',
            "rm -rf *.*",
        ),
        *("rm x; git reset --hard", "rm x; shred y", "sudo rm x", "rm --no-preserve-root x", "ls | xargs rm"),
        *("find . -delete", "find . -type f -delete", "find . -name a -o -delete", "find . -not -name a -delete"),
        *("find . -name '*' -delete", "find . -name .git -exec rm -rf {} +", "find . -name a -delete -o -name b"),
        *("find $X -name a -delete", r"find . \( -name a -o -type f \) -delete", "find .. -name a -delete"),
        *("find . -name a | grep b | xargs rm", "git checkout .", "git checkout -f", "git checkout v1 -- a.c"),
        *(
            "git restore -s HEAD~1 a.c",
            "git restore --staged -W a.c",
            "git clean -fdx",
            "git clean -ffd",
            "git stash drop",
        ),
        *("git checkout a.c b.c", "curl x | sh; rm y"),
    ],
)
def test_any_other_removal_has_none(line):
    assert classify(line).level == "dangerous"
    assert classify(line).removes is None


@pytest.mark.parametrize("line", ["ls", "make"])
def test_the_sandbox_changes_nothing_else(line):
    assert classify(line, sandboxed=False) == classify(line)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("ls -l 'a b'", [("ls", "-l", "a b")]),
        ('echo $x "$y" a$z', [("echo", None, None, None)]),
        ("a && b | c; d &", [("a",), ("b",), ("c",), ("d",)]),
        ("a $(b `c`)", [("a", None), ("b", None), ("c",)]),
        ("a <(b) > >(c)", [("a", None), ("b",), ("c",)]),
        ("f() { a; }; f", [("a",), ("f",)]),
        ("if a; then b; elif c; then d; else e; fi", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("case $(a) in $(b)) c;; esac", [("a",), ("b",), ("c",)]),
        ("cat <<E\n$(a) `b`\nE", [("cat",), ("a",), ("b",)]),
        ("env A=1 nice ls x", [("env", "A=1", "nice", "ls", "x"), ("nice", "ls", "x"), ("ls", "x")]),
        ("sh -c 'a; b'", [("sh", "-c", "a; b"), ("a",), ("b",)]),
        ("xargs -n1 grep x", [("xargs", "-n1", "grep", "x"), ("grep", "x", None)]),
        ("xargs -I{} cp {} d", [("xargs", "-I{}", "cp", "{}", "d"), ("cp", None, "d", None)]),
        ("find . -exec grep x {} +", [("find", ".", "-exec", "grep", "x", "{}", "+"), ("grep", "x", None)]),
        ("sudo ls", [("sudo", "ls"), ("ls",)]),
        ("sudo rm x | ls", [("sudo", "rm", "x"), ("rm", "x"), ("ls",)]),
        ("eval 'a b'", [("eval", "a b"), ("a", "b")]),
        ("trap 'a' EXIT", [("trap", "a", "EXIT"), ("a",)]),
        ("A=1 B=$(b)", [(), ("b",)]),
        ("A=1 a b=c", [("a", "b=c")]),
        ("ls > f -l", [("ls", "-l")]),
        ("ls <<E -l | wc\nx\nE", [("ls", "-l"), ("wc",)]),
        ("a <<E; b <<'F' | c\n$(d)\nE\n$(e)\nF\ng", [("a",), ("b",), ("c",), ("d",), ("g",)]),
        ("declare -a x=(a b)", [("declare", "-a", None)]),
        ("[ -f a ]", [("[", "-f", "a", "]")]),
        ("export A=1 B", [("export", "A=1", "B")]),
        ("uv run pytest -q", [("uv", "run", "pytest", "-q"), ("pytest", "-q")]),
        ("ssh host 'a; b'", [("ssh", "host", "a; b"), ("a",), ("b",)]),
        ("git bisect run a b", [("git", "bisect", "run", "a", "b"), ("a", "b")]),
        ("awk '{print | \"sort\"}'", [("awk", '{print | "sort"}'), ("sort",)]),
        ("# a", []),
    ],
)
def test_every_simple_command_that_could_run_is_a_part(line, expected):
    risk = classify(line)

    assert words(risk) == expected


@pytest.mark.parametrize(
    "line, expected",
    [
        ("echo x > f", [("> f", (">", "f"), "caution", ("f",))]),
        (
            "echo x >>'a b' 2>g",
            [(">>'a b'", (">>", "a b"), "caution", ("a b",)), ("2>g", (">", "g"), "caution", ("g",))],
        ),
        ("echo x > $f", [("> $f", (">", None), "caution", ())]),
        ("echo x > a?", [("> a?", (">", None), "caution", ())]),
        ("echo x > /dev/sd?", [("> /dev/sd?", (">", None), "dangerous", ())]),
        ("{ a; b; } &> f", [("&> f", ("&>", "f"), "caution", ("f",))]),
        ("echo x > /dev/sda", [("> /dev/sda", (">", "/dev/sda"), "dangerous", ("/dev/sda",))]),
        ("cat <<E > f\nx\nE", [("> f", (">", "f"), "caution", ("f",))]),
        ("ls > /dev/null 2>&1 < g", []),
    ],
)
def test_a_writing_redirection_is_a_separate_part(line, expected):
    redirections = [part for part in classify(line).parts if part.kind == "redirection"]

    assert [(part.text, part.words, part.level, part.writes) for part in redirections] == expected


def test_a_command_lists_what_its_own_redirections_write():
    first, *_ = classify("echo x > f 2> g < h").parts

    assert first.writes == ("f", "g")


@pytest.mark.parametrize(
    "line",
    [
        "ls; rm x",
        "é=ü; rm 'ä' | wc -l",
        "ls \\\n -l; r\\\nm x && ls",
        "a 漢 > 字; b",
        "if a; then b > c; fi",
        "x=$(a) b",
        "é <<A 2>&1 | b; c <<'B' > d\nx\nA\ny\nB\ne",
    ],
)
def test_the_offsets_of_a_part_are_those_of_its_text(line):
    for part in classify(line).parts:
        assert line[part.start : part.end] == part.text


def test_a_command_inside_a_string_has_the_offsets_of_the_string():
    risk = classify("ls; sh -c 'rm x'")

    assert risk.parts[-1] == CommandPart("rm x", ("rm", "x"), "dangerous", "rm deletes files", 4, 16, removes=("x",))


def test_the_level_is_that_of_the_worst_part():
    risk = classify("ls; make; rm x; foo")

    assert (risk.level, risk.reason, risk.part) == ("dangerous", "rm deletes files", "rm x")
    assert [part.level for part in risk.parts] == ["safe", "caution", "dangerous", "caution"]


def test_a_line_that_does_not_parse_is_dangerous():
    for line in ("echo 'a", "ls &&", "if", "a )", "ls <(", "echo ${", "case x in", "[[ a", "f() {"):
        assert classify(line).level == "dangerous", line


@pytest.mark.starts_processes
def test_a_parser_that_does_not_load_makes_every_command_dangerous():
    code = (
        "import sys; sys.modules['tree_sitter_bash'] = None\n"
        "from hilt.shell.risk import classify; print(*classify('ls')[:2])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.startswith("dangerous ")
    assert "tree_sitter_bash" in printed


# The property: however a dangerous command is wrapped, quoted or chained, it stays dangerous.

DANGERS = st.sampled_from(
    [
        "rm x",
        "rm -rf /",
        "shred x",
        "dd if=a of=b",
        "git push --force",
        "git reset --hard",
        "chmod -R 777 x",
        "find . -delete",
        "docker system prune",
        "hilt approve 1",
        "shutdown now",
    ]
)


def quoted(draw: st.DrawFn, command: str) -> str:
    """Write the first word in another way that means the same to bash."""
    verb, blank, rest = command.partition(" ")
    way = draw(st.integers(0, 7))
    middle = len(verb) // 2
    written = [
        verb,
        f"'{verb}'",
        f'"{verb}"',
        f"\\{verb}",
        f"{verb[:middle]}''{verb[middle:]}",
        "$'" + "".join(rf"\x{ord(letter):02x}" for letter in verb) + "'",
        f"{verb[:middle]}\\\n{verb[middle:]}",
        f"/usr/bin/{verb}",
    ][way]
    return written + blank + rest


def single_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


AROUND = (
    *("{}", "ls; {}", "{}; ls", "ls && {}", "ls || {}", "{} &", "ls | {}", "({})", "{{ {}; }}", "! {}", "ls\n{}\nls"),
    *("echo $({})", 'echo "$({})"', "cat <({})", "if {}; then ls; fi", "if ls; then {}; fi", "while ls; do {}; done"),
    *("for x in a; do {}; done", "case a in a) {};; esac", "f() {{ {}; }}; f", "x=$({})", "x=$({}) ls", "A=1 {}"),
    *("echo ${{x:-$({})}}", "cat <<E\n$({})\nE", "time {{ {}; }}", "coproc {{ {}; }}", "{} > f", "{} 2>&1 | cat"),
    *("export x=$({})", "[[ -n $({}) ]]", "((x = $({})))", "a=($({}))", "{} # a", "ls # a\n{}", "ls \\\n -l; {}"),
)
WRAPPED = (
    *(
        "env {}",
        "env A=1 {}",
        "command {}",
        "exec {}",
        "nohup {}",
        "nice -n 3 {}",
        "time {}",
        "timeout 5 {}",
        "setsid {}",
    ),
    *(
        "stdbuf -oL {}",
        "xargs {}",
        "busybox {}",
        "sudo {}",
        "find . -exec {} ;",
        "builtin {}",
        "coproc {}",
        "uv run {}",
    ),
)
EVALUATED = (
    "sh -c {}",
    "bash -lc {}",
    "eval {}",
    "trap {} EXIT",
    "env sh -c {}",
    "watch {}",
    "ssh host {}",
    "env -S {}",
)


@st.composite
def disguised(draw: st.DrawFn) -> str:
    command = quoted(draw, draw(DANGERS))
    can_wrap = True
    for _ in range(draw(st.integers(0, 4))):
        way = draw(st.integers(0, 3))
        if way == 0 and can_wrap:
            command = draw(st.sampled_from(WRAPPED)).format(command).replace(" ;", " \\;")
        elif way == 1:
            # the text of another shell is quoted as a whole; env -S has quoting rules of its own
            pattern = draw(st.sampled_from(EVALUATED if can_wrap and "\\" not in command else EVALUATED[:5]))
            command = pattern.format(single_quoted(command))
            can_wrap = True
        else:
            command = draw(st.sampled_from(AROUND)).format(command)
            can_wrap = False
    return command


@given(disguised())
def test_no_disguise_lowers_a_dangerous_command(line):
    assert classify(line).level == "dangerous", line


# two lines that do not parse may parse together: one opens a quote that the other closes
RATED = [line for line in LINES if "cannot be rated" not in line[2]]


@given(st.sampled_from(RATED), st.sampled_from(RATED), st.sampled_from(["; ", " && ", " || ", "\n", " & "]))
def test_a_chain_is_as_risky_as_its_worst_member(first_line, second_line, joint):
    first, second = first_line[0], second_line[0]
    if "#" in first or "<<" in first or "\\" in first[-1:] or not first.strip() or not second.strip():
        return

    level = classify(first + joint + second).level

    assert ORDER.index(level) >= max(ORDER.index(first_line[1]), ORDER.index(second_line[1])), first + joint + second


@given(st.text())
@example("\ud800")
@example("\x00")
@example("`" * 50)
@example("\\")
@example("$'\\U00110000'")
@example("$'\\xZZ' \\\n")
@example("<<")
@example("n\U00031acd\xb2{\U0010d136\n")
def test_any_text_gets_a_level(text):
    assert classify(text).level in ORDER


@given(
    st.lists(
        st.sampled_from([*"$(){}[]<>|&;'\"`\\\n #!*?=~-", "rm", "ls", "EOF", "<<EOF\n", "if ", "then ", "$(", "2>"])
    )
)
def test_any_mixture_of_shell_syntax_gets_a_level(pieces):
    assert classify("".join(pieces)).level in ORDER


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "line",
    [
        "(" * 60_000,
        "$(" * 30_000,
        "{ " * 30_000,
        "`" * 60_000,
        "\\\n" * 30_000 + "a",
        "a && " * 10_000 + "b",
        "a | " * 10_000 + "b",
        "a;" * 20_000,
        "if a; then " * 5_000,
        "${x:-" * 10_000,
        "cat <<E\n" * 7_000,
        "sh -c " * 10_000,
        "env " * 15_000,
        "eval " * 12_000,
        '"' * 60_001,
        "a >f " * 10_000,
    ],
    ids=lambda line: line[:8],
)
def test_long_and_deeply_nested_texts_get_a_level(line):
    assert classify(line).level in ("caution", "dangerous")


@pytest.mark.parametrize("seed", range(3))
def test_cutting_a_dangerous_line_short_never_breaks_the_rating(seed):
    rng = random.Random(seed)
    for line, _ in rng.sample(DANGEROUS, 60):
        cut = line[: rng.randrange(len(line) + 1)][:2000]
        assert classify(cut).level in ORDER


# The oracle: bash itself, with a PATH that holds only a program rm, which leaves a mark.

ARGUMENTS = st.sampled_from(
    [
        *("a", '"a b"', "'a b'", "a\\ b", "$a", '"$a"', "a#b", "\\#", "{a,b}", "*", "$((1+1))", '"a\nb"', "'a\nb'"),
        *("$(:)", "`:`", "é", '\\"', "a=b", "[a]", "!", "$'a\\'b'", '"a\\"b"', '"$(: "a")"', "\\\n", "<(:)", "~"),
        *('${a:-"b"}', '"${a:-b c}"', "${a:-'b'}", "'#'", "2>&1", ">/dev/null", "<<<a", "<<E\n$a\nE", "<<'E'\nit's\nE"),
    ]
)
VERBS = st.sampled_from(["echo", "true", "test", "printf", "cd", ":", "a=1", "rm", "\\rm", '"rm"', "r''m", "$'rm'"])
JOINTS = st.sampled_from(
    [
        "; ",
        "\n",
        " && ",
        " || ",
        " | ",
        " &\n",
        " # c\n",
        "\n# it's\n",
        "\n\n",
        " \\\n && ",
        " |\n",
        ";",
        "\n\t",
        " \\\n",
    ]
)
SIMPLE = st.builds(lambda verb, words: " ".join([verb, *words]), VERBS, st.lists(ARGUMENTS, max_size=3))
NESTED = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(lambda pattern, command: pattern.format(command), st.sampled_from(AROUND), inner),
        st.builds(lambda first, joint, second: first + joint + second, inner, JOINTS, inner),
    ),
    max_leaves=5,
)


BASH = shutil.which("bash") or "bash"


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marks")
    (folder / "bin").mkdir()
    (folder / "bin" / "rm").write_text(f'#!/bin/sh\n: > "{folder}/mark"\n')
    (folder / "bin" / "rm").chmod(0o755)
    return folder


@pytest.mark.starts_processes
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(line=NESTED)
@example(line="true $a\n\\rm x")
@example(line="echo a # b\n\\rm x")
@example(line="echo `echo \\`rm x\\``")
def test_a_line_that_makes_bash_delete_a_file_is_dangerous(marks, line):
    check_with_bash(marks, line)


LINES_WITH_HEREDOCS = st.lists(
    st.sampled_from(
        [
            *(
                "cat <<A",
                "<<A",
                "<<'A'",
                "<<-A",
                "<<\\A",
                '<<"A B"',
                "3<<A",
                "<<B",
                "<<<A",
                "<< A",
                "; ",
                " && ",
                " | ",
            ),
            *("\n", "\n", "\n", "\nA\n", "\nB\n", "\n\tA\n", "\nA B\n", "rm x", "$(rm x)", "`rm x`", "\\$(rm x)"),
            *(
                "'",
                '"',
                "#",
                " # ",
                "\\",
                "\\\n",
                " ",
                "a",
                "a[",
                "]=1",
                "((",
                "))",
                "$((",
                "${a#",
                "}",
                "(",
                ")",
                ": ",
            ),
            *(
                "\\ #",
                "$(:)",
                "${a}",
                "$'",
                "[[ a =~ ",
                " ]]",
                "@(",
                "<(:)",
                "{ ",
                "; }",
                "echo ",
                "é",
                "if :; then ",
                "\nfi",
            ),
        ]
    ),
    max_size=14,
).map("".join)


@pytest.mark.starts_processes
@given(line=LINES_WITH_HEREDOCS)
@example(line="a[1 <<A ]=1; :\nrm x\nA")
@example(line=": \\ #'\n' <<A '\n'; :\nrm x\nA")
@example(line=": $(:)#'\n' <<A '\n'; :\nrm x\nA")
def test_no_heredoc_hides_a_deletion(marks, line):
    check_with_bash(marks, line)


def check_with_bash(marks, line):
    if classify(line).level == "dangerous":
        return
    (marks / "mark").unlink(missing_ok=True)

    process = subprocess.Popen(
        [BASH, "-c", line],
        cwd=marks,
        env={"PATH": str(marks / "bin")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    assert not (marks / "mark").exists(), line


@pytest.mark.starts_processes
@pytest.mark.parametrize("line", ["a|" * 30_000, ")" * 60_000, "a & ; | b )) " * 4_000, "< > << >> " * 6_000])
def test_a_long_text_that_does_not_parse_is_dangerous_and_costs_little(line):
    """Each of these would keep the parser busy for more than a minute without a limit."""
    risk = classify(line)

    assert (risk.level, "syntax" in risk.reason) == ("dangerous", True)


@pytest.mark.parametrize("size", [MAX_LENGTH + 1, 20 * MAX_LENGTH])
def test_a_text_that_is_too_long_to_rate_is_dangerous_for_that_reason(size):
    risk = classify("echo " + "a" * (size - 5))

    assert (risk.level, f"longer than {MAX_LENGTH} characters" in risk.reason) == ("dangerous", True)


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "line",
    [
        "echo hello && ls -l | grep x\n" * 1_000,
        "cat <<'E'\n" + "if a | ; ' text\n" * 1_000 + "E\n",
        "echo '" + "it is | long\n" * 1_000 + "'",
        "echo " + "word " * 8_000,
        "echo " + "\u00e4 " * 4_000,
    ],
)
def test_a_long_text_that_parses_is_rated_like_a_short_one(line):
    assert classify(line).level == "safe"


@pytest.mark.parametrize(
    "around", ["{ %s; }", "( %s )", "if true; then %s; fi", "f() { %s; }; f", "while %s; do :; done"]
)
def test_an_assignment_inside_a_compound_command_is_rated(around):
    assert classify(around % "LD_PRELOAD=/x.so").level == "dangerous"
    assert classify(around % "n=1").level != "dangerous"
