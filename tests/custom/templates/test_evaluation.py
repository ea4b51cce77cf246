"""Scripts that may run a value as code: detected by parsing them, and verified by running them with hostile values."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.custom.templates.binding import Kind, bind, check, must_prompt, note, render
from hilt.custom.templates.placeholders import Unbindable
from hilt.errors import ToolError
from tests.programs import program

TEXT: dict[str, Kind] = dict.fromkeys(("v", "w", "x", "y"), "text")
TEXTS: dict[str, Kind] = dict.fromkeys(TEXT, "texts")


def warnings_for(body, kinds=TEXT, **options):
    return check(bind(body, set(kinds), shell="bash", **options), kinds)


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
# code that the shell itself evaluates, after an assignment to x
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
SOURCES = [
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
NUMBERS = [
    "y={{ w }}; x=${#y}",
    'y={{ w }}; x=5; echo "$y"',
    "x=$(printf %s {{ w }} | wc -c)",
    "x=$(date +%s); echo {{ w }}",
    "x=5; while [ $x -gt 1 ]; do x=$((x - 1)); done; echo {{ w }}",
    "for x in 1 2 3; do echo {{ w }}; done",
    "for ((x = 0; x < 3; x++)); do echo {{ w }}; done",
    "echo {{ w }}",  # x is the user's
]
ORDINARY = [
    'echo "$x" $x',
    "[[ $x == 1 || -n $x ]]",
    '[ "$x" = 1 ] || [ -n "$x" ] || [ "$x" -eq 1 ]',
    's=abc; echo "${s%$x}" "${s/$x/a}" "${nope:-$x}"',
    "printf '%s %d' \"$x\" $x",
    'printf "Value: $x\\n" a',
    'declare z="$x"; export z="$x"',
    'f() { local z="$x"; echo "$z"; }; f',
    "n=${#x}; echo $((n + 1))",
    'echo $(( $(printf %s "$x" | wc -c) + 1 ))',
    "case $x in 1) echo 1;; esac",
    'for i in 1 2; do echo "$x" $((i + 1)); done',
    'b=("$x"); for ((i = 0; i < ${#b[@]}; i++)); do echo "${b[i]}"; done',
    'echo "${x:0:3}" "${x:1}" "${x@Q}"',
    'declare -p "$x"',
]
# false positives: no value reaches these, but data flow is not tracked
SUPERFLUOUS = [
    'y={{ x }}; read -p "$y" z',
    "code='echo \"$1\"'; $code {{ x }}",
    "while read -r n; do echo $((n)); done < file; echo {{ x }}",
    "f() { echo $(($1 + 1)); }; f 3; echo {{ x }}",
    "declare -A m; k={{ x }}; m[$k]=1",
    "y={{ x }}; n=${y//[^0-9]/}; echo $((n))",
    'eval "$(ssh-agent)"; echo {{ x }}',
    "n=$(grep -c {{ x }} file); echo $((n))",
    '"$KUBECTL" exec pod -c {{ x }}',
]
DATA = [
    'f() { n=1; echo "$1"; }; f {{ x }}; echo $((n))',
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
    "cat {{ x }} > file.sh",
    "grep -e {{ x }} file",
    "kubectl get pods -n {{ x }}",
    "docker ps --format '{{.Names}}' --filter {{ x }}",
    "seq $(( {{ x }} )) | sh",
    "eval sleep $(( {{ x }} ))",
    "bash -s -- {{ x }} <<'EOF'\necho \"$1\"\nEOF\n",
    "python3 - {{ x }} <<'EOF'\nimport sys\nprint(sys.argv)\nEOF\n",
    "printf '' {{ x }} {{ y }}",
    "code='import sys'; python3 -c \"$code\" {{ x }}",
    "find . -name {{ x }} -exec sh -c 'rm \"$1\"' sh {} \\;",
]


# values that the shell reads as a name, an arithmetic expression or a builtin
NAMED_DIRECTLY = [
    "unset {{ x }}",
    "read {{ x }}",
    "export {{ x }}",
    "export {{ x }}=1",
    "let {{ x }}",
    "declare -i n={{ x }}",
    "declare -a n={{ x }}",
    "printf -v {{ x }} a",
    "[[ -v {{ x }} ]]",
    "printf -v {{# y }}a {{/ y }}{{ x }}",
    "[ -v {{ x }} ]",
    "[ {{ x }} {{ y }} ]",
    "printf {{ x }} {{ y }}",
    "printf {{ x }} a",
    'printf "{{ x }}\\n" a',
    "printf -v{{ x }} a",
    "printf -{{ y }} {{ x }} a",
    "[ -{{ y }} {{ x }} ]",
    "[ {{ y }}v {{ x }} ]",
    "[ {{# y }}a{{/ y }}-v {{ x }} ]",
    "[ -{{# y }}a{{/ y }}v {{ x }} ]",
    "[[ {{# y }}a{{/ y }}-v {{ x }} ]]",
    "wait -n -p {{ x }}",
    "builtin {{ y }}let {{ x }}",
    "{{ y }}let {{ x }}",
    "l{{ y }} {{ x }}",
    "'{{ y }}'val {{ x }}",
    "{{# y }}x{{/ y }}eval {{ x }}",
    "{{# y }}a{{/ y }}{{^ y }}let{{/ y }} {{ x }}",
    "le{{# y }}ngth{{/ y }}t {{ x }}",
    "printf -v {{ x }} %s",
    "printf -v a {{ x }} {{ y }}",
    "printf -- {{ x }} {{ y }}",
    "printf $f {{ x }} {{ y }}",
    "printf {{# y }}a{{/ y }}-v {{ x }} {{ y }}",
    "printf [-]v {{ x }} {{ y }}",
    "printf {-v,} {{ x }} {{ y }}",
    "printf ''[-]v {{ x }} {{ y }}",
    "printf '-v' {{ x }} {{ y }}",
    'printf "\\\n-v" {{ x }} {{ y }}',
    'printf "$f" {{ x }} {{ y }}',
    "printf {{# y }}%s {{/ y }}{{ x }} {{ y }}",
    "{{# y }}printf %s {{/ y }}{{^ y }}printf {{/ y }}{{ x }} {{ y }}",
    "{{# y }}printf %s {{/ y }}{{ x }} {{ y }}",
    "[ a {{ x }} {{ y }} ]",
    "compgen -W {{ x }}",
    "a=(1); export a={{ x }}",
    "declare -r -a a; declare a={{ x }}",
    "declare -i n; declare n={{ x }}",
]
# places where a program may read a value as an option that runs code, and a value that does so
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
def test_a_value_that_may_be_an_option_that_runs_code_is_noted_and_asks(body, value):
    (warning, *_) = warnings_for(body)

    assert must_prompt(warning, {"x": value}, TEXT)
    assert must_prompt(warning, {"x": [value]}, TEXTS)
    assert not must_prompt(warning, {"x": ""}, TEXT)
    if warning.names:
        assert not must_prompt(warning, {"x": "plain"}, TEXT)
        assert "an option that runs something" in note(warning)


def test_a_value_that_cannot_be_an_option_is_data():
    assert [body for body in GUARDED if warnings_for(body)] == []


def test_a_script_that_may_run_a_value_as_code_is_detected():
    for body in [*EVALUATED, *NAMED_DIRECTLY]:
        warnings = warnings_for("echo first\n\n" + body, line=10)

        assert warnings, body
        last = 12 + body.count("\n")
        assert all(12 <= warning.line <= last or "cannot be checked" in warning.reason for warning in warnings), body
        assert all(must_prompt(warning, {"x": "plain"}, TEXT) for warning in warnings if not warning.names), body
        assert not any(must_prompt(warning, {"x": ""}, TEXT) for warning in warnings), body


@pytest.mark.parametrize("kind", ["chosen", "number"])
def test_choices_and_numbers_do_not_ask(kind):
    assert [body for body in EVALUATED if warnings_for(body, {"x": kind, "y": kind})] == []


@pytest.mark.parametrize("body", ["sh -c {{ y }} sh {{ x }}", "eval {{ y }}; echo {{ x }}", "sed {{ n }}p -- {{ x }}"])
def test_code_chosen_from_a_list_beside_a_value_asks(body):
    assert bool(warnings_for(body, {"x": "text", "y": "chosen", "n": "number"})) == ("{{ y }}" in body)


@pytest.mark.parametrize("source", SOURCES)
def test_evaluation_by_the_shell_is_detected_wherever_a_value_came_from(source):
    for sink in [*CALCULATED, *NAMED, *RUN]:
        warnings = warnings_for(f"\n{source}\n{sink}\n")
        assert warnings, sink
        assert any(must_prompt(warning, {"w": "a[$(id)]"}, TEXT) for warning in warnings)


@pytest.mark.parametrize("source", NUMBERS)
def test_arithmetic_with_numbers_only_does_not_ask(source):
    assert (
        warnings_for(
            f"{source}\necho $((x + 1)) ${{b[x]}} ${{b:x:1}}; [[ $x -eq 1 ]]; ((x > 1)); sed -n ${{x}}p file\n"
        )
        == []
    )


def test_a_variable_in_an_ordinary_word_stays_data():
    assert [sink for sink in ORDINARY if warnings_for(f"x={{{{ w }}}}\n{sink}\n")] == []


def test_a_value_that_stays_data_does_not_ask():
    assert [body for body in DATA if warnings_for(body)] == []


@pytest.mark.parametrize("body", SUPERFLUOUS)
def test_data_flow_is_not_tracked_so_some_harmless_scripts_ask(body):
    assert warnings_for(body)


@pytest.mark.parametrize("body", ['eval "$x"', "sh -c {{ x }}", "echo $((x))"])
def test_a_script_without_free_texts_does_not_ask(body):
    assert warnings_for(f"x={{{{ x }}}}\n{body}", {"x": "number"}) == []


def test_a_warning_has_the_line_and_a_suggestion():
    evaluated, option = (note(warning) for warning in warnings_for("\neval {{ x }}\nssh {{ x }} ls", line=5))

    assert evaluated.startswith("line 6: eval runs text")
    assert "integer" in evaluated
    assert option.startswith("line 7: ssh may read the value of x as an option")
    assert "--" in option


# --- compared with real shells ------------------------------------------------------------------------------------

# ways to evaluate x a second time, and harmless uses
MORE_SINKS = [
    'echo $(( $(echo "$x" || wc -l) ))',
    'echo $(( $(echo "$x|wc -l)") ))',
    'date() { echo "$x"; }; echo $(( $(date +%s) ))',
    "E=eval; $E '$x'",
    'eval "$x"',
    "eval $x",
    "eval 'echo $x'",
    "eval 'eval \"$x\"'",
    'sh -c "$x"',
    "sh -c '$x'",
    'sh -c \'eval "$1"\' sh "$x"',
    "sh -c 'eval \"$1\"; echo' - $x",
    'bash <<< "$x"',
    'echo "$x" | sh',
    '. <(echo "$x")',
    'trap "$x" EXIT',
    "trap 'eval \"$x\"' EXIT",
    "trap 'eval $x' 0",
    'c="echo $x"; eval "$c"',
    'c=\'eval "$x"\'; eval "$c"',
    'c=\'eval "$1"\'; sh -c "$c" sh "$x"',
    'awk "$x" /dev/null',
    "awk -v c=\"$x\" 'BEGIN{system(c)}'",
    "awk 'BEGIN{system(ENVIRON[\"x\"])}'",
    'sed "s/a/$x/" /etc/hostname',
    'echo "$x" | sed "s/^//e"',
    'echo "$x" | sed e',
    'python3 -c "$x"',
    "python3 <<EOF\n$x\nEOF",
    'xargs -I{} sh -c "{}" <<< "$x"',
    'echo "$x" | xargs sh -c',
    'echo "$x" | xargs -I% sh -c %',
    'find . -maxdepth 0 -exec sh -c "$x" \\;',
    'env -S "$x"',
    'env "$x" true',
    "timeout 5 $x",
    "command $x",
    "builtin $x",
    "$x",
    '"$x"',
    "nice $x",
    "nohup $x",
    "time $x",
    "! $x",
    "cat <<EOF\n$((x))\nEOF",
    "cat <<EOF\n${b[$x]}\nEOF",
    "cat <<EOF\n$[x]\nEOF",
    'echo "${x:$x}"',
    'b=abc; echo "${b:$x}" ${b:0:$x}',
    "echo ${b[${x}]}",
    "((b[x]++))",
    "((x++))",
    "for ((;x;)); do break; done",
    "if ((x)); then :; fi",
    "while ((x)); do break; done",
    'let "n=$x"',
    "let n=x",
    "declare -i n=$x",
    "declare -i n; n=$x",
    "local_() { local -i n; n=$x; }; local_",
    'declare -i n; read n <<< "$x"',
    'declare -i n; for n in "$x"; do :; done',
    'declare -i n; printf -v n %s "$x"',
    'typeset -i n="$x"',
    'export n="$x"; declare -i n; n+=1',
    'n="$x"; declare -i n; n+=1',
    "declare -A m; ((m[$x]++))",
    'declare -A m; m[$x]=1; unset "m[$x]"',
    "declare -A m; [[ -v m[$x] ]]",
    'declare -A m; [ -v "m[$x]" ]',
    'declare -a n="$x"',
    'n=(); declare n="$x"',
    'n=(1); export n="$x"',
    'local_() { local -a n="$x"; }; local_',
    'n=(1); local_() { local n="$x"; }; local_',
    'readonly -a n="$x"',
    'read -a b <<< "$x"; echo "${b[@]}"',
    'wait -n -p "$x"',
    'printf "$x"',
    'printf "$x" b c',
    'printf -- "$x" b',
    'printf -v n "$x" b',
    'printf "%s" "$x"',
    '[ "$x" ]',
    '[ "$x" -eq 1 ]',
    '[ "$x" "$x" ]',
    "test $x",
    '[ ! "$x" ]',
    "[[ $x ]]",
    "[[ $x < 1 ]]",
    "[[ $x =~ $x ]]",
    "[[ -n $x && 3 -gt $x ]]",
    "[[ $x -ef a ]]",
    "[[ ( $x -eq 1 ) ]]",
    "[[ ! $x -le 1 ]]",
    "[[ -t $x ]]",
    '[ -t "$x" ]',
    "[[ -o $x ]]",
    'PS4="$x"; set -x; :',
    "PS4='$(eval \"$x\")'; set -x; :",
    'BASH_ENV=<(echo "$x") bash -c :',
    'ENV="$x" sh -c :',
    'PAGER="$x" git log',
    'alias q="$x"; shopt -s expand_aliases\nq',
    'hash -p "$x" ls; ls',
    'enable -f "$x" z',
    'complete -C "$x" q',
    'compgen -C "$x"',
    'compgen -F "$x" a',
    "compgen -W '$(eval \"$x\")'",
    'bind -x "$x"',
    'mapfile -C "$x" -c 1 z <<< 1',
    'mapfile -C eval -c 1 z <<< "$x"',
    "jobs -x $x",
    'history -p "$x"',
    'source "$x"',
    '. ./"$x"',
    'bash "$x"',
    'sh ./"$x"',
    'python3 "$x"',
    'perl -e "$x"',
    'perl -ne "$x" /etc/hostname',
    'perl "-e$x"',
    'make -f - <<< "a:;$x"',
    'make "$x"',
    'tar cf /dev/null "$x" s',
    'tar -I "$x" -cf a.tar s',
    'tar --use-compress-program="$x" -cf a.tar s',
    'sort --compress-program="$x" s',
    'find "$x"',
    "find . $x",
    "xargs $x <<< a",
    'git -c alias.q="!$x" q',
    'git -c "alias.q=!$x" q',
    'flock s -c "$x"',
    'echo $(( $(echo "$x") ))',
    'echo $((`echo "$x"`))',
    "echo $(( ${y:-$x} ))",
    "echo $(( ${#x} ))",
    "echo $(( x > 1 ? 1 : 0 ))",
    "z=x; echo $((z))",
    "z=x; echo $(($z))",
    "z=x; echo $((z + 1))",
    "for z in x; do echo $((z)); done",
    'z="x"; [[ $z -eq 1 ]]',
    "z=x; declare -n r=z; echo $((r))",
    "declare -n r=x; echo $((r))",
    "declare -n x; echo $x",
    "echo ${!x}",
    "echo ${!x*}",
    "z=x; echo ${!z}",
    "z=x; echo $(( ${!z} ))",
    'z=x; eval "echo \\$$z"',
    'z=x; eval "\\$$z"',
    "echo ${x@P}",
    'echo "${x@E}" "${x@A}"',
    'eval "${x@Q}"',
    'eval "echo ${x@Q}"',
    'eval "$(declare -p x)"',
    'source /dev/stdin <<< "$x"',
    'exec <<< "$x"; sh',
    'sh < <(echo "$x")',
    'sh -s <<< "$x"',
    'sh - <<< "$x"',
    '{ sh; } <<< "$x"',
    'f() { sh; }; f <<< "$x"',
    'f() { sh; }; echo "$x" | f',
    'while :; do sh; break; done <<< "$x"',
    'echo "$x" | { cat | sh; }',
    'echo "$x" | (sh)',
    'echo "$x" | if :; then sh; fi',
    'tee >(sh) <<< "$x"',
    'echo "$x" > >(sh)',
    'printf "%s" "$x" > q; sh q',
    'printf "%s" "$x" > q; . ./q',
    'printf "%s" "$x" > q; chmod +x q; ./q',
    '/bin/sh -c "$x"',
    '"$BASH" -c "$x"',
    '$SHELL -c "$x"',
    'S=sh; $S -c "$x"',
    'F=-c; sh $F "$x"',
    'sh ${F:--c} "$x"',
    'E=eval; $E "$x"',
    'sh -c "\\$x"',
    "export x; sh -c 'eval \"$x\"'",
    "export x; sh -c 'sh -c \"$x\"'",
    'setsid sh -c "$x"',
    'sh -c "$x" &\nwait',
    '[ a = b -o -v "$x" ]',
    'test a -a -v "$x"',
    '[ "$x" = a -a "$x" ]',
    '[ "$x" -a "$x" ]',
    "b[1]=$x",
    "b[$((x))]=1",
    'b=(); b+=("$x")',
    "unset x",
    'unset -v "$x"',
    'unset "b[$x]"',
    'unset b["$x"]',
    'getopts "$x" n',
    'getopts a "$x"',
    'shift "$x"',
    'exit_() { return "$x"; }; exit_',
    'umask "$x"',
    "set -- $x; echo $(($1))",
    'set -o "$x"',
    'cd "$x"; echo $((PWD))',
    'printf %d "$x"',
    'printf "%*d" "$x" 1',
    "echo {1..$x}",
    'type "$x"',
    'command -v "$x"',
    'read -n "$x" z <<< 1',
    'history -s "$x"',
    'fc -s "$x"',
    'dirs +"$x"',
    'let "$((x))"',
    'time sh -c "$x"',
    'bash -O extglob -c "$x"',
    'bash -o pipefail -c "$x"',
    'bash +x -c "$x"',
    'bash -c "echo" -c "$x"',
    'bash -- -c "$x"',
    'env -i sh -c "$x"',
    'env A=b sh -c "$x"',
    'env - sh -c "$x"',
    'nice -n 5 sh -c "$x"',
    'stdbuf -oL sh -c "$x"',
    'xargs -a s sh -c "$x"',
    'xargs sh -c "$x" < s',
    'ls | xargs -n1 sh -c "$x"',
    'find . -name s -execdir sh -c "$x" {} +',
    "find . -name s -exec {} \\;",
]
WRAPPED = ["{}", "f() {{ {}\n}}; f", "echo `{}`", "cat <<EOF\n$({})\nEOF\n"]
VALUES = [
    "a[$(touch HIT)]",
    "DIRSTACK[$(touch HIT)]",
    "a[$(touch HIT)]=1",
    "($(touch HIT))",
    "touch HIT",
    "eval touch HIT",
    "a; touch HIT;",
    "$(touch HIT)",
    "`touch HIT`",
    "x' ; touch HIT; '",
    'x" ; touch HIT; "',
    "\ntouch HIT\n",
    "-v",
    "-va[$(touch HIT)]",
    "-v a[$(touch${IFS}HIT)] -o 1",
    "-ctouch HIT",
    "-Stouch HIT",
    "--use-compress-program=touch HIT",
    'BEGIN{system("touch HIT")}',
    "1e touch HIT",
    "s/.*/touch HIT/e",
    "__import__('os').system('touch HIT')",
    "./program",
]
AT_ONCE = 50  # scripts: a shell with thousands of arguments takes three times as long for each fork
DRIVER = """mkdir -p place; cd place; printf 'touch HIT' > program; chmod +x program
for f in "$@"; do (. "$f") < /dev/null > /dev/null 2>&1; [ -e HIT ] && { echo "$f"; rm HIT; }; done; :"""


def runs_without_prompt(folder, bodies, shell="bash", kind="text"):
    """Run the scripts with every value that does not ask; return those that ran one as code."""
    kinds = TEXTS if kind == "texts" else TEXT
    calls: dict[str, Any] = {}
    for body in bodies:
        try:
            template = bind(body, set(kinds), shell="bash")
        except Unbindable:
            continue  # it never runs
        warnings = check(template, kinds)
        for number, value in enumerate(VALUES):
            args: dict[str, Any] = {"w": value, "v": VALUES[number - 7]}
            if kind == "texts":
                args = {name: [text] for name, text in args.items()}
            if not any(must_prompt(warning, args, kinds) for warning in warnings):
                script = folder / str(len(calls))
                try:
                    script.write_text(render(template, args))
                except ToolError:
                    continue
                calls[str(script)] = body, args
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    paths, ran = list(calls), []
    for start in range(0, len(paths), AT_ONCE):
        argv = [program(shell), "-c", DRIVER, shell, *paths[start : start + AT_ONCE]]
        done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=300, input="")
        ran += done.stdout.split()
    return [calls[path] for path in ran]


@pytest.mark.starts_processes
@pytest.mark.parametrize("wrapped", WRAPPED)
def test_every_script_that_runs_a_variable_as_code_asks(tmp_path, wrapped):
    sinks = [
        sink for sink in [*CALCULATED, *NAMED, *RUN, *ORDINARY, *MORE_SINKS] if wrapped == "{}" or "\n" not in sink
    ]
    bodies = [wrapped.format(f"x={{{{ w }}}}; {sink}") for sink in sinks if "`" not in sink or "`" not in wrapped]

    assert runs_without_prompt(tmp_path, bodies) == []


@pytest.mark.starts_processes
@pytest.mark.parametrize("quotes, kind", [("{}", "text"), ("{}", "texts"), ('"{}"', "text")])
def test_every_script_that_runs_an_inline_value_as_code_asks(tmp_path, quotes, kind):
    bodies = []
    for sink in [*NAMED, *RUN, *ORDINARY, *MORE_SINKS]:
        body = sink.replace('"$x"', quotes.format("{{ w }}")).replace("$x", "{{ w }}")
        bodies.append(body)

    assert runs_without_prompt(tmp_path, bodies, kind=kind) == []


@pytest.mark.starts_processes
@pytest.mark.parametrize("shell", ["bash", "sh"])
@settings(max_examples=5)
@given(data=st.data())
def test_every_script_that_runs_a_value_as_code_asks_wherever_it_came_from(tmp_path_factory, shell, data):
    sinks = st.sampled_from([*CALCULATED, *NAMED, *RUN, *ORDINARY, *MORE_SINKS])
    bodies = [
        f"{data.draw(st.sampled_from([*SOURCES, *NUMBERS]))}\n{data.draw(sinks)}\n{data.draw(sinks)}\n"
        for _ in range(4)
    ]

    assert runs_without_prompt(tmp_path_factory.mktemp("scripts"), bodies, shell) == []


@pytest.mark.starts_processes
@pytest.mark.parametrize("sink", [*CALCULATED, *NAMED, *RUN])
def test_every_reported_place_really_runs_a_value(tmp_path, sink):
    """No false positives: each of these places runs one of the values."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    template = bind(f"x={{{{ w }}}}\n{sink}", {"w"}, shell="bash")
    for number, value in enumerate(VALUES):
        (tmp_path / str(number)).write_text(render(template, {"w": value}))
    driver = 'for f in "$@"; do (. "$f"); done'

    scripts = [str(tmp_path / str(number)) for number in range(len(VALUES))]
    argv = [program("bash"), "-c", driver, "bash", *scripts]
    subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False, input=b"")

    assert (tmp_path / "HIT").exists()
