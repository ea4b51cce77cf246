"""Values in every syntactic position of a shell script: they arrive as data, or the template is rejected."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.custom.templates.binding import bind, render
from hilt.custom.templates.placeholders import Unbindable
from hilt.errors import ToolError
from tests.programs import program

SHELLS = ("bash", "dash")

HOSTILE = (
    *(
        "",
        " ",
        "  two  blanks  ",
        "\t",
        "\n",
        "line\nline",
        "\n\nlast\n",
        "\r\n",
        "plain",
        "-n",
        "--",
        "-e \\n",
        "~",
        "~root",
    ),
    *("$(touch HIT)", "`touch HIT`", "$((1+1))", "${HOME}", "$HOME", "$", "$$", "$'x'", '$"x"', "${", "$(", "$((", "`"),
    *(
        "; touch HIT",
        "| touch HIT",
        "& touch HIT",
        "&& touch HIT",
        "|| touch HIT",
        "\ntouch HIT\n",
        "> HIT",
        ">HIT",
        "< /x",
    ),
    *("'", "''", "'; touch HIT; '", "' $(touch HIT) '", '"', '""', '"; touch HIT; "', '" $(touch HIT) "', "'\"'\"'"),
    *(
        "\\",
        "\\\\",
        "\\n",
        "\\'",
        '\\"',
        "\\$(touch HIT)",
        "\\`touch HIT\\`",
        "trailing\\",
        "\\\n",
        "\\0",
        "\\x41",
        "\\c",
    ),
    *("*", "?", "[a-z]*", "{a,b}", "{1..3}", "!(x)", "@(a|b)", "!!", "!x", "#", "# comment", " # x", "a#b"),
    *(
        ")",
        "))",
        "]",
        "]]",
        "}",
        "}}",
        "{{ y }}",
        "{{# y }}",
        ";;",
        "esac",
        "fi",
        "done",
        "EOF",
        "\nEOF\n",
        "\nEOF\ntouch HIT\n",
    ),
    *(
        "a[$(touch HIT)]",
        "x=$(touch HIT)",
        "_hilt_0",
        "HOME",
        "IFS",
        "%s%n",
        "%(x)T",
        "é",
        "ひらがな",
        "表",
        "\u2028",
        "\x1b[31m",
    ),
    *(
        "\x01\x7f",
        "a=b",
        "/etc/passwd",
        "../..",
        "x" * 5000,
        "0",
        "-1",
        "08",
        "1e3",
        "<(touch HIT)",
        "<<EOF",
        "HILT_END",
    ),
)

# where a value may be, and the expected output: V is the value, W the value without its trailing newlines, which a
# substitution removes
CONTEXTS = {
    "bare": ("show {{ x }}", "[V]"),
    "bare between letters": ("show a{{ x }}b", "[aVb]"),
    "bare, twice": ("show {{ x }}{{ x }}", "[VV]"),
    "bare, last of a continued line": ("show \\\n  {{ x }} \\\n  b", "[V][b]"),
    "after a comment": ('# it\'s "a" `b` $( {{ x }}\nshow {{ x }}', "[V]"),
    "before a comment": ("show {{ x }} # it's {{ x }}", "[V]"),
    "double quotes": ('show "a {{ x }} b"', "[a V b]"),
    "double quotes with a dollar before": ('show "a ${{ x }}"', "[a $V]"),
    "double quotes with a backslash before": ('show "a \\{{ x }}"', "[a \\V]"),
    "double quotes with escapes": ('show "\\" \\\\{{ x }}"', '[" \\V]'),
    "bare with a dollar before": ("show ${{ x }}", "[$V]"),
    "single quotes": ("show 'a {{ x }} \"b'", '[a V "b]'),
    "single quotes with a backslash before": ("show 'a\\{{ x }}'", "[a\\V]"),
    "ansi quotes": ("show $'a {{ x }} b'", None),
    "substitution": ('show "$(put {{ x }})"', "[W]"),
    "substitution in double quotes": ('show "a $(put "{{ x }}") b"', "[a W b]"),
    "substitution in substitution": ('show "$(put "$(put \'{{ x }}\')")"', "[W]"),
    "substitution with a case": ('show "$(case a in a) put {{ x }};; (b) ;; esac)"', "[W]"),
    "substitution with a comment": ('show "$(# it\'s ) here\nput {{ x }})"', "[W]"),
    "backticks": ('show a`put {{ x }} >file`b; show "$(cat file; echo .)"', None),
    "backticks in double quotes": ('show "`put {{ x }}`"', "[W]"),
    "quotes in backticks in double quotes": ('show "`put \\"{{ x }}\\"`"', "[W]"),
    "nested backticks": ('show "`put "\\`put \'{{ x }}\'\\`"`"', "[W]"),
    "backticks that end with a comment": ('show "`put {{ x }} # c`"', "[W]"),
    "here-document": ("cat <<EOF\na {{ x }} b\nEOF\n", "a V b\n"),
    "here-document with a dollar and a backslash": ("cat <<EOF\n${{ x }}\\{{ x }}\nEOF\n", "$V\\V\n"),
    "here-document with a substitution": ("cat <<EOF\n$(put {{ x }})\nEOF\n", "W\n"),
    "quoted here-document": (
        "cat <<'EOF'\n$HOME `a` \\ \\\\ \"{{ x }}'\nEOF\nshow end",
        "$HOME `a` \\ \\\\ \"V'\n[end]",
    ),
    "quoted here-document with tabs": ('cat <<-"E F"\n\ta{{ x }}\n\tE F\nshow {{ x }}', "aV\n[V]"),
    "escaped here-document": ("cat <<\\EOF; show {{ x }}\n$(a) {{ x }}\nEOF\n", "$(a) V\n[V]"),
    "two here-documents": ("cat <<A - <<'B'\nno\nA\n'{{ x }}\nB\nshow \"{{ x }}\"", "'V\n[V]"),
    "here-document in a substitution": ('show "$(cat <<EOF\n{{ x }})"\nEOF\n)"', '[V)"]'),
    "assignment": ('v={{ x }}; show "$v"', "[V]"),
    "assignment in quotes": ('v=\'a\'"{{ x }}"; show "$v"', "[aV]"),
    "exported": ('export V={{ x }}; show "$V"', "[V]"),
    "default": ("unset u; show ${u:-{{ x }}}", "[V]"),
    "default in double quotes": ('unset u; show "a${u:-{{ x }}}b"', "[aVb]"),
    "default in quotes": ('unset u; show ${u-"{{ x }}"}', "[V]"),
    "prefix that is cut off": ('u={{ x }}b; show "${u#{{ x }}}" ${u#{{ x }}}', "[b][b]"),
    "case": ("case {{ x }} in {{ x }}) show {{ x }};; *) show other;; esac", "[V]"),
    "loop": ('for i in a {{ x }}; do show "$i"; done', "[a][V]"),
    "function": ('f() { show "$@" {{ x }}; }; f {{ x }}', "[V][V]"),
    "subshell": ("(show {{ x }})", "[V]"),
    "if": ("if [ {{ x }} = {{ x }} ]; then show {{ x }}; fi", None),
    "argument of a shell": ('sh -c \'printf "[%s]" "$1"\' sh {{ x }}', "[V]"),
    "after a format": ("printf '[%s]' {{ x }} {{ x }}; printf %s- a {{ x }} \"{{ x }}\"", "[V][V]a-V-V-"),
    "after a format, with sections": ("printf '[%s]' {{# x }}{{ x }} {{/ x }}{{ x }}", None),
    "format": ("printf {{ x }} >/dev/null 2>&1; show {{ x }}", "[V]"),
    "after a command with a section": ("show{{# y }}-more{{/ y }} {{ x }}", "[V]"),
    "looked up": ("command -v {{ y }} >/dev/null; show {{ x }}", "[V]"),
    "in a section": ("show{{# x }} '{{ x }}'{{/ x }}{{^ x }} ''{{/ x }}", "[V]"),
    "under set -eu": ('set -eu; IFS=/; show {{ x }} "{{ x }}" {{ y }}', "[V][V]"),
}
BASH_CONTEXTS = {
    "here-string": ("cat <<< {{ x }}", "V\n"),
    "element of an array": ('a[0]={{ x }}; a[a[1]+1]={{ x }}; show "${a[0]}" "${a[1]}"', "[V][V]"),
    "key of an array": ('declare -A a; k={{ x }}; a=([b]={{ x }}); show "${a[b]}"', "[V]"),
    "array": ('a=({{ x }} "{{ x }}"); show "${a[@]}"', "[V][V]"),
    "test": ("[[ {{ x }} == {{ x }} && \"{{ x }}\" = '{{ x }}' ]] && show {{ x }}", "[V]"),
    "after a format for a variable": ("printf -v v -- '[%s]' {{ x }} {{ x }}; put \"$v\"", "[V][V]"),
    "process substitution": ('show "$(cat <(put {{ x }}))"', "[W]"),
    "ansi quotes with escapes": ("show $'it\\'s {{ x }}\\x41'", "[it's VA]"),
    "replaced": ('v={{ x }}; u=abc; show "${u/b/"$v"}"', None),
    "locale quotes": ('show $"{{ x }}"', "[V]"),
    "pattern in brackets": ("shopt -s extglob\ncase a in @(b|{{ x }})) ;; esac; show {{ x }}", "[V]"),
}
PLAIN = "show() { printf '[%s]' \"$@\"; }\nput() { printf '%s' \"$1\"; }\n"

FALSY: tuple[Any, ...] = (None, "", 0, 0.0, False, [])


DRIVER = 'for f in "$@"; do (. "$f") >"$f.out" 2>"$f.err" </dev/null; done; :'


@pytest.fixture
def run(tmp_path):
    """Run a template with each of several sets of arguments in an empty folder; return the output of each."""
    place, scripts = tmp_path / "place", tmp_path / "scripts"

    def run(shell, body, calls, names=("x", "y")):
        for folder in (place, scripts):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        template = bind(PLAIN + body, set(names), shell="bash" if shell == "bash" else "sh")
        files = []
        for number, args in enumerate(calls):
            files.append(scripts / str(number))
            files[-1].write_bytes(render(template, args).encode())
        environment = {"PATH": os.environ["PATH"], "HOME": "/homes/x", "LC_ALL": "C.UTF-8"}
        argv = [program(shell), "-c", DRIVER, shell, *map(str, files)]
        subprocess.run(argv, cwd=place, env=environment, check=True, timeout=120)
        assert "HIT" not in os.listdir(place)
        printed = [
            [file.with_name(file.name + end).read_bytes().decode() for end in (".out", ".err")] for file in files
        ]
        return [(out, err) for out, err in printed]

    return run


def expected(printed, value):
    return printed.replace("W", value.rstrip("\n")).replace("V", value)


@pytest.mark.starts_processes
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_hostile_values_are_data_in_every_position(run, shell, context):
    check_position(run, shell, *CONTEXTS[context])


@pytest.mark.starts_processes
@pytest.mark.parametrize("context", BASH_CONTEXTS)
def test_hostile_values_are_data_in_every_position_specific_to_bash(run, context):
    check_position(run, "bash", *BASH_CONTEXTS[context])


def check_position(run, shell, body, printed, values=HOSTILE):
    outputs = run(shell, body, [{"x": value} for value in values])
    if printed is not None:
        expected_outputs = [(value, (expected(printed, value), "")) for value in values]
        assert list(zip(values, outputs, strict=True)) == expected_outputs


WORDS = st.recursive(
    st.sampled_from(["{{ x }}", '"{{ x }}"', "'{{ x }}'"]),
    lambda words: st.one_of(
        words.map(lambda word: f'"$(put {word})"'),
        words.map(lambda word: f'"$( (put {word}) )"'),
        words.map(lambda word: f'"$(case a in (a|b) put {word};; c) ;; esac)"'),
        words.map(lambda word: f'"$(cat <<E{len(word)}\n$(put {word})\nE{len(word)}\n)"'),
        words.map(lambda word: '"`put ' + escaped(word) + '`"'),
        words.map(lambda word: '"$(v=' + word + ' && put "$v" # it\'s )\n)"'),
    ),
    max_leaves=4,
)


def escaped(word):
    """Escape a word for backticks inside double quotes."""
    for sign in '\\$`"':
        word = word.replace(sign, "\\" + sign)
    return word


@pytest.mark.starts_processes
@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=40)
@given(word=WORDS, values=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=8))
def test_a_value_arrives_through_any_nesting_of_quotes_and_substitutions(run, shell, word, values):
    calls = [*values, "it's", '$(touch HIT) "`touch HIT`" \\', ")'\";;esac\nEOF"]

    outputs = run(shell, f"show a {word} b", [{"x": value} for value in calls])

    for value, (out, err) in zip(calls, outputs, strict=True):
        expected_value = value if word in ("{{ x }}", '"{{ x }}"', "'{{ x }}'") else value.rstrip("\n")
        assert (out, err) == (f"[a][{expected_value}][b]", "")


@pytest.mark.starts_processes
@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=40)
@given(values=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=8))
def test_an_unquoted_array_is_one_word_per_element_and_a_quoted_one_a_single_word(run, shell, values):
    body = 'show a {{ x }} b; show "{{ x }}" \'{{ x }}\'; v={{ x }}; show "$v"'
    joined = " ".join(values)

    ((out, err),) = run(shell, body, [{"x": values}])

    words = "".join(f"[{value}]" for value in values)
    assert (out, err) == (f"[a]{words}[b][{joined}][{joined}][{joined}]", "")


@pytest.mark.starts_processes
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "body, args, printed",
    [
        ("show a {{ x }} b", {}, "[a][b]"),
        ("show a {{ x }} b", {"x": None}, "[a][b]"),
        ("show a {{ x }} b", {"x": ""}, "[a][][b]"),
        ("show a {{ x }} b", {"x": []}, "[a][b]"),
        ('show a "{{ x }}" b', {}, "[a][][b]"),
        ("show a'{{ x }}'b", {}, "[ab]"),
        ("show a{{ x }}#b", {}, "[a#b]"),
        ("show {{ x }}#b", {}, "[#b]"),
        ("show {{ x }}", {"x": 7}, "[7]"),
        ("show {{ x }}", {"x": 1.5}, "[1.5]"),
        ("show {{ x }}", {"x": False}, "[false]"),
        ("show {{ x }}", {"x": True}, "[true]"),
        ("show {{ x }}", {"x": [1, True, "a b"]}, "[1][true][a b]"),
        ("show p{{ x }}s", {"x": ["a", "b c"]}, "[pa][b cs]"),
        ("cat >{{ x }} <<EOF\nhi\nEOF\ncat a*", {"x": ["a", "b"]}, "hi\n"),
        ("show $((1 + {{ x }}))", {"x": 41}, "[42]"),
        ("show $((5-{{ x }}))", {"x": -3}, "[8]"),
        ("n=5; show $((n-{{ x }}))", {"x": -3}, "[8]"),
        ("show $((5-{{ x }}))", {"x": "3"}, "[2]"),
        ("show $((5-{{ x }}))", {"x": "010"}, "[-5]"),
        ("show $((5 + ({{ x }}) * $(put {{ x }})))", {"x": 2}, "[9]"),
        ("show $((5-{{ x }}))", {"x": True}, "[4]"),
        ('show "$(( {{ x }} + 1 ))" $(( {{ y }} + 1 ))', {"x": 1}, "[2][1]"),
        ("show {{# x }}on{{/ x }}{{^ x }}off{{/ x }}", {"x": "v"}, "[on]"),
        *(("show {{# x }}on{{/ x }}{{^ x }}off{{/ x }}", {"x": value}, "[off]") for value in FALSY),
        *(
            ("show {{# x }}on{{/ x }}{{^ x }}off{{/ x }}", {"x": value}, "[on]")
            for value in (" ", "0", "false", 1, True, [""])
        ),
        ("show {{# x }}x={{ x }}{{# y }} y={{ y }}{{/ y }}{{/ x }}", {"x": "1", "y": "2"}, "[x=1][y=2]"),
        ("show {{# x }}x={{ x }}{{# y }} y={{ y }}{{/ y }}{{/ x }}", {"y": "2"}, "[]"),
        ("show {{# x }}a{{# x }}b{{/ x }}{{/ x }}{{# x }}c{{/ x }}", {"x": "1"}, "[abc]"),
        ("{{# x }}show x\n{{/ x }}show y", {}, "[y]"),
        ("{{# x }}v={{ x }} {{/ x }}show y", {"x": "1"}, "[y]"),
        ("show a {{# x }}>{{ x }}{{/ x }} b\ncat f* 2>/dev/null", {"x": "f g"}, "[a][b]"),
        ('show "a{{# x }} {{ x }}{{/ x }}"', {"x": "b"}, "[a b]"),
        ("cat <<'EOF'\n{{# x }}\n$x {{ x }}\n{{/ x }}\nEOF\n", {"x": "b"}, "\n$x b\n\n"),
        ("show {{.Names}} '{{json .}}' {{ . }} {{1}}", {}, "[{{.Names}}][{{json .}}][{{][.][}}][{{1}}]"),
        ("show '{{ a-b }}' '{{# a-b }}' {{ x }}", {"x": "1"}, "[{{ a-b }}][{{# a-b }}][1]"),
        ("show {{x}} {{  x  }} {{#x}}a{{/x}} {{# x}}b{{/x }}", {"x": "1"}, "[1][1][a][b]"),
        ("# {{ unknown }} {{# nobody }}…{{/ nobody }}\nshow {{ x }}", {"x": "1"}, "[1]"),
        ("{{ x }} a", {"x": "show"}, "[a]"),
        ("show $x ${x} $(put a) '$(b)' \\$ $", {}, None),
    ],
)
def test_how_values_of_each_type_are_printed(run, shell, body, args, printed):
    ((out, err),) = run(shell, "x= y=\n" + body, [args])

    assert err == ""
    if printed is not None:
        assert out == printed


REJECTED = [
    ("{{ z }}", "is not a parameter"),
    ("{{# x }}a", "never closed"),
    ("a{{/ x }}", "not open"),
    ("{{# x }}{{# y }}{{/ x }}{{/ y }}", "not open"),
    ("{{# z }}a{{/ z }}", "is not a parameter"),
    ("echo \\{{ x }}", "backslash"),
    ("echo ${{{ x }}}", "cannot name a variable"),
    ("echo ${a:{{ x }}:1}", "type integer"),
    ("echo ${a/{{ x }}/b}", "variable first"),
    ("${a:-eval {{ x }}}", "several words"),
    ("echo ${a[{{ x }}]}", "type integer"),
    ('echo "${a:-"{{ x }}"}"', "inner"),
    ("echo '{{ x }}", "never closed"),
    ('echo "{{ x }}', "never closed"),
    ("echo $({{ x }}", "never closed"),
    ("echo `{{ x }}", "never closed"),
    ("echo $((1 + {{ x }})", "arithmetic"),
    ("echo $((show {{ x }}) | cat)", "arithmetic"),
    ("cat <<EOF\n{{ x }}\n", "never ends"),
    ("cat <<{{ x }}\n{{ x }}\n", "plain text"),
]
REJECTED_IN_BASH = [
    ("echo `{{ x }}\\", "never closed"),
]
REJECTED_IN_SH = [
    ("((a = {{ x }}))", "different shells"),
    ("echo $[ {{ x }} ]", "different shells"),
    ("echo $'\\'{{ x }}'", "different"),
    ("echo $'{{ x }}\\n'", "different"),
]


@pytest.mark.parametrize(
    "shell, body, reason",
    [
        *((shell, *case) for shell in ("bash", "sh") for case in REJECTED),
        *(("bash", *case) for case in REJECTED_IN_BASH),
        *(("sh", *case) for case in REJECTED_IN_SH),
    ],
)
def test_a_value_that_cannot_be_bound_is_rejected_with_its_line(shell, body, reason):
    with pytest.raises(Unbindable) as caught:
        bind("echo first\n\n" + body, {"x", "y"}, shell=shell, line=10)

    assert reason in caught.value.message
    assert 12 <= caught.value.line <= 12 + body.count("\n")


CALCULATIONS = [
    ("bash", "((n = {{ x }}))"),
    ("bash", "!((n = {{ x }}))"),
    ("bash", "if :; then((n = {{ x }})); fi"),
    ("bash", "for ((i = 0; i < {{ x }}; i++)); do :; done"),
    ("bash", "[[ {{ x }} -eq 1 ]]"),
    ("bash", "[[ a = b && 1 -lt '{{ x }}' ]]"),
    ("bash", "a=(0 1); a[{{ x }}]=1"),
    ("bash", 'a=(0 1); a["{{ x }}"]=1'),
    ("bash", "a=(0 1); a[a[0]+{{ x }}+9]=1"),
    ("bash", 'a=(0 1); a["${u:-{{ x }}}"]+=1'),
    ("bash", "a=(0 1); a+=([-1]=2 [{{ x }}]=1)"),
    ("bash", "show $[ {{ x }} ]"),
    ("bash", "declare -i n; n={{ x }}"),
    ("bash", "a=(0 1); show ${a[$(( {{ x }} ))]-}"),
    ("bash", "a=abc; show ${a:$(( {{ x }} ))}"),
    ("bash", 'show $((1 + "{{ x }}"))'),
    ("bash", "show $(( ${u:-{{ x }}} ))"),
    ("bash", 'show $(( ${u:-"{{ x }}"} ))'),
    *((shell, "show $(( {{ x }} ))") for shell in ("bash", "dash")),
    *((shell, 'show "$((1+{{ x }}))"') for shell in ("bash", "dash")),
    *((shell, "cat <<EOF\n$(( {{ x }} ))\nEOF\n") for shell in ("bash", "dash")),
]


@pytest.mark.starts_processes
@pytest.mark.parametrize("shell, body", CALCULATIONS)
def test_shell_arithmetic_accepts_only_integers(run, shell, body):
    template = bind(body, {"x"}, shell="bash" if shell == "bash" else "sh")

    for value in (*HOSTILE, "9" * 19, 1.5, ["a"], "1 2"):
        if value in ("0", "-1", "08"):
            continue
        with pytest.raises(ToolError, match="an integer") as caught:
            render(template, {"x": value})
        assert caught.value.code == "invalid_args"

    for out, err in run(shell, body, [{"x": 1}, {"x": -1}, {"x": "08"}, {"x": 2**62}][: 3 if "for" in body else 4]):
        assert err == "", out


@pytest.mark.parametrize("text", ["y" * 2_000_000, "{{ v }}" * 200_000])
def test_a_long_script_with_placeholders_is_rejected_before_it_is_parsed(text):
    with pytest.raises(Unbindable, match="longer than 65536 characters"):
        bind(f"{text}\necho {{{{ v }}}}\n", ["v"], shell="bash")


def test_arithmetic_in_an_omitted_section_is_not_checked():
    template = bind("{{# y }}echo $(( {{ x }} )){{/ y }}", {"x", "y"}, shell="bash")

    assert "echo" not in render(template, {"x": "text"})


@pytest.mark.parametrize("value", [None, []])
def test_an_empty_program_name_is_rejected(value):
    template = bind("echo a\n{{ x }} {{ y }}", {"x", "y"}, shell="bash")

    with pytest.raises(ToolError, match="program to run on line 2"):
        render(template, {"x": value, "y": "touch"})


@pytest.mark.parametrize("before", ["", "command ", "builtin ", "command -p -- "])
@pytest.mark.parametrize("value", ["eval", "declare", "command", ["eval", "a"]])
def test_a_program_name_cannot_be_a_shell_builtin(value, before):
    with pytest.raises(ToolError, match="not the shell builtin"):
        render(bind(before + "{{ x }} {{ y }}", {"x", "y"}, shell="bash"), {"x": value, "y": "touch HIT"})


@pytest.mark.parametrize("value", ["a\0b", "\ud800", ["a", "\udfff"]])
def test_a_value_that_cannot_be_an_argument_is_rejected(value):
    with pytest.raises(ToolError) as caught:
        render(bind("echo {{ x }}", {"x"}, shell="bash"), {"x": value})

    assert caught.value.code == "invalid_args"


@pytest.mark.parametrize("shell", SHELLS)
def test_line_numbers_are_those_of_the_file(run, shell, tmp_path):
    body = "\nshow {{ x }}\nno_such_program {{ y }}\n"
    template = bind(body, {"x", "y"}, shell="bash" if shell == "bash" else "sh", line=5)

    script = render(template, {"x": "several\nlines\n\n", "y": "ひ\n"})

    assert script.split("\n")[6].startswith("no_such_program")


def test_values_occur_only_in_the_assignments_at_the_start_of_the_script():
    for shell in ("bash", "sh"):
        template = bind(
            "a {{ x }} \"{{ x }}\" '{{ x }}' `{{ x }}`\ncat <<'E'\n{{ x }}\nE\n", {"x"}, shell=shell, line=9
        )

        assert "QQQ" not in "\n".join(render(template, {"x": "QQQ\nQQQ"}).split("\n")[3:])


@pytest.mark.starts_processes
@pytest.mark.parametrize("shell", SHELLS)
def test_an_absent_value_is_not_taken_from_the_environment(shell, tmp_path):
    template = bind("echo a {{ x }}", {"x"}, shell="bash" if shell == "bash" else "sh")
    (tmp_path / "script").write_text(render(template, {}))

    environ = {f"{template.prefix}0": "leaked", "PATH": os.environ["PATH"]}
    completed = subprocess.run([shell, tmp_path / "script"], env=environ, capture_output=True, text=True, timeout=60)

    assert completed.stdout == "a\n"


def test_bound_variables_do_not_clash_with_those_of_the_script():
    template = bind("_hilt_0=a _hilt__=b; echo {{ x }}", {"x"}, shell="bash")

    assert template.prefix not in "_hilt_0=a _hilt__=b; echo"
