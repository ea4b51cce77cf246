"""Values that reach a program which reads them as code: found by reading the script, and checked by running it."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.custom.templates.binding import bind, evaluated, note, render
from tests.programs import program

EVALUATED = [
    "eval {{ x }}",
    'eval "echo {{ x }}"',
    "command eval '{{ x }}'",
    "FOO=1 eval a {{ x }}",
    "true && eval {{ x }}",
    "if eval {{ x }}; then :; fi",
    "show $(eval {{ x }})",
    "trap 'rm {{ x }}' EXIT",
    "sh -c 'echo {{ x }}'",
    '/bin/bash -ec "echo {{ x }}"',
    "timeout 5 bash -l -c {{ x }}",
    "sudo -u me sh -c {{ x }}",
    "{{# y }}sudo {{/ y }}sh -c {{ x }}",
    "command ${u:-eval} {{ x }}",
    "bash ${u:--c} {{ x }}",
    "function f { eval {{ x }}; }",
    "f() { eval {{ x }}; }",
    "for i do eval {{ x }}; done",
    "while :; do eval {{ x }}; done",
    ">/dev/null eval {{ x }}",
    "{{# y }}echo {{/ y }}eval {{ x }}",
    "eval {{# y }}a; echo {{/ y }}{{ x }}",
    "echo a {{# y }}; eval{{/ y }} {{ x }}",
    "sh -c {{# y }}a {{/ y }}{{ x }}",
    "{{# y }}bash {{/ y }}-c {{ x }}",
    "sh <<EOF\necho {{ x }}\nEOF\n",
    "[[ a ]]; eval {{ x }}",
    "[[ a ]]&&eval {{ x }}",
    "[[ a ]]>/dev/null; eval {{ x }}",
    "bash <<< 'echo {{ x }}'",
    "docker exec -i c bash <<EOF\n{{ x }}\nEOF\n",
    "<<EOF bash\n{{ x }}\nEOF\n",
    'kubectl exec p -- sh -c "ls {{ x }}"',
    # through substitutions
    'eval "$(echo {{ x }})"',
    "eval `echo {{ x }}`",
    'bash -c "$(printf %s {{ x }})"',
    "source <(echo {{ x }})",
    "bash <(echo {{ x }})",
    "bash < <(echo {{ x }})",
    # through variables
    'c={{ x }}; eval "$c"',
    'c="ls {{ x }}"\nsh -c "$c"',
    'c={{ x }}; d="ls $c"; e=${d}; eval $e',
    'export c={{ x }}; eval "$c"',
    'a=(ls {{ x }}); eval "${a[@]}"',
    'for c in {{ x }}; do eval "$c"; done',
    'f() { eval "$1"; }; f {{ x }}',
    'f() { local c=$1; eval "$c"; }; f {{ x }}',
    'f() { sh -c "$*"; }; f {{ x }}',
    'set -- {{ x }}; eval "$@"',
    'echo {{ x }} | while read -r c; do eval "$c"; done',
    'read -r c <<< {{ x }}; eval "$c"',
    'printf -v c %s {{ x }}; eval "$c"',
    'c={{ x }}; f() { echo "$c"; }; f | while read -r d; do eval "$d"; done',
    'read -r c <<EOF\n{{ x }}\nEOF\neval "$c"',
    'while read -r c; do eval "$c"; done < <(echo {{ x }})',
    'c={{ x }}; d=`echo "$c"`; eval "$d"',
    'f() { for c do eval "$c"; done; }; f {{ x }}',
    # through pipes and here-documents
    "echo {{ x }} | sh",
    "echo {{ x }} | tee log | sudo bash -s",
    "echo {{ x }} |& bash",
    "{ echo a; echo {{ x }}; } | bash",
    "(echo a; echo {{ x }}) | bash",
    "for i in 1 2; do echo {{ x }}; done | bash",
    "if true; then echo {{ x }}; fi | sh",
    "cat <<EOF | bash\n{{ x }}\nEOF\n",
    "cat <<'EOF' | bash\necho {{ x }}\nEOF\n",
    "echo {{ x }} | xargs -I{} sh -c 'echo {}'",
    "echo {{ x }} | xargs -I % sh -c 'echo %'",
    "echo {{ x }} | ssh host",
    "ssh host bash <<EOF\n{{ x }}\nEOF\n",
    "ssh -p 22 host <<EOF\n{{ x }}\nEOF\n",
    "echo {{ x }} | python3",
    "python3 - <<EOF\nprint({{ x }})\nEOF\n",
    "echo {{ x }} | su user",
    "echo {{ x }} | at now",
    "crontab - <<EOF\n* * * * * {{ x }}\nEOF\n",
    '"$SHELL" -c {{ x }}',
    "${SHELL:-/bin/sh} -c {{ x }}",
    "busybox sh -c {{ x }}",
    "find . -name a -exec sh -c {{ x }} \\;",
    # other languages and other machines
    'psql -c "select {{ x }}"',
    "ssh host {{ x }}",
    "ssh -p 22 user@host ls {{ x }}",
    'ssh host "ls {{ x }}"',
    'python3 -c "print({{ x }})"',
    "timeout 5 python3.12 -c 'print({{ x }})'",
    "perl -e {{ x }}",
    "node --eval 'f({{ x }})'",
    'awk "/{{ x }}/ {print}" file',
    "awk -F : -v a=b '{{ x }}' file",
    'sed "s/a/{{ x }}/" file',
    "sed -n -e 's/a/{{ x }}/p' file",
    "watch -n 5 {{ x }}",
    "parallel echo {{ x }} ::: a",
    "trap -- {{ x }} EXIT",
]
# what the shell itself evaluates: {} stands for what gives the value to x
CALCULATED = [
    "echo $((x))",
    'echo "$(( $x + 1 ))"',
    "((n = x))",
    "echo $[x]",
    "for ((i = x; i < 0; i++)); do :; done",
    "[[ $x -eq 1 ]]",
    "[[ a = b || 1 -ge x ]]",
    'let "$x"',
    "let x",
    "b[$x]=1",
    "b[x]=1",
    "b=([$x]=1)",
    "b=(1); echo ${b[$x]}",
    'b=(1); echo "${b[x]}" "${b[$x + 1]}"',
    "s=abc; echo ${s:$x}",
    "s=abc; echo ${s:x:1}",
    "b=(1); unset 'b[x]'",
    "RANDOM=$x",
    'f() { echo $(($1)); }; f "$x"',
    'f() { for i do echo $((i)); done; }; f "$x"',
    'set -- "$x"; echo $(($1))',
    'echo "$x" | while read -r n; do echo $((n)); done',
    'while read -r; do ((REPLY)); done <<< "$x"',
    "echo `echo $((x))`",
    'echo $(( $(echo "$x") ))',
]
NAMED = [
    '[ -v "$x" ]',
    "[[ -v $x ]]",
    'test -v "$x"',
    "[ $x = 1 ]",
    'printf -v "$x" 1',
    'printf "$x" a b',
    'read "$x" <<< 1',
    'declare "$x=1"',
    'typeset "$x"',
    'f() { local "$x=1"; }; f',
    'unset "$x"',
    "declare -n r=$x; echo $r",
    "echo ${!x}",
]
RUN = [
    'mapfile -c 1 -C "$x" z <<< 1',
    'compgen -W "$x"',
    "echo ${x@P}",
    'declare -a z="$x"',
    "PS4=$x; set -x; :",
]
GIVEN = [
    "x={{ w }}",
    'y={{ w }}; x="$y"',
    "x=$(printf %s {{ w }})",
    'y={{ w }}; x=`printf %s "$y"`',
    "read -r x <<< {{ w }}",
    "printf -v x %s {{ w }}",
    "set -- {{ w }}; x=$1",
    "give() { x=$1; }; give {{ w }}",
    "for x in {{ w }}; do break; done",
    "c=({{ w }}); x=${c[0]}",
    "[[ {{ w }} =~ (.*) ]]; x=${BASH_REMATCH[1]}",
    "y={{ w }}; n=y; x=${!n}",
]
NOT_GIVEN = [
    "y={{ w }}; x=${#y}",
    'y={{ w }}; x=5; echo "$y"',
    "x=$(printf %s {{ w }} | wc -c)",
    "x=$(grep -c {{ w }} /dev/null || true)",
    "y={{ w }}; x=${y:+1}",
    "y={{ w }}; x=${y//[^0-9]/}",
    "give() { x=$(( $1 + 1 )); }; give 3; echo {{ w }}",
    "echo {{ w }}; read -r x < /dev/null",
]
ORDINARY = [
    'echo "$x" $x',
    "[[ $x == 1 || -n $x ]]",
    '[ "$x" = 1 ] || [ -n "$x" ] || [ "$x" -eq 1 ]',
    's=abc; echo "${s%$x}" "${s/$x/a}" "${nope:-$x}"',
    "printf '%s %d' \"$x\" $x",
    'read -p "$x" y <<< 1',
    'declare z="$x"; export z="$x"',
    'f() { local z="$x"; echo "$z"; }; f',
    "n=${#x}; echo $((n + 1))",
    'echo $(( $(printf %s "$x" | wc -c) + 1 ))',
    "case $x in 1) echo 1;; esac",
    'declare -A m; m[$x]=1; echo "${m[$x]}"',
    "declare -A m=([$x]=1)",
    'for i in 1 2; do echo "$x" $((i + 1)); done',
    'b=("$x"); for ((i = 0; i < ${#b[@]}; i++)); do echo "${b[i]}"; done',
    'b=("$x"); for i in "${!b[@]}"; do echo "${b[$i]}"; done',
    'echo "${x:0:3}" "${x:1}" "${x@Q}"',
    'unset -f "$x"; declare -p "$x"',
]
DATA = [
    'f() { n=1; echo "$1"; }; f {{ x }}; echo $((n))',
    "while read -r n; do echo $((n)); done < file; echo {{ x }}",
    "echo {{ x }}",
    "sh -c 'echo \"$1\"' sh {{ x }}",
    "bash script.sh {{ x }}",
    "bash -x script.sh {{ x }}",
    "eval 'echo hi'; echo {{ x }}",
    'x={{ x }}; eval "echo hi"; echo "$x"',
    "x={{ x }}; eval 'echo \"$x\"'",  # the second time it is a variable, and its text is data
    "echo {{ x }} | grep sh",
    "echo {{ x }} | bash script.sh",
    "echo {{ x }} | xargs sh -c 'echo \"$1\"' sh",
    "echo {{ x }} || sh",
    "echo {{ x }}; sh",
    "echo {{ x }} && bash -s",
    "cat <<EOF | grep a\n{{ x }}\nEOF\n",
    "bash script.sh <<EOF\n{{ x }}\nEOF\n",
    "ssh -p {{ x }} host",
    "python3 -c 'import sys' {{ x }}",
    "python3 script.py {{ x }}",
    "awk -v a={{ x }} '{print a}' file",
    "awk -v {{ x }} '{print}' file",
    "awk '{print}' {{ x }}",
    "awk -f program {{ x }}",
    "watch -n {{ x }} date",
    "trap 'echo bye' {{ x }}",
    "echo eval {{ x }}",
    "kubectl exec pod -c {{ x }} -- ls",
    '"$KUBECTL" exec pod -c {{ x }}',
    "cat {{ x }} > file.sh",
    "grep -e {{ x }} file",
    "kubectl get pods -n {{ x }}",
    "docker ps --format '{{.Names}}' --filter {{ x }}",
    "seq $(( {{ x }} )) | sh",
    "eval sleep $(( {{ x }} ))",
]


# a value that a program may take for an option by which it runs something, and the value that does so
OPTIONS = [
    ("env {{ x }} ls", "-Sid"),
    ("env A=1 {{ x }}", "-Sid"),
    ("env -u B {{ x }} ls", "LD_PRELOAD=/x.so"),
    ("env -- {{ x }} ls", "BASH_ENV=x"),
    ("A=1 env {{ x }}", "-Sid"),
    ("sudo env {{ x }}", "-Sid"),
    ("timeout 5 env {{ x }}", "-Sid"),
    ("o={{ x }}; env $o ls", "-Sid"),
    ("env -{{ x }}", "-Sid"),
    ("ls | xargs {{ x }} echo", "-Iid"),
    ("find {{ x }} -name a", "-delete"),
    ("find . {{ x }}", "-delete"),
    ("tar cf a.tar {{ x }}", "--use-compress-program=id"),
    ("git fetch {{ x }}", "--upload-pack=id"),
    ("git grep {{ x }}", "-Oid"),
    ("git log -p {{ x }}", "--output=x"),
    ("ssh {{ x }}", "-oProxyCommand=id"),
    ("ssh -p 22 {{ x }} ls", "-oProxyCommand=id"),
    ("scp {{ x }} a h:b", "-Sid"),
    ("rsync -a {{ x }} b", "-eid"),
    ("sed -n 5p {{ x }}", "--expression=1e id"),
    ("sed s/a/b/ {{ x }}", "--expression=1e id"),
    ("sort {{ x }}", "--compress-program=id"),
    ("zip a.zip {{ x }}", "-TTid"),
    ("python3 {{ x }}", "-cprint(1)"),
    ("perl {{ x }}", "-eprint(1)"),
    ("node {{ x }}", "--eval=1"),
    ("bash {{ x }} script.sh", "-x"),
    ("make {{ x }}", "SHELL=./x"),
    ("make {{ x }}", "--eval=x:;id"),
    ("rg {{ x }}", "--pre=id"),
    ("wget {{ x }}", "--use-askpass=id"),
    ("less {{ x }}", "+!id"),
    ("vim {{ x }}", "+!id"),
    ("man {{ x }}", "-Pid"),
]
GUARDED = [
    "git fetch -- {{ x }}",
    "ssh -- {{ x }} ",
    "sed -n 5p -- {{ x }}",
    "sort -- {{ x }}",
    "tar cf a.tar -- {{ x }}",
    "git commit -m {{ x }}",
    "git log ./{{ x }}",
    "find . -name {{ x }}",
    "tar -xf {{ x }}",
    "ssh -p {{ x }} host",
    "python3 script.py {{ x }}",
    "python3 -m module {{ x }}",
    "env A=1 grep {{ x }}",
    "env A={{ x }} ls",
    "rsync -a a b:{{ x }}",
    "sort -k {{ x }} f",
    "echo env {{ x }}",
    "kubectl get {{ x }}",
]


@pytest.mark.parametrize("body, value", OPTIONS)
def test_a_value_that_may_be_an_option_which_runs_something_is_noted_and_asked_about(body, value):
    template = bind(body, {"x"}, shell="bash")

    assert {code.name for code in template.codes} == {"x"}
    assert evaluated(template, {"x": value})
    assert evaluated(template, {"x": [value]})
    assert evaluated(template, {"x": "plain"}) == []
    assert "an option that runs something" in note(template.codes[0])


@pytest.mark.parametrize("body", GUARDED)
def test_a_value_that_cannot_be_an_option_is_data(body):
    assert bind(body, {"x"}, shell="bash").codes == ()


@pytest.mark.parametrize("body", EVALUATED)
def test_a_value_that_is_read_as_code_is_found(body):
    found = bind("echo first\n\n" + body, {"x", "y"}, shell="bash", line=10).codes

    assert {code.name for code in found} >= {"x"}
    assert all(12 <= code.line <= 12 + body.count("\n") for code in found)


@pytest.mark.parametrize("sink", [*CALCULATED, *NAMED, *RUN])
@pytest.mark.parametrize("given", GIVEN)
def test_a_value_that_the_shell_itself_evaluates_is_found(given, sink):
    template = bind(f"\n{given}\n{sink}\n", {"w"}, shell="bash", line=5)

    assert {(code.name, code.line) for code in template.codes} == {("w", 6)}
    assert evaluated(template, {"w": "a[$(id)]"})


@pytest.mark.parametrize("sink", [*CALCULATED, *NAMED, *RUN])
@pytest.mark.parametrize("given", NOT_GIVEN)
def test_what_the_shell_evaluates_is_not_a_value_that_went_elsewhere(given, sink):
    assert bind(f"{given}\n{sink}\n", {"w"}, shell="bash").codes == ()


@pytest.mark.parametrize("sink", ORDINARY)
@pytest.mark.parametrize("given", [*GIVEN, *NOT_GIVEN])
def test_a_variable_in_an_ordinary_word_stays_data(given, sink):
    assert bind(f"{given}\n{sink}\n", {"w"}, shell="bash").codes == ()


@pytest.mark.parametrize(
    "body, args, is_asked",
    [
        ("n={{ x }}; echo $((n))", {"x": "12"}, False),
        ("n={{ x }}; echo $((n))", {"x": -12}, False),
        ("n={{ x }}; echo $((n))", {"x": "total"}, False),
        ("n={{ x }}; echo $((n))", {"x": "a[0]"}, True),
        # a word names a variable, and what that holds is evaluated
        ('n={{ x }}; m={{ y }}; echo $((n)) "$m"', {"x": "m", "y": "a[$(id)]"}, True),
        ('n={{ x }}; m={{ y }}; echo $((n)) "$m"', {"x": "12", "y": "a[$(id)]"}, False),
        ('n={{ x }}; unset "$n"', {"x": "total"}, False),
        ('n={{ x }}; unset "$n"', {"x": "a[$(id)]"}, True),
        ('n={{ x }}; export "$n"', {"x": "LD_PRELOAD=/tmp/a.so"}, True),
    ],
)
def test_a_call_asks_unless_what_the_shell_evaluates_is_a_plain_word(body, args, is_asked):
    template = bind(body, {"x", "y"}, shell="bash")

    assert template.codes
    assert bool(evaluated(template, args)) is is_asked
    assert evaluated(template, args, own={"x"}) == []


@pytest.mark.parametrize("body", DATA)
def test_a_value_that_stays_data_is_not(body):
    assert bind(body, {"x"}, shell="bash").codes == ()


@pytest.mark.parametrize(
    "body, value, is_asked",
    [
        ('sh -c "ls {{ x }}"', "plain-word_1.txt", False),
        ('sh -c "ls {{ x }}"', "a/b:c@d,e+f=g%h", False),
        ('sh -c "ls {{ x }}"', "", False),
        ('sh -c "ls {{ x }}"', None, False),
        ('sh -c "ls {{ x }}"', 7, False),
        ('sh -c "ls {{ x }}"', -1.5, False),
        ('sh -c "ls {{ x }}"', True, False),
        ('sh -c "ls {{ x }}"', ["a", "b"], False),
        ('sh -c "ls {{ x }}"', ["a", "$(b)"], True),
        *(('sh -c "ls {{ x }}"', f"a{sign}b", True) for sign in " \t\n;&|<>()$`\\\"'*?[]{}~#!^é"),
        ('sh -c "ls {{ x }}"', "a\n", True),
        ('sh -c "{{ x }}"', "reboot", True),
        ("sh -c {{ x }}", "reboot", True),
        ("sh -c {{ x }}", 7, False),
        ("sh -c 'ls; {{ x }}'", "reboot", True),
        ("sh -c 'ls && {{ x }}'", "reboot", True),
        ("sh -c 'a=b {{ x }}'", "reboot", False),
        ("eval ls {{ x }}", "reboot", False),
        ("eval {{ x }} ls", "reboot", True),
        ('eval "$(echo {{ x }})"', "reboot", True),
        ("echo {{ x }} | sh", "reboot", True),
        ("c={{ x }}; eval $c", "reboot", True),
        ('c="ls {{ x }}"; eval $c', "reboot", False),
        ("ssh host {{ x }}", "reboot", True),
        ("ssh host systemctl restart {{ x }}", "nginx", False),
        ("ssh host systemctl restart {{ x }}", "nginx; reboot", True),
        ("bash <<EOF\nsystemctl restart {{ x }}\nEOF\n", "nginx", False),
        ("bash <<EOF\n{{ x }}\nEOF\n", "reboot", True),
        ("bash <<EOF\n  {{ x }} now\nEOF\n", "reboot", True),
        ("sed s/a/{{ x }}/", "b", False),
        ("sed s/a/{{ x }}/", "b/e", True),
        ("python3 -c 'print(\"{{ x }}\")'", "a.b", True),
        ("python3 -c 'f(a, {{ x }})'", "a.b", False),
        ("python3 -c 'f(); {{ x }}'", "exit", True),
    ],
)
def test_a_call_asks_unless_the_value_is_a_plain_word_that_is_no_command(body, value, is_asked):
    template = bind(body, {"x"}, shell="bash")

    assert bool(evaluated(template, {"x": value})) is is_asked
    assert evaluated(template, {"x": value}, own={"x"}) == []


@pytest.mark.parametrize(
    "body, advice",
    [
        ('bash -c "{{ x }}"', "bash -c '… \"$1\" …' bash {{ x }}"),
        ("eval {{ x }}", "without eval"),
        ("awk {{ x }}", "awk -v x={{ x }}"),
        ("ssh host {{ x }}", "pass it as an argument"),
    ],
)
def test_the_author_is_told_the_line_and_what_to_do(body, advice):
    (code,) = bind(f"\n{body}", {"x"}, shell="bash", line=5).codes

    told = note(code)

    assert told.startswith(f"line 6: {code.program} reads the value of x as code; ")
    assert advice in told


@pytest.mark.parametrize(
    "sink, told",
    [
        ("echo $((n))", "gets into a calculation, where the shell runs it as code; give it the type integer or check"),
        ('unset "$n"', "gets into the name of a variable, where the shell runs it as code; give it an enum or check"),
    ],
)
def test_the_author_is_told_what_the_shell_evaluates(sink, told):
    (code,) = bind(f"\nn={{{{ x }}}}\n{sink}", {"x"}, shell="bash", line=5).codes

    assert note(code).startswith(f"line 6: the value of x {told}")


# --- held against real shells -------------------------------------------------------------------------------------

TEXTS = ["{{ x }}", "echo {{ x }}", "echo a {{ x }} b", "echo '{{ x }}'"]
WAYS = [
    "{}",
    "$(printf %s {})",
    "`printf %s {}`",
]
SINKS = [
    'c="{text}"; eval "$c"',
    'c="{text}"; d="$c"; sh -c "$d"',
    'eval "{text}"',
    'sh -c "{text}"',
    'bash -ec "{text}"',
    'printf %s "{text}" | sh',
    'printf %s "{text}" | cat | bash -s',
    'bash <<< "{text}"',
    "sh <<EOF\n{text}\nEOF\n",
    "cat <<EOF | sh\n{text}\nEOF\n",
    'f() {{ eval "$1"; }}; f "{text}"',
    'f() {{ local c="$*"; sh -c "$c"; }}; f "{text}"',
    'set -- "{text}"; eval "$@"',
    'for c in "{text}"; do eval "$c"; done',
    'while read -r c; do eval "$c"; done <<< "{text}"',
    'printf "%s\\n" "{text}" | xargs -I@ sh -c "echo @"',
    'source <(printf %s "{text}")',
    'trap "{text}" EXIT',
    '{{ echo; printf %s "{text}"; }} | sh',
    'printf %s "{text}"',
    'printf %s "{text}" | cat',
    'sh -c \'printf %s "$1"\' sh "{text}"',
    'c="{text}"; eval \'printf %s "$c"\'',
]
HOSTILE = [
    "touch HIT",
    "a; touch HIT",
    "$(touch HIT)",
    "`touch HIT`",
    "a' ; touch HIT; '",
    'a" ; touch HIT; "',
    "|touch HIT",
]


@settings(max_examples=120)
@given(text=st.sampled_from(TEXTS), sink=st.sampled_from(SINKS), way=st.sampled_from(WAYS), data=st.data())
def test_what_runs_a_value_was_found_before(tmp_path_factory, text, sink, way, data):
    inner = text if way == "{}" else way.replace("{}", text.replace("echo ", ""))
    body = sink.format(text=inner)
    value = data.draw(st.sampled_from(HOSTILE))
    template = bind(body, {"x"}, shell="bash")
    place = tmp_path_factory.mktemp("place")
    script = place / "script"
    script.write_text(render(template, {"x": value}))
    env = {"PATH": os.environ["PATH"], "HOME": str(place)}

    subprocess.run(
        [program("bash"), str(script)], cwd=place, env=env, capture_output=True, timeout=60, check=False, input=b""
    )

    asked: Any = evaluated(template, {"x": value})
    assert asked or not (place / "HIT").exists(), body


EVALUATED_BY_THE_SHELL = [
    "a[$(touch HIT)]",
    "a[$(touch HIT)]=1",
    "DIRSTACK[$(touch HIT)]",
    "($(touch HIT))",
    "-v a[$(touch${IFS}HIT)] -o 1",
    "-va[$(touch HIT)]",
    "touch HIT;",
]


@pytest.mark.parametrize("shell", ["bash", "sh"])
@settings(max_examples=40)
@given(given=st.sampled_from([*GIVEN, *NOT_GIVEN]), sink=st.sampled_from([*CALCULATED, *NAMED, *RUN, *ORDINARY]))
def test_what_the_shell_runs_of_a_variable_was_found_before(tmp_path_factory, shell, given, sink):
    template = bind(f"{given}\n{sink}\n", {"w"}, shell="bash")
    place = tmp_path_factory.mktemp("place")
    env = {"PATH": os.environ["PATH"], "HOME": str(place)}
    scripts = []
    for number, value in enumerate(EVALUATED_BY_THE_SHELL):
        scripts.append(place / str(number))
        scripts[-1].write_text(render(template, {"w": value}))
    driver = 'for f in "$@"; do (. "$f"); done'

    argv = [program(shell), "-c", driver, shell, *map(str, scripts)]
    subprocess.run(argv, cwd=place, env=env, capture_output=True, timeout=60, check=False, input=b"")

    assert template.codes or not (place / "HIT").exists()


@pytest.mark.parametrize("sink", [*CALCULATED, *NAMED, *RUN])
def test_what_is_found_does_run(tmp_path, sink):
    """No false alarm: every one of these places runs one of the values."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for number, value in enumerate(EVALUATED_BY_THE_SHELL):
        (tmp_path / str(number)).write_text(render(bind(f"x={{{{ w }}}}\n{sink}", {"w"}, shell="bash"), {"w": value}))
    driver = 'for f in "$@"; do (. "$f"); done'

    scripts = [str(tmp_path / str(number)) for number in range(len(EVALUATED_BY_THE_SHELL))]
    argv = [program("bash"), "-c", driver, "bash", *scripts]
    subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False, input=b"")

    assert (tmp_path / "HIT").exists()
