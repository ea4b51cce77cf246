from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.shell.heredocs import Body, remove_heredocs


@pytest.mark.parametrize(
    "source, stripped",
    [
        ("cat <<A; ls\nx y\nA\npwd", "cat <xx; ls\n   \n \npwd"),
        ("cat <<A <<'B C'\nx\nA\ny\nB C\n", "cat <xx <xxxxxx\n \n \n \n   \n"),
        ("cat <<-A\n\tx\n\t\tA\nls", "cat <xxx\n  \n   \nls"),
        ("cat 3<< \\A&ls\nA", "cat 3<xxxx&ls\n "),
        ("echo '<<A' \"<<B\" # <<C\ncat <<D\nD", "echo '<<A' \"<<B\" # <<C\ncat <xx\n "),
        ("cat <<<A <<B\nB", "cat <<<A <xx\n "),
        ("cat <<A\n A\nA \nA", "cat <xx\n  \n  \n "),
        ("echo \\ #<<A\nx\nA\nls", "echo \\ #<xx\n \n \nls"),
        ("é <<A; ü\nä\nA", "é <xx; ü\n \n "),
    ],
)
def test_heredocs_are_replaced_by_blanks_and_plain_redirections(source, stripped):
    result = remove_heredocs(source)

    assert result is not None
    assert result.text == stripped


def test_bodies_that_the_shell_expands_are_reported():
    result = remove_heredocs("cat <<A <<'B' <<C\n$(a)\nA\n$(b)\nB\nc\nC")

    assert result is not None
    assert [body for body in result.bodies if body.expands] == [Body("$(a)\n", False, 18, 23, (6, 7), (23, 24))]
    assert [(body.text, body.quoted) for body in result.bodies] == [("$(a)\n", False), ("$(b)\n", True), ("c\n", False)]


@pytest.mark.parametrize(
    "source",
    [
        "cat <<A\nx",
        "cat <<A\nx\\\nA\nA",
        "cat <<A$x\nA$x",
        "cat <<$'A'\nA",
        "cat <<A 'x\ny'\nA",
        "((1<<2))",
        "echo $((1<<2))",
        "a[1 <<A ]=1\nA",
        "[[ a =~ (<<A) ]]\nA",
        "echo @(a <<A)\nA",
        "echo `cat <<A`\nA",
        'echo "$(cat <<A)"\nA',
        "cat <\\\n<A <<B\nA\nB",
        "echo a\\\n#<<A\nA",
    ],
)
def test_a_heredoc_with_an_ambiguous_end_is_rejected(source):
    assert remove_heredocs(source) is None


@given(st.text(alphabet="<<A'\"\\#$(){}[]`\n\t -;|=~x"))
def test_any_text_keeps_its_length_and_its_lines(text):
    result = remove_heredocs(text)

    if result is not None:
        assert len(result.text) == len(text)
        assert [place for place, sign in enumerate(result.text) if sign == "\n"] == [
            place for place, sign in enumerate(text) if sign == "\n"
        ]
