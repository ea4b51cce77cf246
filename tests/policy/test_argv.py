from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.policy.argv import ALLOWED_PROGRAMS, refuse_argv


def test_the_allowlist_is_the_published_one():
    published = """
        git node npm npx bun deno python3 python pip ls cat grep find echo mkdir touch cp mv head tail wc sort uniq
        diff curl wget tar zip unzip jq sed awk which env date cargo rustc go make cmake
    """

    assert sorted(published.split()) == sorted(ALLOWED_PROGRAMS)


@pytest.mark.parametrize("name", sorted(ALLOWED_PROGRAMS))
def test_an_allowed_program_runs_by_its_name_and_not_by_a_path(name):
    assert refuse_argv([name, "--version"]) is None
    for path in (f"./{name}", f"/usr/bin/{name}", f"bin/{name}", f"{name}/", f"../{name}"):
        assert "is a path" in (refuse_argv([path]) or "")


@pytest.mark.parametrize("argv", [[], ["sh", "-c", "ls"], ["rm", "x"], [""], ["GIT"], ["git "], ["\ud800"]])
def test_anything_else_is_refused(argv):
    assert refuse_argv(argv)


def test_a_nul_character_is_refused():
    assert "NUL" in (refuse_argv(["ls", "a\0b"]) or "")


@pytest.mark.parametrize(
    "line",
    [
        "env rm x",
        "env A=1 rm x",
        "env -i rm",
        "env - rm",
        "env -u A rm",
        "env -- rm",
        "env -S ls",
        "env -iSls",
        "env --split-string=ls",
        "env --spl=ls",
        "find . -exec ls {} ;",
        "find . -execdir ls {} ;",
        "find . -ok ls {} ;",
        "find . -okdir ls {} ;",
        "find . -delete",
        "find . -fprint f",
        "find . -fprint0 f",
        "find . -fprintf f x",
        "find . -fls f",
        'awk BEGIN{system("ls")}',
        'awk BEGIN{system\t("ls")}',
        "awk BEGIN{system(x)}",
        'awk {print|"sh"}',
        'awk {print|&"sh"}',
        'awk BEGIN{"ls"|getline}',
        'awk BEGIN{x++/2|"sh"/3}',
        "awk BEGIN{f=a;@f()}",
        "awk -f prog",
        "awk -fprog",
        "awk --file=prog",
        "awk --fil prog",
        "awk -i inplace {}",
        "awk -l ext {}",
        "awk -E prog",
        "awk -Wexec prog",
        'awk -vx=1 BEGIN{system("ls")}',
        'awk -F: BEGIN{system("ls")}',
        'awk -e BEGIN{system("ls")}',
        'awk --source=BEGIN{system("ls")}',
        'awk -- BEGIN{system("ls")}',
        "sed e",
        "sed 1els",
        "sed s/a/b/e",
        "sed s/a/b/ge",
        "sed s|a|b|e",
        "sed -n p;e",
        "sed -e p -e s/a/b/e",
        "sed -ne s/a/b/e",
        "sed --expression=e",
        "sed --exp=e",
        "sed -f script",
        "sed --file=script",
        "sed $!{e\n}",
        "sed /a/e",
        "sed s/[/]/x/e",
        "tar cf a b --checkpoint-action=exec=ls",
        "tar cf a b --checkpoint-a=exec=ls",
        "tar cf a -I ls b",
        "tar cf a -Ils b",
        "tar -cIls -f a b",
        "tar cIf ls a b",
        "tar xf a --to-command=ls",
        "tar xf a --to-c=ls",
        "tar cf a --use-compress-program=ls b",
        "tar cf a --use=ls b",
        "tar xf a --rsh-command=ls",
        "tar xf a --info-script=ls",
        "tar xf a --new-volume-script=ls",
        "tar xf a -F ls",
        "tar xf host:a",
        "tar -x --file=host:a",
        "tar cf a -T list",
        "tar cf a --files-from=list",
        "git -c alias.x=!ls x",
        "git -calias.x=!ls x",
        "git -c core.pager=ls log",
        "git -c core.fsmonitor=ls status",
        "git -c tar.x.command=ls archive",
        "git --config-env=core.pager=X log",
        "git --config-e=core.pager=X log",
        "git --exec-path=. log",
        "git --exec-path=. status",
        "git --unknown log",
        "git my-alias",
        "git difftool",
        "git mergetool",
        "git filter-branch",
        "git credential fill",
        "git remote-ext x",
        "git shell",
        "git bisect run ls",
        "git submodule foreach ls",
        "git submodule --quiet foreach ls",
        "git rebase --exec ls main",
        "git rebase --exe ls main",
        "git rebase -x ls main",
        "git rebase -xls main",
        "git rebase -ix ls main",
        "git grep -Ols x",
        "git grep -O x",
        "git grep --open-files-in-pager=ls x",
        "git grep --open x",
        "git fetch --upload-pack=ls",
        "git fetch --upload=ls",
        "git clone -u ls x",
        "git clone --config core.pager=ls x",
        "git clone -c core.hooksPath=x y",
        "git clone --template=x y",
        "git init --template=x",
        "git push --receive-pack=ls",
        "git push --exec=ls",
        "git archive --exec=ls --remote=x HEAD",
        "git clone ext::ls",
        "git remote add x ext::ls",
        "git diff --ext-diff",
        "git log --textconv",
        "git config core.pager ls",
        "git config set alias.x !ls",
        "git config --global core.editor ls",
        "git config -e",
        "git config edit",
        "git help -w log",
        "sort --compress-program=ls a",
        "sort --comp ls a",
        "diff -l a b",
        "diff --paginate a b",
        "curl -K f x",
        "curl --config f x",
        "curl --engine x y",
        "wget --use-askpass=ls x",
        "wget --use-a=ls x",
        "wget -e use_askpass=ls x",
        "wget --execute=use-askpass=ls x",
        "wget --config=f x",
        "zip -T -TT ls a b",
        "zip -rTT ls a b",
        "zip --unzip-command=ls a b",
    ],
)
def test_an_allowed_program_may_not_start_another(line):
    reason = refuse_argv(line.split(" "))

    assert reason is not None
    assert reason.startswith(line.split(" ")[0])


@pytest.mark.parametrize(
    "line",
    [
        "env",
        "env A=1",
        "env -u A",
        "env -0",
        "find . -name *.py -print",
        "find . -type f -newer a -size +1k",
        "awk {print$1} f",
        "awk -F| {print$1} f",
        "awk -F: /a|b/{print} f",
        "awk $1>2||$2<3 f",
        'awk {print"a|b"} f',
        "awk -v x=1 {print(x/2)} f",
        "awk /system/ f",
        "sed s/a/b/ f",
        "sed -n 1,5p f",
        "sed -i s/e/x/g f",
        "sed -e s/a/e/ f",
        "sed s,/,x,g f",
        "sed s/[/]/x/ f",
        "sed --sandbox -f script f",
        "sed /^e/d f",
        "tar czf a.tgz b",
        "tar -xzf a.tgz -C dir",
        "tar -tvf File.tar",
        "tar --checkpoint -cf a b",
        "tar cf a --files-from=list --verbatim-files-from",
        "tar -xf a:b --force-local",
        "git status --short",
        "git -C sub log -p",
        "git -c user.name=x -c color.ui=never commit -m y",
        "git commit --template=msg",
        "git diff --text a",
        "git diff -Oorder",
        "git config user.name x",
        "git config --get core.pager",
        "git config core.pager",
        "git rebase main",
        "git bisect start",
        "git submodule update --init",
        "git clone https://example.org/x",
        "git log --oneline --graph",
        "git ls-files --exclude-standard",
        "sort -k2 a",
        "diff -u a b",
        "diff --label l a b",
        "curl -sSL https://example.org -o f",
        "curl -oKf https://example.org",
        "wget -e robots=off https://example.org",
        "zip -rT a.zip b",
        "unzip -l a.zip",
        "jq .a|.b f",
        "python -c import-os",
        "node -e 1",
        "make -C x test",
        "npm exec x",
        "cargo build",
        "date +%s",
        "echo ; rm",
        "grep -e system f",
    ],
)
def test_ordinary_work_is_not_refused(line):
    assert refuse_argv(line.split(" ")) is None


@given(st.lists(st.one_of(st.sampled_from([*sorted(ALLOWED_PROGRAMS), "-c", "-e", "--", "-", "s/a"]), st.text())))
def test_any_argv_gets_an_answer(argv):
    reason = refuse_argv(argv)

    assert reason is None or re.match(r"\S", reason)
